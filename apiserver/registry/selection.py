"""Selects the objects of a list or a watch: by a range of keys, and a predicate on each object."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from typing import Final, NamedTuple

from apiserver.meta.selectors import FieldConditions, FieldSelector, LabelConditions, LabelSelector
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.registry.version_codec import VersionCodec
from apiserver.storage.interface import KeyRange
from apiserver.storage.keys import after, object_key, prefix_range
from apiserver.storage.watch_cache.events import ANY_VALUE, Trigger
from apiserver.storage.watch_cache.fanout import WatchScope

NAME: Final = "metadata.name"
NAMESPACE: Final = "metadata.namespace"
# Labels that a selector may be about, and an event still be tested for all watchers when it happens: so a
# thousand watchers with different selectors take some milliseconds.
SHORT_MAX: Final = 8

_Test = Callable[[StoredObject], bool]


class ObjectPredicate:
    """A predicate on objects; predicates of equivalent selectors are equal.

    So the watch cache evaluates it once for all watchers with such selectors.
    key: equal for equal predicates. test: the function behind `__call__`, which lists call directly.
    trigger: a value that all selected objects have. is_long: one test may take tens of microseconds.
    """

    __slots__ = ("_hash", "_key", "is_long", "test", "trigger")

    def __init__(
        self,
        key: Hashable,
        test: _Test,
        trigger: Trigger[StoredObject] | None = None,
        *,
        is_long: bool = False,
    ) -> None:
        self._key = key
        self._hash = hash(key)
        self.test = test
        self.trigger = trigger
        self.is_long = is_long

    def __call__(self, found: StoredObject) -> bool:
        return self.test(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPredicate) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


class Selection(NamedTuple):
    """The selected objects: `keys` for lists and `scope` for watches describe the same range.

    predicate: None selects all of them.
    is_of_views: the predicate is about the client's version, which a webhook may have to make. For a stored
        object it then also selects objects that may turn out to be selected; for a view it is exact.
    """

    keys: KeyRange
    scope: WatchScope
    predicate: ObjectPredicate | None
    is_of_views: bool = False

    @property
    def trigger(self) -> Trigger[StoredObject] | None:
        return self.predicate.trigger if self.predicate is not None else None

    @property
    def is_long(self) -> bool:
        return self.predicate is not None and self.predicate.is_long


def select(
    resource: ServedResource,
    prefix: str,
    *,
    namespace: str,
    name: str = "",
    labels: LabelSelector,
    fields: FieldSelector,
) -> Selection:
    """Returns the keys, and the objects below them, that the selectors of a request select.

    prefix: that of the resource's keys. Requirements on name and namespace become part of the keys.
    """
    if fields.requirements:
        name = name or fields.required_value(NAME) or ""
        namespace = namespace or fields.required_value(NAMESPACE) or ""
    if not resource.is_namespaced:
        namespace = ""
    if name and (namespace or not resource.is_namespaced):
        key = object_key(prefix, namespace, name)
        keys, scope = KeyRange(key, after(key)), WatchScope(key=key)
        fields = fields.without({(NAME, name), (NAMESPACE, namespace)})
    elif namespace:
        folder = f"{prefix}{namespace}/"
        keys, scope = prefix_range(folder), WatchScope(key_prefix=folder)
        if fields.requirements:
            fields = fields.without({(NAMESPACE, namespace)})
    else:
        keys, scope = prefix_range(prefix), WatchScope()
    if not (fields.requirements or labels.requirements):
        return Selection(keys, scope, None)
    predicate = _predicate(resource, prefix, labels.conditions, fields.conditions)
    if resource.is_custom and any(each.field in resource.selectable_fields for each in fields.requirements):
        return Selection(keys, scope, _of_views(resource.codec, predicate), is_of_views=True)
    return Selection(keys, scope, predicate)


def _of_views(codec: VersionCodec, selects: ObjectPredicate) -> ObjectPredicate:
    """Returns a predicate on views, which has no trigger, as the stored object does not determine its
    view.
    """

    def test(found: StoredObject) -> bool:
        try:
            view = codec.cached_view(found)
        except CorruptObject:
            return True
        return view is None or selects.test(view)

    return ObjectPredicate(("views", selects), test, is_long=selects.is_long)


def _predicate(
    resource: ServedResource, prefix: str, labels: LabelConditions, fields: FieldConditions
) -> ObjectPredicate:
    if labels.is_never or fields.is_never:
        return ObjectPredicate("nothing", lambda found: False)
    is_long = len(labels) > SHORT_MAX
    if fields == _NO_FIELDS:
        return ObjectPredicate(labels, _label_test(labels), _label_trigger(labels), is_long=is_long)
    field_test = _field_test(resource, prefix, fields)
    trigger = _field_trigger(resource, prefix, fields) or _label_trigger(labels)
    key = (resource, labels, fields)  # The same field may be another one of another resource.
    if labels.selects_everything:
        return ObjectPredicate(key, field_test, trigger)
    label_test = _label_test(labels)
    return ObjectPredicate(
        key, lambda found: field_test(found) and label_test(found), trigger, is_long=is_long
    )


_NO_FIELDS: Final = FieldConditions()

# The predicate lets damaged objects pass, so that clients that would get one see an error, and others do not.


def _label_test(conditions: LabelConditions) -> _Test:
    matches = conditions.test()

    def test(found: StoredObject) -> bool:
        labels = found.known_labels
        if labels is None:
            try:
                labels = found.labels()
            except CorruptObject:
                return True
        return matches(labels)

    if len(conditions) > 1 or not conditions.equal:
        return test
    ((key, value),) = conditions.equal

    def test_one(found: StoredObject) -> bool:
        # What most selectors come to: without two calls, it takes half as long.
        labels = found.known_labels
        return labels.get(key) == value if labels is not None else test(found)

    return test_one


def _field_test(resource: ServedResource, prefix: str, conditions: FieldConditions) -> _Test:
    matches = conditions.test(partial(_field_getter, resource, prefix))

    def test(found: StoredObject) -> bool:
        try:
            return matches(found)
        except CorruptObject:
            return True

    return test


def _field_getter(resource: ServedResource, prefix: str, field: str) -> Callable[[StoredObject], str]:
    """Returns a function that gets a field of an object, and raises CorruptObject."""
    if field == NAME:
        return lambda found: found.key[found.key.rindex("/") + 1 :]
    if field == NAMESPACE:
        return lambda found: found.key[len(prefix) :].rpartition("/")[0]
    getters = resource.selectable_fields
    return lambda found: found.fields(getters)[field]


@dataclass(frozen=True, slots=True)
class _LabelIndex:
    """Gets the value of a label, if there is one, as an index key."""

    key: str

    def __call__(self, found: StoredObject) -> object:
        try:
            return found.labels().get(self.key)
        except CorruptObject:
            return ANY_VALUE


@dataclass(frozen=True, slots=True)
class _FieldIndex:
    """Gets the value of a field as an index key. get: reads the field."""

    resource: ServedResource
    field: str
    get: Callable[[StoredObject], str] = dataclass_field(compare=False)

    def __call__(self, found: StoredObject) -> object:
        try:
            return self.get(found)
        except CorruptObject:
            return ANY_VALUE


def _label_trigger(conditions: LabelConditions) -> Trigger[StoredObject] | None:
    key, value = min(conditions.equal, default=("", ""))
    return Trigger(_LabelIndex(key), value) if key else None


def _field_trigger(
    resource: ServedResource, prefix: str, conditions: FieldConditions
) -> Trigger[StoredObject] | None:
    """Returns the best field to index by: the name, then the type's own, as `spec.nodeName`."""
    fields = dict(conditions.equal)
    field = NAME if NAME in fields else min(fields, default="")
    if not field:
        return None
    return Trigger(_FieldIndex(resource, field, _field_getter(resource, prefix, field)), fields[field])
