"""The shop as pydantic models."""

from __future__ import annotations

import datetime
import enum
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

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


class Item(BaseModel):
    """What to send."""

    sku: Annotated[str, Field(pattern="^[a-z]+$", max_length=16)]
    price: Decimal
    labels: dict[str, str] = Field(default_factory=dict)


class Range(BaseModel, Generic[T]):
    first: T
    last: T | None = None


@rule("self.street != ''", message="a street needs a name")
class Address(BaseModel):
    kind: Literal["address"]
    street: str
    number: int = 1


class Locker(BaseModel):
    kind: Literal["locker"]
    code: int


class Group(BaseModel):
    name: str
    groups: Annotated[list[Group], Depth(2)] = Field(default_factory=list)


class Base(BaseModel):
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
    least: int = Field(default=1, ge=0, le=99, description="The fewest pieces.")
    most: int | None = None
    port: IntOrString = 80
    memory: Quantity = "1Gi"
    state: State = State.NEW
    group: Group | None = None
    extra: Any = None
    tags: set[str] = Field(default_factory=set)
    ip_family: Literal["IPv4", "IPv6"] = Field(default="IPv4", alias="ipFamily")


class Limits(BaseModel):
    rate: float = 0.5
    burst: int = 10


class Policy(BaseModel):
    limits: Limits = Field(default_factory=Limits)
    strict: bool = False


class Status(BaseModel):
    state: Annotated[str | None, Selectable] = None
    replicas: int = 0


@crd(
    "shop.example.com/v1",
    short_names=["ord"],
    categories=["all"],
    columns=[Column("State", ".status.state"), Column("Least", ".spec.least", priority=1)],
    scale=Scale(".spec.least", ".status.replicas"),
)
class Order(BaseModel):
    """An order."""

    spec: Spec
    policy: Policy = Field(default_factory=lambda: Policy(limits=Limits(burst=20)))
    status: Status | None = None
