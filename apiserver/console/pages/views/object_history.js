/** The versions of an object: who made them, what they changed, and how to take one back. */
import { ApiError, FIELD_MANAGER, getJson, getText, MERGE_PATCH, request, YAML } from "../api.js";
import { ErrorNotice, Loading, Notice, useLoaded } from "../elements.js";
import { age, moment } from "../format.js";
import { route, setQuery } from "../router.js";
import { config } from "../session.js";
import { html, useState } from "../vendor/preact.js";
import { OF_VERSION, withoutMetadata } from "../yaml_lines.js";
import { colourOf, DiffView, UnifiedDiff, YamlView } from "../yaml_view.js";

// As many versions are asked for at a time, and looked at to blame lines.
const PAGE = 100;
const LIMIT_MAX = 500; // the server's

/** @param {{object: any, path: string}} props */
export function HistoryTab({ object, path }) {
  const { query } = route.value;
  const [limit, setLimit] = useState(PAGE);
  const { value, error } = useLoaded(
    (signal) => getJson(`${path}/history?limit=${limit}`, { signal }),
    [path, object.metadata.resourceVersion, limit],
  );
  if (error instanceof ApiError && error.code === 404)
    return html`<${Notice}>The server keeps no history. The flag <code>--history</code> turns it on.</${Notice}>`;
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  /** @type {any[]} */
  const versions = value.versions;
  const chosen = query.get("version") ?? "";
  const isBlame = query.get("blame") === "1";
  const at = Math.max(
    0,
    versions.findIndex((each) => each.resourceVersion === chosen),
  );
  const version = versions[at];
  const before = versions.find((each) => each.resourceVersion === query.get("from")) ?? versions[at + 1];
  /** @param {any} each */
  const choose = (each) => setQuery({ version: each.resourceVersion, from: "" });
  return html`<div class="history">
    <div class="versions">
      <label class="check">
        <input type="checkbox" checked=${isBlame} onChange=${() => setQuery({ blame: isBlame ? "" : "1" })} />
        who wrote each line
      </label>
      <ol>
        ${versions.map(
          (each, index) => html`<li key=${each.resourceVersion ?? index}>
            <${Version} version=${each} isCurrent=${index === at} onChoose=${() => choose(each)} />
          </li>`,
        )}
      </ol>
      ${value.continue && limit < LIMIT_MAX && html`<button onClick=${() => setLimit(limit + PAGE)}>Older versions</button>`}
    </div>
    <div class="version">
      ${isBlame && html`<${Blame} path=${path} versions=${versions} />`}
      ${
        !isBlame &&
        version &&
        html`<${Comparison} versions=${versions} at=${at} before=${before} />
        <${Change} key=${`${before?.resourceVersion} ${version.resourceVersion}`} path=${path} version=${version}
          before=${before} isOneChange=${before === versions[at + 1]} />`
      }
    </div>
  </div>`;
}

/** Chooses what a version is compared with. @param {{versions: any[], at: number, before: any}} props */
function Comparison({ versions, at, before }) {
  const older = versions.slice(at + 1).filter(({ gap, resourceVersion }) => !gap && resourceVersion);
  if (!older.length) return null;
  const choose = (/** @type {any} */ event) => setQuery({ from: event.target.value });
  return html`<label>
    ${"Compare with "}
    <select value=${before?.resourceVersion} onChange=${choose}>
      ${older.map(({ resourceVersion, time, user }, index) => html`<option key=${resourceVersion} value=${resourceVersion}>${index ? "" : "the version before: "}${resourceVersion}, ${user || "unknown"}, ${moment(time ?? "")}</option>`)}
    </select>
  </label>`;
}

