"""Compiles a schema to one walk over a document that checks types, prunes, sets defaults and normalizes.

Normalized documents are as kube-apiserver encodes them, however a client wrote them: null is the same as
absent; empty values are omitted or added as the Go type does (`schema.go_fields`); times are in UTC, Go's
zero time is null; quantities are in their canonical form. Errors have the texts of Go's decoder, which users
and scripts know.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.golang.formatting import json_type
from apiserver.golang.times import ZERO_MICRO_TIME, ZERO_TIME, FarTime, InvalidTime, parse_time, time_text
from apiserver.golang.whole_numbers import is_whole, make_whole
from apiserver.meta.field_errors import field_below, item_below
from apiserver.meta.quantity import InvalidQuantity, canonical_quantity, quantity_text
from apiserver.meta.vocabulary import Document
from apiserver.schema.go_fields import FieldPaths, GoField, empty_is_set, fields_of
from apiserver.schema.structural import Schema, ValueKind

# Walks do not pass paths down: an error or an unknown field collects its path on the way out.
_Walk: TypeAlias = Callable[[Any, "WalkReport"], Any]
# A path, with the innermost step first: a name or key, or a list's index.
_Steps: TypeAlias = list[str | int]
# Sets the defaults in a checked value of one definition, in place, after those of the values in it. The zero
# values that Go encodes are set by then.
Default: TypeAlias = Callable[[Document], None]
# More are not reported: the response has to end somewhere.
UNKNOWN_FIELDS_MAX: Final = 1_000
# The structs in lists and maps of one document, where `{}` may become a long object by zero values and
# defaults. The largest object that can be stored has fewer.
STRUCTS_MAX: Final = 100_000


class WalkReport:
    """The report of one walk over a document.

    is_merged: whether the document was made from maps, and not from JSON: a whole number is an integer
        however it is written.
    unknown: the fields that were removed from the last walked value; the walk of the enclosing value takes
        them. structs: the number of structs in lists and maps.
    emptied: see `CheckedDocument`.
    """

    __slots__ = ("_unknown_count", "emptied", "is_merged", "structs", "unknown")

    def __init__(self, *, is_merged: bool = False) -> None:
        self.is_merged = is_merged
        self.emptied: list[tuple[Document, str]] = []
        self.unknown: list[_Steps] | None = None
        self.structs = 0
        self._unknown_count = 0

    def add(self, unknown: list[_Steps] | None, name: str) -> list[_Steps]:
        """Returns the unknown fields of a struct with one more."""
        if unknown is None:
            unknown = []
        if self._unknown_count < UNKNOWN_FIELDS_MAX:
            self._unknown_count += 1
            unknown.append([name])
        return unknown

    def take(self, unknown: list[_Steps] | None, step: str | int) -> list[_Steps]:
        """Returns the unknown fields of a struct, list or map with those of the value at a step in it."""
        if unknown is None:
            unknown = []
        for steps in self.unknown or ():
            steps.append(step)
            unknown.append(steps)
        self.unknown = None
        return unknown

    def count(self, structs: int) -> None:
        self.structs += structs
        if self.structs > STRUCTS_MAX:
            raise _Malformed(f"json: exceeded max number of objects in lists {STRUCTS_MAX}")


class TypeMismatch(Exception):
    """A value does not have the type of its field. The message is for the client."""


class CheckedDocument(NamedTuple):
    """The parts that a check removed from a document.

    unknown: the paths of unknown fields.
    emptied: the fields that are null instead of an empty list or map, each with its struct. Go's JSON would
        show them; Kubernetes loses them when it stores the object.
    """

    unknown: list[str]
    emptied: Sequence[tuple[Document, str]] = ()


class CompiledSchema:
    """Checks, prunes and completes documents of one schema, in place."""

    __slots__ = ("_walk",)

    def walk(self, value: Any) -> None:
        """Check a value within a document, without reporting unknown fields. Raises Mismatch."""
        self._walk(value, WalkReport())

    def __init__(self, walk: _Walk) -> None:
        self._walk = walk

    def __call__(self, document: Any, *, is_merged: bool = False) -> list[str]:
        """Check a document, and return the paths of its unknown fields. Raises TypeMismatch."""
        return self.checked(document, is_merged=is_merged).unknown

    def checked(self, document: Any, *, is_merged: bool = False) -> CheckedDocument:
        """Check a document, and return the parts that were removed from it. Raises TypeMismatch.

        is_merged: see `served_resource.SchemaCheck`.
        """
        report = WalkReport(is_merged=is_merged)
        try:
            self._walk(document, report)
        except Mismatch as mismatch:
            raise TypeMismatch(mismatch.text()) from None
        except RecursionError:
            raise TypeMismatch("json: exceeded max depth") from None
        unknown = report.unknown
        return CheckedDocument([_path_text(steps) for steps in unknown] if unknown else [], report.emptied)


class Mismatch(Exception):
    """A value does not have the type of its schema.

    names: those of the fields that lead to the value, the innermost first. struct: the innermost struct
        around it.
    is_apart: whether the value was decoded separately, so that the fields around it are not in the path.
    """

    def __init__(self, value: object, schema: Schema, literal: str = "") -> None:
        super().__init__()
        self.value, self.schema, self.literal = value, schema, literal
        self.names: list[str] = []
        self.struct = ""
        self.is_apart = False

    def add_parent(self, struct: str, name: str) -> None:
        """Add an enclosing struct and its field to the path; called from the inside out."""
        self.struct = self.struct or struct
        if not self.is_apart:
            self.names.append(name)

    def text(self) -> str:
        value = f"{json_type(self.value)} {self.literal}".strip()
        if not self.struct:
            return f"json: cannot unmarshal {value} into Go value of type {self.schema.go_type}"
        return (
            f"json: cannot unmarshal {value} into Go struct field {self.struct}.{'.'.join(self.names[::-1])} "
            f"of type {self.schema.go_type}"
        )


class _Malformed(Mismatch):
    """A string that does not have its format. The message has no path."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self)
        self.message = message

    def add_parent(self, struct: str, name: str) -> None:
        pass

    def text(self) -> str:
        return self.message


