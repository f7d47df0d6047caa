/**
 * Who uses the page. The token is in memory only. After a reload, the session's cookie, which no script can
 * read, brings a new one.
 */
import { askForConfiguration, askForSession, codeInUrl, proofOfLink, ROOT } from "./first_requests.js";
import { isTransient, Retries } from "./retries.js";
import { signal } from "./vendor/preact.js";

/** @typedef {{username: string, groups: string[]}} User */
/** @typedef {{token: string, user: User, expiresAt: string | null}} Session */
/** @typedef {{authorizationEndpoint: string, clientID: string, scopes: string}} Oidc */
/** @typedef {{readOnly: boolean, oidc: Oidc | null}} Config */

// A token is renewed when so much of its life is over.
const RENEWED_AFTER = 0.8;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The user; null before the login. */
export const user = signal(/** @type {User | null} */ (null));
/** Whether the page asks for a login, and why. */
export const login = signal({ isWanted: false, reason: "" });
/** @type {import("./vendor/preact.js").Signal<Config>} */
export const config = signal({ readOnly: false, oidc: null });

/** A code of a link, which somebody who is logged in already may use or not; empty if there is none. */
export const offeredCode = signal("");

let token = "";
/** The last token that the server has refused. */
let refusedToken = "";
let timer = 0;
/** @type {Promise<boolean> | null} */
let renewing = null;
/** The code of a link that was not used: there is a session, or the server could not say whether there is one. */
let waitingCode = "";
const configReads = new Retries(readConfig);
const renewals = new Retries(() => {
  const code = waitingCode;
  waitingCode = "";
  return code ? follow(code) : renew();
});
/** @type {Set<(token: string) => void>} */
const onToken = new Set();

export function currentToken() {
  return token;
}

/** Whether the server has refused the token, and there is no other one yet. */
export function isTokenRefused() {
  return token !== "" && token === refusedToken;
}

/**
 * Calls a function with each new token.
 * @param {(token: string) => void} listener
 */
export function onNewToken(listener) {
  onToken.add(listener);
}

/** Begins a session: by a code or an issuer's answer in the URL, or by the cookie. */
export async function begin() {
  // What the login offers is known before it is shown, but nothing else waits for it.
  const configured = readConfig();
  addEventListener("hashchange", () => {
    const code = takeCode();
    if (code) void follow(code);
  });
  const code = takeCode();
  if (code) return follow(code);
  const answered = new URLSearchParams(location.search);
  const pending = answered.has("state") ? takePending() : null;
  if (pending && pending.state === answered.get("state")) return finishOidc(answered, pending);
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  await Promise.all([configured, renew()]);
}

/** Reads what the console offers. What the page shows of it follows, also if that is known only later. */
async function readConfig() {
  const answer = await askForConfiguration();
  if (answer.status === 200) config.value = answer.body;
  else configReads.again(failed(answer));
}

