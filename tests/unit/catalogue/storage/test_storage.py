"""The group storage.k8s.io. Source: pkg/apis/storage/{validation,v1}, pkg/registry/storage (release 1.36)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin

GROUP: Final = "storage.k8s.io"
NODE_SPEC: Final = {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["z"]}]}
KINDS: Final = {
    "StorageClass": ServedKind(f"storageclasses.{GROUP}", {"provisioner": "example.com/p"}),
    "VolumeAttributesClass": ServedKind(
        f"volumeattributesclasses.{GROUP}", {"driverName": "d.example.com", "parameters": {"iops": "1"}}
    ),
    "CSIDriver": ServedKind(f"csidrivers.{GROUP}", {"spec": {}}),
    "CSINode": ServedKind(f"csinodes.{GROUP}", {"spec": NODE_SPEC}),
    "CSIStorageCapacity": ServedKind(
        f"csistoragecapacities.{GROUP}", {"storageClassName": "c", "capacity": "1Gi"}
    ),
    "VolumeAttachment": ServedKind(
        f"volumeattachments.{GROUP}",
        {"spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_object_is_valid(kind: str) -> None:
    assert KINDS[kind].create().errors == []


def test_classes_delete_and_bind_at_once_unless_they_say_more() -> None:
    document = KINDS["StorageClass"].create().document
    assert (document["reclaimPolicy"], document["volumeBindingMode"]) == ("Delete", "Immediate")


def test_drivers_are_completed() -> None:
    assert KINDS["CSIDriver"].create({"spec.attachRequired": False}).document["spec"] == {
        "attachRequired": False,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
        "volumeLifecycleModes": ["Persistent"],
    }


TERM: Final = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}
SAME_TERM: Final = {"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}
INLINE: Final = "spec.source.inlineVolumeSpec"
INVALID: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "a class says who makes volumes": (
        "StorageClass",
        {"provisioner": None},
        ["provisioner: Required value"],
    ),
    "volumes are deleted or retained": (
        "StorageClass",
        {"reclaimPolicy": "Recycle"},
        ['reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"'],
    ),
    "parameters are not too long": (
        "StorageClass",
        {"parameters": {"a": "x" * 262_144}},
        ["parameters: Too long: may not be more than 262144 bytes"],
    ),
    "no two terms are the same": (
        "StorageClass",
        {"allowedTopologies": [TERM, SAME_TERM]},
        ['allowedTopologies[1].matchLabelExpressions: Duplicate value: ""'],
    ),
    "a term asks for values": (
        "StorageClass",
        {"allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": []}]}]},
        ["allowedTopologies[0].matchLabelExpressions[0].values: Required value"],
    ),
    "attributes are something": (
        "VolumeAttributesClass",
        {"parameters": None},
        ["parameters: Required value: must contain at least one key/value pair"],
    ),
    "an audience gets one token": (
        "CSIDriver",
        {"spec.tokenRequests": [{"audience": "a"}, {"audience": "a"}]},
        ['spec.tokenRequests[1].audience: Duplicate value: "a"'],
    ),
    "a token lives ten minutes": (
        "CSIDriver",
        {"spec.tokenRequests": [{"audience": "", "expirationSeconds": 599}]},
        [
            (
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration "
                "less than "
                "10 minutes"
            )
        ],
    ),
    "tokens in secrets are tokens": (
        "CSIDriver",
        {"spec.serviceAccountTokenInSecrets": True},
        [
            (
                "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set "
                "but no tokenRequests are specified"
            )
        ],
    ),
    "a volume lives in one of two ways": (
        "CSIDriver",
        {"spec.volumeLifecycleModes": ["Other"]},
        [
            (
                'spec.volumeLifecycleModes: Unsupported value: "Other": supported values: "Persistent", '
                '"Ephemeral"'
            )
        ],
    ),
    "a driver is on a node once": (
        "CSINode",
        {"spec.drivers": [{"name": "d", "nodeID": "n"}, {"name": "d", "nodeID": "n"}]},
        ['spec.drivers[1].name: Duplicate value: "d"'],
    ),
    "the driver knows the node": (
        "CSINode",
        {"spec.drivers.0.nodeID": ""},
        ["spec.drivers[0].nodeID: Required value"],
    ),
    "an inline volume is one of a driver": (
        "VolumeAttachment",
        {
            "spec.source": {
                "inlineVolumeSpec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "a",
                    "claimRef": {},
                }
            }
        },
        [
            f"{INLINE}.claimRef: Forbidden: may not be specified in the context of inline volumes",
            f"{INLINE}.csi: Required value: has to be specified in the context of inline volumes",
            f"{INLINE}: Required value: must specify a volume type",
            f"{INLINE}.storageClassName: Forbidden: may not be specified in the context of inline volumes",
        ],
    ),
    "capacity is not negative": (
        "CSIStorageCapacity",
        {"capacity": "-1"},
        ['capacity: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    "something is attached": (
        "VolumeAttachment",
        {"spec.source": {}},
        [
            (
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and "
                "persistentVolumeName"
            )
        ],
    ),
}


@pytest.mark.parametrize(("kind", "changes", "texts"), INVALID.values(), ids=INVALID)
def test_what_is_wrong(kind: str, changes: Changes, texts: list[str]) -> None:
    assert KINDS[kind].create(changes).texts == texts


FIXED: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "a class's parameters and provisioner": (
        "StorageClass",
        {"parameters": {"a": "b"}, "provisioner": "q"},
        [
            'parameters: Invalid value: {"a":"b"}: field is immutable',
            'provisioner: Invalid value: "q": field is immutable',
        ],
    ),
    "what becomes of a class's volumes": (
        "StorageClass",
        {"reclaimPolicy": "Retain"},
        ['reclaimPolicy: Invalid value: "Retain": field is immutable'],
    ),
    "attributes": (
        "VolumeAttributesClass",
        {"parameters": {"a": "b"}, "driverName": "q"},
        [
            "driverName: Forbidden: updates to driverName are forbidden.",
            "parameters: Forbidden: updates to parameters are forbidden.",
        ],
    ),
    "a class's binding mode": (
        "StorageClass",
        {"volumeBindingMode": "WaitForFirstConsumer"},
        ['volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable'],
    ),
    "a driver that stays on a node": (
        "CSINode",
        {"spec.drivers.0.topologyKeys": []},
        [
            (
                'spec.drivers: Invalid value: {"name":"d.example.com","nodeID":"n","topologyKeys":null}: '
                "field is immutable"
            )
        ],
    ),
    "whether a driver attaches": (
        "CSIDriver",
        {"spec.attachRequired": False},
        ["spec.attachedRequired: Invalid value: false: field is immutable"],
    ),
    "what is attached": (
        "VolumeAttachment",
        {"spec.attacher": "Other!"},
        [
            'spec.attacher: Invalid value: "Other!": a lowercase RFC 1123 subdomain must consist of',
            "spec: Invalid value: {",
        ],
    ),
    "a term of a class, whatever it was": (
        "StorageClass",
        {"allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": []}]}]},
        ["allowedTopologies[0].matchLabelExpressions[0].values: Required value"],
    ),
    "the class of a capacity": (
        "CSIStorageCapacity",
        {"storageClassName": "d"},
        ['storageClassName: Invalid value: "d": field is immutable'],
    ),
}


@pytest.mark.parametrize(("kind", "changes", "texts"), FIXED.values(), ids=FIXED)
def test_what_stays(kind: str, changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(KINDS[kind].update(changes).texts, texts)


def test_drivers_come_and_go() -> None:
    assert KINDS["CSINode"].update({"spec.drivers": []}).errors == []
    assert KINDS["CSINode"].update({"spec.drivers": [{"name": "new", "nodeID": "n"}]}).errors == []


def test_the_allocatable_count_of_a_driver_may_change_if_the_gate_is_on() -> None:
    changes: Changes = {"spec.drivers.0.allocatable": {"count": 3}}
    assert KINDS["CSINode"].update(changes).errors == []
    older = ServedKind(f"csinodes.{GROUP}", {"spec": NODE_SPEC}, minor=33)
    (text,) = older.update(changes).texts
    assert text.startswith("spec.drivers: Invalid value: ")


TOKENS: Final = [{"audience": "a"}]
TOKENS_WARNING: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
    "possible logging of tokens in volume attributes"
)
BETA: Final = "beta.kubernetes.io/arch"
BETA_WARNING: Final = 'deprecated since v1.14; use "kubernetes.io/arch" instead'
WARNINGS: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "tokens beside attributes": ("CSIDriver", {"spec.tokenRequests": TOKENS}, [TOKENS_WARNING]),
    "tokens in secrets": (
        "CSIDriver",
        {"spec.tokenRequests": TOKENS, "spec.serviceAccountTokenInSecrets": True},
        [],
    ),
    "tokens that are said to be beside attributes": (
        "CSIDriver",
        {"spec.tokenRequests": TOKENS, "spec.serviceAccountTokenInSecrets": False},
        [],
    ),
    "a deprecated label of a class": (
        "StorageClass",
        {"allowedTopologies": [{"matchLabelExpressions": [{"key": BETA, "values": ["a"]}]}]},
        [f"allowedTopologies[0].matchLabelExpressions[0].key: {BETA_WARNING}"],
    ),
    "a deprecated label of a capacity": (
        "CSIStorageCapacity",
        {
            "nodeTopology": {
                "matchLabels": {BETA: "a"},
                "matchExpressions": [{"key": BETA, "operator": "Exists"}],
            }
        },
        [
            f"nodeTopology.matchExpressions[0].key: {BETA} is {BETA_WARNING}",
            f"nodeTopology.matchLabels.{BETA}: {BETA_WARNING}",
        ],
    ),
}


@pytest.mark.parametrize(("kind", "changes", "texts"), WARNINGS.values(), ids=WARNINGS)
def test_warnings(kind: str, changes: Changes, texts: list[str]) -> None:
    served = KINDS[kind]
    document, errors = served.create(changes)
    assert errors == []
    assert sorted(served.strategy.warn(document, None)) == sorted(texts)


def test_new_token_requests_cause_a_warning_if_the_gate_is_on() -> None:
    driver = KINDS["CSIDriver"]
    old = driver.create({"spec.tokenRequests": TOKENS}).document
    new = driver.updated(old, {"metadata.labels": {"a": "b"}}).document
    assert driver.strategy.warn(new, old) == []
    more = driver.updated(old, {"spec.tokenRequests": [*TOKENS, {"audience": "b"}]}).document
    assert driver.strategy.warn(more, old) == [TOKENS_WARNING]
    without = ServedKind(f"csidrivers.{GROUP}", {"spec": {}}, minor=34)
    assert without.strategy.warn(old, None) == []


def test_only_changes_of_a_driver_are_counted() -> None:
    driver = KINDS["CSIDriver"]
    assert "generation" not in driver.create().document["metadata"]
    assert driver.update({"metadata.labels": {"a": "b"}}).document["metadata"].get("generation") is None
    assert driver.update({"spec.requiresRepublish": True}).document["metadata"]["generation"] == 1


def test_whether_a_volume_is_attached_is_said_in_its_status() -> None:
    attachment = KINDS["VolumeAttachment"]
    assert attachment.create({"status": {"attached": True}}).document["status"] == {"attached": False}
    document, errors = attachment.update({"status": {"attached": True}}, "status")
    assert (errors, document["status"]) == ([], {"attached": True})
    (text,) = attachment.update({"spec.nodeName": "m"}).texts
    assert text.startswith("spec: Invalid value: ")


ROWS: Final[dict[str, tuple[str, Changes, dict[str, Any]]]] = {
    "the default class says so": (
        "StorageClass",
        {"metadata.annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        {"Name": "a (default)", "ReclaimPolicy": "Delete", "AllowVolumeExpansion": False},
    ),
    "drivers": (
        "CSIDriver",
        {"spec.tokenRequests": [{"audience": "x"}, {"audience": "y"}]},
        {"AttachRequired": True, "TokenRequests": "x,y", "Modes": "Persistent"},
    ),
    "nodes": ("CSINode", {}, {"Drivers": 1}),
    "capacities that nobody knows": ("CSIStorageCapacity", {"capacity": None}, {"Capacity": "<unset>"}),
    "attachments": ("VolumeAttachment", {}, {"PV": "v", "Node": "n", "Attached": False}),
}


@pytest.mark.parametrize(("kind", "changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(kind: str, changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= KINDS[kind].cells(changes).items()


def test_an_inline_volume_does_not_have_the_defaults_of_a_persistent_volume() -> None:
    source: dict[str, Any] = {
        "csi": {"driver": "d", "volumeHandle": "h"},
        "iscsi": {"iqn": "i", "lun": 0, "targetPortal": "t"},
    }
    inline = {"spec": {"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": source}}}
    attachment = KINDS["VolumeAttachment"]
    found = attachment.completed({**attachment.valid, **inline})["spec"]["source"]["inlineVolumeSpec"]
    assert found == {**source, "iscsi": {**source["iscsi"], "iscsiInterface": "default"}}
    volume = ServedKind("persistentvolumes").completed(
        {**attachment.valid, "kind": "PersistentVolume", "spec": {}}
    )
    assert volume["spec"] == {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}