/** @param {{version: any, isCurrent: boolean, onChoose: () => void}} props */
function Version({ version, isCurrent, onChoose }) {
  const { resourceVersion, time, user, fieldManager, verb, changedFields, deleted, gap } = version;
  if (gap) return html`<p class="muted">Changes from ${gap.since} to ${gap.until} are not recorded.</p>`;
  return html`<button class="version-button" aria-pressed=${isCurrent} onClick=${onChoose}>
    <span><strong>${user || "unknown"}</strong> ${deleted ? "deleted it" : (verb ?? "")} <span class="muted" title=${moment(time ?? "")}>${age(time)} ago</span></span>
    <span class="muted">${resourceVersion} · ${fieldManager || "—"}</span>
    <span class="changed">${(changedFields ?? []).slice(0, 6).join(", ")}${changedFields?.length > 6 ? ", …" : ""}</span>
  </button>`;
}

/** @param {{path: string, version: any, before: any, isOneChange: boolean}} props */
function Change({ path, version, before, isOneChange }) {
  // The moment just before a version is the resource version before it.
  const from = before?.resourceVersion ?? String(BigInt(version.resourceVersion) - 1n);
  const { value, error } = useLoaded(
    (signal) => getJson(`${path}/history?from=${from}&to=${version.resourceVersion}`, { signal }),
    [path, from, version.resourceVersion],
  );
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  return html`<${UnifiedDiff} text=${value.yamlDiff} label="What changed" />
    ${!config.value.readOnly && isOneChange && before && value.mergePatch !== null && html`<${Undo} path=${path} from=${from} to=${version.resourceVersion} forward=${value.mergePatch} />`}`;
}

/** @param {{path: string, from: string, to: string, forward: any}} props */
function Undo({ path, from, to, forward }) {
  const [state, setState] = useState(
    /** @type {{before: string, after: string, patch: any, done?: boolean} | null} */ (null),
  );
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const rehearse = async () => {
    try {
      const [back, object, before] = await Promise.all([
        getJson(`${path}/history?from=${to}&to=${from}`),
        getJson(path),
        getText(path, { accept: YAML }),
      ]);
      const changed = laterChanges(forward, object, "");
      if (changed.length)
        throw new Error(`Changed since, so it cannot be taken back: ${changed.join(", ")}.`);
      const patch = {
        ...back.mergePatch,
        metadata: { ...back.mergePatch.metadata, resourceVersion: object.metadata.resourceVersion },
      };
      const after = await patchObject(path, patch, true);
      setState({
        before: withoutMetadata(before, OF_VERSION),
        after: withoutMetadata(after, OF_VERSION),
        patch,
      });
      setError(null);
    } catch (failure) {
      setError(failure);
    }
  };
  const run = async () => {
    try {
      await patchObject(path, state?.patch, false);
      setState(null);
    } catch (failure) {
      setError(failure);
    }
  };
  return html`<div class="undo">
    ${error !== null && html`<${ErrorNotice} error=${error} />`}
    ${!state && html`<button onClick=${rehearse}>Undo this change…</button>`}
    ${state && html`<h3>What would be stored</h3><${DiffView} label="What undoing would change" before=${state.before} after=${state.after} /><button class="primary" onClick=${run}>Undo</button> <button onClick=${() => setState(null)}>Cancel</button>`}
  </div>`;
}

/**
 * @param {string} path
 * @param {any} patch
 * @param {boolean} isTrial
 */
async function patchObject(path, patch, isTrial) {
  const answer = await request(`${path}?fieldManager=${FIELD_MANAGER}${isTrial ? "&dryRun=All" : ""}`, {
    method: "PATCH",
    type: MERGE_PATCH,
    accept: YAML,
    body: JSON.stringify(patch),
  });
  return answer.text();
}

/**
 * The fields that no longer have the value that a change has given them.
 * @param {any} forward the change, as a merge patch
 * @param {any} now
 * @param {string} path
 * @returns {string[]}
 */
function laterChanges(forward, now, path) {
  return Object.entries(forward).flatMap(([name, value]) => {
    const here = path ? `${path}.${name}` : name;
    if (here === "metadata.generation") return [];
    const current = now?.[name];
    if (value === null) return current === undefined ? [] : [here];
    if (typeof value === "object" && !Array.isArray(value)) return laterChanges(value, current, here);
    return same(value, current) ? [] : [here];
  });
}

