"""One served resource, and the immutable table of all that are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from apiserver.meta import table
from apiserver.meta.table import Columns
from apiserver.registry.stored_object import StoredObject, encode, head_of, with_revision
from apiserver.registry.strategy import DEFAULT_STRATEGY, Strategy, UpdateStrategy
from apiserver.schema.compile import Walk, Walks
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Deprecation, Document, GroupKind, GroupResource, GroupVersion
from apiserver.wire.protobuf import Decoder, Encoder

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

FieldGetter = Callable[[Document], str]


@dataclass(frozen=True, slots=True)
class ScaleFields:
    """Where a resource has what its scale shows.

    selector: the text by which the pods are found, of a document; empty if there is none.
    replicas, status_replicas: paths of numbers.
    default: what absent replicas mean; None if they must be there.
    checks_replicas: a scale with fewer than none is refused as a scale; else the resource's own rules see to
        that.
    """

    selector: Callable[[Document], str]
    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    default: int | None = 1
    checks_replicas: bool = True


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below objects of a resource.

    update: how it takes updates and patches of the object; None where it is something else.
    kind, group_version: what it speaks, where that is not the parent's kind.
    definition: its schema's name. What is no view of the object and has none connects to a node.
    scale: of the subresource that is one.
    has_paths: any path may follow.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    update: UpdateStrategy | None = None
    kind: str = ""
    group_version: GroupVersion | None = None
    definition: str = ""
    scale: ScaleFields | None = None
    has_paths: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """How objects that are kept in another version come and go.

    group_resource, api_version, kind: of the stored form.
    to_stored, from_stored: convert a document's content, in place.
    """

    group_resource: GroupResource
    api_version: str
    kind: str
    to_stored: Callable[[Document], None]
    from_stored: Callable[[Document], None]

    @property
    def head(self) -> bytes:
        return head_of(self.api_version, self.kind)


@dataclass(frozen=True, eq=False)
class ServedResource:
    """One resource of one version: names, scope, verbs, schema, rules, columns.

    storage_version: the version in which its objects are kept.
    conversion: between that version and this one, if they differ. Strategy and selectable fields are about
        documents as they are stored; schema and columns about those that clients see.
    schema: gets the schema; called when it is first needed.
    walks: where its walk is compiled, together with those of others that share definitions.
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
    conversion: Conversion | None = None
    definition: str = ""  # the schema's name in OpenAPI
    deprecation: Deprecation | None = None
    walks: Walks = field(default_factory=Walks)

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
    def deprecation_warning(self) -> str:
        """What clients are told with each answer; empty for nearly all."""
        return self.deprecation.warning(f"{self.api_version} {self.kind}") if self.deprecation else ""

    @cached_property
    def head(self) -> bytes:
        """What every object of this version begins with, up to its metadata."""
        return head_of(self.api_version, self.kind)

    @cached_property
    def stored_head(self) -> bytes:
        """What its objects begin with where they are kept."""
        return self.conversion.head if self.conversion else self.head

    @cached_property
    def stored_group_resource(self) -> GroupResource:
        """Whose objects they are where they are kept."""
        return self.conversion.group_resource if self.conversion else self.group_resource

    def view(self, found: StoredObject) -> StoredObject:
        """A stored object in this version, for encoders."""
        if self.conversion is None or not found.head:
            return found
        document = found.document()
        revision = document["metadata"].get("resourceVersion")  # What was not stored (a dry run) has none.
        rest = encode(self.from_stored(document), self.head)[len(self.head) :]
        return StoredObject(found.key, self.head, with_revision(rest, int(revision)) if revision else rest)

    def from_stored(self, document: Document) -> Document:
        """A stored document, taken over, in this version."""
        if self.conversion is not None:
            self.conversion.from_stored(document)
            document["apiVersion"], document["kind"] = self.api_version, self.kind
        return document

    def to_stored(self, document: Document) -> Document:
        """A document of this version, taken over, as it is stored."""
        if self.conversion is not None:
            self.conversion.to_stored(document)
            document["apiVersion"], document["kind"] = self.conversion.api_version, self.conversion.kind
        return document

    @cached_property
    def check(self) -> Walk:
        """Checks and prunes a document; compiled when the first one comes."""
        return self.walks.of(self.schema())

    def compile(self) -> None:
        """Make now what a thread would need first: made in the event loop, it is made once."""
        _ = self.check

    @cached_property
    def from_protobuf(self) -> Decoder:
        """Decodes a message of this kind. Raises LookupError for kinds without a form in protobuf."""
        return Decoder(self.schema())

    @cached_property
    def to_protobuf(self) -> Encoder:
        """Encodes a document as a message. Raises LookupError for kinds without a form in protobuf."""
        return Encoder(self.schema())

    @cached_property
    def has_protobuf(self) -> bool:
        try:
            return self.to_protobuf is not None
        except LookupError:
            return False

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
