"""Workloads of the group apps: what they are without being told, and what they may not be.

Source: k8s.io/kubernetes, pkg/apis/apps/v1/defaults.go and pkg/apis/apps/validation (release 1.34).
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.apps.daemon_sets import TEMPLATE_GENERATION
from apiserver.catalogue.common.workloads import int_or_percent_value
from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin

NAMES: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
KINDS: Final = {name: ServedKind(f"{name.lower()}s.apps") for name in (*NAMES, "ControllerRevision")}


def least(kind: str) -> Document:
    spec: Document = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "Deployment": {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    },
    "ReplicaSet": {"replicas": 1},
    "StatefulSet": {
        "serviceName": "",
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    },
    "DaemonSet": {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "revisionHistoryLimit": 10,
    },
}


@pytest.mark.parametrize("kind", NAMES)
def test_the_least_object_is_completed_and_valid(kind: str) -> None:
    """The defaults of apps/v1. Rows T26, T27, T28, T29."""
    document, errors = KINDS[kind].created(least(kind))
    assert errors == []
    assert document["spec"] == DEFAULTS[kind] | {
        "selector": document["spec"]["selector"],
        "template": document["spec"]["template"],
    }


STRATEGIES: Final[dict[str, tuple[str, Changes, Any]]] = {
    "a deployment that recreates does not roll": (
        "Deployment",
        {"spec.strategy.type": "Recreate"},
        {"type": "Recreate"},
    ),
    "one bound of a rolling deployment leaves the other": (
        "Deployment",
        {"spec.strategy.rollingUpdate": {"maxSurge": 0}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}},
    ),
    "a stateful set whose strategy is named gets nothing more": (
        "StatefulSet",
        {"spec.updateStrategy.type": "RollingUpdate"},
        {"type": "RollingUpdate"},
    ),
    "a daemon set that waits for deletions does not roll": (
        "DaemonSet",
        {"spec.updateStrategy.type": "OnDelete"},
        {"type": "OnDelete"},
    ),
}


@pytest.mark.parametrize(("kind", "changes", "strategy"), STRATEGIES.values(), ids=STRATEGIES)
def test_strategies_are_completed(kind: str, changes: Changes, strategy: Any) -> None:
    spec = KINDS[kind].created(least(kind), changes).document["spec"]
    assert (spec.get("strategy") or spec.get("updateStrategy")) == strategy


def test_claims_of_stateful_sets_say_what_they_are_and_are_volumes() -> None:
    """spec.volumeClaimTemplates, whose claims containers may mount without naming a volume."""
    claim = {"metadata": {"name": "data"}, "spec": CLAIM_SPEC}
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    changes = {"spec.volumeClaimTemplates": [claim], "spec.template.spec.containers": [container]}
    document, errors = KINDS["StatefulSet"].created(least("StatefulSet"), changes)
    assert errors == []
    (found,) = document["spec"]["volumeClaimTemplates"]
    assert (found["apiVersion"], found["kind"]) == ("v1", "PersistentVolumeClaim")
    assert (found["spec"]["volumeMode"], found["status"]["phase"]) == ("Filesystem", "Pending")
    assert "volumes" not in document["spec"]["template"]["spec"]


CLAIM_SPEC: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WRONG_CLAIMS: Final[list[Document]] = [
    {"metadata": {"name": "a"}, "spec": {**CLAIM_SPEC, "accessModes": []}},
    {"metadata": {"name": "b"}, "spec": {**CLAIM_SPEC, "volumeMode": "Other"}},
    {"spec": {**CLAIM_SPEC, "resources": {}}},
]


def test_templates_of_claims_are_claims_until_they_are_stored() -> None:
    """Row A7: those of a stored StatefulSet are not checked again, and do not change."""
    kind = KINDS["StatefulSet"]
    old, errors = kind.created(least("StatefulSet"), {"spec.volumeClaimTemplates": WRONG_CLAIMS})
    assert list(map(str, errors)) == [
        "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        (
            'spec.volumeClaimTemplates[1].spec.volumeMode: Unsupported value: "Other": supported values: '
            '"Block", "Filesystem"'
        ),
        "spec.volumeClaimTemplates[2].spec.resources[storage]: Required value",
        "spec.template.spec.volumes[2].persistentVolumeClaim.claimName: Required value",
        "spec.template.spec.volumes[2].name: Required value",
    ]
    del old["spec"]["volumeClaimTemplates"][2]
    assert (
        kind.updated(old, {"spec.replicas": 3, "spec.template.metadata.annotations": {"a": "b"}}).errors == []
    )
    assert [error.field for error in kind.updated(old, {"spec.volumeClaimTemplates": []}).errors] == ["spec"]


def test_an_invalid_stored_stateful_set_may_be_updated() -> None:
    kind = KINDS["StatefulSet"]
    changes: Changes = {"spec.template.spec.containers": [], "spec.serviceName": "Not.a_label"}
    old, errors = kind.created(least("StatefulSet"), changes)
    assert [error.field for error in errors] == ["spec.serviceName", "spec.template.spec.containers"]
    assert kind.updated(old, {"spec.replicas": 3}).errors == []
    assert kind.updated(old, {"spec.replicas": -1}).texts == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]


WRONG_POD: Final[Changes] = {"spec.template.spec.dnsPolicy": "Other"}


# What is wrong with a stored StatefulSet, and which fields an update with wrong pods is refused for.
PODS_OF_STORED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "pods of a valid one are checked": ({}, ["spec.template.spec.dnsPolicy"]),
    "those of one that is wrong elsewhere are not": ({"spec.replicas": -1}, []),
    "wrong ones may stay": (WRONG_POD, []),
}


@pytest.mark.parametrize(("stored", "fields"), PODS_OF_STORED.values(), ids=PODS_OF_STORED)
def test_the_pods_of_a_stored_stateful_set(stored: Changes, fields: list[str]) -> None:
    kind = KINDS["StatefulSet"]
    old = kind.created(least("StatefulSet"), stored).document
    errors = kind.updated(old, {"spec.replicas": 3, **WRONG_POD}).errors
    assert [error.field for error in errors] == fields


def test_fractions_of_bytes_in_claim_templates_cause_warnings() -> None:
    kind = KINDS["StatefulSet"]
    claim = {
        "metadata": {"name": "a"},
        "spec": {**CLAIM_SPEC, "resources": {"requests": {"storage": "1500m"}}},
    }
    new = kind.created(least("StatefulSet"), {"spec.volumeClaimTemplates": [claim]}).document
    text = 'resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    assert kind.strategy.warn(new, None) == [f"spec.volumeClaimTemplates[0].{text}"]
    assert kind.strategy.warn(new, new) == [f"spec.volumeClaimTemplates[0].Spec.{text}"]


@pytest.mark.parametrize(("minor", "unavailable"), [(34, None), (35, 1), (36, None), (37, 1)])
def test_max_unavailable_of_a_stateful_set_has_the_default_of_the_release(
    minor: int, unavailable: int | None
) -> None:
    kind = ServedKind("statefulsets.apps", minor=minor)
    rolling = kind.created(least("StatefulSet")).document["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling.get("maxUnavailable") == unavailable


@pytest.mark.parametrize("field", ["hostname", "subdomain"])
def test_names_that_the_controller_of_stateful_sets_gives_are_not_checked(field: str) -> None:
    for kind, wrong in (("StatefulSet", []), ("Deployment", [f"spec.template.spec.{field}"])):
        _, errors = KINDS[kind].created(least(kind), {f"spec.template.spec.{field}": "Not.A_Label"})
        assert [error.field for error in errors] == wrong


# ---- objects that are wrong

_MISMATCH: Final = "`selector` does not match template `labels`"
_PERCENT: Final = "a valid percent string must be a numeric string followed by an ending '%'"

INVALID: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "replicas are not negative": (
        "Deployment",
        {"spec.replicas": -1},
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a deployment has a selector": (
        "Deployment",
        {"spec.selector": None},
        [
            "spec.selector: Required value",
            f'spec.template.metadata.labels: Invalid value: {{"app":"a"}}: {_MISMATCH}',
        ],
    ),
    "an empty selector is none": (
        "ReplicaSet",
        {"spec.selector": {}},
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    "a malformed selector is told once more as a whole": (
        "Deployment",
        {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
        [
            'spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
            "spec.selector: Invalid value: {",
        ],
    ),
    "the selector selects the pods": (
        "StatefulSet",
        {"spec.template.metadata": {}},
        [f"spec.template.metadata.labels: Invalid value: null: {_MISMATCH}"],
    ),
    "a daemon set without selector selects nothing": (
        "DaemonSet",
        {"spec.selector": None},
        [f'spec.template.metadata.labels: Invalid value: {{"app":"a"}}: {_MISMATCH}'],
    ),
    "pods start again": (
        "DaemonSet",
        {"spec.template.spec.restartPolicy": "Never"},
        ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
    ),
    "pods have no deadline": (
        "ReplicaSet",
        {"spec.template.spec.activeDeadlineSeconds": 5},
        [
            (
                "spec.template.spec.activeDeadlineSeconds: Forbidden: "
                "activeDeadlineSeconds in ReplicaSet is not Supported"
            )
        ],
    ),
    "a percentage is a number": (
        "Deployment",
        {"spec.strategy.rollingUpdate": {"maxSurge": "x%"}},
        [f'spec.strategy.rollingUpdate.maxSurge: Invalid value: "x%": {_PERCENT}'],
    ),
    "not more than all are unavailable": (
        "Deployment",
        {"spec.strategy.rollingUpdate": {"maxUnavailable": "101%"}},
        ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
    ),
    "a rollout must be able to begin": (
        "Deployment",
        {"spec.strategy.rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}},
        [
            (
                "spec.strategy.rollingUpdate.maxUnavailable: "
                'Invalid value: "0%": may not be 0 when `maxSurge` is 0'
            )
        ],
    ),
    "what is recreated does not roll": (
        "Deployment",
        {"spec.strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    ),
    "there are two strategies of deployments": (
        "Deployment",
        {"spec.strategy.type": "X"},
        [
            (
                'spec.strategy: Unsupported value: {"Type":"X","RollingUpdate":null}: '
                'supported values: "Recreate", "RollingUpdate"'
            )
        ],
    ),
    "the deadline is after the pods are ready": (
        "Deployment",
        {"spec.minReadySeconds": 600},
        ["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
    ),
    "a daemon set either surges or does without": (
        "DaemonSet",
        {"spec.updateStrategy.rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
        [
            (
                "spec.updateStrategy.rollingUpdate.maxSurge: "
                "Invalid value: 1: may not be set when maxUnavailable is non-zero"
            )
        ],
    ),
    "a daemon set does one of both": (
        "DaemonSet",
        {"spec.updateStrategy.rollingUpdate": {"maxUnavailable": 0}},
        ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
    ),
    "what waits for deletions does not roll": (
        "StatefulSet",
        {"spec.updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
        [
            (
                'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: '
                "only allowed for updateStrategy 'RollingUpdate'"
            )
        ],
    ),
    "there are two policies of pods": (
        "StatefulSet",
        {"spec.podManagementPolicy": "X"},
        ["spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"],
    ),
    "claims are kept or deleted": (
        "StatefulSet",
        {"spec.persistentVolumeClaimRetentionPolicy": {"whenScaled": "X"}},
        [
            (
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: "
                'Unsupported value: "X": supported values: "Retain", "Delete"'
            )
        ],
    ),
    "a new stateful set's service has a name for hosts": (
        "StatefulSet",
        {"spec.serviceName": "A"},
        ['spec.serviceName: Invalid value: "A": a lowercase RFC 1123 label must consist of'],
    ),
}


@pytest.mark.parametrize(("kind", "changes", "texts"), INVALID.values(), ids=INVALID)
def test_errors(kind: str, changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(KINDS[kind].created(least(kind), changes).texts, texts)


# spec.updateStrategy.rollingUpdate.maxUnavailable of a StatefulSet, and what is wrong with it.
UNAVAILABLE: Final[dict[str, tuple[int | str, list[str]]]] = {
    "several pods": (2, []),
    "no pod": ("0%", ['spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "0%": cannot be 0']),
}


@pytest.mark.parametrize(("unavailable", "texts"), UNAVAILABLE.values(), ids=UNAVAILABLE)
def test_max_unavailable_of_a_stateful_set_depends_on_its_gate(
    unavailable: int | str, texts: list[str]
) -> None:
    changes = {"spec.updateStrategy.rollingUpdate": {"maxUnavailable": unavailable}}
    kind = ServedKind("statefulsets.apps", gates=("MaxUnavailableStatefulSet",))
    document, errors = kind.created(least("StatefulSet"), changes)
    assert list(map(str, errors)) == texts
    assert document["spec"]["updateStrategy"]["rollingUpdate"] == {
        "maxUnavailable": unavailable,
        "partition": 0,
    }


SELECTORS: Final = {
    "T26": ("DaemonSet", "spec.template.metadata.labels"),
    "T27": ("Deployment", "spec.selector"),
    "T28": ("StatefulSet", "spec.selector"),
    "T29": ("ReplicaSet", "spec.selector"),
}


@pytest.mark.parametrize("row", SELECTORS)
def test_a_selector_is_required(row: str) -> None:
    """Rows T26, T27, T28, T29. None selects nothing, which a daemon set is told by its labels only."""
    kind, field = SELECTORS[row]
    assert KINDS[kind].created(least(kind), {"spec.selector": None}).errors[0].field == field


# ---- changes


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "DaemonSet"])
def test_a_selector_stays(kind: str) -> None:
    """Rows T26, T27, T29."""
    old = KINDS[kind].created(least(kind), {"spec.template.metadata.labels": {"app": "a", "b": "c"}}).document
    selector = {"matchLabels": {"b": "c"}}
    texts = KINDS[kind].updated(old, {"spec.selector": selector}).texts
    assert texts == ['spec.selector: Invalid value: {"matchLabels":{"b":"c"}}: field is immutable']


def test_of_a_stateful_set_only_some_fields_change() -> None:
    """Row T28: its selector is none of them."""
    kind = KINDS["StatefulSet"]
    old = kind.created(least("StatefulSet")).document
    mutable = {
        "spec.replicas": 3,
        "spec.ordinals": {"start": 1},
        "spec.template.spec.hostname": "h",
        "spec.updateStrategy": {"type": "OnDelete"},
        "spec.revisionHistoryLimit": 1,
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Delete",
        "spec.minReadySeconds": 5,
    }
    assert kind.updated(old, mutable).errors == []
    selector = {"spec.selector": {"matchLabels": {"b": "c"}}, "spec.template.metadata.labels": {"b": "c"}}
    for fixed in ({"spec.serviceName": "other"}, selector):
        (text,) = kind.updated(old, fixed).texts
        assert text.startswith("spec: Forbidden: updates to statefulset spec for fields other than")


def test_annotations_of_deployments_count_as_spec() -> None:
    kind = KINDS["Deployment"]
    old = kind.created(least("Deployment")).document
    old["metadata"]["generation"] = 4
    assert kind.updated(old, {"metadata.labels": {"a": "b"}}).document["metadata"]["generation"] == 4
    annotated = kind.updated(old, {"metadata.annotations": {"a": "b"}}).document
    assert annotated["metadata"]["generation"] == 5


def test_daemon_sets_count_their_templates() -> None:
    """The annotation is the server's, whatever clients write; pkg/registry/apps/daemonset/strategy.go."""
    kind = KINDS["DaemonSet"]
    old = kind.created(least("DaemonSet")).document
    assert old["metadata"]["annotations"] == {TEMPLATE_GENERATION: "1"}
    for changes, generation in (
        ({"metadata.annotations": None}, "1"),
        ({"metadata.annotations": {TEMPLATE_GENERATION: "7"}}, "1"),
        ({"spec.template.spec.hostname": "h"}, "2"),
    ):
        new = kind.updated(old, changes).document
        assert new["metadata"]["annotations"][TEMPLATE_GENERATION] == generation


