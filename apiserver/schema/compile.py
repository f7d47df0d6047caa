"""A schema as one walk over a document: checks types, prunes what is unknown, sets defaults, normalises.

Normalising makes documents look as Kubernetes shows them, whatever way a client wrote them: null is the
same as absent; what is empty is left out or put in as the Go type has it (`schema.go_fields`); times are in
UTC, quantities in their canonical form. Errors have the texts that Go's decoder gives, because people and
scripts know them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from apiserver.meta.quantity import InvalidQuantity, canonical_quantity
from apiserver.schema.go_fields import GoField, fields_of
from apiserver.schema.structural import Kind, Schema
from apiserver.vocabulary import Document

# Nobody needs to know where a value stands until something is found in it: that learns it on the way out.
_Walk: TypeAlias = Callable[[Any, "_Report"], Any]
# The way to what was found, the innermost step first: a name or a key, or a list's index.
_Steps: TypeAlias = list[str | int]
# Completes a checked value of one definition, in place: what is inside of it is complete by then, and what Go
# shows when it is empty is there.
Default: TypeAlias = Callable[[Document], None]
# More are not reported: the answer has to end somewhere.
UNKNOWN_FIELDS_MAX: Final = 1_000
# In lists and maps of one document, where `{}` may become a long object with all that Go shows and sets. The
# largest object that can be stored has fewer.
STRUCTS_MAX: Final = 100_000


class _Report:
    """What a walk finds.

    unknown: the fields that have been removed from the value that was walked last; whoever is around it
        takes them. structs: how many there are in lists and maps.
    """

    __slots__ = ("_told", "structs", "unknown")

    def __init__(self) -> None:
        self.unknown: list[_Steps] | None = None
        self.structs = 0
        self._told = 0

    def add(self, unknown: list[_Steps] | None, name: str) -> list[_Steps]:
        """The unknown fields of a struct, with one more."""
        if unknown is None:
            unknown = []
        if self._told < UNKNOWN_FIELDS_MAX:
            self._told += 1
            unknown.append([name])
        return unknown

    def take(self, unknown: list[_Steps] | None, step: str | int) -> list[_Steps]:
        """The unknown fields of a struct, a list or a map, with those of what stands in it at a step."""
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
    """A value is not of the type that its field has; the message is the client's."""


class SchemaCompiler:
    """Walks of schemas that share definitions: what is compiled for one serves all.

    defaults: by definition, as `io.k8s.api.core.v1.Container`.
    """

    def __init__(self, defaults: Mapping[str, Default] = MappingProxyType({})) -> None:
        self._compiler = _Compiler(defaults)

    def of(self, schema: Schema) -> Walk:
        return Walk(schema, self._compiler)


class Walk:
    """Checks, prunes and completes documents of one schema. Documents are changed in place."""

    def __init__(self, schema: Schema, compiler: _Compiler | None = None) -> None:
        self._walk = (compiler or _Compiler({})).walk(schema)

    def __call__(self, document: dict[str, Any]) -> list[str]:
        """The paths of the fields that were unknown and have been removed.

        Raises TypeMismatch.
        """
        report = _Report()
        try:
            self._walk(document, report)
        except _Mismatch as mismatch:
            raise TypeMismatch(mismatch.text()) from None
        except RecursionError:
            raise TypeMismatch("json: exceeded max depth") from None
        return [_text(steps) for steps in report.unknown or ()]


class _Mismatch(Exception):
    """names: of the fields that lead to the value, the innermost first. struct: the innermost around it.

    is_apart: what is around the value does not count any more.
    """

    def __init__(self, value: object, schema: Schema, literal: str = "") -> None:
        super().__init__()
        self.value, self.schema, self.literal = value, schema, literal
        self.names: list[str] = []
        self.struct = ""
        self.is_apart = False

    def leave(self, struct: str, name: str) -> None:
        """Tell of a struct around the value, and of its field; from the inside to the outside."""
        self.struct = self.struct or struct
        if not self.is_apart:
            self.names.append(name)

    def text(self) -> str:
        found = f"{json_type(self.value)} {self.literal}".strip()
        if not self.struct:
            return f"json: cannot unmarshal {found} into Go value of type {self.schema.go_type}"
        return (
            f"json: cannot unmarshal {found} into Go struct field {self.struct}.{'.'.join(self.names[::-1])} "
            f"of type {self.schema.go_type}"
        )


