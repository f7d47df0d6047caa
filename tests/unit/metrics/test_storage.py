"""What is counted of what is found in the store. Source: k8s.io/apiserver, pkg/storage/etcd3/metrics."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import GroupResource, GroupVersion
from apiserver.metrics.resource_series import CUSTOM_SERIES_MAX, ServedNames
from apiserver.metrics.storage import ObservedStorage, StorageMetrics, resources_of_keys
from apiserver.registry.served_resource import ResourceTable, ServedTable
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import KeyExists, StorageUnavailable
from apiserver.storage.interface import KeyRange, Put, Storage
from tests.support.in_process import resource

PODS: Final = resource("pods", "")
NAME: Final = "apiserver_storage_decode_errors_total"
KEY: Final = "/registry/core/pods/ns/a"
WIDGETS: Final = GroupResource("example.com", "widgets")


def new(names: ServedNames) -> StorageMetrics:
    names.table = ServedTable(ResourceTable([PODS]))
    return StorageMetrics(resources_of_keys("/registry"), names)


def lines(metrics: StorageMetrics, name: str) -> list[str]:
    (family,) = (each for each in metrics.families() if each.name == name)
    return "".join(family.series).splitlines()


def test_values_that_are_no_objects_are_counted_by_resource() -> None:
    """Also of definitions that nobody serves yet: the store is read before they are known."""
    names = ServedNames()
    metrics = new(names)
    for key in ("core/pods/ns/a", "core/pods/ns/a", "example.com/widgets/ns/a", "example.com/widgets/ns/b"):
        metrics.count_decode_error(f"/registry/{key}")
    pods = f'{NAME}{{group="",resource="pods"}} 2'
    assert lines(metrics, NAME) == [pods, f'{NAME}{{group="example.com",resource="widgets"}} 2']
    assert names.table is not None
    widgets = replace(PODS, group_version=GroupVersion("example.com", "v1"), resource="widgets")
    names.table.current = names.table.current.changed((), [widgets])
    metrics.count_decode_error("/registry/example.com/widgets/ns/a")
    assert lines(metrics, NAME)[1].endswith(" 3")
    metrics.forget(WIDGETS)
    assert lines(metrics, NAME) == [pods]


def test_whoever_has_written_the_keys_their_series_have_a_bound() -> None:
    names = ServedNames()
    metrics = new(names)
    for number in range(CUSTOM_SERIES_MAX + 5):
        metrics.count_decode_error(f"/registry/example.com/r{number}/ns/a")
    found = lines(metrics, NAME)
    assert len(found) == CUSTOM_SERIES_MAX + 1
    assert found[-1] == f'{NAME}{{group="other",resource="other"}} 5'
    assert names.others_total == 5


def test_objects_of_leases() -> None:
    metrics = new(ServedNames())
    metrics.lease_objects.observe(10)
    metrics.lease_objects.observe(1000)
    name = "etcd_lease_object_counts"
    assert lines(metrics, name) == [
        f'{name}_bucket{{le="10.0"}} 1',
        *(f'{name}_bucket{{le="{bound}.0"}} 1' for bound in (50, 100, 500)),
        *(f'{name}_bucket{{le="{bound}.0"}} 2' for bound in (1000, 2500, 5000)),
        f'{name}_bucket{{le="+Inf"}} 2',
        f"{name}_count 2",
        f"{name}_sum 1010",
    ]


async def test_calls_that_the_store_does_not_carry_out_are_failures(tmp_path: Path) -> None:
    """Conflicts are none."""
    metrics = new(ServedNames())
    store = await EmbeddedStore.open(tmp_path / "data")
    observed = ObservedStorage(store, metrics)
    await observed.create(KEY, b"{}")
    with pytest.raises(KeyExists):
        await observed.create(KEY, b"{}")
    await store.close()
    with pytest.raises(StorageUnavailable):
        await observed.get(KEY)
    labels = 'group="",operation="%s",resource="pods"'
    for name, creates, gets in (("etcd_requests_total", 2, 1), ("etcd_request_errors_total", 0, 1)):
        assert lines(metrics, name) == [
            f"{name}{{{labels % 'create'}}} {creates}",
            f"{name}{{{labels % 'get'}}} {gets}",
        ]


# Each method of a Storage that is observed.
CALLS: Final[dict[str, Callable[[Storage], Coroutine[Any, Any, object]]]] = {
    "get": lambda store: store.get(KEY),
    "list": lambda store: store.list(KeyRange(KEY, KEY + "0")),
    "create": lambda store: store.create(KEY, b"{}"),
    "compare and put": lambda store: store.compare_and_put(KEY, b"{}", expected=1),
    "compare and delete": lambda store: store.compare_and_delete(KEY, expected=1),
    "transact": lambda store: store.transact((), [Put(KEY, b"{}")]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_is_cancelled_before_its_first_step_calls_nothing(
    tmp_path: Path, call: Callable[[Storage], Coroutine[Any, Any, object]]
) -> None:
    """A coroutine that the wrapper had made would never be awaited, which Python warns of."""
    metrics = new(ServedNames())
    store = await EmbeddedStore.open(tmp_path / "data")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = asyncio.create_task(call(ObservedStorage(store, metrics)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gc.collect()
    await store.close()
    assert [str(each.message) for each in caught] == []
    assert lines(metrics, "etcd_requests_total") == []
