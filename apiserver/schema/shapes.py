"""Compiles a schema to a check of the types in a stored document, which Go's decoder would refuse.

It is for values that another program may have written to the store. Unlike `compile`, which prepares
documents of clients for the store, it prunes nothing, sets no defaults, and skips the values that a decoder
skips: unknown fields and null. So it takes a tenth of the time, which matters when the whole store is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from apiserver.schema.compile import PLAIN, SCALAR_WALKS, Mismatch, SchemaCompiler, WalkReport
from apiserver.schema.structural import Schema, ValueKind

# Raises Mismatch.
_Check: TypeAlias = Callable[[Any], object]
# Returns what is wrong with a document, in the words of Go's decoder; empty if nothing is.
Shape: TypeAlias = Callable[[Any], str]

_only_strings = frozenset({str}).issuperset
_CONTAINERS: Final[dict[ValueKind, tuple[type, Callable[[Any], Any]]]] = {
    ValueKind.MAP: (dict, dict.values),
    ValueKind.LIST: (list, iter),
}


class ShapeCompiler:
    """Compiles schemas to type checks; definitions that they share are compiled once. Thread-safe."""

    def __init__(self) -> None:
        self._checks: dict[Schema, _Check] = {}

    def compile(self, schema: Schema) -> Shape:
        check = self._checks.get(schema)
        if check is None:
            compilation = _Compilation(self._checks)
            check = compilation.check_of(schema)
            # Only now: another thread must not get a check that is not whole. Two may make the same.
            self._checks.update(compilation.made)

        def problem(document: Any) -> str:
            try:
                check(document)
            except Mismatch as mismatch:
                return mismatch.text()
            except RecursionError:
                return "json: exceeded max depth"
            return ""

        return problem


class _Compilation:
    """Makes the check of one schema, with those of its definitions that are not compiled yet."""

    def __init__(self, known: Mapping[Schema, _Check]) -> None:
        self._known = known
        self.made: dict[Schema, _Check] = {}

    def check_of(self, schema: Schema) -> _Check:
        made = self.made
        done = self._known.get(schema) or made.get(schema)
        if done is None:
            # A recursive schema meets itself here before its check exists.
            made[schema] = lambda value: made[schema](value)
            done = made[schema] = self._compiled(schema)
        return done

    def _compiled(self, schema: Schema) -> _Check:
        match schema.kind:
            case ValueKind.STRUCT:
                return self._struct(schema)
            case ValueKind.MAP | ValueKind.LIST:
                return self._collection(schema)
            case ValueKind.EITHER:
                return SchemaCompiler().compile(schema).walk
            case kind:
                scalar = SCALAR_WALKS[kind](schema)
                report = WalkReport()
                return lambda value: scalar(value, report)

    def _struct(self, schema: Schema) -> _Check:
        # For each field: the type of values that need no check, and the check of all others.
        fields = {
            name: (PLAIN.get(child.kind), self.check_of(child)) for name, child in schema.fields.items()
        }
        find, struct = fields.get, schema.struct_name

        def check(value: Any) -> None:
            if type(value) is not dict:
                raise Mismatch(value, schema)
            for name, child in value.items():
                found = find(name)
                if found is None or child is None or type(child) is found[0]:
                    continue
                try:
                    found[1](child)
                except Mismatch as mismatch:
                    mismatch.add_parent(struct, name)
                    raise

        return check

    def _collection(self, schema: Schema) -> _Check:
        assert schema.element is not None
        container, values_of = _CONTAINERS[schema.kind]
        check_element = self.check_of(schema.element)
        has_strings = schema.element.kind is ValueKind.STRING

        def check(value: Any) -> None:
            if type(value) is not container:
                raise Mismatch(value, schema)
            if has_strings and _only_strings(map(type, values_of(value))):
                return
            for child in values_of(value):
                if child is not None:
                    check_element(child)

        return check