class _Malformed(_Mismatch):
    """A text that does not have its format; the message stands alone."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self)
        self.message = message

    def leave(self, struct: str, name: str) -> None:
        pass

    def text(self) -> str:
        return self.message


# What values of these kinds are, as they come and as they stay.
_PLAIN: Final[Mapping[Kind, type]] = {
    Kind.STRING: str,
    Kind.BOOLEAN: bool,
    Kind.INT_OR_STRING: str,
}
# Kinds whose empty value Go leaves out of JSON; all others it shows.
_OMITTED_IF_EMPTY: Final = frozenset(
    {Kind.MAP, Kind.LIST, Kind.STRING, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.BYTES}
)
_only_strings = frozenset({str}).issuperset
# How Go shows a value of a kind that nobody has set.
_ZERO_VALUES: Final[Mapping[Kind, Any]] = {
    Kind.STRING: "",
    Kind.INTEGER: 0,
    Kind.NUMBER: 0,
    Kind.BOOLEAN: False,
    Kind.QUANTITY: "0",
    Kind.INT_OR_STRING: 0,
}
# Since release 1.34 its creation time, too, is left out where there is none.
_ENCODES_NOTHING_UNSET: Final = frozenset({"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"})


class _Compiler:
    def __init__(self, defaults: Mapping[str, Default]) -> None:
        self._defaults = defaults
        # By id of the schema, which is kept, too, so that no other gets its id.
        self._walks: dict[int, _Walk] = {}
        self._schemas: list[Schema] = []

    def walk(self, schema: Schema) -> _Walk:
        done = self._walks.get(id(schema))
        if done is None:
            self._schemas.append(schema)
            # A recursive schema meets itself here before its walk exists.
            self._walks[id(schema)] = lambda value, report: self._walks[id(schema)](value, report)
            done = self._walks[id(schema)] = self._compile(schema)
        return done

    def _compile(self, schema: Schema) -> _Walk:
        match schema.kind:
            case Kind.STRUCT:
                return self._struct(schema)
            case Kind.MAP:
                return self._map(schema)
            case Kind.LIST:
                return self._list(schema)
            case Kind.EITHER:
                return self._either(schema)
            case kind:
                return _SCALAR_WALKS[kind](schema)

    def _struct(self, schema: Schema) -> _Walk:
        go_fields = fields_of(schema.definition, schema.vendor)
        # Of each field: the type of values that need no walk, the walk of all others, and what is done with
        # what is empty.
        fields = {
            name: (
                _PLAIN.get(child.kind),
                self.walk(child),
                _is_omitted_if_empty(name, child, schema, go_fields),
            )
            for name, child in schema.fields.items()
        }
        shown = self._shown(schema, go_fields)
        name_of_struct = schema.struct_name
        complete = self._defaults.get(schema.definition)

        def walk(value: Any, report: _Report) -> Any:
            if type(value) is not dict:
                raise _Mismatch(value, schema)
            removed: list[str] | None = None
            unknown: list[_Steps] | None = None
            for name, child in value.items():
                try:
                    plain, walk_field, is_omitted_if_empty = fields[name]
                except KeyError:
                    unknown = report.add(unknown, name)
                    plain, child = None, None  # removed, like what is null
                if type(child) is plain:
                    if child or not is_omitted_if_empty:
                        continue
                elif child is not None:
                    try:
                        checked = walk_field(child, report)
                    except _Mismatch as mismatch:
                        mismatch.leave(name_of_struct, name)
                        raise
                    if report.unknown is not None:
                        unknown = report.take(unknown, name)
                    if checked is not child:
                        value[name] = checked
                    if checked or not is_omitted_if_empty:
                        continue
                if removed is None:
                    removed = []
                removed.append(name)
            if removed is not None:
                for name in removed:
                    del value[name]
            for name, empty in shown:
                if name not in value:
                    value[name] = empty({}, report) if callable(empty) else empty
            if complete is not None:
                complete(value)
            if unknown is not None:
                report.unknown = unknown
            return value

        return walk

    def _shown(self, schema: Schema, go_fields: Mapping[str, GoField]) -> list[tuple[str, Any]]:
        """The fields that are there even if nobody sets them: an empty value, or the walk of a struct."""
        shown: list[tuple[str, Any]] = []
        if schema.definition in _ENCODES_NOTHING_UNSET:
            return shown
        for name, child in schema.fields.items():
            go_field = go_fields.get(name)
            if go_field is None:
                continue
            if child.kind in _OMITTED_IF_EMPTY or go_field.is_pointer:
                if go_field.encodes_zero:
                    shown.append((name, None if go_field.is_pointer else _ZERO_VALUES.get(child.kind)))
            elif child.kind is Kind.STRUCT:
                shown.append((name, self.walk(child)))
            elif child.kind in _ZERO_VALUES or child.kind in (Kind.TIME, Kind.MICRO_TIME):
                shown.append((name, _ZERO_VALUES.get(child.kind)))
        return shown

    def _map(self, schema: Schema) -> _Walk:
        assert schema.element is not None
        element = self.walk(schema.element)
        zero = _zero_of_null(schema.element, element)
        has_structs = schema.element.kind is Kind.STRUCT
        has_strings = schema.element.kind is Kind.STRING

        def walk(value: Any, report: _Report) -> Any:
            if type(value) is not dict:
                raise _Mismatch(value, schema)
            if has_strings and _only_strings(map(type, value.values())):
                return value
            if has_structs:
                report.count(len(value))
            unknown: list[_Steps] | None = None
            for key, child in value.items():
                checked = zero() if child is None else element(child, report)
                if checked is not child:
                    value[key] = checked
                if report.unknown is not None:
                    unknown = report.take(unknown, key)
            if unknown is not None:
                report.unknown = unknown
            return value

        return walk

    def _list(self, schema: Schema) -> _Walk:
        assert schema.element is not None
        element = self.walk(schema.element)
        zero = _zero_of_null(schema.element, element)
        has_structs = schema.element.kind is Kind.STRUCT
        has_strings = schema.element.kind is Kind.STRING

        def walk(value: Any, report: _Report) -> Any:
            if type(value) is not list:
                raise _Mismatch(value, schema)
            if has_strings and _only_strings(map(type, value)):
                return value
            if has_structs:
                report.count(len(value))
            unknown: list[_Steps] | None = None
            for index, child in enumerate(value):
                checked = zero() if child is None else element(child, report)
                if checked is not child:
                    value[index] = checked
                if report.unknown is not None:
                    unknown = report.take(unknown, index)
            if unknown is not None:
                report.unknown = unknown
            return value

        return walk

    def _either(self, schema: Schema) -> _Walk:
        """A value is decoded on its own, as Go does: messages begin with it, and strictness ends before it.

        A list that is empty, or no list, is neither: Go shows null.
        """
        assert schema.element is not None
        assert schema.other is not None
        as_object, as_other = self.walk(schema.element), self.walk(schema.other)
        is_list = schema.other.kind is Kind.LIST

        def walk(value: Any, report: _Report) -> Any:
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
            inside = _Report()
            inside.structs = report.structs
            try:
                checked = walk_inside(value, inside)
            except _Mismatch as mismatch:
                mismatch.is_apart = True
                raise
            report.structs = inside.structs
            return checked

        return walk


def empty(schema: Schema) -> Document:
    """A struct with nothing set, as Go shows it, without defaults."""
    shown: Document = {}
    if schema.definition in _ENCODES_NOTHING_UNSET:
        return shown
    for name, go_field in fields_of(schema.definition, schema.vendor).items():
        child = schema.fields.get(name)
        if child is None:
            continue
        if child.kind in _OMITTED_IF_EMPTY or go_field.is_pointer:
            if go_field.encodes_zero:
                shown[name] = None if go_field.is_pointer else _ZERO_VALUES.get(child.kind)
        elif child.kind is Kind.STRUCT:
            shown[name] = empty(child)
        elif child.kind in _ZERO_VALUES or child.kind in (Kind.TIME, Kind.MICRO_TIME):
            shown[name] = _ZERO_VALUES.get(child.kind)
    return shown


def _is_omitted_if_empty(name: str, field: Schema, struct: Schema, go_fields: Mapping[str, GoField]) -> bool:
    go_field = go_fields.get(name)
    if go_field is None:
        return field.kind in (Kind.MAP, Kind.LIST) and name not in struct.required
    if field.kind in (Kind.LIST, Kind.MAP):
        # Kubernetes keeps objects in protobuf, where an empty one is none: it comes back as null, if at all.
        return not go_field.is_pointer
    return field.kind in _OMITTED_IF_EMPTY and not go_field.is_pointer and not go_field.encodes_zero


# ---- scalars


def _of_type(*types: type) -> Callable[[Schema], _Walk]:
    def compiled(schema: Schema) -> _Walk:
        def walk(value: Any, report: _Report) -> Any:
            if type(value) not in types:
                raise _Mismatch(value, schema)
            return value

        return walk

    return compiled


def _string(schema: Schema) -> _Walk:
    def walk(value: Any, report: _Report) -> Any:
        if type(value) is not str:
            raise _Mismatch(value, schema)
        return value

    return walk


def _bounds(schema: Schema) -> tuple[int, int]:
    """The least and the greatest whole number that a schema's bits can hold."""
    return -(1 << (schema.bits - 1)), (1 << (schema.bits - 1)) - 1