/**
 * Whether two JSON values are equal, whatever the order of keys.
 * @param {any} a
 * @param {any} b
 * @returns {boolean}
 */
function same(a, b) {
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b;
  const keys = Object.keys(a);
  return (
    Array.isArray(a) === Array.isArray(b) &&
    keys.length === Object.keys(b).length &&
    keys.every((key) => same(a[key], b[key]))
  );
}

/** @param {{path: string, versions: any[]}} props */
function Blame({ path, versions }) {
  // It takes a while: what comes meanwhile does not begin it anew.
  const [asked, setAsked] = useState(versions);
  const { value, error } = useLoaded((signal) => blame(path, asked, signal), [path, asked]);
  const isOld = asked[0]?.resourceVersion !== versions[0]?.resourceVersion;
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return html`<${Loading} label="Looking through the versions…" />`;
  const margin = (/** @type {any} */ _, /** @type {number} */ at) => {
    const version = value.authors[at];
    if (!version) return { name: "before", title: "older than the versions shown", colour: "transparent" };
    const { user, fieldManager, resourceVersion, time } = version;
    return {
      name: user || "unknown",
      title: `${resourceVersion}, ${moment(time)}\n${fieldManager ?? ""}`,
      colour: colourOf(user || "unknown"),
    };
  };
  return html`${isOld && html`<${Notice}>There is a newer version. <button onClick=${() => setAsked(versions)}>Refresh</button></${Notice}>`}
    <${YamlView} text=${value.text} label="Who wrote each line" margin=${margin} />`;
}

/**
 * Finds the version that has brought each line of the newest of these versions, by the differences of each version
 * to the one before.
 * @param {string} path
 * @param {any[]} versions
 * @param {AbortSignal} signal
 */
async function blame(path, versions, signal) {
  const text = withoutMetadata(
    await getText(`/at/${versions[0].resourceVersion}${path}`, { accept: YAML, signal }),
    ["managedFields", "resourceVersion"],
  ).trimEnd();
  const count = text.split("\n").length;
  /** @type {any[]} */
  const authors = new Array(count).fill(null);
  // For each line of the version that is looked at, its number in the newest; -1 if it is not in there.
  let lines = Array.from({ length: count }, (_, at) => at);
  const known = versions.filter(({ gap, recorded }) => !gap && recorded !== false).slice(0, PAGE);
  for (const [at, version] of known.entries()) {
    const before =
      versions[versions.indexOf(version) + 1]?.resourceVersion ??
      String(BigInt(version.resourceVersion) - 1n);
    const { yamlDiff } = await getJson(`${path}/history?from=${before}&to=${version.resourceVersion}`, {
      signal,
    });
    lines = linesBefore(yamlDiff, lines, (line) => (authors[line] ??= version));
    if (at === known.length - 1 || lines.every((line) => line < 0)) break;
  }
  return { text, authors };
}

/**
 * Goes back over one unified diff.
 * @param {string} diff
 * @param {number[]} after for each line after the change, its number in the newest version
 * @param {(line: number) => void} onAdded called for those that the change has brought
 * @returns {number[]} the same for each line before the change
 */
function linesBefore(diff, after, onAdded) {
  /** @type {number[]} */
  const before = [];
  let at = 0;
  for (const line of diff.split("\n").slice(2)) {
    const hunk = /^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk) {
      // A hunk without lines after the change stands after the line that it names.
      const first = Number(hunk[1]) - (hunk[2] === "0" ? 0 : 1);
      while (at < first) before.push(after[at++]);
    } else if (line.startsWith("+")) {
      const target = after[at++];
      if (target >= 0) onAdded(target);
    } else if (line.startsWith("-")) before.push(-1);
    else if (line.startsWith(" ")) before.push(after[at++]);
  }
  return [...before, ...after.slice(at)];
}
