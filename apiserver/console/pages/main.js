/** Begins the page: the session first, then what its URL names. */
import { refresh } from "./resource_types.js";
import { Retries } from "./retries.js";
import * as session from "./session.js";
import { Shell } from "./shell.js";
import { effect, h, render } from "./vendor/preact.js";
import { watch } from "./watches.js";

render(h(Shell, {}), /** @type {HTMLElement} */ (document.getElementById("app")));

let hasTypes = false;
effect(() => {
  if (!session.user.value || hasTypes) return;
  hasTypes = true;
  void readTypes();
});

const reads = new Retries(readTypes);

/** Reads discovery until that succeeds, then follows its changes. */
async function readTypes() {
  try {
    await refresh();
    followTypes();
  } catch {
    reads.again();
  }
}

// What discovery shows changes a moment after a definition does.
const REFRESHED_AFTER_MS = [50, 400, 2_000];
// For users who may not watch definitions.
const POLLED_EVERY_MS = 30_000;

/** Reads discovery again. A failure changes nothing: the next change, or the next poll, tries once more. */
function again() {
  refresh().catch(() => undefined);
}

/** New definitions and aggregated APIs appear at once. */
function followTypes() {
  const sources = [
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiregistration.k8s.io/v1/apiservices",
  ];
  /** @type {number[]} */
  let timers = [];
  const soon = () => {
    timers.forEach(clearTimeout);
    timers = REFRESHED_AFTER_MS.map((ms) => setTimeout(again, ms));
  };
  const follow = (/** @type {string} */ path) => {
    watch({
      path,
      resourceVersion: "",
      accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
      onEvent: soon,
      onEnd: ({ code }) => {
        if (code === 410) follow(path);
        else setInterval(again, POLLED_EVERY_MS);
      },
    });
  };
  sources.forEach(follow);
}

void session.begin();
