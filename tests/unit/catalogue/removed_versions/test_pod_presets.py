"""PodPresets of settings/v1alpha1. Source: pkg/apis/settings (release 1.18). Rows H01, T31."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.runtime_config import RuntimeConfig
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue, table
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

GROUP: Final = "settings.k8s.io"
PRESET: Final = OldKind(
    f"podpresets.{GROUP}",
    "v1alpha1",
    18,
    {
        "spec": {
            "selector": {"matchLabels": {"role": "frontend"}},
            "env": [{"name": "DB_PORT", "value": "6379"}],
            "envFrom": [{"configMapRef": {"name": "etcd-env-config"}}],
            "volumes": [{"name": "cache"}],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        }
    },
)


def test_t31_no_version_has_replaced_them() -> None:
    assert table(19).find(GROUP, "v1alpha1", "podpresets") is not None
    assert table(20).find(GROUP, "v1alpha1", "podpresets") is None
    assert table(20).hub(GROUP, "podpresets") is None


def test_h01_nobody_has_them_who_has_not_asked_for_them() -> None:
    """Neither do admission plugins, which look for the hub."""
    assert catalogue(18).resources(RuntimeConfig({})).hub(GROUP, "podpresets") is None
    asked = catalogue(18).resources(RuntimeConfig({f"{GROUP}/v1alpha1": True}))
    assert asked.hub(GROUP, "podpresets") is not None


def test_parts_have_the_defaults_of_pods() -> None:
    field = {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    secret = {"name": "s", "secret": {"secretName": "a"}}
    created = PRESET.create({"spec.env": [field], "spec.volumes": [{"name": "cache"}, secret]})
    assert created.texts == []
    spec = created.document["spec"]
    assert spec["env"][0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}
    assert spec["volumes"] == [
        {"name": "cache", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "a", "defaultMode": 0o644}},
    ]


def test_how_they_are_shown() -> None:
    assert PRESET.resource.has_protobuf
    assert PRESET.resource.strategy.has_generation
    assert PRESET.cells().keys() == {"Name", "Created At"}


NOTHING: Final[Changes] = {f"spec.{part}": None for part in ("env", "envFrom", "volumes", "volumeMounts")}
VALID: Final[dict[str, Changes]] = {
    "all pods": {"spec.selector": None},
    "no volumes": {"spec.volumes": None, "spec.volumeMounts": None},
    "a part is enough": {**NOTHING, "spec.env": [{"name": "A"}]},
    "mounts whose privileges only containers have": {"spec.volumeMounts.0.mountPropagation": "Bidirectional"},
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID)
def test_valid(changes: Changes) -> None:
    assert PRESET.create(changes).texts == []


SOURCES: Final = "must specify one of: `configMapRef` or `secretRef`"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "nothing to add": (
        NOTHING,
        ["spec.volumes.env.envFrom.volumeMounts: Required value: must specify at lea"],
    ),
    "no spec": (
        {"spec": None},
        ["spec.volumes.env.envFrom.volumeMounts: Required value: must specify at lea"],
    ),
    "a selector that is none": (
        {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
        ['spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator'],
    ),
    "a label that is none": (
        {"spec.selector.matchLabels": {"role": "-"}},
        ['spec.selector.matchLabels: Invalid value: "-": '],
    ),
    "a variable without a name": ({"spec.env.0.name": ""}, ["spec.env[0].name: Required value"]),
    "a source that is none": (
        {"spec.envFrom": [{"prefix": "a"}]},
        [f'spec.envFrom: Invalid value: "": {SOURCES}'],
    ),
    "a mount of nothing": ({"spec.volumes": None}, ['spec.volumeMounts[0].name: Not found: "cache"']),
    "a mount that is nowhere": (
        {"spec.volumeMounts.0.mountPath": ""},
        ["spec.volumeMounts[0].mountPath: Required value"],
    ),
    "a mount of another kind": (
        {"spec.volumeMounts.0.mountPropagation": "Both"},
        ['spec.volumeMounts.mountPropagation: Unsupported value: "Both"'],
    ),
    "two volumes of one name": (
        {"spec.volumes": [{"name": "cache"}, {"name": "cache"}]},
        ['spec.volumes[1].name: Duplicate value: "cache"'],
    ),
    "all parts, in Kubernetes' order": (
        {"spec.volumes.0.name": "", "spec.env.0.name": "", "spec.envFrom": [{}]},
        [
            "spec.volumes[0].name: Required value",
            "spec.env[0].name: Required value",
            f'spec.envFrom: Invalid value: "": {SOURCES}',
            'spec.volumeMounts[0].name: Not found: "cache"',
        ],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(PRESET.create(changes).texts, beginnings)


SPECS: Final[dict[str, Any]] = {
    "another": {"env": [{"name": "A"}]},
    "an invalid one": {"env": [{"name": ""}]},
    "none": None,
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_spec_stays_as_it_is(spec: Any) -> None:
    updated = PRESET.update({"spec": spec, "metadata.labels": {"a": "b"}})
    assert updated.texts == []
    assert updated.document["spec"] == PRESET.completed()["spec"]
    assert updated.document["metadata"]["labels"] == {"a": "b"}


def test_one_that_was_stored_without_a_spec_is_invalid_when_it_is_updated() -> None:
    (text,) = PRESET.update({"metadata.labels": {"a": "b"}}, old={"spec": None}).texts
    assert text == "spec.volumes.env.envFrom.volumeMounts: Required value: must specify at least one"
