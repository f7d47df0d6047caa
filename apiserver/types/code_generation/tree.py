"""What generated modules declare: models with fields, and the types of the fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias


class Absent:
    """The default of a field that has none: null is a value."""


ABSENT: Final = Absent()


class Marker(NamedTuple):
    """What `Annotated` or a decorator adds to a type, by its name in `apiserver.types`.

    arguments: JSON values; None for a marker that is not called.
    """

    name: str
    arguments: tuple[Any, ...] | None = ()
    named: Mapping[str, Any] = {}


class Named(NamedTuple):
    """A type of Python or of `apiserver.types`, by its name."""

    name: str


class Choice(NamedTuple):
    """One of several values."""

    values: tuple[Any, ...]


class ListOf(NamedTuple):
    element: TypeUse


class MapOf(NamedTuple):
    value: TypeUse


class AnyOf(NamedTuple):
    """A value of one of several types, which only OpenAPI documents have."""

    members: tuple[TypeUse, ...]


@dataclass(eq=False)
class Model:
    """A class.

    rules: those of the class, as arguments of `rule`. version: what `crd` is called with, for a class that is
    the root of a definition's version. keeps_unknown: whether objects may have other fields.
    """

    name: str
    description: str = ""
    fields: list[Field] = field(default_factory=list)
    rules: Sequence[Marker] = ()
    version: Marker | None = None
    keeps_unknown: bool = False

    def models(self) -> Iterator[Model]:
        """Yields the models that the fields need."""
        for each in self.fields:
            yield from each.type.models()


Type: TypeAlias = Named | Choice | ListOf | MapOf | AnyOf | Model


class TypeUse(NamedTuple):
    """A type in its place, with what is said of it there."""

    type: Type
    markers: tuple[Marker, ...] = ()
    is_nullable: bool = False

    def models(self) -> Iterator[Model]:
        match self.type:
            case Model():
                yield self.type
            case ListOf(inner) | MapOf(inner):
                yield from inner.models()
            case AnyOf(members):
                for each in members:
                    yield from each.models()


class Field(NamedTuple):
    """A field. A field that is required and has a default is in every document.

    json_name: the name in documents. name: that of the attribute.
    """

    json_name: str
    name: str
    type: TypeUse
    is_required: bool
    default: Any = ABSENT


def object_fields(group_version: str, kind: str) -> list[Field]:
    """Returns the fields that every object of the API has."""
    names = {"apiVersion": group_version, "kind": kind}
    metadata = TypeUse(MapOf(TypeUse(Named("Any"))))
    return [
        *(Field(name, name, TypeUse(Choice((value,))), True, value) for name, value in names.items()),
        Field("metadata", "metadata", metadata, True, {}),
    ]


def ordered(roots: Sequence[Model]) -> list[Model]:
    """Returns the roots and all models that they need, each after those that it needs, but for circles."""
    found: dict[Model, None] = {}
    begun: set[Model] = set()
    # Depth first, with an explicit stack: schemas nest deeper than Python calls.
    stack: list[tuple[Model, Iterator[Model]]] = []
    for root in roots:
        if root not in begun:
            begun.add(root)
            stack.append((root, root.models()))
        while stack:
            model, needed = stack[-1]
            following = next((each for each in needed if each not in begun), None)
            if following is None:
                found[model] = None
                stack.pop()
            else:
                begun.add(following)
                stack.append((following, following.models()))
    return list(found)
