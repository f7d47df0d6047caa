"""A webhook that decides about requests, as an AuthorizationConfiguration has it. Row O03."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.support.api import Answer, Api, until_status
from tests.support.eventually import until
from tests.support.kubeconfigs import kubeconfig_of_webhook, write_kubeconfig
from tests.support.metrics import metrics_of
from tests.support.rbac import RBAC, grant, rule
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Reply, Review, WebhookServer

CONFIG_MAPS: Final = "/api/v1/namespaces/{}/configmaps"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
OWN_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class AuthorizationWebhook(WebhookServer):
    """Allows what names in namespaces tell it to allow. specs: of what it was asked."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.specs: list[dict[str, Any]] = []

    async def answer(self, path: str, review: Review) -> Reply:
        spec = review["spec"]
        self.specs.append(spec)
        name = spec.get("resourceAttributes", {}).get("name", "")
        match name.partition(".")[0]:
            case "redirected":
                return web.Response(status=302, headers={"Location": "https://localhost/allow"})
            case "huge":
                return review | {"status": {"allowed": True, "reason": "x" * 4 * 1024 * 1024}}
            case "broken":
                return b'{"status": {"allowed": true'
            case "failing":
                return web.Response(status=503)
            case "denied":
                return review | {"status": {"denied": True, "reason": "not on Sundays"}}
            case "allowed" | "authorized":
                return review | {"status": {"allowed": True, "reason": "because"}}
        return review | {"status": {"allowed": False, "reason": "I would not know"}}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("authorization")


@pytest.fixture(scope="module")
def hook(directory: Path) -> Iterator[AuthorizationWebhook]:
    with AuthorizationWebhook(directory / "webhook") as hook:
        yield hook


def write_configuration(path: Path, kubeconfig: Path, *, policy: str = "NoOpinion") -> Path:
    webhook = {
        "timeout": "2s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": policy,
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(kubeconfig)},
        "matchConditions": [{"expression": "has(request.resourceAttributes)"}],
    }
    authorizers = [{"type": "Webhook", "name": "hook", "webhook": webhook}, {"type": "RBAC", "name": "rbac"}]
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
    path.write_text(json.dumps({**head, "authorizers": authorizers}))
    return path


@pytest.fixture(scope="module")
def server(directory: Path, hook: AuthorizationWebhook) -> Iterator[ServerProcess]:
    kubeconfig = kubeconfig_of_webhook(directory / "kubeconfig", hook, below="decide", token="s3cret")
    configuration = write_configuration(directory / "authorization.json", kubeconfig)
    flags = (
        f"--authorization-config={configuration}",
        "--authorization-recheck-interval=200ms",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--controllers=namespace-controller,certificatesigningrequest-approving-controller",
    )
    with ServerProcess(directory / "data", *flags) as server:
        yield server


@pytest.fixture(scope="module")
def alice(server: ServerProcess) -> Iterator[Api]:
    with Api(server, "alice-token") as api:
        yield api


def samples(api: Api, prefix: str) -> dict[str, float]:
    lines = metrics_of(api).splitlines()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix)
    }


def reading(alice: Api, namespace: str, name: str) -> Answer:
    return alice.get(f"{CONFIG_MAPS.format(namespace)}/{name}")


def test_a_webhook_allows_and_denies(alice: Api, hook: AuthorizationWebhook, namespace: str) -> None:
    assert reading(alice, namespace, "allowed").status == 404
    denied = reading(alice, namespace, "denied")
    assert denied.status == 403
    assert denied.message == (
        'configmaps "denied" is forbidden: User "alice" cannot get resource "configmaps" in API group "" '
        f'in the namespace "{namespace}": not on Sundays'
    )
    unknown = reading(alice, namespace, "unknown")
    assert unknown.status == 403
    assert unknown.message.endswith(": I would not know")
    assert hook.headers["Authorization"] == "Bearer s3cret"
    spec = hook.specs[-1]
    assert (spec["user"], spec["groups"]) == ("alice", ["dev", "system:authenticated"])
    about = {
        "verb": "get",
        "version": "v1",
        "resource": "configmaps",
        "namespace": namespace,
        "name": "unknown",
    }
    assert spec["resourceAttributes"] == about
    asked = len(hook.specs)
    assert reading(alice, namespace, "allowed").status == 404
    assert alice.get("/version").status == 200
    assert len(hook.specs) == asked, "answers are remembered, and conditions exclude paths"


