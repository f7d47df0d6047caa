"""The form in which the catalogue describes a type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from apiserver.meta import table
from apiserver.meta.table import Columns
from apiserver.registry.served_resource import ALL_VERBS, FieldGetter, Subresource
from apiserver.registry.strategy import DEFAULT_STRATEGY, STATUS, Strategy
from apiserver.vocabulary import Deprecation, Document


@dataclass(frozen=True, slots=True)
class BuiltinType:
    """One type of one version.

    group: as in `apps`; with a dot at its end, as in `coordination.`, the deployment's domain follows.
    definition: the name of its schema, as `io.k8s.api.core.v1.ConfigMap`.
    stored_as: where its objects are those of another version, or of another group, in another form.
        Strategy and selectable fields are then about the stored form; schema and columns about this one.
    """

    group: str
    version: str
    resource: str
    kind: str
    definition: str
    is_namespaced: bool = True
    singular: str = ""  # the kind in lower case, if empty
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    strategy: Strategy = DEFAULT_STRATEGY
    columns: Columns = table.DEFAULT
    selectable_fields: Mapping[str, FieldGetter] = dataclasses.field(default_factory=dict)
    stored_as: StoredAs | None = None
    deprecation: Deprecation | None = None
    in_runtime_config: bool = False  # served only where --runtime-config asks for it


@dataclass(frozen=True, slots=True)
class StoredAs:
    """The version in which the objects of a type are kept, if it is another one.

    group: as in `BuiltinType`. to_stored, from_stored: convert a document's content, in place; apiVersion
    and kind are seen to.
    """

    group: str
    version: str
    resource: str
    kind: str
    to_stored: Callable[[Document], None]
    from_stored: Callable[[Document], None]


STATUS_SUBRESOURCE = Subresource("status", update=STATUS)


def field(*path: str, default: str = "") -> FieldGetter:
    """A selectable field: the text of the value at a path."""

    def get(document: Document) -> str:
        value: Any = document
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else _as_text(value)

    return get


def fields(*names: str) -> Mapping[str, Callable[[Document], str]]:
    """Selectable fields that are called what they are read by: `spec.nodeName`."""
    return MappingProxyType({name: field(*name.split(".")) for name in names})


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
