/** The fields of an object with what the schema says about them. */
import { Loading, useLoaded } from "../elements.js";
import { schemaOf, typeText } from "../openapi.js";
import { html } from "../vendor/preact.js";

/** @typedef {import("../openapi.js").TypeSchema} TypeSchema */

// Deeper ones are closed at first.
const OPEN_DEPTH = 3;
const HIDDEN = new Set(["managedFields"]);

/** @param {{type: import("../resource_types.js").ResourceType, object: any}} props */
export function FormTab({ type, object }) {
  const { value: schema, error } = useLoaded(() => schemaOf(type), [type]);
  if (!schema && !error) return html`<${Loading} />`;
  return html`<div class="card fields"><${Children} value=${object} schema=${schema?.root ?? {}} of=${schema} depth=${0} /></div>`;
}

/** @param {{value: any, schema: any, of: TypeSchema | null, depth: number}} props */
function Children({ value, schema, of, depth }) {
  const entries = Array.isArray(value)
    ? value.map((item, at) => /** @type {[number, any]} */ ([at, item]))
    : Object.entries(value);
  return html`<ul>
    ${entries
      .filter(([name]) => !HIDDEN.has(String(name)))
      .map(
        ([name, child]) =>
          html`<${FieldItem} key=${name} name=${name} value=${child} schema=${of?.below(schema, name) ?? {}} of=${of} depth=${depth} />`,
      )}
  </ul>`;
}

/** @param {{name: string | number, value: any, schema: any, of: TypeSchema | null, depth: number}} props */
function FieldItem({ name, value, schema, of, depth }) {
  const label = typeof name === "number" ? itemLabel(name, value) : name;
  const about = schema.description
    ? html`<span class="about" title=${schema.description}>${firstSentence(schema.description)}</span>`
    : null;
  if (value === null || typeof value !== "object" || !Object.keys(value).length) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return html`<li><span class="name" title=${typeText(schema)}>${label}</span> <span class="text">${text}</span> ${about}</li>`;
  }
  return html`<li>
    <details open=${depth < OPEN_DEPTH}>
      <summary><span class="name" title=${typeText(schema)}>${label}</span> ${about}</summary>
      <${Children} value=${value} schema=${schema} of=${of} depth=${depth + 1} />
    </details>
  </li>`;
}

/**
 * @param {number} at
 * @param {any} value
 */
function itemLabel(at, value) {
  const own = value?.name ?? value?.type ?? value?.key;
  return typeof own === "string" ? own : String(at);
}

/** @param {string} text */
function firstSentence(text) {
  return text.split(/(?<=\.)\s/, 1)[0];
}