def test_selectors_are_passed_on(alice: Api, hook: AuthorizationWebhook, namespace: str) -> None:
    query = "fieldSelector=metadata.namespace%3Dx&labelSelector=a%20in%20(b,c),!d"
    assert alice.get(f"{CONFIG_MAPS.format(namespace)}?{query}").status == 403
    about = hook.specs[-1]["resourceAttributes"]
    assert about["fieldSelector"]["requirements"] == [
        {"key": "metadata.namespace", "operator": "In", "values": ["x"]}
    ]
    assert about["labelSelector"]["requirements"] == [
        {"key": "a", "operator": "In", "values": ["b", "c"]},
        {"key": "d", "operator": "DoesNotExist"},
    ]


def told(hook: AuthorizationWebhook, resource: str, subresource: str = "") -> list[tuple[str, str]]:
    """The verbs and versions about which it was asked, of a resource."""
    asked = [spec.get("resourceAttributes", {}) for spec in hook.specs]
    return [
        (each["verb"], each.get("version", ""))
        for each in asked
        if (each["resource"], each.get("subresource", "")) == (resource, subresource)
    ]


def test_a_webhook_is_told_versions_as_kubernetes_does(
    alice: Api, hook: AuthorizationWebhook, namespace: str
) -> None:
    """Also where the server itself asks, beside the request.

    Source: kubernetes, pkg/registry/rbac/escalation_check.go, plugin/pkg/admission/certificates;
    k8s.io/apiserver, pkg/endpoints/filters/impersonation/mode.go.
    """
    del hook.specs[:]
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "allowed"},
        "rules": rules,
    }
    apply = "?fieldManager=t"
    assert alice.apply(f"{roles}/roles/allowed{apply}", role).status == 201
    assert told(hook, "roles") == [("patch", "v1"), ("create", "v1"), ("escalate", "*")]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "allowed"}
    binding = role | {"kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    del binding["rules"]
    assert alice.apply(f"{roles}/rolebindings/allowed{apply}", binding).status == 201
    assert told(hook, "roles")[3:] == [("bind", "*")]

    names = ("User", "Group", "Uid", "Extra-Scopes")
    headers = {f"Impersonate-{name}": "allowed" for name in names}
    assert alice.get(f"{CONFIG_MAPS.format(namespace)}/allowed", headers=headers).status == 404
    resources = (("users", ""), ("groups", ""), ("uids", ""), ("userextras", "scopes"))
    versions = [told(hook, *resource) for resource in resources]
    # Keys of extra without a domain are for legacy impersonation alone.
    constrained, legacy = ("impersonate:user-info", "v1"), ("impersonate", "v1")
    assert versions == [[constrained, legacy]] * 3 + [[legacy]]

    signed = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
                x509.NameAttribute(NameOID.COMMON_NAME, "system:node:n"),
            ]
        )
    )
    pem = signed.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)
    asked = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "allowed"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["client auth", "digital signature"],
        },
    }
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests/allowed"
    assert alice.apply(f"{path}{apply}", asked).status == 201
    assert alice.put(f"{path}/approval", alice.get(path).ok()).status == 403
    assert set(told(hook, "signers")) == {("approve", "*")}
    # The controller that approves what kubelets ask for, and finds that alice may not have this.
    until(lambda: told(hook, "certificatesigningrequests", "nodeclient")[:1] == [("create", "*")])


