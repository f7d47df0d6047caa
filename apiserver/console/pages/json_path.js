/**
 * The part of kubectl's JSONPath that columns need: `.spec.nodeName`, `.metadata.labels['app.kubernetes.io/name']`,
 * `.spec.containers[*].image`, `.status.conditions[?(@.type=="Ready")].status`.
 */

const STEP =
  /\.([\w-]+)|\[(\d+|\*)\]|\['([^']*)'\]|\["([^"]*)"\]|\[\?\(@\.([\w.-]+)\s*==\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\)\]/y;

/**
 * Returns the function that finds the values of an expression in an object.
 * @param {string} text
 * @returns {(object: any) => any[]}
 * @throws {SyntaxError}
 */
export function compile(text) {
  const source = text
    .trim()
    .replace(/^\{(.*)\}$/s, "$1")
    .replace(/^\$/, "");
  const path = /^[.[]/.test(source) ? source : `.${source}`;
  /** @type {((values: any[]) => any[])[]} */
  const steps = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < path.length) {
    const at = STEP.lastIndex;
    const found = STEP.exec(path);
    if (!found) throw new SyntaxError(`not understood: ${path.slice(at, at + 40)}`);
    steps.push(stepOf(found));
  }
  return (object) =>
    steps.reduce((values, step) => step(values), [object]).filter((value) => value !== undefined);
}

/** @param {RegExpExecArray} found */
function stepOf([, plain, index, single, double, field, text1, text2, bare]) {
  const name = plain ?? single ?? double;
  if (name !== undefined) return (/** @type {any[]} */ values) => values.map((value) => own(value, name));
  if (index === "*")
    return (/** @type {any[]} */ values) => values.flatMap((value) => Object.values(value ?? {}));
  if (index !== undefined)
    return (/** @type {any[]} */ values) => values.map((value) => value?.[Number(index)]);
  const wanted = text1 ?? text2 ?? bare;
  return (/** @type {any[]} */ values) =>
    values
      .flatMap((value) => Object.values(value ?? {}))
      .filter((item) => String(field.split(".").reduce(own, item)) === wanted);
}

/**
 * @param {any} value
 * @param {string} name
 */
function own(value, name) {
  return value !== null && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined;
}

/**
 * How found values are shown in a cell.
 * @param {any[]} values
 */
export function shown(values) {
  return values.map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value))).join(",");
}
