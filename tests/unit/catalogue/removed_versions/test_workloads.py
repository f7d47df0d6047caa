"""What runs pods, in extensions/v1beta1, apps/v1beta1 and apps/v1beta2. Rows T26-T29.

Source: pkg/apis/{apps,extensions} (release 1.15).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.endpoints.handlers.subresources.rollback import validate_rollback
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes

INT32_MAX: Final = (1 << 31) - 1
LABELS: Final = {"app": "web"}
TEMPLATE: Final = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
}
SELECTOR: Final = {"matchLabels": LABELS}
BARE: Final = {"spec": {"template": TEMPLATE}}
SELECTING: Final = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
VERSIONS: Final = {
    "T26 DaemonSet, extensions/v1beta1": OldKind("daemonsets.extensions", "v1beta1", 15, BARE),
    "T26 DaemonSet, apps/v1beta2": OldKind("daemonsets.apps", "v1beta2", 15, SELECTING),
    "T27 Deployment, extensions/v1beta1": OldKind("deployments.extensions", "v1beta1", 15, BARE),
    "T27 Deployment, apps/v1beta1": OldKind("deployments.apps", "v1beta1", 15, BARE),
    "T27 Deployment, apps/v1beta2": OldKind("deployments.apps", "v1beta2", 15, SELECTING),
    "T28 StatefulSet, apps/v1beta1": OldKind("statefulsets.apps", "v1beta1", 15, BARE),
    "T28 StatefulSet, apps/v1beta2": OldKind("statefulsets.apps", "v1beta2", 15, SELECTING),
    "T29 ReplicaSet, extensions/v1beta1": OldKind("replicasets.extensions", "v1beta1", 15, BARE),
    "T29 ReplicaSet, apps/v1beta2": OldKind("replicasets.apps", "v1beta2", 15, SELECTING),
}
each_version = pytest.mark.parametrize("version", VERSIONS)
CURRENT: Final = {
    name: OldKind(f"{name}.apps", "v1", 36, SELECTING)
    for name in ("daemonsets", "deployments", "replicasets", "statefulsets")
}


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "T26 DaemonSet, extensions/v1beta1": {"updateStrategy": {"type": "OnDelete"}, "revisionHistoryLimit": 10},
    "T26 DaemonSet, apps/v1beta2": {"updateStrategy": rolling(0, 1), "revisionHistoryLimit": 10},
    "T27 Deployment, extensions/v1beta1": {
        "replicas": 1,
        "strategy": rolling(1, 1),
        "revisionHistoryLimit": INT32_MAX,
        "progressDeadlineSeconds": INT32_MAX,
    },
    "T27 Deployment, apps/v1beta1": {
        "replicas": 1,
        "strategy": rolling("25%", "25%"),
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": 600,
    },
    "T27 Deployment, apps/v1beta2": {
        "replicas": 1,
        "strategy": rolling("25%", "25%"),
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    },
    "T28 StatefulSet, apps/v1beta1": {
        "replicas": 1,
        "updateStrategy": {"type": "OnDelete"},
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
    },
    "T28 StatefulSet, apps/v1beta2": {
        "replicas": 1,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
    },
    "T29 ReplicaSet, extensions/v1beta1": {"replicas": 1},
    "T29 ReplicaSet, apps/v1beta2": {"replicas": 1},
}


@each_version
def test_what_is_not_said(version: str) -> None:
    kind = VERSIONS[version]
    spec = kind.completed()["spec"]
    assert {name: spec.get(name) for name in DEFAULTS[version]} == DEFAULTS[version]
    assert kind.create().texts == []
    shown = kind.resource.columns.cells(kind.completed(), 0)
    assert shown == CURRENT[kind.resource.resource].resource.columns.cells(kind.current(), 0)


@each_version
def test_selector_and_labels_are_those_of_the_pods(version: str) -> None:
    """Not in apps/v1beta2, where a selector is required."""
    kind = VERSIONS[version]
    document, errors = kind.create({"spec.selector": None})
    if kind.resource.group_version.version == "v1beta2":
        assert errors != []
    else:
        assert errors == []
        assert (document["spec"]["selector"], document["metadata"]["labels"]) == (SELECTOR, LABELS)
        own = kind.create({"metadata.labels": {"a": "b"}, "spec.selector": {"matchLabels": {"app": "other"}}})
        assert own.document["metadata"]["labels"] == {"a": "b"}
        assert own.document["spec"]["selector"] == {"matchLabels": {"app": "other"}}


@each_version
def test_whose_selector_may_change(version: str) -> None:
    kind = VERSIONS[version]
    change = {"spec.selector": {"matchLabels": {"b": "c"}}, "spec.template.metadata.labels": {"b": "c"}}
    fields = [error.field for error in kind.update(change).errors]
    if "StatefulSet" in version:
        assert fields == ["spec"]
    elif "v1beta2" in version:
        assert fields == ["spec.selector"]
    else:
        assert fields == []


@each_version
def test_objects_are_read_in_v1(version: str) -> None:
    kind = VERSIONS[version]
    document = kind.completed()
    assert kind.from_hub(kind.to_hub(document)) == document
    assert read_by_current(document) == kind.to_hub(document)
    assert kind.to_hub(document)["apiVersion"] == "apps/v1"


@each_version
def test_what_an_object_has_made_outlives_it(version: str) -> None:
    assert VERSIONS[version].strategy.orphans_by_default
    assert not CURRENT[VERSIONS[version].resource.resource].strategy.orphans_by_default


# ---- the fields that were removed

ROLLBACK: Final = "deprecated.deployment.rollback.to"
GENERATION: Final = "deprecated.daemonset.template.generation"
EXTENSIONS: Final = VERSIONS["T27 Deployment, extensions/v1beta1"]
DAEMON_SETS: Final = VERSIONS["T26 DaemonSet, extensions/v1beta1"]
FIELDS: Final[dict[str, tuple[OldKind, dict[str, Any], dict[str, str]]]] = {
    "T27 a revision to go back to": (EXTENSIONS, {"rollbackTo": {"revision": 3}}, {ROLLBACK: "3"}),
    "T27 the last revision": (EXTENSIONS, {"rollbackTo": {}}, {ROLLBACK: "0"}),
    "T27 in apps/v1beta1": (
        VERSIONS["T27 Deployment, apps/v1beta1"],
        {"rollbackTo": {"revision": -1}},
        {ROLLBACK: "-1"},
    ),
    "T27 no rollback": (EXTENSIONS, {}, {}),
    "T26 a generation": (DAEMON_SETS, {"templateGeneration": 7}, {GENERATION: "7"}),
    "T26 no generation": (DAEMON_SETS, {}, {GENERATION: "0"}),
}


@pytest.mark.parametrize(("kind", "spec", "annotations"), FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("others", [{}, {"a": "b"}], ids=["alone", "with another"])
def test_v1_has_them_in_annotations(
    kind: OldKind, spec: dict[str, Any], annotations: dict[str, str], others: dict[str, str]
) -> None:
    meta = {**kind.valid["metadata"], **({"annotations": others} if others else {})}
    document = {**kind.valid, "metadata": meta, "spec": spec}
    current = kind.to_hub(document)
    assert current["spec"] == {}
    assert current["metadata"].get("annotations", {}) == {**others, **annotations}
    assert kind.from_hub(current) == document


@pytest.mark.parametrize("text", ["", "x", "007", "1" * 30, "9223372036854775808", "\uff11"])
def test_an_annotation_that_is_no_number_stays_one(text: str) -> None:
    for kind, key in ((EXTENSIONS, ROLLBACK), (DAEMON_SETS, GENERATION)):
        current = {"metadata": {"annotations": {key: text}}, "spec": {}}
        shown = kind.from_hub(current)
        assert (shown["metadata"], shown["spec"]) == (current["metadata"], {})
        assert kind.to_hub(shown)["metadata"] == current["metadata"]


def test_t26_the_generation_counts_changes_of_the_template() -> None:
    created = DAEMON_SETS.create().document
    assert DAEMON_SETS.from_hub(created)["spec"]["templateGeneration"] == 1
    changed = DAEMON_SETS.update({"spec.template.spec.containers.0.image": "nginx:2"})
    assert changed.errors == []
    assert DAEMON_SETS.from_hub(changed.document)["spec"]["templateGeneration"] == 2


def test_t27_a_revision_is_not_negative() -> None:
    assert EXTENSIONS.create({"spec.rollbackTo": {"revision": -1}}).texts == [
        "spec.rollback.version: Invalid value: -1: must be greater than or equal to 0"
    ]


ORDERS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "a revision": ({"name": "a", "rollbackTo": {"revision": 3}}, []),
    "no name": ({"rollbackTo": {}}, ["name: Required value: name is required"]),
    "a negative revision": (
        {"name": "a", "rollbackTo": {"revision": -1}},
        ["rollback.version: Invalid value: -1: must be greater than or equal to 0"],
    ),
}


@pytest.mark.parametrize(("order", "texts"), ORDERS.values(), ids=ORDERS)
def test_t27_orders_to_go_back(order: dict[str, Any], texts: list[str]) -> None:
    assert [str(error) for error in validate_rollback(order)] == texts


def test_t27_annotations_of_an_order_are_checked() -> None:
    errors = validate_rollback({"name": "a", "updatedAnnotations": {"a b": "c"}})
    assert [error.field for error in errors] == ["updatedAnnotations"]


def test_revisions_are_the_same() -> None:
    for version in ("v1beta1", "v1beta2"):
        kind = OldKind("controllerrevisions.apps", version, 15, {"data": {"a": 1}, "revision": 2})
        document = kind.completed()
        assert kind.create().errors == []
        assert kind.to_hub(document) == {**document, "apiVersion": "apps/v1"}
        assert read_by_current(document) == kind.to_hub(document)


# ---- nothing is lost

TEXT: Final = st.text(max_size=3)
NUMBER: Final = st.integers(-3, 3)
METADATA: Final[st.SearchStrategy[dict[str, Any]]] = st.fixed_dictionaries(
    {"name": st.just("a")},
    optional={
        "labels": st.dictionaries(TEXT, TEXT, min_size=1, max_size=2),
        "annotations": st.dictionaries(TEXT, TEXT, min_size=1, max_size=2),
    },
)
SPEC: Final[dict[str, st.SearchStrategy[Any]]] = {
    "replicas": NUMBER,
    "selector": st.just(SELECTOR),
    "template": st.just(TEMPLATE),
    "minReadySeconds": NUMBER,
}
OLD_FIELDS: Final[dict[str, dict[str, st.SearchStrategy[Any]]]] = {
    "deployments": {"rollbackTo": st.sampled_from(({}, {"revision": 1}, {"revision": -(1 << 63)}))},
    "daemonsets": {"templateGeneration": st.integers(1, (1 << 63) - 1)},
}
KEPT: Final = {"deployments": ROLLBACK, "daemonsets": GENERATION}


@each_version
@given(data=st.data())
def test_nothing_of_the_old_version_is_lost(version: str, data: st.DataObject) -> None:
    kind = VERSIONS[version]
    fields = {**SPEC, **OLD_FIELDS.get(kind.resource.resource, {})}
    spec = data.draw(st.fixed_dictionaries({}, optional=fields))
    document = {**kind.valid, "metadata": data.draw(METADATA), "spec": spec}
    assert kind.from_hub(kind.to_hub(document)) == document


@each_version
@given(data=st.data())
def test_nothing_of_v1_is_lost(version: str, data: st.DataObject) -> None:
    kind = VERSIONS[version]
    meta = data.draw(METADATA)
    if (key := KEPT.get(kind.resource.resource)) is not None:
        # Every DaemonSet has the annotation.
        meta["annotations"] = {**meta.get("annotations", {}), key: str(data.draw(st.integers(0, 9)))}
    spec = data.draw(st.fixed_dictionaries({}, optional=SPEC))
    document = {"apiVersion": "apps/v1", "kind": kind.resource.kind, "metadata": meta, "spec": spec}
    assert kind.to_hub(kind.from_hub(document)) == document


# What apps/v1 has got since; the types of the old versions have got it, too.
LATER: Final[dict[str, Changes]] = {
    "daemonsets": {"spec.updateStrategy": rolling(1, 0)},
    "deployments": {"status.terminatingReplicas": 1},
    "replicasets": {"status.terminatingReplicas": 1},
    "statefulsets": {
        "spec.minReadySeconds": 5,
        "spec.ordinals": {"start": 3},
        "spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "spec.updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"partition": 0, "maxUnavailable": 2},
        },
        "status.availableReplicas": 1,
    },
}


@each_version
def test_fields_that_came_later_are_not_lost(version: str) -> None:
    kind = VERSIONS[version]
    current = CURRENT[kind.resource.resource].completed(LATER[kind.resource.resource])
    shown = kind.from_hub(current)
    assert kind.resource.check(shown) == []
    assert kind.to_hub(shown)["spec"] == current["spec"]
    assert kind.to_hub(shown)["status"] == current["status"]
