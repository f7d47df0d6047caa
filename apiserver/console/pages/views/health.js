/** Whether the server is well: its checks, its load, and how near its limits are. */
import { ApiError, getText } from "../api.js";
import { ErrorNotice, Facts, Loading, usePolling } from "../elements.js";
import { byteSize, duration, number } from "../format.js";
import { parse, quantile, total } from "../metrics_text.js";
import { html, useState } from "../vendor/preact.js";

const READ_EVERY_MS = 5_000;
const SECOND_AFTER_MS = 1_000;
const POINTS_MAX = 60;

/** @typedef {import("../metrics_text.js").Metrics} Metrics */
/** @typedef {{at: number, metrics: Metrics}} Reading */

export default function Health() {
  const [readings, setReadings] = useState(/** @type {Reading[]} */ ([]));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [checks, setChecks] = useState(/** @type {Record<string, string>} */ ({}));
  const read = async (/** @type {AbortSignal} */ signal) => {
    try {
      const metrics = parse(await getText("/metrics", { signal }));
      setReadings((before) => [...before, { at: performance.now(), metrics }].slice(-POINTS_MAX));
      setError(null);
    } catch (failure) {
      if (!signal.aborted) setError(failure);
    }
    setChecks({
      readyz: await checked("/readyz?verbose", signal),
      livez: await checked("/livez?verbose", signal),
    });
  };
  // A rate needs two readings, so the second one comes soon.
  usePolling(read, READ_EVERY_MS, [], SECOND_AFTER_MS);
  const last = readings[readings.length - 1]?.metrics;
  return html`<section class="page">
    <div class="bar"><h1>Health</h1></div>
    <div class="cards">
      ${Object.entries(checks).map(([name, text]) => html`<${Checks} key=${name} name=${name} text=${text} />`)}
      ${last && html`<${Limits} metrics=${last} />`} ${last && html`<${Store} metrics=${last} before=${readings[readings.length - 2]?.metrics} />`}
    </div>
    ${error !== null && html`<${ErrorNotice} error=${error} />`} ${!last && !error && html`<${Loading} />`}
    ${
      last &&
      html`<div class="cards">
      <${Chart} label="Requests a second" values=${rates(readings, "apiserver_request_total")} form=${(/** @type {number} */ value) => value.toFixed(1)} />
      <${Chart} label="99th percentile latency" values=${latencies(readings)} form=${(/** @type {number} */ value) => `${(value * 1_000).toFixed(0)} ms`} />
      <${Chart} label="Watch events a second" values=${rates(readings, "apiserver_watch_events_total")} form=${(/** @type {number} */ value) => value.toFixed(1)} />
      <${Chart} label="CPU" values=${rates(readings, "process_cpu_seconds_total").map((each) => each * 100)} form=${(/** @type {number} */ value) => `${value.toFixed(0)} %`} />
      <${Chart} label="Memory" values=${readings.map(({ metrics }) => total(metrics, "process_resident_memory_bytes"))} form=${byteSize} />
      <${Chart} label="Watch cache lag" values=${readings.map(({ metrics }) => largest(metrics, "apiserver_watch_cache_lag_seconds"))} form=${(/** @type {number} */ value) => `${value.toFixed(2)} s`} />
    </div>`
    }
  </section>`;
}

/** The text of a health check, which a failed one has, too. @param {string} path @param {AbortSignal} signal */
async function checked(path, signal) {
  try {
    return await getText(path, { signal });
  } catch (error) {
    return error instanceof ApiError ? error.message : String(error);
  }
}

/** @param {{name: string, text: string}} props */
function Checks({ name, text }) {
  const lines = text.trim().split("\n");
  const failed = lines.filter((line) => line.startsWith("[-]"));
  const passed = lines.filter((line) => line.startsWith("[+]"));
  const isGood = passed.length > 0 && !failed.length;
  return html`<section class="card">
    <h2>${name} <span data-tone=${isGood ? "good" : "bad"}>${isGood ? "passes" : "fails"}</span></h2>
    ${!passed.length && html`<p>${text}</p>`} ${failed.map((line) => html`<p data-tone="bad">${line.slice(3)}</p>`)}
    ${passed.length > 0 && html`<details><summary>${passed.length} checks pass</summary><ul class="pairs">${passed.map((line) => html`<li>${line.slice(3)}</li>`)}</ul></details>`}
  </section>`;
}

