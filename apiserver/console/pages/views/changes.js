/** Who has done what lately, in all objects that the user may see. */
import { ApiError, getJson } from "../api.js";
import { ErrorNotice, Loading, Notice, SearchField, SimpleTable, useLoaded } from "../elements.js";
import { age, counted, moment } from "../format.js";
import { findType, objectSteps } from "../resource_types.js";
import { href, route, setQuery } from "../router.js";
import { html } from "../vendor/preact.js";
import { Namespaces } from "./namespaces.js";

const PERIODS = [
  { label: "10 minutes", ms: 600_000 },
  { label: "1 hour", ms: 3_600_000 },
  { label: "1 day", ms: 86_400_000 },
  { label: "7 days", ms: 7 * 86_400_000 },
];
const CHANGES_MAX = 500;
// The server looks at many changes for each answer, and may find few.
const ANSWERS_MAX = 10;

/** @typedef {{ns: string, by: string, since: string}} Wanted */

export default function Changes() {
  const { query } = route.value;
  const wanted = {
    ns: query.get("ns") ?? "",
    by: query.get("by") ?? "",
    since: query.get("since") ?? "1 hour",
  };
  const { value, error, reload } = useLoaded(
    (signal) => read(wanted, signal),
    [wanted.ns, wanted.by, wanted.since],
  );
  return html`<section class="page">
    <div class="bar">
      <h1>Changes</h1>
      <select aria-label="Period" value=${wanted.since} onChange=${(/** @type {any} */ event) => setQuery({ since: event.target.value })}>
        ${PERIODS.map(({ label }) => html`<option key=${label} value=${label}>the last ${label}</option>`)}
      </select>
      <${Namespaces} value=${wanted.ns} onChange=${(/** @type {string} */ ns) => setQuery({ ns })} />
      <${SearchField} label="By user" value=${wanted.by} delayMs=${500} onChange=${(/** @type {string} */ by) => setQuery({ by: by.trim() })} />
      <button onClick=${reload}>Refresh</button>
    </div>
    ${error instanceof ApiError && error.code === 404 && html`<${Notice}>The server keeps no history. The flag <code>--history</code> turns it on.</${Notice}>`}
    ${error !== null && !(error instanceof ApiError && error.code === 404) && html`<${ErrorNotice} error=${error} onRetry=${reload} />`}
    ${!value && !error && html`<${Loading} />`} ${value && html`<${ChangeTable} changes=${value.changes} isCut=${value.isCut} />`}
  </section>`;
}

/**
 * @param {Wanted} wanted
 * @param {AbortSignal} signal
 */
async function read({ ns, by, since }, signal) {
  const period = PERIODS.find(({ label }) => label === since)?.ms ?? PERIODS[1].ms;
  /** @type {any[]} */
  const changes = [];
  let next = "";
  let start = new Date(Date.now() - period).toISOString();
  for (let answers = 0; answers < ANSWERS_MAX && changes.length < CHANGES_MAX; answers++) {
    const query = new URLSearchParams({
      limit: "100",
      ...(start && { since: start }),
      ...(ns && { namespace: ns }),
      ...(by && { by }),
      ...(next && { continue: next }),
    });
    let found;
    try {
      found = await getJson(`/history?${query}`, { signal });
    } catch (error) {
      // The history begins later than that: then all of it.
      if (!(error instanceof ApiError) || error.code !== 410 || !start) throw error;
      start = "";
      continue;
    }
    changes.push(...found.changes);
    next = found.continue ?? "";
    if (!next) break;
  }
  return { changes, isCut: Boolean(next) };
}

/** @param {{changes: any[], isCut: boolean}} props */
function ChangeTable({ changes, isCut }) {
  const rows = changes.map((each) => {
    if (each.gap)
      return [
        "",
        "",
        html`<span class="muted">not recorded: ${each.gap.since} to ${each.gap.until}</span>`,
        "",
        "",
      ];
    return [
      html`<span title=${moment(each.time ?? "")}>${age(each.time)}</span>`,
      html`<a href=${href(["changes"], { by: each.user })}>${each.user || "unknown"}</a>`,
      html`<${ObjectLink} change=${each} />`,
      each.deleted ? html`<span data-tone="bad">deleted</span>` : each.verb || each.fieldManager,
      html`<span class="changed">${(each.changedFields ?? []).slice(0, 8).join(", ")}</span>`,
    ];
  });
  return html`<p class="muted" role="status">${counted(changes.length, "change")}${isCut ? ", and older ones" : ""}</p>
    <${SimpleTable} label="Changes" columns=${["When", "Who", "What", "How", "Fields"]} rows=${rows} empty="Nothing has changed in this period." />`;
}

/** @param {{change: any}} props */
function ObjectLink({ change }) {
  const { group, version, resource, namespace = "", name } = change;
  const label = `${resource} ${namespace ? `${namespace}/` : ""}${name}`;
  const type = findType(group ?? "", version, resource);
  return type
    ? html`<a href=${href(objectSteps(type, namespace, name), { tab: "history" })}>${label}</a>`
    : html`${label}`;
}
