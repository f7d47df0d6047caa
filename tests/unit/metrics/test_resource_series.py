"""What whoever may create definitions can add to /metrics is bounded, and goes when its definition does."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from apiserver.meta.vocabulary import GroupResource, GroupVersion
from apiserver.metrics.resource_series import (
    OTHER_VERSIONED,
    ResourceSeries,
    ServedNames,
    ServedState,
    VersionedResource,
)
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable
from tests.support.in_process import resource

V1: Final = GroupVersion("example.com", "v1")
V2: Final = GroupVersion("example.com", "v2")
PODS: Final = resource("pods", "")


def custom(name: str, group_version: GroupVersion = V1) -> ServedResource:
    return replace(PODS, group_version=group_version, resource=name, is_custom=True)


class Names(ServedNames):
    """Names of a table that can be changed."""

    def __init__(self, *served: ServedResource) -> None:
        super().__init__()
        self.table = ServedTable(ResourceTable([PODS]))
        self.serve(*served)

    def serve(self, *served: ServedResource) -> None:
        assert self.table is not None
        self.table.current = ResourceTable([PODS]).changed((), served)


def series(names: ServedNames, custom_max: int = 3) -> ResourceSeries[VersionedResource, list[str]]:
    return ResourceSeries(
        names, names.of_version, OTHER_VERSIONED, lambda *labels: [str(labels[0][1])], custom_max=custom_max
    )


def test_the_standing_of_versions_and_resources() -> None:
    names = Names(custom("a"), custom("b", V2))
    versions: dict[VersionedResource, ServedState] = {
        (PODS.group_version, "pods"): ServedState.BUILT_IN,
        (V1, "a"): ServedState.CUSTOM,
        (V2, "a"): ServedState.GONE,
        (V2, "b"): ServedState.CUSTOM,
        (V1, "c"): ServedState.GONE,
    }
    assert {each: names.of_version(each) for each in versions} == versions
    resources = {
        GroupResource("", "pods"): ServedState.BUILT_IN,
        GroupResource("example.com", "a"): ServedState.CUSTOM,
        GroupResource("example.com", "c"): ServedState.GONE,
    }
    assert {each: names.of_resource(each) for each in resources} == resources


def test_beyond_the_bound_resources_share_a_series() -> None:
    names = Names(*(custom(name) for name in "abcd"))
    measured = series(names)
    assert [measured[(V1, name), "GET"][0] for name in "abcd"] == ["a", "b", "c", "other"]
    assert measured[(V1, "d"), "GET"] is measured[OTHER_VERSIONED, "GET"]
    assert names.others_total == 2
    # What is built in always has room.
    assert measured[(PODS.group_version, "pods"), "GET"] == ["pods"]
    measured.forget((V1, "a"))
    assert measured[(V1, "d"), "GET"] == ["d"]


def test_series_go_with_their_resource_and_do_not_come_back() -> None:
    """An answer that is late, as that of a watch, is counted as that of any other."""
    names = Names(custom("a"), custom("b"))
    measured = series(names)
    for verb in ("GET", "LIST"):
        measured[(V1, "a"), verb]
    measured[(V1, "b"), "GET"]
    names.serve(custom("b"))
    measured.forget((V1, "a"))
    assert measured == {((V1, "b"), "GET"): ["b"]}
    assert measured[(V1, "a"), "WATCH"] == ["other"]


def test_what_is_forgotten_has_room_again() -> None:
    names = Names()
    measured = series(names)
    for number in range(10):
        names.serve(custom(f"r{number}"))
        name = (V1, f"r{number}")
        assert measured[name, "GET"] == [f"r{number}"]
        names.serve()
        measured.forget(name)
    assert not measured
    assert names.others_total == 0
