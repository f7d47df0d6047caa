"""One served resource, and the immutable table of all that are served."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from apiserver.load.size_class import SizeClass, size_class_of_defaults
from apiserver.meta import table
from apiserver.meta.selectors import OwnFields
from apiserver.meta.table import Columns
from apiserver.meta.vocabulary import Deprecation, Document, GroupKind, GroupResource, GroupVersion, Removal
from apiserver.registry.field_getters import FieldGetter
from apiserver.registry.storage_form import StorageForm
from apiserver.registry.stored_object import head_of
from apiserver.registry.strategy import DEFAULT_STRATEGY, Strategy, UpdateStrategy
from apiserver.registry.version_codec import IdentityCodec, VersionCodec
from apiserver.schema.compile import CheckedDocument, SchemaCompiler
from apiserver.schema.structural import Schema
from apiserver.storage.keys import resource_prefix
from apiserver.wire.protobuf import MessageDecoder, MessageEncoder

_T = TypeVar("_T")

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class SchemaCheck(Protocol):
    """Checks, prunes and completes a document in place."""

    def __call__(self, document: Document, *, is_merged: bool = False) -> list[str]:
        """Returns the paths of the unknown fields, which it removed. Raises TypeMismatch.

        is_merged: whether the document is a map into which a patch has been merged, which Kubernetes turns
            into a Go object without JSON in between: a whole number is an integer however it is written, and
            null in a custom resource is a value.
        """
        ...

    def checked(self, document: Document, *, is_merged: bool = False) -> CheckedDocument:
        """Checks a document, and returns everything that was removed. Raises TypeMismatch."""
        ...


class ScaleFields(NamedTuple):
    """The fields of a resource that its scale shows.

    selector: returns the pod selector of a document as text; empty if there is none.
    replicas, status_replicas: paths of numbers.
    default: the value of absent replicas; None if they are required.
    checks_replicas: whether a negative number is refused by the scale, rather than by the resource's own
        rules.
    has_labels: whether the scale has the text in a separate field, `targetSelector`, and in `selector` the
        labels, if the selector consists of labels only.
    """

    selector: Callable[[Document], str]
    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    default: int | None = 1
    checks_replicas: bool = True
    has_labels: bool = False


class Subresource(NamedTuple):
    """A path below objects of a resource.

    update: how it handles updates and patches of the object; None if it is not a view of the object.
    kind, group_version: those of its documents, if not the parent's.
    definition: the name of its schema. A subresource without a definition that is not a view of the object
        connects to another server.
    scale: the fields of a scale subresource.
    has_paths: whether any path may follow, and any method is forwarded.
    connects: whether each request is forwarded to another server; the options in its query are an object of
        `kind`.
    deprecation: of a built-in `kind`; None if that is not deprecated.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    update: UpdateStrategy | None = None
    kind: str = ""
    group_version: GroupVersion | None = None
    definition: str = ""
    scale: ScaleFields | None = None
    has_paths: bool = False
    connects: bool = False
    deprecation: Deprecation | None = None


