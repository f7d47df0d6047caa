/** What clients ask of the server: who asks how much, and what was slow or refused. */
import { getJson } from "../api.js";
import { ErrorNotice, Loading, SearchField, SimpleTable, useLoaded } from "../elements.js";
import { age, byteSize, moment, number } from "../format.js";
import { route, setQuery } from "../router.js";
import { html, useEffect } from "../vendor/preact.js";

const READ_EVERY_MS = 3_000;
const CLIENTS_MAX = 50;

export default function Requests() {
  const { query } = route.value;
  const [user, agent] = [query.get("user") ?? "", query.get("agent") ?? ""];
  const filters = `${new URLSearchParams({ ...(user && { user }), ...(agent && { agent }) })}`;
  const noted = useLoaded(
    (signal) => getJson(`/debug/requests${filters && `?${filters}`}`, { signal }),
    [filters],
  );
  const clients = useLoaded((signal) => getJson("/debug/clients", { signal }), []);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden) return;
      noted.reload();
      clients.reload();
    }, READ_EVERY_MS);
    return () => clearInterval(timer);
  }, [filters]);
  return html`<section class="page">
    <div class="bar">
      <h1>Requests</h1>
      <${SearchField} label="User" value=${user} delayMs=${400} onChange=${(/** @type {string} */ value) => setQuery({ user: value.trim() })} />
      <${SearchField} label="User agent" value=${agent} delayMs=${400} onChange=${(/** @type {string} */ value) => setQuery({ agent: value.trim() })} />
    </div>
    <div class="card"><h2>Slow or refused</h2>${noted.error ? html`<${ErrorNotice} error=${noted.error} />` : noted.value ? html`<${Noted} requests=${noted.value.requests} />` : html`<${Loading} />`}</div>
    <div class="card"><h2>Clients</h2>${clients.error ? html`<${ErrorNotice} error=${clients.error} />` : clients.value ? html`<${Clients} found=${clients.value} user=${user} agent=${agent} />` : html`<${Loading} />`}</div>
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
  const named = phases.map((/** @type {any} */ each) => `${each.name}${each.detail ? ` ${each.detail}` : ""} ${Math.round(each.milliseconds)} ms`);
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
