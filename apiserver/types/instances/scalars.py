"""Reads texts and numbers of JSON as the types of Python that have a schema."""

from __future__ import annotations

import base64
import datetime
import decimal
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from apiserver.golang.durations import parse_duration

_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")
# Source: k8s.io/apimachinery pkg/api/resource/suffix.go.
_SUFFIXES: Final[Mapping[str, decimal.Decimal]] = {
    **{suffix: decimal.Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: decimal.Decimal(1000) ** (1 + index) for index, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": decimal.Decimal(1024) ** (1 + index) for index, suffix in enumerate("KMGTPE")},
}
_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class Scalar(NamedTuple):
    """A type of Python in JSON. name: as in errors. read: raises ValueError or TypeError."""

    name: str
    read: Callable[[Any], Any]


def scalar_of(cls: type) -> Scalar | None:
    """Returns the scalar that a class is, or its nearest base; None if it is none."""
    return next((_SCALARS[base] for base in cls.__mro__ if base in _SCALARS), None)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole_number(value: Any) -> int:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole:
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _quantity(value: Any) -> decimal.Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return decimal.Decimal(str(value))
    found = _QUANTITY.fullmatch(_text(value))
    if found is None:
        raise ValueError
    number, suffix = found[1], found[2] or ""
    try:
        if suffix in _SUFFIXES:
            return decimal.Decimal(number) * _SUFFIXES[suffix]
        return decimal.Decimal(number + suffix)
    except decimal.InvalidOperation:
        raise ValueError from None


def _duration(value: Any) -> datetime.timedelta:
    """Returns a duration of ISO 8601, such as PT90S, or of Go, such as 1m30s."""
    found = _ISO_DURATION.fullmatch(_text(value))
    if found is None:
        return datetime.timedelta(seconds=parse_duration(value))
    return datetime.timedelta(**{unit: float(number) for unit, number in found.groupdict("0").items()})


def _of_text(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: read(_text(value))


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)


_SCALARS: Final[Mapping[type, Scalar]] = {
    bool: Scalar("a boolean", _boolean),
    int: Scalar("an integer", _whole_number),
    float: Scalar("a number", _number),
    str: Scalar("a string", _text),
    bytes: Scalar("a string in base64", _bytes),
    datetime.datetime: Scalar("a time as in RFC 3339", _of_text(datetime.datetime.fromisoformat)),
    datetime.date: Scalar("a date", _of_text(datetime.date.fromisoformat)),
    datetime.timedelta: Scalar("a duration", _duration),
    decimal.Decimal: Scalar("a quantity", _quantity),
    uuid.UUID: Scalar("a UUID", _of_text(uuid.UUID)),
    ipaddress.IPv4Address: Scalar("an IPv4 address", _of_text(ipaddress.IPv4Address)),
    ipaddress.IPv6Address: Scalar("an IPv6 address", _of_text(ipaddress.IPv6Address)),
    ipaddress.IPv4Network: Scalar("an IPv4 network", _of_text(ipaddress.IPv4Network)),
    ipaddress.IPv6Network: Scalar("an IPv6 network", _of_text(ipaddress.IPv6Network)),
}
