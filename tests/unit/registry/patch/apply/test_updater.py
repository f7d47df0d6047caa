"""The managed fields after a write: the ownership table of the specification; rows F01-F31."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from apiserver.registry.patch.apply import managed_fields
from apiserver.registry.patch.apply.endpoint_fields import EndpointFields
from apiserver.registry.patch.apply.field_set import FieldSet
from apiserver.registry.patch.apply.managed_fields import (
    APPLY,
    UPDATE,
    FieldManager,
    ManagedFields,
    ManagedFieldsEntry,
    decode,
    encode,
)
from apiserver.registry.patch.apply.typed_value import SchemaMismatch, to_field_set
from apiserver.registry.patch.apply.updater import FieldConflicts, TypeVersion, Updater
from tests.unit.registry.patch.apply.samples import TYPE_DEF, VERSION, thing_of


def applier(name: str, version: str = "v1") -> FieldManager:
    return FieldManager(name, APPLY, version)


def updater(name: str, version: str = "v1") -> FieldManager:
    return FieldManager(name, UPDATE, version)


class Thing:
    """An object that is written to, a second after the other."""

    def __init__(self, version: TypeVersion = VERSION) -> None:
        self.version = version
        self.document: dict[str, Any] | None = None
        self.managed: ManagedFields = {}
        self._second = 0

    def now(self) -> str:
        self._second += 1
        return f"2030-01-01T00:00:{self._second:02}Z"

    def apply(self, name: str, *, force: bool = False, **fields: Any) -> Thing:
        body = thing_of(**fields)
        write = Updater(self.version, applier(name), self.now())
        result = write.apply(self.document, body, self.managed, force=force)
        self.document, self.managed = result.document, decode(encode(result.managed), is_own=True)
        return self

    def update(self, name: str, **fields: Any) -> Thing:
        body = thing_of(**fields)
        write = Updater(self.version, updater(name), self.now())
        managed = write.update(self.document, body, self.managed)
        self.document, self.managed = body, decode(encode(managed), is_own=True)
        return self

    @property
    def owned(self) -> dict[str, FieldSet]:
        """The sets by manager, in the order of the entries."""
        return {f"{e['manager']} {e['operation']}": e["fieldsV1"] for e in encode(self.managed)}

    @property
    def times(self) -> dict[str, int | None]:
        """The second of each entry."""
        return {e["manager"]: int(e["time"][-3:-1]) if "time" in e else None for e in encode(self.managed)}


def data(*keys: str) -> FieldSet:
    return {"f:data": {f"f:{key}": {} for key in keys}}


# ---- the table of the specification


def test_f10_another_value_without_force_is_a_conflict_and_changes_nothing() -> None:
    thing = Thing().apply("a", data={"k": "1"})
    before = copy.deepcopy((thing.document, encode(thing.managed)))
    with pytest.raises(FieldConflicts) as conflict:
        thing.apply("b", data={"k": "2"})
    assert str(conflict.value) == 'Apply failed with 1 conflict: conflict with "a": .data.k'
    assert (thing.document, encode(thing.managed)) == before


def test_f11_with_force_the_value_is_the_appliers_alone() -> None:
    thing = Thing().apply("a", data={"k": "1", "l": "1"}).apply("b", data={"k": "2"}, force=True)
    assert thing.document == thing_of(data={"k": "2", "l": "1"})
    assert thing.owned == {"a Apply": data("l"), "b Apply": data("k")}


def test_f11_a_manager_that_loses_its_last_field_is_gone() -> None:
    assert Thing().apply("a", data={"k": "1"}).apply("b", data={"k": "2"}, force=True).owned == {
        "b Apply": data("k")
    }


def test_f12_f13_the_same_value_is_shared_and_a_change_by_a_sharer_conflicts() -> None:
    thing = Thing().apply("a", data={"k": "1"}).apply("b", data={"k": "1"})
    assert thing.owned == {"a Apply": data("k"), "b Apply": data("k")}
    with pytest.raises(FieldConflicts):
        thing.apply("a", data={"k": "2"})


def test_f14_a_sharer_that_omits_a_field_only_gives_it_up() -> None:
    thing = (
        Thing().apply("a", data={"k": "1"}).apply("b", data={"k": "1", "l": "1"}).apply("b", data={"l": "1"})
    )
    assert thing.document == thing_of(data={"k": "1", "l": "1"})
    assert thing.owned == {"a Apply": data("k"), "b Apply": data("l")}


def test_f15_what_its_only_owner_omits_is_removed() -> None:
    thing = Thing().apply("a", data={"k": "1", "l": "1"}).apply("a", data={"k": "1"})
    assert thing.document == thing_of(data={"k": "1"})
    assert thing.apply("a").document == thing_of()
    assert thing.owned == {}


def test_f16_f17_an_update_takes_what_it_changes_from_everybody() -> None:
    thing = Thing().apply("a", data={"k": "1", "l": "1"}).update("u", data={"k": "2", "l": "1"})
    assert thing.owned == {"a Apply": data("l"), "u Update": data("k")}
    with pytest.raises(FieldConflicts, match=r'conflict with "u" using v1: \.data\.k'):
        thing.apply("a", data={"k": "3", "l": "1"})


def test_an_update_that_removes_a_field_removes_it_from_its_owner() -> None:
    thing = Thing().apply("a", data={"k": "1", "l": "1"}).update("u", data={"l": "1"})
    assert thing.owned == {"a Apply": data("l")}


def test_creating_owns_all_fields_but_those_the_server_sets() -> None:
    meta = {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"l": "1"}}
    document = thing_of(data={"k": "1"}) | {"metadata": meta}
    managed = Updater(VERSION, updater("u"), "t").update(None, document, {})
    assert [entry.fields for entry in managed.values()] == [
        {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:data": {".": {}, "f:k": {}}}
    ]


# ---- times and entries


def test_a_time_is_that_of_the_last_change_of_its_manager() -> None:
    """Source: managedFieldsUpdater, in k8s.io/apimachinery."""
    thing = Thing().update("u", data={"k": "1"}).update("u", data={"k": "2"})
    assert thing.times == {"u": 2}
    assert thing.update("u", data={"k": "2"}).times == {"u": 2}, "nothing changes"
    assert thing.update("v", data={"k": "3", "l": "1"}).times == {"u": 2, "v": 4}
    assert thing.update("u", data={"k": "4", "l": "1"}).times == {"v": 4, "u": 5}, (
        "who loses one keeps its time"
    )
    assert thing.update("u", data={"k": "4"}).times == {"u": 5}, "to remove a field gives no ownership"
    applied = thing.apply("a", data={"m": "1"}).apply("a", data={"m": "1"})
    assert applied.times == {"a": 7, "u": 5}
    assert applied.apply("a", data={"m": "2"}).times == {"a": 9, "u": 5}


def test_a_manager_that_only_shares_fields_has_no_time_and_comes_last() -> None:
    thing = Thing().apply("b", data={"k": "1"}).apply("a", data={"k": "1"})
    assert list(thing.times.items()) == [("b", 1), ("a", None)]


def test_an_apply_of_the_same_changes_no_entry() -> None:
    """Row F25."""
    thing = Thing().apply("a", data={"k": "1"}).update("u", data={"k": "1", "l": "1"})
    before = encode(thing.managed)
    assert encode(thing.apply("a", data={"k": "1"}).managed) == before


def test_a_write_that_changes_nothing_keeps_the_owners_themselves() -> None:
    managed = Thing().update("u", data={"k": "1"}).managed
    assert Updater(VERSION, updater("v"), "t").update(thing_of(), thing_of(), managed) is managed


def test_entries_have_kubernetes_form_and_order() -> None:
    """Row F01."""
    thing = Thing().update("z", data={"k": "1"}).apply("b", data={"l": "1"}).apply("a", data={"m": "1"})
    assert [(e["operation"], e["manager"]) for e in encode(thing.managed)] == [
        (APPLY, "b"),
        (APPLY, "a"),
        (UPDATE, "z"),
    ]
    assert list(encode(thing.managed)[0]) == [
        "manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1",
    ]  # fmt: skip


def test_f31_one_name_is_two_managers_as_applier_and_as_updater() -> None:
    thing = Thing().apply("m", data={"k": "1"}).update("m", data={"k": "1", "l": "1"})
    assert thing.owned == {"m Apply": data("k"), "m Update": data("l")}


def test_f31_the_status_subresource_is_a_manager_of_its_own() -> None:
    status = FieldManager("u", UPDATE, "v1", "status")
    managed = Updater(VERSION, status, "t").update(thing_of(), thing_of(status={"n": 1}), {})
    managed = Updater(VERSION, updater("u"), "t").update(thing_of(), thing_of(data={"k": "1"}), managed)
    assert [entry.get("subresource", "") for entry in encode(managed)] == ["", "status"]


# ---- the rest of the rules


def test_f24_what_a_subresource_writes_has_a_manager_there_before_its_first_apply() -> None:
    version = replace(VERSION, endpoint=EndpointFields(writes=["spec"]))
    write = Updater(version, FieldManager("a", APPLY, "v1", "scale"), "")
    live = thing_of(data={"k": "1"}, spec={"a": "1", "tags": ["k"]})
    with pytest.raises(FieldConflicts) as conflict:
        write.apply(live, thing_of(spec={"a": "2"}), {})
    assert '"before-first-apply" with subresource "scale" using v1: .spec.a' in str(conflict.value)
    managed = write.apply(live, thing_of(spec={"a": "2"}), {}, force=True).managed
    assert [(e["manager"], e["subresource"], e["fieldsV1"]) for e in encode(managed)] == [
        ("a", "scale", {"f:spec": {"f:a": {}}}),
        ("before-first-apply", "scale", {"f:spec": {".": {}, "f:tags": {".": {}, 'v:"k"': {}}}}),
    ]


def test_f24_fields_without_a_manager_belong_to_before_first_apply() -> None:
    thing = Thing()
    thing.document = thing_of(data={"k": "1"})
    with pytest.raises(FieldConflicts, match=r'"before-first-apply" using v1: \.data\.k'):
        thing.apply("a", data={"k": "2"})
    assert thing.apply("a", data={"k": "1"}).owned == {
        "a Apply": data("k"),
        "before-first-apply Update": {"f:data": {".": {}, "f:k": {}}},
    }


def test_f27_the_oldest_of_more_than_ten_updaters_become_one() -> None:
    thing = Thing().apply("z", data={"z": "1"})
    fields = {"z": "1"}
    for n in range(13):
        fields = {**fields, f"k{n:02}": "1"}
        thing.update(f"m{n:02}", data=fields)
    updaters = [name for name in thing.owned if name.endswith(UPDATE)]
    assert len(updaters) == managed_fields.UPDATE_MANAGERS_MAX
    assert thing.owned["ancient-changes Update"] == data("k00", "k01", "k02", "k03")
    assert "z Apply" in thing.owned
    owned = [key for fields in thing.owned.values() for key in fields["f:data"] if key != "."]
    assert sorted(owned) == sorted(f"f:{key}" for key in fields)


def test_f27_updaters_in_versions_of_their_own_are_never_merged() -> None:
    versions = {f"v{n}": replace(VERSION, api_version=f"v{n}") for n in range(1, 13)}
    managed: ManagedFields = {}
    old = thing_of()
    for n in range(1, 13):
        new = thing_of(data={**old.get("data", {}), f"k{n}": "1"})
        version = replace(versions[f"v{n}"], other_versions=versions)
        managed = Updater(version, updater("m", f"v{n}"), f"2030-01-01T00:00:{n:02}Z").update(
            old, new, managed
        )
        old = new
    assert len(managed) == 12


def test_conflicts_with_several_managers_are_listed_by_manager() -> None:
    thing = Thing().apply("m1", data={"k": "1", "n": "1"}).apply("m2", data={"l": "1"})
    with pytest.raises(FieldConflicts) as conflict:
        thing.apply("m3", data={"k": "2", "l": "2", "n": "2"})
    assert str(conflict.value) == (
        'Apply failed with 3 conflicts: conflicts with "m1":\n- .data.k\n- .data.n\n'
        'conflicts with "m2":\n- .data.l'
    )


def test_f19_after_a_map_has_become_atomic_its_owners_own_it_whole() -> None:
    thing = Thing(replace(VERSION, is_custom=True)).apply("a", spec={"atom": {"k": "1"}})
    identity = applier("a").identity
    stale = thing.managed[identity]._replace(fields={"f:spec": {"f:atom": {"f:k": {}}}}, document=None)
    thing.managed = {identity: stale}
    with pytest.raises(FieldConflicts, match=r"\.spec\.atom$"):
        thing.apply("b", spec={"atom": {"k": "1", "l": "1"}})
    assert thing.update("u", spec={"atom": {"l": "1"}}).owned == {"u Update": {"f:spec": {"f:atom": {}}}}


def test_f20_after_a_map_has_become_granular_its_parts_conflict_with_nobody() -> None:
    thing = Thing().apply("a", data={"k": "1"})
    identity = applier("a").identity
    thing.managed = {identity: thing.managed[identity]._replace(fields={"f:data": {}}, document=None)}
    assert thing.apply("b", data={"k": "2"}).document == thing_of(data={"k": "2"})


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Another version, in which .data.k is .spec.a."""
    converted = {key: value for key, value in document.items() if key != "data"}
    if "k" in document.get("data", {}):
        converted["spec"] = {"a": document["data"]["k"]}
    return converted


