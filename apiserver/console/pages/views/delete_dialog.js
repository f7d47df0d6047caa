/** Asks before objects are deleted, and can try it first. */
import { forEach, request } from "../api.js";
import { Dialog } from "../elements.js";
import { counted, number } from "../format.js";
import { html, useEffect, useRef, useState } from "../vendor/preact.js";

/** @typedef {{label: string, path: string, uid: string}} Target */
/** @typedef {{label: string, text: string, isGood: boolean}} Result */

/**
 * Deletes an object, if it is still the one that was on the screen.
 * @param {Target} target
 * @param {boolean} isTrial
 * @param {string} propagation
 */
async function remove(target, isTrial, propagation) {
  if (!target.uid) throw new Error("This is not an object that was read.");
  const options = {
    kind: "DeleteOptions",
    apiVersion: "v1",
    propagationPolicy: propagation,
    preconditions: { uid: target.uid },
    ...(isTrial ? { dryRun: ["All"] } : {}),
  };
  await request(target.path, { method: "DELETE", type: "application/json", body: JSON.stringify(options) });
}

/** @param {{objects: Target[], kind: string, onClose: (isDone: boolean) => void}} props */
export function DeleteDialog({ objects, kind, onClose }) {
  const [targets] = useState(objects); // What was asked for, whatever the list becomes meanwhile.
  const [propagation, setPropagation] = useState("Background");
  const [results, setResults] = useState(/** @type {Result[]} */ ([]));
  const [abort] = useState(() => new AbortController());
  const close = () => {
    abort.abort();
    onClose(phase === "done");
  };
  const [phase, setPhase] = useState(/** @type {"" | "busy" | "tried" | "done"} */ (""));
  const closeButton = useRef(/** @type {HTMLElement | null} */ (null));
  // The button that was pressed is disabled meanwhile, and then gone.
  useEffect(() => {
    if (phase) closeButton.current?.focus();
  }, [phase]);
  /** @param {boolean} isTrial */
  const run = async (isTrial) => {
    setPhase("busy");
    const outcomes = await forEach(targets, (target) => remove(target, isTrial, propagation), abort.signal);
    setResults(
      outcomes.map((outcome, at) => ({
        label: targets[at].label,
        text:
          outcome.status === "rejected" ? outcome.reason.message : isTrial ? "would be deleted" : "deleted",
        isGood: outcome.status === "fulfilled",
      })),
    );
    setPhase(isTrial ? "tried" : "done");
  };
  const failed = results.filter(({ isGood }) => !isGood).length;
  const lines = results.length ? results : targets.map(({ label }) => ({ label, text: "", isGood: true }));
  return html`<${Dialog} title=${`Delete ${counted(targets.length, kind)}?`} onClose=${close}>
    <ul class="targets" tabindex="0" aria-label="Objects">
      ${lines
        .slice(0, SHOWN_MAX)
        .map(
          ({ label, text, isGood }) =>
            html`<li key=${label}><code>${label}</code> <span data-tone=${isGood ? "good" : "bad"}>${text}</span></li>`,
        )}
      ${lines.length > SHOWN_MAX && html`<li class="muted">and ${number(lines.length - SHOWN_MAX)} more</li>`}
    </ul>
    ${results.length > 0 && html`<p role="status">${number(results.length - failed)} ${phase === "done" ? "deleted" : "would be deleted"}, ${number(failed)} refused.</p>`}
    ${
      phase !== "done" &&
      html`<label>
      Dependents
      <select value=${propagation} onChange=${(/** @type {any} */ event) => setPropagation(event.target.value)}>
        <option value="Background">are deleted afterwards</option>
        <option value="Foreground">are deleted first</option>
        <option value="Orphan">stay</option>
      </select>
    </label>`
    }
    <div class="buttons">
      <button ref=${closeButton} onClick=${close}>${phase === "done" ? "Close" : phase === "busy" ? "Stop" : "Cancel"}</button>
      ${
        phase !== "done" &&
        html`<button disabled=${phase === "busy"} onClick=${() => run(true)}>Try it (dry run)</button>
        <button class="danger" disabled=${phase === "busy"} onClick=${() => run(false)}>Delete</button>`
      }
    </div>
  </${Dialog}>`;
}
const SHOWN_MAX = 200;
