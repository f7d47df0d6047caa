/**
 * What the page asks for first: a session, then what the server serves. This module imports no other, so that it runs
 * first: these requests are under way while the other modules begin.
 */

/** Where the API is: the console is below its root. */
export const ROOT = new URL("..", document.baseURI);
export const DISCOVERY = ["/api", "/apis"];
/** The form of discovery that has the types of all groups. */
export const DISCOVERY_LIST = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/**
 * What a session is asked for with; nothing for the one of the cookie. With `keepSession`, that one is preferred.
 * @typedef {{keepSession?: boolean, code?: string, token?: string, oidc?: OidcAnswer}} Proof
 */
/** @typedef {{code: string, verifier: string, redirectURI: string}} OidcAnswer */
/** @typedef {{status: number, body: any}} Answer the status is 0 if the server cannot be reached */

/**
 * What the console offers. It is also asked for so that there is a connection without credentials, on which discovery
 * then waits for no handshake.
 * @type {Promise<Answer> | null} null once somebody has taken it
 */
let configuration = readConfiguration();

/** The answer to the first request for a session, until somebody takes it, and with which proof it was asked for. */
let firstSession = { proof: "", answer: Promise.resolve(/** @type {Answer | null} */ (null)) };
/** What the server serves for a token, until somebody takes it; null if that is not known. */
let discovery = { token: "", documents: Promise.resolve(/** @type {any[] | null} */ (null)) };

/**
 * Asks for a session.
 * @param {Proof} proof
 * @returns {Promise<Answer>}
 */
export async function askForSession(proof) {
  const first = firstSession;
  if (first.proof !== JSON.stringify(proof)) return post(proof);
  firstSession = { proof: "", answer: Promise.resolve(null) };
  return (await first.answer) ?? post(proof);
}

/**
 * How a code of a link is used: somebody else may have sent it, so it replaces no session.
 * @param {string} code
 * @returns {Proof}
 */
export function proofOfLink(code) {
  return { code, keepSession: true };
}

/** Asks what the console offers, as /console/config says. */
export function askForConfiguration() {
  const first = configuration;
  configuration = null;
  return first ?? readConfiguration();
}

/**
 * The documents of `DISCOVERY` for a token, if they were among the first requests; else null.
 * @param {string} token
 */
export async function takeDiscovery(token) {
  const first = discovery;
  discovery = { token: "", documents: Promise.resolve(null) };
  return first.token === token ? first.documents : null;
}

/** The code of a login in the URL; empty if there is none. */
export function codeInUrl() {
  return new URLSearchParams(location.hash.slice(1)).get("code") ?? "";
}

/** @param {Proof} proof */
function post(proof) {
  const headers = { "Content-Type": "application/json" };
  return answerTo("console/session", { method: "POST", headers, body: JSON.stringify(proof) });
}

function readConfiguration() {
  return answerTo("console/config", { credentials: "omit" });
}

/**
 * @param {string} path below the root of the API
 * @param {RequestInit} options
 * @returns {Promise<Answer>}
 */
async function answerTo(path, options) {
  try {
    const answer = await fetch(new URL(path, ROOT), options);
    return { status: answer.status, body: await answer.json().catch(() => ({})) };
  } catch {
    return { status: 0, body: {} };
  }
}

/**
 * @param {string} path from the root of the API
 * @param {Record<string, string>} headers
 */
async function read(path, headers) {
  const answer = await fetch(ROOT.href + path.slice(1), { headers, credentials: "omit" });
  if (!answer.ok) throw new Error(path);
  return answer.json();
}

/** @param {Answer} answer */
function discover({ status, body }) {
  if (status !== 200) return;
  const headers = { Accept: DISCOVERY_LIST, Authorization: `Bearer ${body.token}` };
  const documents = Promise.all(DISCOVERY.map((path) => read(path, headers)));
  discovery = { token: body.token, documents: documents.catch(() => null) };
}

// What an issuer of identities has answered comes before a cookie.
if (!new URLSearchParams(location.search).has("state")) {
  const code = codeInUrl();
  const proof = code ? proofOfLink(code) : {};
  firstSession = { proof: JSON.stringify(proof), answer: post(proof) };
  void firstSession.answer.then((answer) => answer && discover(answer));
}
