"""The shop as dataclasses."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from apiserver.types import (
    Column,
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


@dataclass
class Item:
    """What to send."""

    sku: Annotated[str, Pattern("^[a-z]+$"), MaxLen(16)]
    price: Decimal
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class Range(Generic[T]):
    first: T
    last: T | None = None


@rule("self.street != ''", message="a street needs a name")
@dataclass
class Address:
    kind: Literal["address"]
    street: str
    number: int = 1


@dataclass
class Locker:
    kind: Literal["locker"]
    code: int


@dataclass
class Group:
    name: str
    groups: Annotated[list[Group], Depth(2)] = field(default_factory=list)


@dataclass
class Base:
    owner: Annotated[str, Immutable, Doc("Who pays.")]


@rule("!has(self.most) || self.least <= self.most", message="least must not be more than most")
@rule("self.least != 13")
@dataclass
class Spec(Base):
    """What is ordered.

    An order has at least one item.
    """

    items: Annotated[list[Item], map_by("sku"), MaxLen(64)]
    target: Address | Locker
    days: Range[datetime.date] | None = None
    least: Annotated[int, Ge(0), Le(99), Doc("The fewest pieces.")] = 1
    most: int | None = None
    port: IntOrString = 80
    memory: Quantity = "1Gi"
    state: State = State.NEW
    group: Group | None = None
    extra: Any = None
    tags: set[str] = field(default_factory=set)
    ip_family: Annotated[Literal["IPv4", "IPv6"], Name("ipFamily")] = "IPv4"


@dataclass
class Limits:
    rate: float = 0.5
    burst: int = 10


@dataclass
class Policy:
    limits: Limits = field(default_factory=Limits)
    strict: bool = False


@dataclass
class Status:
    state: Annotated[str | None, Selectable] = None
    replicas: int = 0


@crd(
    "shop.example.com/v1",
    short_names=["ord"],
    categories=["all"],
    columns=[Column("State", ".status.state"), Column("Least", ".spec.least", priority=1)],
    scale=Scale(".spec.least", ".status.replicas"),
)
@dataclass
class Order:
    """An order."""

    spec: Spec
    policy: Policy = field(default_factory=lambda: Policy(limits=Limits(burst=20)))
    status: Status | None = None
