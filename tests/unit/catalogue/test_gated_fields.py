"""A field whose feature gate is off is removed from a write, unless the stored object has it. Row H09."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import kubernetes_validate
import pytest

from apiserver.catalogue.builtin_type import CORE, BuiltinType
from apiserver.catalogue.gated_fields import (
    POD_SPECS,
    DisabledFields,
    GatedFieldRule,
    PathStep,
    definitions,
    disabled_by,
    gate_names,
    gates_of_fields,
    is_off,
    rules_of,
    without_disabled_fields,
)
from apiserver.meta.releases.emulation import DEFAULT_MINOR, NEWEST_MINOR
from apiserver.meta.releases.gates import FeatureGates, gates_of, known_gates
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import STATUS
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.structural import Schema, ValueKind

RULES: Final = {
    f"{definition.rpartition('.')[2]} {index}: {rule.gates}": (definition, rule)
    for definition in definitions()
    for index, rule in enumerate(rules_of(definition))
}
EACH_RULE: Final = pytest.mark.parametrize(("definition", "rule"), RULES.values(), ids=RULES)
SCALARS: Final[Mapping[ValueKind, Any]] = MappingProxyType(
    {
        ValueKind.STRING: "x",
        ValueKind.INTEGER: 0,
        ValueKind.BOOLEAN: False,
        ValueKind.QUANTITY: "1",
        ValueKind.INT_OR_STRING: 0,
    }
)


@cache
def schema_of(definition: str, minor: int) -> Schema:
    return BuiltinSchemas((1, minor)).get(definition)


def sample(definition: str, path: tuple[PathStep, ...]) -> Document:
    """An object of a kind that has nothing but the field at a path, as one of the newest releases has it."""
    try:
        return with_field(schema_of(definition, NEWEST_MINOR), path)
    except KeyError:
        return with_field(schema_of(definition, DEFAULT_MINOR), path)


def with_field(schema: Schema, path: tuple[PathStep, ...]) -> Document:
    """An object that has nothing but the field at a path."""
    step, *rest = path
    below = schema.fields[step.name]
    if step.each:
        assert below.element is not None
        value: Any = below.element
    else:
        value = below
    value = with_field(value, tuple(rest)) if rest else value_of(value, step)
    return {step.name: [value] if step.each == "[]" else {"key": value} if step.each == "{}" else value}


def value_of(schema: Schema, step: PathStep) -> Any:
    if step.field is not None:
        return {step.field: step.equals or value_of(schema.fields[step.field], step._replace(field=None))}
    return SCALARS.get(schema.kind, ["x"] if schema.kind is ValueKind.LIST else {})


@EACH_RULE
def test_a_new_object_loses_the_fields(definition: str, rule: GatedFieldRule) -> None:
    fields = DisabledFields([rule])
    for path in rule.paths:
        written = {"metadata": {"name": "x"}, **sample(definition, path)}
        before = copy.deepcopy(written)
        fields.drop(written, None)
        assert written != before
        assert written["metadata"] == {"name": "x"}
        if path[-1].becomes is None:
            assert path[-1].name not in json.dumps(written) or path[-1].each


@EACH_RULE
def test_an_object_that_has_one_of_the_fields_keeps_them_and_may_change_them(
    definition: str, rule: GatedFieldRule
) -> None:
    fields = DisabledFields([rule])
    for path in rule.paths:
        for used in rule.uses:
            written, stored = sample(definition, path), sample(definition, used)
            expected = copy.deepcopy(written)
            fields.drop(written, stored)
            assert written == expected
        written = sample(definition, path)
        fields.drop(written, {"metadata": {"name": "x"}})
        assert written != sample(definition, path)


def test_the_fields_of_all_kinds_with_pods_are_the_same() -> None:
    of_pods = {rule.gates for rule in rules_of(f"{CORE}PodTemplate")}
    for definition in POD_SPECS:
        assert of_pods <= {rule.gates for rule in rules_of(definition)}, definition


# Kinds, and the gates of 1.36 that are off by default and take fields from them.
OFF: Final = {
    "Pod": {
        *("ClusterTrustBundleProjection", "PodCertificateRequest", "GenericWorkload", "ContainerStopSignals"),
        *("ImageVolumeWithDigest", "DRANodeAllocatableResources"),
    },
    "Deployment": {
        *("ClusterTrustBundleProjection", "PodCertificateRequest", "GenericWorkload", "ContainerStopSignals")
    },
    "StatefulSet": {
        *("ClusterTrustBundleProjection", "PodCertificateRequest", "GenericWorkload", "ContainerStopSignals"),
        "MaxUnavailableStatefulSet",
    },
    "Node": {"DynamicKubeletConfig"},
    "PersistentVolumeClaim": {"CrossNamespaceVolumeDataSource"},
    "Lease": {"CoordinatedLeaderElection"},
    "CSIDriver": {"VolumeLimitScaling"},
    "ResourceSlice": {"DRANodeAllocatableResources", "DRAListTypeAttributes"},
    "ResourceClaim": set[str](),
    "CustomResourceDefinition": set[str](),
}


@pytest.mark.parametrize(("kind", "gates"), OFF.items(), ids=OFF)
def test_what_the_release_has_off_by_default(kind: str, gates: set[str]) -> None:
    (definition,) = (each for each in definitions() if each.endswith(f".{kind}"))
    states = gates_of(DEFAULT_MINOR, ())
    assert {rule.gates for rule in rules_of(definition) if is_off(rule.gates, states)} == gates


def test_a_release_without_the_gate_has_no_such_fields() -> None:
    assert "ContainerStopSignals" in gates_of_fields(33)
    assert "ContainerStopSignals" not in gates_of_fields(32)
    assert "DynamicKubeletConfig" in gates_of_fields(36), "it was removed, and so were its fields"


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ({"RecursiveReadOnlyMounts": True, "UserNamespacesSupport": False}, False),
        ({"RecursiveReadOnlyMounts": False, "UserNamespacesSupport": True}, False),
        ({"RecursiveReadOnlyMounts": False, "UserNamespacesSupport": False}, True),
    ],
)
def test_a_field_of_two_features_stays_while_one_is_on(gates: Mapping[str, bool], expected: bool) -> None:
    (rule,) = rules_of(f"{CORE}Node", lambda expression: "|" in expression)
    # Both can be switched in 1.32, without that which needs one.
    assert is_off(rule.gates, FeatureGates(32, {"ProcMountType": False, **gates})) is expected


def test_a_field_that_needs_two_features_goes_without_one() -> None:
    (rule,) = rules_of("io.k8s.api.resource.v1.ResourceSlice", lambda expression: "+" in expression)
    assert not is_off(rule.gates, FeatureGates(36))
    assert is_off(rule.gates, FeatureGates(36, {"DRADeviceBindingConditions": False}))


# ---- rules that are about more than a field

CASES: Final[dict[str, tuple[str, Document, Document]]] = {
    "a lifecycle of which nothing else is there goes, too": (
        "ContainerStopSignals",
        {"containers": [{"lifecycle": {"stopSignal": "SIGTERM"}}]},
        {"containers": [{}]},
    ),
    "a lifecycle with a hook stays": (
        "ContainerStopSignals",
        {"initContainers": [{"lifecycle": {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}}}]},
        {"initContainers": [{"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}]},
    ),
    "sidecars are older than restart rules": (
        "ContainerRestartRules",
        {
            "initContainers": [{"restartPolicy": "Always"}, {"restartPolicy": "Never"}],
            "containers": [{"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}],
        },
        {"initContainers": [{"restartPolicy": "Always"}, {}], "containers": [{}]},
    ),
    "processes are mounted as by default": (
        "ProcMountType",
        {"containers": [{"securityContext": {"procMount": "Unmasked"}}]},
        {"containers": [{"securityContext": {"procMount": "Default"}}]},
    ),
    "image volumes go with their mounts": (
        "ImageVolume",
        {
            "volumes": [{"name": "a", "image": {"reference": "r"}}, {"name": "b", "emptyDir": {}}],
            "containers": [{"volumeMounts": [{"name": "a"}, {"name": "b"}]}],
        },
        {"volumes": [{"name": "b", "emptyDir": {}}], "containers": [{"volumeMounts": [{"name": "b"}]}]},
    ),
}


@pytest.mark.parametrize(("gate", "spec", "kept"), CASES.values(), ids=CASES)
def test_what_else_goes(gate: str, spec: Document, kept: Document) -> None:
    minor = 35 if gate in ("ProcMountType", "ImageVolume") else DEFAULT_MINOR
    if gate == "ContainerRestartRules":
        states = FeatureGates(minor, {gate: False, "RestartAllContainersOnContainerExits": False})
    else:
        states = FeatureGates(minor, {gate: False})
    for definition, where in POD_SPECS.items():
        kind = without_disabled_fields(
            BuiltinType("", "v1", "x", "X", definition), definition, disabled_by(states)
        )
        document = at_path(where, copy.deepcopy(spec))
        kind.strategy.prepare_create(document)
        assert document == at_path(where, kept)
        stored = at_path(where, copy.deepcopy(spec))
        written = at_path(where, copy.deepcopy(spec))
        kind.strategy.update.prepare(written, stored)
        assert written == stored, "in use"


def at_path(where: str, value: Any) -> Document:
    for step in reversed(where.split(".")):
        value = {step: value}
    return {"metadata": {"name": "x"}, **value}


def test_every_endpoint_of_a_kind_drops_them() -> None:
    definition = f"{CORE}Pod"
    status = {"containerStatuses": [{"volumeMounts": [{"name": "a", "volumeStatus": {"image": {}}}]}]}
    builtin = BuiltinType(
        *("", "v1", "pods", "Pod", definition),
        subresources=(Subresource("status", update=STATUS), Subresource("log")),
    )
    kind = without_disabled_fields(builtin, definition, disabled_by(gates_of(DEFAULT_MINOR, ())))
    of_status, log = kind.subresources
    old: Document = {"metadata": {"name": "x"}, "spec": {}}
    new = {**copy.deepcopy(old), "status": copy.deepcopy(status)}
    assert of_status.update is not None
    of_status.update.prepare(new, old)
    assert new["status"] == {"containerStatuses": [{"volumeMounts": [{"name": "a"}]}]}
    assert log.update is None


# ---- the release's own words

# Fields whose descriptions name a gate that is off, and that are there without it.
NOT_DROPPED: Final = {
    "HPAScaleToZero": "a value that is refused: HorizontalPodAutoscaler's minReplicas 0",
    "MutablePVNodeAffinity": "a change that is refused",
    "TaintTolerationComparisonOperators": "operators that are refused",
    "SELinuxMount": "what kubelets do",
    "DRAWorkloadResourceClaims": "what claims pods of a group have",
    "ShardedListAndWatch": "a parameter of lists",
    "ClusterTrustBundle": "a kind",
    "PodCertificateRequest": "a kind",
    "GenericWorkload": "a kind",
    "TopologyAwareWorkloadScheduling": "dropped whatever the gate says: scheduling.pod_groups",
    "WorkloadAwarePreemption": "dropped whatever the gate says: scheduling.pod_groups",
}


def described_gates() -> Iterator[tuple[str, str, str]]:
    """Definitions, fields, and the gates of 1.36 that are off and that the fields' descriptions name."""
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    text = (folder / f"v1.{DEFAULT_MINOR}.0-local" / "_definitions.json").read_text()
    states = gates_of(DEFAULT_MINOR, ())
    for definition, schema in json.loads(text)["$defs"].items():
        for field, each in schema.get("properties", {}).items():
            for name in set(re.findall(r"\w+", each.get("description", ""))) & known_gates().keys():
                if known_gates()[name].stage(DEFAULT_MINOR) is not None and not states.is_on(name):
                    yield definition, field, name


def test_each_gate_that_a_description_names_is_in_the_table() -> None:
    of_table = {name for _, rule in RULES.values() for name in gate_names(rule.gates)}
    described = {name for _, _, name in described_gates()}
    assert described
    assert described - of_table == NOT_DROPPED.keys() - of_table
