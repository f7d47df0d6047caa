/** What servers for tests offer: faults that the server injects, simulated nodes, the clock, and forks. */
import { ApiError, getJson, post, request } from "../api.js";
import { ErrorNotice, Facts, Loading, Notice, SimpleTable, useLoaded } from "../elements.js";
import { age, moment, now } from "../format.js";
import { objectSteps, typeOfKind } from "../resource_types.js";
import { href } from "../router.js";
import { config } from "../session.js";
import { html, useState } from "../vendor/preact.js";

const FAULTS = "/debug/faults";
const CLOCK = "/debug/clock";
const FORKS = "/debug/forks";
const EXAMPLES = [
  {
    label: "answer 503 to updates of ConfigMaps, twice",
    fault: {
      effect: { type: "Answer", code: 503 },
      match: { verb: "update", resource: "configmaps" },
      times: 2,
    },
  },
  { label: "end watches of Pods", fault: { effect: { type: "EndWatch" }, match: { resource: "pods" } } },
  {
    label: "delay all lists by 2 seconds",
    fault: { effect: { type: "Delay", seconds: 2 }, match: { verb: "list" } },
  },
];

export default function Tests() {
  return html`<section class="page">
    <div class="bar"><h1>For tests</h1></div>
    <div class="card"><h2>Faults</h2><${Faults} /></div>
    <div class="card"><h2>Nodes</h2><${Nodes} /></div>
    <div class="card"><h2>Clock</h2><${Clock} /></div>
    <div class="card"><h2>Forks</h2><${Forks} /></div>
  </section>`;
}

/**
 * Makes changes, knows why the last one has failed, and reads again after each.
 * @param {() => void} reload
 */
function useChanges(reload) {
  const [failure, setFailure] = useState(/** @type {unknown} */ (null));
  const run = async (/** @type {() => Promise<any>} */ change) => {
    try {
      await change();
      setFailure(null);
    } catch (found) {
      setFailure(found);
    }
    reload();
  };
  return { failure, run };
}

function Faults() {
  const { value, error, reload } = useLoaded((signal) => getJson(FAULTS, { signal }), []);
  const [text, setText] = useState(JSON.stringify(EXAMPLES[0].fault, null, 2));
  const { failure, run } = useChanges(reload);
  if (error instanceof ApiError && error.code === 404)
    return html`<${Notice}>This server injects no faults. The flag <code>--enable-fault-injection</code> lets it do so.</${Notice}>`;
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  const { faults } = value;
  const rows = faults.map((/** @type {any} */ each) => [
    each.id,
    html`<code>${JSON.stringify(each.effect)}</code>`,
    html`<code>${JSON.stringify(each.match ?? {})}</code>`,
    each.times ? `${each.hits} of ${each.times}` : each.hits,
    !config.value.readOnly &&
      html`<button onClick=${() => run(() => request(`${FAULTS}/${each.id}`, { method: "DELETE" }))}>Remove</button>`,
  ]);
  return html`<${SimpleTable} label="Faults" columns=${["ID", "Effect", "Of requests", "Hits", ""]} rows=${rows} empty="No faults are injected." />
    ${failure !== null && html`<${ErrorNotice} error=${failure} />`}
    ${
      !config.value.readOnly &&
      html`<h3>Inject a fault</h3>
      <div class="bar">${EXAMPLES.map(({ label, fault }) => html`<button key=${label} onClick=${() => setText(JSON.stringify(fault, null, 2))}>${label}</button>`)}</div>
      <textarea aria-label="Fault" rows="8" spellcheck=${false} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
      <button class="primary" onClick=${() => run(async () => post(FAULTS, JSON.parse(text)))}>Inject</button>
      ${faults.length > 0 && html` <button class="danger" onClick=${() => run(() => request(FAULTS, { method: "DELETE" }))}>Remove all</button>`}`
    }`;
}

function Nodes() {
  const { value, error } = useLoaded((signal) => getJson("/api/v1/nodes?limit=500", { signal }), []);
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  const type = typeOfKind("v1", "Node");
  const rows = value.items.map((/** @type {any} */ node) => {
    const ready = node.status?.conditions?.find((/** @type {any} */ each) => each.type === "Ready")?.status;
    return [
      type
        ? html`<a href=${href(objectSteps(type, "", node.metadata.name))}>${node.metadata.name}</a>`
        : node.metadata.name,
      html`<span data-tone=${ready === "True" ? "good" : "bad"}>${ready === "True" ? "Ready" : "NotReady"}</span>`,
      node.status?.nodeInfo?.kubeletVersion,
      `${node.status?.allocatable?.cpu ?? ""} cpu, ${node.status?.allocatable?.memory ?? ""}`,
      age(node.metadata.creationTimestamp),
    ];
  });
  return html`<${SimpleTable} label="Nodes" columns=${["Name", "Ready", "Kubelet", "Allocatable", "Age"]} rows=${rows} empty="There are no nodes. The flag --simulate-nodes makes some." />`;
}

function Clock() {
  const { value, error, reload } = useLoaded((signal) => getJson(CLOCK, { signal }), []);
  const [hours, setHours] = useState("1");
  const { failure, run } = useChanges(reload);
  if (error instanceof ApiError && error.code === 404) return html`<${FixedClock} />`;
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  const advance = () => run(() => post(CLOCK, { seconds: Math.round(Number(hours) * 3_600) }));
  return html`<${Facts}
      items=${[
        { label: "Server time", value: moment(value.now) },
        { label: "Ahead of the computer's", value: `${value.aheadSeconds} s` },
      ]}
    />
    ${failure !== null && html`<${ErrorNotice} error=${failure} />`}
    <div class="bar">
      ${
        !config.value.readOnly &&
        html`<label>Hours <input type="number" min="0" step="any" value=${hours} onInput=${(/** @type {any} */ event) => setHours(event.target.value)} /></label>
        <button class="primary" disabled=${!(Number(hours) > 0)} onClick=${advance}>Advance</button>`
      }
      <button onClick=${reload}>Refresh</button>
    </div>`;
}

/** Of a server whose time is the computer's. */
function FixedClock() {
  const { value, reload } = useLoaded(
    async (signal) => (await request("/version", { signal })).headers.get("Date"),
    [],
  );
  if (!value) return null;
  return html`<${Facts}
      items=${[
        { label: "Server time", value: moment(value) },
        { label: "Browser time", value: moment(new Date(now.value).toISOString()) },
      ]}
    />
    <button onClick=${reload}>Refresh</button>
    <p class="muted">Only the clock of a server that a Python test runs in its process can be advanced.</p>`;
}

function Forks() {
  const { value, error, reload } = useLoaded((signal) => getJson(FORKS, { signal }), []);
  const { failure, run } = useChanges(reload);
  if (error instanceof ApiError && error.code === 404)
    return html`<${Notice}>Only a server that a Python test runs in its process can be forked.</${Notice}>`;
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  const rows = value.forks.map((/** @type {{id: string, url: string}} */ { id, url }) => [
    id,
    html`<a href=${`${url}/console/`} target="_blank" rel="noreferrer">${url}</a>`,
    !config.value.readOnly &&
      html`<button onClick=${() => run(() => request(`${FORKS}/${id}`, { method: "DELETE" }))}>Stop</button>`,
  ]);
  return html`<${SimpleTable} label="Forks" columns=${["ID", "Console", ""]} rows=${rows} empty="No forks were started here." />
    ${failure !== null && html`<${ErrorNotice} error=${failure} />`}
    ${!config.value.readOnly && html`<button class="primary" onClick=${() => run(() => post(FORKS, {}))}>Fork</button>`}`;
}
