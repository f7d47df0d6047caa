/** Reads metrics in Prometheus' text format. */

/** @typedef {{labels: Record<string, string>, value: number}} Sample */
/** @typedef {Map<string, Sample[]>} Metrics by the name of each sample */

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/**
 * @param {string} text
 * @returns {Metrics}
 */
export function parse(text) {
  /** @type {Metrics} */
  const found = new Map();
  for (const line of text.split("\n")) {
    const sample = SAMPLE.exec(line);
    if (!sample) continue;
    const [, name, labels = "", value] = sample;
    const samples = found.get(name) ?? [];
    if (!samples.length) found.set(name, samples);
    samples.push({
      labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, text]) => [key, text])),
      value: numberOf(value),
    });
  }
  return found;
}

/** @param {string} text */
function numberOf(text) {
  return text.endsWith("Inf") ? (text.startsWith("-") ? -Infinity : Infinity) : Number(text);
}

/**
 * @param {Metrics} metrics
 * @param {string} name
 */
export function total(metrics, name) {
  return (metrics.get(name) ?? []).reduce((sum, { value }) => sum + value, 0);
}

/**
 * A quantile of what a histogram has counted between two readings, as Prometheus estimates it.
 * @param {number} share
 * @param {Metrics} now
 * @param {Metrics} before
 * @param {string} name of the histogram
 * @param {(labels: Record<string, string>) => boolean} isCounted
 */
export function quantile(share, now, before, name, isCounted) {
  const buckets = summed(now, name, isCounted);
  const earlier = summed(before, name, isCounted);
  const counts = [...buckets]
    .map(([bound, count]) => /** @type {const} */ ([bound, count - (earlier.get(bound) ?? 0)]))
    .sort(([a], [b]) => a - b);
  const all = counts[counts.length - 1]?.[1] ?? 0;
  if (!all) return 0;
  const rank = share * all;
  const at = counts.findIndex(([, count]) => count >= rank);
  const [bound, count] = counts[at];
  const [lower, below] = at > 0 ? counts[at - 1] : [0, 0];
  return Number.isFinite(bound) ? lower + ((bound - lower) * (rank - below)) / (count - below) : lower;
}

/**
 * @param {Metrics} metrics
 * @param {string} name
 * @param {(labels: Record<string, string>) => boolean} isCounted
 */
function summed(metrics, name, isCounted) {
  /** @type {Map<number, number>} */
  const buckets = new Map();
  for (const { labels, value } of metrics.get(`${name}_bucket`) ?? []) {
    const bound = numberOf(labels.le);
    if (isCounted(labels)) buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  return buckets;
}
