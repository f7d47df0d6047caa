"""A schema as one walk over a document: checks types, prunes what is unknown, normalises.

Normalising makes documents look as Kubernetes shows them, whatever way a client wrote them: null is the
same as absent; an empty list or map is left out, unless the field is a required one; times are in UTC.
Errors have the texts that Go's decoder gives, because people and scripts know them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.schema.structural import Kind, Schema

# Where a value stands: the way from the root as links, so that a step costs nothing until it is told.
# A step is a field's name, a list's index, or a map's key wrapped in `_MapKey`.
_Path: TypeAlias = "tuple[_Path | None, str | int | _MapKey]"
_Walk: TypeAlias = Callable[[Any, "_Path | None", list[str]], Any]
# More are not reported: the answer has to end somewhere.
UNKNOWN_FIELDS_MAX: Final = 1_000


class _MapKey(str):
    __slots__ = ()


class TypeMismatch(Exception):
    """A value is not of the type that its field has; the message is the client's."""


class Walk:
    """Checks and prunes documents of one schema. Documents are changed in place."""

    def __init__(self, schema: Schema) -> None:
        self._walk = _Compiler().walk(schema)

    def __call__(self, document: dict[str, Any]) -> list[str]:
        """The paths of the fields that were unknown and have been removed.

        Raises TypeMismatch.
        """
        unknown: list[str] = []
        try:
            self._walk(document, None, unknown)
        except _Mismatch as mismatch:
            raise TypeMismatch(mismatch.text()) from None
        except RecursionError:
            raise TypeMismatch("json: exceeded max depth") from None
        return unknown


class _Mismatch(Exception):
    def __init__(self, value: object, schema: Schema, path: _Path | None, literal: str = "") -> None:
        super().__init__()
        self.value, self.schema, self.path, self.literal = value, schema, path, literal
        self.struct = ""  # the innermost struct around the value, filled in on the way out

    def text(self) -> str:
        found = f"{json_type(self.value)} {self.literal}".strip()
        if not self.struct:
            return f"json: cannot unmarshal {found} into Go value of type {self.schema.go_type}"
        names = ".".join(step for step in _steps(self.path) if type(step) is str)
        return (
            f"json: cannot unmarshal {found} into Go struct field {self.struct}.{names} "
            f"of type {self.schema.go_type}"
        )


class _Malformed(_Mismatch):
    """A text that does not have its format; the message stands alone."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self)
        self.message, self.struct = message, ""

    def text(self) -> str:
        return self.message


class _Field(NamedTuple):
    walk: _Walk
    is_omitted_if_empty: bool


class _Compiler:
    def __init__(self) -> None:
        self._walks: dict[int, _Walk] = {}  # by id of the schema, for recursive ones

    def walk(self, schema: Schema) -> _Walk:
        done = self._walks.get(id(schema))
        if done is None:
            # A recursive schema meets itself here before its walk exists.
            self._walks[id(schema)] = lambda value, path, unknown: self._walks[id(schema)](
                value, path, unknown
            )
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
            case kind:
                return _SCALAR_WALKS[kind](schema)

    def _struct(self, schema: Schema) -> _Walk:
        fields = {
            name: _Field(
                self.walk(child), child.kind in (Kind.MAP, Kind.LIST) and name not in schema.required
            )
            for name, child in schema.fields.items()
        }
        known = fields.get
        name_of_struct = schema.struct_name

        def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
            if type(value) is not dict:
                raise _Mismatch(value, schema, path)
            removed: list[str] = []
            for name, child in value.items():
                field = known(name)
                if field is None:
                    removed.append(name)
                    if len(unknown) < UNKNOWN_FIELDS_MAX:
                        unknown.append(_text((path, name)))
                elif child is None:
                    removed.append(name)
                else:
                    try:
                        checked = field.walk(child, (path, name), unknown)
                    except _Mismatch as mismatch:
                        mismatch.struct = mismatch.struct or name_of_struct
                        raise
                    if checked is not child:
                        value[name] = checked
                    if not checked and field.is_omitted_if_empty:
                        removed.append(name)
            for name in removed:
                del value[name]
            return value

        return walk

    def _map(self, schema: Schema) -> _Walk:
        assert schema.element is not None
        element, zero = self.walk(schema.element), _zero(schema.element)

        def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
            if type(value) is not dict:
                raise _Mismatch(value, schema, path)
            for key, child in value.items():
                checked = zero() if child is None else element(child, (path, _MapKey(key)), unknown)
                if checked is not child:
                    value[key] = checked
            return value

        return walk

    def _list(self, schema: Schema) -> _Walk:
        assert schema.element is not None
        element, zero = self.walk(schema.element), _zero(schema.element)

        def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
            if type(value) is not list:
                raise _Mismatch(value, schema, path)
            for index, child in enumerate(value):
                checked = zero() if child is None else element(child, (path, index), unknown)
                if checked is not child:
                    value[index] = checked
            return value

        return walk


# ---- scalars


def _of_type(*types: type) -> Callable[[Schema], _Walk]:
    def compiled(schema: Schema) -> _Walk:
        def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
            if type(value) not in types:
                raise _Mismatch(value, schema, path)
            return value

        return walk

    return compiled


def _string(schema: Schema) -> _Walk:
    def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
        if type(value) is not str:
            raise _Mismatch(value, schema, path)
        return value

    return walk


def _integer(schema: Schema) -> _Walk:
    low, high = -(1 << (schema.bits - 1)), (1 << (schema.bits - 1)) - 1

    def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        literal = f"{value}" if type(value) in (int, float) else ""
        raise _Mismatch(value, schema, path, literal)

    return walk


def _int_or_string(schema: Schema) -> _Walk:
    """Go's IntOrString: its number has 32 bits."""

    def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
        if type(value) is str or (type(value) is int and -(1 << 31) <= value < 1 << 31):
            return value
        literal = f"{value}" if type(value) is int else ""
        raise _Mismatch(value, schema, path, literal)

    return walk


