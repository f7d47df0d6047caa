"""Which objects of a resource a list or a watch is about: the keys to look at, and the test for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apiserver.meta.selectors import FieldSelector, LabelSelector
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from storage.interface import KeyRange
from storage.keys import after, object_key, prefix_range
from storage.watch_cache.fanout import Scope

Predicate = Callable[[StoredObject], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """keys and scope say the same, for lists and for watches; predicate None selects all of them."""

    keys: KeyRange
    scope: Scope
    predicate: Predicate | None


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
        keys, scope = prefix_range(folder), Scope(folder=folder)
    else:
        keys, scope = prefix_range(prefix), Scope()
    return Selection(keys, scope, _predicate(resource, prefix, labels, fields))


def _predicate(
    resource: ServedResource, prefix: str, labels: LabelSelector, fields: FieldSelector
) -> Predicate | None:
    if fields.selects_everything:
        if labels.selects_everything:
            return None
        matches_labels = labels.compile()
        return lambda found: matches_labels(found.labels())

    matches_labels = labels.compile()
    getters = resource.selectable_fields
    start = len(prefix)

    def value_of(found: StoredObject, field: str) -> str:
        namespace, _, name = found.key[start:].rpartition("/")
        if field == "metadata.name":
            return name
        if field == "metadata.namespace":
            return namespace
        if resource.keeping is not None:
            # What can only be had by asking somebody is looked at as it is stored.
            found = resource.keeping.shown(found) or found
        return found.fields(getters)[field]

    def test(found: StoredObject) -> bool:
        return fields.matches(lambda field: value_of(found, field)) and (
            labels.selects_everything or matches_labels(found.labels())
        )

    return test
