"""Defaults in definitions, and that the server sets those that Python sets."""

from __future__ import annotations

import datetime
import enum
import ipaddress
import uuid
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import pydantic
import pytest

from apiserver.types import Default as DefaultMarker
from apiserver.types import IntOrString, crd
from tests.unit.types.checks import custom_schema, field_schema


class Color(enum.Enum):
    RED = "red"


@dataclass
class Limits:
    rate: float = 0.5
    burst: int | None = 10
    note: str | None = None


@dataclass
class Policy:
    name: str
    limits: Limits = field(default_factory=Limits)
    kind: Literal["strict"] = "strict"


# Types, their defaults in Python, and in JSON.
DEFAULTS: Final[dict[str, tuple[Any, Any, Any]]] = {
    "an int": (int, 5, 5),
    "zero": (int, 0, 0),
    "False": (bool, False, False),
    "an empty str": (str, "", ""),
    "an Enum": (Color, Color.RED, "red"),
    "bytes": (bytes, b"ab", "YWI="),
    "a time": (
        datetime.datetime,
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "2026-01-02T00:00:00+00:00",
    ),
    "a date": (datetime.date, datetime.date(2026, 1, 2), "2026-01-02"),
    "a duration": (datetime.timedelta, datetime.timedelta(minutes=2), "PT120S"),
    "a Decimal": (Decimal, Decimal("1.50"), "1.50"),
    "a UUID": (uuid.UUID, uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "an address": (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1"), "10.0.0.1"),
    "a port": (IntOrString, "http", "http"),
    "an empty list": (list[int], [], []),
    "a tuple": (tuple[int, ...], (1, 2), [1, 2]),
    "a set": (set[str], {"b", "a"}, ["a", "b"]),
    "a dict": (dict[str, Color], {"a": Color.RED}, {"a": "red"}),
    "the class itself": (Limits, Limits(), {}),
    "what differs": (Limits, Limits(rate=1, burst=10), {"rate": 1}),
    "null in place of a default": (Limits, Limits(burst=None), {"burst": None}),
    "a nested class": (
        Policy,
        Policy("a", Limits(burst=1)),
        {"name": "a", "limits": {"burst": 1}},
    ),
    "a list of objects": (list[Limits], [Limits(), Limits(note="a")], [{}, {"note": "a"}]),
    "any value": (Any, {"a": [1, None]}, {"a": [1, None]}),
}


@pytest.mark.parametrize(("hint", "value", "default"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_default(hint: Any, value: Any, default: Any) -> None:
    found = field_schema(hint, default_factory=lambda: value)["default"]
    assert (found, type(found)) == (default, type(default))


class Numbers(pydantic.RootModel[list[int]]):
    """Some numbers."""


def test_the_default_of_a_root_model_is_its_value() -> None:
    assert field_schema(Numbers, default_factory=lambda: Numbers([1]))["default"] == [1]


def test_none_means_absent() -> None:
    assert field_schema(int | None, default=None) == {"type": "integer", "format": "int64"}
    assert field_schema(int, default=None) == {"type": "integer", "format": "int64"}
    assert field_schema(Literal["a", None], default=None) == {"type": "string", "enum": ["a"]}


def test_null_is_a_value_if_the_default_is_another() -> None:
    schema = {"type": "integer", "format": "int64", "nullable": True, "default": 5}
    assert field_schema(int | None, default=5) == schema


# ---- the server sets them


@dataclass
class Spec:
    name: str
    limits: Limits = field(default_factory=Limits)
    policies: list[Policy] = field(default_factory=lambda: [Policy("a"), Policy("b", Limits(rate=2))])
    by_name: dict[str, Limits] = field(default_factory=dict)
    other: Limits | None = None


@crd("example.com/v1")
@dataclass
class Shop:
    spec: Spec
    more: Spec = field(default_factory=lambda: Spec("x", limits=Limits(burst=1)))


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return [without_none(each) for each in value] if isinstance(value, list) else value


def test_the_server_sets_the_same_defaults_as_python() -> None:
    document: dict[str, Any] = {"spec": {"name": "a", "by_name": {"b": {"rate": 3.5}}, "other": {}}}
    custom_schema(Shop).pruner(document)
    shop = Shop(Spec("a", by_name={"b": Limits(rate=3.5)}, other=Limits()))
    assert document == without_none(asdict(shop))


@dataclass
class Limited:
    limits: Annotated[Limits, DefaultMarker({"rate": 0.5, "note": "slow"})] = field(default_factory=Limits)
    name: Annotated[str, DefaultMarker("a")] = "b"


@dataclass
class Lists:
    one: list[int] = field(default_factory=list)
    two: list[int] = field(default_factory=list)


def test_fields_do_not_share_defaults() -> None:
    fields = field_schema(Lists)["properties"]
    fields["one"]["default"].append(1)
    assert fields["two"]["default"] == []


def test_the_marker_wins() -> None:
    """It says which fields of an object are in the default; they may be those that Python would set, too."""
    schema = field_schema(Limited, default_factory=Limited)
    assert schema["default"] == {}
    assert schema["properties"]["limits"]["default"] == {"rate": 0.5, "note": "slow"}
    assert schema["properties"]["name"]["default"] == "a"