STATUSES: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "numbers of pods are not negative": (
        "DaemonSet",
        {"status.numberReady": -1},
        ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "not more pods are ready than there are": (
        "ReplicaSet",
        {"status": {"replicas": 1, "readyReplicas": 2}},
        ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
    ),
    "available pods are ready": (
        "Deployment",
        {"status": {"replicas": 2, "availableReplicas": 1}},
        ["status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"],
    ),
    "collisions are not forgotten": (
        "StatefulSet",
        {"status": {"replicas": 1, "collisionCount": 1}},
        ["status.collisionCount: Invalid value: 1: cannot be decremented"],
    ),
    "the spec stays": ("Deployment", {"status.replicas": 1, "spec.replicas": -1}, []),
}


@pytest.mark.parametrize(("kind", "changes", "texts"), STATUSES.values(), ids=STATUSES)
def test_statuses(kind: str, changes: Changes, texts: list[str]) -> None:
    old = KINDS[kind].created(least(kind)).document
    if "collisionCount" in str(changes):
        old["status"]["collisionCount"] = 2
    new = KINDS[kind].updated(old, changes, "status")
    assert new.texts == texts
    assert new.document["spec"] == old["spec"]


def test_controller_revisions_hold_data_for_good() -> None:
    kind = KINDS["ControllerRevision"]
    document = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "x"}}
    assert kind.created(document, {"revision": -1}).texts == [
        "revision: Invalid value: -1: must be greater than or equal to 0",
        "data: Required value: data is mandatory",
    ]
    old = kind.created(document, {"data": {"a": 1}}).document
    assert kind.updated(old, {"revision": 2}).errors == []
    assert kind.updated(old, {"data": {"a": 2}}).texts == ['data: Invalid value: {"a":2}: field is immutable']


