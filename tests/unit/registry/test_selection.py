"""Lists and watches of custom resources select by their views in the client's version. Rows I18, S02."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest

from apiserver.meta.selectors import parse_field_selector, parse_label_selector
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.field_getters import field_texts
from apiserver.registry.selection import Selection, select
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.registry.version_codec import VersionCodec
from apiserver.schema.structural import Schema
from apiserver.storage.interface import Stored

PREFIX: Final = "/registry/example.com/widgets/"
HEAD: Final = head_of("example.com/v1", "Widget")


class _Codec:
    """Shows objects of v1 as they are, and those of v2 once they have been converted."""

    def __init__(self) -> None:
        self.views: dict[StoredObject, StoredObject] = {}

    def cached_view(self, found: StoredObject) -> StoredObject | None:
        return self.views.get(found) if found.document()["apiVersion"].endswith("v2") else found


def _resource(codec: _Codec | None) -> ServedResource:
    return ServedResource(
        GroupVersion("example.com", "v1"),
        "widgets",
        "Widget",
        is_namespaced=True,
        schema=lambda: cast(Schema, None),
        selectable_fields=field_texts("spec.size"),
        version_codec=cast(VersionCodec, codec) if codec is not None else None,
        is_custom=codec is not None,
    )


def _selection(codec: _Codec | None, fields: str = "", labels: str = "") -> Selection:
    resource = _resource(codec)
    return select(
        resource,
        PREFIX,
        namespace="",
        labels=parse_label_selector(labels),
        fields=parse_field_selector(fields, resource.known_fields),
    )


def _found(head: bytes = HEAD, **spec: Any) -> StoredObject:
    document = {"metadata": {"name": "a", "labels": {"app": "x"}}, "spec": spec}
    return StoredObject.of(Stored(f"{PREFIX}default/a", encode(document, head), 7, 7))


# Fields, labels, and whether an object of size 1 is selected.
SELECTORS = {
    "the value it has": ("spec.size=1", "", True),
    "another value": ("spec.size=2", "", False),
    "any value but that": ("spec.size!=1", "", False),
    "its value and its label": ("spec.size=1", "app=x", True),
    "its value and another label": ("spec.size=1", "app=y", False),
    "its value and its name": ("spec.size=1,metadata.name!=b", "", True),
    "its value and another name": ("spec.size=1,metadata.name!=a", "", False),
}


@pytest.mark.parametrize(("fields", "labels", "is_selected"), SELECTORS.values(), ids=SELECTORS)
def test_objects_are_selected_by_their_views(fields: str, labels: str, is_selected: bool) -> None:
    """Until the view is known each object may be selected, whatever is stored."""
    codec = _Codec()
    selection = _selection(codec, fields, labels)
    assert selection.is_of_views
    assert selection.predicate is not None
    assert selection.predicate(_found(size=1)) is is_selected
    unknown = _found(head_of("example.com/v2", "Widget"), size=99)
    assert selection.predicate(unknown)
    codec.views[unknown] = _found(size=1)
    assert selection.predicate(unknown) is is_selected


@pytest.mark.parametrize("fields", ["", "metadata.name!=b", "metadata.namespace=default"])
def test_names_and_labels_are_known_without_a_conversion(fields: str) -> None:
    selection = _selection(_Codec(), fields, "app=x")
    assert not selection.is_of_views
    assert selection.predicate is not None
    assert selection.predicate(_found(head_of("example.com/v2", "Widget")))


CUT_OFF: Final = HEAD + b'{"name":"a","labels":{"app":"x"'
CORRUPT = {
    "no object at all, by a field": (b"garbage", "spec.size=1", ""),
    "one that is cut off, by a field": (CUT_OFF, "spec.size=1", ""),
    "one that is cut off, by a label": (CUT_OFF, "", "app=x"),
    "one that is cut off, by both": (CUT_OFF, "spec.size=1", "app=x"),
}


@pytest.mark.parametrize(("value", "fields", "labels"), CORRUPT.values(), ids=CORRUPT)
@pytest.mark.parametrize("is_custom", [False, True])
def test_corrupt_objects_pass_the_selection(value: bytes, fields: str, labels: str, is_custom: bool) -> None:
    """The cache offers every change to all watchers: one that cannot be decoded must not stop it."""
    found = StoredObject.of(Stored(f"{PREFIX}default/a", value, 7, 7))
    predicate = _selection(_Codec() if is_custom else None, fields, labels).predicate
    assert predicate is not None
    assert predicate(found)