def test_f30_owners_in_another_version_are_compared_in_theirs() -> None:
    other = TypeVersion("v2", TYPE_DEF, convert=_renamed)
    version = replace(VERSION, other_versions={"v2": other})
    manager = applier("a", "v2")
    mine = ManagedFieldsEntry(manager, {"f:spec": {"f:a": {}}}, "t")
    live, body = thing_of(data={"k": "1"}), thing_of(data={"k": "2"})
    with pytest.raises(FieldConflicts, match=r"\.spec\.a$"):
        Updater(version, applier("b"), "now").apply(live, body, {manager.identity: mine})
    assert manager.identity not in Updater(version, updater("u"), "t").update(
        live, body, {manager.identity: mine}
    )


def _named_back(document: dict[str, Any]) -> dict[str, Any]:
    """The other way round."""
    restored = {key: value for key, value in document.items() if key != "spec"}
    if "a" in (document.get("spec") or {}):
        restored["data"] = {"k": document["spec"]["a"]}
    return restored


TWO_VERSIONS = replace(
    VERSION, other_versions={"v2": TypeVersion("v2", TYPE_DEF, convert=_renamed, convert_back=_named_back)}
)


def test_f15_f30_what_was_applied_in_another_version_is_given_up_by_its_name_there() -> None:
    manager = applier("a", "v2")
    last = ManagedFieldsEntry(manager, {"f:spec": {"f:a": {}}}, "t")
    live = thing_of(data={"k": "1"})
    result = Updater(TWO_VERSIONS, applier("a"), "now").apply(live, thing_of(), {manager.identity: last})
    assert (result.document.get("data"), result.managed) == (None, {})


