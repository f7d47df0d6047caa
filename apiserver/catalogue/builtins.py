"""The catalogue as served resources."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable
from functools import partial
from types import MappingProxyType
from typing import Final

from apiserver.apiextensions.validation.custom_resource_definitions import CheckRules
from apiserver.apiextensions.validation.schema_defaults import EvaluateRules
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
from apiserver.catalogue.apiextensions import nothing_wrong
from apiserver.catalogue.builtin_type import BuiltinType, StoredAs
from apiserver.catalogue.core.services.allocation import ServiceAllocator, service_allocator
from apiserver.catalogue.rbac import role_bindings as rbac_rules
from apiserver.catalogue.rules.defaults import DEFAULTS
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.registry.served_resource import ConversionCodec, ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import SchemaCompiler
from apiserver.vocabulary import Document, GroupResource, GroupVersion

EVENT_TTL_S: Final = 3600
DEFAULT_RUNTIME_CONFIG: Final = RuntimeConfig()
DEFAULT_ALLOCATOR: Final = service_allocator(
    (ipaddress.ip_network("10.0.0.0/16"),), (30_000, 32_767), random.SystemRandom().randint
)


def builtin_resources(
    brand: Brand,
    schemas: BuiltinSchemas,
    *,
    event_ttl_s: int = EVENT_TTL_S,
    pools: ServiceAllocator = DEFAULT_ALLOCATOR,
    runtime_config: RuntimeConfig = DEFAULT_RUNTIME_CONFIG,
    check_rules: CheckRules = nothing_wrong,
    evaluate_rules: EvaluateRules = nothing_wrong,
) -> ResourceTable:
    """All built-in resources, in the order of discovery.

    event_ttl_s: how long Events are kept. pools: from where Services get addresses and ports.
    runtime_config: which versions are served.
    check_rules, evaluate_rules: of definitions of custom resources.
    """
    types = (
        *core.types(brand, event_ttl_s=event_ttl_s, service_allocator=pools),
        *apiregistration.types(),
        *apiextensions.types(brand, schemas, check_rules=check_rules, evaluate_rules=evaluate_rules),
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
        *scheduling.types(),
        *coordination.types(),
        *node.types(),
        *discovery.types(),
        *flowcontrol.types(),
        *resource.types(),
    )
    return ResourceTable(tuple(_served(types, brand, schemas, runtime_config)))


def _served(
    types: Iterable[BuiltinType], brand: Brand, schemas: BuiltinSchemas, runtime_config: RuntimeConfig
) -> Iterable[ServedResource]:
    schema_compiler = SchemaCompiler({**DEFAULTS, **rbac_rules.defaults(brand.group(rbac.GROUP))})
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
            conversion=_conversion(stored_as, brand) if stored_as else None,
            definition=builtin.definition,
            deprecation=builtin.deprecation,
            schema_compiler=schema_compiler,
        )


def _as_it_is(document: Document) -> None:
    """A conversion between versions that differ in name only."""


def _conversion(stored_as: StoredAs, brand: Brand) -> ConversionCodec:
    group = _full_group(stored_as.group, brand)
    return ConversionCodec(
        GroupResource(group, stored_as.resource),
        str(GroupVersion(group, stored_as.version)),
        stored_as.kind,
        stored_as.to_stored,
        stored_as.from_stored,
    )


def _full_group(group: str, brand: Brand) -> str:
    return brand.group(group[:-1]) if group.endswith(".") else group
