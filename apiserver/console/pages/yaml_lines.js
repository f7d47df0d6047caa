/**
 * Where in an object each line of a YAML text is. The server reads and writes YAML; the page only needs to know
 * its lines: to colour them, to say who owns them, and to complete what somebody writes.
 * It understands the block style that people and the server write.
 */

/** @typedef {(string | number)[]} Path */
/**
 * @typedef {object} Line
 * @property {Path} path of the value that the line belongs to
 * @property {string} indent the spaces and dashes before it
 * @property {string} key with its quotes; empty if the line has none
 * @property {string} value what follows the key and the colon, with the spaces before it
 */

const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^"'\s#&*!|>%@`{}[\],][^]*?)\s*:(?=\s|$)/;
/** The fields of the metadata that differ with each version. */
export const OF_VERSION = ["managedFields", "resourceVersion", "generation"];

const BLOCK_SCALAR = /^\s*[|>][+-]?\d?[+-]?\s*(?:#.*)?$/;

/**
 * @param {string} text
 * @returns {Line[]}
 */
export function scan(text) {
  /** @type {{indent: number, isItem: boolean, path: Path, count: number}[]} */
  const stack = [{ indent: -1, isItem: false, path: [], count: 0 }];
  const top = () => stack[stack.length - 1];
  let scalarIndent = -1;
  return text.split("\n").map((line) => {
    const content = line.trimStart();
    let column = line.length - content.length;
    if (!content || (scalarIndent >= 0 && column > scalarIndent))
      return { path: top().path, indent: "", key: "", value: line };
    scalarIndent = -1;
    let rest = content;
    while (rest === "-" || rest.startsWith("- ")) {
      while (top().indent > column || (top().indent === column && top().isItem)) stack.pop();
      const path = [...top().path, top().count++];
      stack.push({ indent: column, isItem: true, path, count: 0 });
      const after = rest.slice(1).trimStart();
      column += rest.length - after.length;
      rest = after;
    }
    const found = KEY.exec(rest);
    if (!found || rest.startsWith("#"))
      return { path: top().path, indent: line.slice(0, column), key: "", value: rest };
    while (top().indent >= column) stack.pop();
    const value = rest.slice(found[0].length);
    stack.push({ indent: column, isItem: false, path: [...top().path, unquoted(found[1])], count: 0 });
    if (BLOCK_SCALAR.test(value)) scalarIndent = column;
    return { path: top().path, indent: line.slice(0, column), key: found[1], value };
  });
}

/** @param {string} key */
function unquoted(key) {
  if (key.startsWith("'")) return key.slice(1, -1).replaceAll("''", "'");
  if (!key.startsWith('"')) return key;
  try {
    return JSON.parse(key);
  } catch {
    return key.slice(1, -1);
  }
}

/**
 * Returns a text of the server without some fields of the metadata.
 * @param {string} text
 * @param {string[]} names
 */
export function withoutMetadata(text, names) {
  const lines = text.split("\n");
  const where = scan(text);
  return lines
    .filter((_, at) => {
      const [first, second] = where[at].path;
      return first !== "metadata" || typeof second !== "string" || !names.includes(second);
    })
    .join("\n");
}

/**
 * The plain values of a text of the server, by their paths as JSON: texts, numbers and booleans.
 * @param {string} text
 * @returns {Map<string, any>}
 */
export function values(text) {
  /** @type {Map<string, any>} */
  const found = new Map();
  let block = "";
  for (const { path, indent, key, value } of scan(text)) {
    const place = JSON.stringify(path);
    if (!key && !indent && place === block) {
      const before = found.get(place);
      found.set(place, before === undefined ? value.trimStart() : `${before}\n${value.trimStart()}`);
    } else if (BLOCK_SCALAR.test(value)) block = place;
    else if (value.trim()) found.set(place, plainValue(value.trim()));
  }
  return found;
}

/** @param {string} text */
function plainValue(text) {
  if (/^(["']).*\1$/s.test(text)) return unquoted(text);
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d+$/.test(text) ? Number(text) : text;
}
