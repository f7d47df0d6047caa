/** Who still uses APIs that a later release removes. */
import { getJson } from "../api.js";
import { ErrorNotice, Loading, SimpleTable, useLoaded } from "../elements.js";
import { age, moment, number } from "../format.js";
import { html } from "../vendor/preact.js";

export default function Deprecations() {
  const { value, error, reload } = useLoaded((signal) => getJson("/debug/deprecations", { signal }), []);
  const rows = value?.requests.map((/** @type {any} */ each) => [
    `${each.resource} of ${each.group ? `${each.group}/` : ""}${each.version}`,
    html`<span data-tone="waiting">${each.removedRelease}</span>`,
    each.replacement,
    each.user,
    html`<span title=${each.userAgent}>${each.userAgent.split(" ")[0]}</span>`,
    number(each.count),
    html`<span title=${moment(each.lastSeen)}>${age(each.lastSeen)}</span>`,
  ]);
  return html`<section class="page">
    <div class="bar"><h1>Deprecations</h1><button onClick=${reload}>Refresh</button></div>
    ${error !== null && html`<${ErrorNotice} error=${error} onRetry=${reload} />`} ${!value && !error && html`<${Loading} />`}
    ${
      value &&
      html`<p class="muted">Requests since ${moment(value.since)}${value.workers > 1 ? `, of one of ${value.workers} processes` : ""}. The server emulates Kubernetes ${value.release}.</p>
      <div class="card"><${SimpleTable} label="Deprecated requests" columns=${["API", "Removed in", "Use instead", "User", "Agent", "Requests", "Last"]} rows=${rows} empty="Nobody has used a deprecated API." /></div>`
    }
  </section>`;
}
