"""Builds the served resources of all built-in types."""

from __future__ import annotations

import copy
import ipaddress
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson

from apiserver.catalogue import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apiserverinternal,
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
    lifecycle,
    networking,
    node,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
    storagemigration,
)
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.catalogue.gated_fields import disabled_by, without_disabled_fields
from apiserver.catalogue.metadata_checks import with_metadata_checks
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.catalogue.shared_values import SharedValues
from apiserver.catalogue.type_versions import (
    TypeVersions,
    api_version_of,
    full_group,
    group_version_of,
    lifecycle_of,
)
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates, gates_of
from apiserver.meta.releases.lifecycles import REMOVED_BEFORE, in_domain, known_lifecycles
from apiserver.meta.vocabulary import Document, GroupResource, GroupVersion
from apiserver.registry.builtin_version_codec import BuiltinCodec
from apiserver.registry.served_resource import ResourceTable, ServedResource, Subresource
from apiserver.registry.storage_form import StorageForm
from apiserver.registry.stored_version_decoder import OtherStorageVersion, StoredKind, StoredKinds
from apiserver.registry.strategy import DeclaredChecks, Strategy
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import Default, SchemaCompiler
from apiserver.schema.shapes import ShapeCompiler
from apiserver.schema.validation.declarative.rules import DeclaredRules, migrated_types
from apiserver.storage.keys import resource_prefix

EVENT_TTL_S: Final = 3600
# Servers in one process nearly always have one.
SHARED_TABLES_MAX: Final = 8
# The group that all of its types have left.
_EXTENSIONS: Final = "extensions"
DEFAULT_RUNTIME_CONFIG: Final = RuntimeConfig()
DEFAULT_ALLOCATOR: Final = ServiceAllocator.for_networks(
    (ipaddress.ip_network("10.0.0.0/16"),), (30_000, 32_767), random.SystemRandom().randint
)


class SharedTypes(NamedTuple):
    """The storage of built-in types where servers of an older release share the store.

    forms: the stored versions, by the types' hubs; None for the hub version. unreadable: the types that the
        oldest release lacks.
    """

    forms: Mapping[GroupResource, StorageForm | None]
    unreadable: frozenset[GroupResource]


class _SharedTable(NamedTuple):
    """The resources that servers with the same flags serve, and those of them with declared rules."""

    table: ResourceTable
    rules: Mapping[ServedResource, DeclaredRules]


def _kind_in(head: bytes) -> tuple[str, str]:
    """Returns apiVersion and kind in the head of an object; two empty texts if either is not a text."""
    type_meta = orjson.loads(head + b"{}}")
    api_version, kind = type_meta.get("apiVersion"), type_meta.get("kind")
    return (api_version, kind) if isinstance(api_version, str) and isinstance(kind, str) else ("", "")