class ResourcePreparation(Protocol):
    """Preparation that takes long, and has to be done before a resource can be used.

    prepare: may run in a thread, also several times.
    """

    @property
    def is_due(self) -> bool: ...

    def prepare(self) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class ServedResource:
    """One resource of one version: names, scope, verbs, schema, rules, columns.

    list_kind: the kind of collections; `{kind}List` if empty.
    storage_version: the version in which its objects are stored.
    storage_form: converts objects of the hub version to that version, if it differs.
    version_codec: converts between stored objects and the client's version; None if they are the same.
        Strategy and selectable fields apply to documents of its hub version, schema and columns to those of
        the client's.
    also_accepts: other versions that bodies may have; their fields are the same.
    is_custom: whether a CustomResourceDefinition defines it.
    is_virtual: whether functions of an extension make its objects, of which none is stored.
    removal: the release that removes it, if known; this may be known before a built-in version is deprecated.
    schema: gets the schema; called when it is first needed.
    schema_compiler: compiles its schema, together with those of others that share definitions.
    compile_check: makes its check if that is not compiled from its schema.
    preparations: each to be prepared in a thread before the resource is used.
    definition_schema: gets the OpenAPI schema of a custom resource as its definition has it; it must not be
        changed.
    openapi: returns its OpenAPI v3 schema, or with True that of v2, if it is not among the definitions. The
        mapping holds descriptions of the fields that all objects have.
    selectable_fields: for each field that selectors may use, beside name and namespace, how to
        read it.
    field_refusal: the error for other fields, if Kubernetes has a special one; see `OwnFields`. {gvk} is the
        kind with its version.
    """

    group_version: GroupVersion
    resource: str
    kind: str
    is_namespaced: bool
    schema: Callable[[], Schema]
    list_kind: str = ""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    strategy: Strategy = DEFAULT_STRATEGY
    columns: Columns = table.DEFAULT
    selectable_fields: Mapping[str, FieldGetter] = field(default_factory=dict)
    field_refusal: str = ""
    storage_version: str = ""
    storage_form: StorageForm | None = None
    version_codec: VersionCodec | None = None
    also_accepts: tuple[str, ...] = ()
    is_custom: bool = False
    is_virtual: bool = False
    definition: str = ""  # the schema's name in OpenAPI
    deprecation: Deprecation | None = None
    removal: Removal | None = None
    schema_compiler: SchemaCompiler = field(default_factory=SchemaCompiler)
    compile_check: Callable[[], SchemaCheck] | None = None
    preparations: tuple[ResourcePreparation, ...] = ()
    definition_schema: Callable[[], Mapping[str, Any]] | None = None
    openapi: Callable[[bool, Mapping[str, str]], Document] | None = None
    # What is derived from it elsewhere (encoders, field managers), by keys of theirs; it goes with the
    # resource.
    derived: dict[object, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.list_kind:
            object.__setattr__(self, "list_kind", f"{self.kind}List")

    def for_server(self, strategy: Strategy) -> ServedResource:
        """Returns the same resource for one of several servers, which may run in several threads.

        Data derived from its fields alone is shared; other derived data belongs to one server.
        """
        for shared in ("api_version", "head", "codec", "group_resource", "group_kind", "has_table"):
            getattr(self, shared)
        copied = object.__new__(ServedResource)
        copied.__dict__.update(self.__dict__, strategy=strategy, derived={})
        copied.__dict__.pop("cache_key", None)
        return copied

    @cached_property
    def folder(self) -> str:
        """The folder of its objects' keys, after the prefix of all keys: `/apps/deployments/`."""
        return resource_prefix("", *self.stored_group_resource)

    @cached_property
    def cache_key(self) -> object:
        """Identifies the resource in keys of caches that may outlive it."""
        return object()

    @cached_property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group_version.group, self.resource)

    @cached_property
    def group_kind(self) -> GroupKind:
        """The kind as errors name it, with the group in which it is stored, like Kubernetes' internal
        types.
        """
        return GroupKind(self.stored_group_resource.group, self.kind)

    @cached_property
    def api_version(self) -> str:
        return str(self.group_version)

    @cached_property
    def deprecation_warning(self) -> str:
        """The deprecation warning in each response; empty for nearly all resources."""
        return self.deprecation.warning(f"{self.api_version} {self.kind}") if self.deprecation else ""

    @cached_property
    def goes_away(self) -> bool:
        """Whether the resource is deprecated or will be removed; False for nearly all."""
        return self.deprecation is not None or self.removal is not None

    def deprecation_of(self, subresource: str) -> Deprecation | None:
        """Returns the deprecation that a request is warned about: that of the subresource's own kind, if any.

        A deprecated version of a definition is deprecated with all its subresources. Source:
        k8s.io/apiserver, pkg/endpoints/installer.go; apiextensions-apiserver, customresource_handler.go.
        """
        found = self.subresources.get(subresource)
        known = self.deprecation if found is None or self._is_of_parent(found) else found.deprecation
        return known if known is not None and known.is_announced else None

    def deprecation_warning_of(self, subresource: str) -> str:
        """Returns the warning of a deprecation, even if requests do not carry it; empty if there is none."""
        found = self.subresources.get(subresource)
        if found is None or self._is_of_parent(found):
            return self.deprecation_warning
        if found.deprecation is None:
            return ""
        return found.deprecation.warning(f"{found.group_version or self.group_version} {found.kind}")

    def _is_of_parent(self, subresource: Subresource) -> bool:
        """Whether a subresource is deprecated together with its resource."""
        return self.is_custom or subresource.kind in ("", self.kind)

    @cached_property
    def head(self) -> bytes:
        """The bytes that every object of this version begins with, up to its metadata."""
        return head_of(self.api_version, self.kind)

    @cached_property
    def codec(self) -> VersionCodec:
        """The codec between stored objects and this version."""
        return self.version_codec or IdentityCodec(self.head, self.group_resource, self.kind)

    @cached_property
    def stored_group_resource(self) -> GroupResource:
        """The resource under which its objects are stored, which admission plugins see."""
        return self.codec.stored_group_resource

    @property
    def has_past(self) -> bool:
        """Whether a history has its objects: what is not stored has no past."""
        return not self.is_virtual and {"list", "watch"}.issubset(self.verbs)

    @cached_property
    def check(self) -> SchemaCheck:
        """The check that validates and prunes a document, compiled on first use."""
        if self.compile_check is not None:
            return self.compile_check()
        return self.schema_compiler.compile(self.schema())

    def size_of_defaults(self, text: bytes) -> SizeClass:
        """Returns the work of applying defaults to an encoded object or a patch."""
        size = self._default_bytes
        return size_class_of_defaults(text, size) if size else SizeClass.SMALL

    @cached_property
    def _default_bytes(self) -> int:
        default_bytes = self.strategy.default_bytes
        return default_bytes() if default_bytes is not None else 0

    def compile(self) -> None:
        """Compile the check now, on the event loop, so that threads do not compile it several times."""
        _ = self.check

    @cached_property
    def from_protobuf(self) -> MessageDecoder:
        """Decodes a message of this kind. Raises LookupError for kinds without a form in protobuf."""
        return MessageDecoder(self.schema())

    @cached_property
    def to_protobuf(self) -> MessageEncoder:
        """Encodes a document as a message. Raises LookupError for kinds without a form in protobuf."""
        return MessageEncoder(self.schema())

    @cached_property
    def has_protobuf(self) -> bool:
        if not self.definition:
            return False
        try:
            return self.to_protobuf is not None
        except LookupError:
            return False

    @cached_property
    def has_table(self) -> bool:
        """Whether objects can be shown as a table; create-only kinds, as reviews, cannot."""
        return self.verbs != ("create",)

    @cached_property
    def known_fields(self) -> frozenset[str]:
        """The fields that lists and watches can be selected by."""
        if not (self.selectable_fields or self.is_custom):
            # Kubernetes' default, whatever the scope.
            return frozenset(("metadata.name", "metadata.namespace"))
        always = ("metadata.name", "metadata.namespace") if self.is_namespaced else ("metadata.name",)
        refusal = self.field_refusal.replace("{gvk}", f"{self.group_version}, Kind={self.kind}")
        return OwnFields.of((*always, *self.selectable_fields), refusal)


