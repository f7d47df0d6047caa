"""Which rule of an audit policy a request matches, and what is recorded of it then.

https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/#audit-policy
"""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.audit.policy import (
    LEVEL_NAMES,
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_STARTED,
    AuditLevel,
    Policy,
    RequestConfig,
)
from apiserver.audit.policy_file import read_policy
from apiserver.endpoints.request_info import parse_target
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import UserInfo
from apiserver.wire.configuration_fields import InvalidConfiguration

HEAD: Final = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
BOB: Final = UserInfo("bob", ("dev", "system:authenticated"))
POD: Final = "/api/v1/namespaces/a/pods/p"
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"


def policy_of(*rules: dict[str, Any], **fields: Any) -> Policy:
    return read_policy(orjson.dumps({**HEAD, **fields, "rules": rules}), Brand()).policy


def config_of(policy: Policy, method: str, path: str, user: UserInfo | None = BOB) -> RequestConfig:
    info = parse_target(method, path, False)
    return policy.config_of(info, user, info.name)


# Rules, and whether they tell a user from one with another name, and from one in another group.
LOOKS_AT: Final[dict[str, tuple[dict[str, Any], bool, bool]]] = {
    "nothing of users": ({"verbs": ["get"]}, False, False),
    "names": ({"users": ["bob"]}, True, False),
    "groups": ({"userGroups": ["dev"]}, False, True),
}


@pytest.mark.parametrize(("rule", "names", "groups"), LOOKS_AT.values(), ids=LOOKS_AT)
def test_what_the_rules_look_at_of_a_user(rule: dict[str, Any], names: bool, groups: bool) -> None:
    policy = policy_of({"level": "Metadata", **rule})
    known = policy.known_of(BOB)
    assert (policy.known_of(UserInfo("eve", BOB.groups)) != known) is names
    assert (policy.known_of(UserInfo("bob", ("ops",))) != known) is groups
    assert policy.known_of(None) != known


def resources(*names: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"resources": [{"group": group, "resources": list(names), **more}]}


# What a rule says beside its level, method and path, and whether they match.
MATCHES: Final[dict[str, tuple[dict[str, Any], str, str, bool]]] = {
    "nothing matches all": ({}, "GET", POD, True),
    "nothing matches paths, too": ({}, "GET", "/healthz", True),
    "a user": ({"users": ["bob"]}, "GET", POD, True),
    "another user": ({"users": ["eve"]}, "GET", POD, False),
    "one of the groups": ({"userGroups": ["ops", "dev"]}, "GET", POD, True),
    "other groups": ({"userGroups": ["ops"]}, "GET", POD, False),
    "a verb": ({"verbs": ["get", "list"]}, "GET", POD, True),
    "another verb": ({"verbs": ["update"]}, "GET", POD, False),
    "the verb of a path is its method": ({"verbs": ["post"]}, "POST", "/healthz", True),
    "a namespace": ({"namespaces": ["a"]}, "GET", POD, True),
    "another namespace": ({"namespaces": ["b"]}, "GET", POD, False),
    "no namespace": ({"namespaces": [""]}, "GET", "/api/v1/nodes/n", True),
    "a namespace is no path's": ({"namespaces": [""]}, "GET", "/healthz", False),
    "the core group": (resources("pods"), "GET", POD, True),
    "another group": (resources("pods", group="apps"), "GET", POD, False),
    "a resource of all groups": (resources("pods", group="*"), "GET", POD, True),
    "another resource of all groups": (resources("secrets", group="*"), "GET", POD, False),
    "a resource of all groups, in one of them": (resources("leases", group="*"), "PUT", LEASE, True),
    "a name in all groups": (resources("*", group="*", resourceNames=["q"]), "GET", POD, False),
    "all of all groups": ({"resources": [{"group": "*"}]}, "GET", f"{POD}/log", True),
    "all groups are no paths": ({"resources": [{"group": "*"}]}, "GET", "/healthz", False),
    "all of a group": ({"resources": [{"group": ""}]}, "GET", f"{POD}/log", True),
    "all of another group": ({"resources": [{"group": "apps"}]}, "GET", POD, False),
    "a resource is not its subresource": (resources("pods"), "GET", f"{POD}/log", False),
    "a subresource": (resources("pods/log"), "GET", f"{POD}/log", True),
    "a subresource is not its resource": (resources("pods/log"), "GET", POD, False),
    "all subresources": (resources("pods/*"), "GET", f"{POD}/log", True),
    "all subresources, and the resource": (resources("pods/*"), "GET", POD, True),
    "all resources and subresources": (resources("*"), "PUT", f"{POD}/status", True),
    "a subresource of all": (resources("*/status"), "PUT", f"{POD}/status", True),
    "another subresource of all": (resources("*/scale"), "PUT", f"{POD}/status", False),
    "a subresource of all is no resource": (resources("*/pods"), "GET", POD, False),
    "an object": (resources("pods", resourceNames=["p"]), "GET", POD, True),
    "another object": (resources("pods", resourceNames=["q"]), "GET", POD, False),
    "a collection has no name": (resources("pods", resourceNames=["p"]), "GET", POD[:-2], False),
    "one of several": (
        {"resources": [{"group": "apps"}, {"group": "coordination.k8s.io", "resources": ["leases"]}]},
        "PUT",
        LEASE,
        True,
    ),
    "resources are no paths": (resources("*"), "GET", "/healthz", False),
    "a path": ({"nonResourceURLs": ["/healthz"]}, "GET", "/healthz", True),
    "a longer path": ({"nonResourceURLs": ["/healthz"]}, "GET", "/healthz/ping", False),
    "the beginning of a path": ({"nonResourceURLs": ["/healthz*"]}, "GET", "/healthz/ping", True),
    "what begins with a slash": ({"nonResourceURLs": ["/api/*"]}, "GET", "/api", False),
    "all paths": ({"nonResourceURLs": ["*"]}, "GET", "/metrics", True),
    "a path is no resource": ({"nonResourceURLs": ["*"]}, "GET", POD, False),
    "all of it": ({"users": ["bob"], "verbs": ["get"], **resources("pods")}, "GET", POD, True),
    "not all of it": ({"users": ["bob"], "verbs": ["get"], **resources("secrets")}, "GET", POD, False),
}


