/**
 * All watches of the page, over one WebSocket: see the reference of /console/watches.
 * A watch that was interrupted goes on after the last event that it has had.
 */
import { ApiError, request } from "./api.js";
import { ROOT } from "./first_requests.js";
import { askedWaitMs, isTransient, Retries } from "./retries.js";
import { base64url, currentToken, isTokenRefused, login, onNewToken, renewRefused, user } from "./session.js";
import { effect, signal } from "./vendor/preact.js";

const PROTOCOL = "watches.v1";
// How the server closes a socket whose credentials are no longer valid.
const UNAUTHENTICATED = 4401;
const RESUMED_AFTER_MS = 1_000;

/**
 * @typedef {object} Watch
 * @property {string} path with its query, but for the resourceVersion
 * @property {string} resourceVersion after which it goes on
 * @property {string} [accept]
 * @property {(type: string, object: any) => void} onEvent
 * @property {(error: ApiError) => void} onEnd it does not go on; with 410 its place in the history is gone
 */

/** Whether events come: "live", or "interrupted" while the page connects again. */
export const connection = signal(/** @type {"live" | "interrupted"} */ ("interrupted"));

/** @typedef {Watch & {id: number, timer?: number}} Subscribed */

/** Those that are under way, by the number of their subscription. @type {Map<number, Subscribed>} */
const watches = new Map();
/** Those that begin when there is a connection. @type {Set<Subscribed>} */
const waiting = new Set();
let lastId = 0;
/** @type {WebSocket | null} */
let socket = null;
/** The last token that the socket was given. */
let socketToken = "";
const connects = new Retries(connect);

/**
 * Starts a watch.
 * @param {Watch} watch
 * @returns {() => void} ends it
 */
export function watch(watch) {
  /** @type {Subscribed} */
  const subscribed = { ...watch, id: 0 };
  subscribe(subscribed);
  return () => {
    waiting.delete(subscribed);
    clearTimeout(subscribed.timer);
    if (watches.delete(subscribed.id)) send({ unsubscribe: { id: subscribed.id } });
  };
}

/** @param {object} message */
function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/**
 * Begins or continues a watch, under a new number: the server may still send events under the former one.
 * @param {Subscribed} watch
 */
function subscribe(watch) {
  if (socket?.readyState !== WebSocket.OPEN) {
    waiting.add(watch);
    connect();
    return;
  }
  watch.id = ++lastId;
  watches.set(watch.id, watch);
  const { id, path, resourceVersion, accept = "application/json" } = watch;
  const after = `watch=true&allowWatchBookmarks=true&resourceVersion=${encodeURIComponent(resourceVersion)}`;
  send({ subscribe: { id, path: `${path}${path.includes("?") ? "&" : "?"}${after}`, accept } });
}

function subscribeWaiting() {
  for (const each of [...waiting]) {
    waiting.delete(each);
    subscribe(each);
  }
}

function connect() {
  // With a new token, it is called again.
  if (socket || connects.isWaiting || !user.value || login.value.isWanted || isTokenRefused()) return;
  const url = new URL("console/watches", ROOT);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  socketToken = currentToken();
  const bearer = base64url(new TextEncoder().encode(socketToken));
  const opened = new WebSocket(url, [PROTOCOL, `base64url.bearer.authorization.k8s.io.${bearer}`]);
  socket = opened;
  let hasOpened = false;
  opened.onopen = () => {
    hasOpened = true;
    connection.value = "live";
    connects.done();
    subscribeWaiting();
  };
  opened.onmessage = ({ data }) => receive(JSON.parse(data));
  opened.onclose = ({ code }) => {
    if (socket !== opened) return;
    socket = null;
    connection.value = "interrupted";
    for (const each of watches.values()) waiting.add(each);
    watches.clear();
    if (code === UNAUTHENTICATED) renewRefused(socketToken).then((is) => is && connect());
    else if (waiting.size && hasOpened) connects.again();
    // A browser does not tell why a handshake has failed. If it was the token, a request gets a new one.
    else if (waiting.size) request("/version").then(reconnect, reconnect);
  };
}

function reconnect() {
  connects.again();
}

/** @param {{id: number, event?: {type: string, object: any}, end?: {status: any}}} message */
function receive({ id, event, end }) {
  const watch = watches.get(id);
  if (!watch) return;
  if (event?.type === "ERROR") ended(watch, event.object);
  else if (event) {
    watch.resourceVersion = event.object.metadata?.resourceVersion || watch.resourceVersion;
    if (event.type !== "BOOKMARK") watch.onEvent(event.type, event.object);
  } else if (end) ended(watch, end.status);
}

/**
 * @param {Subscribed} watch
 * @param {any} status null if its time was up
 */
function ended(watch, status) {
  watches.delete(watch.id);
  if (!status) return subscribe(watch);
  if (status.code === 401) {
    waiting.add(watch);
    void renewRefused(socketToken);
  } else if (isTransient(status.code)) {
    watch.timer = setTimeout(() => subscribe(watch), askedWaitMs(status) || RESUMED_AFTER_MS);
  } else watch.onEnd(new ApiError(status));
}

onNewToken((token) => {
  if (socket?.readyState === WebSocket.OPEN) {
    socketToken = token;
    send({ token });
    subscribeWaiting();
  }
});

effect(() => {
  if (user.value && !login.value.isWanted && waiting.size) connect();
});