def _integer(schema: Schema) -> _Walk:
    low, high = _bounds(schema)

    def walk(value: Any, report: _Report) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        literal = f"{value}" if type(value) in (int, float) else ""
        raise _Mismatch(value, schema, literal)

    return walk


# Up to here JSON has the whole number that a floating-point number is; beyond, Go has an exponent.
_WHOLE_MAX: Final = float(1 << 63)


def _number(schema: Schema) -> _Walk:
    """Go's float64, which is shown without a fraction if it has none."""

    def walk(value: Any, report: _Report) -> Any:
        if type(value) not in (int, float):
            raise _Mismatch(value, schema)
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < _WHOLE_MAX else number

    return walk


def _int_or_string(schema: Schema) -> _Walk:
    """Go's IntOrString: its number has 32 bits."""

    def walk(value: Any, report: _Report) -> Any:
        if type(value) is str or (type(value) is int and -(1 << 31) <= value < 1 << 31):
            return value
        literal = f"{value}" if type(value) is int else ""
        raise _Mismatch(value, schema, literal)

    return walk


def _any(_: Schema) -> _Walk:
    return lambda value, report: value


_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=\r\n]")


def _bytes(schema: Schema) -> _Walk:
    def walk(value: Any, report: _Report) -> Any:
        if type(value) is not str:
            raise _Mismatch(value, schema)
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            # Go's decoder, like MIME's, does not mind line breaks.
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
    """timespec: seconds, which takes and drops fractions, or microseconds, which must be there."""
    is_micro = timespec == "microseconds"
    layout = "2006-01-02T15:04:05.000000Z07:00" if is_micro else "2006-01-02T15:04:05Z07:00"
    is_rfc3339 = (_RFC3339_MICRO if is_micro else _RFC3339).fullmatch

    def compiled(schema: Schema) -> _Walk:
        def walk(value: Any, report: _Report) -> Any:
            if type(value) is not str:
                raise _Mismatch(value, schema)
            if not is_micro and _UTC.fullmatch(value):
                return value  # as this server writes it
            try:
                if not is_rfc3339(value):
                    raise ValueError(value)
                moment = datetime.fromisoformat(value).astimezone(UTC)
            except (ValueError, OverflowError):
                shown = f'"{value}"'
                raise _Malformed(f'parsing time {shown} as "{layout}": cannot parse {shown}') from None
            return moment.isoformat(timespec=timespec).replace("+00:00", "Z")

        return walk

    return compiled


