"""Tracks the owners of fields after a write, for all served types (rows B11, F16-F23)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson

from apiserver.meta import timestamps
from apiserver.meta.errors import BadRequest, UnmergeablePatch
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_manager_conversions import FieldManagerConversions
from apiserver.registry.patch.apply import managed_fields
from apiserver.registry.patch.apply.endpoint_fields import ALL_FIELDS, EndpointFields
from apiserver.registry.patch.apply.field_set import InvalidFieldSet
from apiserver.registry.patch.apply.managed_fields import APPLY, UPDATE, FieldManager, ManagedFields
from apiserver.registry.patch.apply.type_defs import KEY_DEFAULTS, TypeDefs
from apiserver.registry.patch.apply.typed_value import DocumentTooDeep, SchemaMismatch
from apiserver.registry.patch.apply.updater import TypeVersion, Updater
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.stored_object import TooDeep
from apiserver.registry.write_request import InternalWriter, ManageFields
from apiserver.schema.compile import SchemaCompiler, TypeMismatch, zero_document

STATUS: Final = "status"
SCALE: Final = "scale"
_SET_BY_SERVER: Final = frozenset({"managedFields", "resourceVersion"})


class _Others(Mapping[str, TypeVersion]):
    """The other versions of a type, each made on first use, as there may be hundreds."""

    def __init__(
        self, resources: Mapping[str, ServedResource], make: Callable[[ServedResource], TypeVersion]
    ) -> None:
        self.resources, self._make = resources, make
        self._made: dict[str, TypeVersion] = {}

    def __getitem__(self, api_version: str) -> TypeVersion:
        if api_version not in self._made:
            self._made[api_version] = self._make(self.resources[api_version])
        return self._made[api_version]

    def __iter__(self) -> Iterator[str]:
        return iter(self.resources)

    def __len__(self) -> int:
        return len(self.resources)


class FieldManagers:
    """Tracks which manager owns which fields (managedFields), for all served types in each of their versions.

    clock: seconds since 1970.
    drops_unknown_fields: whether an apply that names unknown fields is executed without them (row E06).
    """

    def __init__(self, served: ServedTable, deviations: Deviations, clock: Callable[[], float]) -> None:
        self._served = served
        self._deviations = deviations
        self.drops_unknown_fields = deviations.apply_drops_unknown_fields
        self._clock = clock
        self._type_defs = TypeDefs(KEY_DEFAULTS)
        self._of_server = object()  # the key of the updaters of the server's own writes
        self._written: set[ServedResource] = set()  # those of built-in types that the server has written
        # Absent fields stay absent: a default that changes with another field is not a change by a manager.
        self._bare = SchemaCompiler()

    def now(self, subresource: str) -> str:
        """Returns the time of an entry of managedFields; empty for a scale, whose writes have none.

        In Kubernetes, a change through a scale has no time, since a scale has no managedFields.
        """
        return "" if subresource == SCALE else timestamps.to_text(self._clock())

    def version(self, resource: ServedResource, subresource: str) -> TypeVersion:
        """Returns the type that a request to a resource or subresource writes.

        Conversions by webhooks are not used: see `version_to_write`.
        """
        # A type that is taken away takes what is kept for it with it.
        versions: dict[str, TypeVersion] = resource.derived.setdefault(self, {})
        if subresource not in versions:
            versions[subresource] = self._version(resource, subresource)
        return versions[subresource]

    def version_to_write(
        self, resource: ServedResource, subresource: str, *, is_apply: bool = False
    ) -> TypeVersion:
        """Returns the type for one write.

        Computing its owners may raise `field_manager_conversions.ConversionsNeeded`.
        A failed webhook fails an apply; other writes do not fail for lack of owners.
        """
        version = self.version(resource, subresource)
        if not resource.codec.has_converter or not version.other_versions:
            return version
        others = version.other_versions
        assert isinstance(others, _Others)
        conversions = FieldManagerConversions(is_required=is_apply)

        def asked(other: ServedResource) -> TypeVersion:
            known = others[other.api_version]
            assert known.convert is not None
            assert known.convert_back is not None
            return replace(
                known,
                convert=partial(conversions.convert, to=other, by_name=known.convert),
                convert_back=partial(conversions.convert, to=resource, by_name=known.convert_back),
            )

        def convert_ahead(documents: Sequence[Document], api_versions: Iterable[str]) -> None:
            versions = [others.resources[each] for each in api_versions if each in others.resources]
            conversions.require(documents, versions)

        return replace(version, other_versions=_Others(others.resources, asked), convert_ahead=convert_ahead)

    def _version(self, resource: ServedResource, subresource: str) -> TypeVersion:
        own = self.version(resource, "") if subresource else self._alone(resource)
        return TypeVersion(
            own.api_version,
            own.type_def,
            own.empty,
            endpoint=self._endpoint(resource, subresource),
            other_versions=self._others(resource, subresource),
            is_custom=own.is_custom,
        )

    def _others(self, resource: ServedResource, subresource: str) -> _Others:
        """Returns the other served versions of a resource, as a path writes them."""
        others = {
            other.api_version: other
            for other in self._served.current.resources
            if other.stored_group_resource == resource.stored_group_resource
            and other.api_version != resource.api_version
        }
        return _Others(others, lambda other: self._converted(other, resource, subresource))

    def _alone(self, resource: ServedResource) -> TypeVersion:
        is_custom = not resource.definition
        type_defs = TypeDefs() if is_custom else self._type_defs
        document = {} if is_custom else zero_document(resource.schema())
        document |= {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
        return TypeVersion(
            resource.api_version, type_defs.of_object(resource.schema()), document, is_custom=is_custom
        )

    def _converted(self, other: ServedResource, resource: ServedResource, subresource: str) -> TypeVersion:
        own = self._alone(other)
        is_there = not subresource or subresource in other.subresources
        return TypeVersion(
            own.api_version,
            own.type_def,
            own.empty,
            endpoint=self._endpoint(other if is_there else resource, subresource),
            convert=self._conversion(resource, other),
            convert_back=self._conversion(other, resource),
        )

    def _conversion(self, resource: ServedResource, other: ServedResource) -> Callable[[Document], Document]:
        """Returns the function that converts documents of a resource to another version.

        The documents need not have passed their schema. The function raises BadRequest, UnmergeablePatch.
        """
        check = None if resource.is_custom else self._bare.compile(resource.schema())

        def convert(document: Document) -> Document:
            document = _copied(document)
            try:
                if check is not None:
                    check(document)
            except TypeMismatch as mismatch:
                raise UnmergeablePatch(f"failed to convert the merged object: {mismatch}") from None
            return resource.codec.convert(document, other.codec)

        return convert

    def _endpoint(self, resource: ServedResource, subresource: str) -> EndpointFields:
        """Returns the fields that a path writes."""
        path = resource.subresources[subresource] if subresource else None
        if path is not None and path.scale is not None:
            return EndpointFields(writes=[".".join(path.scale.replicas)])
        rules = (path.update if path is not None else None) or resource.strategy.update
        if rules.writes:
            return EndpointFields(writes=rules.writes)
        if rules.resets is not None:
            return EndpointFields(rules.resets)
        return EndpointFields([STATUS]) if STATUS in resource.subresources else ALL_FIELDS

    def updater(self, resource: ServedResource, subresource: str, name: str) -> ManageFields:
        """Returns the function that updates managedFields after a write that is no apply.

        name: of the field manager.
        """
        to_write = self.version_to_write if resource.codec.has_converter else self.version
        version = to_write(resource, subresource)
        manager = FieldManager(name, UPDATE, resource.api_version, subresource)
        updater = Updater(version, manager, self.now(subresource))
        codec = resource.codec

        def manage_fields(new: Document, old: Document | None, sent: Any) -> Sequence[Document] | None:
            before = old["metadata"].get("managedFields") if old is not None else None
            fields = self._fields_before(old, None if subresource else sent, before)
            if fields is None:  # No owners are known, which remains so until the first apply.
                return None
            client_new, client_old = new, old
            if codec.converts_hub and not _is_same(new, old):
                client_new = codec.from_hub(_copied(new))
                client_old = codec.from_hub(_copied(old)) if old is not None else None
            try:
                after = updater.update(client_old, client_new, fields)
            except DocumentTooDeep as error:
                raise BadRequest(str(error)) from None
            if after is fields and before is not None and (sent is None or sent == before or subresource):
                entries: Sequence[Document] = before
                return entries
            return managed_fields.encode(after) if after else None

        return manage_fields

    def of_server(self, resource: ServedResource, writer: InternalWriter) -> ManageFields:
        """Returns the function that updates managedFields after a write of the server itself.

        resource: in its stored version, which may not be served. The owners are recorded in a served version,
            the only ones that clients know.
        """
        known: dict[InternalWriter, ManageFields] = resource.derived.setdefault(self._of_server, {})
        found = known.get(writer)
        if found is None:
            if resource.codec.has_converter and writer.applied is None:
                return self.updater(self._seen(resource), writer.subresource, writer.manager)
            make = self._updated_by_server if writer.applied is None else self._applied_by_server
            found = known[writer] = make(self._seen(resource), writer)
            if not resource.is_custom:
                self._written.add(resource)
        return found

    def _seen(self, resource: ServedResource) -> ServedResource:
        """Returns a resource in the first served version, or itself if it is served."""
        table = self._served.current
        if table.find(*resource.group_version, resource.resource) is not None:
            return resource
        stored = resource.stored_group_resource
        return next((each for each in table.resources if each.stored_group_resource == stored), resource)

    def _updated_by_server(self, resource: ServedResource, writer: InternalWriter) -> ManageFields:
        manager, subresource, _ = writer

        def manage_fields(new: Document, old: Document | None, sent: Any) -> Sequence[Document] | None:
            return self.updater(resource, subresource, manager)(new, old, sent)

        return manage_fields

    def _applied_by_server(self, resource: ServedResource, writer: InternalWriter) -> ManageFields:
        name, subresource, applied = writer
        assert applied is not None
        manager = FieldManager(name, APPLY, resource.api_version, subresource)
        codec = resource.codec

        def manage_fields(new: Document, old: Document | None, sent: Any) -> Sequence[Document] | None:
            before = {} if old is None else managed_fields.decode_stored(old)
            if codec.converts_hub:
                new = codec.from_hub(_copied(new))
                old = codec.from_hub(_copied(old)) if old is not None else None
            configuration = {"apiVersion": resource.api_version, "kind": resource.kind, **applied(new)}
            updater = Updater(self.version(resource, subresource), manager, self.now(subresource))
            try:
                after = updater.apply(old, configuration, before, force=True).managed
            except (DocumentTooDeep, SchemaMismatch) as error:
                raise BadRequest(str(error)) from None
            return managed_fields.encode(after) if after else None

        return manage_fields

    def forget(self) -> None:
        """Drops the cached data of built-in types."""
        self._type_defs = TypeDefs(KEY_DEFAULTS)
        for resource in (*self._written, *self._served.current.resources):
            resource.derived.pop(self, None)
            resource.derived.pop(self._of_server, None)
        self._written.clear()

    def _fields_before(self, old: Document | None, sent: Any, before: Any) -> ManagedFields | None:
        """Returns the managed fields before a write; None if no owners are tracked.

        sent: those sent by the client. before: the stored ones.
        """
        if sent is not None and sent != before:
            if managed_fields.is_reset(sent):
                return {} if old is None or self._deviations.reset_writer_owns else None
            try:
                if decoded := managed_fields.decode(sent, is_own=False):
                    return decoded
            except InvalidFieldSet:
                pass  # A client that does not know managedFields must not remove them.
        if old is None:
            return {}
        return managed_fields.decode_stored(old) or None


def _is_same(new: Document, old: Document | None) -> bool:
    """Returns whether only fields that the server sets have changed.

    Equal objects may look different in another version.
    """
    if old is None or new["metadata"].keys() - _SET_BY_SERVER != old["metadata"].keys() - _SET_BY_SERVER:
        return False
    meta, old_meta = new["metadata"], old["metadata"]
    return all(meta[key] == old_meta[key] for key in meta.keys() - _SET_BY_SERVER) and all(
        new.get(key) == old.get(key) for key in (new.keys() | old.keys()) - {"metadata"}
    )


def _copied(document: Document) -> Document:
    """Returns a copy of a document. Raises TooDeep."""
    try:
        copied: Document = orjson.loads(orjson.dumps(document))
    except TypeError:
        raise TooDeep from None
    return copied
