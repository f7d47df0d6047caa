/** What was saved last in this page, so that it can be undone. */
import { ApiError, FIELD_MANAGER, getText, request, YAML } from "../api.js";
import { signal } from "../vendor/preact.js";
import { scan, values, withoutMetadata } from "../yaml_lines.js";

/**
 * @typedef {object} Saved
 * @property {string} path of the object
 * @property {string} before its YAML as it was, without a resource version
 * @property {string} stored its YAML as it was stored
 * @property {string} resourceVersion that it has got
 * @property {string} error why it could not be undone
 * @property {boolean} isUndone
 */

export const lastSaved = signal(/** @type {Saved | null} */ (null));

/** Replaces the object by what it was, unless more than its status has changed since. */
export async function undoSaved() {
  const saved = lastSaved.value;
  if (!saved || saved.error || saved.isUndone) return;
  try {
    const now = await getText(saved.path, { accept: YAML });
    const isSame = wanted(now) === wanted(saved.stored);
    // The version of what is there now, or that of what was saved: then the server refuses it.
    const version = isSame ? values(now).get('["metadata","resourceVersion"]') : saved.resourceVersion;
    const body = saved.before.replace(/^metadata:$/m, `metadata:\n  resourceVersion: "${version}"`);
    await request(`${saved.path}?fieldManager=${FIELD_MANAGER}`, { method: "PUT", type: YAML, body });
    lastSaved.value = { ...saved, isUndone: true };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    // It was undone, or something else was saved, meanwhile.
    if (lastSaved.value !== saved) return;
    const why = error.code === 409 ? "Somebody has changed it since, so it was not undone." : error.message;
    lastSaved.value = { ...saved, error: why };
  }
}

/**
 * What users want of an object: all but its status, and what the server counts.
 * @param {string} text
 */
function wanted(text) {
  const kept = withoutMetadata(text, ["managedFields", "resourceVersion"]);
  const where = scan(kept);
  return kept
    .split("\n")
    .filter((_, at) => where[at].path[0] !== "status")
    .join("\n");
}
