/** All types that the server serves, with how many objects each has. */
import { forEach, getJson, METADATA_LIST } from "../api.js";
import { Loading, SearchField, useKeys } from "../elements.js";
import { number } from "../format.js";
import { apiVersion, collectionPath, listed, search, typeSteps } from "../resource_types.js";
import { href, route, setQuery } from "../router.js";
import { html, signal, useEffect } from "../vendor/preact.js";

/** @typedef {import("../resource_types.js").ResourceType} ResourceType */

/** How many objects a type has, by its path; "" if the user may not know. */
const counts = signal(/** @type {Record<string, number | "">} */ ({}));

// Counts that come at once are drawn at once; the first ones are asked for when the types are on the screen.
const DRAWN_EVERY_MS = 100;

/**
 * Counts the objects of all types.
 * @param {ResourceType[]} all
 * @param {AbortSignal} signal
 */
async function countAll(all, signal) {
  /** @type {Record<string, number | "">} */
  const found = {};
  const draw = () => (counts.value = { ...counts.value, ...found });
  const timer = setInterval(draw, DRAWN_EVERY_MS);
  await forEach(
    all,
    async (type) => {
      const path = collectionPath(type);
      found[path] = await count(path, signal).catch(() => /** @type {const} */ (""));
    },
    signal,
  );
  clearInterval(timer);
  draw();
}

/**
 * @param {string} path
 * @param {AbortSignal} signal
 */
async function count(path, signal) {
  const found = await getJson(`${path}?limit=1`, { accept: METADATA_LIST, signal });
  return found.items.length + (found.metadata.remainingItemCount ?? 0);
}

export default function Types() {
  const words = route.value.query.get("q") ?? "";
  const found = search(words);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => countAll(listed.value, abort.signal), DRAWN_EVERY_MS);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [listed.value]);
  useKeys([{ keys: "/", text: "Filter", run: () => document.getElementById("filter")?.focus() }]);
  if (!listed.value.length) return html`<${Loading} />`;
  const groups = Map.groupBy(found, (each) => each.group);
  return html`<section class="page">
    <div class="bar">
      <h1>All types</h1>
      <${SearchField} id="filter" label="Filter types" value=${words} onChange=${(/** @type {string} */ q) => setQuery({ q })} />
      <span class="muted">${number(found.length)} of ${number(listed.value.length)}</span>
    </div>
    <div class="groups">
      ${[...groups].map(
        ([group, types]) =>
          html`<section key=${group} class="card" aria-label=${group || "core"}>
            <h2>${group || "core"}</h2>
            <ul class="types">
              ${types.map((type) => html`<${TypeLine} key=${type.resource} type=${type} />`)}
            </ul>
          </section>`,
      )}
    </div>
    ${found.length === 0 && html`<p class="muted">No type has this name.</p>`}
  </section>`;
}

/** @param {{type: ResourceType}} props */
function TypeLine({ type }) {
  const amount = counts.value[collectionPath(type)];
  return html`<li>
    <a href=${href(typeSteps(type))} title=${`${apiVersion(type)} ${type.kind}`}>${type.resource}</a>
    ${type.shortNames.length > 0 && html`<span class="muted">${type.shortNames.join(", ")}</span>`}
    <span class="count">${typeof amount === "number" ? number(amount) : ""}</span>
  </li>`;
}
