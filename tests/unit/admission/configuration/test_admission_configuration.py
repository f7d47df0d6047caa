"""What a file of `--admission-control-config-file` may say, and which mistakes prevent the start.

https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.admission.configuration.admission_configuration import read_admission_configuration
from apiserver.admission.configuration.event_rate_limit import EventLimit
from apiserver.admission.configuration.plugin_configurations import PluginConfigurations
from apiserver.admission.configuration.pod_security import LevelVersion
from apiserver.admission.configuration.resource_quota import LimitedResource
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import GroupResource
from apiserver.wire.configuration_fields import InvalidConfiguration

FILE: Final = Path("/etc/server/admission.yaml")
KIND: Final = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
POD_SECURITY: Final = {
    "apiVersion": "pod-security.admission.config.k8s.io/v1",
    "kind": "PodSecurityConfiguration",
}
EVENTS: Final = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
QUOTA: Final = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}
TOLERATIONS: Final = {
    "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1",
    "kind": "Configuration",
}
WEBHOOKS: Final = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration"}


def read(
    files: dict[str, bytes], *, off: tuple[str, ...] = ("EventRateLimit", "ImagePolicyWebhook")
) -> tuple[PluginConfigurations, list[str]]:
    """files: by path. All plugins but `off` are enabled."""

    def content(path: Path) -> bytes:
        if str(path) not in files:
            raise FileNotFoundError(2, "No such file or directory")
        return files[str(path)]

    return read_admission_configuration(FILE, Brand(), lambda name: name not in off, content)


def of_plugin(name: str, configuration: Any, **files: bytes) -> PluginConfigurations:
    whole = orjson.dumps({**KIND, "plugins": [{"name": name, "configuration": configuration}]})
    off = tuple({"EventRateLimit", "ImagePolicyWebhook"} - {name})
    return read({str(FILE): whole, **files}, off=off)[0]


def test_no_file_configures_nothing() -> None:
    assert read_admission_configuration(None, Brand(), lambda name: name == "PodSecurity") == (
        PluginConfigurations(),
        [],
    )


def test_the_defaults_and_exemptions_of_pod_security() -> None:
    found = of_plugin(
        "PodSecurity",
        {
            **POD_SECURITY,
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
            "exemptions": {"usernames": ["a b"], "namespaces": ["n"], "runtimeClasses": ["r.x"]},
        },
    ).pod_security
    assert found.enforced == LevelVersion("baseline", "v1.30")
    assert found.warned == LevelVersion("restricted")
    assert found.audited == LevelVersion()
    exempt = (found.exempt_users, found.exempt_namespaces, found.exempt_runtime_classes)
    assert [set(each) for each in exempt] == [{"a b"}, {"n"}, {"r.x"}]


def test_limits_of_events() -> None:
    limits = [
        {"type": "Server", "qps": 5, "burst": 9},
        {"type": "User", "qps": 1, "burst": 2, "cacheSize": 3},
    ]
    assert of_plugin("EventRateLimit", {**EVENTS, "limits": limits}).event_limits == (
        EventLimit("Server", 5, 9),
        EventLimit("User", 1, 2, 3),
    )


def test_what_is_limited_by_default() -> None:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    limited = [
        {"resource": "pods", "matchScopes": [scope]},
        {"apiGroup": "apps", "resource": "deployments", "matchContains": ["count/"]},
    ]
    assert of_plugin("ResourceQuota", {**QUOTA, "limitedResources": limited}).limited_resources == (
        LimitedResource(GroupResource("", "pods"), (), (scope,)),
        LimitedResource(GroupResource("apps", "deployments"), ("count/",)),
    )


def test_tolerations() -> None:
    found = of_plugin(
        "PodTolerationRestriction",
        {
            **TOLERATIONS,
            "default": [{"key": "k", "operator": "Exists"}],
            "whitelist": [{"key": "k", "effect": "NoExecute", "tolerationSeconds": 0}],
        },
    ).tolerations
    assert found.default == ({"key": "k", "operator": "Exists"},)
    assert found.allowed == ({"key": "k", "effect": "NoExecute", "tolerationSeconds": 0},)


def test_a_path_is_relative_to_the_file() -> None:
    plugin = {"name": "PodNodeSelector", "path": "nodes.yaml"}
    selectors = b"podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: a=b\n  ns: a=b, c=d\n"
    found, _ = read(
        {str(FILE): orjson.dumps({**KIND, "plugins": [plugin]}), str(FILE.with_name("nodes.yaml")): selectors}
    )
    assert found.node_selectors == {"clusterDefaultNodeSelector": {"a": "b"}, "ns": {"a": "b", "c": "d"}}


def test_the_file_may_be_that_of_a_plugin() -> None:
    """As before there was a kind for all of them."""
    found, _ = read({str(FILE): b"podNodeSelectorPluginConfig: {ns: a=b}"})
    assert found.node_selectors == {"ns": {"a": "b"}}


IMAGES: Final = {"kubeConfigFile": "/kube"}
KUBECONFIG: Final = {
    "clusters": [{"name": "s", "cluster": {"server": "https://images.example.com"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u"}}],
    "current-context": "c",
}
DURATIONS: Final[dict[str, tuple[dict[str, int], tuple[float, float, float]]]] = {
    "absent": ({}, (300, 30, 0.5)),
    "zero, which means the default": ({"allowTTL": 0, "denyTTL": 0, "retryBackoff": 0}, (300, 30, 0.5)),
    "given": ({"allowTTL": 50, "denyTTL": 60, "retryBackoff": 250}, (50, 60, 0.25)),
    "none": ({"allowTTL": -1, "denyTTL": -1, "retryBackoff": -1}, (0, 0, 0)),
}


@pytest.mark.parametrize(("given", "durations"), DURATIONS.values(), ids=DURATIONS)
def test_who_decides_about_images(given: dict[str, int], durations: tuple[float, float, float]) -> None:
    configured = {"imagePolicy": {**IMAGES, **given, "defaultAllow": True}}
    found = of_plugin("ImagePolicyWebhook", configured, **{"/kube": orjson.dumps(KUBECONFIG)}).image_policy
    assert found is not None
    assert (found.allow_ttl_s, found.deny_ttl_s, found.backoff_s) == durations
    assert (found.cluster.server, found.credentials.token) == ("https://images.example.com", "t")
    assert found.allows_by_default


BAD_IMAGES: Final[dict[str, tuple[Any, Any, str]]] = {
    "nothing": ({}, KUBECONFIG, "imagePolicy: is required"),
    "no file": ({"imagePolicy": {}}, KUBECONFIG, "imagePolicy.kubeConfigFile: is required"),
    "too long": (
        {"imagePolicy": {**IMAGES, "allowTTL": 1801}},
        KUBECONFIG,
        "imagePolicy.allowTTL: valid value is between 1s and 1800s, got 1801s",
    ),
    "too short": ({"imagePolicy": {**IMAGES, "denyTTL": 1}}, KUBECONFIG, "valid value is between 1s and"),
    "no server": ({"imagePolicy": IMAGES}, {}, 'no context is named ""'),
    "a server without TLS": (
        {"imagePolicy": IMAGES},
        {**KUBECONFIG, "clusters": [{"name": "s", "cluster": {"server": "http://a"}}]},
        'server "http://a" is not a URL with https',
    ),
}


@pytest.mark.parametrize(("configured", "kubeconfig", "why"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_who_cannot_decide_about_images(configured: Any, kubeconfig: Any, why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{FILE}: ImagePolicyWebhook: .*{why}"):
        of_plugin("ImagePolicyWebhook", configured, **{"/kube": orjson.dumps(kubeconfig)})


def test_the_first_entry_of_a_plugin_counts() -> None:
    plugins = [
        {"name": "PodNodeSelector", "configuration": {"podNodeSelectorPluginConfig": {"n": value}}}
        for value in ("a=1", "a=2")
    ]
    found, _ = read({str(FILE): orjson.dumps({**KIND, "plugins": plugins})})
    assert found.node_selectors == {"n": {"a": "1"}}


def test_what_is_disabled_is_not_read() -> None:
    plugins = [{"name": "PodSecurity", "configuration": {"garbage": True}}]
    off = ("PodSecurity", "EventRateLimit", "ImagePolicyWebhook")
    assert read({str(FILE): orjson.dumps({**KIND, "plugins": plugins})}, off=off) == (
        PluginConfigurations(),
        [],
    )


def test_a_name_that_nobody_knows_is_warned_about() -> None:
    plugins = [{"name": "Garbage", "configuration": {}}]
    _, warnings = read({str(FILE): orjson.dumps({**KIND, "plugins": plugins})})
    assert warnings == [f"{FILE}: 'Garbage' is not an admission plugin"]


BAD_FILES: Final[dict[str, tuple[bytes, str]]] = {
    "not YAML": (b"a: [", "yaml: line"),
    "no object": (b"[]", "expected an object"),
    "nothing": (b"", "expected an object"),
    "no kind": (b"plugins: []", 'kind "" of version "" is not AdmissionConfiguration of apiserver.config'),
    "another kind": (b"{apiVersion: v1, kind: Pod}", 'kind "Pod" of version "v1" is not Admission'),
    "a field that does not exist": (
        b"{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugin: []}",
        'strict decoding error: unknown field "plugin"',
    ),
    "a field that a plugin does not have": (
        b"{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{nam: x}]}",
        'strict decoding error: unknown field "plugins\\[0\\].nam"',
    ),
    "a key twice": (
        b"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nkind: x\n",
        "already set in map",
    ),
    "a plugin without a name": (
        b"{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{path: x}]}",
        "plugins\\[0\\].name: is required",
    ),
    "a list that is none": (
        b"{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: 5}",
        "plugins: expected a list",
    ),
    "a path to nothing": (
        orjson.dumps({**KIND, "plugins": [{"name": "PodSecurity", "path": "none.yaml"}]}),
        "cannot read /etc/server/none.yaml: No such file",
    ),
}


@pytest.mark.parametrize(("content", "why"), BAD_FILES.values(), ids=BAD_FILES)
def test_files_that_prevent_the_start(content: bytes, why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{FILE}: .*{why}"):
        read({str(FILE): content})


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InvalidConfiguration, match=f"cannot read {FILE}: No such file"):
        read({})


BAD_PLUGINS: Final[dict[str, tuple[str, Any, str]]] = {
    "another kind": ("PodSecurity", KIND, 'kind "AdmissionConfiguration" of version'),
    "a level that does not exist": (
        "PodSecurity",
        {**POD_SECURITY, "defaults": {"enforce": "strict"}},
        'defaults.enforce: "strict" is not one of privileged, baseline, restricted',
    ),
    "a version that does not exist": (
        "PodSecurity",
        {**POD_SECURITY, "defaults": {"warn-version": "1.30"}},
        'defaults.warn-version: must be "latest" or "v1.x"',
    ),
    "a field that does not exist, deep inside": (
        "PodSecurity",
        {**POD_SECURITY, "exemptions": {"users": []}},
        'unknown field "exemptions.users"',
    ),
    "an exemption twice": (
        "PodSecurity",
        {**POD_SECURITY, "exemptions": {"namespaces": ["n", "n"]}},
        'exemptions.namespaces\\[1\\]: "n": is a duplicate',
    ),
    "an exempt user without a name": (
        "PodSecurity",
        {**POD_SECURITY, "exemptions": {"usernames": [""]}},
        'exemptions.usernames\\[0\\]: "": is required',
    ),
    "no limits of events": ("EventRateLimit", EVENTS, "limits: must not be empty"),
    "a limit of nothing": (
        "EventRateLimit",
        {**EVENTS, "limits": [{"type": "Pod", "qps": 1, "burst": 1}]},
        'limits\\[0\\].type: "Pod" is not one of',
    ),
    "a limit that lets nothing pass": (
        "EventRateLimit",
        {**EVENTS, "limits": [{"type": "User", "qps": 0, "burst": 1}]},
        "limits\\[0\\].qps: must be positive",
    ),
    "a number that is a boolean": (
        "EventRateLimit",
        {**EVENTS, "limits": [{"type": "User", "qps": True, "burst": 1}]},
        "limits\\[0\\].qps: expected an integer",
    ),
    "a limited resource without a name": (
        "ResourceQuota",
        {**QUOTA, "limitedResources": [{"apiGroup": "apps"}]},
        "limitedResources\\[0\\].resource: is required",
    ),
    "a scope that does not exist": (
        "ResourceQuota",
        {
            **QUOTA,
            "limitedResources": [
                {"resource": "pods", "matchScopes": [{"scopeName": "All", "operator": "Exists"}]}
            ],
        },
        'matchScopes\\[0\\].scopeName: "All" is not one of',
    ),
    "a selector of nodes that is none": (
        "PodNodeSelector",
        {"podNodeSelectorPluginConfig": {"n": "a"}},
        "podNodeSelectorPluginConfig.n: invalid selector: a",
    ),
    "a toleration that tolerates nothing": (
        "PodTolerationRestriction",
        {**TOLERATIONS, "default": [{"operator": "Equal"}]},
        "default\\[0\\].operator: must be Exists when `key` is empty",
    ),
    "a kubeconfig whose path is relative": (
        "MutatingAdmissionWebhook",
        {**WEBHOOKS, "kubeConfigFile": "kubeconfig"},
        "kubeConfigFile: must be an absolute file path",
    ),
    "a kubeconfig that is not there": (
        "ValidatingAdmissionWebhook",
        {**WEBHOOKS, "kubeConfigFile": "/none"},
        "cannot read /none: No such file",
    ),
}


@pytest.mark.parametrize(("name", "configuration", "why"), BAD_PLUGINS.values(), ids=BAD_PLUGINS)
def test_configurations_that_prevent_the_start(name: str, configuration: Any, why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{FILE}: {name}: .*{why}"):
        of_plugin(name, configuration)


@pytest.mark.parametrize("name", ["EventRateLimit", "ImagePolicyWebhook"])
def test_some_plugins_do_nothing_without(name: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"the admission plugin {name} must be configured"):
        read_admission_configuration(None, Brand(), name.__eq__)
