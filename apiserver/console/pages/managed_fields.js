/** Who owns each field of an object, by its managedFields (FieldsV1: structured-merge-diff, fieldpath). */

/** @typedef {import("./yaml_lines.js").Path} Path */
/** @typedef {{manager: string, operation: string, time: string, subresource: string}} Owner */

export class Owners {
  /** @param {any} object */
  constructor(object) {
    /** @type {Owner[]} */
    this.all = [];
    /** By the path as JSON, the owners of exactly this path. @type {Map<string, Owner[]>} */
    this.byPath = new Map();
    for (const each of object.metadata?.managedFields ?? []) {
      const { manager = "", operation = "", time = "", subresource = "", fieldsV1 = {} } = each;
      const owner = { manager, operation, time, subresource };
      this.all.push(owner);
      this.add(owner, fieldsV1, object, []);
    }
  }

  /**
   * @param {Owner} owner
   * @param {any} fields
   * @param {any} value
   * @param {Path} path
   */
  add(owner, fields, value, path) {
    for (const [name, below] of Object.entries(fields)) {
      const step = stepOf(name, value);
      if (step === null) continue; // The field has gone.
      const here = name === "." ? path : [...path, step];
      if (name === "." || !Object.keys(below).length) {
        const key = JSON.stringify(here);
        this.byPath.set(key, [...(this.byPath.get(key) ?? []), owner]);
      }
      if (name !== ".") this.add(owner, below, value[step], here);
    }
  }

  /**
   * The owners of a path: of its own, or of what it is part of.
   * @param {Path} path
   * @returns {Owner[]}
   */
  of(path) {
    for (let length = path.length; length > 0; length--) {
      const found = this.byPath.get(JSON.stringify(path.slice(0, length)));
      if (found) return found;
    }
    return [];
  }
}

/**
 * The key or the index that a step of FieldsV1 means in a value; null if there is none.
 * @param {string} name
 * @param {any} value
 */
function stepOf(name, value) {
  if (name === ".") return "";
  const text = name.slice(2);
  if (name.startsWith("f:"))
    return value !== null && typeof value === "object" && Object.hasOwn(value, text) ? text : null;
  if (!Array.isArray(value)) return null;
  let at = -1;
  if (name.startsWith("i:")) at = Number(text);
  else {
    const wanted = JSON.parse(text);
    at = value.findIndex((item) =>
      name.startsWith("v:")
        ? JSON.stringify(item) === JSON.stringify(wanted)
        : Object.entries(wanted).every(([key, part]) => (item?.[key] ?? DEFAULTS[key]) === part),
    );
  }
  return at >= 0 && at < value.length ? at : null;
}
/** Keys of list items that the server sets if they are absent. @type {Record<string, any>} */
const DEFAULTS = { protocol: "TCP" };
