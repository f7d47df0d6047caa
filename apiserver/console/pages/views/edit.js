/** Edits or creates an object as YAML. What would be stored is shown before it is. */
import { ApiError, APPLY, FIELD_MANAGER, getJson, getText, request, YAML } from "../api.js";
import { Dialog, ErrorNotice, Loading, Notice, useKeys, useLoaded } from "../elements.js";
import { schemaOf } from "../openapi.js";
import {
  apiVersion,
  collectionPath,
  typeOfSteps,
  typeSteps,
  objectPath,
  objectSteps,
  types,
} from "../resource_types.js";
import { go, guardLeaving, href, route } from "../router.js";
import { config } from "../session.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { OF_VERSION, values, withoutMetadata } from "../yaml_lines.js";
import { DiffView } from "../yaml_view.js";
import { YamlEditor } from "../yaml_editor.js";
import { lastSaved } from "./last_saved.js";

/** @typedef {import("../resource_types.js").ResourceType} ResourceType */

// What the server keeps by itself, and what tells writers of each other.
const OF_SERVER = ["managedFields", "creationTimestamp", "generation", "uid", "selfLink"];

export default function Edit() {
  const { steps, query } = route.value;
  const [what, , , , namespace, name] = steps;
  const type = typeOfSteps(steps);
  if (!types.value.length) return html`<${Loading} />`;
  if (!type) return html`<${ErrorNotice} error="The server does not serve this type." />`;
  if (config.value.readOnly) return html`<${ErrorNotice} error="This console is read-only." />`;
  if (what === "create")
    return html`<${Editor} type=${type} namespace=${query.get("ns") || "default"} name="" text=${template(type, query.get("ns") || "default")} />`;
  return html`<${Existing} type=${type} namespace=${namespace === "-" ? "" : namespace} name=${name} />`;
}

/** @param {ResourceType} type @param {string} namespace */
function template(type, namespace) {
  return `apiVersion: ${apiVersion(type)}
kind: ${type.kind}
metadata:
  name: ""
${type.isNamespaced ? `  namespace: ${namespace}\n` : ""}`;
}

/** @param {{type: ResourceType, namespace: string, name: string}} props */
function Existing({ type, namespace, name }) {
  const { value, error, reload } = useLoaded(
    (signal) => getText(objectPath(type, namespace, name), { accept: YAML, signal }),
    [objectPath(type, namespace, name)],
  );
  if (error) return html`<${ErrorNotice} error=${error} onRetry=${reload} />`;
  if (value === null) return html`<${Loading} />`;
  return html`<${Editor} key=${value} type=${type} namespace=${namespace} name=${name} text=${value} onReload=${reload} />`;
}

/**
 * @typedef {object} Review what the server would do
 * @property {string} before
 * @property {string} after
 * @property {string[]} warnings
 */

