/** One object: what it says, who wrote it, what belongs to it, and how it came to be. */
import { ErrorNotice, Facts, Loading, Notice, Tabs, useKeys } from "../elements.js";
import { age, moment } from "../format.js";
import { useObject } from "../live_object.js";
import { apiVersion, typeOfSteps, objectPath, types, typeSteps } from "../resource_types.js";
import { go, href, route, setQuery } from "../router.js";
import { config } from "../session.js";
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { DeleteDialog } from "./delete_dialog.js";
import { lastSaved, undoSaved } from "./last_saved.js";
import { FormTab } from "./object_form.js";
import { HistoryTab } from "./object_history.js";
import { OverviewTab } from "./object_overview.js";
import { YamlTab } from "./object_yaml.js";

const TABS = [
  { id: "overview", label: "Overview", component: OverviewTab },
  { id: "yaml", label: "YAML", component: YamlTab },
  { id: "form", label: "Fields", component: FormTab },
  { id: "history", label: "History", component: HistoryTab },
];

export default function ObjectPage() {
  const [namespace, name] = route.value.steps.slice(4);
  const type = typeOfSteps(route.value.steps);
  if (!types.value.length) return html`<${Loading} />`;
  if (!type || !name) return html`<${ErrorNotice} error="The server does not serve this type." />`;
  return html`<${ObjectView} type=${type} namespace=${namespace === "-" ? "" : namespace} name=${name} />`;
}

/** @param {{type: import("../resource_types.js").ResourceType, namespace: string, name: string}} props */
function ObjectView({ type, namespace, name }) {
  const live = useObject(type, namespace, name);
  const [isDeleting, setIsDeleting] = useState(false);
  const object = live.value.value;
  const current = route.value.query.get("tab") || "overview";
  const path = objectPath(type, namespace, name);
  const target = [type.group || "core", type.version, type.resource, namespace || "-", name];
  const { readOnly } = config.value;
  const canEdit = !readOnly && type.verbs.includes("update");
  const canDelete = !readOnly && type.verbs.includes("delete");
  const saved = lastSaved.value?.path === path ? lastSaved.value : null;
  /** @param {string} tab */
  const choose = (tab) => setQuery({ tab });
  const edit = () => go(href(["edit", ...target]));
  useKeys([
    { keys: "o", text: "Overview", run: () => choose("overview") },
    { keys: "y", text: "YAML", run: () => choose("yaml") },
    { keys: "f", text: "Fields", run: () => choose("form") },
    { keys: "h", text: "History", run: () => choose("history") },
    ...(canEdit ? [{ keys: "e", text: "Edit", run: edit }] : []),
    ...(canDelete ? [{ keys: "d Delete", text: "Delete", run: () => setIsDeleting(true) }] : []),
    ...(saved && !saved.isUndone ? [{ keys: "u", text: "Undo what was saved last", run: undoSaved }] : []),
  ]);
  if (live.error.value)
    return html`<div class="page"><${ErrorNotice} error=${live.error.value} onRetry=${() => live.retry()} /></div>`;
  if (!object) return html`<${Loading} />`;
  const tab = TABS.find(({ id }) => id === current) ?? TABS[0];
  const { metadata } = object;
  return html`<section class="page object" aria-label=${`${type.kind} ${name}`}>
    <div class="bar">
      <h1><a href=${href(typeSteps(type), { ns: namespace })}>${type.kind}</a> ${namespace && html`<span class="muted">${namespace} / </span>`}${name}</h1>
      ${metadata.deletionTimestamp && html`<span class="badge" data-tone="waiting">terminating for ${age(metadata.deletionTimestamp)}</span>`}
      <span class="space"></span>
      ${canEdit && html`<button onClick=${edit}>Edit</button>`}
      ${canDelete && html`<button class="danger" onClick=${() => setIsDeleting(true)}>Delete…</button>`}
    </div>
    ${live.isDeleted.value && html`<${Notice} tone="bad">This object has been deleted. What is shown is its last state.</${Notice}>`}
    ${saved && (saved.isUndone ? html`<${Undone} />` : html`<${Notice}>Saved. ${saved.error ? html`<span data-tone="bad">${saved.error}</span>` : html`<button onClick=${undoSaved}>Undo</button> <kbd>u</kbd>`}</${Notice}>`)}
    <${Facts}
      items=${[
        { label: "API version", value: apiVersion(type) },
        {
          label: "Created",
          value: html`<span title=${moment(metadata.creationTimestamp ?? "")}>${age(metadata.creationTimestamp)} ago</span>`,
        },
        { label: "Version", value: metadata.resourceVersion },
        { label: "Generation", value: metadata.generation },
        { label: "UID", value: metadata.uid && html`<code>${metadata.uid}</code>` },
      ]}
    />
    <${Tabs} tabs=${TABS} current=${tab.id} onChoose=${choose} />
    <div role="tabpanel" class="panel" aria-label=${tab.label}>
      <${tab.component} type=${type} object=${object} path=${path} />
    </div>
    ${isDeleting && html`<${DeleteDialog} kind=${type.kind} objects=${[{ label: name, path, uid: metadata.uid }]} onClose=${() => setIsDeleting(false)} />`}
  </section>`;
}

/** Says once that the last change was undone, and takes the focus that its button had: Tab goes on from there. */
function Undone() {
  const notice = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (document.activeElement === document.body) notice.current?.focus();
    return () => {
      if (lastSaved.value?.isUndone) lastSaved.value = null;
    };
  }, []);
  return html`<div class="notice" role="status" tabindex="-1" ref=${notice}>Undone.</div>`;
}
