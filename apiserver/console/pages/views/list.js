/** The objects of a type: the server's table, live. */
import { ErrorNotice, Loading, Notice, SearchField, useKeys, VirtualRows } from "../elements.js";
import { duration, now, number } from "../format.js";
import { compile, shown } from "../json_path.js";
import { collectionPath, typeOfSteps, objectPath, objectSteps, types } from "../resource_types.js";
import { go, href, route, setQuery } from "../router.js";
import { isAgeColumn, Rows, selected } from "../rows.js";
import { config } from "../session.js";
import { html, useLayoutEffect, useMemo, useState } from "../vendor/preact.js";
import { DeleteDialog } from "./delete_dialog.js";
import { Namespaces } from "./namespaces.js";

/** @typedef {import("../resource_types.js").ResourceType} ResourceType */
/** @typedef {import("../rows.js").Row} Row */
/** @typedef {import("../rows.js").Column} Column */

const ROW_HEIGHT = 30;
// Of a column, in characters: measured on as many rows as may be seen at first.
const WIDTH = { min: 6, least: 18, max: 44, mark: 4, sample: 200, margin: 3 };

export default function List() {
  const type = typeOfSteps(route.value.steps);
  if (!types.value.length) return html`<${Loading} />`;
  if (!type) return html`<${ErrorNotice} error="The server does not serve this type." />`;
  return html`<${TypeList} type=${type} />`;
}

