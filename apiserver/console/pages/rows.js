/**
 * The rows of a list: read page by page, then kept up to date by a watch.
 * Of each object it keeps what a row shows, so that 50,000 of them fit into a page.
 */
import { ApiError, getJson, TABLE } from "./api.js";
import { isTransient, Retries } from "./retries.js";
import { batch, signal } from "./vendor/preact.js";
import { watch } from "./watches.js";

// The first page is on the screen at once, the others come in few requests.
const FIRST_PAGE = 200;
const LATER_PAGES = 5_000;
// Changes that come at once are drawn at once.
const DRAWN_AFTER_MS = 16;

/**
 * @typedef {object} Row
 * @property {string} key the namespace and the name
 * @property {string} namespace
 * @property {string} name
 * @property {string} uid
 * @property {number} createdAt milliseconds since 1970
 * @property {boolean} isEnding whether its deletion has begun
 * @property {any[]} cells
 * @property {any[]} extra values of further columns
 * @property {string} [text] all of it in lower case, for the filter; made when first asked for
 */
/** @typedef {{name: string, type: string, format: string, description: string, priority: number}} Column */

export class Rows {
  /**
   * @param {string} path of the collection, with its selectors
   * @param {((object: any) => any[]) | null} extra returns the values of further columns of an object
   */
  constructor(path, extra = null) {
    this.columns = signal(/** @type {Column[]} */ ([]));
    /** Counts changes: what shows rows reads it to be drawn again. */
    this.changes = signal(0);
    this.isLoading = signal(true);
    this.error = signal(/** @type {ApiError | null} */ (null));
    /** How many there are, if the server has said so. */
    this.expected = signal(0);
    /** @type {Map<string, Row>} */
    this.byKey = new Map();
    this.path = path;
    this.extra = extra;
    this.abort = new AbortController();
    this.stop = () => {};
    this.timer = 0;
    this.loads = 0;
    /** The page goes on by itself once the server can be reached again. */
    this.retries = new Retries(() => this.load());
    void this.load();
  }

  /** Reads the list, and follows its changes. */
  async load() {
    /** @type {Map<string, Row>} */
    const found = new Map();
    let next = "";
    let version = "";
    this.stop();
    this.retries.stop();
    this.isLoading.value = true;
    const number = ++this.loads;
    const isCurrent = () => number === this.loads && !this.abort.signal.aborted;
    try {
      do {
        const page = await this.page(found.size ? LATER_PAGES : FIRST_PAGE, next);
        version ||= page.metadata.resourceVersion;
        next = page.metadata.continue ?? "";
        if (!isCurrent()) return;
        for (const row of page.rows) this.put(found, row);
        batch(() => {
          if (page.columnDefinitions?.length) this.columns.value = page.columnDefinitions;
          this.error.value = null;
          this.expected.value = found.size + (page.metadata.remainingItemCount ?? 0);
          // A list that is read again stays on the screen until it is complete.
          if (!this.byKey.size || !next) this.byKey = found;
          this.changes.value++;
        });
      } while (next);
    } catch (error) {
      if (!isCurrent()) return;
      // A page of a list that took too long: what was read is too old to go on with.
      if (error instanceof ApiError && error.code === 410 && found.size) return void this.load();
      if (!(error instanceof ApiError)) throw error;
      this.error.value = error;
      this.isLoading.value = false;
      if (isTransient(error.code)) this.retries.again(error);
      return;
    }
    this.retries.done();
    this.isLoading.value = false;
    this.follow(version);
  }

  /**
   * @param {number} limit
   * @param {string} next
   */
  page(limit, next) {
    const paging = `limit=${limit}${next ? `&continue=${encodeURIComponent(next)}` : ""}`;
    return getJson(`${this.withForm()}&${paging}`, { accept: TABLE, signal: this.abort.signal });
  }

  withForm() {
    const form = `includeObject=${this.extra ? "Object" : "Metadata"}`;
    return `${this.path}${this.path.includes("?") ? "&" : "?"}${form}`;
  }

  /** @param {string} resourceVersion */
  follow(resourceVersion) {
    this.stop = watch({
      path: this.withForm(),
      resourceVersion,
      accept: TABLE,
      onEvent: (type, table) => this.changed(type, table),
      onEnd: (error) => {
        if (error.code === 410) void this.load();
        else this.error.value = error;
      },
    });
  }

