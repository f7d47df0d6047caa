/** Tries CEL expressions against objects, and says what they cost. */
import { getText, request, YAML } from "../api.js";
import { ErrorNotice, Facts, Notice } from "../elements.js";
import { number } from "../format.js";
import { listed, objectPath, qualifiedName } from "../resource_types.js";
import { route, setQuery } from "../router.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { withoutMetadata } from "../yaml_lines.js";

/** @typedef {import("../resource_types.js").ResourceType} ResourceType */

const EXAMPLES = { policy: "object.spec.replicas <= 5", rule: "self.spec.replicas <= 5" };
const OBJECT = "metadata:\n  name: web\nspec:\n  replicas: 3\n";
const EVALUATED_AFTER_MS = 300;

export default function Cel() {
  const { query } = route.value;
  const kind = query.get("kind") === "rule" ? "rule" : "policy";
  const [written, setWritten] = useState(query.get("x"));
  const expression = written ?? EXAMPLES[kind];
  const [resource, ns, name] = ["resource", "ns", "name"].map((key) => query.get(key) ?? "");
  const [object, setObject] = useState(OBJECT);
  const [oldObject, setOldObject] = useState("");
  const [params, setParams] = useState("");
  const [answer, setAnswer] = useState(/** @type {{value?: any, error?: unknown}} */ ({}));
  const type = listed.value.find((each) => resource && qualifiedName(each) === resource);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      if (written !== null) setQuery({ x: written });
      evaluate({ kind, expression, object, oldObject, params, type }, abort.signal).then(
        (value) => abort.signal.aborted || setAnswer({ value }),
        (error) => abort.signal.aborted || setAnswer({ error }),
      );
    }, EVALUATED_AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [kind, expression, object, oldObject, params, type]);
  const load = async () => {
    if (!type) return;
    try {
      const text = await getText(objectPath(type, type.isNamespaced ? ns : "", name), { accept: YAML });
      setObject(withoutMetadata(text, ["managedFields"]));
    } catch (error) {
      setAnswer({ error });
    }
  };
  /** @param {string} key */
  const set = (key) => (/** @type {any} */ event) => setQuery({ [key]: event.target.value.trim() });
  return html`<section class="page">
    <div class="bar">
      <h1>CEL playground</h1>
      <select aria-label="Kind of expression" value=${kind} onChange=${set("kind")}>
        <option value="policy">of an admission policy: object, oldObject, request</option>
        <option value="rule">a rule of a definition: self, oldSelf</option>
      </select>
    </div>
    <label class="stack">Expression
      <textarea rows="3" spellcheck=${false} value=${expression}
        onInput=${(/** @type {any} */ event) => setWritten(event.target.value)}></textarea>
    </label>
    <${Answer} answer=${answer} />
    <div class="bar">
      <label>Type <input list="cel-types" value=${resource} placeholder="unknown" onChange=${set("resource")} /></label>
      <label>namespace <input value=${ns} onChange=${set("ns")} /></label>
      <label>name <input value=${name} onChange=${set("name")} /></label>
      <button disabled=${!type || !name} onClick=${load}>Take this object</button>
      <datalist id="cel-types">
        ${listed.value.map((each) => html`<option key=${qualifiedName(each)} value=${qualifiedName(each)}></option>`)}
      </datalist>
    </div>
    <${Document} label="Object" rows="14" text=${object} onChange=${setObject} />
    <${Document} label=${kind === "policy" ? "oldObject, before an update" : "oldSelf, before an update"} rows="5" text=${oldObject} onChange=${setOldObject} />
    ${kind === "policy" && html`<${Document} label="params" rows="3" text=${params} onChange=${setParams} />`}
  </section>`;
}

/** @param {{label: string, rows: string, text: string, onChange: (text: string) => void}} props */
function Document({ label, rows, text, onChange }) {
  const write = (/** @type {any} */ event) => onChange(event.target.value);
  return html`<label class="stack">${label}
    <textarea rows=${rows} spellcheck=${false} value=${text} onInput=${write}></textarea>
  </label>`;
}

/**
 * @param {{kind: string, expression: string, object: string, oldObject: string, params: string, type: ResourceType | undefined}} asked
 * @param {AbortSignal} signal
 */
async function evaluate({ kind, expression, object, oldObject, params, type }, signal) {
  const typed = type && { group: type.group, version: type.version, resource: type.resource };
  // JSON is YAML: only the object is what somebody has written.
  const lines = [
    `kind: ${kind}`,
    `expression: ${JSON.stringify(expression)}`,
    ...(typed ? [`resource: ${JSON.stringify(typed)}`] : []),
    ...documentLines("object", object),
    ...documentLines("oldObject", oldObject),
    ...(kind === "policy" ? documentLines("params", params) : []),
  ];
  const answer = await request("/console/cel", {
    method: "POST",
    type: YAML,
    body: lines.join("\n"),
    signal,
  });
  return answer.json();
}

/**
 * A field of the request with a document that somebody has written; none if it is empty.
 * @param {string} name
 * @param {string} text
 */
function documentLines(name, text) {
  return text.trim() ? [`${name}:`, ...text.split("\n").map((line) => `  ${line}`)] : [];
}

/** @param {{answer: {value?: any, error?: unknown}}} props */
function Answer({ answer: { value, error } }) {
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return null;
  if (value.issues.length) return html`<${Issues} issues=${value.issues} />`;
  const tone = value.error || value.result === false ? "bad" : "good";
  const { min, max } = value.estimatedCost ?? {};
  return html`<div class="card" role="status">
    <${Facts}
      items=${[
        {
          label: "Result",
          value: html`<strong class="mono" data-tone=${tone}>${value.error ?? JSON.stringify(value.result)}</strong>`,
        },
        { label: "Type", value: value.type },
        {
          label: "Cost",
          value: value.cost !== null && `${number(value.cost)} of ${number(value.costLimit)}`,
        },
        {
          label: "Estimated cost",
          value: value.estimatedCost && `${number(min)} to ${max === null ? "unlimited" : number(max)}`,
        },
      ]}
    />
    ${value.warnings.length > 0 && html`<${Issues} issues=${value.warnings} />`}
  </div>`;
}

/** @param {{issues: any[]}} props */
function Issues({ issues }) {
  return html`<${Notice} tone="bad">
    ${issues.map((each) => html`<p><code>${each.line}:${each.column}</code> ${each.message}</p>`)}
  </${Notice}>`;
}
