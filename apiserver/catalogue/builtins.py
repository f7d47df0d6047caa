"""Builds the served resources of all built-in types."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from apiserver.brand import Brand
from apiserver.catalogue import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    events,
    flowcontrol,
    networking,
    node,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
)
from apiserver.catalogue.builtin_type import BuiltinType, StoredAs
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.registry.conversion_codec import ConversionCodec, StorageVersion
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import Default, SchemaCompiler
from apiserver.vocabulary import Document, GroupResource, GroupVersion

EVENT_TTL_S: Final = 3600
DEFAULT_RUNTIME_CONFIG: Final = RuntimeConfig()
DEFAULT_ALLOCATOR: Final = ServiceAllocator.for_networks(
    (ipaddress.ip_network("10.0.0.0/16"),), (30_000, 32_767), random.SystemRandom().randint
)


def builtin_resources(
    brand: Brand,
    schemas: BuiltinSchemas,
    *,
    event_ttl_s: int = EVENT_TTL_S,
    service_allocator: ServiceAllocator = DEFAULT_ALLOCATOR,
    runtime_config: RuntimeConfig = DEFAULT_RUNTIME_CONFIG,
) -> ResourceTable:
    """Returns all built-in resources, in the order of discovery.

    event_ttl_s: how long Events are kept. service_allocator: gives Services their addresses and ports.
    runtime_config: which versions are served.
    """
    types = (
        *core.types(brand, event_ttl_s=event_ttl_s, service_allocator=service_allocator),
        *apiregistration.types(),
        *apps.types(),
        *events.types(event_ttl_s=event_ttl_s),
        *authentication.types(),
        *authorization.types(),
        *autoscaling.types(),
        *batch.types(),
        *certificates.types(),
        *networking.types(),
        *policy.types(),
        *rbac.types(brand),
        *storage.types(),
        *admissionregistration.types(),
        *apiextensions.types(brand, schemas.get),
        *scheduling.types(),
        *coordination.types(),
        *node.types(),
        *discovery.types(),
        *resource.types(),
        *flowcontrol.types(),
    )
    return ResourceTable(tuple(_served(types, brand, schemas, runtime_config)))


def _served(
    types: Iterable[BuiltinType], brand: Brand, schemas: BuiltinSchemas, runtime_config: RuntimeConfig
) -> Iterable[ServedResource]:
    types = tuple(types)
    schema_compiler = SchemaCompiler(defaults_of(types))
    first: dict[tuple[str, str], BuiltinType] = {}
    for builtin in types:
        group = _full_group(builtin.group, brand)
        group_version = GroupVersion(group, builtin.version)
        # A type that is the same in several versions is kept in the one that comes first.
        stored_as = builtin.stored_as
        if (preferred := first.setdefault((group, builtin.resource), builtin)) is not builtin:
            stored_as = stored_as or StoredAs(
                preferred.group, preferred.version, preferred.resource, preferred.kind, _as_it_is, _as_it_is
            )
        by_default = not builtin.in_runtime_config
        if not runtime_config.serves(group_version, builtin.resource, by_default=by_default):
            continue
        yield ServedResource(
            group_version=group_version,
            resource=builtin.resource,
            kind=builtin.kind,
            is_namespaced=builtin.is_namespaced,
            schema=partial(schemas.get, builtin.definition),
            singular=builtin.singular or builtin.kind.lower(),
            short_names=builtin.short_names,
            categories=builtin.categories,
            verbs=builtin.verbs,
            subresources=MappingProxyType(
                {sub.name: sub for sub in sorted(builtin.subresources, key=lambda sub: sub.name)}
            ),
            strategy=builtin.strategy,
            columns=builtin.columns,
            selectable_fields=builtin.selectable_fields,
            storage_version=stored_as.version if stored_as else builtin.version,
            version_codec=_codec(builtin, group_version, stored_as, brand) if stored_as else None,
            definition=builtin.definition,
            deprecation=builtin.deprecation,
            schema_compiler=schema_compiler,
        )


def defaults_of(types: Iterable[BuiltinType]) -> Mapping[str, Default]:
    """Returns the defaults of all types together, by definition. Each definition has one default."""
    together: dict[str, Default] = {}
    for builtin in types:
        for definition, default in builtin.defaults.items():
            if together.setdefault(definition, default) is not default:
                raise ValueError(f"{definition} has two defaults; put them together with in_turn")
    return MappingProxyType(together)


def _as_it_is(document: Document) -> None:
    """Converts between versions that differ in their names only: not at all."""


def _codec(
    builtin: BuiltinType, group_version: GroupVersion, stored_as: StoredAs, brand: Brand
) -> ConversionCodec:
    group = _full_group(stored_as.group, brand)
    storage = StorageVersion(
        GroupResource(group, stored_as.resource),
        str(GroupVersion(group, stored_as.version)),
        stored_as.kind,
        stored_as.to_stored,
        stored_as.from_stored,
    )
    return ConversionCodec(str(group_version), builtin.kind, storage)


def _full_group(group: str, brand: Brand) -> str:
    return brand.group(group[:-1]) if group.endswith(".") else group
