"""What is wrong with new pods. Source: pkg/apis/core/validation, ValidatePodCreate."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.pod_specs.pod_annotations import deletion_cost, validate_meaning
from apiserver.catalogue.pod_specs.templates import validate_template
from tests.unit.catalogue.valid_pods import (
    RULES,
    Document,
    Expected,
    assert_agree,
    container,
    decoded,
    pod,
    validate_pod_create,
)

SELECTOR: Final = {"matchLabels": {"a": "b"}}
ANTI: Final = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
NODES: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def needs_nodes(*terms: Document) -> Document:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def avoids(**term: Any) -> Document:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(**more: Any) -> Document:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        **more,
    }


# Changes of the spec.
SPECS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a valid one": ({}, []),
    "no containers": ({"containers": []}, [("spec.containers", "Required", "")]),
    "unknown policies, in Kubernetes' order": (
        {"restartPolicy": "Bogus", "dnsPolicy": "Bogus"},
        [
            ("spec.restartPolicy", "NotSupported", '"Always", "OnFailure", "Never"'),
            (
                "spec.dnsPolicy",
                "NotSupported",
                '"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"',
            ),
        ],
    ),
    "a deadline of nothing": (
        {"activeDeadlineSeconds": 0},
        [("spec.activeDeadlineSeconds", "Invalid", "must be between 1 and 2147483647, inclusive")],
    ),
    "no names": (
        {"nodeName": "A", "hostname": "a.b", "priorityClassName": "_", "runtimeClassName": ""},
        [
            ("spec.nodeName", "Invalid", "RFC 1123 subdomain"),
            ("spec.hostname", "Invalid", "must not contain dots"),
            ("spec.priorityClassName", "Invalid", "RFC 1123 subdomain"),
            ("spec.runtimeClassName", "Invalid", "RFC 1123 subdomain"),
        ],
    ),
    "visitors": (
        {"ephemeralContainers": [container(name="d")]},
        [("spec.ephemeralContainers", "Forbidden", "cannot be set on create")],
    ),
    "a node behind a gate": (
        {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
        [("spec.nodeName", "Forbidden", "cannot be set until all schedulingGates have been cleared")],
    ),
    "gates": (
        {"schedulingGates": [{"name": "g"}, {"name": "g"}], "readinessGates": [{"conditionType": "-"}]},
        [
            ("spec.readinessGates[0].conditionType", "Invalid", "alphanumeric"),
            ("spec.schedulingGates[1]", "Duplicate", '"g"'),
        ],
    ),
    "ports of other numbers on the host's network": (
        {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])]},
        [("spec.containers[0].ports[0].hostPort", "Invalid", "must match `containerPort`")],
    ),
    "DNS by hand, by nobody": (
        {"dnsPolicy": "None"},
        [("spec.dnsConfig", "Required", "must provide `dnsConfig` when `dnsPolicy` is None")],
    ),
    "DNS": (
        {"dnsConfig": {"nameservers": ["x"], "searches": [".", "_a.b.", "-"], "options": [{"value": "1"}]}},
        [
            ("spec.dnsConfig.nameservers[0]", "Invalid", "must be a valid IP address"),
            ("spec.dnsConfig.searches[2]", "Invalid", "'_', '-' or '.'"),
            ("spec.dnsConfig.options[0]", "Required", "must not be empty"),
        ],
    ),
    "aliases": (
        {"hostAliases": [{"ip": "1.2.3", "hostnames": ["A"]}]},
        [
            ("spec.hostAliases[0].ip", "Invalid", "must be a valid IP address"),
            ("spec.hostAliases[0].hostnames[0]", "Invalid", "RFC 1123 subdomain"),
        ],
    ),
    "tolerations": (
        {
            "tolerations": [
                {},
                {"key": "k", "operator": "Exists", "value": "v"},
                {"key": "k", "operator": "Near", "effect": "Never"},
                {"key": "k", "tolerationSeconds": 1},
            ]
        },
        [
            ("spec.tolerations[0].operator", "Invalid", "operator must be Exists when `key` is empty"),
            ("spec.tolerations[1].operator", "Invalid", "value must be empty"),
            ("spec.tolerations[2].operator", "NotSupported", '"Equal", "Exists"'),
            ("spec.tolerations[2].effect", "NotSupported", '"NoSchedule", "PreferNoSchedule", "NoExecute"'),
            ("spec.tolerations[3].effect", "Invalid", "effect must be 'NoExecute'"),
        ],
    ),
    "no terms": (needs_nodes(), [(NODES, "Required", "must have at least one node selector term")]),
    "terms": (
        needs_nodes(
            {"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Gt"}]},
            {"matchFields": [{"key": "spec.x", "operator": "Exists"}]},
        ),
        [
            (f"{NODES}[0].matchExpressions[0].values", "Required", "'In' or 'NotIn'"),
            (f"{NODES}[0].matchExpressions[1].values", "Required", "single value"),
            (f"{NODES}[1].matchFields[0].operator", "Invalid", "not a valid selector operator"),
            (f"{NODES}[1].matchFields[0].key", "Invalid", "not a valid field selector key"),
        ],
    ),
    "no topology": (
        avoids(labelSelector=SELECTOR),
        [
            (f"{ANTI}.topologyKey", "Required", "can not be empty"),
            (f"{ANTI}.topologyKey", "Invalid", "must be non-empty"),
            (f"{ANTI}.topologyKey", "Invalid", "must consist of"),
        ],
    ),
    "label keys without a selector": (
        avoids(topologyKey="zone", matchLabelKeys=["a"]),
        [(f"{ANTI}.matchLabelKeys", "Forbidden", "when labelSelector is not set")],
    ),
    "uneven spreading": (
        {"topologySpreadConstraints": [spread(maxSkew=0), spread(whenUnsatisfiable="X", minDomains=2)]},
        [
            ("spec.topologySpreadConstraints[0].maxSkew", "Invalid", "must be greater than zero"),
            ("spec.topologySpreadConstraints[1].whenUnsatisfiable", "NotSupported", '"X"'),
            ("spec.topologySpreadConstraints[1].minDomains", "Invalid", "not X"),
        ],
    ),
    "spread twice": (
        {"topologySpreadConstraints": [spread(), spread(maxSkew=2)]},
        [
            (
                "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
                "Duplicate",
                "{zone, DoNotSchedule}",
            )
        ],
    ),
    "overhead": (
        {"overhead": {"cpu": "-1"}},
        [("spec.overhead.limits[cpu]", "Invalid", "must be greater than or equal to 0")],
    ),
    "containers that ask for more than their pod": (
        {
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
            "containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})],
        },
        [
            ("spec.resources.requests[cpu]", "Invalid", "aggregate container requests of 2"),
            ("spec.resources.containers[0][cpu].limits", "Invalid", "pod limits of 1"),
        ],
    ),
    "claims": (
        {"resourceClaims": [{"name": "a"}, {"name": "a", "resourceClaimName": "x"}]},
        [
            (
                "spec.resourceClaims[0]",
                "Invalid",
                '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of',
            ),
            ("spec.resourceClaims[1].name", "Duplicate", '"a"'),
        ],
    ),
    "users": (
        {"securityContext": {"runAsUser": -1, "supplementalGroups": [1 << 31]}},
        [
            ("spec.securityContext.runAsUser", "Invalid", "must be between 0 and 2147483647, inclusive"),
            ("spec.securityContext.supplementalGroups[0]", "Invalid", "must be between 0"),
        ],
    ),
    "sysctls": (
        {
            "hostNetwork": True,
            "securityContext": {
                "sysctls": [
                    {"name": "", "value": "1"},
                    {"name": "A", "value": "1"},
                    {"name": "net/core.x", "value": "1"},
                    {"name": "kernel.sem", "value": "1"},
                    {"name": "kernel.sem", "value": "1"},
                ]
            },
        },
        [
            ("spec.securityContext.sysctls[0].name", "Required", ""),
            ("spec.securityContext.sysctls[1].name", "Invalid", "must have at most 253 characters"),
            ("spec.securityContext.sysctls[2].name", "Invalid", "'hostNetwork' is true"),
            ("spec.securityContext.sysctls[4].name", "Duplicate", "kernel.sem"),
        ],
    ),
    "profiles": (
        {
            "securityContext": {
                "seccompProfile": {"type": "Localhost"},
                "appArmorProfile": {"type": "Unconfined", "localhostProfile": "x"},
            }
        },
        [
            ("spec.securityContext.seccompProfile.localhostProfile", "Required", "type is Localhost"),
            ("spec.securityContext.appArmorProfile.localhostProfile", "Invalid", "can only be set"),
        ],
    ),
    "users of its own on the host's network": (
        {"hostUsers": False, "hostNetwork": True},
        [("spec.hostNetwork", "Forbidden", "when `hostUsers` is false")],
    ),
    "Linux on Windows": (
        {
            "os": {"name": "windows"},
            "hostPID": True,
            "securityContext": {"runAsUser": 1},
            "containers": [container(securityContext={"privileged": False})],
        },
        [
            ("spec.hostPID", "Forbidden", "cannot be set for a windows pod"),
            ("spec.securityContext.runAsUser", "Forbidden", "cannot be set for a windows pod"),
            ("spec.containers[0].securityContext.privileged", "Forbidden", "for a windows pod"),
        ],
    ),
    "Windows on Linux": (
        {"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"runAsUserName": "a\\b\\c"}}},
        [
            ("spec.securityContext.windowsOptions.runAsUserName", "Invalid", "more than one backslash"),
            ("spec.securityContext.windowsOptions", "Forbidden", "cannot be set for a linux pod"),
        ],
    ),
    "a token of nobody": (
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        [("spec.volumes[0].projected.sources[0].serviceAccountToken", "Forbidden", "serviceAccountName")],
    ),
}


@pytest.mark.parametrize(("spec", "expected"), SPECS.values(), ids=SPECS)
def test_specs(spec: Document, expected: list[Expected]) -> None:
    assert_agree(validate_pod_create(pod(**spec)), expected)


# What the annotation says, and the cost: None for what is refused.
COSTS: Final[dict[str, int | None]] = {
    "0": 0,
    "7": 7,
    "-10": -10,
    "-0": 0,
    "-007": -7,
    f"-{'0' * 5_000}7": -7,
    "2147483647": 2147483647,
    "-2147483648": -2147483648,
    "2147483648": None,
    "-2147483649": None,
    "9" * 5_000: None,
    "": None,
    "-": None,
    "+1": None,
    "00": None,
    "07": None,
    "--7": None,
    "7\n": None,
    "0\n": None,
    "1e3": None,
    "\u00b2": None,
    "\u0667": None,
}


@pytest.mark.parametrize(("text", "cost"), COSTS.items(), ids=lambda each: ascii(each)[:20])
def test_deletion_costs(text: str, cost: int | None) -> None:
    assert deletion_cost(text) == cost
    annotations = {"controller.kubernetes.io/pod-deletion-cost": text}
    assert (not validate_meaning("", annotations, {}, RULES.specs.options, {})) == (cost is not None)


# What pods tolerated before there was a field for it.
_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"

ANNOTATIONS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a cost": ({"controller.kubernetes.io/pod-deletion-cost": "-10"}, []),
    "a cost in words": (
        {"controller.kubernetes.io/pod-deletion-cost": "+1"},
        [
            (
                "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]",
                "Invalid",
                "must be a 32bit integer",
            )
        ],
    ),
    "a mirror without a node": (
        {"kubernetes.io/config.mirror": "x"},
        [("metadata.annotations[kubernetes.io/config.mirror]", "Invalid", "must set spec.nodeName")],
    ),
    "a profile for nobody": (
        {"container.apparmor.security.beta.kubernetes.io/x": "mine"},
        [
            (
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]",
                "Invalid",
                "container not found",
            ),
            (
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]",
                "Invalid",
                'invalid AppArmor profile name: "mine"',
            ),
        ],
    ),
    "tolerations that are no JSON": (
        {_TOLERATIONS: "x"},
        [("metadata.annotations", "Invalid", "invalid character 'x' looking for beginning of value")],
    ),
    "tolerations that are no objects": (
        {_TOLERATIONS: "[1]"},
        [("metadata.annotations", "Invalid", "json: cannot unmarshal number into Go value of type")],
    ),
    "tolerations that are no list": (
        {_TOLERATIONS: '{"key": "a"}'},
        [
            (
                "metadata.annotations",
                "Invalid",
                "cannot unmarshal object into Go value of type []core.Toleration",
            )
        ],
    ),
    "tolerations that are a number": (
        {_TOLERATIONS: "0"},
        [
            (
                "metadata.annotations",
                "Invalid",
                "cannot unmarshal number into Go value of type []core.Toleration",
            )
        ],
    ),
    "no tolerations": ({_TOLERATIONS: "null"}, []),
    "a toleration that is null": (
        {_TOLERATIONS: "[null]"},
        [
            (
                f"metadata.annotations.{_TOLERATIONS}[0].operator",
                "Invalid",
                "operator must be Exists when `key`",
            )
        ],
    ),
    "tolerations that are wrong": (
        {_TOLERATIONS: '[{"Key": "a b", "operator": "Exists"}]'},
        [(f"metadata.annotations.{_TOLERATIONS}[0].key", "Invalid", "name part must consist of")],
    ),
    "tolerations": ({_TOLERATIONS: '[{"key": "a", "operator": "Exists"}]'}, []),
}


@pytest.mark.parametrize(("annotations", "expected"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_annotations(annotations: Document, expected: list[Expected]) -> None:
    assert_agree(validate_pod_create(pod({"annotations": annotations})), expected)


def test_templates_have_paths_of_their_own() -> None:
    template = decoded(
        {
            "metadata": {"labels": {"-": "v"}, "annotations": {"-": "v"}},
            "spec": {"containers": [container(image=" i ")], "ephemeralContainers": [container(name="d")]},
        },
        "PodTemplateSpec",
    )
    errors = validate_template("spec.template", template, RULES.specs)
    # Whitespace around an image is the business of pods.
    assert [e.field for e in errors] == [
        "spec.template.labels",
        "spec.template.annotations",
        "spec.template.spec.ephemeralContainers",
    ]
