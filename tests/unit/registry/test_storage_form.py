"""Objects may be stored in another version than the one that the server works on."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.storage_form import StorageForms
from apiserver.registry.stored_object import DamagedObject, StoredObject
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites, Transactions
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import Stored

KEY: Final = "/registry/autoscaling/horizontalpodautoscalers/ns/a"
SCHEMAS: Final = BuiltinSchemas((1, 36))
# These releases store autoscalers as v1 and as v2; v2, the hub, has come with 1.23.
OLD, NEW = (
    Catalogue(Brand(), SCHEMAS, release=EmulatedRelease.of(minor, compatible))
    for minor, compatible in ((24, 22), (36, 35))
)
TARGET: Final = {"kind": "Deployment", "name": "web"}
V1: Final[dict[str, Any]] = {
    "apiVersion": "autoscaling/v1",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "a", "namespace": "ns"},
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 3,
        "scaleTargetRef": TARGET,
        "targetCPUUtilizationPercentage": 80,
    },
    "status": {"currentReplicas": 0, "desiredReplicas": 0},
}
CPU: Final = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
V2: Final[dict[str, Any]] = {
    **V1,
    "apiVersion": "autoscaling/v2",
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 3,
        "scaleTargetRef": TARGET,
        "metrics": [{"type": "Resource", "resource": CPU}],
    },
    "status": {"currentMetrics": None, "desiredReplicas": 0},
}


def autoscalers(catalogue: Catalogue) -> ServedResource:
    found = catalogue.resources().hub("autoscaling", "horizontalpodautoscalers")
    assert found is not None
    assert found.api_version == "autoscaling/v2"
    return found


def decoded(catalogue: Catalogue, value: bytes) -> StoredObject:
    return StoredVersionDecoder(OwnWrites(), catalogue)(Stored(KEY, value, 1, 7))


def shown(document: dict[str, Any]) -> dict[str, Any]:
    """As it is read at revision 7."""
    return {**document, "metadata": {"resourceVersion": "7", **document["metadata"]}}


async def test_an_older_release_stores_what_it_can_read() -> None:
    resource = autoscalers(OLD)
    assert (resource.storage_version, autoscalers(NEW).storage_version) == ("v1", "v2")
    form = resource.storage_form
    assert form is not None
    stored = form.of_hub(await resource.codec.encode(V2))
    assert orjson.loads(stored) == V1
    assert autoscalers(NEW).storage_form is None


@pytest.mark.parametrize("version", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize("catalogue", [OLD, NEW], ids=["1.24", "1.36"])
def test_each_release_reads_what_the_other_has_stored(catalogue: Catalogue, version: dict[str, Any]) -> None:
    found = decoded(catalogue, orjson.dumps(version))
    assert found.document() == shown(V2)
    assert found.head == autoscalers(catalogue).head


WRITTEN_AGAIN: Final = {
    "what is stored in another version": (NEW, V1, True),
    "not what is stored as it would be": (NEW, V2, False),
    "not what this release stores, though it is not the hub": (OLD, V1, False),
    "the hub, where another version is stored": (OLD, V2, True),
}


@pytest.mark.parametrize(("catalogue", "version", "is_written"), WRITTEN_AGAIN.values(), ids=WRITTEN_AGAIN)
async def test_what_a_write_that_changes_nothing_writes_again(
    catalogue: Catalogue, version: dict[str, Any], is_written: bool
) -> None:
    store = await EmbeddedStore.in_memory()
    try:
        transactions = Transactions(store, OwnWrites(), StorageForms(), prefix="/registry")
        found = decoded(catalogue, orjson.dumps(version))
        assert transactions.is_up_to_date(autoscalers(catalogue), found) is not is_written
        assert transactions.is_up_to_date(autoscalers(catalogue), found.copy()) is not is_written
    finally:
        await store.close()


async def test_what_is_up_to_date_depends_on_the_releases_that_share_the_store_now() -> None:
    """An object that is read before a server of another release comes needs no second reading."""
    store, forms = await EmbeddedStore.in_memory(), StorageForms()
    try:
        transactions = Transactions(store, OwnWrites(), forms, prefix="/registry")
        found = [decoded(NEW, orjson.dumps(version)) for version in (V1, V2)]
        assert [transactions.is_up_to_date(autoscalers(NEW), each) for each in found] == [False, True]
        forms.shared = NEW.share(EmulatedRelease.of(24, 22)).forms
        assert [transactions.is_up_to_date(autoscalers(NEW), each) for each in found] == [True, False]
    finally:
        await store.close()


def test_what_a_server_has_written_itself_is_converted_too() -> None:
    writes, value = OwnWrites(), orjson.dumps(V1)
    writes.add(KEY, value)
    found = StoredVersionDecoder(writes, OLD)(Stored(KEY, value, 1, 7))
    assert found.document() == shown(V2)


def test_a_value_that_cannot_be_converted_is_damaged() -> None:
    value = orjson.dumps({**V1, "spec": "none"})
    found = decoded(NEW, value)
    assert isinstance(found, DamagedObject)
    assert found.key == KEY


HEADS: Final = {
    "of the hub": b'{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":',
    "of a custom resource": b'{"apiVersion":"example.com/v1","kind":"HorizontalPodAutoscaler","metadata":',
    "of a kind that is not known": b'{"apiVersion":"autoscaling/v1","kind":"Other","metadata":',
    "with what is no version": b'{"apiVersion":1,"kind":{},"metadata":',
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_other_objects_are_taken_as_they_are(head: bytes) -> None:
    assert NEW.other_version(head) is None
