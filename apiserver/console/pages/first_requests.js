/**
 * What the page asks for first: a session, then what the server serves. This module imports no other, so these
 * requests are under way while the other modules still come.
 */

/** Where the API is: the console is below its root. */
export const ROOT = new URL("..", document.baseURI);
export const DISCOVERY = ["/api", "/apis"];
/** The form of discovery that has the types of all groups. */
export const DISCOVERY_LIST = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/** @typedef {{code?: string, token?: string, oidc?: {code: string, verifier: string, redirectURI: string}}} Proof */
/** @typedef {{status: number, body: any}} Answer to a login; the status is 0 if the server cannot be reached */

/**
 * What the console offers, as /console/config says; null if the server cannot be reached. It is also asked for so that
 * there is a connection without credentials, on which discovery then waits for no handshake.
 * @type {Promise<any>}
 */
export const configuration = read("/console/config", {}).catch(() => null);

/** Answers of sessions that nobody has taken yet, by their proofs; null for what was not asked. */
const sessions = new Map(/** @type {[string, Promise<Answer | null>][]} */ ([]));
/** What the server serves for a token, until somebody takes it; null if that is not known. */
let discovery = { token: "", documents: Promise.resolve(/** @type {any[] | null} */ (null)) };

/**
 * Asks for a session; without a proof for the one of the cookie.
 * @param {Proof} proof
 * @returns {Promise<Answer>}
 */
export async function askForSession(proof) {
  const key = JSON.stringify(proof);
  const first = sessions.get(key);
  sessions.delete(key);
  return (await first) ?? post(proof);
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

/**
 * Whether an answer to a request for the session of the cookie says that there is none. After any other failure there
 * may be one.
 * @param {Answer} answer
 */
export function hasNoSession({ status }) {
  return status === 204 || status === 401;
}

/** The code of a login in the URL; empty if there is none. */
export function codeInUrl() {
  return new URLSearchParams(location.hash.slice(1)).get("code") ?? "";
}

/**
 * @param {Proof} proof
 * @returns {Promise<Answer>}
 */
async function post(proof) {
  try {
    const answer = await fetch(new URL("console/session", ROOT), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(proof),
    });
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

function begin() {
  const ofCookie = post({});
  sessions.set(JSON.stringify({}), ofCookie);
  void ofCookie.then(discover);
  const code = codeInUrl();
  if (!code) return;
  // As `session.begin` uses it: a code replaces no session.
  const ofCode = ofCookie.then((kept) => (hasNoSession(kept) ? post({ code }) : null));
  sessions.set(JSON.stringify({ code }), ofCode);
  void ofCode.then((answer) => answer && discover(answer));
}

// What an issuer of identities has answered comes before a cookie.
if (!new URLSearchParams(location.search).has("state")) begin();