class Catalogue(StoredKinds):
    """All versions of all built-in types that a release has.

    Parts that do not depend on the server are shared by all catalogues that `for_server` makes.
    event_ttl_s: the lifetime of Events. service_allocator: allocates addresses and ports of Services.
    gates: the feature gates of types (`BuiltinType.feature_gates`) and fields (`gated_fields`); None for the
        types of all gates, with the default fields of the release.
    """

    def __init__(
        self,
        brand: Brand,
        schemas: BuiltinSchemas,
        *,
        event_ttl_s: int = EVENT_TTL_S,
        service_allocator: ServiceAllocator = DEFAULT_ALLOCATOR,
        release: EmulatedRelease = DEFAULT_RELEASE,
        gates: FeatureGates | None = None,
    ) -> None:
        self._brand, self._schemas, self._release, self._gates = brand, schemas, release, gates
        states = gates if gates is not None else gates_of(release.minor, ())
        self._compatibility = CompatibilityVersion.of(release, states)
        self._service_allocator = service_allocator
        self._declared: Callable[[str, DeclaredRules], DeclaredChecks] | None = None
        types: tuple[BuiltinType, ...] = (
            *core.types(brand, event_ttl_s=event_ttl_s, service_allocator=service_allocator, gates=states),
            *apiregistration.TYPES,
            *apps.types(states),
            *events.types(event_ttl_s=event_ttl_s),
            *authentication.TYPES,
            *authorization.TYPES,
            *autoscaling.types(states),
            *batch.types(states),
            *certificates.TYPES,
            *networking.types(states),
            *policy.TYPES,
            *rbac.types(brand),
            *storage.types(release, gates),
            *admissionregistration.types(self._compatibility),
            *apiextensions.types(brand, schemas.get, self._compatibility),
            *scheduling.types(release, gates),
            *coordination.TYPES,
            *node.TYPES,
            *discovery.types(states),
            *resource.types(release, self._compatibility),
            *flowcontrol.TYPES,
            *storagemigration.TYPES,
            *apiserverinternal.TYPES,
            *lifecycle.TYPES,
        )
        self._has_removed = release.minor < REMOVED_BEFORE
        if self._has_removed:
            types = _in_order((*types, *self._removed(types)))
        is_disabled = disabled_by(states)
        versions = TypeVersions(types, brand, release)
        self._types = tuple(
            with_metadata_checks(without_disabled_fields(each, hub.definition, is_disabled), hub)
            for each in types
            for hub in (versions.hub_of(each),)
        )
        self._by_version = {(api_version_of(each, brand), each.kind): each for each in reversed(self._types)}
        self._folders = frozenset(
            resource_prefix("", full_group(each.group, brand), each.resource) for each in self._types
        )
        self._shapes = ShapeCompiler()
        self._versions = TypeVersions(self._types, brand, release)
        # By the configuration of served versions.
        self._tables: SharedValues[tuple[RuntimeConfig, int | None], _SharedTable] = SharedValues(
            SHARED_TABLES_MAX
        )

    def for_server(
        self,
        service_allocator: ServiceAllocator,
        declared: Callable[[str, DeclaredRules], DeclaredChecks] | None,
    ) -> Catalogue:
        """Returns the same catalogue for one of several servers, which may run in several threads.

        service_allocator: one for the same networks and ports.
        declared: compares the checks of a kind with its declared rules; None if these are not evaluated.
        """
        copied = copy.copy(self)
        copied._service_allocator, copied._declared = service_allocator, declared
        return copied

    def share(self, oldest: EmulatedRelease) -> SharedTypes:
        """Store objects so that servers of an older release on the store can read them, too.

        oldest: see `meta.releases.sharing.shared_release`.
        """
        release = self._release._replace(min_compatible=oldest.min_compatible)
        stored = TypeVersions(self._types, self._brand, release, oldest.minor)
        forms: dict[GroupResource, StorageForm | None] = {}
        unreadable: set[GroupResource] = set()
        there = [builtin for builtin in self._types if lifecycle_of(builtin).is_in(self._release.minor)]
        for hub in stored.hubs_of(there):
            key = GroupResource(full_group(hub.group, self._brand), hub.resource)
            forms[key] = stored.storage_form(hub)
            if not lifecycle_of(stored.stored_as(hub)).is_in(oldest.minor):
                unreadable.add(key)
        return SharedTypes(forms, frozenset(unreadable))

    def resources(
        self, runtime_config: RuntimeConfig = DEFAULT_RUNTIME_CONFIG, emulate_removal: int | None = None
    ) -> ResourceTable:
        """Returns the served resources, in the order of discovery.

        runtime_config: selects the served versions from those of the release.
        emulate_removal: leaves out versions that release 1.`emulate_removal` removed; None: none.
        """
        key = (runtime_config, emulate_removal)
        table, rules = self._tables.get(key, partial(self._shared_table, *key))
        return table.for_server(partial(self._strategy, rules))

    def _shared_table(self, runtime_config: RuntimeConfig, emulate_removal: int | None) -> _SharedTable:
        schema_compiler = SchemaCompiler(defaults_of(self._types))
        rules: dict[ServedResource, DeclaredRules] = {}

        def make(builtin: BuiltinType) -> ServedResource:
            made = self._resource(schema_compiler, builtin)
            if (declared := migrated_types().get(self._versions.hub_of(builtin).definition)) is not None:
                rules[made] = declared
            return made

        served = [builtin for builtin in self._types if self._is_served(builtin, runtime_config)]
        table = ResourceTable(map(make, served), hubs=map(make, self._versions.hubs_of(served)))
        if emulate_removal is not None:
            table = table.without_removed(emulate_removal)
        return _SharedTable(table, rules)

    def all_versions(self) -> Iterable[ServedResource]:
        """Returns all versions of all types, including those of other releases."""
        return map(partial(self._resource, SchemaCompiler(defaults_of(self._types))), self._types)

    def other_version(self, head: bytes) -> OtherStorageVersion | None:
        """Returns the conversion of stored objects that begin with `head` to the hub version.

        Returns None if they have that version, or are not of a built-in type. See `registry.stored_object`.
        An object in a former version of Kubernetes that this release cannot read is treated as damaged.
        """
        api_version, kind = _kind_in(head)
        if not kind:
            return None
        if (found := self._by_version.get((api_version, kind))) is not None:
            return self._versions.other_version(found)
        if self._has_removed or not self._may_be_removed(api_version):
            return self._unreadable(head, api_version, kind)
        removed = self._removed(self._types)
        for builtin in removed:
            if builtin.kind == kind and api_version_of(builtin, self._brand) == api_version:
                versions = TypeVersions((*self._types, *removed), self._brand, self._release)
                return versions.other_version(builtin)
        return self._unreadable(head, api_version, kind)

    def kind(self, head: bytes) -> StoredKind | None:
        found = self._by_version.get(_kind_in(head))
        if found is None:
            other = self.other_version(head)
            return self.kind(other.hub_head) if other is not None and other.hub_head != head else None
        hub = self._versions.hub_of(found)
        folder = resource_prefix("", full_group(hub.group, self._brand), hub.resource)
        return StoredKind(folder, self._shapes.compile(self._schemas.get(hub.definition)))

    def is_builtin(self, folder: str) -> bool:
        return folder in self._folders

    def _unreadable(self, head: bytes, api_version: str, kind: str) -> OtherStorageVersion | None:
        """Returns a conversion that refuses objects of a built-in type in an unknown version.

        When 1.31 replaced claims by those of devices, types kept only their names.
        """
        domain = self._brand.group_domain
        for life in known_lifecycles().values():
            if life.kind == kind and in_domain(life.group_version, domain) == api_version:
                text = f'no kind "{kind}" is registered for version "{api_version}"'
                return OtherStorageVersion(head, partial(_refuse, text), api_version)
        return None

    def _may_be_removed(self, api_version: str) -> bool:
        """Returns whether a version that this release does not have may be one of a built-in type."""
        group = api_version.rpartition("/")[0]
        groups = (full_group(each.group, self._brand) for each in self._types)
        return group == _EXTENSIONS or group in groups

    def _removed(self, current: Iterable[BuiltinType]) -> Sequence[BuiltinType]:
        """Returns the versions of types that the newest releases have removed."""
        # Most servers never need them: they are imported when one does.
        from apiserver.catalogue import removed_versions

        return removed_versions.types(self._brand, self._schemas.get, current, self._compatibility)

    def _is_served(self, builtin: BuiltinType, runtime_config: RuntimeConfig) -> bool:
        life = lifecycle_of(builtin)
        gates = self._gates
        if gates is not None and not gates.allow(builtin.feature_gates):
            return False
        if gates is not None and gates.are_turned_off(builtin.optional_gates):
            return False
        return life.is_in(self._release.minor) and runtime_config.serves(
            group_version_of(builtin, self._brand), builtin.resource, by_default=life.is_on_by_default
        )

    def _resource(self, schema_compiler: SchemaCompiler, builtin: BuiltinType) -> ServedResource:
        versions, minor = self._versions, self._release.minor
        group_version = group_version_of(builtin, self._brand)
        life, hub = lifecycle_of(builtin), versions.hub_version(builtin)
        subresources = [
            self._deprecated(builtin, _of_release(builtin, sub, minor))
            for sub in builtin.subresources
            if _has_subresource(builtin, sub, minor)
        ]
        return ServedResource(
            group_version=group_version,
            resource=builtin.resource,
            kind=builtin.kind,
            is_namespaced=builtin.is_namespaced,
            schema=partial(self._schemas.get, builtin.definition),
            singular=builtin.singular or builtin.kind.lower(),
            short_names=builtin.short_names,
            categories=builtin.categories,
            verbs=builtin.verbs,
            subresources=MappingProxyType(
                {sub.name: sub for sub in sorted(subresources, key=lambda sub: sub.name)}
            ),
            strategy=builtin.strategy,
            columns=builtin.columns,
            selectable_fields=builtin.selectable_fields,
            field_refusal=builtin.field_refusal,
            storage_version=versions.stored_as(builtin).version,
            storage_form=versions.storage_form(builtin),
            version_codec=BuiltinCodec(str(group_version), builtin.kind, hub) if hub else None,
            definition=builtin.definition,
            deprecation=life.deprecation(minor, self._brand.group_domain),
            removal=life.removal(minor, self._brand.group_domain),
            schema_compiler=schema_compiler,
        )

    def _deprecated(self, builtin: BuiltinType, subresource: Subresource) -> Subresource:
        """Returns a subresource with the deprecation of its kind."""
        version = subresource.group_version or group_version_of(builtin, Brand())
        life = known_lifecycles().get((str(version), f"{builtin.resource}/{subresource.name}"))
        if life is None or not life.is_deprecated_in(self._release.minor):
            return subresource
        deprecation = life.deprecation(self._release.minor, self._brand.group_domain)
        return subresource._replace(deprecation=deprecation)

    def _strategy(self, rules: Mapping[ServedResource, DeclaredRules], resource: ServedResource) -> Strategy:
        """Returns the rules of a resource, with the parts that are specific to this server.

        rules: the declared rules, which are for the form of the type's hub.
        """
        strategy = resource.strategy
        if strategy.allocator is not None:
            strategy = strategy._replace(allocator=self._service_allocator)
        if self._declared is not None and (declared := rules.get(resource)) is not None:
            strategy = strategy._replace(declared=self._declared(resource.kind, declared))
        return strategy