@pytest.mark.parametrize(("rule", "method", "path", "matches"), MATCHES.values(), ids=MATCHES)
def test_what_a_rule_matches(rule: dict[str, Any], method: str, path: str, matches: bool) -> None:
    policy = policy_of({"level": "Request", **rule})
    for _ in ("found", "remembered"):
        expected = AuditLevel.REQUEST if matches else AuditLevel.NONE
        assert config_of(policy, method, path).level is expected


def test_the_first_rule_that_matches_decides() -> None:
    policy = policy_of(
        {"level": "None", "users": ["system:kube-proxy"]},
        {"level": "Metadata", **resources("secrets")},
        {"level": "RequestResponse"},
    )
    proxy = UserInfo("system:kube-proxy")
    secret = "/api/v1/namespaces/a/secrets/s"
    levels = [
        LEVEL_NAMES[config_of(policy, "GET", path, user).level]
        for path, user in ((POD, proxy), (secret, BOB), (POD, BOB), (secret, proxy))
    ]
    assert levels == ["None", "Metadata", "RequestResponse", "None"]


def test_a_rule_about_users_does_not_match_one_that_is_not_known() -> None:
    policy = policy_of({"level": "Request", "users": ["", "bob"]}, {"level": "Metadata"})
    assert config_of(policy, "GET", POD, None).level is AuditLevel.METADATA
    assert config_of(policy, "GET", POD, BOB).level is AuditLevel.REQUEST


def test_stages_are_omitted_by_the_policy_and_by_the_rule() -> None:
    policy = policy_of(
        {"level": "Metadata", "omitStages": ["Panic"], **resources("pods")},
        {"level": "Metadata"},
        omitStages=["RequestReceived", "ResponseStarted"],
    )
    both = {REQUEST_RECEIVED, RESPONSE_STARTED}
    assert config_of(policy, "GET", POD).omitted_stages == both | {PANIC}
    assert config_of(policy, "GET", "/healthz").omitted_stages == both


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("own", [True, False, None])
def test_a_rule_decides_about_managed_fields_before_the_policy(default: bool, own: bool | None) -> None:
    rule = {"level": "Request"} if own is None else {"level": "Request", "omitManagedFields": own}
    found = config_of(policy_of(rule, omitManagedFields=default), "GET", POD)
    assert found.omits_managed_fields is (default if own is None else own)


