"""The catalogue as served resources."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import MappingProxyType

from apiserver.brand import Brand
from apiserver.catalogue import apps, batch, coordination, core
from apiserver.catalogue.builtin_type import BuiltinType, StoredAs
from apiserver.catalogue.rules.defaults import DEFAULTS
from apiserver.registry.served_resource import Conversion, ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import Walks
from apiserver.vocabulary import GroupResource, GroupVersion


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
    walks = Walks(DEFAULTS)
    for builtin in types:
        group = _full_group(builtin.group, brand)
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
            storage_version=builtin.stored_as.version if builtin.stored_as else builtin.version,
            conversion=_conversion(builtin.stored_as, brand) if builtin.stored_as else None,
            definition=builtin.definition,
            walks=walks,
        )


def _conversion(stored_as: StoredAs, brand: Brand) -> Conversion:
    group = _full_group(stored_as.group, brand)
    return Conversion(
        GroupResource(group, stored_as.resource),
        str(GroupVersion(group, stored_as.version)),
        stored_as.kind,
        stored_as.to_stored,
        stored_as.from_stored,
    )


def _full_group(group: str, brand: Brand) -> str:
    return brand.group(group[:-1]) if group.endswith(".") else group
