"""The types that have replaced removed versions."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.catalogue.builtin_type import BuiltinType


class CurrentTypes:
    """The types that have replaced removed versions, by group and resource."""

    def __init__(self, types: Iterable[BuiltinType]) -> None:
        self._types: dict[tuple[str, str], BuiltinType] = {}
        for each in types:
            self._types.setdefault((each.group, each.resource), each)

    def has(self, group: str, resource: str) -> bool:
        """Whether the release has, or reads, a type. group: as `BuiltinType` has it."""
        return (group, resource) in self._types

    def find(self, group: str, resource: str) -> BuiltinType:
        """Returns a type in the version that comes first. group: as `BuiltinType` has it."""
        return self._types[group, resource]
