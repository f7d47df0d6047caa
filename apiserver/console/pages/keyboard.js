/**
 * The keys of the page. A view adds its own while it is shown; what was added last answers first.
 * Keys do nothing while somebody writes in a field, but for Escape, which leaves it.
 */

/** `keys`: the names of one or more keys as events have them, with spaces between. */
/** @typedef {{keys: string, text: string, run: (event: KeyboardEvent) => void, isHidden?: boolean}} Key */

/** @type {(() => Key[])[]} */
const layers = [];

/**
 * Adds keys. Returns what removes them.
 * @param {() => Key[]} keys returns those that work now
 */
export function addKeys(keys) {
  layers.push(keys);
  return () => {
    layers.splice(layers.indexOf(keys), 1);
  };
}

/** The keys that work now, those of the view first. */
export function currentKeys() {
  return layers.toReversed().flatMap((keys) => keys());
}

/** @param {EventTarget | null} target */
function isWriting(target) {
  if (!(target instanceof HTMLElement) || (target instanceof HTMLInputElement && target.type === "checkbox"))
    return false;
  return (
    target.isContentEditable || target.shadowRoot !== null || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
  );
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return; // It has its own keys.
  if (isWriting(event.target)) {
    if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
    return;
  }
  const isControl = event.target instanceof HTMLElement && event.target.closest("button, a, summary");
  // They press what has the focus.
  if (isControl && (event.key === "Enter" || event.key === " ")) return;
  const wanted = event.key === " " ? "Space" : event.key;
  const found = currentKeys().find((each) => each.keys.split(" ").includes(wanted));
  if (!found) return;
  event.preventDefault();
  found.run(event);
});
