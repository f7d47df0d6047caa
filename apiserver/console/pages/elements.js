/** Small components that the views share. */
import { ApiError } from "./api.js";
import { addKeys } from "./keyboard.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";

/** @param {{error: unknown, onRetry?: () => void}} props */
export function ErrorNotice({ error, onRetry }) {
  const isDenied = error instanceof ApiError && error.code === 403;
  const causes = error instanceof ApiError ? error.causes : [];
  return html`<div class="notice bad" role="alert">
    <strong>${isDenied ? "Not allowed" : "Request failed"}</strong>
    <p>${error instanceof Error ? error.message : String(error)}</p>
    ${
      causes.length > 1 &&
      html`<ul>
      ${causes.map((/** @type {any} */ each) => html`<li><code>${each.field}</code> ${each.message}</li>`)}
    </ul>`
    }
    ${onRetry && html`<button onClick=${onRetry}>Try again</button>`}
  </div>`;
}

/** @param {{children?: any, tone?: string}} props */
export function Notice({ children, tone = "" }) {
  return html`<div class=${`notice ${tone}`} role="status">${children}</div>`;
}

/** @param {{label?: string}} props */
export function Loading({ label = "Loading…" }) {
  return html`<p class="loading" role="status">${label}</p>`;
}

/**
 * What a promise brings, once it does; it is asked for again when `inputs` change.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {any[]} inputs
 * @returns {{value: T | null, error: unknown, isLoading: boolean, reload: () => void}}
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState(
    /** @type {{value: T | null, error: unknown, isLoading: boolean}} */ ({
      value: null,
      error: null,
      isLoading: true,
    }),
  );
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    load(abort.signal).then(
      (value) => abort.signal.aborted || setState({ value, error: null, isLoading: false }),
      (error) => abort.signal.aborted || setState({ value: null, error, isLoading: false }),
    );
    return () => abort.abort();
  }, [...inputs, turn]);
  return { ...state, reload: () => setTurn((before) => before + 1) };
}

/**
 * Runs a function again and again while a component is shown and the page is in view; never twice at a time.
 * @param {(signal: AbortSignal) => Promise<void>} run
 * @param {number} everyMs after each run
 * @param {any[]} inputs begin anew when they change
 * @param {number} [firstMs] after the first run
 */
export function usePolling(run, everyMs, inputs, firstMs = everyMs) {
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const next = async (/** @type {number} */ afterMs) => {
      if (!document.hidden) await run(abort.signal).catch(() => undefined);
      if (!abort.signal.aborted) timer = setTimeout(() => next(everyMs), afterMs);
    };
    void next(firstMs);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, inputs);
}

/**
 * Adds keys while a component is shown. Each press sees the component as it was drawn last.
 * @param {import("./keyboard.js").Key[]} keys
 */
export function useKeys(keys) {
  const latest = useRef(keys);
  // Before the browser paints: two keys may be pressed faster than that.
  useLayoutEffect(() => {
    latest.current = keys;
  });
  useLayoutEffect(() => addKeys(() => latest.current), []);
}

/**
 * Shows that part of many lines or rows of one height that is in view.
 * @param {object} props
 * @param {number} props.count
 * @param {number} props.height of a row, in pixels
 * @param {(index: number) => any} props.row
 * @param {any} [props.head] stays at the top
 * @param {number} [props.shown] the index of a row that is scrolled into view when it changes
 * @param {Record<string, any>} [props.attributes] of the element that scrolls
 */