  /**
   * @param {string} type
   * @param {any} table
   */
  changed(type, table) {
    for (const row of table.rows) {
      if (type === "DELETED") this.byKey.delete(keyOf(row.object.metadata));
      else this.put(this.byKey, row);
    }
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.changes.value++;
    }, DRAWN_AFTER_MS);
  }

  /**
   * @param {Map<string, Row>} rows
   * @param {{cells: any[], object: any}} row
   */
  put(rows, { cells, object }) {
    const { namespace = "", name, uid, creationTimestamp, deletionTimestamp } = object.metadata;
    const key = keyOf(object.metadata);
    rows.set(key, {
      key,
      namespace,
      name,
      uid,
      createdAt: Date.parse(creationTimestamp),
      isEnding: Boolean(deletionTimestamp),
      cells,
      extra: this.extra ? this.extra(object) : [],
    });
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
    this.retries.stop();
    this.stop();
  }
}

/** @param {{namespace?: string, name: string}} metadata */
function keyOf({ namespace = "", name }) {
  return `${namespace}/${name}`;
}

/** @param {Row} row */
function textOf(row) {
  row.text ??= [row.namespace, ...row.cells, ...row.extra].join("\n").toLowerCase();
  return row.text;
}

const ORDER = new Intl.Collator("en", { numeric: true });

/**
 * Returns the rows that contain all words, in an order.
 * @param {Iterable<Row>} rows
 * @param {string} words
 * @param {{column: number, isDescending: boolean} | null} sorting column: of `cells`; after these, `extra`
 * @param {Column[]} columns
 */
export function selected(rows, words, sorting, columns) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const row of rows) {
    if (!wanted.length || wanted.every((word) => textOf(row).includes(word))) found.push(row);
  }
  if (!sorting) return found;
  const { column, isDescending } = sorting;
  const isAge = columns[column] && isAgeColumn(columns[column]);
  /** @param {Row} row */
  const value = (row) => {
    if (isAge) return -row.createdAt;
    return column < row.cells.length ? row.cells[column] : row.extra[column - row.cells.length];
  };
  const sign = isDescending ? -1 : 1;
  return found.sort((a, b) => sign * compared(value(a), value(b)));
}

/**
 * Whether a column shows how old an object is, so that it can be drawn again as time passes: by its description,
 * as definitions may have columns of this name for other times.
 * @param {Column} column
 */
export function isAgeColumn({ name, description }) {
  return name === "Age" && description.startsWith("CreationTimestamp ");
}

/**
 * Compares two cells: numbers, durations (`2m`, `5d3h`) and quantities (`500m`, `10Mi`) by value, and numbers within
 * texts, too, so that web-9 comes before web-10.
 * @param {any} a
 * @param {any} b
 */
export function compared(a, b) {
  for (const measure of [seconds, quantity]) {
    const [x, y] = [measure(a), measure(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  }
  return ORDER.compare(String(a ?? ""), String(b ?? ""));
}

const DURATION = /^(?:(\d+)y)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/;
const SECONDS = [31_536_000, 86_400, 3_600, 60, 1];

/**
 * @param {any} cell
 * @returns {number} NaN if it is no duration
 */
function seconds(cell) {
  const found = typeof cell === "string" && cell ? DURATION.exec(cell) : null;
  return found ? SECONDS.reduce((sum, unit, at) => sum + unit * Number(found[at + 1] ?? 0), 0) : NaN;
}

const QUANTITY = /^([+-]?\d+(?:\.\d+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/;
const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/**
 * @param {any} cell
 * @returns {number} NaN if it is no number and no quantity
 */
function quantity(cell) {
  if (typeof cell === "number") return cell;
  const found = typeof cell === "string" ? QUANTITY.exec(cell) : null;
  if (!found) return NaN;
  const [, digits, unit = ""] = found;
  const scale = unit.endsWith("i") ? 1_024 ** BINARY.indexOf(unit) : 1_000 ** (DECIMAL.indexOf(unit) - 3);
  return Number(digits) * scale;
}
