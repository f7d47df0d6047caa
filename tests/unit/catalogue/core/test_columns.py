"""What `kubectl get` shows of the core group's types. Source: pkg/printers/internalversion, printers.go."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import ServedKind

# All columns; those after the bar only in wide output.
HEADS: Final = {
    "Node": "Name, Status, Roles, Age, Version | Internal-IP, External-IP, OS-Image, Kernel-Version, "
    "Container-Runtime",
    "PersistentVolume": "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, "
    "VolumeAttributesClass, Reason, Age | VolumeMode",
    "PersistentVolumeClaim": "Name, Status, Volume, Capacity, Access Modes, StorageClass, "
    "VolumeAttributesClass, Age | VolumeMode",
    "ReplicationController": "Name, Desired, Current, Ready, Age | Containers, Images, Selector",
    "PodTemplate": "Name, Containers, Images, Pod Labels",
    "ResourceQuota": "Name, Request, Limit, Age",
    "LimitRange": "Name, Created At",
    "ComponentStatus": "Name, Status, Message, Error",
    "Endpoints": "Name, Endpoints, Age",
    "ServiceAccount": "Name, Age",
}


def served(kind: str) -> ServedKind:
    irregular = {"Endpoints": "endpoints", "ComponentStatus": "componentstatuses"}
    return ServedKind(irregular.get(kind, f"{kind.lower()}s"))


@pytest.mark.parametrize("kind", HEADS)
def test_columns(kind: str) -> None:
    definitions = served(kind).resource.columns.definitions
    heads = [", ".join(each["name"] for each in definitions if each["priority"] == wide) for wide in (0, 1)]
    assert " | ".join(filter(None, heads)) == HEADS[kind]


CLAIM: Final = {
    "spec": {"volumeName": "v"},
    "status": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
}
QUOTA: Final = {
    "hard": {"pods": "4", "limits.cpu": "2", "count/a": "1"},
    "used": {"pods": "1", "limits.cpu": "1"},
}

CELLS: Final[dict[str, tuple[str, str, dict[str, Any], Any]]] = {
    "a node nobody has heard of": ("Node", "Status", {}, "Unknown"),
    "a node that works": (
        "Node",
        "Status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        "Ready",
    ),
    "one that is emptied": (
        "Node",
        "Status",
        {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        "NotReady,SchedulingDisabled",
    ),
    "what it is for": (
        "Node",
        "Roles",
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "a"}}},
        "a,control-plane",
    ),
    "nothing in particular": ("Node", "Roles", {}, "<none>"),
    "where it is": (
        "Node",
        "Internal-IP",
        {
            "status": {
                "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "i"}]
            }
        },
        "i",
    ),
    "what it runs": ("Node", "OS-Image", {"status": {"nodeInfo": {"osImage": ""}}}, "<unknown>"),
    "how a volume can be used": (
        "PersistentVolume",
        "Access Modes",
        {"spec": {"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}},
        "RWO,RWX",
    ),
    "who has it": (
        "PersistentVolume",
        "Claim",
        {"spec": {"claimRef": {"namespace": "ns", "name": "c"}}},
        "ns/c",
    ),
    "a volume on its way out": (
        "PersistentVolume",
        "Status",
        {"metadata": {"deletionTimestamp": "x"}},
        "Terminating",
    ),
    "attributes nobody set": ("PersistentVolume", "VolumeAttributesClass", {}, "<unset>"),
    "how much a claim has": ("PersistentVolumeClaim", "Capacity", CLAIM, "1Gi"),
    "before it has anything": ("PersistentVolumeClaim", "Capacity", {**CLAIM, "spec": {}}, ""),
    "how it can be used": ("PersistentVolumeClaim", "Access Modes", CLAIM, "RWO"),
    "a class by annotation": (
        "PersistentVolumeClaim",
        "StorageClass",
        {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "gold"}}},
        "gold",
    ),
    "what is used": ("ResourceQuota", "Request", {"status": QUOTA}, "count/a: 0/1, pods: 1/4"),
    "what limits add up to": ("ResourceQuota", "Limit", {"status": QUOTA}, "limits.cpu: 1/2"),
    "pods of a controller": ("ReplicationController", "Desired", {"spec": {"replicas": 3}}, 3),
    "which they are": (
        "ReplicationController",
        "Selector",
        {"spec": {"selector": {"b": "2", "a": "1"}}},
        "a=1,b=2",
    ),
    "labels of a template": ("PodTemplate", "Pod Labels", {"template": {"metadata": {}}}, "<none>"),
    "its images": ("PodTemplate", "Images", {"template": {"spec": {"containers": [{"image": "i"}]}}}, "i"),
    "a component that is well": (
        "ComponentStatus",
        "Status",
        {"conditions": [{"type": "Healthy", "status": "True"}]},
        "Healthy",
    ),
    "one that says nothing": ("ComponentStatus", "Status", {}, "Unknown"),
}


@pytest.mark.parametrize(("kind", "head", "document", "cell"), CELLS.values(), ids=CELLS)
def test_cells(kind: str, head: str, document: dict[str, Any], cell: Any) -> None:
    whole = {**document, "metadata": {"name": "a", **document.get("metadata", {})}}
    assert served(kind).row(whole)[head] == cell
