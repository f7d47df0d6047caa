"""What is wrong with the storage of a node, as CSINodes tell it since 1.37. Rows H09, I13.

Source: pkg/registry/storage/csinode (release 1.37); KEP-1432.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.schema.builtin import BuiltinSchemas
from tests.unit.catalogue.removed_versions.old_kinds import OldKind

SPEC: Final = {"drivers": [{"name": "d.example.com", "nodeID": "n"}]}
NODE: Final = OldKind("csinodes.storage.k8s.io", "v1", 37, {"spec": SPEC})
CONDITION: Final = {"status": "StorageDegraded", "reason": "PoolFull"}
DRIVER: Final = "status.storageHealth[0]"
STATUSES: Final = '"StorageDegraded", "StorageUnreachable"'
FIRST: Final = f"{DRIVER}.healthConditions[0]"


def health(*conditions: Any, name: str | None = "d.example.com") -> Document:
    return {"name": name, "healthConditions": list(conditions)}


# What drivers tell, and what is wrong with it.
TOLD: Final[dict[str, tuple[list[Any], list[str]]]] = {
    "nothing": ([], []),
    "a driver without a problem": ([{"name": "d.example.com"}], []),
    "a problem": ([health(CONDITION)], []),
    "of some volumes": ([health({**CONDITION, "accessMode": "ReadWriteMany", "volumeMode": "Block"})], []),
    "as many as there may be": ([health(*[CONDITION] * 16)], []),
    "one too many": (
        [health(*[CONDITION] * 17)],
        [f"{DRIVER}.healthConditions: Too many: 17: must have at most 16 items"],
    ),
    "of no driver": ([health(name="")], [f"{DRIVER}.name: Required value"]),
    "of one driver twice": (
        [health(), health()],
        ['status.storageHealth[1].name: Duplicate value: "d.example.com"'],
    ),
    "a problem that is none": (
        [health({})],
        [f"{FIRST}.status: Required value", f"{FIRST}.reason: Required value"],
    ),
    "another problem": (
        [health({**CONDITION, "status": "Lost"})],
        [f'{FIRST}.status: Unsupported value: "Lost": supported values: {STATUSES}'],
    ),
    "texts as long as they may be": ([health({**CONDITION, "reason": "R" * 256, "message": "m" * 1024})], []),
    "texts that are too long": (
        [health({**CONDITION, "reason": "R" * 257, "message": "m" * 1025})],
        [
            f"{FIRST}.reason: Too long: may not be more than 256 bytes",
            f"{FIRST}.message: Too long: may not be more than 1024 bytes",
        ],
    ),
    "volumes of another kind": (
        [health({**CONDITION, "volumeMode": "Tape"})],
        [f'{FIRST}.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"'],
    ),
}


@pytest.mark.parametrize(("told", "errors"), TOLD.values(), ids=TOLD)
def test_what_drivers_may_tell(told: list[Any], errors: list[str]) -> None:
    assert NODE.update({"status": {"storageHealth": told}}, "status").texts == errors


def test_it_is_said_in_the_status_alone() -> None:
    status = {"storageHealth": [health(CONDITION)]}
    assert NODE.create({"status": status}).document["status"] == {}
    assert NODE.update({"status": status}).document["status"] == {}
    changes = {"status": status, "metadata.labels": {"a": "b"}, "spec": {"drivers": []}}
    document = NODE.update(changes, "status").document
    assert (document["status"], document["spec"]) == (status, {**NODE.completed()["spec"]})
    assert "labels" not in document["metadata"]
    assert NODE.update({}, stored={"status": status}).document["status"] == status


def test_while_the_feature_is_off_only_what_has_it_keeps_it() -> None:
    release = EmulatedRelease.of(37)
    gates = FeatureGates(37)
    served = Catalogue(Brand(), BuiltinSchemas((1, 37)), release=release, gates=gates).resources()
    found = served.find("storage.k8s.io", "v1", "csinodes")
    assert found is not None
    rules = found.subresources["status"].update
    assert rules is not None
    told = {"storageHealth": [health(CONDITION)]}
    for before, after in (({}, {}), (told, told)):
        old = {"metadata": {"name": "a"}, "spec": SPEC, "status": before}
        new = {"metadata": {"name": "a"}, "spec": SPEC, "status": dict(told)}
        rules.prepare(new, old)
        assert new["status"] == after


def test_former_releases_have_none() -> None:
    former = OldKind("csinodes.storage.k8s.io", "v1", 36, {"spec": SPEC})
    assert former.resource.subresources == {}
    assert "status" not in former.create().document
