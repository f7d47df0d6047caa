/** What was saved last in this page, so that it can be undone. */
import { ApiError, FIELD_MANAGER, request, YAML } from "../api.js";
import { signal } from "../vendor/preact.js";

/**
 * @typedef {object} Saved
 * @property {string} path of the object
 * @property {string} before its YAML as it was, without a resource version
 * @property {string} resourceVersion that it has got
 * @property {string} error why it could not be undone
 */

export const lastSaved = signal(/** @type {Saved | null} */ (null));

/** Replaces the object by what it was, unless somebody else has changed it since. */
export async function undoSaved() {
  const saved = lastSaved.value;
  if (!saved || saved.error) return;
  const body = saved.before.replace(
    /^metadata:$/m,
    `metadata:\n  resourceVersion: "${saved.resourceVersion}"`,
  );
  try {
    await request(`${saved.path}?fieldManager=${FIELD_MANAGER}`, { method: "PUT", type: YAML, body });
    lastSaved.value = null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const why = error.code === 409 ? "Somebody has changed it since, so it was not undone." : error.message;
    lastSaved.value = { ...saved, error: why };
  }
}
