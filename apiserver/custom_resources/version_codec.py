"""Custom resources as they are stored, and as clients of a version see them.

What is stored may be older than the schema: it may have fields that are gone, lack what now has a default, or
be of a version that is not stored any more. So it is looked at once, under each schema, and what is found out
is kept: mostly, that it is as it should be, and then reads copy bytes as they do for built-in types. Where it
is not, or is converted, what is shown is kept beside it as long as there is room.

The order is Kubernetes': what is stored is pruned and completed by the schema of its own version, converted,
and pruned by that of the version that is shown. What is written is converted and pruned by the schema of the
version that is stored. Source: k8s.io/apiextensions-apiserver, pkg/apiserver/customresource_handler.go.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

import orjson

from apiserver.errors import Forbidden, NoSuchEndpoint, ServiceUnavailable
from apiserver.registry.guard import Guard
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, TooDeep, encode, head_of, with_revision
from apiserver.schema.compile import TypeMismatch
from apiserver.vocabulary import Document, GroupResource, GroupVersion
from storage.interface import Condition
from storage.watch_cache import KeyVersion

# How long objects are worked on before others have their turn.
TURN_S: Final = 0.002

_numbers: Final = itertools.count(1)
_In = TypeVar("_In")
_Out = TypeVar("_Out")


PruneAndDefault = Callable[[Document], bool]


class ViewCache(Protocol):
    """Where what is made of objects is kept beside them."""

    def keep(self, found: StoredObject, key: object, form: Any, size: int) -> None: ...


class Converter(Protocol):
    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]: ...


class DefinitionReader(Protocol):
    """Where a definition is looked for, by its key: what is at hand, and what is stored."""

    def get_cached(self, key: str) -> KeyVersion[StoredObject] | None: ...

    async def get(self, key: str) -> KeyVersion[StoredObject] | None: ...


class Family:
    """All versions of one definition, as long as it stays as it is.

    refresh: by version, what prunes and completes a stored document of it, and tells whether it has changed.
    stored: the version that is stored now.
    webhook: what converts; without it versions differ in their name alone.
    key: of the definition.
    """

    def __init__(
        self,
        group: str,
        kind: str,
        resource: str,
        prune_and_default: Mapping[str, PruneAndDefault],
        *,
        stored: str,
        webhook: Converter | None,
        key: str,
        definitions: DefinitionReader,
        room: ViewCache,
    ) -> None:
        self.kind = kind
        self.group_resource = GroupResource(group, resource)
        self.stored = stored
        self.webhook = webhook
        self.room = room
        self._key = key
        self._definitions = definitions
        self._refresh = prune_and_default
        self.api_versions = {version: str(GroupVersion(group, version)) for version in prune_and_default}
        self.heads = {version: head_of(text, kind) for version, text in self.api_versions.items()}
        self._versions = {head: version for version, head in self.heads.items()}

    def version_of(self, head: bytes) -> str | None:
        """The version that begins so; None for one that the definition has no more."""
        return self._versions.get(head)

    def complete(self, version: str, document: Document) -> bool:
        """Prune a document and give it its defaults, by a version's schema; True if it has changed."""
        try:
            return self._refresh[version](document)
        except TypeMismatch:
            return False  # It was let in when its metadata was checked less strictly: it is shown as it is.

    def named(self, version: str, document: Document) -> Document:
        return {**document, "apiVersion": self.api_versions[version], "kind": self.kind}

    async def guard(self, name: str) -> Guard:
        """Raises Forbidden while the definition is being deleted, NoSuchEndpoint if it is gone."""

        async def look() -> Condition:
            return self._condition(await self._definitions.get(self._key), name)

        seen = self._definitions.get_cached(self._key)
        return Guard(self._condition(seen, name) if seen is not None else await look(), look)

    def _condition(self, seen: KeyVersion[StoredObject] | None, name: str) -> Condition:
        if seen is None or seen.value is None:
            raise NoSuchEndpoint
        found = seen.value
        if b'"deletionTimestamp"' in found.tail and "deletionTimestamp" in found.document()["metadata"]:
            raise Forbidden.to_resource(
                self.group_resource,
                name,
                "create not allowed while custom resource definition is terminating",
            )
        return Condition(seen.key, seen.revision)


