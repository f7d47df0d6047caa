"""The shop as TypedDicts."""

from __future__ import annotations

import datetime
import enum
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

from apiserver.types import (
    Column,
    Default,
    Depth,
    Doc,
    Ge,
    Immutable,
    IntOrString,
    Le,
    MaxLen,
    Name,
    Pattern,
    Quantity,
    Scale,
    Selectable,
    crd,
    map_by,
    rule,
)

T = TypeVar("T")


class State(enum.Enum):
    NEW = "New"
    SENT = "Sent"


class Item(TypedDict):
    """What to send."""

    sku: Annotated[str, Pattern("^[a-z]+$"), MaxLen(16)]
    price: Decimal
    labels: Annotated[dict[str, str], Default({})]


class Range(TypedDict, Generic[T]):
    first: T
    last: NotRequired[T]


@rule("self.street != ''", message="a street needs a name")
class Address(TypedDict):
    kind: Literal["address"]
    street: str
    number: Annotated[int, Default(1)]


class Locker(TypedDict):
    kind: Literal["locker"]
    code: int


class Group(TypedDict):
    name: str
    groups: Annotated[Annotated[list[Group], Depth(2)], Default([])]


class Base(TypedDict):
    owner: Annotated[str, Immutable, Doc("Who pays.")]


@rule("!has(self.most) || self.least <= self.most", message="least must not be more than most")
@rule("self.least != 13")
class Spec(Base):
    """What is ordered.

    An order has at least one item.
    """

    items: Annotated[list[Item], map_by("sku"), MaxLen(64)]
    target: Address | Locker
    days: NotRequired[Range[datetime.date]]
    least: Annotated[Annotated[int, Ge(0), Le(99), Doc("The fewest pieces.")], Default(1)]
    most: NotRequired[int]
    port: Annotated[IntOrString, Default(80)]
    memory: Annotated[Quantity, Default("1Gi")]
    state: Annotated[State, Default("New")]
    group: NotRequired[Group]
    extra: NotRequired[Any]
    tags: Annotated[set[str], Default([])]
    ip_family: Annotated[Annotated[Literal["IPv4", "IPv6"], Name("ipFamily")], Default("IPv4")]


class Limits(TypedDict):
    rate: Annotated[float, Default(0.5)]
    burst: Annotated[int, Default(10)]


class Policy(TypedDict):
    limits: Annotated[Limits, Default({})]
    strict: Annotated[bool, Default(False)]


class Status(TypedDict):
    state: NotRequired[Annotated[str, Selectable]]
    replicas: Annotated[int, Default(0)]


@crd(
    "shop.example.com/v1",
    short_names=["ord"],
    categories=["all"],
    columns=[Column("State", ".status.state"), Column("Least", ".spec.least", priority=1)],
    scale=Scale(".spec.least", ".status.replicas"),
)
class Order(TypedDict):
    """An order."""

    spec: Spec
    policy: Annotated[Policy, Default({"limits": {"burst": 20}})]
    status: NotRequired[Status]
