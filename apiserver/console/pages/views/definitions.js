/** The schema of each type as documentation, and how custom types are defined. */
import { getJson } from "../api.js";
import { ErrorNotice, Facts, Loading, SearchField, SimpleTable, useKeys, useLoaded } from "../elements.js";
import { schemaOf, typeText } from "../openapi.js";
import { apiVersion, collectionPath, typeOfSteps, search, types, typeSteps } from "../resource_types.js";
import { href, route, setQuery } from "../router.js";
import { html, useState } from "../vendor/preact.js";

/** @typedef {import("../resource_types.js").ResourceType} ResourceType */
/** @typedef {import("../openapi.js").TypeSchema} TypeSchema */

const FOUND_MAX = 300;

export default function Definitions() {
  useKeys([{ keys: "/", text: "Filter", run: () => document.getElementById("filter")?.focus() }]);
  if (!types.value.length) return html`<${Loading} />`;
  if (route.value.steps.length > 1) {
    const type = typeOfSteps(route.value.steps);
    return type
      ? html`<${Definition} type=${type} />`
      : html`<${ErrorNotice} error="The server does not serve this type." />`;
  }
  const words = route.value.query.get("q") ?? "";
  const rows = search(words)
    .slice(0, FOUND_MAX)
    .map((type) => [
      html`<a href=${href(["definitions", ...typeSteps(type).slice(1)])}>${type.kind}</a>`,
      type.resource,
      apiVersion(type),
      type.isNamespaced ? "namespaced" : "cluster",
      type.shortNames.join(", "),
    ]);
  return html`<section class="page">
    <div class="bar"><h1>Definitions</h1><${SearchField} id="filter" label="Filter types" value=${words} onChange=${(/** @type {string} */ q) => setQuery({ q })} /></div>
    <div class="card"><${SimpleTable} label="Types" columns=${["Kind", "Resource", "API version", "Scope", "Short names"]} rows=${rows} /></div>
  </section>`;
}

/** @param {{type: ResourceType}} props */
function Definition({ type }) {
  const { value: schema, error } = useLoaded(() => schemaOf(type), [type]);
  const others = types.value.filter((each) => each.group === type.group && each.resource === type.resource);
  return html`<section class="page">
    <div class="bar">
      <h1>${type.kind} <span class="muted">${apiVersion(type)}</span></h1>
      ${others.map((each) => html`<a key=${each.version} class="button" aria-current=${each === type ? "page" : undefined} href=${href(["definitions", ...typeSteps(each).slice(1)])}>${each.version}</a>`)}
      <span class="space"></span>
      <a class="button" href=${href(typeSteps(type))}>Objects</a>
    </div>
    <${Facts}
      items=${[
        { label: "Resource", value: type.resource },
        { label: "Scope", value: type.isNamespaced ? "namespaced" : "cluster" },
        { label: "Short names", value: type.shortNames.join(", ") },
        { label: "Verbs", value: type.verbs.join(", ") },
        { label: "Subresources", value: type.subresources.join(", ") },
        { label: "Categories", value: type.categories.join(", ") },
      ]}
    />
    <${Custom} type=${type} />
    <div class="card fields">
      <h2>Fields</h2>
      ${error !== null && html`<${ErrorNotice} error=${error} />`} ${!schema && !error && html`<${Loading} />`}
      ${schema && html`<p>${schema.root.description}</p><${Fields} schema=${schema.root} of=${schema} seen=${[]} />`}
    </div>
  </section>`;
}

/** How a custom type is defined and stored. @param {{type: ResourceType}} props */
function Custom({ type }) {
  const name = `${type.resource}.${type.group}`;
  const isCustom = type.group.includes(".");
  const { value } = useLoaded(
    async (signal) =>
      isCustom
        ? getJson(`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`, { signal }).catch(
            () => null,
          )
        : null,
    [name],
  );
  if (!value) return null;
  const { spec, status } = value;
  const rows = spec.versions.map((/** @type {any} */ each) => [
    each.name,
    each.served ? "yes" : "no",
    each.storage ? "yes" : "no",
    status.storedVersions?.includes(each.name) ? "yes" : "no",
    each.deprecated ? html`<span data-tone="waiting">${each.deprecationWarning || "deprecated"}</span>` : "",
  ]);
  const conditions = (status.conditions ?? []).filter(
    (/** @type {any} */ each) =>
      (each.status === "True") !== ["Established", "NamesAccepted"].includes(each.type) &&
      !each.type.startsWith("KubernetesAPI"),
  );
  return html`<div class="card">
    <h2>Versions</h2>
    <${SimpleTable} label="Versions" columns=${["Version", "Served", "Storage version", "Stored", ""]} rows=${rows} />
    <${Facts} items=${[
      { label: "Conversion", value: spec.conversion?.strategy },
      {
        label: "Webhook",
        value:
          spec.conversion?.webhook?.clientConfig?.service?.name ??
          spec.conversion?.webhook?.clientConfig?.url,
      },
    ]} />
    ${conditions.map((/** @type {any} */ each) => html`<p data-tone="bad">${each.type}: ${each.message}</p>`)}
    <a href=${href(["object", "apiextensions.k8s.io", "v1", "customresourcedefinitions", "-", name])}>The definition itself</a>
    <span class="muted"> · </span><code>${collectionPath(type)}</code>
  </div>`;
}

/** @param {{schema: any, of: TypeSchema, seen: any[]}} props seen: the schemas above, as some contain themselves */
function Fields({ schema, of, seen }) {
  const required = new Set(schema.required ?? []);
  return html`<ul>
    ${Object.entries(schema.properties ?? {}).map(([name, each]) => html`<${Field} key=${name} name=${name} schema=${of.resolve(each)} isRequired=${required.has(name)} of=${of} seen=${[...seen, schema]} />`)}
  </ul>`;
}

/** @param {{name: string, schema: any, isRequired: boolean, of: TypeSchema, seen: any[]}} props */
function Field({ name, schema, isRequired, of, seen }) {
  const [isOpen, setIsOpen] = useState(false);
  const inner = innerOf(schema, of);
  const head = html`<span class="name">${name}</span> <code>${typeText(schema)}</code>${isRequired ? html` <span data-tone="waiting">required</span>` : ""}
    ${schema.default !== undefined ? html` <span class="muted">default ${JSON.stringify(schema.default)}</span>` : ""}`;
  const about = html`<div class="about">${schema.description}</div>
    ${(schema["x-kubernetes-validations"] ?? []).map((/** @type {any} */ rule) => html`<div class="about"><code>${rule.rule}</code> ${rule.message}</div>`)}`;
  if (!inner.properties) return html`<li>${head}${about}</li>`;
  return html`<li>
    <details onToggle=${(/** @type {any} */ event) => setIsOpen(event.target.open)}>
      <summary>${head}</summary>
      ${about} ${isOpen && html`<${Fields} schema=${inner} of=${of} seen=${seen} />`}
    </details>
  </li>`;
}

/** What has the fields: the schema, or that of its items or values. @param {any} schema @param {TypeSchema} of @returns {any} */
function innerOf(schema, of) {
  if (schema.items) return innerOf(of.resolve(schema.items), of);
  if (typeof schema.additionalProperties === "object")
    return innerOf(of.resolve(schema.additionalProperties), of);
  return schema;
}