# The Python types of values that need no walk, by kind.
PLAIN: Final[Mapping[ValueKind, type]] = {
    ValueKind.STRING: str,
    ValueKind.BOOLEAN: bool,
    ValueKind.INT_OR_STRING: str,
}
# Kinds whose zero value Go omits from JSON; those of all others are encoded.
_OMITTED_IF_EMPTY: Final = frozenset(
    {
        ValueKind.MAP,
        ValueKind.LIST,
        ValueKind.STRING,
        ValueKind.INTEGER,
        ValueKind.NUMBER,
        ValueKind.BOOLEAN,
        ValueKind.BYTES,
    }
)
_only_strings = frozenset({str}).issuperset
# The zero values that Go encodes.
_ZERO_VALUES: Final[Mapping[ValueKind, Any]] = {
    ValueKind.STRING: "",
    ValueKind.INTEGER: 0,
    ValueKind.NUMBER: 0,
    ValueKind.BOOLEAN: False,
    ValueKind.QUANTITY: "0",
    ValueKind.INT_OR_STRING: 0,
}
# Since release 1.34 an unset creation time, too, is omitted.
_ENCODES_NOTHING_UNSET: Final = frozenset({"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"})


class SchemaCompiler:
    """Compiles schemas that share definitions; each definition is compiled once. Thread-safe.

    defaults: by definition, as `io.k8s.api.core.v1.Container`.
    """

    def __init__(self, defaults: Mapping[str, Default] = MappingProxyType({})) -> None:
        self._defaults = defaults
        self._walks: dict[Schema, _Walk] = {}

    def compile(self, schema: Schema) -> CompiledSchema:
        found = self._walks.get(schema)
        if found is None:
            compilation = _Compilation(self._defaults, self._walks)
            found = compilation.walk_of(schema)
            # Only now: another thread must not get a walk that is not whole. Two may make the same.
            self._walks.update(compilation.made)
        return CompiledSchema(found)


