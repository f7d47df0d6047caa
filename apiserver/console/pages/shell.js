/** The frame around all views: navigation, the palette of types, help, and the login. */
import { ApiError } from "./api.js";
import { Dialog, ErrorNotice, Loading, useKeys } from "./elements.js";
import { currentKeys } from "./keyboard.js";
import { listed, search, typeSteps } from "./resource_types.js";
import { go, href, route } from "./router.js";
import { config, login, logOut, offeredCode, open, startOidc, user } from "./session.js";
import { html, signal, useEffect, useErrorBoundary, useRef, useState } from "./vendor/preact.js";
import { connection } from "./watches.js";

/** The pages beside those of types and objects. */
const PAGES = [
  { step: "changes", label: "Changes" },
  { step: "access", label: "Access" },
  { step: "requests", label: "Requests" },
  { step: "definitions", label: "Definitions" },
  { step: "cel", label: "CEL playground" },
  { step: "deprecations", label: "Deprecations" },
  { step: "health", label: "Health" },
  { step: "tests", label: "For tests" },
];
/** The modules of views, by the first step of a URL; each has a default component. */
const VIEWS = new Map([
  ["types", () => import("./views/types.js")],
  ["list", () => import("./views/list.js")],
  ["object", () => import("./views/object.js")],
  ["edit", () => import("./views/edit.js")],
  ["create", () => import("./views/edit.js")],
  ...PAGES.map(({ step }) => /** @type {const} */ ([step, () => import(`./views/${step}.js`)])),
]);
/** Types that the navigation names if they are served. */
const FAVOURITES = [
  "pods",
  "deployments",
  "statefulsets",
  "daemonsets",
  "jobs",
  "cronjobs",
  "services",
  "ingresses",
  "configmaps",
  "secrets",
  "persistentvolumeclaims",
  "serviceaccounts",
  "nodes",
  "namespaces",
  "events",
];

const overlay = signal(/** @type {"" | "palette" | "help"} */ (""));

