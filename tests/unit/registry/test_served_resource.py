"""The table of served resources: a changed one equals a new one of the same resources."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.served_resource import ResourceTable, ServedResource, version_priority
from apiserver.schema.structural import Schema, ValueKind

_SCHEMA: Final = Schema(ValueKind.ANY_OBJECT, "map")


def _served(group: str, version: str, name: str, *, is_custom: bool = True) -> ServedResource:
    return ServedResource(
        GroupVersion(group, version), name, name.title(), True, lambda: _SCHEMA, is_custom=is_custom
    )


FIRST: Final = ResourceTable(
    [
        _served("", "v1", "pods", is_custom=False),
        _served("apps", "v1", "sets", is_custom=False),
        _served("apps", "v1beta1", "sets", is_custom=False),
    ]
)
POOL: Final = [
    _served(group, version, name)
    for group in ("b.io", "a.io", "apps")
    for version in ("v1", "v2beta1")
    for name in ("ones", "twos")
]


@given(st.lists(st.sets(st.sampled_from(range(len(POOL)))), max_size=6))
def test_a_changed_table_equals_a_new_one(states: list[set[int]]) -> None:
    table, now = FIRST, set[int]()
    for wanted in states:
        table = table.changed(
            [POOL[n] for n in sorted(now - wanted)], [POOL[n] for n in sorted(wanted - now)]
        )
        now = wanted
    served = [POOL[n] for n in sorted(now)]
    whole = ResourceTable([*FIRST.resources, *served])
    assert set(table.resources) == set(whole.resources)
    assert dict(table.groups) == dict(whole.groups)
    assert {gv: set(each) for gv, each in table.group_versions.items()} == {
        gv: set(each) for gv, each in whole.group_versions.items()
    }
    for each in POOL:
        found = table.find(*each.group_version, each.resource)
        assert found is (each if each in served else None)
    # In an order of its own, the same whatever came before: built-in groups, then the others by name.
    groups = list(table.groups)
    assert groups[:2] == ["", "apps"]
    assert groups[2:] == sorted(groups[2:])
    assert table.is_custom("a.io")
    assert not table.is_custom("apps")


def test_a_table_is_never_changed_in_place() -> None:
    before = dict(FIRST.group_versions), dict(FIRST.groups)
    FIRST.changed([], POOL)
    assert (dict(FIRST.group_versions), dict(FIRST.groups)) == before


# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
BY_PRIORITY: Final = [
    *("v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2"),
    # What does not have the form of Kubernetes' versions is sorted by the alphabet.
    *("foo", "foo1", "foo10", "v1beta", "v1gamma1", "version1", "w1"),
]


@given(st.permutations(BY_PRIORITY))
def test_s03_versions_are_preferred_by_stability_and_number(versions: list[str]) -> None:
    table = ResourceTable([_served("a.io", version, "ones") for version in versions])
    assert [each.version for each in table.groups["a.io"]] == BY_PRIORITY
    assert sorted(versions, key=version_priority, reverse=True) == BY_PRIORITY
