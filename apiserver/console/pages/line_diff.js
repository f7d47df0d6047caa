/** Differences between two texts, line by line (E. W. Myers, An O(ND) Difference Algorithm, 1986). */

/** @typedef {{kind: "same" | "added" | "removed", text: string, from: number, to: number}} DiffLine */

// Texts that differ more are shown as replaced: the search takes the square of this.
const DIFFERENCES_MAX = 4_000;

/**
 * @param {string[]} before
 * @param {string[]} after
 * @returns {DiffLine[]} `from`, `to`: the line's number in each text, from 0
 */
export function diffLines(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let [endA, endB] = [before.length, after.length];
  while (endA > start && endB > start && before[endA - 1] === after[endB - 1]) {
    endA--;
    endB--;
  }
  /** @type {DiffLine[]} */
  const lines = [];
  for (let at = 0; at < start; at++) lines.push({ kind: "same", text: before[at], from: at, to: at });
  lines.push(...middle(before.slice(start, endA), after.slice(start, endB), start));
  for (let at = 0; at < before.length - endA; at++) {
    lines.push({ kind: "same", text: before[endA + at], from: endA + at, to: endB + at });
  }
  return lines;
}

/**
 * @param {string[]} a
 * @param {string[]} b
 * @param {number} offset
 * @returns {DiffLine[]}
 */
function middle(a, b, offset) {
  const trace = search(a, b);
  /** @type {DiffLine[]} */
  const lines = [];
  let [x, y] = [a.length, b.length];
  const removed = () => lines.push({ kind: "removed", text: a[--x], from: x + offset, to: -1 });
  const added = () => lines.push({ kind: "added", text: b[--y], from: -1, to: y + offset });
  if (!trace) {
    while (y > 0) added();
    while (x > 0) removed();
    return lines.reverse();
  }
  for (let d = trace.length - 1; d >= 0; d--) {
    const k = x - y;
    const furthest = trace[d];
    const isDown = k === -d || (k !== d && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
    const beforeK = isDown ? k + 1 : k - 1;
    const beforeX = d === 0 ? 0 : (furthest.get(beforeK) ?? 0);
    const beforeY = d === 0 ? 0 : beforeX - beforeK;
    while (x > beforeX && y > beforeY) {
      x--;
      y--;
      lines.push({ kind: "same", text: a[x], from: x + offset, to: y + offset });
    }
    if (d > 0) isDown ? added() : removed();
  }
  return lines.reverse();
}

/**
 * The furthest reaching paths before each number of differences; null if there are too many.
 * @param {string[]} a
 * @param {string[]} b
 */
function search(a, b) {
  const trace = [];
  let furthest = new Map([[1, 0]]);
  for (let d = 0; d <= Math.min(a.length + b.length, DIFFERENCES_MAX); d++) {
    trace.push(new Map(furthest));
    for (let k = -d; k <= d; k += 2) {
      const isDown = k === -d || (k !== d && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
      let x = isDown ? (furthest.get(k + 1) ?? 0) : (furthest.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      furthest.set(k, x);
      if (x >= a.length && y >= b.length) return trace;
    }
  }
  return null;
}

/**
 * The lines of a diff that differ, with some of those around them, and null for each gap.
 * @param {DiffLine[]} lines
 * @param {number} [context]
 * @returns {(DiffLine | null)[]}
 */
export function hunks(lines, context = 3) {
  const isShown = new Uint8Array(lines.length);
  lines.forEach(({ kind }, at) => {
    if (kind !== "same") isShown.fill(1, Math.max(0, at - context), at + context + 1);
  });
  /** @type {(DiffLine | null)[]} */
  const found = [];
  lines.forEach((line, at) => {
    if (isShown[at]) found.push(line);
    else if (at === 0 || isShown[at - 1]) found.push(null);
  });
  return found;
}