class ResourceTable:
    """All resources that are served at one moment. A change makes a new table, at a cost proportional to the
    change.

    resources: in the order of discovery.
    group_versions: the resources of each version.
    groups: the versions of each group, the preferred one first.
    hubs: the built-in types in the version that the server itself uses, which may not be served to clients.
    """

    # Data that others derive from the table, by their keys; it is freed with the table. A module that cached
    # it by table would keep the last table, and all resources in it, until it is called again, perhaps never.
    _derived: dict[object, Any]

    def __init__(self, resources: Iterable[ServedResource], *, hubs: Iterable[ServedResource] = ()) -> None:
        self._derived = {}
        self._hubs = {(each.group_version.group, each.resource): each for each in hubs}
        self._resources: tuple[ServedResource, ...] | None = tuple(resources)
        self._index = {(*r.group_version, r.resource): r for r in self._resources}
        by_version: dict[GroupVersion, list[ServedResource]] = {}
        for resource in self._resources:
            by_version.setdefault(resource.group_version, []).append(resource)
        self._by_version = {gv: tuple(rs) for gv, rs in by_version.items()}
        by_group: dict[str, list[GroupVersion]] = {}
        for group_version in self._by_version:
            by_group.setdefault(group_version.group, []).append(group_version)
        self._by_group = {group: _by_preference(versions) for group, versions in by_group.items()}
        self._first_groups = tuple(self._by_group)

    @property
    def resources(self) -> tuple[ServedResource, ...]:
        if self._resources is None:
            self._resources = tuple(each for served in self._by_version.values() for each in served)
        return self._resources

    @property
    def group_versions(self) -> Mapping[GroupVersion, tuple[ServedResource, ...]]:
        return MappingProxyType(self._by_version)

    @property
    def groups(self) -> Mapping[str, tuple[GroupVersion, ...]]:
        return MappingProxyType(self._by_group)

    def find(self, group: str, version: str, resource: str) -> ServedResource | None:
        return self._index.get((group, version, resource))

    def hub(self, group: str, resource: str) -> ServedResource | None:
        """Returns a built-in type in the version that the server uses; None if no version is served.

        It is for the server's own reads and writes: this version may not be served to clients.
        """
        return self._hubs.get((group, resource))

    def derived(self, key: object, derive: Callable[[ResourceTable], _T]) -> _T:
        """Returns the result of `derive` for the table, which is made once for each key."""
        found: _T | None = self._derived.get(key)
        if found is None:
            found = self._derived[key] = derive(self)
        return found

    def for_server(self, strategy_of: Callable[[ServedResource], Strategy]) -> ResourceTable:
        """Returns the same table for one of several servers: see `ServedResource.for_server`."""
        made = {each: each.for_server(strategy_of(each)) for each in (*self.resources, *self._hubs.values())}
        table = copy.copy(self)
        table._derived = {}
        table._resources = tuple(made[each] for each in self.resources)
        table._hubs = {key: made[each] for key, each in self._hubs.items()}
        table._index = {key: made[each] for key, each in self._index.items()}
        table._by_version = {
            version: tuple(made[each] for each in served) for version, served in self._by_version.items()
        }
        return table

    def is_custom(self, group: str) -> bool:
        """Returns whether a group has only custom resources."""
        return group not in self._first_groups

    def without_removed(self, minor: int) -> ResourceTable:
        """Returns the table without the built-in versions that release 1.`minor` has removed."""
        gone = [each for each in self.resources if each.removal is not None and each.removal.is_in(minor)]
        table = self.changed(gone, ())
        table._first_groups = tuple(group for group in self._first_groups if group in table._by_group)
        return table

    def changed(self, gone: Collection[ServedResource], new: Collection[ServedResource]) -> ResourceTable:
        """Returns the table without some resources and with others, sorted by name in each version.

        New groups follow those of the first table, sorted by name.
        """
        table = object.__new__(ResourceTable)
        table._resources, table._first_groups, table._derived = None, self._first_groups, {}
        table._hubs = self._hubs
        table._index, table._by_version = dict(self._index), dict(self._by_version)
        table._by_group = dict(self._by_group)
        touched: dict[GroupVersion, tuple[list[ServedResource], list[ServedResource]]] = {}
        for each in gone:
            del table._index[(*each.group_version, each.resource)]
            touched.setdefault(each.group_version, ([], []))[0].append(each)
        for each in new:
            table._index[(*each.group_version, each.resource)] = each
            touched.setdefault(each.group_version, ([], []))[1].append(each)
        for group_version, (without, more) in touched.items():
            before = [each for each in table._by_version.get(group_version, ()) if each not in without]
            custom = [each for each in before if each.is_custom]
            served = [each for each in before if not each.is_custom]
            served += sorted([*custom, *more], key=attrgetter("resource"))
            if served:
                table._by_version[group_version] = tuple(served)
            else:
                table._by_version.pop(group_version, None)
        for group in {group_version.group for group_version in touched}:
            versions = set(self._by_group.get(group, ())) | {gv for gv in touched if gv.group == group}
            if served_versions := versions & table._by_version.keys():
                table._by_group[group] = _by_preference(served_versions)
            else:
                table._by_group.pop(group, None)
        if table._by_group.keys() - self._by_group.keys():
            in_order = (*self._first_groups, *sorted(table._by_group.keys() - set(self._first_groups)))
            table._by_group = {each: table._by_group[each] for each in in_order if each in table._by_group}
        return table