/** @param {{type: ResourceType, namespace: string, name: string, text: string, onReload?: () => void}} props */
function Editor({ type, namespace, name, text, onReload }) {
  const begun = useMemo(() => withoutMetadata(text, OF_SERVER), [text]);
  // What the edit began with, and what the editor is given: both are newer after a conflict.
  const base = useRef(text);
  const [given, setGiven] = useState(begun);
  const written = useRef(begun);
  // Where somebody wants to go, who has not saved.
  const [target, setTarget] = useState("");
  const mayLeave = useRef(false);
  const [mode, setMode] = useState("replace");
  const [review, setReview] = useState(/** @type {Review | null} */ (null));
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  // Who has changed the object meanwhile, if that is known.
  const [writer, setWriter] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const schema = useMemo(() => schemaOf(type), [type]);
  const saveButton = useRef(/** @type {HTMLElement | null} */ (null));
  const isNew = !name;
  const path = isNew ? "" : objectPath(type, namespace, name);

  /** @param {any} event */
  const chooseMode = (event) => {
    setMode(event.target.value);
    setReview(null);
  };
  /** @param {string} now */
  const note = (now) => {
    written.current = now;
    setReview(null);
  };
  /** @param {boolean} isTrial @param {boolean} [isForced] */
  const write = async (isTrial, isForced = false) => {
    setIsBusy(true);
    setError(null);
    /** @type {string[]} */
    const warnings = [];
    try {
      // An apply changes the object as it is by then, whatever others have made of it meanwhile.
      if (mode === "apply" && !isNew) base.current = (await storedText(path)) ?? base.current;
      const answer = await send({
        type,
        namespace,
        name,
        mode,
        text: written.current,
        isTrial,
        isForced,
        warnings,
      });
      const stored = await answer.text();
      if (isTrial)
        setReview({
          before: isNew ? "" : withoutMetadata(base.current, OF_VERSION),
          after: withoutMetadata(stored, OF_VERSION),
          warnings,
        });
      else saved(stored);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
      setReview(null);
      setWriter("");
      if (!isNew && mode === "replace" && isConflict(failure)) setWriter(await lastManager(path));
    } finally {
      setIsBusy(false);
    }
  };
  /** Goes on from what is stored now, with the text as it was written. */
  const keepText = async () => {
    base.current = await getText(path, { accept: YAML });
    const version = metadataOf(base.current).resourceVersion;
    written.current = written.current.replace(/^( +resourceVersion:).*$/m, `$1 "${version}"`);
    setGiven(written.current);
    await write(true);
  };
  /** @param {string} stored */
  const saved = (stored) => {
    const metadata = metadataOf(stored);
    const stands = { namespace: metadata.namespace ?? "", name: metadata.name ?? name };
    if (!isNew) {
      lastSaved.value = {
        path,
        before: withoutMetadata(base.current, ["resourceVersion", "managedFields"]),
        stored,
        resourceVersion: metadata.resourceVersion ?? "",
        error: "",
        isUndone: false,
      };
    }
    mayLeave.current = true;
    go(href(objectSteps(type, stands.namespace, stands.name), { tab: "yaml" }));
  };
  useEffect(() => {
    const isKept = () => written.current !== begun && !mayLeave.current;
    const keep = (/** @type {Event} */ event) => isKept() && event.preventDefault();
    addEventListener("beforeunload", keep);
    const unguard = guardLeaving((url) => {
      if (isKept()) setTarget(url);
      return !isKept();
    });
    return () => {
      removeEventListener("beforeunload", keep);
      unguard();
    };
  }, []);
  const leave = () =>
    go(
      isNew
        ? href(typeSteps(type), { ns: namespace })
        : href(objectSteps(type, namespace, name), { tab: "yaml" }),
    );
  const discard = () => {
    mayLeave.current = true;
    go(target);
  };
  useKeys([{ keys: "Escape", text: "Leave without saving", run: leave }]);
  return html`<section class="page full edit" aria-label=${isNew ? `Create ${type.kind}` : `Edit ${name}`}>
    <div class="bar">
      <h1>${isNew ? `Create ${type.kind}` : html`Edit ${type.kind} <span class="muted">${namespace && `${namespace} / `}</span>${name}`}</h1>
      ${
        !isNew &&
        html`<label>
        ${"Write by "}
        <select value=${mode} onChange=${chooseMode}>
          <option value="replace">replacing the object</option>
          ${type.verbs.includes("patch") && html`<option value="apply">server-side apply</option>`}
        </select>
      </label>`
      }
      ${mode === "apply" && html`<span class="muted">The console becomes a manager of every field in the text.</span>`}
      <span class="space"></span>
      <button onClick=${leave}>Cancel</button>
      <button disabled=${isBusy} onClick=${() => write(true)}>Review <kbd>Ctrl ⏎</kbd></button>
      <button class="primary" ref=${saveButton} disabled=${isBusy} onClick=${() => write(false)}>Save <kbd>Ctrl S</kbd></button>
    </div>
    ${error && html`<${Refusal} error=${error} mode=${mode} writer=${writer} onReload=${onReload} onKeep=${keepText} onForce=${() => write(false, true)} />`}
    <div class=${review ? "halves" : "whole"}>
      <${YamlEditor}
        text=${given}
        schema=${schema}
        onChange=${note}
        onReview=${() => write(true)}
        onSave=${() => write(false)}
        onLeave=${() => saveButton.current?.focus()}
      />
      ${
        review &&
        html`<section class="review" aria-label="What would be stored">
        <h2>What would be stored</h2>
        ${review.warnings.map((warning) => html`<${Notice} tone="bad">${warning}</${Notice}>`)}
        <${DiffView} label="What would change" before=${review.before} after=${review.after} />
      </section>`
      }
    </div>
    ${target && html`<${LeaveDialog} onStay=${() => setTarget("")} onLeave=${discard} />`}
  </section>`;
}

