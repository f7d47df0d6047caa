/** The schemas of types, by the server's OpenAPI v3 documents: descriptions, and what may be written. */
import { getJson } from "./api.js";

/** @typedef {any} Schema */
/** @typedef {import("./yaml_lines.js").Path} Path */

/** The last document of each group and version. @type {Map<string, {url: string, document: Promise<any>}>} */
const documents = new Map();

/**
 * The document of a group and version. The server names it by its content, so a browser keeps it.
 * @param {string} group
 * @param {string} version
 */
async function documentOf(group, version) {
  const name = group ? `apis/${group}/${version}` : `api/${version}`;
  const index = await getJson("/openapi/v3");
  const url = index.paths[name]?.serverRelativeURL;
  if (!url) return { components: { schemas: {} } };
  const known = documents.get(name);
  if (known && known.url === url) return known.document;
  const document = getJson(url);
  documents.set(name, { url, document });
  document.catch(() => documents.delete(name));
  return document;
}

export class TypeSchema {
  /**
   * @param {any} document
   * @param {Schema} root
   */
  constructor(document, root) {
    this.schemas = document.components?.schemas ?? {};
    this.root = this.resolve(root);
  }

  /**
   * A schema with what it refers to.
   * @param {Schema} schema
   * @returns {Schema}
   */
  resolve(schema) {
    if (!schema) return {};
    const reference = schema.$ref ?? schema.allOf?.[0]?.$ref;
    if (!reference) return schema;
    const target = this.schemas[reference.split("/").pop()] ?? {};
    // What is said beside a reference is about this use of it.
    const { $ref: _, allOf: __, ...own } = schema;
    return { ...target, ...own };
  }

  /**
   * The schema of the value at a path; {} if there is none.
   * @param {Path} path
   */
  at(path) {
    return path.reduce((schema, step) => this.below(schema, step), this.root);
  }

  /**
   * @param {Schema} schema
   * @param {string | number} step
   */
  below(schema, step) {
    if (typeof step === "number") return this.resolve(schema.items);
    if (schema.properties && Object.hasOwn(schema.properties, step))
      return this.resolve(schema.properties[step]);
    return typeof schema.additionalProperties === "object" ? this.resolve(schema.additionalProperties) : {};
  }
}

/**
 * The schema of a type.
 * @param {import("./resource_types.js").ResourceType} type
 */
export async function schemaOf(type) {
  const document = await documentOf(type.group, type.version);
  const root = Object.values(document.components?.schemas ?? {}).find((schema) =>
    schema["x-kubernetes-group-version-kind"]?.some(
      (/** @type {any} */ each) =>
        each.group === type.group && each.version === type.version && each.kind === type.kind,
    ),
  );
  return new TypeSchema(document, root);
}

/**
 * What a schema says of its type, in a few words.
 * @param {Schema} schema
 */
export function typeText(schema) {
  if (schema["x-kubernetes-int-or-string"]) return "integer or string";
  if (schema.type === "array") return `list of ${itemText(schema.items)}`;
  if (schema.enum) return schema.enum.map((/** @type {any} */ each) => JSON.stringify(each)).join(" | ");
  return schema.format ? `${schema.type} (${schema.format})` : (schema.type ?? "any");
}

/** @param {Schema} items */
function itemText(items) {
  const name = (items?.$ref ?? items?.allOf?.[0]?.$ref)?.split(".").pop();
  return name ?? items?.type ?? "any";
}
