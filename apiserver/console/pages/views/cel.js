/** Tries CEL expressions against objects, and says what they cost. */
import { getJson, post } from "../api.js";
import { ErrorNotice, Facts, Notice } from "../elements.js";
import { number } from "../format.js";
import { listed, objectPath } from "../resource_types.js";
import { route, setQuery } from "../router.js";
import { html, useEffect, useState } from "../vendor/preact.js";

const EXAMPLES = { policy: "object.metadata.name.startsWith('web')", rule: "self.spec.replicas <= 5" };
const EVALUATED_AFTER_MS = 300;

export default function Cel() {
  const { query } = route.value;
  const kind = query.get("kind") === "rule" ? "rule" : "policy";
  const expression = query.get("x") ?? EXAMPLES[kind];
  const [resource, ns, name] = [
    query.get("resource") ?? "pods",
    query.get("ns") ?? "",
    query.get("name") ?? "",
  ];
  const [object, setObject] = useState('{"metadata": {"name": "web-1"}, "spec": {"replicas": 3}}');
  const [answer, setAnswer] = useState(/** @type {{value?: any, error?: unknown}} */ ({}));
  const type = listed.value.find(
    (each) => each.resource === resource || `${each.resource}.${each.group}` === resource,
  );
  useEffect(() => {
    const timer = setTimeout(async () => {
      try {
        const typed = type && { group: type.group, version: type.version, resource: type.resource };
        setAnswer({
          value: await post("/console/cel", {
            kind,
            expression,
            object: JSON.parse(object),
            ...(typed && { resource: typed }),
          }),
        });
      } catch (error) {
        setAnswer({
          error: error instanceof SyntaxError ? new Error(`The object is not JSON: ${error.message}`) : error,
        });
      }
    }, EVALUATED_AFTER_MS);
    return () => clearTimeout(timer);
  }, [kind, expression, object, type]);
  const load = async () => {
    if (!type) return;
    try {
      setObject(JSON.stringify(await getJson(objectPath(type, type.isNamespaced ? ns : "", name)), null, 2));
    } catch (error) {
      setAnswer({ error });
    }
  };
  return html`<section class="page">
    <div class="bar">
      <h1>CEL playground</h1>
      <select aria-label="Kind of expression" value=${kind} onChange=${(/** @type {any} */ event) => setQuery({ kind: event.target.value })}>
        <option value="policy">of an admission policy: object, oldObject, request</option>
        <option value="rule">a rule of a definition: self, oldSelf</option>
      </select>
    </div>
    <label class="stack">Expression <textarea rows="3" spellcheck=${false} value=${expression} onInput=${(/** @type {any} */ event) => setQuery({ x: event.target.value })}></textarea></label>
    <${Answer} answer=${answer} />
    <div class="bar">
      <label>Type <input list="cel-types" value=${resource} onChange=${(/** @type {any} */ event) => setQuery({ resource: event.target.value.trim() })} /></label>
      <label>namespace <input value=${ns} onChange=${(/** @type {any} */ event) => setQuery({ ns: event.target.value.trim() })} /></label>
      <label>name <input value=${name} onChange=${(/** @type {any} */ event) => setQuery({ name: event.target.value.trim() })} /></label>
      <button disabled=${!type || !name} onClick=${load}>Take this object</button>
      <datalist id="cel-types">${listed.value.map((each) => html`<option key=${each.resource + each.group} value=${each.group ? `${each.resource}.${each.group}` : each.resource}></option>`)}</datalist>
    </div>
    <label class="stack">Object (JSON) <textarea rows="16" spellcheck=${false} value=${object} onInput=${(/** @type {any} */ event) => setObject(event.target.value)}></textarea></label>
  </section>`;
}

/** @param {{answer: {value?: any, error?: unknown}}} props */
function Answer({ answer: { value, error } }) {
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return null;
  if (value.issues?.length) {
    return html`<${Notice} tone="bad">${value.issues.map((/** @type {any} */ each) => html`<p><code>${each.line}:${each.column}</code> ${each.message}</p>`)}</${Notice}>`;
  }
  const tone = value.error || value.result === false ? "bad" : "good";
  const { min, max, perObject, limit } = value.estimatedCost ?? {};
  const estimated = value.estimatedCost
    ? `${number(min)} to ${max === null ? "any" : number(max)}; for an object ${perObject === null ? "any" : number(perObject)} of ${number(limit)}`
    : "";
  return html`<div class="card" role="status">
    <${Facts}
      items=${[
        {
          label: "Result",
          value: html`<strong class="mono" data-tone=${tone}>${value.error ?? JSON.stringify(value.result)}</strong>`,
        },
        { label: "Type", value: value.type },
        { label: "Cost", value: value.cost !== null && `${number(value.cost)} of ${number(value.costLimit)}` },
        { label: "Estimated", value: estimated },
        { label: "Warnings", value: value.warnings.map((/** @type {any} */ each) => `${each.line}:${each.column} ${each.message}`).join("; ") },
      ]}
    />
  </div>`;
}
