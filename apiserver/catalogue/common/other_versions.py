"""Declarations of versions that differ little from other versions of the type."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from apiserver.catalogue.builtin_type import BuiltinType, HubConversion
from apiserver.meta.field_errors import Errors
from apiserver.meta.table import Columns
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default
from apiserver.schema.validation.defaults import in_turn

# The types that have replaced removed versions, each in the version that comes first, by group (as
# `BuiltinType` has it) and resource.
CurrentTypes: TypeAlias = Mapping[tuple[str, str], BuiltinType]

_NO_DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType({})


def other_version(
    current: BuiltinType, version: str, *, adds: Mapping[str, Default] = _NO_DEFAULTS, **changes: Any
) -> BuiltinType:
    """Returns another version of a type, with the same rules and with separate definitions.

    adds: defaults that are set before those of the current version, by the names of their definitions in
        their package, as `RoleRef`.
    changes: attributes of `BuiltinType` that differ.
    """
    package, _, kind = current.definition.rpartition(".")
    own = f"{package.removesuffix(current.version)}{version}"
    defaults = {
        f"{own}.{name.rpartition('.')[2]}" if name.rpartition(".")[0] == package else name: default
        for name, default in current.defaults.items()
    }
    for name, default in adds.items():
        same = defaults.get(f"{own}.{name}")
        defaults[f"{own}.{name}"] = default if same is None else in_turn(default, same)
    changes = {"definition": f"{own}.{kind}", "defaults": defaults, **changes}
    return replace(current, version=version, **changes)


def _as_it_is(document: Document) -> None:
    """Converts between versions that only differ in their names: leaves the document unchanged."""


def hub_of(
    current: BuiltinType,
    to_hub: Callable[[Document], None] = _as_it_is,
    from_hub: Callable[[Document], None] = _as_it_is,
    *,
    validate: Callable[[Document], Errors] | None = None,
) -> HubConversion:
    """Returns the hub of a version that is converted to the current one. See `HubConversion`."""
    return HubConversion(
        current.group, current.version, current.resource, current.kind, to_hub, from_hub, validate=validate
    )


def columns_of_hub(columns: Columns, to_hub: Callable[[Document], None]) -> Columns:
    """Returns columns of the current version for documents of another."""

    def cell_of(cell: Callable[[Document, float], Any]) -> Callable[[Document, float], Any]:
        def show(document: Document, now: float) -> Any:
            as_hub = copy.deepcopy(document)
            to_hub(as_hub)
            return cell(as_hub, now)

        return show

    return Columns(tuple(column._replace(cell=cell_of(column.cell)) for column in columns.columns))
