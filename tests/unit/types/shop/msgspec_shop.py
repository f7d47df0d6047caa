"""The shop as msgspec structs."""

from __future__ import annotations

import datetime
import enum
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta, Struct, field

from apiserver.types import (
    Column,
    Depth,
    Doc,
    Immutable,
    IntOrString,
    MaxLen,
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


class Item(Struct):
    """What to send."""

    sku: Annotated[str, Meta(pattern="^[a-z]+$", max_length=16)]
    price: Decimal
    labels: dict[str, str] = field(default_factory=dict)


class Range(Struct, Generic[T]):
    first: T
    last: T | None = None


@rule("self.street != ''", message="a street needs a name")
class Address(Struct, tag="address", tag_field="kind"):
    street: str
    number: int = 1


class Locker(Struct, tag="locker", tag_field="kind"):
    code: int


class Group(Struct):
    name: str
    groups: Annotated[list[Group], Depth(2)] = field(default_factory=list)


class Base(Struct):
    owner: Annotated[str, Immutable, Doc("Who pays.")]


@rule("!has(self.most) || self.least <= self.most", message="least must not be more than most")
@rule("self.least != 13")
class Spec(Base):
    """What is ordered.

    An order has at least one item.
    """

    items: Annotated[list[Item], map_by("sku"), MaxLen(64)]
    target: Address | Locker
    days: Range[datetime.date] | None = None
    least: Annotated[int, Meta(ge=0, le=99, description="The fewest pieces.")] = 1
    most: int | None = None
    port: IntOrString = 80
    memory: Quantity = "1Gi"
    state: State = State.NEW
    group: Group | None = None
    extra: Any = None
    tags: set[str] = field(default_factory=set)
    ip_family: Literal["IPv4", "IPv6"] = field(default="IPv4", name="ipFamily")


class Limits(Struct):
    rate: float = 0.5
    burst: int = 10


class Policy(Struct):
    limits: Limits = field(default_factory=Limits)
    strict: bool = False


class Status(Struct):
    state: Annotated[str | None, Selectable] = None
    replicas: int = 0


@crd(
    "shop.example.com/v1",
    short_names=["ord"],
    categories=["all"],
    columns=[Column("State", ".status.state"), Column("Least", ".spec.least", priority=1)],
    scale=Scale(".spec.least", ".status.replicas"),
)
class Order(Struct):
    """An order."""

    spec: Spec
    policy: Policy = field(default_factory=lambda: Policy(limits=Limits(burst=20)))
    status: Status | None = None