def test_a_webhook_is_told_the_versions_of_parameters_and_owners(
    alice: Api, hook: AuthorizationWebhook, namespace: str
) -> None:
    """Source: kubernetes, pkg/registry/admissionregistration; plugin/pkg/admission/gc."""
    del hook.specs[:]
    apply = "?fieldManager=t"
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"allowed.{namespace}"},
        "spec": {
            "paramKind": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "validations": [{"expression": "true"}],
        },
    }
    path = f"{policies}/allowed.{namespace}{apply}"
    assert alice.apply(path, policy).status == 422
    assert told(hook, "deployments") == [("get", "v1")]

    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "1"}
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "allowed", "ownerReferences": [owner | {"blockOwnerDeletion": True}]},
    }
    path = f"{CONFIG_MAPS.format(namespace)}/allowed{apply}"
    assert alice.apply(path, owned).status == 403
    assert told(hook, "deployments", "finalizers") == [("update", "v1")]


def test_access_reviews_ask_the_webhook(
    api: Api, alice: Api, hook: AuthorizationWebhook, namespace: str
) -> None:
    selector = {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}
    about = {"verb": "list", "resource": "pods", "name": "authorized", "labelSelector": selector}
    review = {"spec": {"user": "bob", "uid": "7", "extra": {"Scope": ["x"]}, "resourceAttributes": about}}
    assert api.post(REVIEWS, review).ok()["status"] == {"allowed": True, "reason": "because"}
    assert hook.specs[-1] == {
        "user": "bob",
        "uid": "7",
        "extra": {"scope": ["x"]},
        # Who names no version asks about all.
        "resourceAttributes": about | {"version": "*"},
    }
    denied = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "name": "denied"}}}
    status = alice.post(OWN_REVIEWS, denied).ok()["status"]
    assert (status["allowed"], status["denied"]) == (False, True)
    assert status["reason"].startswith("not on Sundays")
    rules = alice.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "a"}}
    ).ok()
    assert rules["status"]["incomplete"]
    assert rules["status"]["evaluationError"] == "webhook authorizer does not support user rule resolution"


@pytest.mark.parametrize("name", ["redirected", "huge", "broken", "failing"])
def test_a_webhook_that_fails_is_no_opinion(api: Api, alice: Api, namespace: str, name: str) -> None:
    answer = reading(alice, namespace, name)
    assert (answer.status, answer.reason) == (500, "InternalError"), answer.body
    assert "the request could not be authorized: " in answer.message
    assert "s3cret" not in answer.message
    assert api.get(f"{CONFIG_MAPS.format(namespace)}/{name}").status == 404, "masters are not asked about"


def test_expressions_of_policies_ask_the_webhook(
    api: Api, hook: AuthorizationWebhook, namespace: str
) -> None:
    """They cannot wait, and are evaluated again with each answer."""
    group = "/apis/admissionregistration.k8s.io/v1"
    check = "authorizer.serviceAccount('ns','sa').group('').resource('things').namespace('ns').name('{}')"
    expressions = [
        f"{check.format(f'authorized.{namespace}')}.check('get').allowed()",
        f"!{check.format(f'unknown.{namespace}')}.check('get').allowed()",
        f"{check.format(f'denied.{namespace}')}.check('get').reason() == 'not on Sundays'",
    ]
    spec = {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "validations": [{"expression": each, "message": each} for each in (*expressions, "false")],
    }
    api.post(f"{group}/validatingadmissionpolicies", {"metadata": {"name": namespace}, "spec": spec}).ok()
    binding = {"policyName": namespace, "validationActions": ["Deny"]}
    api.post(
        f"{group}/validatingadmissionpolicybindings", {"metadata": {"name": namespace}, "spec": binding}
    ).ok()
    denied = until_status(
        422, lambda: api.post(CONFIG_MAPS.format(namespace), {"metadata": {"generateName": "x"}})
    )
    assert denied.message.endswith(": false"), "only the last one is not true"
    asked = {
        spec["resourceAttributes"].get("name", "") for spec in hook.specs if spec["user"].endswith(":ns:sa")
    }
    assert {f"{name}.{namespace}" for name in ("authorized", "unknown", "denied")} <= asked
    api.delete(f"{group}/validatingadmissionpolicybindings/{namespace}").ok()