class ServedTable:
    """Holds the table of resources that are currently served, which is replaced when they change.

    Parts that serve requests hold this object, and read `current` for each request. Parts that keep data for
    each resource register a callback for replacements; callbacks must not raise.
    """

    def __init__(self, table: ResourceTable) -> None:
        self.current = table
        self._callbacks: list[Callable[[], None]] = []

    def replace(self, table: ResourceTable) -> None:
        """Replaces the table, and calls the callbacks."""
        self.current = table
        for callback in tuple(self._callbacks):
            callback()

    def call_on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` after each replacement, until the returned function is called."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def find(self, group: str, version: str, resource: str) -> ServedResource | None:
        return self.current.find(group, version, resource)

    def hub(self, group: str, resource: str) -> ServedResource | None:
        """Returns a built-in type in its hub version: see `ResourceTable.hub`."""
        return self.current.hub(group, resource)

    def require(self, group: str, resource: str) -> ServedResource:
        """Returns the result of `hub`, for callers that run only if the type is served."""
        found = self.hub(group, resource)
        assert found is not None, (group, resource)
        return found


def cache_keys(resources: Iterable[ServedResource]) -> tuple[object, ...]:
    """Returns keys that identify resources in caches that may outlive them."""
    return tuple(each.cache_key for each in resources)


def _by_preference(versions: Iterable[GroupVersion]) -> tuple[GroupVersion, ...]:
    return tuple(sorted(versions, key=lambda gv: version_priority(gv.version), reverse=True))


_KUBERNETES_VERSION: Final = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITIES: Final = {"alpha": 1, "beta": 2, None: 3}


def version_priority(version: str) -> tuple[int, ...]:
    """Returns a sort key of a version, greater for versions that discovery prefers (row S03). Row S03.

    GA comes before beta before alpha, then the higher number; other names follow in alphabetical order.
    Source: k8s.io/apimachinery, pkg/version/helpers.go.
    """
    if (found := _KUBERNETES_VERSION.fullmatch(version)) is None:
        # The end is above all letters, so that `foo` is above `foo1`.
        return (0, 0, 0, *(-ord(letter) for letter in version), 1)
    major, word, minor = found.groups()
    return (_STABILITIES[word], int(major), int(minor or 0))
