"""Which objects of a resource a list or a watch selects: the range of keys, and a predicate for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apiserver.meta.selectors import FieldSelector, LabelSelector
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.registry.version_codec import VersionCodec
from storage.interface import KeyRange
from storage.keys import after, object_key, prefix_range
from storage.watch_cache.fanout import Scope

ObjectPredicate = Callable[[StoredObject], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that are selected. keys (for lists) and scope (for watches) say the same.

    predicate: None selects all of them.
    is_of_views: the predicate is about the client's version, which may take a webhook to know. For a stored
        object it then also selects what might turn out to be selected; for a view it is exact.
    """

    keys: KeyRange
    scope: Scope
    predicate: ObjectPredicate | None
    is_of_views: bool = False


def select(
    resource: ServedResource,
    prefix: str,
    *,
    namespace: str,
    name: str = "",
    labels: LabelSelector,
    fields: FieldSelector,
) -> Selection:
    """prefix: of the resource's keys. Equalities of name and namespace become part of the keys."""
    name = name or fields.required_value("metadata.name") or ""
    namespace = namespace or fields.required_value("metadata.namespace") or ""
    if not resource.is_namespaced:
        namespace = ""
    if name and (namespace or not resource.is_namespaced):
        key = object_key(prefix, namespace, name)
        keys, scope = KeyRange(key, after(key)), Scope(key=key)
    elif namespace:
        folder = f"{prefix}{namespace}/"
        keys, scope = prefix_range(folder), Scope(key_prefix=folder)
    else:
        keys, scope = prefix_range(prefix), Scope()
    if resource.is_custom and any(each.field in resource.selectable_fields for each in fields.requirements):
        predicate = _of_views(resource.codec, _predicate(resource, prefix, labels, fields))
        return Selection(keys, scope, predicate, is_of_views=True)
    return Selection(keys, scope, _predicate(resource, prefix, labels, fields))


def _of_views(codec: VersionCodec, selects: ObjectPredicate | None) -> ObjectPredicate:
    assert selects is not None

    def test(found: StoredObject) -> bool:
        try:
            view = codec.cached_view(found)
        except CorruptObject:
            return True
        return view is None or selects(view)

    return test


def _predicate(
    resource: ServedResource, prefix: str, labels: LabelSelector, fields: FieldSelector
) -> ObjectPredicate | None:
    if fields.selects_everything:
        if labels.selects_everything:
            return None
        return _of_labels(labels)

    matches_labels = labels.compile()
    getters = resource.selectable_fields
    start = len(prefix)

    def value_of(found: StoredObject, field: str) -> str:
        namespace, _, name = found.key[start:].rpartition("/")
        if field == "metadata.name":
            return name
        if field == "metadata.namespace":
            return namespace
        return found.fields(getters)[field]

    def test(found: StoredObject) -> bool:
        try:
            return fields.matches(lambda field: value_of(found, field)) and (
                labels.selects_everything or matches_labels(found.labels())
            )
        except CorruptObject:
            return True  # Whoever is to have it is told, and nobody else.

    return test


def _of_labels(labels: LabelSelector) -> ObjectPredicate:
    matches_labels = labels.compile()

    def test(found: StoredObject) -> bool:
        try:
            return matches_labels(found.labels())
        except CorruptObject:
            return True

    return test
