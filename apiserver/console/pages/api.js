/** Requests to the API, as any other client makes them. */
import { ROOT } from "./first_requests.js";
import { currentToken, login, renewRefused } from "./session.js";

export const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
export const METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
export const YAML = "application/yaml";
export const APPLY = "application/apply-patch+yaml";
export const MERGE_PATCH = "application/merge-patch+json";
/** Who wrote, in managedFields and in the history. */
export const FIELD_MANAGER = "console";
// A browser opens no more connections to one host, so more requests at a time would only wait.
const AT_A_TIME = 6;

// The session may still be valid: then the request succeeds once there is a new token.
const NOT_RENEWED = { code: 0, reason: "Unreachable", message: "The session could not be renewed yet." };

/** The answer to a request that failed: a Status of the API, or what comes nearest to one. */
export class ApiError extends Error {
  /** @param {any} status */
  constructor(status) {
    super(status.message || status.reason || `The server answered ${status.code}.`);
    this.status = status;
  }

  get code() {
    return this.status.code ?? 0;
  }

  /** The fields or managers that the answer names. */
  get causes() {
    return this.status.details?.causes ?? [];
  }
}

/**
 * @typedef {object} Options
 * @property {string} [method]
 * @property {string} [accept]
 * @property {string} [type] the media type of the body
 * @property {string} [body]
 * @property {AbortSignal} [signal]
 * @property {(warnings: string[]) => void} [onWarnings]
 */

/**
 * Makes a request, once more with a renewed token if its own has expired.
 * @param {string} path from the root of the API
 * @param {Options} [options]
 * @returns {Promise<Response>} a successful one
 */
export async function request(path, options = {}) {
  const sent = currentToken();
  let answer = await send(path, options);
  if (answer.status === 401) {
    if (await renewRefused(sent)) answer = await send(path, options);
    else if (!login.value.isWanted) throw new ApiError(NOT_RENEWED);
  }
  const warnings = warningsOf(answer.headers.get("Warning"));
  if (warnings.length) options.onWarnings?.(warnings);
  if (answer.ok) return answer;
  throw await errorOf(answer);
}

/**
 * @param {string} path
 * @param {Options} options
 */
async function send(path, { method = "GET", accept = "application/json", type, body, signal }) {
  /** @type {Record<string, string>} */
  const headers = { Accept: accept, Authorization: `Bearer ${currentToken()}` };
  if (type) headers["Content-Type"] = type;
  try {
    return await fetch(ROOT.href + path.slice(1), { method, headers, body, signal, credentials: "omit" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError({ code: 0, reason: "Unreachable", message: "The server cannot be reached." });
  }
}

/** @param {Response} answer */
async function errorOf(answer) {
  const text = await answer.text();
  if (answer.headers.get("Content-Type")?.startsWith(YAML)) {
    const { values } = await import("./yaml_lines.js");
    return new ApiError(statusOf(values(text)));
  }
  try {
    const status = JSON.parse(text);
    if (status.kind === "Status") return new ApiError(status);
  } catch {
    // Health checks answer in plain text.
  }
  return new ApiError({ code: answer.status, message: text.slice(0, 2_000) });
}

/** @param {Map<string, any>} found of a Status in YAML */
function statusOf(found) {
  const [code, reason, message] = ["code", "reason", "message"].map((name) => found.get(`["${name}"]`));
  const causes = [];
  /** @param {string} name */
  const ofCause = (name) => found.get(JSON.stringify(["details", "causes", causes.length, name]));
  while (ofCause("message") !== undefined) {
    causes.push({
      field: ofCause("field") ?? "",
      message: ofCause("message"),
      reason: ofCause("reason") ?? "",
    });
  }
  return { code, reason, message, details: { causes } };
}

/**
 * The texts of a Warning header (RFC 9111, 5.5, as Kubernetes uses it).
 * @param {string | null} header
 */
function warningsOf(header) {
  const found = header?.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g) ?? [];
  return [...found].map(([, text]) => text.replace(/\\(.)/g, "$1"));
}

/**
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function getJson(path, options) {
  return bodyOf(await request(path, options), "json", options?.signal);
}

/**
 * @param {string} path
 * @param {Options} [options]
 */
export async function getText(path, options) {
  return bodyOf(await request(path, { accept: "*/*", ...options }), "text", options?.signal);
}

/**
 * @param {string} path
 * @param {any} document
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function post(path, document, options) {
  const answer = await request(path, {
    method: "POST",
    type: "application/json",
    body: JSON.stringify(document),
    ...options,
  });
  return bodyOf(answer, "json", options?.signal);
}

/**
 * @param {Response} answer
 * @param {"json" | "text"} form
 * @param {AbortSignal} [signal]
 */
async function bodyOf(answer, form, signal) {
  try {
    return await answer[form]();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError({ code: 0, reason: "Unreachable", message: "The server's answer was cut off." });
  }
}

/**
 * Returns the results of a function for each item; no more than a few run at a time.
 * @template T, R
 * @param {T[]} items
 * @param {(item: T) => Promise<R>} run
 * @param {AbortSignal} [signal] once it is aborted, no further one begins
 * @returns {Promise<PromiseSettledResult<R>[]>} in the order of the items
 */
export async function forEach(items, run, signal) {
  /** @type {PromiseSettledResult<R>[]} */
  const results = new Array(items.length);
  let next = 0;
  async function work() {
    while (next < items.length && !signal?.aborted) {
      const at = next++;
      [results[at]] = await Promise.allSettled([run(items[at])]);
    }
  }
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, items.length) }, work));
  return results;
}
