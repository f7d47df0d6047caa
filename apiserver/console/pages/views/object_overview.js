/** What an operator looks at first: conditions, what belongs together, events. */
import { ApiError, forEach, getJson, METADATA_LIST } from "../api.js";
import { Loading, SimpleTable, usePolling } from "../elements.js";
import { age, counted } from "../format.js";
import { useLiveItems } from "../live_object.js";
import { collectionPath, listed, objectPath, objectSteps, typeOfKind } from "../resource_types.js";
import { href } from "../router.js";
import { html, useState } from "../vendor/preact.js";

/** @typedef {import("../resource_types.js").ResourceType} ResourceType */
/** @typedef {{type: ResourceType, name: string, namespace: string, uid: string, children: Node[]}} Node */
/** @typedef {{self: Node, owners: any[], isPartial: boolean}} Family */

// Objects of a type that are looked at, and of these in one answer.
const SEARCHED_MAX = 20_000;
const PAGE = 1_000;
const OWNERS_DEPTH_MAX = 8;
// A dependent may be of any type, so they are looked for again: no watch of one object tells of them.
const TREE_SEARCHED_EVERY_MS = 10_000;

/** @param {{type: ResourceType, object: any}} props */
export function OverviewTab({ type, object }) {
  const { metadata, status } = object;
  return html`<div class="cards wide">
    <section class="card"><h2>Labels and annotations</h2><${Pairs} pairs=${metadata.labels} /><${Pairs} pairs=${metadata.annotations} /></section>
    ${Array.isArray(status?.conditions) && html`<section class="card"><h2>Conditions</h2><${Conditions} conditions=${status.conditions} /></section>`}
    <section class="card"><h2>Owners and dependents</h2><${Tree} type=${type} object=${object} /></section>
    <section class="card"><h2>Events</h2><${Events} object=${object} /></section>
  </div>`;
}

/** @param {{pairs?: Record<string, string>}} props */
function Pairs({ pairs }) {
  return html`<ul class="pairs">
    ${Object.entries(pairs ?? {}).map(([name, value]) => html`<li key=${name}><code>${name}</code> <span>${value}</span></li>`)}
  </ul>`;
}

/** @param {{conditions: any[]}} props */
function Conditions({ conditions }) {
  const rows = conditions.map((each) => [
    each.type,
    html`<span data-tone=${each.status === "True" ? "good" : each.status === "False" ? "waiting" : undefined}>${each.status}</span>`,
    each.reason,
    each.message,
    html`<span title=${each.lastTransitionTime}>${age(each.lastTransitionTime)}</span>`,
  ]);
  return html`<${SimpleTable} label="Conditions" columns=${["Type", "Status", "Reason", "Message", "Since"]} rows=${rows} />`;
}

/** @param {{object: any}} props */
function Events({ object }) {
  const { kind, metadata } = object;
  const selector = `involvedObject.uid=${metadata.uid},involvedObject.kind=${kind}`;
  const base = metadata.namespace ? `/api/v1/namespaces/${metadata.namespace}/events` : "/api/v1/events";
  const { items, error } = useLiveItems(`${base}?fieldSelector=${encodeURIComponent(selector)}`);
  if (error) return html`<p class="muted">${/** @type {Error} */ (error).message}</p>`;
  if (!items) return html`<${Loading} />`;
  const when = (/** @type {any} */ each) =>
    each.lastTimestamp ?? each.series?.lastObservedTime ?? each.eventTime ?? each.metadata.creationTimestamp;
  const rows = items
    .toSorted((/** @type {any} */ a, /** @type {any} */ b) => Date.parse(when(b)) - Date.parse(when(a)))
    .map((/** @type {any} */ each) => [
      html`<span data-tone=${each.type === "Warning" ? "bad" : undefined}>${each.type}</span>`,
      each.reason,
      each.message,
      each.count > 1 ? counted(each.count, "time") : "",
      html`<span title=${when(each)}>${age(when(each))}</span>`,
    ]);
  return html`<${SimpleTable} label="Events" columns=${["Type", "Reason", "Message", "", "Last"]} rows=${rows} empty="No events." />`;
}