# What a file says, and the error.
MALFORMED: Final[dict[str, tuple[bytes, str]]] = {
    "not YAML": (b"{", "yaml: "),
    "a list": (b"[]", "the document: expected an object"),
    "another kind": (
        b'{"apiVersion": "audit.k8s.io/v1", "kind": "Event"}',
        'kind "Event" of version "audit.k8s.io/v1" is not Policy of audit.k8s.io/v1',
    ),
    "an old version": (
        b'{"apiVersion": "audit.k8s.io/v1beta1", "kind": "Policy"}',
        'kind "Policy" of version "audit.k8s.io/v1beta1" is not Policy of audit.k8s.io/v1',
    ),
    "no rules": (orjson.dumps({**HEAD, "rules": []}), "rules: loaded illegal policy with 0 rules"),
}
# A rule, or fields of the policy, and the error.
INVALID: Final[dict[str, tuple[dict[str, Any], dict[str, Any], str]]] = {
    "no level": ({"level": None}, {}, "rules[0].level: Required value"),
    "another level": (
        {"level": "All"},
        {},
        'rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", ',
    ),
    "a level of another type": ({"level": 1}, {}, "rules[0].level: expected a string"),
    "a list that is none": ({"verbs": "get"}, {}, "rules[0].verbs: expected a list"),
    "a stage": (
        {"omitStages": ["Panic", "Request"]},
        {},
        'rules[0].omitStages[1]: Invalid value: "Request": allowed stages are RequestReceived,',
    ),
    "a stage of the policy": (
        {},
        {"omitStages": [""]},
        'omitStages[0]: Invalid value: "": allowed stages are RequestReceived,',
    ),
    "a path": (
        {"nonResourceURLs": ["healthz"]},
        {},
        'rules[0].nonResourceURLs[0]: Invalid value: "healthz": non-resource URL rules must begin with',
    ),
    "a wildcard in the middle": (
        {"nonResourceURLs": ["/a/*/b"]},
        {},
        'rules[0].nonResourceURLs[0]: Invalid value: "/a/*/b": non-resource URL wildcards',
    ),
    "paths and resources": (
        {"nonResourceURLs": ["/a"], "resources": [{"group": ""}]},
        {},
        "rules[0].nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs",
    ),
    "paths and namespaces": (
        {"nonResourceURLs": ["/a"], "namespaces": ["a"]},
        {},
        "rules[0].nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs",
    ),
    "a group with its version": (
        resources("roles", group="rbac.authorization.k8s.io/v1"),
        {},
        'rules[0].resources[0].group: Invalid value: "rbac.authorization.k8s.io/v1": ',
    ),
    "all groups of a domain": (
        resources("pods", group="*.k8s.io"),
        {},
        'rules[0].resources[0].group: Invalid value: "*.k8s.io": ',
    ),
    "names of no resource": (
        {"resources": [{"group": "", "resourceNames": ["a"]}]},
        {},
        "rules[0].resources[0].resourceNames: using resourceNames requires at least one resource",
    ),
}


# What is ignored, as kube-apiserver does: a rule, fields of the policy, and how it is told.
IGNORED: Final[dict[str, tuple[dict[str, Any], dict[str, Any], str]]] = {
    "a field of a rule": ({"user": ["a"]}, {}, 'unknown field "rules[0].user"'),
    "a field of the policy": ({}, {"x": 1}, 'unknown field "x"'),
    "a field in capital letters": ({"Users": ["a"]}, {}, 'unknown field "rules[0].Users"'),
    "a field of resources": (
        {"resources": [{"group": "", "resource": ["a"]}]},
        {},
        'unknown field "rules[0].resources[0].resource"',
    ),
    "several": (
        {"user": ["a"], "a": 1},
        {"x": 1},
        'unknown field "rules[0].a", unknown field "rules[0].user", ',
    ),
}
_LENIENT: Final = "Audit policy contains errors, falling back to lenient decoding: strict decoding error: "


@pytest.mark.parametrize(("rule", "fields", "told"), IGNORED.values(), ids=IGNORED)
def test_what_a_policy_does_not_know_is_ignored_and_told(
    rule: dict[str, Any], fields: dict[str, Any], told: str
) -> None:
    content = orjson.dumps({**HEAD, **fields, "rules": [{"level": "Request", **rule}]})
    policy, warning = read_policy(content, Brand())
    assert warning.startswith(f"{_LENIENT}{told}")
    assert config_of(policy, "GET", POD).level is AuditLevel.REQUEST


def test_of_fields_that_are_there_twice_the_last_counts() -> None:
    content = b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n  level: Request\n"
    policy, warning = read_policy(content, Brand())
    assert warning.startswith(_LENIENT)
    assert "level" in warning
    assert config_of(policy, "GET", POD).level is AuditLevel.REQUEST


def test_of_a_policy_that_is_right_nothing_is_told() -> None:
    content = orjson.dumps({**HEAD, "metadata": {"name": "p", "x": 1}, "rules": [{"level": "None"}]})
    assert read_policy(content, Brand()).warning == ""


@pytest.mark.parametrize(("content", "error"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_policy(content: bytes, error: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        read_policy(content, Brand())
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(("rule", "fields", "error"), INVALID.values(), ids=INVALID)
def test_what_a_policy_may_not_say(rule: dict[str, Any], fields: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        policy_of({"level": "Metadata", **rule}, **fields)
    assert str(caught.value).startswith(error)
