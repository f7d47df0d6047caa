"""The file of `--authorization-config`, and what is wrong with it, in kube-apiserver's words.

Source: k8s.io/apiserver, pkg/apis/apiserver/validation/validation_test.go.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authz.configuration import ConfiguredAuthorizer, WebhookSettings
from apiserver.cli.authorization_configuration import parse_authorization_configuration
from apiserver.meta.brand import Brand
from apiserver.wire.configuration_fields import InvalidConfiguration

RBAC: Final = {"type": "RBAC", "name": "rbac"}


def parsed(*authorizers: Any, version: str = "v1", **more: Any) -> tuple[ConfiguredAuthorizer, ...]:
    head = {"apiVersion": f"apiserver.config.k8s.io/{version}", "kind": "AuthorizationConfiguration"}
    content = orjson.dumps({**head, "authorizers": list(authorizers), **more})
    return parse_authorization_configuration(content, Brand())


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.touch()
    return path


def webhook(path: Path | str, **changes: Any) -> dict[str, Any]:
    """changes: fields of it; None leaves one out."""
    fields = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(path)},
    }
    kept = {name: value for name, value in (fields | changes).items() if value is not None}
    return {"type": "Webhook", "name": "w", "webhook": kept}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_what_is_configured(kubeconfig: Path, version: str) -> None:
    hook = webhook(
        kubeconfig,
        authorizedTTL="1m",
        cacheUnauthorizedRequests=False,
        matchConditionSubjectAccessReviewVersion="v1",
        matchConditions=[{"expression": "request.user != 'a'"}],
    )
    settings = WebhookSettings(str(kubeconfig), 60, 0, 3, "v1", True, ("request.user != 'a'",))
    assert parsed(hook, {"type": "Node", "name": "node"}, RBAC, version=version) == (
        ConfiguredAuthorizer("Webhook", "w", settings),
        ConfiguredAuthorizer("Node", "node"),
        ConfiguredAuthorizer("RBAC", "rbac"),
    )


def test_what_is_left_out_of_a_webhook(kubeconfig: Path) -> None:
    (found,) = parsed(webhook(kubeconfig, failurePolicy="NoOpinion"))
    assert found.webhook == WebhookSettings(str(kubeconfig), 300, 30, 3, "v1", False)


def test_several_webhooks(kubeconfig: Path) -> None:
    assert [each.name for each in parsed(webhook(kubeconfig), webhook(kubeconfig) | {"name": "v"})] == [
        "w",
        "v",
    ]


INVALID: Final[dict[str, tuple[list[Any], str]]] = {
    "nothing": ([], "authorizers: Required value: at least one authorization mode must be defined"),
    "no type": ([{"name": "a"}], "authorizers[0].type: Required value"),
    "an unknown type": (
        [{"type": "ABAC", "name": "abac"}],
        'authorizers[0].type: Unsupported value: "ABAC": supported values: "AlwaysAllow", "AlwaysDeny",',
    ),
    "a type twice": ([RBAC, {"type": "RBAC", "name": "b"}], 'authorizers[1].type: Duplicate value: "RBAC"'),
    "no name": ([{"type": "RBAC"}], "authorizers[0].name: Required value"),
    "a name twice": (
        [RBAC, {"type": "Node", "name": "rbac"}],
        'authorizers[1].name: Duplicate value: "rbac"',
    ),
    "a name in upper case": (
        [{"type": "RBAC", "name": "RBAC"}],
        'authorizers[0].name: Invalid value: "RBAC": authorizer name is invalid: ',
    ),
    "another name": (
        [{"type": "RBAC", "name": "roles"}],
        "expected name rbac for authorizer RBAC instead of roles",
    ),
    "a webhook of RBAC": (
        [RBAC | {"webhook": {}}],
        'authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook',
    ),
    "no webhook": (
        [{"type": "Webhook", "name": "w"}],
        "authorizers[0].webhook: Required value: required when type=Webhook",
    ),
    "an unknown field": ([RBAC | {"mode": "x"}], 'unknown field "authorizers[0].mode"'),
    "a number for a name": ([RBAC | {"name": 7}], "authorizers[0].name: expected a string"),
    "no object": (["RBAC"], "authorizers[0]: expected an object"),
}


@pytest.mark.parametrize(("authorizers", "why"), INVALID.values(), ids=INVALID)
def test_what_is_wrong_with_authorizers(authorizers: list[Any], why: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parsed(*authorizers)
    assert why in str(raised.value)


A: Final = "authorizers[0]."
WRONG_WEBHOOKS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no timeout": ({"timeout": None}, A + "timeout: Required value"),
    "too long a timeout": (
        {"timeout": "31s"},
        A + 'timeout: Invalid value: "31s": must be > 0s and <= 30s',
    ),
    "a negative timeout": ({"timeout": "-1s"}, A + 'timeout: Invalid value: "-1s": must be > 0s and <= 30s'),
    "no duration": ({"timeout": "soon"}, "'soon' is not a duration"),
    "a negative time to live": (
        {"authorizedTTL": "-1s"},
        A + 'authorizedTTL: Invalid value: "-1s": must be > 0s',
    ),
    "another": ({"unauthorizedTTL": "-1m"}, A + 'unauthorizedTTL: Invalid value: "-1m": must be > 0s'),
    "no version": (
        {"subjectAccessReviewVersion": None},
        A + "subjectAccessReviewVersion: Required value",
    ),
    "an unknown version": (
        {"subjectAccessReviewVersion": "v2"},
        A + 'subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1"',
    ),
    "conditions of no version": (
        {"matchConditions": [{"expression": "true"}]},
        A + "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are",
    ),
    "conditions of another version": (
        {"matchConditionSubjectAccessReviewVersion": "v1beta1"},
        A + 'matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1"',
    ),
    "no policy": ({"failurePolicy": None}, A + "failurePolicy: Required value"),
    "an unknown policy": (
        {"failurePolicy": "Allow"},
        A + 'failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny"',
    ),
    "nowhere": ({"connectionInfo": None}, A + "connectionInfo.type: Required value"),
    "in the cluster": (
        {"connectionInfo": {"type": "InClusterConfig"}},
        A + 'connectionInfo.type: Invalid value: "InClusterConfig": the server cannot be its own',
    ),
    "somewhere": (
        {"connectionInfo": {"type": "DNS"}},
        A + 'connectionInfo.type: Unsupported value: "DNS": supported values: "InClusterConfig", ',
    ),
    "no file": (
        {"connectionInfo": {"type": "KubeConfigFile"}},
        A + "connectionInfo.kubeConfigFile: Required value",
    ),
    "a relative path": (
        {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "a"}},
        A + 'connectionInfo.kubeConfigFile: Invalid value: "a": must be an absolute path',
    ),
    "a file that is not there": (
        {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/no/such"}},
        A + 'connectionInfo.kubeConfigFile: Invalid value: "/no/such": error loading file: No such file',
    ),
    "a directory": (
        {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/"}},
        A + 'connectionInfo.kubeConfigFile: Invalid value: "/": must be a regular file',
    ),
    "a condition that is empty": (
        {"matchConditions": [{"expression": " "}]},
        A + "matchConditions[0].expression: Required value",
    ),
    "a condition twice": (
        {"matchConditions": [{"expression": "true"}, {"expression": "true"}]},
        A + 'matchConditions[1].expression: Duplicate value: "true"',
    ),
    "a condition that does not compile": (
        {"matchConditions": [{"expression": "request."}]},
        A + 'matchConditions[0].expression: Invalid value: "request.": compilation failed: ',
    ),
    "too many conditions": (
        {"matchConditions": [{"expression": f"{n} > 0"} for n in range(65)]},
        A + "matchConditions: Too many: 65: must have at most 64 items",
    ),
    "an unknown field": ({"cache": True}, 'unknown field "authorizers[0].webhook.cache"'),
}


@pytest.mark.parametrize(("changes", "why"), WRONG_WEBHOOKS.values(), ids=WRONG_WEBHOOKS)
def test_what_is_wrong_with_a_webhook(kubeconfig: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parsed(webhook(kubeconfig, **changes))
    assert why in str(raised.value)


def test_all_that_is_wrong_is_told_at_once(kubeconfig: Path) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parsed({"type": "RBAC"}, webhook(kubeconfig, timeout=None, failurePolicy=None))
    assert str(raised.value) == (
        "[authorizers[0].name: Required value, authorizers[1].timeout: Required value, "
        "authorizers[1].failurePolicy: Required value]"
    )


OTHER_FILES: Final = {
    "another kind": (
        b"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n",
        "is not",
    ),
    "another version": (
        b"apiVersion: apiserver.config.k8s.io/v2\nkind: AuthorizationConfiguration\n",
        "is not",
    ),
    "no YAML": (b"{", "yaml"),
    "a list": (b"[]", "expected an object"),
    "nothing": (b"", "expected an object"),
}


@pytest.mark.parametrize(("content", "why"), OTHER_FILES.values(), ids=OTHER_FILES)
def test_files_of_something_else(content: bytes, why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=why):
        parse_authorization_configuration(content, Brand())


def test_a_server_that_runs_needs_the_same_types() -> None:
    content = orjson.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthorizationConfiguration",
            "authorizers": [{"type": "AlwaysAllow", "name": "alwaysallow"}],
        }
    )
    with pytest.raises(InvalidConfiguration, match="authorizer of type RBAC must be configured"):
        parse_authorization_configuration(content, Brand(), {"RBAC"})