export function Shell() {
  useKeys([
    { keys: ":", text: "Go to a type or a page", run: () => (overlay.value = "palette") },
    { keys: "?", text: "Show the keys", run: () => (overlay.value = "help") },
    { keys: "Escape", text: "Go back", run: goUp },
  ]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header>
      <a class="brand" href="#/types"><img src="icon.svg" alt="" width="22" height="22" />Console</a>
      <button class="open-palette" onClick=${() => (overlay.value = "palette")}>
        Go to… <kbd>:</kbd>
      </button>
      <span class="space"></span>
      ${config.value.readOnly && html`<span class="badge">read-only</span>`}
      <${Connection} />
      ${
        user.value &&
        html`<span class="user" title=${user.value.groups.join("\n")}>${user.value.username}</span>
        <button class="quiet" onClick=${logOut}>Log out</button>`
      }
      <button class="quiet" aria-label="Show the keys" onClick=${() => (overlay.value = "help")}>?</button>
    </header>
    <div class="columns">
      <${Navigation} />
      <main id="main" tabindex="-1">${user.value ? html`<${View} />` : !login.value.isWanted && html`<${Loading} />`}</main>
    </div>
    ${overlay.value === "palette" && html`<${Palette} />`} ${overlay.value === "help" && html`<${Help} />`}
    ${offeredCode.value && html`<${OtherLogin} />`} ${login.value.isWanted && html`<${Login} />`}`;
}

/** Goes from an object to the list of its type, from there to all types, and from other pages back. */
function goUp() {
  const { steps } = route.value;
  const [first, group, version, resource, namespace] = steps;
  if (first === "object")
    go(href(["list", group, version, resource], { ns: namespace === "-" ? "" : namespace }));
  else if (first === "list") go(href(["types"]));
  else history.back();
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Connection() {
  if (!user.value) return null;
  const isLive = connection.value === "live";
  const text = isLive ? "live" : "connecting";
  return html`<span class=${`connection ${connection.value}`} role="status" title="Whether changes are shown as they happen">${text}</span>`;
}

function Navigation() {
  const { steps } = route.value;
  const [first = "types"] = steps;
  const served = FAVOURITES.map((name) =>
    listed.value.find((each) => each.resource === name && !isExtension(each.group)),
  );
  const link = (
    /** @type {string[]} */ target,
    /** @type {string} */ label,
    /** @type {boolean} */ isCurrent,
  ) =>
    html`<li key=${label}><a href=${href(target)} aria-current=${isCurrent ? "page" : undefined}>${label}</a></li>`;
  return html`<nav aria-label="Views">
    <ul>
      ${link(["types"], "All types", first === "types")}
      ${served.map((type) => {
        if (!type) return null;
        const target = typeSteps(type);
        const isCurrent =
          (first === "list" || first === "object") && steps[3] === type.resource && steps[1] === target[1];
        return link(target, type.kind, isCurrent);
      })}
    </ul>
    <ul>
      ${PAGES.map(({ step, label }) => link([step], label, first === step))}
    </ul>
  </nav>`;
}

/** @param {string} group */
function isExtension(group) {
  return group.includes(".") && !group.endsWith(".k8s.io");
}

/** The view that the URL names, imported when it is first shown. */
function View() {
  const [step = "types"] = route.value.steps;
  const load = VIEWS.get(step);
  const [shown, setShown] = useState(/** @type {{step: string, component: any} | null} */ (null));
  const [error, forget] = useErrorBoundary((failure) => {
    if (!(failure instanceof ApiError)) console.error(failure);
  });
  const address = route.value.steps.join("/");
  useEffect(() => {
    let isWanted = true;
    if (error) forget();
    load?.().then(
      (module) => isWanted && setShown({ step, component: module.default }),
      () => isWanted && setShown({ step, component: Missing }),
    );
    return () => {
      isWanted = false;
    };
  }, [step]);
  useEffect(() => {
    if (error) forget();
    document.title = `${route.value.steps.slice(3).join(" ") || step} – Console`;
    document.getElementById("main")?.focus();
  }, [address]);
  if (!load) return html`<${ErrorNotice} error="There is no such page." />`;
  if (error) return html`<${ErrorNotice} error=${error} onRetry=${forget} />`;
  if (shown?.step !== step) return html`<${Loading} />`;
  return html`<${shown.component} key=${address} />`;
}

/** Instead of a view that cannot be had: the server has gone, or is of another version than the page. */
function Missing() {
  return html`<${ErrorNotice} error="This part of the console cannot be loaded." onRetry=${() => location.reload()} />`;
}

function Palette() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => input.current?.focus(), []);
  const words = text.trim().toLowerCase();
  const pages = PAGES.filter(({ label, step }) => words && `${label} ${step}`.toLowerCase().includes(words));
  const found = [
    ...search(words).map((type) => ({
      label: type.resource,
      detail: type.group || "core",
      target: href(typeSteps(type)),
    })),
    ...pages.map(({ step, label }) => ({ label, detail: "page", target: href([step]) })),
  ].slice(0, 12);
  const close = () => (overlay.value = "");
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((at + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter" && found[at]) {
      close();
      go(found[at].target);
    } else return;
    event.preventDefault();
  };
  return html`<${Dialog} title="Go to" onClose=${close} class="palette">
    <input
      ref=${input}
      role="combobox"
      aria-label="A type or a page"
      aria-expanded="true"
      aria-controls="palette-list"
      aria-activedescendant=${found.length ? `palette-${at}` : undefined}
      placeholder="pods, deploy, health…"
      value=${text}
      spellcheck=${false}
      autocomplete="off"
      onInput=${(/** @type {any} */ event) => {
        setText(event.target.value);
        setAt(0);
      }}
      onKeyDown=${press}
    />
    <ul id="palette-list" role="listbox" aria-label="Found">
      ${found.map(
        ({ label, detail, target }, index) =>
          html`<li
            role="option"
            id=${`palette-${index}`}
            key=${target}
            aria-selected=${index === at}
            onClick=${() => {
              close();
              go(target);
            }}
          >
            ${label} <span class="muted">${detail}</span>
          </li>`,
      )}
    </ul>
    ${found.length === 0 && html`<p class="muted">Nothing has this name.</p>`}
  </${Dialog}>`;
}

function Help() {
  const all = currentKeys();
  // The first one answers: that of the view.
  const answers = (/** @type {string} */ keys) => all.find((each) => each.keys === keys);
  const keys = all.filter((each) => !each.isHidden && answers(each.keys) === each);
  return html`<${Dialog} title="Keys" onClose=${() => (overlay.value = "")}>
    <dl class="keys">
      ${keys.map(
        (each) =>
          html`<div>
            <dt>${each.keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt>
            <dd>${each.text}</dd>
          </div>`,
      )}
    </dl>
    <button onClick=${() => (overlay.value = "")}>Close</button>
  </${Dialog}>`;
}

function OtherLogin() {
  const [isRefused, setIsRefused] = useState(false);
  const refuse = () => (offeredCode.value = "");
  const accept = async () => {
    if (await open({ code: offeredCode.value })) location.reload();
    else setIsRefused(true);
  };
  return html`<${Dialog} title="Another login" onClose=${refuse}>
    <p>The link that you have followed logs you in. You are logged in already, as ${user.value?.username}.</p>
    ${isRefused && html`<p class="notice bad" role="alert">The link is too old, or has been used. Your session goes on.</p>`}
    <div class="buttons">
      <button onClick=${refuse}>Stay logged in</button>
      <button disabled=${isRefused} onClick=${accept}>Use the login of the link</button>
    </div>
  </${Dialog}>`;
}

function Login() {
  const [token, setToken] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const { reason } = login.value;
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setIsBusy(true);
    await open({ token: token.trim() });
    setIsBusy(false);
    setToken("");
  };
  return html`<${Dialog} title="Log in" onClose=${() => undefined} class="login">
    ${reason && html`<p class="notice bad" role="alert">${reason}</p>`}
    <p>
      Run <code>apiserver console</code> where you have a kubeconfig: it opens this page with the rights that the
      kubeconfig has.
    </p>
    ${config.value.oidc && html`<button class="primary" onClick=${startOidc}>Log in with the identity provider</button>`}
    <form onSubmit=${submit}>
      <label for="token">Or paste a bearer token</label>
      <input
        id="token"
        type="password"
        autocomplete="off"
        value=${token}
        onInput=${(/** @type {any} */ event) => setToken(event.target.value)}
      />
      <button disabled=${!token.trim() || isBusy}>Log in</button>
    </form>
  </${Dialog}>`;
}
