"""What is counted of what is found in the store. Source: k8s.io/apiserver, pkg/storage/etcd3/metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from apiserver.meta.vocabulary import GroupResource, GroupVersion
from apiserver.metrics.resource_series import CUSTOM_SERIES_MAX, ServedNames
from apiserver.metrics.storage import StorageMetrics, resources_of_keys
from apiserver.registry.served_resource import ResourceTable, ServedTable
from tests.support.in_process import resource

PODS: Final = resource("pods", "")
NAME: Final = "apiserver_storage_decode_errors_total"
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