class _Compilation:
    """Makes the walk of one schema, with those of its definitions that are not compiled yet.

    made: the walks made so far; complete once the first is.
    """

    def __init__(self, defaults: Mapping[str, Default], known: Mapping[Schema, _Walk]) -> None:
        self._defaults, self._known = defaults, known
        self.made: dict[Schema, _Walk] = {}

    def walk_of(self, schema: Schema) -> _Walk:
        made = self.made
        done = self._known.get(schema) or made.get(schema)
        if done is None:
            # A recursive schema meets itself here before its walk exists.
            made[schema] = lambda value, report: made[schema](value, report)
            done = made[schema] = self._compile(schema)
        return done

    def _compile(self, schema: Schema) -> _Walk:
        match schema.kind:
            case ValueKind.STRUCT:
                return self._struct(schema, empty_is_set(schema.definition))
            case ValueKind.MAP:
                return self._collection(schema, dict, dict.values, dict.items)
            case ValueKind.LIST:
                return self._collection(schema, list, iter, enumerate)
            case ValueKind.EITHER:
                return self._either(schema)
            case kind:
                return SCALAR_WALKS[kind](schema)

    def _struct(self, schema: Schema, empty_is_set: FieldPaths) -> _Walk:
        """Returns the walk of a struct. empty_is_set: see `go_fields.empty_is_set`."""
        go_fields = fields_of(schema.definition, schema.vendor)
        # For each field: the type of values that need no walk, the walk of all others, and whether empty
        # values are omitted.
        fields = {
            name: (
                PLAIN.get(child.kind),
                self._struct(child, below) if (below := empty_is_set.get(name)) else self.walk_of(child),
                name not in empty_is_set and _is_omitted_if_empty(name, child, schema, go_fields),
            )
            for name, child in schema.fields.items()
        }
        kept_if_empty = {
            name
            for name, child in schema.fields.items()
            if child.kind in (ValueKind.LIST, ValueKind.MAP)
            and name in go_fields
            and go_fields[name].encodes_zero
        }
        unset_fields = [
            (name, self.walk_of(value) if isinstance(value, Schema) else value)
            for name, value in _fields_encoded_unset(schema, go_fields)
        ]
        name_of_struct = schema.struct_name
        complete = self._defaults.get(schema.definition)

        def walk(value: Any, report: WalkReport) -> Any:
            if type(value) is not dict:
                raise Mismatch(value, schema)
            removed: list[str] | None = None
            unknown: list[_Steps] | None = None
            for name, child in value.items():
                try:
                    plain, walk_field, is_omitted_if_empty = fields[name]
                except KeyError:
                    unknown = report.add(unknown, name)
                    plain, child = None, None  # removed, as null is
                if type(child) is plain:
                    if child or not is_omitted_if_empty:
                        continue
                elif child is not None:
                    try:
                        checked = walk_field(child, report)
                    except Mismatch as mismatch:
                        mismatch.add_parent(name_of_struct, name)
                        raise
                    if report.unknown is not None:
                        unknown = report.take(unknown, name)
                    if checked is not child:
                        value[name] = checked
                    if checked or not is_omitted_if_empty:
                        continue
                if child is not None and name in kept_if_empty:
                    report.emptied.append((value, name))
                if removed is None:
                    removed = []
                removed.append(name)
            if removed is not None:
                for name in removed:
                    del value[name]
            for name, unset in unset_fields:
                if name not in value:
                    value[name] = unset({}, report) if callable(unset) else unset
            if complete is not None:
                complete(value)
            if unknown is not None:
                report.unknown = unknown
            return value

        return walk

    def _collection(
        self,
        schema: Schema,
        container: type[Any],
        values_of: Callable[[Any], Iterable[Any]],
        items_of: Callable[[Any], Iterable[tuple[Any, Any]]],
    ) -> _Walk:
        """Returns the walk of a map or list.

        container: its Python type. values_of: returns its values. items_of: returns them with their keys or
            indexes.
        """
        assert schema.element is not None
        walk_element = self.walk_of(schema.element)
        zero = _zero_of_null(schema.element, walk_element)
        has_structs = schema.element.kind is ValueKind.STRUCT
        has_strings = schema.element.kind is ValueKind.STRING

        def walk(value: Any, report: WalkReport) -> Any:
            if type(value) is not container:
                raise Mismatch(value, schema)
            if has_strings and _only_strings(map(type, values_of(value))):
                return value
            if has_structs:
                report.count(len(value))
            unknown: list[_Steps] | None = None
            for key, child in items_of(value):
                checked = zero() if child is None else walk_element(child, report)
                if checked is not child:
                    value[key] = checked
                if report.unknown is not None:
                    unknown = report.take(unknown, key)
            if unknown is not None:
                report.unknown = unknown
            return value

        return walk

    def _either(self, schema: Schema) -> _Walk:
        """Returns the walk of a JSON schema that may be another value instead, as `JSONSchemaPropsOrBool`.

        Go decodes it separately: paths in messages begin with it, and unknown fields in it are not reported.
        If the alternative is a list, an empty or missing list becomes null.
        """
        assert schema.element is not None
        assert schema.other is not None
        as_object, as_other = self.walk_of(schema.element), self.walk_of(schema.other)
        is_list = schema.other.kind is ValueKind.LIST

        def walk(value: Any, report: WalkReport) -> Any:
            if type(value) is dict:
                walk_inside = as_object
            elif is_list:
                if not value or type(value) is not list:
                    return None
                walk_inside = as_other
            elif type(value) is bool:
                return value
            else:
                raise _Malformed("boolean or JSON schema expected")
            inside = WalkReport(is_merged=report.is_merged)
            inside.emptied = report.emptied
            inside.structs = report.structs
            try:
                checked = walk_inside(value, inside)
            except Mismatch as mismatch:
                mismatch.is_apart = True
                raise
            report.structs = inside.structs
            return checked

        return walk