/** Takes a login code out of the URL; empty if there is none. */
function takeCode() {
  const code = codeInUrl();
  if (code) {
    history.replaceState(null, "", "#/");
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
  return code;
}

/**
 * Logs in by the code of a link, or offers that to somebody who has a session.
 * @param {string} code
 */
async function follow(code) {
  if (user.value) {
    offeredCode.value = code;
    return;
  }
  const answer = await askForSession(proofOfLink(code));
  const isBusy = isTransient(answer.status);
  if (isBusy || answer.body.kept) waitingCode = code;
  if (isBusy) renewals.again(failed(answer));
  take(answer, true);
}

/**
 * Opens a session; without a proof the one of the cookie. Returns whether there is one now.
 * @param {import("./first_requests.js").Proof} proof
 * @param {string} [reason] what to say if it fails, instead of the server's answer
 */
export async function open(proof, reason) {
  return take(await askForSession(proof), Boolean(proof.code), reason);
}

/**
 * @param {import("./first_requests.js").Answer} answer to a request for a session
 * @param {boolean} isForCode
 * @param {string} [reason]
 */
function take({ status, body }, isForCode, reason) {
  if (status === 200) {
    begun(body);
    return true;
  }
  const said = body.message ?? (status ? `The server answered ${status}.` : "The server cannot be reached.");
  if (isTransient(status)) {
    // The session that there is may still be valid.
    if (!user.value || login.value.isWanted) login.value = { isWanted: true, reason: said };
  } else if (!(isForCode && user.value)) {
    // A code that is refused ends no session that there is.
    login.value = { isWanted: true, reason: reason ?? (status === 204 ? "" : said) };
  }
  return false;
}

/** @param {Session} session */
function begun(session) {
  const before = user.value;
  if (before && JSON.stringify(before) !== JSON.stringify(session.user)) {
    // Another tab, or the next person, has logged in: nothing of what the former user has seen stays.
    location.reload();
    return;
  }
  token = session.token;
  refusedToken = "";
  user.value = session.user;
  login.value = { isWanted: false, reason: "" };
  clearTimeout(timer);
  renewals.done();
  offeredCode.value = waitingCode || offeredCode.value;
  waitingCode = "";
  if (session.expiresAt) {
    const life = Date.parse(session.expiresAt) - Date.now();
    timer = setTimeout(renew, Math.min(Math.max(life * RENEWED_AFTER, 1_000), LONGEST_TIMER_MS));
  }
  for (const listener of onToken) listener(token);
}

/**
 * Asks for a new token because the server has refused one. Returns as `renew`.
 * @param {string} refused
 */
export function renewRefused(refused) {
  refusedToken = refused;
  return renew();
}

/** Asks for a new token by the cookie. Returns whether there is one; those who ask at once share the answer. */
export function renew() {
  renewing ??= renewOnce().finally(() => {
    renewing = null;
  });
  return renewing;
}

async function renewOnce() {
  const answer = await askForSession({});
  // It is not known yet whether there is a session.
  if (isTransient(answer.status)) renewals.again(failed(answer));
  return take(answer, false, user.value ? "Your session has ended. Log in again to go on." : "");
}

/** @param {import("./first_requests.js").Answer} answer */
function failed({ status, body }) {
  return { code: status, status: body };
}

/** Ends the session. The page begins anew, so that nothing which the user has seen stays in it. */
export async function logOut() {
  const answer = await fetch(new URL("console/session", ROOT), { method: "DELETE" }).catch(() => null);
  if (answer?.ok) {
    location.reload();
    return;
  }
  const said = answer ? `The server answered ${answer.status}.` : "The server cannot be reached.";
  login.value = {
    isWanted: true,
    reason: `You are still logged in. ${said} Reload the page and log out again.`,
  };
}

// ---- OpenID Connect: the authorization code flow with PKCE (RFC 7636)

const PENDING = "console-login";

/** Leaves for the issuer's page. */
export async function startOidc() {
  const { oidc } = config.value;
  if (!oidc) return;
  const verifier = randomText();
  const state = randomText();
  const redirectURI = new URL("console/", ROOT).href;
  sessionStorage.setItem(PENDING, JSON.stringify({ verifier, state, redirectURI, hash: location.hash }));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const target = new URL(oidc.authorizationEndpoint);
  const parameters = {
    response_type: "code",
    client_id: oidc.clientID,
    scope: oidc.scopes,
    redirect_uri: redirectURI,
    state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) target.searchParams.set(name, value);
  location.assign(target);
}

function takePending() {
  const pending = sessionStorage.getItem(PENDING);
  sessionStorage.removeItem(PENDING);
  return pending && JSON.parse(pending);
}

/**
 * @param {URLSearchParams} answered what the issuer has added to the URL
 * @param {{verifier: string, redirectURI: string, hash: string}} pending
 */
async function finishOidc(answered, { verifier, redirectURI, hash }) {
  history.replaceState(null, "", location.pathname + hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
  const code = answered.get("code");
  if (code) await open({ oidc: { code, verifier, redirectURI } });
  else {
    const said = answered.get("error_description") ?? answered.get("error") ?? "";
    login.value = { isWanted: true, reason: `The login was not completed. ${said}` };
  }
}

function randomText() {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

/** @param {Uint8Array} octets */
export function base64url(octets) {
  return btoa(String.fromCharCode(...octets))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}
