"""PersistentVolumes.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation, ValidatePersistentVolume.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.registry.strategy import WriteContext
from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin, changed, least

VOLUME: Final = ServedKind("persistentvolumes")
PV: Final = least(
    "PersistentVolume",
    spec={
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
    },
)
_MODES: Final = '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'


def terms(key: str) -> dict[str, Any]:
    expression = {"key": key, "operator": "In", "values": ["a"]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_the_defaults_of_a_new_volume() -> None:
    when = "2025-01-01T00:00:00Z"
    document, errors = VOLUME.created(PV, {"metadata.creationTimestamp": when, "status": {"phase": "Bound"}})
    assert errors == []
    assert document["status"] == {"phase": "Pending", "lastPhaseTransitionTime": when}
    assert document["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert document["spec"]["volumeMode"] == "Filesystem"


MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
VOLUMES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a volume is of some kind": ({"spec.csi": None}, ["spec: Required value: must specify a volume type"]),
    "of one kind": (
        {"spec.hostPath": {"path": "/a"}},
        ["spec.csi: Forbidden: may not specify more than 1 volume type"],
    ),
    "it has a size": (
        {"spec.capacity": None},
        [
            "spec.capacity: Required value",
            'spec.capacity: Unsupported value: null: supported values: "storage"',
        ],
    ),
    "and no other": (
        {"spec.capacity": {"storage": "1", "b": "1", "a": "1"}},
        ['spec.capacity: Unsupported value: {"a":"1","b":"1","storage":"1"}: supported values: "storage"'],
    ),
    "that is one": (
        {"spec.capacity": {"storage": "0"}},
        ['spec.capacity[storage]: Invalid value: "0": must be greater than zero'],
    ),
    "it can be used": ({"spec.accessModes": None}, ["spec.accessModes: Required value"]),
    "in a way there is": (
        {"spec.accessModes": ["X"]},
        [f'spec.accessModes: Unsupported value: "X": supported values: {_MODES}'],
    ),
    "by one pod or by others": (
        {"spec.accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]},
        ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
    ),
    "it is kept, deleted or recycled": (
        {"spec.persistentVolumeReclaimPolicy": "X"},
        [
            (
                'spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: '
                '"Delete", "Recycle", '
                '"Retain"'
            )
        ],
    ),
    "a whole file system is not recycled": (
        {"spec.csi": None, "spec.hostPath": {"path": "//"}, "spec.persistentVolumeReclaimPolicy": "Recycle"},
        ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
    ),
    "a disk of one node is on that node": (
        {"spec.csi": None, "spec.local": {"path": "/a"}},
        ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
    ),
    "a driver needs names and secrets that it finds": (
        {"spec.csi": {"driver": "", "nodePublishSecretRef": {"name": "s"}}},
        [
            "spec.csi.driver: Required value",
            "spec.csi.volumeHandle: Required value",
            "spec.csi.nodePublishSecretRef.namespace: Required value",
        ],
    ),
    "nodes are selected by terms": (
        {"spec.nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
        [
            (
                "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least "
                "one node selector "
                "term"
            )
        ],
    ),
    "attributes are a driver's": (
        {
            "spec.csi": None,
            "spec.nfs": {"server": "s", "path": "/"},
            "spec.volumeAttributesClassName": "gold",
        },
        ["spec.csi: Required value: has to be specified when using volumeAttributesClassName"],
    ),
    "options of mounts are in the annotation of what takes them": (
        {"metadata.annotations": {MOUNT_OPTIONS: "a"}},
        [
            (
                f"metadata.annotations.{MOUNT_OPTIONS}: Forbidden: may not specify mount options for this "
                "volume type"
            )
        ],
    ),
    "block or files": (
        {"spec.volumeMode": "X"},
        ['spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), VOLUMES.values(), ids=VOLUMES)
def test_errors_in_volumes(changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(VOLUME.created(PV, changes).texts, texts)


BETA, NOW = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
VOLUME_CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "who has it": ({"spec.claimRef": {"namespace": "ns", "name": "c"}, "spec.capacity.storage": "2Gi"}, []),
    "where it is": (
        {"spec.csi.volumeHandle": "other"},
        ["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"],
    ),
    "a secret for making it larger": (
        {"spec.csi.controllerExpandSecretRef": {"name": "s", "namespace": "ns"}},
        [],
    ),
    "how it is used": (
        {"spec.volumeMode": "Block"},
        ['volumeMode: Invalid value: "Block": field is immutable'],
    ),
    "which nodes have it, by a label's new name": ({"spec.nodeAffinity": terms(NOW)}, []),
    "by another label": ({"spec.nodeAffinity": terms("other")}, ["nodeAffinity: Invalid value:"]),
}


@pytest.mark.parametrize(("changes", "texts"), VOLUME_CHANGES.values(), ids=VOLUME_CHANGES)
def test_changes_of_volumes(changes: Changes, texts: list[str]) -> None:
    old = VOLUME.created(PV, {"spec.nodeAffinity": terms(BETA)}).document
    assert_texts_begin(VOLUME.updated(old, changes).texts, texts)


def test_the_node_affinity_of_a_volume_may_change_if_the_gate_is_on() -> None:
    movable = ServedKind("persistentvolumes", gates=("MutablePVNodeAffinity",))
    old = movable.created(PV, {"spec.nodeAffinity": terms(BETA)}).document
    assert movable.updated(old, {"spec.nodeAffinity": terms("other")}).errors == []


PHASES: Final[dict[str, tuple[Changes, str]]] = {
    "another phase": ({"status.phase": "Released"}, "now"),
    "another phase, and its time": (
        {"status.phase": "Released", "status.lastPhaseTransitionTime": "2020-01-01T00:00:00Z"},
        "2020-01-01T00:00:00Z",
    ),
    "the same phase": ({"status.lastPhaseTransitionTime": None}, "2025-01-01T00:00:00Z"),
    "the same phase at another time": (
        {"status.lastPhaseTransitionTime": "2020-01-01T00:00:00Z"},
        "2020-01-01T00:00:00Z",
    ),
}


@pytest.mark.parametrize(("changes", "time"), PHASES.values(), ids=PHASES)
def test_a_change_of_the_phase_is_dated(changes: Changes, time: str) -> None:
    old = VOLUME.created(PV, {"metadata.creationTimestamp": "2025-01-01T00:00:00Z"}).document
    new = changed(old, changes)
    update = VOLUME.resource.subresources["status"].update
    assert update is not None
    update.prepare(new, old)
    assert update.stamp is not None
    update.stamp(WriteContext(None, "now"), new, old)
    assert new["status"]["lastPhaseTransitionTime"] == time


def test_warnings_of_volumes() -> None:
    changes: Changes = {
        "metadata.annotations": {"volume.beta.kubernetes.io/storage-class": "x"},
        "spec": {**PV["spec"], "rbd": {}, "nodeAffinity": terms(BETA), "capacity": {"storage": "1500m"}},
    }
    document = VOLUME.created(PV, changes).document
    where = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key"
    assert VOLUME.strategy.warn(document, None) == [
        (
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "
            '"storageClassName" attribute instead'
        ),
        f'{where}: {BETA} is deprecated since v1.17; use "{NOW}" instead',
        "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
    ]
