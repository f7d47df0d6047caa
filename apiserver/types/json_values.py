"""Values of Python as JSON."""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import ipaddress
import json
import math
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from apiserver.types.errors import Unrepresentable

_TEXTS: Final = (
    decimal.Decimal,
    uuid.UUID,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)


def json_value(value: Any, path: str, of_class: Callable[[Any, str], Any]) -> Any:
    """Returns a value as JSON; None for UNSET of msgspec. Raises Unrepresentable.

    path: of the value, for errors. of_class: returns the instance of another class as JSON.
    """
    convert = partial(json_value, of_class=of_class)
    match value:
        case enum.Enum():
            return convert(value.value, path)
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return [convert(each, f"{path}[{index}]") for index, each in enumerate(value)]
        case set() | frozenset():
            items = [convert(each, path) for each in value]
            return sorted(items, key=lambda each: (str(type(each)), each))
        case Mapping():
            return {_key(key, path): convert(each, f"{path}.{key}") for key, each in value.items()}
    if is_unset(value):
        return None
    text = _text(value, path)
    return of_class(value, path) if text is None else text


def is_unset(value: Any) -> bool:
    """Whether a value is msgspec's UNSET, which means an absent field."""
    return type(value).__name__ == "UnsetType"


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise Unrepresentable(path, f"the key {key!r} is not a str")
    return key


def same(one: Any, other: Any) -> bool:
    """Returns whether two values are the same JSON; 1, 1.0 and true are three values."""
    return canonical(one) == canonical(other)


def canonical(value: Any) -> str:
    """Returns the text that the same JSON always has."""
    return json.dumps(value, sort_keys=True)


def _text(value: Any, path: str) -> str | None:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime():
            if value.tzinfo is None:
                raise Unrepresentable(path, "the time has no time zone", "add tzinfo=UTC")
            return value.isoformat()
        case datetime.date():
            return value.isoformat()
        case datetime.timedelta():
            return _duration(value, path)
    return str(value) if isinstance(value, _TEXTS) else None


def _duration(value: datetime.timedelta, path: str) -> str:
    """Returns a duration in ISO 8601, which pydantic, msgspec and the server read alike in whole seconds."""
    seconds = value // datetime.timedelta(seconds=1)
    if seconds < 0 or value != datetime.timedelta(seconds=seconds):
        raise Unrepresentable(path, f"the duration {value} is not a number of whole seconds")
    return f"PT{seconds}S"
