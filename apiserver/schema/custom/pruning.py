"""One walk over a custom resource: removes unknown fields, sets defaults, looks after the metadata in it.

It goes by the shapes of values, not by the types that the schema tells: what is of a wrong type is told
later, by `values`, with all the rest. Each part is compiled when a value first gets there.

Sources: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/{pruning,defaulting,objectmeta}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

import orjson

from apiserver.field_errors import invalid, quote
from apiserver.schema.compile import UNKNOWN_FIELDS_MAX, TypeMismatch, Walk
from apiserver.schema.custom import numbers
from apiserver.schema.custom.json_schema import Extensions, JSONSchema
from apiserver.schema.custom.paths import Key, Path, bracketed, plain
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document

# `[{}, {}, …]` may become much longer by its defaults than anything that can be stored.
DEFAULTS_BYTES_MAX: Final = 8 * 1024 * 1024
_META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_TOO_DEEP: Final = "json: exceeded max depth"
# Of what no schema is told: it has no fields, but may be null.
_NOTHING: Final = {"nullable": True}
_GO_TYPES: Final[Mapping[type, str]] = {
    int: "int64",
    float: "float64",
    bool: "bool",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}
_Visit: TypeAlias = "Callable[[Any, Path | None, _Report], None]"


class Pruner:
    """Completes documents of one schema, in place.

    meta: the schema of metadata; what is compiled for one serves all.
    """

    def __init__(self, schema: JSONSchema, extensions: Extensions, meta: Schema) -> None:
        self._meta = meta
        self._root = _Field({**schema, extensions.embedded_resource: True}, _Parts(extensions, meta))

    def __call__(self, document: Document) -> list[str]:
        """The paths of the fields that were unknown and have been removed.

        Wrong types are told by `Check`, but those in metadata. Raises TypeMismatch.
        """
        for name in ("apiVersion", "kind"):
            if name in document and type(document[name]) is not str:
                found = f"{quote(document[name])} is of the type {_GO_TYPES[type(document[name])]}"
                raise TypeMismatch(f".{name} accessor error: {found}, expected string")
        report = _Report(prunes=True, coerces=True)
        in_metadata = []
        if "metadata" in document:
            if document["metadata"] is None:
                document["metadata"] = {}
            in_metadata = [f"metadata.{path}" for path in _walk_of(self._meta)(document["metadata"])]
        self._run(document, report)
        return in_metadata + sorted(report.unknown) + sorted(report.in_metadata)

    def complete(self, document: Document) -> bool:
        """Set defaults alone. Returns whether there was something to do. Raises TypeMismatch."""
        return self._run(document, _Report(prunes=False, coerces=False))

    def prune_and_default(self, document: Document) -> bool:
        """A stored object by the schema as it is now: pruned, with defaults; metadata stays as it is.

        Returns whether there was something to do. Raises TypeMismatch.
        """
        return self._run(document, _Report(prunes=True, coerces=False))

    def _run(self, document: Document, report: _Report) -> bool:
        try:
            self._root.visit_object(document, None, report)
        except RecursionError:
            raise TypeMismatch(_TOO_DEEP) from None
        return report.has_changed


class _Report:
    """What a walk is to do, and what it finds.

    prunes: it removes unknown fields. coerces: it checks the metadata of embedded resources.
    """

    __slots__ = ("coerces", "has_changed", "in_metadata", "prunes", "set_bytes", "unknown")

    def __init__(self, *, prunes: bool, coerces: bool) -> None:
        self.prunes, self.coerces = prunes, coerces
        self.unknown: list[str] = []
        self.in_metadata: list[str] = []
        self.has_changed = False
        self.set_bytes = 0


class _Parts:
    """What the fields of one schema share."""

    __slots__ = ("extensions", "meta")

    def __init__(self, extensions: Extensions, meta: Schema) -> None:
        self.extensions, self.meta = extensions, meta


class _Field:
    """A place for a value: what is done with null there, and with what an object or a list there contains.

    The visits are compiled when they are first asked for: most fields have no use for one.
    """

    __slots__ = (
        "_default_bytes",
        "_keeps_unknown",
        "_parts",
        "_schema",
        "default",
        "is_nullable",
        "visit_list",
        "visit_object",
    )
    visit_list: _Visit
    visit_object: _Visit

    def __init__(self, schema: JSONSchema, parts: _Parts, *, keeps_unknown: bool = False) -> None:
        self._schema, self._parts, self._keeps_unknown = schema, parts, keeps_unknown
        self.default = schema.get("default")
        self.is_nullable = bool(schema.get("nullable"))
        self._default_bytes = 0

    def __getattr__(self, name: str) -> _Visit:
        compiled = _COMPILERS[name](self._schema, self._parts, keeps_unknown=self._keeps_unknown)
        setattr(self, name, compiled)
        return compiled

    def new_default(self, report: _Report) -> Any:
        """A copy, since it will be changed. Raises TypeMismatch."""
        try:
            self._default_bytes = self._default_bytes or len(orjson.dumps(self.default))
        except TypeError:
            raise TypeMismatch(_TOO_DEEP) from None
        report.set_bytes += self._default_bytes
        if report.set_bytes > DEFAULTS_BYTES_MAX:
            raise TypeMismatch(f"the defaults of the object have more than {DEFAULTS_BYTES_MAX} bytes")
        report.has_changed = True
        return _copied(self.default)


def _object_visit(schema: JSONSchema, parts: _Parts, *, keeps_unknown: bool) -> _Visit:
    keeps_unknown = keeps_unknown or bool(schema.get(parts.extensions.preserve_unknown_fields))
    is_resource = bool(schema.get(parts.extensions.embedded_resource))
    fields = {
        name: _Field(each, parts, keeps_unknown=is_resource and name in _META_FIELDS)
        for name, each in (schema.get("properties") or {}).items()
    }
    other = _additional_field(schema.get("additionalProperties"), parts)
    defaults = [(name, field) for name, field in fields.items() if field.default is not None]
    known = fields.get

    def visit(value: Document, path: Path | None, report: _Report) -> None:
        if is_resource and report.coerces and path is not None:
            _coerce(value, path, fields, parts.meta, report)
        for name, field in defaults:
            if name not in value:
                value[name] = field.new_default(report)
        removed: list[str] = []
        for name, child in value.items():
            place = known(name)
            if place is None:
                if is_resource and name in _META_FIELDS:
                    continue
                place = other
                if place is None:
                    if report.prunes and not keeps_unknown:
                        removed.append(name)
                        if len(report.unknown) < UNKNOWN_FIELDS_MAX:
                            report.unknown.append(plain((path, name)))
                    elif type(child) is float:
                        value[name] = _written(child, report)
                    elif type(child) is dict or type(child) is list:
                        _normalise_numbers(child, report)
                    continue
            kind = type(child)
            if kind is str or kind is int or kind is bool:
                continue
            if child is None and not place.is_nullable:
                if place.default is None:
                    removed.append(name)
                    continue
                child = value[name] = place.new_default(report)
                kind = type(child)
            if kind is dict:
                place.visit_object(child, (path, Key(name) if place is other else name), report)
            elif kind is list:
                place.visit_list(child, (path, Key(name) if place is other else name), report)
            elif kind is float:
                value[name] = _written(child, report)
        for name in removed:
            del value[name]
            report.has_changed = True

    return visit


def _list_visit(schema: JSONSchema, parts: _Parts, *, keeps_unknown: bool) -> _Visit:
    keeps_unknown = keeps_unknown or bool(schema.get(parts.extensions.preserve_unknown_fields))
    items = schema.get("items")
    if not isinstance(items, Mapping):
        if keeps_unknown:
            return lambda value, path, report: _normalise_numbers(value, report)
        items = _NOTHING
    place = _Field(items, parts, keeps_unknown=keeps_unknown)

    def visit(value: list[Any], path: Path | None, report: _Report) -> None:
        for index, child in enumerate(value):
            kind = type(child)
            if kind is str or kind is int or kind is bool:
                continue
            if child is None and place.default is not None and not place.is_nullable:
                child = value[index] = place.new_default(report)
                kind = type(child)
            if kind is dict:
                place.visit_object(child, (path, index), report)
            elif kind is list:
                place.visit_list(child, (path, index), report)
            elif kind is float:
                value[index] = _written(child, report)

    return visit


class _Compiler(Protocol):
    def __call__(self, schema: JSONSchema, parts: _Parts, *, keeps_unknown: bool) -> _Visit: ...


_COMPILERS: Final[Mapping[str, _Compiler]] = {"visit_object": _object_visit, "visit_list": _list_visit}


def _additional_field(schema: Any, parts: _Parts) -> _Field | None:
    """Of the fields that an object does not name."""
    if isinstance(schema, Mapping):
        return _Field(schema, parts)
    return _Field(_NOTHING, parts) if schema is True else None


def _coerce(
    resource: Document, path: Path, fields: Mapping[str, _Field], meta: Schema, report: _Report
) -> None:
    """Check what says of an embedded resource which one it is. Raises TypeMismatch."""

    def stays(name: str) -> bool:
        return name in resource and not (resource[name] is None and name in fields)

    for name in ("apiVersion", "kind"):
        if stays(name) and type(resource[name]) is not str:
            raise TypeMismatch(str(invalid(bracketed((path, name)), resource[name], "must be a string")))
    if not stays("metadata"):
        return
    if resource["metadata"] is None:
        resource["metadata"] = {}
    try:
        unknown = _walk_of(meta)(resource["metadata"])
    except TypeMismatch as mismatch:
        where = bracketed((path, "metadata"))
        raise TypeMismatch(str(invalid(where, resource["metadata"], str(mismatch)))) from None
    if unknown and len(report.in_metadata) < UNKNOWN_FIELDS_MAX:
        where = bracketed(path)
        report.in_metadata += [f"{where}.metadata.{each}" for each in unknown]


def _written(value: float, report: _Report) -> float:
    """Whole numbers are written without a point, and so are whole ones when they are read again."""
    if value.is_integer() and -numbers.SAFE_MAX <= value <= numbers.SAFE_MAX:
        report.has_changed = True
        return int(value)
    return value


def _normalise_numbers(value: Document | list[Any], report: _Report) -> None:
    """The same for all numbers in what no schema knows."""
    todo: list[Any] = [value]
    while todo:
        each = todo.pop()
        for name, child in each.items() if type(each) is dict else enumerate(each):
            kind = type(child)
            if kind is float:
                each[name] = _written(child, report)
            elif kind is dict or kind is list:
                todo.append(child)


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copied(child) for name, child in value.items()}
    return [_copied(child) for child in value] if type(value) is list else value


@lru_cache(maxsize=8)
def _walk_of(meta: Schema) -> Walk:
    return Walk(meta)
