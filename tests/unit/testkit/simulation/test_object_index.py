"""The objects of a resource, as an informer tells of them and as they were just written."""

from __future__ import annotations

from apiserver.controller_runtime.informer import Notification
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import StoredObject, head_of, with_revision
from apiserver.testkit.simulation.object_index import ObjectIndex

HEAD = head_of("v1", "Pod")


def document(name: str, revision: int, owner: str = "", *, uid: str = "u") -> Document:
    meta: Document = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(revision)}
    if owner:
        meta["ownerReferences"] = [{"uid": owner, "kind": "Job", "name": "j", "controller": True}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def told(name: str, revision: int, *, is_deleted: bool = False) -> Notification:
    tail = with_revision(b'{"name":"%b","namespace":"default","uid":"u"}}' % name.encode(), revision)
    new = None if is_deleted else StoredObject(f"/pods/default/{name}", HEAD, tail)
    return Notification(f"/pods/default/{name}", "default", name, revision, None, new)


def recording() -> tuple[ObjectIndex, list[tuple[bool, bool]]]:
    """Returns an index, and its changes: whether there was an object before, and is one now."""
    changes: list[tuple[bool, bool]] = []
    return ObjectIndex(lambda old, new: changes.append((old is not None, new is not None))), changes


def names(found: list[Document]) -> list[str]:
    return [each["metadata"]["name"] for each in found]


def test_objects_are_found_by_name_namespace_and_owner() -> None:
    index = ObjectIndex()
    for each in (document("b", 1, "x"), document("a", 2, "x"), document("c", 3)):
        index.put(each)
    assert names(index.owned_by("x")) == ["a", "b"]
    assert names(index.in_namespace("default")) == ["a", "b", "c"]
    assert (names(index.orphans_in("default")), index.orphans_in("other")) == (["c"], [])
    assert (index.get("default", "c"), index.get("default", "d")) == (document("c", 3), None)
    known = index.names_in("default")
    assert ("c" in known, "d" in known, "c" in index.names_in("other")) == (True, False, False)


def test_who_owns_their_fields_is_not_kept() -> None:
    index = ObjectIndex()
    written = document("a", 1)
    written["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    index.put(written)
    assert index.get("default", "a") == document("a", 1)


def test_an_owner_may_change() -> None:
    index = ObjectIndex()
    index.put(document("a", 1, "x"))
    index.put(document("a", 2, "y"))
    assert (names(index.owned_by("x")), names(index.owned_by("y"))) == ([], ["a"])
    index.put(document("a", 3))
    assert (names(index.owned_by("y")), names(index.orphans_in("default"))) == ([], ["a"])


def test_what_was_written_is_newer_than_what_is_told_late() -> None:
    index, changes = recording()
    index.notify(told("a", 1))
    index.put(document("a", 3, "x"))
    index.notify(told("a", 2))
    index.notify(told("a", 3))
    assert names(index.owned_by("x")) == ["a"]
    assert changes == [(False, True), (True, True)]


def test_what_was_removed_is_gone() -> None:
    index, changes = recording()
    index.put(document("a", 1, "x"))
    index.remove(document("a", 1))
    index.notify(told("a", 2, is_deleted=True))
    assert (list(index), index.owned_by("x"), index.in_namespace("default")) == ([], [], [])
    assert changes == [(False, True), (True, False)]


def test_an_old_deletion_does_not_remove_a_new_object() -> None:
    index = ObjectIndex()
    index.put(document("a", 5))
    index.notify(told("a", 4, is_deleted=True))
    assert names(index.in_namespace("default")) == ["a"]


def test_what_was_written_may_be_gone_before_its_writer_tells_of_it() -> None:
    index = ObjectIndex()
    index.notify(told("a", 1))
    index.notify(told("a", 3, is_deleted=True))
    index.put(document("a", 2))
    assert list(index) == []
    index.put(document("a", 4, uid="another"))
    assert names(list(index)) == ["a"]


def test_another_object_of_the_same_name_is_a_new_one() -> None:
    index, changes = recording()
    index.put(document("a", 1, "x"))
    index.put(document("a", 2, "y", uid="another"))
    assert changes == [(False, True), (True, False), (False, True)]
    assert (names(index.owned_by("x")), names(index.owned_by("y"))) == ([], ["a"])