/** @param {{metrics: Metrics}} props */
function Limits({ metrics }) {
  const rows = [
    {
      label: "Memory",
      now: total(metrics, "process_resident_memory_bytes"),
      most: total(metrics, "apiserver_memory_limit_bytes"),
      form: byteSize,
    },
    {
      label: "Open files",
      now: total(metrics, "process_open_fds"),
      most: total(metrics, "process_max_fds"),
      form: number,
    },
    {
      label: "Connections",
      now: total(metrics, "apiserver_connections"),
      most: total(metrics, "apiserver_connections_max"),
      form: number,
    },
    {
      label: "Watches",
      now: total(metrics, "apiserver_watches"),
      most: total(metrics, "apiserver_watches_max"),
      form: number,
    },
    {
      label: "Requests in flight",
      now: total(metrics, "apiserver_current_inflight_requests"),
      most: total(metrics, "apiserver_inflight_requests_max"),
      form: number,
    },
  ];
  return html`<section class="card">
    <h2>Limits</h2>
    ${rows
      .filter(({ most }) => most > 0 && Number.isFinite(most))
      .map(
        ({ label, now, most, form }) =>
          html`<label class="limit" key=${label}><span>${label}</span><meter min="0" max=${most} high=${most * 0.8} value=${now}></meter><span class="muted">${form(now)} of ${form(most)}</span></label>`,
      )}
  </section>`;
}

/** @param {{metrics: Metrics, before: Metrics | undefined}} props */
function Store({ metrics, before }) {
  const started = total(metrics, "process_start_time_seconds");
  const size = total(metrics, "apiserver_storage_size_bytes");
  return html`<section class="card">
    <h2>Server and store</h2>
    <${Facts}
      items=${[
        { label: "Uptime", value: started ? duration(Date.now() - started * 1_000) : "" },
        { label: "Store", value: size ? byteSize(size) : "" },
        {
          label: "Available",
          value: html`<span data-tone=${total(metrics, "apiserver_storage_available") === 0 ? "bad" : "good"}>${total(metrics, "apiserver_storage_available") === 0 ? "no" : "yes"}</span>`,
        },
        {
          label: "Full",
          value: total(metrics, "apiserver_storage_full") ? html`<span data-tone="bad">yes</span>` : "no",
        },
        {
          label: "99 % of its calls",
          value:
            before &&
            `${(quantile(0.99, metrics, before, "etcd_request_duration_seconds", () => true) * 1_000).toFixed(1)} ms`,
        },
        { label: "Failed calls", value: number(total(metrics, "etcd_request_errors_total")) },
        { label: "Objects", value: number(total(metrics, "apiserver_resource_objects")) },
        { label: "Revision", value: number(largest(metrics, "apiserver_watch_cache_resource_version")) },
      ]}
    />
  </section>`;
}

/** @param {Metrics} metrics @param {string} name */
function largest(metrics, name) {
  return Math.max(0, ...(metrics.get(name) ?? []).map(({ value }) => value).filter(Number.isFinite));
}

/** @param {Reading[]} readings @param {string} name of a counter */
function rates(readings, name) {
  return readings.slice(1).map((reading, at) => {
    const before = readings[at];
    return Math.max(
      0,
      ((total(reading.metrics, name) - total(before.metrics, name)) * 1_000) / (reading.at - before.at),
    );
  });
}

/** Between two readings each; watches are left out, as they last. @param {Reading[]} readings */
function latencies(readings) {
  return readings
    .slice(1)
    .map((reading, at) =>
      quantile(
        0.99,
        reading.metrics,
        readings[at].metrics,
        "apiserver_request_duration_seconds",
        ({ verb }) => verb !== "WATCH" && verb !== "CONNECT",
      ),
    );
}

/** @param {{label: string, values: number[], form: (value: number) => string}} props */
function Chart({ label, values, form }) {
  const [width, height] = [300, 60];
  const most = Math.max(...values, 0) || 1;
  const points = values.map(
    (value, at) =>
      `${((at + POINTS_MAX - values.length) * width) / (POINTS_MAX - 1)},${height - (value / most) * (height - 4)}`,
  );
  const now = values.length ? form(values[values.length - 1]) : "";
  return html`<figure class="card chart">
    <figcaption>${label} <strong>${now}</strong></figcaption>
    <svg viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`${label}: ${now}, at most ${form(most)}`} preserveAspectRatio="none"><polyline points=${points.join(" ")} /></svg>
  </figure>`;
}
