"""The versions of built-in types: the hub, the stored version, and the conversion of others.

One version of a type is its *hub*: rules are written for it, and every other version is converted to it and
back. Which version is stored depends on the release (`meta.releases.lifecycles.storage_version`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

from apiserver.catalogue.builtin_type import BuiltinType, HubConversion
from apiserver.catalogue.common.other_versions import hub_of
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.lifecycles import Lifecycle, known_lifecycles, storage_version
from apiserver.meta.vocabulary import GroupResource, GroupVersion
from apiserver.registry.builtin_version_codec import HubVersion
from apiserver.registry.served_resource import version_priority
from apiserver.registry.storage_form import StorageForm
from apiserver.registry.stored_object import head_of
from apiserver.registry.stored_version_decoder import OtherStorageVersion


class TypeVersions:
    """The versions of some types.

    If a type is the same in several versions, the first of them is its hub.
    oldest: see `meta.releases.lifecycles.storage_version`.
    """

    def __init__(
        self, types: Iterable[BuiltinType], brand: Brand, release: EmulatedRelease, oldest: int | None = None
    ) -> None:
        self._brand, self._release, self._oldest = brand, release, oldest
        self._first: dict[tuple[str, str], BuiltinType] = {}
        # All versions of a type in the group of its hub, by the hub's group and resource.
        self._all: dict[tuple[str, str], list[BuiltinType]] = {}
        for builtin in types:
            self._first.setdefault((builtin.group, builtin.resource), builtin)
            hub = self._hub(builtin)
            if hub is None or hub.group == builtin.group:
                self._all.setdefault(self._family(builtin), []).append(builtin)

    def hub_of(self, builtin: BuiltinType) -> BuiltinType:
        """Returns the version of a type for which its rules are written, which may be this one."""
        return self._first[self._family(builtin)]

    def hubs_of(self, types: Iterable[BuiltinType]) -> list[BuiltinType]:
        """Returns the hubs of some types, each once."""
        hubs: dict[tuple[str, str], BuiltinType] = {}
        for builtin in types:
            hubs.setdefault(self._family(builtin), self.hub_of(builtin))
        return list(hubs.values())

    def hub_version(self, builtin: BuiltinType) -> HubVersion | None:
        """Returns the hub of a type; None if the type is a hub."""
        hub = self._hub(builtin)
        if hub is None:
            return None
        group = full_group(hub.group, self._brand)
        return HubVersion(
            GroupResource(group, hub.resource),
            str(GroupVersion(group, hub.version)),
            hub.kind,
            hub.to_hub,
            hub.from_hub,
            hub.validate,
        )

    def stored_as(self, builtin: BuiltinType) -> BuiltinType:
        """Returns the version in which a type's objects are stored."""
        family = self._all[self._family(builtin)]
        if len(family) == 1:
            return family[0]
        lives = {lifecycle_of(each): each for each in family}
        in_order = sorted(lives, key=lambda life: version_priority(life.version), reverse=True)
        chosen = storage_version(in_order, self._release, self._oldest)
        return family[0] if chosen is None else lives[chosen]

    def storage_form(self, builtin: BuiltinType) -> StorageForm | None:
        """Returns the form in which a type's objects are stored; None if it is the hub."""
        stored = self.stored_as(builtin)
        hub = self._hub(stored)
        if hub is None:
            return None
        return StorageForm(api_version_of(stored, self._brand), stored.kind, hub.from_hub)

    def other_version(self, builtin: BuiltinType) -> OtherStorageVersion | None:
        """Returns the conversion of objects that are stored in this version; None if it is the hub."""
        hub = self._hub(builtin)
        if hub is None:
            return None
        group_version = GroupVersion(full_group(hub.group, self._brand), hub.version)
        head = head_of(str(group_version), hub.kind)
        return OtherStorageVersion(head, hub.to_hub, api_version_of(builtin, self._brand))

    def _hub(self, builtin: BuiltinType) -> HubConversion | None:
        if builtin.hub is not None:
            return builtin.hub
        first = self._first[builtin.group, builtin.resource]
        if first is builtin:
            return None
        return first.hub or hub_of(first)

    def _family(self, builtin: BuiltinType) -> tuple[str, str]:
        hub = self._hub(builtin)
        return (builtin.group, builtin.resource) if hub is None else (hub.group, hub.resource)


@overload
def lifecycle_of(builtin: BuiltinType) -> Lifecycle: ...
@overload
def lifecycle_of(builtin: BuiltinType, subresource: str) -> Lifecycle | None: ...
def lifecycle_of(builtin: BuiltinType, subresource: str = "") -> Lifecycle | None:
    """Returns the lifecycle of a type, or of one of its subresources, if that has a separate one."""
    group_version = api_version_of(builtin, Brand())
    if subresource:
        return known_lifecycles().get((group_version, f"{builtin.resource}/{subresource}"))
    return known_lifecycles()[group_version, builtin.resource]


def group_version_of(builtin: BuiltinType, brand: Brand) -> GroupVersion:
    return GroupVersion(full_group(builtin.group, brand), builtin.version)


def api_version_of(builtin: BuiltinType, brand: Brand) -> str:
    return str(group_version_of(builtin, brand))


def full_group(group: str, brand: Brand) -> str:
    """Returns the full name of a group in a `BuiltinType`, with the deployment's domain."""
    return brand.group(group[:-1]) if group.endswith(".") else group