_DATE_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_ZONE: Final = r"(?:Z|[+-]\d\d:\d\d)"
_RFC3339: Final = re.compile(rf"{_DATE_TIME}(?:\.\d{{1,9}})?{_ZONE}", re.ASCII)
_RFC3339_MICRO: Final = re.compile(rf"{_DATE_TIME}\.\d{{6}}{_ZONE}", re.ASCII)
# Days that every month has; others are looked up in the calendar.
_UTC: Final = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII
)


def _quantity(schema: Schema) -> _Walk:
    def walk(value: Any, report: _Report) -> Any:
        if type(value) is not str:
            if type(value) not in (int, float):
                raise _Mismatch(value, schema)
            value = f"{value}"
        try:
            return canonical_quantity(value)
        except InvalidQuantity as error:
            raise _Malformed(str(error)) from None

    return walk


_SCALAR_WALKS: Final[dict[Kind, Callable[[Schema], _Walk]]] = {
    Kind.STRING: _string,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _of_type(bool),
    Kind.BYTES: _bytes,
    Kind.TIME: _time("seconds"),
    Kind.MICRO_TIME: _time("microseconds"),
    Kind.INT_OR_STRING: _int_or_string,
    Kind.QUANTITY: _quantity,
    Kind.ANY: _any,
    Kind.ANY_OBJECT: _of_type(dict),
}


def _zero_of_null(schema: Schema, walk: _Walk) -> Callable[[], Any]:
    """What a null in a list or a map stands for: the empty value of its type."""
    match schema.kind:
        case Kind.STRUCT:
            return lambda: walk({}, _Report())
        case Kind.MAP | Kind.ANY_OBJECT:
            return dict
        case Kind.LIST:
            return list
        case Kind.INTEGER | Kind.NUMBER | Kind.INT_OR_STRING:
            return int
        case Kind.BOOLEAN:
            return bool
        case Kind.ANY | Kind.EITHER:
            return lambda: None
        case Kind.QUANTITY:
            return lambda: "0"
        case _:
            return str


# ---- texts


def json_type(value: object) -> str:
    """The kind of a decoded value, as Go's messages call it."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _text(steps: _Steps) -> str:
    """`spec.containers[0].name`."""
    text = ""
    for step in reversed(steps):
        text += f"[{step}]" if type(step) is int else f".{step}" if text else f"{step}"
    return text
