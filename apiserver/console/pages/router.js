/**
 * The view that the page shows, as the fragment of its URL says: `#/PATH/SEGMENTS?parameters`.
 * A URL can be shared: it has the whole view, and never a credential.
 */
import { signal } from "./vendor/preact.js";

/** @typedef {{steps: string[], query: URLSearchParams}} Route */

/** @returns {Route} */
function parse() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const steps = path.split("/").filter(Boolean).map(decoded);
  return { steps, query: new URLSearchParams(query) };
}

/** @param {string} step */
function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // It was typed by hand.
  }
}

/** The current view. */
export const route = signal(parse());

/** Asked before another view is shown, with its URL: returns whether it may be. @type {((url: string) => boolean) | null} */
let guard = null;
let shown = location.hash;

addEventListener("hashchange", () => {
  const wanted = location.hash;
  if (guard && wanted !== shown && !guard(wanted)) {
    history.replaceState(null, "", shown);
    return;
  }
  shown = wanted;
  route.value = parse();
});

/**
 * Lets a view be left only if a function allows it. Returns what ends that.
 * @param {(url: string) => boolean} mayLeave
 */
export function guardLeaving(mayLeave) {
  guard = mayLeave;
  return () => {
    guard = null;
  };
}

/**
 * Returns the URL of a view.
 * @param {string[]} steps
 * @param {Record<string, string | undefined>} [query] without those that are empty
 */
export function href(steps, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(/** @type {[string, string][]} */ (given)).toString();
  return `#/${steps.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** @param {string} url of `href` */
export function go(url) {
  location.hash = url;
}

/**
 * Changes parameters of the current view, without an entry in the browser's history.
 * @param {Record<string, string | undefined>} changes
 */
export function setQuery(changes) {
  const { steps, query } = route.value;
  const merged = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", href(steps, merged));
  shown = location.hash;
  route.value = parse();
}