def zero_document(schema: Schema) -> Document:
    """Returns a struct with nothing set, as Go encodes it; without defaults, in the order of the Go
    fields.
    """
    go_fields = fields_of(schema.definition, schema.vendor)
    unset = dict(_fields_encoded_unset(schema, go_fields))
    return {
        name: zero_document(unset[name]) if isinstance(unset[name], Schema) else unset[name]
        for name in go_fields
        if name in unset
    }


def _fields_encoded_unset(schema: Schema, go_fields: Mapping[str, GoField]) -> Iterator[tuple[str, Any]]:
    """Returns the fields that Go encodes even if unset, with their zero values; for a struct its schema."""
    if schema.definition in _ENCODES_NOTHING_UNSET:
        return
    for name, child in schema.fields.items():
        go_field = go_fields.get(name)
        if go_field is None:
            continue
        if child.kind in _OMITTED_IF_EMPTY or go_field.is_pointer:
            if go_field.encodes_zero:
                yield name, None if go_field.is_pointer else _ZERO_VALUES.get(child.kind)
        elif child.kind is ValueKind.STRUCT:
            yield name, child
        elif child.kind in _ZERO_VALUES or child.kind in (ValueKind.TIME, ValueKind.MICRO_TIME):
            yield name, _ZERO_VALUES.get(child.kind)


def _is_omitted_if_empty(name: str, field: Schema, struct: Schema, go_fields: Mapping[str, GoField]) -> bool:
    go_field = go_fields.get(name)
    if go_field is None:
        return field.kind in (ValueKind.MAP, ValueKind.LIST) and name not in struct.required
    if field.kind in (ValueKind.LIST, ValueKind.MAP):
        # Kubernetes stores objects in protobuf, which has no empty ones: they come back as null or not at
        # all.
        return not go_field.is_pointer
    if field.kind is ValueKind.TIME:
        return not go_field.is_pointer and struct.definition in _ENCODES_NOTHING_UNSET
    return field.kind in _OMITTED_IF_EMPTY and not go_field.is_pointer and not go_field.encodes_zero


# ---- scalars


def _of_type(wanted: type) -> Callable[[Schema], _Walk]:
    def compiled(schema: Schema) -> _Walk:
        def walk(value: Any, report: WalkReport) -> Any:
            if type(value) is not wanted:
                raise Mismatch(value, schema)
            return value

        return walk

    return compiled


def _bounds(schema: Schema) -> tuple[int, int]:
    """Returns the least and the greatest integer of a schema's bits."""
    return -(1 << (schema.bits - 1)), (1 << (schema.bits - 1)) - 1


def _integer(schema: Schema) -> _Walk:
    low, high = _bounds(schema)

    def walk(value: Any, report: WalkReport) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        if report.is_merged and type(value) is float and is_whole(value) and low <= value <= high:
            return int(value)
        literal = f"{value}" if type(value) in (int, float) else ""
        raise Mismatch(value, schema, literal)

    return walk


# Up to here Go encodes an integral float without an exponent.
_WHOLE_MAX: Final = float(1 << 63)


def _number(schema: Schema) -> _Walk:
    """Returns a number as Go's float64, which is encoded without a fraction if it is integral."""

    def walk(value: Any, report: WalkReport) -> Any:
        if type(value) not in (int, float):
            raise Mismatch(value, schema)
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < _WHOLE_MAX else number

    return walk


def _int_or_string(_: Schema) -> _Walk:
    """Returns Go's IntOrString: its number has 32 bits; any other value is a string."""
    walk_number = _integer(_INT32)
    return lambda value, report: value if type(value) is str else walk_number(value, report)


_INT32: Final = Schema(ValueKind.INTEGER, "int32", bits=32)


def _any(schema: Schema) -> _Walk:
    must_be_object = schema.kind is ValueKind.ANY_OBJECT

    def walk(value: Any, report: WalkReport) -> Any:
        if must_be_object and type(value) is not dict:
            raise Mismatch(value, schema)
        if report.is_merged and (type(value) is dict or type(value) is list):
            make_whole(value)
        return value

    return walk


_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=\r\n]")


def _bytes(schema: Schema) -> _Walk:
    def walk(value: Any, report: WalkReport) -> Any:
        if type(value) is not str:
            raise Mismatch(value, schema)
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            # Go's decoder, like MIME's, ignores line breaks.
            joined = value.replace("\n", "").replace("\r", "")
            stray = _NOT_BASE64.search(value)
            try:
                base64.b64decode(joined, validate=True)
            except (binascii.Error, ValueError):
                at = stray.start() if stray else len(value) // 4 * 4
                raise _Malformed(f"illegal base64 data at input byte {at}") from None
            return joined
        return value

    return walk


