"""What new expressions may use on servers that emulate releases, or have to be compatible with older ones.

Rows R14, R18-R20. Stored expressions may use everything, and go on deciding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api, until_status
from tests.support.definitions import DEFINITIONS, definition, version
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.server_process import ServerProcess

ALL_VERSIONS: Final = "--runtime-config=api/all=true"
POLICIES: Final = "/apis/admissionregistration.k8s.io/{}/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/{}/validatingadmissionpolicybindings"
MUTATING: Final = "/apis/admissionregistration.k8s.io/{}/mutatingadmissionpolicies"
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CLASSES: Final = "/apis/resource.k8s.io/{}/deviceclasses"
RULE: Final = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["configmaps"],
}
GROUP: Final = "semver.example.com"


@contextmanager
def running(directory: Path, *flags: str) -> Iterator[Api]:
    with ServerProcess(directory, ALL_VERSIONS, *flags) as server, Api(server) as api:
        yield api


# ---- what may have an expression


def rule(text: str, name: str = "things", **more: Any) -> dict[str, Any]:
    """Returns a definition with a rule."""
    spec = {"type": "object", "properties": {"v": {"type": "string", "maxLength": 20}}}
    validated = {**spec, "x-kubernetes-validations": [{"rule": text, **more}]}
    schema = {"type": "object", "properties": {"spec": validated}}
    return definition(GROUP, version(schema=schema), plural=name, kind=name.title())


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": "true"}],
            **spec,
        },
    }


def mutating_policy(patch_type: str, field: str, text: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": patch_type, field: {"expression": text}}],
        },
    }


def webhook(text: str) -> dict[str, Any]:
    hook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [RULE],
        "matchConditions": [{"name": "c", "expression": text}],
    }
    return {"metadata": {"name": "w"}, "webhooks": [hook]}


def device_class(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": text}}]}}


# Paths, with a place for the version, and objects to post there with an expression that is true.
HOLDERS: Final[dict[str, tuple[str, Callable[[str], dict[str, Any]]]]] = {
    "a rule": (DEFINITIONS, rule),
    "the message of a rule": (
        DEFINITIONS,
        lambda text: rule("true", messageExpression=f"{text} ? 'a' : 'b'"),
    ),
    "a validation": (POLICIES, lambda text: policy(validations=[{"expression": text}])),
    "a message": (
        POLICIES,
        lambda text: policy(validations=[{"expression": "true", "messageExpression": f"{text} ? 'a' : 'b'"}]),
    ),
    "an audit annotation": (
        POLICIES,
        lambda text: policy(auditAnnotations=[{"key": "k", "valueExpression": f"{text} ? 'a' : 'b'"}]),
    ),
    "a variable": (POLICIES, lambda text: policy(variables=[{"name": "v", "expression": text}])),
    "a match condition": (POLICIES, lambda text: policy(matchConditions=[{"name": "c", "expression": text}])),
    "a mutation that applies": (
        MUTATING,
        lambda text: mutating_policy(
            "ApplyConfiguration", "applyConfiguration", f"{text} ? Object{{}} : Object{{}}"
        ),
    ),
    "a mutation that patches": (
        MUTATING,
        lambda text: mutating_policy(
            "JSONPatch", "jsonPatch", f"{text} ? [JSONPatch{{op: 'test', path: '/a'}}] : []"
        ),
    ),
    "a webhook's condition": (WEBHOOKS, webhook),
    "a selector of devices": (CLASSES, device_class),
}
# Expressions that are true, and the release since which new ones may be so.
SINCE: Final = {
    "1 < 2": 0,
    "sets.contains([1], [1])": 29,
    "isIP('::1')": 30,
    "format.named('dns1123Label').hasValue()": 31,
    "[1].all(i, v, i < v)": 32,
    "isSemver('1.2.3')": 33,
    "[1, 1].distinct() == [1]": 34,
}
# Flags, the release that new expressions are compatible with, and the versions of policies, mutating ones and
# classes that are served; None: they are not.
SERVERS: Final[dict[str, tuple[list[str], int, tuple[str, str | None, str | None]]]] = {
    "1.29": (["--emulated-version=1.29"], 28, ("v1beta1", None, None)),
    "1.33": (
        ["--emulated-version=1.33", "--feature-gates=DynamicResourceAllocation=true"],
        32,
        ("v1", "v1alpha1", "v1beta1"),
    ),
    "1.36, and 1.32 must read it": (["--min-compatibility-version=1.32"], 32, ("v1", "v1", "v1")),
    "1.36, and nothing before": (["--min-compatibility-version=1.36"], 36, ("v1", "v1", "v1")),
    "1.36": ([], 35, ("v1", "v1", "v1")),
}


@pytest.mark.parametrize(("flags", "compatible", "versions"), SERVERS.values(), ids=SERVERS)
def test_new_expressions_may_use_what_the_oldest_release_has(
    tmp_path: Path, flags: list[str], compatible: int, versions: tuple[str, str | None, str | None]
) -> None:
    of_path = dict(zip((POLICIES, MUTATING, CLASSES), versions, strict=True))
    with running(tmp_path, *flags) as api:
        for holder, (path, body) in HOLDERS.items():
            if (served := of_path.get(path, "v1")) is None:
                continue
            for text, since in SINCE.items():
                answer = api.post(f"{path.format(served)}?dryRun=All", body(text))
                assert answer.status == (201 if since <= compatible else 422), (holder, text, answer.body)


# ---- stored expressions


def violates(answer: Answer) -> bool:
    assert answer.status in (201, 422), answer.body
    return answer.status == 422


def test_stored_expressions_go_on_deciding(tmp_path: Path) -> None:
    """Writes that leave them as they are, or move them, are taken, too; new ones are not."""
    things, maps = f"/apis/{GROUP}/v1/namespaces/default/things", "/api/v1/namespaces/default/configmaps"
    stored, policies = rule("isSemver(self.v)"), POLICIES.format("v1")
    guard = policy(validations=[{"expression": "isSemver(object.data.v)"}])

    def thing(value: str) -> dict[str, Any]:
        kind = {"apiVersion": f"{GROUP}/v1", "kind": "Things"}
        return {**kind, "metadata": {"generateName": "t-"}, "spec": {"v": value}}

    def decide(api: Api) -> None:
        until_status(200, lambda: api.get(things))
        assert violates(api.post(f"{things}?dryRun=All", thing("x")))
        assert not violates(api.post(f"{things}?dryRun=All", thing("1.2.3")))
        wrong = {"metadata": {"name": "m"}, "data": {"v": "x"}}
        until_status(422, lambda: api.post(f"{maps}?dryRun=All", wrong))
        assert api.post(f"{maps}?dryRun=All", {**wrong, "data": {"v": "1.2.3"}}).status == 201

    with running(tmp_path) as api:
        api.post(DEFINITIONS, stored).ok()
        api.post(policies, guard).ok()
        bound = {"policyName": "p", "validationActions": ["Deny"]}
        api.post(BINDINGS.format("v1"), {"metadata": {"name": "b"}, "spec": bound}).ok()
        decide(api)
    with running(tmp_path, "--emulated-version=1.33") as api:
        decide(api)
        name = f"{DEFINITIONS}/things.{GROUP}"
        for path in (name, f"{policies}/p"):
            api.patch(path, {"metadata": {"labels": {"a": "b"}}}).ok()
        # Stored expressions may stand elsewhere, too.
        found = api.get(name).ok()
        schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        validations = schema["x-kubernetes-validations"]
        schema["x-kubernetes-validations"] = [{"rule": "self.v != ''"}, *validations]
        api.put(name, found).ok()
        more = [{"expression": "true"}, *guard["spec"]["validations"]]
        api.patch(f"{policies}/p", {"spec": {"validations": more}}).ok()
        # New ones are refused beside them.
        validations[0]["rule"] = "isSemver(self.v) || self.v == ''"
        answer = api.put(name, {**found, "metadata": api.get(name).ok()["metadata"]})
        assert answer.status == 422
        assert "undeclared reference to 'isSemver'" in answer.message
        more[1] = {"expression": "isSemver(object.data.v) || true"}
        answer = api.patch(f"{policies}/p", {"spec": {"validations": more}})
        assert answer.status == 422
        assert "undeclared reference to 'isSemver'" in answer.message
        decide(api)


# ---- the gate AuthorizeWithSelectors

CHECK: Final = "authorizer.group('').resource('pods').{}('a=b').check('list').allowed()"
SELECTORS: Final[dict[str, tuple[list[str], bool]]] = {
    "on by default": ([], True),
    "before its first release": (["--emulated-version=1.30"], False),
    "off in its first release": (["--emulated-version=1.31"], False),
    "turned on in its first release": (
        ["--emulated-version=1.31", "--feature-gates=AuthorizeWithSelectors=true"],
        True,
    ),
    "turned off": (
        [
            "--emulated-version=1.33",
            "--feature-gates=AuthorizeWithSelectors=false,AuthorizeNodeWithSelectors=false",
        ],
        False,
    ),
}


@pytest.mark.parametrize(("flags", "has_selectors"), SELECTORS.values(), ids=SELECTORS)
def test_the_gate_of_selectors_in_authorization(
    tmp_path: Path, flags: list[str], has_selectors: bool
) -> None:
    """Row R14: it decides about expressions, reviews, and files with match conditions."""
    with running(tmp_path / "data", *flags) as api:
        for call in ("fieldSelector", "labelSelector"):
            text = CHECK.format(call)
            for path, body in ((POLICIES.format("v1"), policy), (WEBHOOKS, None)):
                document = webhook(text) if body is None else policy(validations=[{"expression": text}])
                answer = api.post(f"{path}?dryRun=All", document)
                assert answer.status == (201 if has_selectors else 422), answer.body
        attributes = {"verb": "list", "resource": "pods"}
        asked = {**attributes, "fieldSelector": {"rawSelector": "a=b"}, "labelSelector": {"rawSelector": "a"}}
        reviewed = api.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": asked}}
        ).ok()
        assert reviewed["spec"]["resourceAttributes"] == (asked if has_selectors else attributes)
        # What is dropped is not validated.
        asked["fieldSelector"] = {}
        answer = api.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": asked}}
        )
        assert answer.status == (422 if has_selectors else 201), answer.body
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1")
    configuration = tmp_path / "authorization.json"
    asks = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(kubeconfig)},
        "matchConditions": [
            {"expression": "has(request.resourceAttributes) && has(request.resourceAttributes.fieldSelector)"}
        ],
    }
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
    webhook_authorizer = {"type": "Webhook", "name": "w.example.com", "webhook": asks}
    configuration.write_text(json.dumps({**kind, "authorizers": [webhook_authorizer]}))
    flag = f"--authorization-config={configuration}"
    if has_selectors:
        with running(tmp_path / "data", *flags, flag) as api:
            assert api.get("/api/v1/namespaces?fieldSelector=metadata.name%3Da").status == 200
    else:
        refused = ServerProcess(tmp_path / "data", *flags, flag).refusal()
        assert "undefined field 'fieldSelector'" in refused.stderr
