"""Converts the values of a document to those of CEL, where these differ from JSON.

Numbers are doubles, even whole ones; base64 is bytes; times and durations are not text; lists that are sets
or maps compare without order. A document without any of these in the parts that are read is not touched.

Source: k8s.io/apiserver, pkg/cel/common/values.go; kube-openapi, pkg/validation/strfmt.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, Final, TypeAlias

from apiserver.cel.references import References
from apiserver.cel.values import Duration, MapList, SetList, Timestamp
from apiserver.custom_resources.rules.schema_types import resource_properties
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.schema.extensions import Extensions

# Returns the very value that it got where nothing is to be converted.
Adapter: TypeAlias = Callable[[Any], Any]


def adapter(
    schema: JSONSchema, part: References, extensions: Extensions, *, is_root: bool = False
) -> Adapter | None:
    """Returns what converts the values of a schema, as far as they are read; None if they need not be."""
    if schema.get(extensions.int_or_string):
        return None
    match schema.get("type"):
        case "object":
            is_resource = is_root or schema.get(extensions.embedded_resource)
            properties = resource_properties(schema) if is_resource else (schema.get("properties") or {})
            return _of_object(schema, properties, part, extensions)
        case "array":
            return _of_list(schema, extensions)
        case "number":
            return _number
        case "string":
            return _FORMATS.get(schema.get("format", ""))
    return None


def _of_object(
    schema: JSONSchema, properties: Mapping[str, JSONSchema], part: References, extensions: Extensions
) -> Adapter | None:
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return _map_adapter(adapter(values, _WHOLE, extensions))
    fields = []
    for name, child in properties.items():
        below = part.of_field(name)
        adapt = None if below is None else adapter(child, below, extensions)
        if adapt is not None or (below is not None and child.get("nullable")):
            fields.append((name, adapt or _same))
    return _struct_adapter(fields) if fields else None


_WHOLE: Final = References(is_whole=True)


def _same(value: Any) -> Any:
    return value


def _struct_adapter(fields: Sequence[tuple[str, Adapter]]) -> Adapter:
    """Converts an object with known fields. A field that is null counts as absent."""

    def adapt(value: Any) -> Any:
        if type(value) is not dict:
            return value
        changed = None
        for name, field in fields:
            if name in value:
                old = value[name]
                new = field(old)
                if new is not old or old is None:
                    if changed is None:
                        changed = dict(value)
                    changed[name] = new
                    if old is None:
                        del changed[name]
        return value if changed is None else changed

    return adapt


def _map_adapter(of_value: Adapter | None) -> Adapter | None:
    if of_value is None:
        return None

    def adapt(value: Any) -> Any:
        return {key: of_value(item) for key, item in value.items()} if type(value) is dict else value

    return adapt


def _of_list(schema: JSONSchema, extensions: Extensions) -> Adapter | None:
    items = schema.get("items")
    of_item = None if not isinstance(items, dict) else adapter(items, _WHOLE, extensions)
    list_type = schema.get(extensions.list_type)
    keys = tuple(schema.get(extensions.list_map_keys, ()))
    if list_type not in {"set", "map"} and of_item is None:
        return None

    def adapt(value: Any) -> Any:
        if type(value) is not list:
            return value
        adapted = value if of_item is None else [of_item(item) for item in value]
        if list_type == "set":
            return SetList(adapted)
        return MapList(adapted, keys) if list_type == "map" else adapted

    return adapt


# ---- scalars. Text that is not in its format stays text: the schema's own validation has refused it.


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return value


_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:[Zz]|([+-])(\d\d):?(\d\d))?"
)
_NANOS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _time(value: Any) -> Any:
    match = _TIME.fullmatch(value) if type(value) is str else None
    if match is None:
        return value
    *parts, fraction, sign, hours, minutes = match.groups()
    offset = (int(hours or 0) * 60 + int(minutes or 0)) * (-60 if sign == "-" else 60)
    try:
        zone = timezone(timedelta(seconds=offset))
        at = datetime(*(int(part or 0) for part in parts), tzinfo=zone)  # type: ignore[arg-type,misc]
    except ValueError:
        return value
    since = at - _EPOCH
    nanos = int(f"{fraction or 0:0<9}"[:9])
    return Timestamp((since.days * 86_400 + since.seconds) * _NANOS + nanos, offset)


def _date(value: Any) -> Any:
    try:
        return Timestamp((date.fromisoformat(value) - _EPOCH.date()).days * 86_400 * _NANOS)
    except (TypeError, ValueError):
        return value


_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": _NANOS,
    "m": 60 * _NANOS,
    "h": 3_600 * _NANOS,
}
# The longer names are prefixes: `hours`, `minutes`.
_LONG_UNITS: Final[tuple[tuple[tuple[str, ...], str, int], ...]] = (
    (("ns",), "nano", 1),
    (("us", "\u00b5s"), "micro", 1_000),
    (("ms",), "milli", 1_000_000),
    (("s",), "sec", _NANOS),
    (("m",), "min", 60 * _NANOS),
    (("h", "hr"), "hour", 3_600 * _NANOS),
    (("d",), "day", 86_400 * _NANOS),
    (("w",), "week", 7 * 86_400 * _NANOS),
)
_GO_PART: Final = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_GO_DURATION: Final = re.compile(rf"([+-]?)((?:{_GO_PART.pattern})+)")
_WORDS: Final = re.compile(r"(\d+)\s*([A-Za-z\u00b5]+)")


def _duration(value: Any) -> Any:
    if type(value) is not str:
        return value
    if value.lstrip("+-") == "0":
        return Duration(0)
    if match := _GO_DURATION.fullmatch(value):
        nanos = sum(int(Fraction(number) * _UNITS[unit]) for number, unit in _GO_PART.findall(match[2]))
        return Duration(-nanos if match[1] == "-" else nanos)
    found = [int(number) * factor for number, unit in _WORDS.findall(value) if (factor := _factor(unit))]
    return Duration(sum(found)) if found else value


def _factor(unit: str) -> int:
    low = unit.lower()
    for short, long, factor in _LONG_UNITS:
        if low in short or low.startswith(long):
            return factor
    return 0


_FORMATS: Final[Mapping[str, Adapter]] = {
    "byte": _bytes,
    "date": _date,
    "date-time": _time,
    "duration": _duration,
}