def _time(timespec: str) -> Callable[[Schema], _Walk]:
    """Returns the compiler of a time.

    timespec: `seconds`, which drops fractions, or `microseconds`, which requires them.
    """
    is_micro = timespec == "microseconds"
    is_rfc3339 = (_RFC3339_MICRO if is_micro else _RFC3339).fullmatch
    zero = ZERO_MICRO_TIME if is_micro else ZERO_TIME

    def compiled(schema: Schema) -> _Walk:
        def walk(value: Any, report: WalkReport) -> Any:
            if type(value) is not str:
                if type(value) is FarTime:
                    return str(value)
                raise Mismatch(value, schema)
            if not is_micro and _UTC.fullmatch(value):
                return None if value == zero else value  # in normal form
            try:
                if not is_rfc3339(value):
                    raise ValueError(value)
                time = datetime.fromisoformat(value).astimezone(UTC)
                text = time.isoformat(timespec=timespec).replace("+00:00", "Z")
            except (ValueError, OverflowError):
                text = _lenient_time(value, is_micro=is_micro)
            return None if text == zero else text

        return walk

    return compiled


def _lenient_time(text: str, *, is_micro: bool) -> str:
    """Returns a time of any form and year that Kubernetes accepts, in normal form. Raises _Malformed."""
    try:
        time = parse_time(text, is_micro=is_micro)
    except InvalidTime as error:
        raise _Malformed(str(error)) from None
    return time_text(time.seconds, f"{time.nanoseconds // 1000:06}" if is_micro else "")


_DATE_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_ZONE: Final = r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_RFC3339: Final = re.compile(rf"{_DATE_TIME}(?:\.\d{{1,9}})?{_ZONE}", re.ASCII)
_RFC3339_MICRO: Final = re.compile(rf"{_DATE_TIME}\.\d{{6}}{_ZONE}", re.ASCII)
# All days but 29 February, which the calendar checks.
_DAY: Final = (
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_UTC: Final = re.compile(rf"\d{{4}}-{_DAY}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII)


def _quantity(schema: Schema) -> _Walk:
    def walk(value: Any, report: WalkReport) -> Any:
        if type(value) is not str:
            # Go parses the JSON of a quantity, whatever its type.
            value = quantity_text(value) if type(value) in (int, float) else ""
        try:
            return canonical_quantity(value)
        except InvalidQuantity as error:
            if (stripped := value.strip(" ")) != value:
                return walk(stripped, report)  # blanks around it are as in Go
            raise _Malformed(str(error)) from None

    return walk


SCALAR_WALKS: Final[dict[ValueKind, Callable[[Schema], _Walk]]] = {
    ValueKind.STRING: _of_type(str),
    ValueKind.INTEGER: _integer,
    ValueKind.NUMBER: _number,
    ValueKind.BOOLEAN: _of_type(bool),
    ValueKind.BYTES: _bytes,
    ValueKind.TIME: _time("seconds"),
    ValueKind.MICRO_TIME: _time("microseconds"),
    ValueKind.INT_OR_STRING: _int_or_string,
    ValueKind.QUANTITY: _quantity,
    ValueKind.ANY: _any,
    ValueKind.ANY_OBJECT: _any,
}


def _zero_of_null(schema: Schema, walk: _Walk) -> Callable[[], Any]:
    """Returns the value that a null in a list or a map represents: the zero value of its type."""
    match schema.kind:
        case ValueKind.STRUCT:
            return lambda: walk({}, WalkReport())
        case ValueKind.MAP | ValueKind.ANY_OBJECT:
            return dict
        case ValueKind.LIST:
            return list
        case ValueKind.INTEGER | ValueKind.NUMBER | ValueKind.INT_OR_STRING:
            return int
        case ValueKind.BOOLEAN:
            return bool
        case ValueKind.ANY | ValueKind.EITHER | ValueKind.TIME | ValueKind.MICRO_TIME:
            return lambda: None
        case ValueKind.QUANTITY:
            return lambda: "0"
        case _:
            return str


# ---- compiled by themselves


def compile_schema(schema: Schema) -> CompiledSchema:
    """Compile one schema without defaults."""
    return SchemaCompiler().compile(schema)


# ---- texts


def _path_text(steps: _Steps) -> str:
    """Returns a path as messages show it: `spec.containers[0].name`."""
    text = ""
    for step in reversed(steps):
        text = item_below(text, step) if isinstance(step, int) else field_below(text, step)
    return text
