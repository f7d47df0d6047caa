/** What clients ask of the server: who asks how much, and what was slow or refused. */
import { getJson } from "../api.js";
import { ErrorNotice, Loading, Notice, SearchField, SimpleTable, usePolling } from "../elements.js";
import { age, byteSize, counted, moment, number } from "../format.js";
import { route, setQuery } from "../router.js";
import { html, useState } from "../vendor/preact.js";

const READ_EVERY_MS = 3_000;
const CLIENTS_MAX = 50;

export default function Requests() {
  const { query } = route.value;
  const [user, agent] = [query.get("user") ?? "", query.get("agent") ?? ""];
  const filters = `${new URLSearchParams({ ...(user && { user }), ...(agent && { agent }) })}`;
  const [found, setFound] = useState(
    /** @type {{noted?: any, clients?: any, faults?: any[], error?: unknown}} */ ({}),
  );
  const read = async (/** @type {AbortSignal} */ signal) => {
    try {
      const noted = await getJson(`/debug/requests${filters && `?${filters}`}`, { signal });
      const clients = await getJson("/debug/clients", { signal });
      // Servers that are not for tests have none, and most users may not see them.
      const { faults } = await getJson("/debug/faults", { signal }).catch(() => ({ faults: [] }));
      setFound({ noted, clients, faults });
    } catch (error) {
      if (!signal.aborted) setFound({ error });
    }
  };
  usePolling(read, READ_EVERY_MS, [filters]);
  return html`<section class="page">
    <div class="bar">
      <h1>Requests</h1>
      <${SearchField} label="User" value=${user} delayMs=${400} onChange=${(/** @type {string} */ value) => setQuery({ user: value.trim() })} />
      <${SearchField} label="User agent" value=${agent} delayMs=${400} onChange=${(/** @type {string} */ value) => setQuery({ agent: value.trim() })} />
    </div>
    ${found.error && html`<${ErrorNotice} error=${found.error} />`}
    ${!found.error && !found.noted && html`<${Loading} />`}
    ${found.faults?.length && html`<${Notice}>Tests inject ${counted(found.faults.length, "fault")}: <a href="#/tests">see them</a>.</${Notice}>`}
    ${
      found.noted &&
      html`<div class="card"><h2>Slow or refused</h2><${Noted} requests=${found.noted.requests} /></div>
      <div class="card"><h2>Clients</h2><${Clients} found=${found.clients} user=${user} agent=${agent} /></div>`
    }
  </section>`;
}

/** @param {{requests: any[]}} props */
function Noted({ requests }) {
  const rows = requests.map((each) => [
    html`<span title=${`${moment(each.time)}\n${each.auditID}`}>${age(each.time)}</span>`,
    html`<span data-tone=${each.outcome === "slow" ? "waiting" : "bad"}>${each.status || "gone"}</span>`,
    `${each.verb} ${each.path}`,
    html`<span title=${each.userAgent}>${each.user}</span>`,
    `${number(Math.round(each.milliseconds))} ms`,
    each.outcome === "slow" ? phases(each) : each.message || each.reason,
  ]);
  const columns = ["When", "Status", "Request", "User", "Time", "Why, or where the time went"];
  return html`<${SimpleTable} label="Slow or refused requests" columns=${columns} rows=${rows} empty="None lately." />`;
}

/** @param {any} request a slow one */
function phases({ phases, otherMilliseconds }) {
  const named = phases.map(
    (/** @type {any} */ each) =>
      `${each.name}${each.detail ? ` ${each.detail}` : ""} ${Math.round(each.milliseconds)} ms`,
  );
  return [...named, `other ${Math.round(otherMilliseconds)} ms`].join(", ");
}

/** @param {{found: any, user: string, agent: string}} props */
function Clients({ found, user, agent }) {
  const rows = found.clients
    .filter((/** @type {any} */ each) => each.user.includes(user) && each.userAgent.includes(agent))
    .toSorted((/** @type {any} */ a, /** @type {any} */ b) => b.seconds - a.seconds)
    .slice(0, CLIENTS_MAX)
    .map((/** @type {any} */ each) => [
      each.user || "unknown",
      html`<span title=${each.userAgent}>${each.userAgent.split(" ")[0]}</span>`,
      `${each.verb} ${each.resource}${each.subresource ? `/${each.subresource}` : ""}`,
      number(each.requests),
      `${each.seconds.toFixed(2)} s`,
      byteSize(each.sentBytes),
      each.refused ? html`<span data-tone="bad">${number(each.refused)}</span>` : "",
      each.watches ? number(each.watches) : "",
    ]);
  return html`<p class="muted">Since ${number(Math.round(found.seconds))} seconds${found.workers > 1 ? `, of one of ${found.workers} processes` : ""}.</p>
    <${SimpleTable} label="Clients" columns=${["User", "Agent", "What", "Requests", "Time", "Sent", "Refused", "Watches"]} rows=${rows} />`;
}
