"""One served resource, and the immutable table of all that are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from apiserver.meta import table
from apiserver.meta.table import Columns
from apiserver.registry.stored_object import head_of
from apiserver.registry.strategy import DEFAULT_STRATEGY, Strategy, UpdateStrategy
from apiserver.schema.compile import Walk
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document, GroupKind, GroupResource, GroupVersion
from apiserver.wire.protobuf import Decoder

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

FieldGetter = Callable[[Document], str]


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below objects of a resource.

    update: how it takes updates and patches of the object; None where it is something else.
    kind, group_version: what it speaks, where that is not the parent's kind.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    update: UpdateStrategy | None = None
    kind: str = ""
    group_version: GroupVersion | None = None


@dataclass(frozen=True, eq=False)
class ServedResource:
    """One resource of one version: names, scope, verbs, schema, rules, columns.

    storage_version: the version in which its objects are kept.
    schema: gets the schema; called when it is first needed.
    selectable_fields: for each field that lists can be selected by, beside name and namespace, how to
        read it.
    """

    group_version: GroupVersion
    resource: str
    kind: str
    is_namespaced: bool
    schema: Callable[[], Schema]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    strategy: Strategy = DEFAULT_STRATEGY
    columns: Columns = table.DEFAULT
    selectable_fields: Mapping[str, FieldGetter] = field(default_factory=dict)
    storage_version: str = ""
    definition: str = ""  # the schema's name in OpenAPI

    @cached_property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group_version.group, self.resource)

    @cached_property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group_version.group, self.kind)

    @cached_property
    def api_version(self) -> str:
        return str(self.group_version)

    @cached_property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @cached_property
    def head(self) -> bytes:
        """What every object of this version begins with, up to its metadata."""
        return head_of(self.api_version, self.kind)

    @cached_property
    def check(self) -> Walk:
        """Checks and prunes a document; compiled when the first one comes."""
        return Walk(self.schema())

    @cached_property
    def from_protobuf(self) -> Decoder:
        """Decodes a message of this kind. Raises LookupError for kinds without a form in protobuf."""
        return Decoder(self.schema())

    @cached_property
    def known_fields(self) -> frozenset[str]:
        """The fields that lists and watches can be selected by."""
        always = {"metadata.name", "metadata.namespace"} if self.is_namespaced else {"metadata.name"}
        return frozenset(always | set(self.selectable_fields))


@dataclass(frozen=True, eq=False)
class ResourceTable:
    """Everything that is served at one moment. A change makes a new table.

    resources: ordered as discovery shows them.
    """

    resources: tuple[ServedResource, ...]
    _index: Mapping[tuple[str, str, str], ServedResource] = field(init=False, repr=False)
    group_versions: Mapping[GroupVersion, tuple[ServedResource, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        index = {(*r.group_version, r.resource): r for r in self.resources}
        by_version: dict[GroupVersion, list[ServedResource]] = {}
        for resource in self.resources:
            by_version.setdefault(resource.group_version, []).append(resource)
        object.__setattr__(self, "_index", MappingProxyType(index))
        object.__setattr__(
            self, "group_versions", MappingProxyType({gv: tuple(rs) for gv, rs in by_version.items()})
        )

    @cached_property
    def groups(self) -> Mapping[str, tuple[GroupVersion, ...]]:
        """The versions of each group, the preferred one first."""
        groups: dict[str, list[GroupVersion]] = {}
        for group_version in self.group_versions:
            groups.setdefault(group_version.group, []).append(group_version)
        return MappingProxyType(
            {
                group: tuple(sorted(versions, key=lambda gv: version_priority(gv.version), reverse=True))
                for group, versions in groups.items()
            }
        )

    def find(self, group: str, version: str, resource: str) -> ServedResource | None:
        return self._index.get((group, version, resource))

    def with_resources(self, resources: Iterable[ServedResource]) -> ResourceTable:
        return ResourceTable((*self.resources, *resources))


def version_priority(version: str) -> tuple[Any, ...]:
    """Sorts versions as discovery prefers them: GA over beta over alpha, then the higher number (S03)."""
    for stability, word in ((2, "beta"), (1, "alpha")):
        major, found, minor = version.removeprefix("v").partition(word)
        if found and major.isdigit() and (minor.isdigit() or not minor):
            return (stability, int(major), int(minor or 0), "")
    major = version.removeprefix("v")
    if version.startswith("v") and major.isdigit():
        return (3, int(major), 0, "")
    return (0, 0, 0, version)
