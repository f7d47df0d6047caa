"""Prunes unknown fields of custom resources, sets defaults and coerces metadata, in one pass.

It goes by the Python types of values, not by the types in the schema: `validation` reports wrong types later,
with all other errors. Each part of a schema is compiled for its first value.

Sources: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/{pruning,defaulting,objectmeta}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

import orjson

from apiserver.custom_resources.schemas import numbers
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.custom_resources.schemas.paths import MapKey, Path, bracketed, plain
from apiserver.golang.formatting import go_type
from apiserver.meta.field_errors import invalid, quote
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import (
    UNKNOWN_FIELDS_MAX,
    CheckedDocument,
    CompiledSchema,
    TypeMismatch,
    compile_schema,
)
from apiserver.schema.extensions import Extensions
from apiserver.schema.structural import Schema

# By its defaults `[{}, {}, …]` may become much longer than any object that can be stored.
DEFAULTS_BYTES_MAX: Final = 8 * 1024 * 1024
_META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_TOO_DEEP: Final = "json: exceeded max depth"
# The schema of values without one: they have no fields, but may be null.
_NO_SCHEMA: Final = {"nullable": True}
_Visit: TypeAlias = "Callable[[Any, Path | None, _Report], None]"


class Pruner:
    """Prunes documents of one schema and sets defaults in them, in place.

    meta: the schema of metadata, which all custom resources share.
    keeps_unknown: whether unknown fields are kept everywhere except in metadata.
    """

    def __init__(
        self, schema: JSONSchema, extensions: Extensions, meta: Schema, *, keeps_unknown: bool = False
    ) -> None:
        self._meta, self._prunes = meta, not keeps_unknown
        self._root = _Field({**schema, extensions.embedded_resource: True}, _Context(extensions, meta))

    def __call__(self, document: Document, *, is_merged: bool = False) -> list[str]:
        """Prunes a document; returns the paths of the removed unknown fields.

        is_merged: see `registry.served_resource.SchemaCheck`.
        Raises TypeMismatch for wrong types in metadata, and of apiVersion and kind; `SchemaValidator` reports
        all others.
        """
        for name in ("apiVersion", "kind"):
            if name in document and type(document[name]) is not str:
                value = document[name]
                raise TypeMismatch(
                    f".{name} accessor error: {quote(value)} is of the type {go_type(value)}, expected string"
                )
        report = _Report(prunes=self._prunes, coerces=True, keeps_null=is_merged)
        in_metadata = []
        if "metadata" in document:
            if document["metadata"] is None:
                document["metadata"] = {}
            found = _compiled(self._meta)(document["metadata"])
            in_metadata = [f"metadata.{path}" for path in found]
        self._run(document, report)
        return in_metadata + sorted(report.unknown) + sorted(report.in_metadata)

    def checked(self, document: Document, *, is_merged: bool = False) -> CheckedDocument:
        """Returns the removed fields, with no emptied values, as this schema empties none."""
        return CheckedDocument(self(document, is_merged=is_merged))

    def prune(self, document: Document, *, keeps_null: bool = False) -> bool:
        """Prune a converted object, except its metadata; fields with defaults stay null.

        keeps_null: whether other fields stay null, too. Returns whether the object has changed. Raises
            TypeMismatch.
        """
        report = _Report(prunes=self._prunes, coerces=False, defaults=False, keeps_null=keeps_null)
        return self._run(document, report)

    def prune_and_default(self, document: Document) -> bool:
        """Prune a stored object and set defaults by the current schema, except in its metadata.

        Returns whether the object has changed. Raises TypeMismatch.
        """
        return self._run(document, _Report(prunes=self._prunes, coerces=False))

    def _run(self, document: Document, report: _Report) -> bool:
        try:
            self._root.visit_object(document, None, report)
        except RecursionError:
            raise TypeMismatch(_TOO_DEEP) from None
        return report.has_changed


class _Report:
    """The options and the report of one pass over a document.

    prunes: whether it removes unknown fields. coerces: whether it checks the metadata of embedded resources.
    defaults: whether it sets defaults. keeps_null: whether it keeps a null that the schema neither allows nor
        has a default for.
    """

    __slots__ = (
        "coerces",
        "defaults",
        "has_changed",
        "in_metadata",
        "keeps_null",
        "prunes",
        "set_bytes",
        "unknown",
    )

    def __init__(
        self, *, prunes: bool, coerces: bool, defaults: bool = True, keeps_null: bool = False
    ) -> None:
        self.prunes, self.coerces, self.defaults, self.keeps_null = prunes, coerces, defaults, keeps_null
        self.unknown: list[str] = []
        self.in_metadata: list[str] = []
        self.has_changed = False
        self.set_bytes = 0

    def add_unknown(self, path: Path) -> None:
        if len(self.unknown) < UNKNOWN_FIELDS_MAX:
            self.unknown.append(plain(path))


class _Context:
    __slots__ = ("extensions", "meta")

    def __init__(self, extensions: Extensions, meta: Schema) -> None:
        self.extensions, self.meta = extensions, meta


class _Field:
    """A field, item or additional property: its default, and the visits of objects and lists in it.

    The visits are compiled on first use, as most fields need none.
    """

    __slots__ = (
        "_context",
        "_default_bytes",
        "_keeps_unknown",
        "_schema",
        "default",
        "is_nullable",
        "visit_list",
        "visit_object",
    )
    visit_list: _Visit
    visit_object: _Visit

    def __init__(self, schema: JSONSchema, context: _Context, *, keeps_unknown: bool = False) -> None:
        self._schema, self._context, self._keeps_unknown = schema, context, keeps_unknown
        self.default = schema.get("default")
        self.is_nullable = bool(schema.get("nullable"))
        self._default_bytes = 0

    def __getattr__(self, name: str) -> _Visit:
        compiled = _COMPILERS[name](self._schema, self._context, keeps_unknown=self._keeps_unknown)
        setattr(self, name, compiled)
        return compiled

    def visit(self, value: Any, path: Path, report: _Report) -> Any:
        """Visits a value that is not a string, an integer or a boolean; returns its replacement."""
        if value is None and self.default is not None and not self.is_nullable and report.defaults:
            value = self.new_default(report)
        kind = type(value)
        if kind is dict:
            self.visit_object(value, path, report)
        elif kind is list:
            self.visit_list(value, path, report)
        elif kind is float:
            return _normal_number(value, report)
        return value

    def new_default(self, report: _Report) -> Any:
        """Returns a copy of the default, since the caller changes it. Raises TypeMismatch."""
        try:
            self._default_bytes = self._default_bytes or len(orjson.dumps(self.default))
        except TypeError:
            raise TypeMismatch(_TOO_DEEP) from None
        report.set_bytes += self._default_bytes
        if report.set_bytes > DEFAULTS_BYTES_MAX:
            raise TypeMismatch(f"the defaults of the object have more than {DEFAULTS_BYTES_MAX} bytes")
        report.has_changed = True
        return _deep_copy(self.default)


def _object_visit(schema: JSONSchema, context: _Context, *, keeps_unknown: bool) -> _Visit:
    keeps_unknown = keeps_unknown or bool(schema.get(context.extensions.preserve_unknown_fields))
    is_resource = bool(schema.get(context.extensions.embedded_resource))
    fields = {
        name: _Field(each, context, keeps_unknown=is_resource and name in _META_FIELDS)
        for name, each in (schema.get("properties") or {}).items()
    }
    other = _additional_field(schema.get("additionalProperties"), context)
    defaults = [(name, field) for name, field in fields.items() if field.default is not None]
    known = fields.get

    def visit(value: Document, path: Path | None, report: _Report) -> None:
        if is_resource and report.coerces and path is not None:
            _coerce(value, path, fields, context.meta, report)
        if report.defaults:
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
                        report.add_unknown((path, name))
                    else:
                        value[name] = _normalised(child, report)
                    continue
            kind = type(child)
            if kind is str or kind is int or kind is bool:
                continue
            if child is None and place.default is None and not (place.is_nullable or report.keeps_null):
                removed.append(name)
                continue
            below = (path, MapKey(name) if place is other else name)
            if kind is dict:  # as in lists
                place.visit_object(child, below, report)
            elif (visited := place.visit(child, below, report)) is not child:
                value[name] = visited
        for name in removed:
            del value[name]
            report.has_changed = True

    return visit


def _list_visit(schema: JSONSchema, context: _Context, *, keeps_unknown: bool) -> _Visit:
    keeps_unknown = keeps_unknown or bool(schema.get(context.extensions.preserve_unknown_fields))
    items = schema.get("items")
    if not isinstance(items, Mapping):
        if keeps_unknown:
            return lambda value, path, report: _normalise_members(value, report)
        items = _NO_SCHEMA
    place = _Field(items, context, keeps_unknown=keeps_unknown)

    def visit(value: list[Any], path: Path | None, report: _Report) -> None:
        for index, child in enumerate(value):
            kind = type(child)
            if kind is dict:  # without a call more for the most of them
                place.visit_object(child, (path, index), report)
            elif kind is not str and kind is not int and kind is not bool:
                value[index] = place.visit(child, (path, index), report)

    return visit


class _Compiler(Protocol):
    def __call__(self, schema: JSONSchema, context: _Context, *, keeps_unknown: bool) -> _Visit: ...


_COMPILERS: Final[Mapping[str, _Compiler]] = {"visit_object": _object_visit, "visit_list": _list_visit}


def _additional_field(schema: Any, context: _Context) -> _Field | None:
    if isinstance(schema, Mapping):
        return _Field(schema, context)
    return _Field(_NO_SCHEMA, context) if schema is True else None


def _coerce(
    resource: Document, path: Path, fields: Mapping[str, _Field], meta: Schema, report: _Report
) -> None:
    """Check apiVersion, kind and metadata of an embedded resource. Raises TypeMismatch."""

    def is_kept(name: str) -> bool:
        return name in resource and not (resource[name] is None and name in fields)

    # Validation reports the errors in the result of an apply.
    for name in () if report.keeps_null else ("apiVersion", "kind"):
        if is_kept(name) and type(resource[name]) is not str:
            raise TypeMismatch(str(invalid(bracketed((path, name)), resource[name], "must be a string")))
    if not is_kept("metadata"):
        return
    if resource["metadata"] is None:
        resource["metadata"] = {}
    try:
        unknown = _compiled(meta)(resource["metadata"])
    except TypeMismatch as mismatch:
        where = bracketed((path, "metadata"))
        raise TypeMismatch(str(invalid(where, resource["metadata"], str(mismatch)))) from None
    if unknown and len(report.in_metadata) < UNKNOWN_FIELDS_MAX:
        where = bracketed(path)
        report.in_metadata += [f"{where}.metadata.{each}" for each in unknown]


def _normal_number(value: float, report: _Report) -> float:
    """Returns an integral float as an integer, as JSON has it without a fraction and reads it as an
    integer.
    """
    if value.is_integer() and -numbers.SAFE_MAX <= value <= numbers.SAFE_MAX:
        report.has_changed = True
        return int(value)
    return value


def _normalised(value: Any, report: _Report) -> Any:
    """Returns a value without a schema, with all integral floats in it replaced."""
    kind = type(value)
    if kind is float:
        return _normal_number(value, report)
    if kind is dict or kind is list:
        _normalise_members(value, report)
    return value


def _normalise_members(value: Document | list[Any], report: _Report) -> None:
    todo: list[Any] = [value]
    while todo:
        each = todo.pop()
        for name, child in each.items() if type(each) is dict else enumerate(each):
            kind = type(child)
            if kind is float:
                each[name] = _normal_number(child, report)
            elif kind is dict or kind is list:
                todo.append(child)


def _deep_copy(value: Any) -> Any:
    if type(value) is dict:
        return {name: _deep_copy(child) for name, child in value.items()}
    return [_deep_copy(child) for child in value] if type(value) is list else value


@lru_cache(maxsize=8)
def _compiled(meta: Schema) -> CompiledSchema:
    return compile_schema(meta)
