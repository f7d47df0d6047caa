"""The fields that an endpoint writes: a write does not change the ownership of other fields.

Source of the rules: k8s.io/apiserver, pkg/registry/rest, ResetFieldsStrategy and ResetFieldsFilterStrategy;
structured-merge-diff, fieldpath/set.go, the filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply.field_set import ITSELF, FieldSet

# In a path: any item of a list.
ANY_ITEM: Final = "*"

# Paths as nested path elements; empty where a path ends, which means all that is below it.
_Paths: TypeAlias = dict[str, Any]


class EndpointFields:
    """The fields that an endpoint writes.

    A path has dots, as `metadata.labels`, and includes all fields below it.

    resets: the paths that the endpoint never changes, whatever a client sends.
    writes: the paths that it writes, with `*` for any item of a list; empty: all but `resets`.
    """

    __slots__ = ("_reset_roots", "_resets", "_writes", "_written_roots")

    def __init__(self, resets: Iterable[str] = (), writes: Iterable[str] = ()) -> None:
        self._resets, self._writes = _nested(resets), _nested(writes)
        self._reset_roots = {element[2:] for element, below in self._resets.items() if not below}
        self._written_roots = {element[2:] for element in self._writes}

    def part_of(self, document: Document) -> Document:
        """Returns a document without the top-level fields that the endpoint does not write, so that less is
        compared.

        Returns the document itself if the endpoint may write all of it; otherwise the result shares its
        parts.
        """
        if self._writes:
            return {name: document[name] for name in self._written_roots if name in document}
        if self._reset_roots.isdisjoint(document):
            return document
        return {name: value for name, value in document.items() if name not in self._reset_roots}

    def written(self, fields: FieldSet) -> FieldSet:
        """Returns the fields of a set that the endpoint writes; the set itself if it writes all."""
        if self._writes:
            return _only(fields, self._writes)
        return _without(fields, self._resets) if self._resets else fields


def _nested(paths: Iterable[str]) -> _Paths:
    top: _Paths = {}
    for path in paths:
        node = top
        for name in path.split("."):
            node = node.setdefault(name if name == ANY_ITEM else f"f:{name}", {})
    return top


def _without(fields: FieldSet, paths: _Paths) -> FieldSet:
    if paths.keys().isdisjoint(fields):
        return fields
    left: FieldSet = {}
    is_same = True
    for element, below in fields.items():
        inner = paths.get(element)
        if inner is None:
            left[element] = below
            continue
        remaining = _without(below, inner) if inner else {}
        is_same = is_same and bool(inner) and remaining is below
        # What has parts, and keeps none, goes with them.
        if remaining or (inner and not below):
            left[element] = remaining
    return fields if is_same else left


def _only(fields: FieldSet, paths: _Paths) -> FieldSet:
    left: FieldSet = {}
    for element, below in fields.items():
        inner = None if element == ITSELF else paths.get(element, paths.get(ANY_ITEM))
        if inner is None:
            continue
        remaining = _only(below, inner) if inner else below
        if remaining or not inner:
            left[element] = remaining
    return left


ALL_FIELDS: Final = EndpointFields()