def test_f14_f30_what_is_given_up_stays_if_it_is_owned_in_another_version() -> None:
    mine = ManagedFieldsEntry(applier("a"), data("k"), "t")
    theirs = ManagedFieldsEntry(updater("b", "v2"), {"f:spec": {"f:a": {}}}, "t")
    managed = {owner.manager.identity: owner for owner in (mine, theirs)}
    result = Updater(TWO_VERSIONS, applier("a"), "now").apply(thing_of(data={"k": "1"}), thing_of(), managed)
    assert result.document["data"] == {"k": "1"}
    assert result.managed == {theirs.manager.identity: theirs}


def test_f30_documents_are_asked_for_in_all_versions_at_once() -> None:
    asked: list[tuple[int, set[str]]] = []
    others = {name: replace(TWO_VERSIONS.other_versions["v2"], api_version=name) for name in ("v2", "v3")}
    version = replace(
        TWO_VERSIONS,
        other_versions=others,
        convert_ahead=lambda documents, versions: asked.append((len(documents), set(versions))),
    )
    owners = [ManagedFieldsEntry(applier(name, name), {"f:spec": {"f:a": {}}}, "t") for name in others]
    managed = {owner.manager.identity: owner for owner in owners}
    Updater(version, updater("u"), "now").update(
        thing_of(data={"k": "1"}), thing_of(data={"k": "2"}), managed
    )
    assert asked == [(2, {"v2", "v3"})]