def _refuse(text: str, document: Document) -> None:
    raise ValueError(text)


def _has_subresource(builtin: BuiltinType, subresource: Subresource, minor: int) -> bool:
    life = lifecycle_of(builtin, subresource.name)
    return life is None or life.is_in(minor)


def _of_release(builtin: BuiltinType, subresource: Subresource, minor: int) -> Subresource:
    """Returns a subresource with its kind in the version of a release."""
    if subresource.group_version is None:
        return subresource
    path = f"{builtin.resource}/{subresource.name}"
    life = known_lifecycles().get((str(subresource.group_version), path))
    if life is None or life.is_in(minor):
        return subresource
    for each in known_lifecycles().values():
        if each.resource == path and each.group == life.group and each.is_in(minor):
            return subresource._replace(group_version=GroupVersion(each.group, each.version))
    return subresource


def _in_order(types: Sequence[BuiltinType]) -> tuple[BuiltinType, ...]:
    """Returns types in the order of their groups in discovery; `extensions` comes before `apps`."""
    rank: dict[str, float] = {}
    for builtin in types:
        rank.setdefault(builtin.group, len(rank))
    rank[_EXTENSIONS] = rank["apps"] - 0.5
    return tuple(sorted(types, key=lambda builtin: rank[builtin.group]))


def defaults_of(types: Iterable[BuiltinType]) -> Mapping[str, Default]:
    """Returns the defaults of all types together, by definition. Each definition has one default."""
    together: dict[str, Default] = {}
    for builtin in types:
        for definition, default in builtin.defaults.items():
            if together.setdefault(definition, default) is not default:
                raise ValueError(f"{definition} has two defaults; put them together with in_turn")
    return MappingProxyType(together)