def _any(_: Schema) -> _Walk:
    return lambda value, path, unknown: value


_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=\r\n]")


def _bytes(schema: Schema) -> _Walk:
    def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
        if type(value) is not str:
            raise _Mismatch(value, schema, path)
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
        def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
            if type(value) is not str:
                raise _Mismatch(value, schema, path)
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


_MOMENT: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_ZONE: Final = r"(?:Z|[+-]\d\d:\d\d)"
_RFC3339: Final = re.compile(rf"{_MOMENT}(?:\.\d{{1,9}})?{_ZONE}", re.ASCII)
_RFC3339_MICRO: Final = re.compile(rf"{_MOMENT}\.\d{{6}}{_ZONE}", re.ASCII)
# Days that every month has; others are looked up in the calendar.
_UTC: Final = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII
)


def _quantity(schema: Schema) -> _Walk:
    def walk(value: Any, path: _Path | None, unknown: list[str]) -> Any:
        if type(value) is str:
            return value
        if type(value) in (int, float):
            return f"{value}"
        raise _Mismatch(value, schema, path)

    return walk


_SCALAR_WALKS: Final[dict[Kind, Callable[[Schema], _Walk]]] = {
    Kind.STRING: _string,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _of_type(int, float),
    Kind.BOOLEAN: _of_type(bool),
    Kind.BYTES: _bytes,
    Kind.TIME: _time("seconds"),
    Kind.MICRO_TIME: _time("microseconds"),
    Kind.INT_OR_STRING: _int_or_string,
    Kind.QUANTITY: _quantity,
    Kind.ANY: _any,
    Kind.ANY_OBJECT: _of_type(dict),
}


def _zero(schema: Schema) -> Callable[[], Any]:
    """What a null in a list or a map stands for: the empty value of its type."""
    match schema.kind:
        case Kind.STRUCT | Kind.MAP | Kind.ANY_OBJECT:
            return dict
        case Kind.LIST:
            return list
        case Kind.INTEGER | Kind.NUMBER | Kind.INT_OR_STRING:
            return int
        case Kind.BOOLEAN:
            return bool
        case Kind.ANY:
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


def _steps(path: _Path | None) -> list[str | int | _MapKey]:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    return steps[::-1]


def _text(path: _Path) -> str:
    """`spec.containers[0].name`."""
    text = ""
    for step in _steps(path):
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
