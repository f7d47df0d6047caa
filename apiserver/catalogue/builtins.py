"""The catalogue as served resources."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import MappingProxyType

from apiserver.brand import Brand
from apiserver.catalogue import apps, batch, coordination, core
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.vocabulary import GroupVersion


def builtin_resources(brand: Brand, schemas: BuiltinSchemas, *, event_ttl_s: int) -> ResourceTable:
    """All built-in resources, in the order of discovery."""
    types = (
        *core.types(brand, event_ttl_s=event_ttl_s),
        *apps.types(),
        *batch.types(),
        *coordination.types(),
    )
    return ResourceTable(tuple(_served(types, brand, schemas)))


def _served(types: Iterable[BuiltinType], brand: Brand, schemas: BuiltinSchemas) -> Iterable[ServedResource]:
    for builtin in types:
        group = brand.group(builtin.group[:-1]) if builtin.group.endswith(".") else builtin.group
        yield ServedResource(
            group_version=GroupVersion(group, builtin.version),
            resource=builtin.resource,
            kind=builtin.kind,
            is_namespaced=builtin.is_namespaced,
            schema=partial(schemas.get, builtin.definition),
            singular=builtin.singular or builtin.kind.lower(),
            short_names=builtin.short_names,
            categories=builtin.categories,
            verbs=builtin.verbs,
            subresources=MappingProxyType({sub.name: sub for sub in builtin.subresources}),
            strategy=builtin.strategy,
            columns=builtin.columns,
            selectable_fields=builtin.selectable_fields,
            storage_version=builtin.version,
            definition=builtin.definition,
        )