/** @param {{type: ResourceType, object: any}} props */
function Tree({ type, object }) {
  const { metadata } = object;
  const [found, setFound] = useState(
    /** @type {{uid: string, family?: Family, error?: unknown} | null} */ (null),
  );
  const search = async (/** @type {AbortSignal} */ signal) => {
    const { uid } = metadata;
    const result = await familyOf(type, object, signal).then(
      (family) => ({ uid, family }),
      (error) => ({ uid, error }),
    );
    if (!signal.aborted) setFound(result);
  };
  usePolling(search, TREE_SEARCHED_EVERY_MS, [metadata.uid, JSON.stringify(metadata.ownerReferences)]);
  if (!found || found.uid !== metadata.uid) return html`<${Loading} />`;
  const { family } = found;
  if (!family) return html`<p class="muted">${/** @type {Error} */ (found.error).message}</p>`;
  let branch = html`<${Branch} node=${family.self} current=${object.metadata.uid} />`;
  for (const owner of family.owners) {
    branch = html`<ul class="tree"><li><${OwnerLink} owner=${owner} />${branch}</li></ul>`;
  }
  return html`${branch} ${family.isPartial && html`<p class="muted">Not all objects were searched: you may not list some types, or there are too many.</p>`}`;
}

/** @param {{owner: any}} props */
function OwnerLink({ owner }) {
  const type = typeOfKind(owner.apiVersion, owner.kind);
  const label = `${owner.kind} ${owner.name}`;
  if (!type) return html`${label}`;
  return html`<a href=${href(objectSteps(type, type.isNamespaced ? owner.namespace : "", owner.name))}>${label}</a>${owner.controller ? html` <span class="muted">controls</span>` : ""}`;
}

/** @param {{node: Node, current: string}} props */
function Branch({ node, current }) {
  const label = `${node.type.kind} ${node.name}`;
  return html`<ul class="tree">
    <li>
      ${node.uid === current ? html`<strong>${label}</strong>` : html`<a href=${href(objectSteps(node.type, node.namespace, node.name))}>${label}</a>`}
      ${node.children.map((child) => html`<${Branch} key=${child.uid} node=${child} current=${current} />`)}
    </li>
  </ul>`;
}

/**
 * Finds the owners of an object, from the nearest on, and all that it owns.
 * @param {ResourceType} type
 * @param {any} object
 * @param {AbortSignal} signal
 */
async function familyOf(type, object, signal) {
  const { namespace = "" } = object.metadata;
  const owners = [];
  let child = object;
  while (owners.length < OWNERS_DEPTH_MAX) {
    const references = child.metadata.ownerReferences ?? [];
    const reference = references.find((/** @type {any} */ each) => each.controller) ?? references[0];
    if (!reference) break;
    owners.push({ ...reference, namespace });
    const ownerType = typeOfKind(reference.apiVersion, reference.kind);
    if (!ownerType) break;
    const found = await getJson(
      objectPath(ownerType, ownerType.isNamespaced ? namespace : "", reference.name),
      { signal },
    ).catch(() => null);
    if (!found || found.metadata.uid !== reference.uid) break;
    child = found;
  }
  const searched = listed.value.filter(
    (each) => (namespace ? each.isNamespaced : true) && each.resource !== "events",
  );
  const lists = await forEach(
    searched,
    (each) => metadataOf(collectionPath(each, namespace), signal),
    signal,
  );
  /** @type {Map<string, Node[]>} */
  const byOwner = new Map();
  const seen = new Set();
  lists.forEach((list, at) => {
    if (list?.status !== "fulfilled") return;
    for (const { metadata } of list.value) {
      if (seen.has(metadata.uid)) continue; // Served in two groups.
      seen.add(metadata.uid);
      const node = {
        type: searched[at],
        name: metadata.name,
        namespace: metadata.namespace ?? "",
        uid: metadata.uid,
        children: [],
      };
      for (const { uid } of metadata.ownerReferences ?? [])
        byOwner.set(uid, [...(byOwner.get(uid) ?? []), node]);
    }
  });
  const self = {
    type,
    name: object.metadata.name,
    namespace,
    uid: object.metadata.uid,
    children: /** @type {Node[]} */ ([]),
  };
  const known = new Set();
  /** @param {Node} node */
  const grow = (node) => {
    if (known.has(node.uid)) return; // A circle of owners.
    known.add(node.uid);
    node.children = byOwner.get(node.uid) ?? [];
    node.children.forEach(grow);
  };
  grow(self);
  return { self, owners, isPartial: lists.some((list) => list?.status !== "fulfilled") };
}

/**
 * The metadata of all objects of a collection.
 * @param {string} path
 * @param {AbortSignal} signal
 * @returns {Promise<any[]>}
 * @throws {ApiError} also if there are too many to look at
 */
async function metadataOf(path, signal) {
  const found = [];
  let next = "";
  do {
    const query = `limit=${PAGE}${next && `&continue=${encodeURIComponent(next)}`}`;
    const page = await getJson(`${path}?${query}`, { accept: METADATA_LIST, signal });
    found.push(...page.items);
    next = page.metadata.continue ?? "";
    if (found.length >= SEARCHED_MAX && next)
      throw new ApiError({ code: 0, message: "There are too many objects." });
  } while (next);
  return found;
}
