"""Follows the definitions: serves what they define, and writes the names and conditions they should have."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from apiserver.apiextensions import definitions, status
from apiserver.apiextensions.definition_conditions import ESTABLISHED, is_condition_true
from apiserver.apiextensions.status import Taken
from apiserver.controllers.informer import RETRY_S
from apiserver.custom_resources.definition_finalizer import DefinitionFinalizer
from apiserver.custom_resources.resources import CustomResourceFactory, ServedKind, served
from apiserver.errors import ApiError, NotFound
from apiserver.meta import timestamps
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.vocabulary import Document, GroupResource
from storage.errors import RevisionCompacted, StorageError
from storage.keys import prefix_range
from storage.watch_cache import EVERYTHING, KeyVersion

log = logging.getLogger(__name__)

# (the new table, what is served no more or otherwise)
Publish = Callable[[ResourceTable, Sequence[ServedResource]], None]
# Definitions that are looked at before others have their turn.
TURN_DEFINITIONS: Final = 16
# The server itself writes the status: nothing is taken over, nothing is checked again.
_BY_SERVER: Final = UpdateStrategy()


@dataclass(slots=True)
class _KnownDefinition:
    """One definition, as it was seen last.

    names: those it has been given. signature: tells whether its resources are still what it says.
    """

    revision: int
    group: str
    names: Document
    waits_for_names: bool
    signature: bytes | None = None
    served: ServedKind | None = None


@dataclass(slots=True)
class _TableChange:
    """What has to be done to the table."""

    gone: dict[ServedResource, None] = field(default_factory=dict)
    new: dict[ServedResource, None] = field(default_factory=dict)


class DefinitionController:
    """All definitions of a store.

    table: what is served without them; definitions of the same resources are not served.
    publish: called with each new table.
    """

    def __init__(
        self,
        registry: Registry,
        table: ResourceTable,
        publish: Publish,
        workshop: CustomResourceFactory,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        resource = table.find(definitions.group_of(workshop.brand), "v1", definitions.RESOURCE)
        assert resource is not None
        self._resource = resource
        self._registry = registry
        self._table = table
        self._publish = publish
        self._factory = workshop
        self._clock = clock
        self._builtin = {GroupResource(*each.stored_group_resource) for each in table.resources}
        self._prefix = registry.prefix_of(resource)
        self._defined: dict[str, _KnownDefinition] = {}  # by key
        self._groups: dict[str, dict[str, None]] = {}  # the keys of each group's
        self._taken: dict[str, Taken] = {}
        self._change = _TableChange()
        # Definitions whose names and conditions are to be looked at, each once, in order.
        self._due: dict[str, None] = {}
        self._is_due = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._deletion = DefinitionFinalizer(registry, resource, workshop.brand, self._stored_resource, clock)

    async def run(self, on_synced: Callable[[], None]) -> None:
        """Serve definitions until cancelled. on_synced: called when all there are have been looked at."""
        cache = self._registry.cache
        await cache.wait_until_filled()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._settle(), name="custom-resource-conditions")
            while True:
                try:
                    await self._follow(on_synced)
                except (RevisionCompacted, StorageError) as error:
                    log.warning("definitions cannot be followed, trying again: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _follow(self, on_synced: Callable[[], None]) -> None:
        """All there are, then each that changes. Ends when changes may have been missed."""
        cache = self._registry.cache
        listing = await cache.list(prefix_range(self._prefix))
        something = asyncio.Event()
        watcher = cache.watch(self._prefix, after=listing.revision, scope=EVERYTHING, on_ready=something.set)
        try:
            for key in self._defined.keys() - {version.key for version in listing.versions}:
                self._forget(key)
            for number, version in enumerate(listing.versions):
                self._look_at(version)
                if number % TURN_DEFINITIONS == TURN_DEFINITIONS - 1:
                    await asyncio.sleep(0)
            self._replace_table()
            on_synced()
            while not watcher.is_ended:
                for delivery in watcher.take(TURN_DEFINITIONS):
                    self._look_at(delivery.event.version)
                self._replace_table()
                if len(watcher):
                    await asyncio.sleep(0)
                else:
                    await something.wait()
                    something.clear()
        finally:
            cache.unwatch(self._prefix, watcher, EVERYTHING)

    # ---- what is served

    def _look_at(self, version: KeyVersion[StoredObject]) -> None:
        key, found = version.key, version.value
        known = self._defined.get(key)
        if known is not None and version.revision <= known.revision:
            # We wrote it ourselves, and know it already. The cache's bytes need not be there twice.
            if found is not None and known.served is not None and version.revision == known.revision:
                known.served.source.found = found
            return
        try:
            if found is None:
                self._forget(key)
            else:
                self._learn(key, version.revision, found, found.document())
        except CorruptObject as error:
            log.error("a definition cannot be served: %s", error)
        except Exception:  # One that breaks us must not take the others away.
            log.exception("the definition %s cannot be served", key)

    def _learn(self, key: str, revision: int, found: StoredObject, definition: Document) -> None:
        known = self._defined.get(key)
        names, group = definitions.accepted_names(definition), definition["spec"]["group"]
        if known is None:
            known = self._defined[key] = _KnownDefinition(revision, group, {}, waits_for_names=False)
            self._groups.setdefault(group, {})[key] = None
        self._rename(known, names)
        known.revision = revision
        known.waits_for_names = not is_condition_true(definition, definitions.NAMES_ACCEPTED)
        self._serve(known, found, definition)
        if definitions.is_deleted(definition):
            assert self._tasks is not None
            self._deletion.begin(self._tasks, definition["metadata"]["name"])
        else:
            self._make_due(key)

    def _serve(self, known: _KnownDefinition, found: StoredObject, definition: Document) -> None:
        """Have the table hold what the definition says, if it says something else than before."""
        is_established = is_condition_true(definition, ESTABLISHED)
        plural = definition["spec"]["names"]["plural"]
        if not is_established or GroupResource(known.group, plural) in self._builtin:
            signature = None
        else:
            # The generation would not do: to be deleted counts, too.
            said = orjson.dumps((definition["metadata"].get("uid"), definition["spec"], known.names))
            signature = hashlib.blake2b(said).digest()
        if signature == known.signature:
            if known.served is not None:
                known.served.source.found = found
            return
        now = served(found, definition, self._factory) if signature is not None else None
        self._withdraw(known)
        known.signature, known.served = signature, now
        if now is not None:
            self._change.new |= dict.fromkeys(now.resources)

    def _withdraw(self, known: _KnownDefinition) -> None:
        if known.served is None:
            return
        for each in known.served.resources:
            if each in self._change.new:
                del self._change.new[each]
            else:
                self._change.gone[each] = None
        known.served = None

    def _forget(self, key: str) -> None:
        known = self._defined.pop(key, None)
        if known is None:
            return
        self._due.pop(key, None)
        self._withdraw(known)
        self._rename(known, {})
        del self._groups[known.group][key]
        if not self._groups[known.group]:
            del self._groups[known.group]
            self._taken.pop(known.group, None)

    def _replace_table(self) -> None:
        change, self._change = self._change, _TableChange()
        if change.gone or change.new:
            self._table = self._table.changed(change.gone, change.new)
            self._publish(self._table, tuple(change.gone))

    def _stored_resource(self, name: str) -> ServedResource | None:
        """What the objects of a definition are stored as; None if it was never served."""
        known = self._defined.get(self._registry.key(self._resource, "", name))
        return known.served.stored if known is not None and known.served is not None else None

    # ---- names and conditions

    def _rename(self, known: _KnownDefinition, names: Document) -> None:
        """Note which names a definition has now. Others of its group may have waited for those it had."""
        if names == known.names:
            return
        taken = self._taken.setdefault(known.group, Taken())
        if known.names:
            taken.remove(known.names)
            for key in self._groups[known.group]:
                if self._defined.get(key) is not None and self._defined[key].waits_for_names:
                    self._make_due(key)
        if names:
            taken.add(names)
        known.names = names

    def _make_due(self, key: str) -> None:
        self._due[key] = None
        self._is_due.set()

    async def _settle(self) -> None:
        """Write what has to be written, one after the other: the first gets a name that two want."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            while self._due:
                key = next(iter(self._due))
                del self._due[key]
                try:
                    await self._update(key)
                except NotFound:
                    pass
                except (ApiError, StorageError, CorruptObject) as error:
                    log.warning("the conditions of %s cannot be written yet: %s", key, error)
                    await asyncio.sleep(RETRY_S)
                    if key in self._defined:
                        self._make_due(key)
                except Exception:
                    log.exception("the conditions of %s cannot be written", key)

    async def _update(self, key: str) -> None:
        known = self._defined.get(key)
        if known is None:
            return
        seen = self._registry.cache.get_cached(key)
        if seen is not None and seen.value is not None and seen.revision >= known.revision:
            document = seen.value.document()
            if self._settled(document, known).get("status") == document.get("status"):
                return
        # What other servers write meanwhile is looked at again.
        updated = await self._registry.update(
            self._resource,
            "",
            key.rpartition("/")[2],
            lambda current: self._settled(current.document(), known),
            WriteOptions(),
            strategy=_BY_SERVER,
        )
        revision = int(updated.resource_version)
        if key in self._defined and revision > known.revision:
            # Who is next must know of these names, and clients need not wait for the news to come round.
            self._learn(key, revision, updated, updated.document())
            self._due.pop(key, None)
            self._replace_table()

    def _settled(self, definition: Document, known: _KnownDefinition) -> Document:
        if definitions.is_deleted(definition):
            return definition
        taken = self._taken.setdefault(known.group, Taken())
        now = timestamps.to_text(self._clock())
        return status.updated(definition, taken, now, brand=self._factory.brand)