export function VirtualRows({ count, height, row, head, shown, attributes = {} }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const top = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ from: 0, to: 60 });
  const measure = () => {
    const element = box.current;
    if (!element) return;
    const from = Math.max(0, Math.floor(element.scrollTop / height) - OVERSCAN);
    const to = Math.min(from + Math.ceil(element.clientHeight / height) + 2 * OVERSCAN, from + ROWS_MAX);
    setView((before) => (before.from === from && before.to === to ? before : { from, to }));
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(/** @type {HTMLElement} */ (box.current));
    measure();
    return () => observer.disconnect();
  }, [height]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || shown === undefined || shown < 0) return;
    const headHeight = top.current?.offsetHeight ?? 0;
    const at = shown * height;
    const room = element.clientHeight - headHeight;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + height > element.scrollTop + room) element.scrollTop = at + height - room;
  }, [shown]);
  const from = Math.min(view.from, Math.max(0, count - 1));
  const to = Math.min(view.to, count);
  const rows = [];
  for (let index = from; index < to; index++) rows.push(row(index));
  return html`<div ...${attributes} class=${`virtual ${attributes.class ?? ""}`} ref=${box} onScroll=${measure}>
    ${head && html`<div class="head" role="rowgroup" ref=${top}>${head}</div>`}
    <div role=${head ? "rowgroup" : undefined} style=${{ paddingTop: from * height, paddingBottom: Math.max(0, count - to) * height }}>
      ${rows}
    </div>
  </div>`;
}
const OVERSCAN = 8;
const ROWS_MAX = 90;

/**
 * A dialog over the page.
 * @param {{title: string, onClose: () => void, children?: any, class?: string}} props
 */
export function Dialog({ title, onClose, children, class: name = "" }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return html`<dialog
    ref=${element}
    class=${name}
    aria-label=${title}
    onClose=${() => element.current?.isConnected && element.current.showModal()}
    onCancel=${(/** @type {Event} */ event) => {
      event.preventDefault();
      onClose();
    }}
    onClick=${(/** @type {MouseEvent} */ event) => event.target === element.current && onClose()}
  >
    <div class="dialog">
      <h2>${title}</h2>
      ${children}
    </div>
  </dialog>`;
}

/** @param {{tabs: {id: string, label: string}[], current: string, onChoose: (id: string) => void}} props */
export function Tabs({ tabs, current, onChoose }) {
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(({ id }) => id === current);
    onChoose(tabs[(at + step + tabs.length) % tabs.length].id);
    const list = /** @type {HTMLElement} */ (event.currentTarget);
    requestAnimationFrame(() =>
      /** @type {HTMLElement | null} */ (list.querySelector("[aria-selected=true]"))?.focus(),
    );
  };
  return html`<div class="tabs" role="tablist" onKeyDown=${move}>
    ${tabs.map(
      ({ id, label }) =>
        html`<button
          role="tab"
          key=${id}
          aria-selected=${id === current}
          tabindex=${id === current ? 0 : -1}
          onClick=${() => onChoose(id)}
        >
          ${label}
        </button>`,
    )}
  </div>`;
}

/**
 * A field that reports what is written once there is a pause. To filter 50,000 rows takes 45 ms more, and what is
 * written has to take effect within 100.
 * @param {{label: string, value: string, onChange: (value: string) => void, placeholder?: string, id?: string, delayMs?: number}} props
 */
export function SearchField({ label, value, onChange, placeholder = "", id, delayMs = 25 }) {
  const timer = useRef(0);
  // What is written stays, however often the view around it is drawn meanwhile.
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return html`<input
    type="search"
    id=${id}
    aria-label=${label}
    placeholder=${placeholder || label}
    value=${text}
    spellcheck=${false}
    autocomplete="off"
    onInput=${(/** @type {any} */ event) => {
      const written = event.target.value;
      setText(written);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => onChange(written), delayMs);
    }}
    onChange=${(/** @type {any} */ event) => {
      clearTimeout(timer.current);
      setText(event.target.value);
      onChange(event.target.value);
    }}
  />`;
}

/** @param {{items: {label: string, value: any}[]}} props */
export function Facts({ items }) {
  const given = items.filter(({ value }) => value !== undefined && value !== null && value !== "");
  return html`<dl class="facts">
    ${given.map(({ label, value }) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/**
 * A small table of what is not objects.
 * @param {{columns: string[], rows: any[][], label: string, empty?: string}} props
 */
export function SimpleTable({ columns, rows, label, empty = "None." }) {
  if (!rows.length) return html`<p class="muted">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table class="simple">
      <thead><tr>${columns.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
      <tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;
}