def _fails(document: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError("nothing is to be converted")


# Metadata before and after, and whether a conversion may change it, too.
METADATA: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "finalizers": ({}, {"finalizers": ["example.com/a"]}, False),
    "no finalizers": ({"finalizers": ["example.com/a"]}, {}, False),
    "labels": ({}, {"labels": {"a": "b"}}, True),
    "annotations": ({"annotations": {"a": "b"}}, {"annotations": {"a": "c"}}, True),
}


@pytest.mark.parametrize(("before", "after", "may_differ"), METADATA.values(), ids=METADATA)
def test_f30_metadata_is_the_same_in_all_versions_but_labels_and_annotations(
    before: dict[str, Any], after: dict[str, Any], may_differ: bool
) -> None:
    version = replace(VERSION, other_versions={"v2": TypeVersion("v2", TYPE_DEF, convert=_fails)})
    owned = to_field_set({"data": {"k": "1"}} | ({"metadata": before} if before else {}), TYPE_DEF)
    theirs = ManagedFieldsEntry(updater("b", "v2"), owned, "t")
    old, new = thing_of(data={"k": "1"}), thing_of(data={"k": "1"})
    old["metadata"] |= before
    new["metadata"] |= after

    def managed() -> ManagedFields:
        return Updater(version, updater("u"), "now").update(old, new, {theirs.manager.identity: theirs})

    if may_differ:
        with pytest.raises(AssertionError):
            managed()
    else:
        assert managed()[theirs.manager.identity].fields == {"f:data": {"f:k": {}}}


