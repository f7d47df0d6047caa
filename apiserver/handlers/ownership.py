"""Who owns which fields after a write: the served types as `apply` knows types. Rows B11, F16-F23."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson
from aiohttp import hdrs

from apiserver.apply import updater as owning
from apiserver.apply.field_set import InvalidFieldSet
from apiserver.apply.type_defs import KEY_DEFAULTS, TypeDefs
from apiserver.apply.typed_value import TooDeep
from apiserver.apply.updater import UPDATE, FieldManager, KeyVersion, ManagedFields, updater_name
from apiserver.deviations import Deviations
from apiserver.endpoints.api_call import Call
from apiserver.errors import BadRequest, UnmergeablePatch
from apiserver.meta import timestamps
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.write_stages import Track
from apiserver.schema.compile import SchemaCompiler, TypeMismatch, empty
from apiserver.vocabulary import Document

STATUS: Final = "status"
SCALE: Final = "scale"
_SET_BY_SERVER: Final = frozenset({"managedFields", "resourceVersion"})


class _Others(Mapping[str, KeyVersion]):
    """The other versions of a type. Each is made when it is asked for: there may be hundreds."""

    def __init__(
        self, resources: Mapping[str, ServedResource], make: Callable[[ServedResource], KeyVersion]
    ) -> None:
        self._resources, self._make = resources, make
        self._made: dict[str, KeyVersion] = {}

    def __getitem__(self, api_version: str) -> KeyVersion:
        if api_version not in self._made:
            self._made[api_version] = self._make(self._resources[api_version])
        return self._made[api_version]

    def __iter__(self) -> Iterator[str]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)


class Ownership:
    """The ownership of all served types.

    table: what is served. clock: seconds since 1970.
    """

    def __init__(
        self, table: Callable[[], ResourceTable], deviations: Deviations, clock: Callable[[], float]
    ) -> None:
        self._table = table
        self._deviations = deviations
        self._clock = clock
        self._shapes = TypeDefs(KEY_DEFAULTS)
        # What is absent stays so: that somebody else's default changes is nobody's doing.
        self._bare = SchemaCompiler()

    def now(self, call: Call) -> str:
        """Who changes an object through its scale has no time in Kubernetes, since a scale has no owners."""
        return "" if call.info.subresource == SCALE else timestamps.to_text(self._clock())

    def before_schema(self, document: Document) -> None:
        """An empty list strips all ownership in kube-apiserver (row F22); the schema drops what is empty."""
        if not self._deviations.empty_list_keeps_owners:
            meta = document.get("metadata")
            if isinstance(meta, dict) and meta.get("managedFields") == []:
                meta["managedFields"] = [{}]

    def version(self, resource: ServedResource, subresource: str) -> KeyVersion:
        """What a path writes."""
        # A type that is taken away takes what is kept for it with it.
        versions: dict[str, KeyVersion] = resource.made.setdefault(self, {})
        if subresource not in versions:
            versions[subresource] = self._version(resource, subresource)
        return versions[subresource]

    def _version(self, resource: ServedResource, subresource: str) -> KeyVersion:
        others = {
            other.api_version: other
            for other in self._table().resources
            if other.stored_group_resource == resource.stored_group_resource
            and other.api_version != resource.api_version
        }
        own = self._alone(resource)
        return KeyVersion(
            own.api_version,
            own.shape,
            own.empty,
            reset_fields=self._ignored(resource, subresource),
            others=_Others(others, lambda other: self._converted(other, resource)),
            is_custom=own.is_custom,
        )

    def _alone(self, resource: ServedResource) -> KeyVersion:
        is_custom = not resource.definition
        shapes = TypeDefs() if is_custom else self._shapes
        document = {} if is_custom else empty(resource.schema())
        document |= {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
        return KeyVersion(
            resource.api_version, shapes.of_object(resource.schema()), document, is_custom=is_custom
        )

    def _converted(self, other: ServedResource, resource: ServedResource) -> KeyVersion:
        own = self._alone(other)
        return KeyVersion(
            own.api_version,
            own.shape,
            own.empty,
            convert=self._conversion(resource, other),
            restore=self._conversion(other, resource),
        )

    def _conversion(self, resource: ServedResource, other: ServedResource) -> Callable[[Document], Document]:
        """What makes of documents of a resource those of another version.

        The documents need not have passed their schema. It raises BadRequest, UnmergeablePatch.
        """
        keeping = resource.keeping
        if keeping is not None:
            return lambda document: keeping.in_version_of(other, _copied(document))
        check = self._bare.of(resource.schema())

        def convert(document: Document) -> Document:
            document = _copied(document)
            try:
                check(document)
            except TypeMismatch as mismatch:
                raise UnmergeablePatch(f"failed to convert the merged object: {mismatch}") from None
            return other.from_stored(resource.to_stored(document))

        return convert

    def _ignored(self, resource: ServedResource, subresource: str) -> frozenset[str]:
        """What a path does not write: the status has one of its own, which writes little else."""
        if subresource == STATUS:
            return frozenset(
                f"f:{name}" for name in resource.schema().fields if name not in ("metadata", STATUS)
            )
        return frozenset({f"f:{STATUS}"}) if STATUS in resource.subresources else frozenset()

    def tracker(self, call: Call, options: WriteOptions) -> Track:
        """Of a write that is no apply."""
        resource, subresource = call.resource, call.info.subresource
        assert resource is not None
        version = self.version(resource, subresource)
        agent = call.request.headers.get(hdrs.USER_AGENT, "")
        name = updater_name(options.field_manager, agent)
        manager = FieldManager(name, UPDATE, resource.api_version, subresource)
        now = self.now(call)

        def track(new: Document, old: Document | None, said: Any) -> None:
            meta = new["metadata"]
            before = old["metadata"].get("managedFields") if old is not None else None
            meta.pop("managedFields", None)
            owners = self._owners_said(old, None if subresource else said, before)
            if owners is None:  # Nobody is known to own anything, and it stays so until somebody applies.
                return
            shown_new, shown_old = new, old
            if resource.conversion is not None and not _is_same(new, old):
                shown_new = resource.from_stored(_copied(new))
                shown_old = resource.from_stored(_copied(old)) if old is not None else None
            try:
                after = owning.update(shown_old, shown_new, owners, manager, version, now)
            except TooDeep as error:
                raise BadRequest(str(error)) from None
            if after is owners and before is not None and (said is None or said == before or subresource):
                meta["managedFields"] = before
            elif after:
                meta["managedFields"] = owning.write(after)

        return track

    def _owners_said(self, old: Document | None, said: Any, before: Any) -> ManagedFields | None:
        """The owners that a write begins with. said: what the client sent. before: what is stored."""
        if old is None:
            return {}
        if said is not None and said != before:
            if owning.is_reset(said):
                return {} if self._deviations.reset_writer_owns else None
            try:
                return owning.read(said, is_own=False) or owning.decode_stored(old) or None
            except InvalidFieldSet:
                pass  # Who does not understand owners shall not take them away.
        return owning.decode_stored(old) or None


def _is_same(new: Document, old: Document | None) -> bool:
    """Has nothing changed but what the server sets? The same may look different in another version."""
    if old is None or new["metadata"].keys() - _SET_BY_SERVER != old["metadata"].keys() - _SET_BY_SERVER:
        return False
    meta, old_meta = new["metadata"], old["metadata"]
    return all(meta[key] == old_meta[key] for key in meta.keys() - _SET_BY_SERVER) and all(
        new.get(key) == old.get(key) for key in (new.keys() | old.keys()) - {"metadata"}
    )


def _copied(document: Document) -> Document:
    """One that may be changed. Raises BadRequest."""
    try:
        copied: Document = orjson.loads(orjson.dumps(document))
    except TypeError:
        raise BadRequest("the object is nested too deeply") from None
    return copied
