"""Recursive classes: a structural schema contains a class only as deep as its `Depth` says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from apiserver.types.errors import Unrepresentable
from apiserver.types.models.model import Field


class _Step(NamedTuple):
    """A field with a Depth on the way to a place."""

    cls: Any
    name: str


class Nesting:
    """The classes around the current place, and the fields with a Depth between them, outermost first."""

    def __init__(self) -> None:
        self._around: list[Any] = []

    @contextmanager
    def inside(self, cls: Any, name: str, path: str) -> Iterator[None]:
        """Within it, the current place is in a class. cls: with its arguments, if it is generic.

        Raises Unrepresentable if the class contains itself, without a field with a Depth in between.
        """
        if cls in self._around:
            last = len(self._around) - 1 - self._around[::-1].index(cls)
            if not any(isinstance(each, _Step) for each in self._around[last:]):
                raise Unrepresentable(
                    path, f"{name} contains itself", "add Depth(n) to the field: Annotated[..., Depth(3)]"
                )
        self._around.append(cls)
        yield
        self._around.pop()

    @contextmanager
    def below(self, cls: Any, field: Field) -> Iterator[None]:
        """Within it, the current place is in a field of a class."""
        if not field.constraints.depth:
            yield
            return
        self._around.append(_Step(cls, field.name))
        yield
        self._around.pop()

    def is_too_deep(self, cls: Any, field: Field) -> bool:
        """Returns whether the field of the class is left out here."""
        depth = field.constraints.depth
        return depth > 0 and self._around.count(_Step(cls, field.name)) >= depth
