/** Who may do what, and why. */
import { ApiError, post } from "../api.js";
import { ErrorNotice, Facts, Notice, SimpleTable, useLoaded } from "../elements.js";
import { objectSteps, qualifiedName, typeOfKind, types } from "../resource_types.js";
import { href, route, setQuery } from "../router.js";
import { user } from "../session.js";
import { html } from "../vendor/preact.js";

const VERBS = [
  "get",
  "list",
  "watch",
  "create",
  "update",
  "patch",
  "delete",
  "deletecollection",
  "impersonate",
  "bind",
  "escalate",
  "approve",
  "sign",
];

export default function Access() {
  const { query } = route.value;
  const asked = {
    who: query.get("who") ?? "",
    groups: query.get("groups") ?? "",
    verb: query.get("verb") ?? "get",
    resource: query.get("resource") ?? "pods",
    ns: query.get("ns") ?? "",
    name: query.get("name") ?? "",
  };
  /** @param {string} key */
  const set = (key) => (/** @type {any} */ event) => setQuery({ [key]: event.target.value.trim() });
  const names = [
    ...new Set(
      types.value.flatMap((each) => [
        qualifiedName(each),
        ...each.subresources.map((sub) => `${qualifiedName(each)}/${sub}`),
      ]),
    ),
  ];
  return html`<section class="page">
    <div class="bar"><h1>Access</h1></div>
    <div class="card">
      <div class="bar">
        <label>Who <input value=${asked.who} placeholder=${user.value?.username} onChange=${set("who")} /></label>
        <label>in groups <input value=${asked.groups} placeholder="none" onChange=${set("groups")} /></label>
        <label>may <input list="verbs" value=${asked.verb} onChange=${set("verb")} /></label>
        <label>what <input list="resources" value=${asked.resource} onChange=${set("resource")} /></label>
        <label>namespace <input value=${asked.ns} placeholder="all" onChange=${set("ns")} /></label>
        <label>name <input value=${asked.name} placeholder="any" onChange=${set("name")} /></label>
      </div>
      <datalist id="verbs">${VERBS.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>
      <datalist id="resources">${names.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>
      <${Verdict} asked=${asked} />
    </div>
    <div class="card"><h2>Who can do this</h2><${WhoCan} asked=${asked} /></div>
  </section>`;
}

/** @param {any} asked */
function attributes(asked) {
  const [full, subresource = ""] = asked.resource.split("/");
  const [resource, ...group] = full.split(".");
  return {
    verb: asked.verb,
    resource,
    group: group.join("."),
    subresource,
    namespace: asked.ns,
    name: asked.name,
  };
}

/** @param {{asked: any}} props */
function Verdict({ asked }) {
  const { value, error } = useLoaded(() => {
    const resourceAttributes = attributes(asked);
    const [kind, path] = asked.who
      ? ["SubjectAccessReview", "subjectaccessreviews"]
      : ["SelfSubjectAccessReview", "selfsubjectaccessreviews"];
    const subject = asked.who
      ? { user: asked.who, groups: asked.groups.split(/[\s,]+/).filter(Boolean) }
      : {};
    return post(`/apis/authorization.k8s.io/v1/${path}`, {
      apiVersion: "authorization.k8s.io/v1",
      kind,
      spec: { resourceAttributes, ...subject },
    });
  }, Object.values(asked));
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return null;
  const { allowed, denied, reason, evaluationError } = value.status;
  return html`<div role="status"><${Facts}
    items=${[
      {
        label: "Answer",
        value: html`<strong data-tone=${allowed ? "good" : "bad"}>${allowed ? "yes" : "no"}</strong>${denied ? " (denied)" : ""}`,
      },
      { label: "Why", value: reason || (allowed ? "" : "nothing allows it") },
      { label: "Error", value: evaluationError },
    ]}
  /></div>`;
}

/** @param {{asked: any}} props */
function WhoCan({ asked }) {
  const { value, error } = useLoaded(
    (signal) => post("/console/who-can", attributes(asked), { signal }),
    [asked.verb, asked.resource, asked.ns, asked.name],
  );
  if (error instanceof ApiError && error.code === 403) return html`<${Notice}>${error.message}</${Notice}>`;
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!value) return null;
  const rows = value.subjects.map((/** @type {any} */ each) => [
    html`<a href=${href(["access"], { ...asked, ...subjectQuery(each) })}>${fullName(each)}</a>`,
    html`<${RbacLink} resource=${each.binding} /> `,
    html`<${RbacLink} resource=${{ ...each.role, namespace: each.binding.namespace }} />`,
    html`<code>${each.rule}</code>`,
  ]);
  const others = value.otherAuthorizers.join(", ");
  return html`<${SimpleTable} label="Subjects" columns=${["Who", "Binding", "Role", "Rule"]} rows=${rows} empty="Nobody." />
    <p class="muted">
      ${value.omitted > 0 && `${value.omitted} more are not shown. `} Members of system:masters may do everything.
      ${others && ` These authorizers may allow it to others, too: ${others}.`}
    </p>`;
}

/** @param {{kind: string, namespace?: string, name: string}} subject */
function fullName({ kind, namespace, name }) {
  return `${kind} ${namespace ? `${namespace}/` : ""}${name}`;
}

/** @param {{resource: {kind: string, namespace?: string, name: string}}} props */
function RbacLink({ resource }) {
  const { kind, namespace = "", name } = resource;
  const type = typeOfKind("rbac.authorization.k8s.io/v1", kind);
  return type
    ? html`<a href=${href(objectSteps(type, type.isNamespaced ? namespace : "", name))}>${kind} ${name}</a>`
    : html`${kind} ${name}`;
}

/** @param {any} subject */
function subjectQuery({ kind, namespace, name }) {
  if (kind === "ServiceAccount") return { who: `system:serviceaccount:${namespace}:${name}`, groups: "" };
  // A user that is in no other group.
  return kind === "Group" ? { who: "example-user", groups: name } : { who: name, groups: "" };
}