def test_f30_an_object_is_converted_with_its_identity_whatever_is_given_up() -> None:
    seen: list[dict[str, Any]] = []

    def seen_and(convert: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def converted(document: dict[str, Any]) -> dict[str, Any]:
            seen.append(document["metadata"])
            return convert(document)

        return converted

    other = TypeVersion("v2", TYPE_DEF, convert=seen_and(_renamed), convert_back=seen_and(_named_back))
    version = replace(VERSION, other_versions={"v2": other})
    mine = ManagedFieldsEntry(applier("a", "v2"), {"f:metadata": {"f:labels": {"f:l": {}}}}, "t")
    theirs = ManagedFieldsEntry(updater("b"), data("k"), "t")
    live = thing_of(data={"k": "1"})
    live["metadata"] |= {"labels": {"l": "x"}, "namespace": "n", "uid": "u"}
    managed = {owner.manager.identity: owner for owner in (mine, theirs)}
    result = Updater(version, applier("a"), "now").apply(live, thing_of(), managed)
    assert "labels" not in result.document["metadata"]
    assert {(meta["name"], meta["namespace"], meta["uid"]) for meta in seen} == {
        (live["metadata"]["name"], "n", "u")
    }


OTHERWISE_EQUAL: dict[str, tuple[Any, Any]] = {
    "true and 1": (1, True),
    "false and 0": (False, 0),
    "deep in an object": ({"x": {"y": 1}}, {"x": {"y": True}}),
    "in a list": ([[0]], [[False]]),
}


@pytest.mark.parametrize(("old", "new"), OTHERWISE_EQUAL.values(), ids=OTHERWISE_EQUAL.keys())
def test_f10_f16_true_is_not_1(old: Any, new: Any) -> None:
    """Where there is no schema one may come to stand in the place of the other."""
    thing = Thing().apply("a", spec={"free": {"k": old}})
    with pytest.raises(FieldConflicts, match=r"\.spec\.free\.k"):
        thing.apply("b", spec={"free": {"k": new}})
    assert "u Update" in thing.update("u", spec={"free": {"k": new}}).owned


def test_f12_a_number_is_the_same_however_it_is_written() -> None:
    thing = Thing().apply("a", spec={"free": {"k": 1, "l": [2]}})
    assert thing.apply("b", spec={"free": {"l": [2.0], "k": 1.0}}).owned.keys() == {"a Apply", "b Apply"}


Y = {"name": "y"}
# The applies of managers, in order, and the spec after the last, as Kubernetes 1.36 has it: as
# structured-merge-diff 6.3.2 does.
EMPTIED: dict[str, tuple[list[tuple[str, Any]], Any]] = {
    "a set": ([("a", {"a": "1", "tags": ["x"]}), ("a", {"a": "1", "tags": []})], {"a": "1"}),
    "a list of items": ([("a", {"a": "1", "items": [Y]}), ("a", {"a": "1", "items": []})], {"a": "1"}),
    "a list in an item": (
        [("a", {"items": [{**Y, "tags": ["x"]}]}), ("a", {"items": [{**Y, "tags": []}]})],
        {"items": [Y]},
    ),
    "all that a struct has": ([("a", {"tags": ["x"]}), ("a", {"tags": []})], None),
    "a list that is owned as a whole": ([("a", {"list": ["x"]}), ("a", {"list": []})], {"list": []}),
    "an object without a schema": ([("a", {"free": {"k": 1}}), ("a", {"free": {}})], {"free": {}}),
    "by null": ([("a", {"a": "1", "tags": ["x"]}), ("a", {"a": "1", "tags": None})], {"a": "1"}),
    "omitted": ([("a", {"a": "1", "tags": ["x"]}), ("a", {"a": "1"})], {"a": "1"}),
    "never filled": ([("a", {"a": "1", "tags": []})], {"a": "1", "tags": []}),
    "never filled, and omitted": ([("a", {"a": "1", "tags": []}), ("a", {"a": "1"})], {"a": "1", "tags": []}),
    "filled later": (
        [("a", {"a": "1", "tags": []}), ("a", {"a": "1", "tags": ["x"]}), ("a", {"a": "1", "tags": []})],
        {"a": "1"},
    ),
    "where another has an item": (
        [("a", {"tags": ["x"]}), ("b", {"tags": ["y"]}), ("a", {"tags": []})],
        {"tags": ["y"]},
    ),
    "by one of two who share the item": (
        [("a", {"tags": ["x"]}), ("b", {"tags": ["x"]}), ("a", {"tags": []})],
        {"tags": ["x"]},
    ),
}


@pytest.mark.parametrize(("applies", "expected"), EMPTIED.values(), ids=EMPTIED)
def test_f15_what_its_owner_empties_goes_unless_it_is_owned_itself(
    applies: list[tuple[str, Any]], expected: Any
) -> None:
    thing = Thing()
    for manager, spec in applies:
        thing.apply(manager, spec=spec)
    assert thing.document is not None
    assert thing.document.get("spec") == expected


def test_f15_a_list_that_an_updater_owns_goes_with_the_items_of_its_applier() -> None:
    thing = Thing().update("u", spec={"a": "1", "tags": ["x"]}).apply("a", spec={"tags": ["x"]})
    thing.managed[updater("u").identity] = ManagedFieldsEntry(updater("u"), {"f:spec": {"f:tags": {}}}, "t")
    assert thing.apply("a", spec={"n": 1}).document == thing_of(spec={"a": "1", "n": 1})


def test_f25_an_empty_list_in_place_of_ones_own_items_is_applied_once() -> None:
    thing = Thing().apply("a", spec={"tags": ["x"], "a": "1"}).apply("a", spec={"tags": [], "a": "1"})
    assert thing.document == thing_of(spec={"a": "1"})
    again = thing.apply("a", spec={"tags": [], "a": "1"}).document
    assert again == thing_of(spec={"tags": [], "a": "1"}), "there is nothing to give up"
    assert thing.apply("a", spec={"tags": [], "a": "1"}).document is again


def test_owners_in_a_version_that_is_gone_are_forgotten_with_the_next_write() -> None:
    manager = updater("a", "v0")
    managed = {manager.identity: ManagedFieldsEntry(manager, data("k"), "t")}
    left = Updater(VERSION, updater("u"), "t").update(
        thing_of(data={"k": "1"}), thing_of(data={"k": "2"}), managed
    )
    assert [owner.manager.name for owner in left.values()] == ["u"]


def test_what_an_endpoint_does_not_write_is_not_owned_through_it() -> None:
    version = replace(VERSION, endpoint=EndpointFields(["status"]))
    applied = Updater(version, applier("a"), "t").apply(None, thing_of(data={"k": "1"}, status={"n": 1}), {})
    assert [owner.fields for owner in applied.managed.values()] == [data("k")]


def test_a_body_with_an_item_twice_is_refused_and_nothing_is_changed() -> None:
    thing = Thing().apply("a", spec={"tags": ["a"]})
    before = copy.deepcopy((thing.document, encode(thing.managed)))
    with pytest.raises(SchemaMismatch, match=r"^\.spec\.tags: duplicate entries"):
        thing.apply("a", spec={"tags": ["b", "b"]})
    assert (thing.document, encode(thing.managed)) == before