class CustomResourceCodec:
    """How clients of one version see what is stored. See `registry.served_resource.VersionCodec`."""

    def __init__(self, family: Family, version: str) -> None:
        self._family = family
        self._version = version
        self._head = family.heads[version]
        self.stored_head = family.heads[family.stored]
        # Tells that an object has been found to be as it should be, by this very schema.
        self._number = next(_numbers)
        # What is kept may outlive the definition.
        self._key = object()
        self._asked: dict[StoredObject, asyncio.Task[Mapping[StoredObject, StoredObject]]] = {}

    # ---- reading

    def shown(self, found: StoredObject) -> StoredObject | None:
        if found.conforms_to == self._number:
            return found
        if found.forms is not None and (kept := found.forms.get(self._key)) is not None:
            shown: StoredObject = kept
            return shown
        if found.head == self._head:
            return self._completed(found)
        if self._family.webhook is not None:
            return None
        return self._keep(found, self._family.named(self._version, self._as_stored(found)))

    async def show(self, objects: Sequence[StoredObject]) -> list[StoredObject]:
        number = self._number
        # Long lists are mostly all like that, and a list here is twice as fast as a generator.
        if all([each.conforms_to == number for each in objects]):  # noqa: C419
            return list(objects)
        shown = await _in_turns(self.shown, objects)
        missing = [found for found, view in zip(objects, shown, strict=True) if view is None]
        if not missing:
            return [view for view in shown if view is not None]
        converted = await self._converted(missing)
        return [
            view if view is not None else converted[found] for found, view in zip(objects, shown, strict=True)
        ]

    def _completed(self, found: StoredObject) -> StoredObject:
        """One that is stored in this version: mostly it is found to be as it should be."""
        document = found.document()
        if not self._family.complete(self._version, document):
            found.conforms_to = self._number
            return found
        shown = self._view_of(found, document)
        self._family.room.keep(found, self._key, shown, len(shown.tail))
        return shown

    def _as_stored(self, found: StoredObject) -> Document:
        """A document in the version in which it is stored, pruned and completed there."""
        document = found.document()
        version = self._family.version_of(found.head)
        if version is not None:
            self._family.complete(version, document)
        return document

    def _keep(self, found: StoredObject, document: Document) -> StoredObject:
        """What `found` is shown as, given its document in this version."""
        self._family.complete(self._version, document)
        shown = self._view_of(found, document)
        self._family.room.keep(found, self._key, shown, len(shown.tail))
        return shown

    def _view_of(self, found: StoredObject, document: Document) -> StoredObject:
        revision = document["metadata"].get("resourceVersion")  # What was not stored (a dry run) has none.
        rest = encode(document, self._head)[len(self._head) :]
        view = StoredObject(found.key, self._head, with_revision(rest, int(revision)) if revision else rest)
        view.conforms_to = self._number
        return view

    # ---- asking the webhook

    async def _converted(self, objects: Sequence[StoredObject]) -> Mapping[StoredObject, StoredObject]:
        """What objects are shown as. Whoever wants the same at the same time waits for the same answer."""
        new = [each for each in dict.fromkeys(objects) if each not in self._asked]
        if new:
            # A task of its own: whoever asked first may go away.
            task = asyncio.create_task(self._ask(new))
            task.add_done_callback(lambda done: self._forget(new, done))
            self._asked |= dict.fromkeys(new, task)
        views: dict[StoredObject, StoredObject] = {}
        for each in dict.fromkeys(self._asked[found] for found in objects):
            views |= await asyncio.shield(each)
        return views

    def _forget(self, objects: Sequence[StoredObject], done: asyncio.Task[Any]) -> None:
        for each in objects:
            self._asked.pop(each, None)
        if not done.cancelled():
            done.exception()  # Looked at, should nobody wait for it any more.

    async def _ask(self, objects: Sequence[StoredObject]) -> Mapping[StoredObject, StoredObject]:
        assert self._family.webhook is not None
        documents = await _in_turns(self._as_stored, objects)
        converted = await self._family.webhook.convert(documents, self._family.api_versions[self._version])
        pairs = list(zip(objects, converted, strict=True))
        try:
            views = await _in_turns(lambda pair: self._keep(*pair), pairs)
        except TooDeep:
            raise ServiceUnavailable(
                f"conversion webhook for {self._family.kind} returned an object that is nested too deeply"
            ) from None
        return dict(zip(objects, views, strict=True))

    # ---- writing

    async def to_stored(self, document: Document) -> Document:
        family = self._family
        if self._version == family.stored:
            return document
        # What is kept is a copy: the document given is shown, and looked at again.
        try:
            stored: Document = orjson.loads(orjson.dumps(document))
        except orjson.JSONEncodeError as error:
            raise TooDeep(str(error)) from error
        if family.webhook is None:
            stored = family.named(family.stored, stored)
        else:
            desired = family.api_versions[family.stored]
            [stored] = await family.webhook.convert([stored], desired)
        family.complete(family.stored, stored)
        return stored

    def in_version_of(self, other: ServedResource, document: Document) -> Document:
        document = self._family.named(other.group_version.version, document)
        self._family.complete(other.group_version.version, document)
        return document

    async def guard(self, name: str) -> Guard:
        return await self._family.guard(name)


async def _in_turns(work: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
    """What `work` makes of each; others have their turns meanwhile. A single one may be large."""
    made: list[_Out] = []
    turn_ends = monotonic() + TURN_S
    for item in items:
        made.append(work(item))
        if monotonic() > turn_ends:
            await asyncio.sleep(0)
            turn_ends = monotonic() + TURN_S
    return made