def test_what_is_configured_is_replaced_when_the_file_changes(
    api: Api, alice: Api, directory: Path, hook: AuthorizationWebhook, namespace: str
) -> None:
    path, kubeconfig = directory / "authorization.json", directory / "kubeconfig"
    reloads = "apiserver_authorization_config_controller_automatic_reloads_total"

    def reloaded(status: str) -> float:
        return sum(count for name, count in samples(api, reloads).items() if f'status="{status}"' in name)

    nowhere = write_kubeconfig(directory / "nowhere", "https://127.0.0.1:1/", token="s3cret")
    try:
        write_configuration(path, nowhere, policy="Deny")
        until(lambda: reloaded("success"), lambda count: count == 1)
        assert reading(alice, namespace, "allowed").status == 500
        path.write_text(path.read_text().replace('"Deny"', '"Perhaps"'))
        until(lambda: reloaded("failure"), lambda count: count == 1)
        assert reading(alice, namespace, "allowed").status == 500, "what is wrong changes nothing"
    finally:
        write_configuration(path, kubeconfig)
    until_status(404, lambda: reading(alice, namespace, "allowed"))


def test_a_watch_ends_when_its_user_loses_the_right(api: Api, alice: Api, namespace: str) -> None:
    """To others they go on; both authorizers are asked, of which RBAC had allowed it."""
    grant(api, namespace, "alice", rule("watch", "configmaps"))
    path = f"{CONFIG_MAPS.format(namespace)}?watch=1"
    until_status(200, lambda: alice.get(f"{path}&timeoutSeconds=1"))
    with alice.watch(path) as ending, api.watch(path) as going:
        events, others = iter(ending), iter(going)
        api.post(CONFIG_MAPS.format(namespace), {"metadata": {"name": "seen"}}).ok()
        assert next(events)["object"]["metadata"]["name"] == "seen"
        api.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/alice").ok()
        assert next(events, None) is None, "it has ended"
        assert next(others)["object"]["metadata"]["name"] == "seen"
    assert sum(samples(api, "apiserver_watches_unauthorized_total").values()) >= 1
    assert alice.get(f"{path}&timeoutSeconds=1").status == 403


def test_metrics(api: Api, alice: Api, namespace: str) -> None:
    reading(alice, namespace, "allowed")
    reading(alice, namespace, "denied")
    reading(alice, namespace, "broken")
    alice.get("/version").ok()
    alice.get("/metrics")
    found = samples(api, "apiserver_authorization_")
    for name in (
        'decisions_total{decision="allowed",name="hook",type="Webhook"}',
        'decisions_total{decision="denied",name="hook",type="Webhook"}',
        'decisions_total{decision="allowed",name="rbac",type="RBAC"}',
        'webhook_evaluations_total{name="hook",result="success"}',
        'webhook_evaluations_total{name="hook",result="error"}',
        'webhook_evaluations_fail_open_total{name="hook",result="error"}',
        'webhook_duration_seconds_count{name="hook",result="success"}',
        'match_condition_evaluation_seconds_count{name="hook",type="Webhook"}',
        'match_condition_exclusions_total{name="hook",type="Webhook"}',
    ):
        assert found[f"apiserver_authorization_{name}"] > 0, name
    requests = samples(api, "authorization_")
    for result in ("allowed", "denied", "error", "no-opinion"):
        assert requests[f'authorization_attempts_total{{result="{result}"}}'] > 0
        assert requests[f'authorization_duration_seconds_count{{result="{result}"}}'] > 0


def test_a_webhook_by_flags(tmp_path: Path, directory: Path, hook: AuthorizationWebhook) -> None:
    """It is sent the beta version by default, where groups are called group."""
    flags = (
        "--authorization-mode=Webhook",
        f"--authorization-webhook-config-file={directory / 'kubeconfig'}",
    )
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server, "alice-token") as alice:
        assert reading(alice, "default", "allowed").status == 404
        assert hook.specs[-1]["group"] == ["dev", "system:authenticated"]