/** @param {{onStay: () => void, onLeave: () => void}} props */
function LeaveDialog({ onStay, onLeave }) {
  return html`<${Dialog} title="Discard your changes?" onClose=${onStay}>
    <div class="buttons">
      <button onClick=${onStay}>Keep editing</button>
      <button class="danger" onClick=${onLeave}>Discard</button>
    </div>
  </${Dialog}>`;
}

/** @param {ApiError} error */
function isConflict(error) {
  return error.code === 409 && error.status.reason === "Conflict";
}

/**
 * An object as it is now; null if there is none.
 * @param {string} path
 */
async function storedText(path) {
  try {
    return await getText(path, { accept: YAML });
  } catch (failure) {
    if (failure instanceof ApiError && failure.code === 404) return null;
    throw failure;
  }
}

/**
 * The manager that has written an object last; empty if that is not known.
 * @param {string} path
 */
async function lastManager(path) {
  try {
    /** @type {{manager?: string, time?: string}[]} */
    const managed = (await getJson(path)).metadata.managedFields ?? [];
    const times = managed.map(({ time }) => time ?? "");
    return managed[times.lastIndexOf(times.toSorted().at(-1) ?? "")]?.manager ?? "";
  } catch {
    return "";
  }
}

/** @param {{error: ApiError, mode: string, writer: string, onReload?: () => void, onKeep: () => void, onForce: () => void}} props */
function Refusal({ error, mode, writer, onReload, onKeep, onForce }) {
  return html`<${ErrorNotice} error=${error} />
    ${isConflict(error) && mode === "apply" && html`<button class="danger" onClick=${onForce}>Take these fields over from their managers</button>`}
    ${
      isConflict(error) &&
      mode === "replace" &&
      onReload &&
      html`<${Notice}>
      ${writer ? `The manager ${writer}` : "Somebody"} has changed the object meanwhile.
      <button onClick=${onKeep}>Keep my text and review it</button>
      <button onClick=${onReload}>Discard my text and reload</button>
    </${Notice}>`
    }`;
}

/**
 * @param {{type: ResourceType, namespace: string, name: string, mode: string, text: string, isTrial: boolean, isForced: boolean, warnings: string[]}} write
 */
function send({ type, namespace, name, mode, text, isTrial, isForced, warnings }) {
  const query = new URLSearchParams({
    fieldManager: FIELD_MANAGER,
    fieldValidation: "Strict",
    ...(isTrial ? { dryRun: "All" } : {}),
  });
  const onWarnings = (/** @type {string[]} */ found) => warnings.push(...found);
  if (!name) {
    const path = collectionPath(type, metadataOf(text).namespace ?? namespace);
    return request(`${path}?${query}`, { method: "POST", type: YAML, accept: YAML, body: text, onWarnings });
  }
  const path = objectPath(type, namespace, name);
  if (mode === "replace")
    return request(`${path}?${query}`, { method: "PUT", type: YAML, accept: YAML, body: text, onWarnings });
  if (isForced) query.set("force", "true");
  // An apply says what its manager wants, not which version it has seen.
  const body = withoutMetadata(text, ["managedFields", "resourceVersion"]);
  return request(`${path}?${query}`, { method: "PATCH", type: APPLY, accept: YAML, body, onWarnings });
}

/**
 * The plain fields of the metadata in a YAML text.
 * @param {string} text
 * @returns {Record<string, string | undefined>}
 */
function metadataOf(text) {
  const found = values(text);
  return Object.fromEntries(
    ["name", "namespace", "resourceVersion"].map((name) => {
      const value = found.get(JSON.stringify(["metadata", name]));
      return [name, value === undefined ? undefined : String(value)];
    }),
  );
}
