/** The types that the server serves, by its discovery. They are kept up to date. */
import { ApiError, getJson } from "./api.js";
import { DISCOVERY, DISCOVERY_LIST, takeDiscovery } from "./first_requests.js";
import { currentToken } from "./session.js";
import { computed, signal } from "./vendor/preact.js";

/**
 * @typedef {object} ResourceType
 * @property {string} group empty for the core group
 * @property {string} version
 * @property {string} resource the plural, in paths
 * @property {string} kind
 * @property {string} singular
 * @property {boolean} isNamespaced
 * @property {string[]} verbs
 * @property {string[]} shortNames
 * @property {string[]} categories
 * @property {string[]} subresources
 * @property {boolean} isPreferred of the versions that have this resource, the first
 */

/** All types, in the order of the server. */
export const types = signal(/** @type {ResourceType[]} */ ([]));
/** Those that are listed, each once: in its preferred version. */
export const listed = computed(() =>
  types.value.filter((each) => each.isPreferred && each.verbs.includes("list")),
);

let tags = ["", ""];

/** Reads discovery. Types change only if it did. */
export async function refresh() {
  const found =
    (await takeDiscovery(currentToken())) ??
    (await Promise.all(DISCOVERY.map((path) => getJson(path, { accept: DISCOVERY_LIST }))));
  const now = found.map((each) => JSON.stringify(each));
  if (now.every((text, at) => text === tags[at])) return;
  tags = now;
  const before = types.value;
  const known = new Map(before.map((each) => [JSON.stringify(each), each]));
  // What has not changed stays the same object, so that views of it go on.
  const after = found
    .flatMap((document) => document.items.flatMap(typesOf))
    .map((each) => known.get(JSON.stringify(each)) ?? each);
  if (after.length !== before.length || after.some((each, at) => each !== before[at])) types.value = after;
}

/**
 * @param {any} group of discovery
 * @returns {ResourceType[]}
 */
function typesOf(group) {
  const seen = new Set();
  return group.versions.flatMap((/** @type {any} */ each) =>
    (each.resources ?? []).map((/** @type {any} */ found) => {
      const isPreferred = !seen.has(found.resource);
      seen.add(found.resource);
      return {
        group: group.metadata?.name ?? "",
        version: each.version,
        resource: found.resource,
        kind: found.responseKind?.kind ?? found.resource,
        singular: found.singularResource ?? "",
        isNamespaced: found.scope === "Namespaced",
        verbs: found.verbs ?? [],
        shortNames: found.shortNames ?? [],
        categories: found.categories ?? [],
        subresources: (found.subresources ?? []).map((/** @type {any} */ sub) => sub.subresource),
        isPreferred,
      };
    }),
  );
}

/**
 * @param {string} group
 * @param {string} version
 * @param {string} resource
 */
export function findType(group, version, resource) {
  return types.value.find(
    (each) => each.group === group && each.version === version && each.resource === resource,
  );
}

/**
 * The type that a URL names after its first step.
 * @param {string[]} steps
 */
export function typeOfSteps([, group, version, resource]) {
  return findType(group === "core" ? "" : group, version, resource);
}

/**
 * The name of a resource with its group, as kubectl takes it.
 * @param {Pick<ResourceType, "group" | "resource">} type
 */
export function qualifiedName({ group, resource }) {
  return group ? `${resource}.${group}` : resource;
}

/**
 * The type of an object, or of a reference to one.
 * @param {string} apiVersion
 * @param {string} kind
 */
export function typeOfKind(apiVersion, kind) {
  const [version, group = ""] = apiVersion.split("/").reverse();
  const ofKind = types.value.filter((each) => each.group === group && each.kind === kind);
  return ofKind.find((each) => each.version === version) ?? ofKind[0];
}

/**
 * The types that a name means, as kubectl understands it: plural, singular, short name, kind, with or without
 * the group; the best first.
 * @param {string} text
 */
export function search(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return listed.value;
  /** @param {ResourceType} each */
  const rank = (each) => {
    const names = [each.resource, each.singular, each.kind.toLowerCase(), ...each.shortNames];
    const full = names.flatMap((name) => [name, `${name}.${each.group}`]);
    if (full.includes(wanted)) return 0;
    if (full.some((name) => name.startsWith(wanted))) return 1;
    if (full.some((name) => name.includes(wanted))) return 2;
    return each.categories.includes(wanted) ? 3 : 4;
  };
  return listed.value
    .map((each) => ({ each, rank: rank(each) }))
    .filter((found) => found.rank < 4)
    .sort((a, b) => a.rank - b.rank)
    .map((found) => found.each);
}

/** @param {Pick<ResourceType, "group" | "version">} type */
export function apiVersion({ group, version }) {
  return group ? `${group}/${version}` : version;
}

/**
 * A name as a segment of a path. Names in Kubernetes are never empty, "." or ".."; a browser would resolve the last
 * two, and so ask for something else than the page shows.
 * @param {string} name
 * @throws {ApiError}
 */
function segment(name) {
  if (!name || name === "." || name === "..") {
    throw new ApiError({ code: 400, message: `${JSON.stringify(name)} is not the name of an object` });
  }
  return encodeURIComponent(name);
}

/**
 * The path of a type's objects.
 * @param {ResourceType} type
 * @param {string} [namespace] empty for all
 */
export function collectionPath(type, namespace = "") {
  const base = type.group ? `/apis/${type.group}/${type.version}` : `/api/${type.version}`;
  return namespace && type.isNamespaced
    ? `${base}/namespaces/${segment(namespace)}/${type.resource}`
    : `${base}/${type.resource}`;
}

/**
 * @param {ResourceType} type
 * @param {string} namespace
 * @param {string} name
 */
export function objectPath(type, namespace, name) {
  return `${collectionPath(type, namespace)}/${segment(name)}`;
}

/** @param {ResourceType} type */
export function typeSteps(type) {
  return ["list", type.group || "core", type.version, type.resource];
}

/**
 * The URL's steps of an object's view.
 * @param {ResourceType} type
 * @param {string} namespace
 * @param {string} name
 */
export function objectSteps(type, namespace, name) {
  return ["object", type.group || "core", type.version, type.resource, namespace || "-", name];
}