/** @param {{type: ResourceType}} props */
function TypeList({ type }) {
  const { query } = route.value;
  const parameters = Object.fromEntries(query);
  const { ns = "", l = "", f = "", q = "", sort = "", wide = "" } = parameters;
  const jsonPaths = query.get("columns") ?? "";
  const further = useMemo(() => furtherColumns(jsonPaths), [jsonPaths]);
  const path = `${collectionPath(type, ns)}${selectors(l, f)}`;
  const rows = useMemo(() => new Rows(path, further.values), [path, jsonPaths]);
  useLayoutEffect(() => () => rows.close(), [rows]);
  const all = [...rows.columns.value, ...further.columns];
  const sorting = sortingOf(sort, all);
  const changes = rows.changes.value;
  const found = useMemo(
    () => selected(rows.byKey.values(), q, sorting, rows.columns.value),
    [rows, changes, q, sort, all.length],
  );
  const [cursor, setCursor] = useState("");
  const [marked, setMarked] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const [isDeleting, setIsDeleting] = useState(false);
  // -1 if there is none, or no longer: then no key acts on a row.
  const at = found.findIndex((row) => row.key === cursor);
  const current = found[at];
  /** @param {number} to */
  const move = (to) => found.length && setCursor(found[Math.min(Math.max(to, 0), found.length - 1)].key);
  /** @param {string} uid */
  const mark = (uid) => {
    const next = new Set(marked);
    if (!next.delete(uid)) next.add(uid);
    setMarked(next);
  };
  /** @param {Row | undefined} row @param {string} [tab] */
  const openRow = (row, tab) => row && go(href(objectSteps(type, row.namespace, row.name), { tab }));
  const chosen = found.filter((row) => marked.has(row.uid));
  const canChange = !config.value.readOnly;
  const canDelete = canChange && type.verbs.includes("delete");
  const target = chosen.length ? chosen : current ? [current] : [];
  useKeys([
    { keys: "j ArrowDown", text: "Next row", run: () => move(at + 1) },
    { keys: "k ArrowUp", text: "Previous row", run: () => move(at - 1) },
    { keys: "g Home", text: "First row", run: () => move(0) },
    { keys: "G End", text: "Last row", run: () => move(found.length - 1) },
    { keys: "PageDown", text: "A page down", run: () => move(at + 20), isHidden: true },
    { keys: "PageUp", text: "A page up", run: () => move(at - 20), isHidden: true },
    { keys: "Enter", text: "Open", run: () => openRow(current) },
    { keys: "y", text: "Open its YAML", run: () => openRow(current, "yaml") },
    { keys: "h", text: "Open its history", run: () => openRow(current, "history") },
    ...(canChange
      ? [
          {
            keys: "e",
            text: "Edit",
            run: () =>
              current && go(href(["edit", ...objectSteps(type, current.namespace, current.name).slice(1)])),
          },
        ]
      : []),
    ...(canDelete
      ? [
          { keys: "Space x", text: "Mark", run: () => current && mark(current.uid) },
          {
            keys: "d Delete",
            text: "Delete what is marked",
            run: () => target.length && setIsDeleting(true),
          },
        ]
      : []),
    { keys: "/", text: "Filter", run: () => document.getElementById("filter")?.focus() },
    { keys: "w", text: "Show all columns, or the main ones", run: () => setQuery({ wide: wide ? "" : "1" }) },
  ]);

  const columns = visibleColumns(type, all, Boolean(wide), ns);
  return html`<section class="page full" aria-label=${type.kind}>
    <div class="bar">
      <h1>${type.resource}<span class="muted"> ${type.group || "core"}/${type.version}</span></h1>
      ${type.isNamespaced && html`<${Namespaces} value=${ns} onChange=${(/** @type {string} */ value) => setQuery({ ns: value })} />`}
      <${SearchField} id="filter" label="Filter rows" value=${q} onChange=${(/** @type {string} */ value) => setQuery({ q: value })} />
      <${SearchField} label="Label selector" placeholder="labels: app=web" value=${l} delayMs=${500} onChange=${(/** @type {string} */ value) => setQuery({ l: value.trim() })} />
      <${SearchField} label="Field selector" placeholder="fields: spec.nodeName=…" value=${f} delayMs=${500} onChange=${(/** @type {string} */ value) => setQuery({ f: value.trim() })} />
      <${SearchField} label="Custom columns" placeholder="columns: .spec.nodeName" value=${jsonPaths} delayMs=${500} onChange=${(/** @type {string} */ value) => setQuery({ columns: value.trim() })} />
      <label class="check"><input type="checkbox" checked=${Boolean(wide)} onChange=${() => setQuery({ wide: wide ? "" : "1" })} />wide</label>
      <span class="space"></span>
      ${chosen.length > 0 && canDelete && html`<button class="danger" onClick=${() => setIsDeleting(true)}>Delete ${number(chosen.length)}…</button>`}
      ${canChange && type.verbs.includes("create") && html`<a class="button" href=${href(["create", ...objectSteps(type, "", "").slice(1, 4)], { ns })}>Create</a>`}
    </div>
    ${further.error && html`<${Notice} tone="bad">${further.error}</${Notice}>`}
    ${rows.error.value && html`<${ErrorNotice} error=${rows.error.value} onRetry=${() => rows.load()} />`}
    <${Grid}
      label=${type.resource}
      columns=${columns}
      rows=${found}
      at=${at}
      marked=${marked}
      canMark=${canDelete}
      sorting=${sorting}
      onSort=${(/** @type {number} */ index) => setQuery({ sort: nextSort(sort, all[index]?.name) })}
      onMark=${mark}
      onCursor=${(/** @type {Row} */ row) => setCursor(row.key)}
      link=${(/** @type {Row} */ row) => href(objectSteps(type, row.namespace, row.name))}
    />
    <p class="status" role=${rows.isLoading.value ? undefined : "status"}>
      ${rows.isLoading.value ? `Reading: ${number(rows.byKey.size)} of ${number(rows.expected.value)}` : found.length === rows.byKey.size ? number(found.length) : `${number(found.length)} of ${number(rows.byKey.size)}`}
    </p>
    ${
      isDeleting &&
      html`<${DeleteDialog}
      objects=${target.map((row) => ({ label: row.key.replace(/^\//, ""), path: objectPath(type, row.namespace, row.name), uid: row.uid }))}
      kind=${type.kind}
      onClose=${(/** @type {boolean} */ isDone) => {
        setIsDeleting(false);
        if (isDone) setMarked(new Set());
      }}
    />`
    }
  </section>`;
}

/** @param {string} labels @param {string} fields */
function selectors(labels, fields) {
  const given = Object.entries({ labelSelector: labels, fieldSelector: fields }).filter(([, value]) => value);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** @param {string} text expressions with spaces between them */
function furtherColumns(text) {
  const names = text.match(/(?:\[[^\]]*\]|\S)+/g) ?? [];
  try {
    const compiled = names.map(compile);
    return {
      columns: names.map((name) => ({ name, type: "string", format: "", description: name, priority: 0 })),
      values: compiled.length
        ? (/** @type {any} */ object) => compiled.map((find) => shown(find(object)))
        : null,
      error: "",
    };
  } catch (error) {
    return { columns: [], values: null, error: `Custom columns: ${/** @type {Error} */ (error).message}` };
  }
}

/** @param {string} text @param {Column[]} columns */
function sortingOf(text, columns) {
  const column = columns.findIndex(({ name }) => name === text.replace(/^-/, ""));
  return column < 0 ? null : { column, isDescending: text.startsWith("-") };
}

/** @param {string} sort @param {string} name */
function nextSort(sort, name) {
  return sort === name ? `-${name}` : sort === `-${name}` ? "" : name;
}

/** @typedef {{name: string, description: string, index: number, cell: (row: Row) => any}} Shown index: in cells, or -1 */

/**
 * @param {ResourceType} type
 * @param {Column[]} all
 * @param {boolean} isWide
 * @param {string} namespace
 * @returns {Shown[]}
 */
function visibleColumns(type, all, isWide, namespace) {
  const ofTable = all
    .map((column, index) => ({
      name: column.name,
      description: column.description,
      index,
      priority: column.priority,
      cell: cellOf(column, index),
    }))
    .filter(({ priority }) => isWide || !priority);
  if (!type.isNamespaced || namespace) return ofTable;
  const first = {
    name: "Namespace",
    description: "",
    index: -1,
    cell: (/** @type {Row} */ row) => row.namespace,
  };
  return [first, ...ofTable];
}

/** @param {Column} column @param {number} index */
function cellOf(column, index) {
  return (/** @type {Row} */ row) => {
    if (isAgeColumn(column)) return duration(now.value - row.createdAt);
    const value = index < row.cells.length ? row.cells[index] : row.extra[index - row.cells.length];
    return value === null || value === undefined ? "" : String(value);
  };
}

/** @param {any} props */
function Grid({ label, columns, rows, at, marked, canMark, sorting, onSort, onMark, onCursor, link }) {
  const widths = useMemo(
    () => widthsOf(columns, rows, canMark),
    [columns.map((/** @type {Shown} */ each) => each.name).join(), rows.length > 0, canMark],
  );
  const nameAt = columns.findIndex((/** @type {Shown} */ each) => each.index === 0);
  /** @param {number} index */
  const row = (index) => {
    const each = rows[index];
    return html`<div
      role="row"
      id=${`row-${index}`}
      key=${each.key}
      class=${`row ${index === at ? "current" : ""} ${each.isEnding ? "ending" : ""}`}
      aria-rowindex=${index + 2}
      aria-selected=${canMark ? marked.has(each.uid) : undefined}
      style=${widths}
      onClick=${() => onCursor(each)}
    >
      ${
        canMark &&
        html`<span role="gridcell"><input type="checkbox" tabindex="-1" aria-label=${`Mark ${each.name}`} checked=${marked.has(each.uid)} onChange=${() => onMark(each.uid)} /></span>`
      }
      ${columns.map((/** @type {Shown} */ column, /** @type {number} */ columnAt) => {
        const text = column.cell(each);
        return html`<span role="gridcell" title=${text} key=${column.name} data-tone=${tone(text)}
          >${columnAt === nameAt ? html`<a href=${link(each)} tabindex="-1">${text}</a>` : text}</span
        >`;
      })}
    </div>`;
  };
  const head = html`<div role="row" class="row" aria-rowindex="1" style=${widths}>
    ${canMark && html`<span role="columnheader" aria-label="Marked"></span>`}
    ${columns.map((/** @type {Shown} */ column) => {
      const isSorted = sorting && column.index === sorting.column;
      const order = isSorted ? (sorting.isDescending ? "descending" : "ascending") : undefined;
      return html`<span role="columnheader" key=${column.name} aria-sort=${order} title=${column.description}>
        ${column.index < 0 ? column.name : html`<button class="plain" onClick=${() => onSort(column.index)}>${column.name}${order ? (sorting.isDescending ? " ▾" : " ▴") : ""}</button>`}
      </span>`;
    })}
  </div>`;
  return html`<${VirtualRows}
    count=${rows.length}
    height=${ROW_HEIGHT}
    row=${row}
    head=${head}
    shown=${at}
    attributes=${{
      class: "grid",
      role: "grid",
      tabindex: 0,
      "aria-label": label,
      "aria-rowcount": rows.length + 1,
      "aria-multiselectable": canMark ? "true" : undefined,
      "aria-activedescendant": at >= 0 ? `row-${at}` : undefined,
    }}
  />`;
}

/**
 * The widths of columns, as styles of each row: they stay while rows scroll.
 * @param {Shown[]} columns
 * @param {Row[]} rows
 * @param {boolean} canMark
 */
function widthsOf(columns, rows, canMark) {
  const sample = rows.slice(0, WIDTH.sample);
  const fitting = columns.map((column) => {
    const longest = sample.reduce(
      (length, row) => Math.max(length, column.cell(row).length),
      column.name.length + 2,
    );
    return Math.min(Math.max(longest + WIDTH.margin, WIDTH.min), WIDTH.max);
  });
  const least = fitting.map((width) => Math.min(width, WIDTH.least));
  const tracks = fitting.map((width, at) => `minmax(${least[at]}ch, ${width}fr)`);
  const total = least.reduce((sum, width) => sum + width, WIDTH.mark);
  return {
    gridTemplateColumns: [...(canMark ? [`${WIDTH.mark}ch`] : []), ...tracks].join(" "),
    minWidth: `${total}ch`,
    height: ROW_HEIGHT,
  };
}

const BAD =
  /^(Failed|Error|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|Evicted|OOMKilled|NotReady|Lost|Unknown|InvalidImageName|CreateContainerConfigError|False)$/;
const GOOD = /^(Running|Ready|Active|Bound|Succeeded|Completed|Complete|Available|True)$/;
const WAITING = /^(Pending|Terminating|ContainerCreating|Init:.*|Progressing|Released|Suspended)$/;

/** @param {string} text of a cell */
function tone(text) {
  return BAD.test(text) ? "bad" : GOOD.test(text) ? "good" : WAITING.test(text) ? "waiting" : undefined;
}
