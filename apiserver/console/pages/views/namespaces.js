/** Chooses a namespace, or all of them. */
import { getJson, METADATA_LIST } from "../api.js";
import { useLoaded } from "../elements.js";
import { html } from "../vendor/preact.js";

/** @param {{value: string, onChange: (value: string) => void, needsOne?: boolean}} props */
export function Namespaces({ value, onChange, needsOne = false }) {
  const { value: found } = useLoaded(
    (signal) => getJson("/api/v1/namespaces", { accept: METADATA_LIST, signal }),
    [],
  );
  const names = found?.items.map((/** @type {any} */ each) => each.metadata.name) ?? [];
  // Users who may not list namespaces write the name of theirs.
  if (!names.length) {
    return html`<input aria-label="Namespace" placeholder="namespace" value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value.trim())} />`;
  }
  const all = value && !names.includes(value) ? [value, ...names] : names;
  return html`<select aria-label="Namespace" value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
    ${!needsOne && html`<option value="">all namespaces</option>`}
    ${all.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}
  </select>`;
}