# ---- what people see


def test_warnings() -> None:
    document = least("Deployment") | {"metadata": {"name": "a.b"}}
    new = KINDS["Deployment"].created(document).document
    warn = KINDS["Deployment"].strategy.warn
    assert warn(new, None) == [
        (
            "metadata.name: this is used in Pod names and hostnames, "
            "which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
        )
    ]
    assert warn(new, new) == []
    history = KINDS["StatefulSet"].created(least("StatefulSet"), {"spec.revisionHistoryLimit": -1}).document
    assert KINDS["StatefulSet"].strategy.warn(history, None) == [
        (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        )
    ]


def test_rows() -> None:
    """pkg/printers/internalversion."""
    daemons = KINDS["DaemonSet"]
    document = daemons.created(least("DaemonSet"), {"spec.template.spec.nodeSelector": {"b": "1", "a": "2"}})
    assert daemons.row(document.document) == {
        "Name": "x",
        **dict.fromkeys(("Desired", "Current", "Ready", "Up-to-date", "Available"), 0),
        "Node Selector": "a=2,b=1",
        "Age": "60s",
        "Containers": "c",
        "Images": "i",
        "Selector": "app=a",
    }
    sets = KINDS["StatefulSet"].row(KINDS["StatefulSet"].created(least("StatefulSet")).document)
    assert (sets["Ready"], "Selector" in sets) == ("0/1", False)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    revision = {"metadata": {"name": "r", "ownerReferences": [owner]}, "revision": 3}
    cells = KINDS["ControllerRevision"].row(revision)
    assert (cells["Controller"], cells["Revision"]) == ("daemonset.apps/d", 3)


NUMBERS: Final = {
    "0": 0,
    "00": 0,
    "007": 7,
    "5%": 5,
    "0%": 0,
    "+5": 5,
    "-1": -1,
    "-0": 0,
    "": 0,
    "%": 0,
    "x%": 0,
    "-5%": 0,
    "+5%": 0,
    "1.5": 0,
    "5 ": 0,
    "\N{ARABIC-INDIC DIGIT ONE}": 0,
}


@pytest.mark.parametrize(("text", "number"), NUMBERS.items(), ids=ascii)
def test_the_number_of_a_text(text: str, number: int) -> None:
    assert int_or_percent_value(text) == number
    assert int_or_percent_value("9" * 5_000) > 1 << 32


def test_a_negative_text_for_unavailable_pods_counts_as_some() -> None:
    rolling = {"maxUnavailable": "-1", "maxSurge": 1}
    _, errors = KINDS["DaemonSet"].created(least("DaemonSet"), {"spec.updateStrategy.rollingUpdate": rolling})
    assert "may not be set when maxUnavailable is non-zero" in "".join(map(str, errors))
