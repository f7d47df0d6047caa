"""Claims and volumes that are being deleted go once nobody uses them: their finalizers are taken off.

The StorageObjectInUseProtection plugin puts them on. Several servers on one store all run this; to take a
finalizer off that is gone already changes nothing.
Source: kubernetes, pkg/controller/volume/{pvcprotection,pvprotection}.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from apiserver.controllers.informer import follow_for_ever
from apiserver.errors import ApiError, NotFound
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.vocabulary import Document
from storage.errors import RevisionCompacted, StorageError
from storage.keys import prefix_range
from storage.watch_cache import EVERYTHING
from storage.watch_cache.fanout import Scope

log = logging.getLogger(__name__)

RETRY_S: Final = 5.0
# Objects that wait in a large namespace are looked at again after so much longer than a look took.
REST_FACTOR: Final = 20
# So many users are looked at before others have their turn.
TURN_OBJECTS: Final = 100

# What somebody uses: a name, and the uid of the only owner that it may have, if that matters.
Use = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Protection:
    """What a finalizer protects, and from whom it is in use.

    user: the resource whose objects use others; mark: stands in each of these.
    uses: what one object uses.
    is_used: given all that is used, whether an object is.
    """

    resource: str
    finalizer: str
    user: str
    mark: bytes
    uses: Callable[[Document], Iterable[Use]]
    is_used: Callable[[Document, Container[Use]], bool]


def _uses_of_pod(pod: Document) -> Iterable[Use]:
    """The claims of a pod that has a node: no node begins to run a pod whose claims are being deleted."""
    meta, spec = pod["metadata"], pod["spec"]
    if not spec.get("nodeName"):
        return
    # Such a pod only waits for its own finalizers, which may wait for the claims.
    is_shut_down = "deletionTimestamp" in meta and meta.get("deletionGracePeriodSeconds") == 0
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim.get("claimName", ""), ""
        elif volume.get("ephemeral") is not None and not is_shut_down:
            yield f"{meta['name']}-{volume['name']}", meta["uid"]


def _is_claim_used(claim: Document, uses: Container[Use]) -> bool:
    meta = claim["metadata"]
    owners = (each["uid"] for each in meta.get("ownerReferences") or () if each.get("controller"))
    return (meta["name"], "") in uses or any((meta["name"], owner) in uses for owner in owners)


def _of_claim(claim: Document) -> Iterable[Use]:
    if volume := claim["spec"].get("volumeName"):
        yield volume, ""


def _is_volume_used(volume: Document, uses: Container[Use]) -> bool:
    is_bound = (volume.get("status") or {}).get("phase") == "Bound"
    return is_bound or (volume["metadata"]["name"], "") in uses


CLAIMS: Final = Protection(
    "persistentvolumeclaims",
    "kubernetes.io/pvc-protection",
    "pods",
    b'"volumes":',
    _uses_of_pod,
    _is_claim_used,
)
VOLUMES: Final = Protection(
    "persistentvolumes",
    "kubernetes.io/pv-protection",
    "persistentvolumeclaims",
    b'"volumeName":',
    _of_claim,
    _is_volume_used,
)


@dataclass(slots=True)
class _Waiting:
    """The objects of one namespace that are to go.

    something: has happened to them, or to those who may use them.
    """

    names: set[str]
    something: asyncio.Event = field(default_factory=asyncio.Event)


class StorageProtection:
    def __init__(
        self, registry: Registry, table: Callable[[], ResourceTable], protection: Protection
    ) -> None:
        self._registry = registry
        self._table = table
        self._protection = protection
        # By namespace; those without one have the empty one.
        self._waiting: dict[str, _Waiting] = {}

    async def run(self) -> None:
        """Let objects go until cancelled."""
        prefix = self._registry.prefix_of(self._resource(self._protection.resource))
        async with asyncio.TaskGroup() as tasks:

            def on_object(key: str, found: StoredObject | None) -> None:
                namespace, _, name = key[len(prefix) :].rpartition("/")
                self._on_object(tasks, namespace, name, self._waits(found))

            await follow_for_ever(self._registry.cache, prefix, on_object)

    def _waits(self, found: StoredObject | None) -> bool:
        return (
            found is not None
            and b'"deletionTimestamp"' in found.tail
            and self._protection.finalizer.encode() in found.tail
        )  # `_let_go` looks closer.

    def _on_object(self, tasks: asyncio.TaskGroup, namespace: str, name: str, waits: bool) -> None:
        waiting = self._waiting.get(namespace)
        if waiting is None:
            if waits:
                waiting = self._waiting[namespace] = _Waiting({name})
                tasks.create_task(self._attend(namespace, waiting))
            return
        if waits:
            waiting.names.add(name)
        elif name in waiting.names:
            waiting.names.remove(name)
        else:
            return
        waiting.something.set()

    async def _attend(self, namespace: str, waiting: _Waiting) -> None:
        """Let the objects of a namespace go, until none of them is left."""
        try:
            while waiting.names:
                waiting.something.clear()
                began = time.monotonic()
                try:
                    revision = await self._let_go(namespace, waiting.names)
                    rest_s = (time.monotonic() - began) * REST_FACTOR
                    if waiting.names:
                        await self._wait_for_users(namespace, waiting, revision)
                        await asyncio.sleep(rest_s)
                except (StorageError, CorruptObject) as error:
                    log.warning("%s cannot be let go yet: %s", self._protection.resource, error)
                    await asyncio.sleep(RETRY_S)
                except Exception:  # An object that breaks us must not stop the server.
                    log.exception("%s cannot be let go yet", self._protection.resource)
                    await asyncio.sleep(RETRY_S)
        finally:
            del self._waiting[namespace]

    async def _wait_for_users(self, namespace: str, waiting: _Waiting, revision: int) -> None:
        """Return when something has happened since a revision."""
        cache, prefix = self._registry.cache, self._registry.prefix_of(self._resource(self._protection.user))
        scope = Scope(key_prefix=f"{prefix}{namespace}/") if namespace else EVERYTHING
        try:
            watcher = cache.watch(prefix, after=revision, scope=scope, on_ready=waiting.something.set)
        except RevisionCompacted:
            return
        try:
            if not len(watcher):
                await waiting.something.wait()
        finally:
            cache.unwatch(prefix, watcher, scope)

    async def _let_go(self, namespace: str, names: set[str]) -> int:
        """Take the finalizer off objects that are not used, and these off `names`.

        Returns the revision as of which that is so. Raises CorruptObject, and the storage's errors.
        """
        uses, revision = await self._uses(namespace)
        for name in list(names):
            try:
                if await self._try_release(namespace, name, uses):
                    names.discard(name)
            except NotFound:
                names.discard(name)
            except (ApiError, CorruptObject) as error:
                log.warning("%s %s cannot be let go: %s", self._protection.resource, name, error)
        return revision

    async def _try_release(self, namespace: str, name: str, uses: Container[Use]) -> bool:
        """False if it is used. Raises NotFound."""
        resource, finalizer = self._resource(self._protection.resource), self._protection.finalizer
        is_used = False

        def without_finalizer(found: StoredObject) -> Document:
            nonlocal is_used
            document = found.document()
            is_used = self._protection.is_used(document, uses)
            if "deletionTimestamp" in document["metadata"] and not is_used:
                finalizers = document["metadata"].get("finalizers") or ()
                document["metadata"]["finalizers"] = [each for each in finalizers if each != finalizer]
            return document

        await self._registry.update(resource, namespace, name, without_finalizer, WriteOptions())
        return not is_used

    async def _uses(self, namespace: str) -> tuple[set[Use], int]:
        """All that is used there, and as of which revision."""
        prefix = self._registry.prefix_of(self._resource(self._protection.user))
        folder = f"{prefix}{namespace}/" if namespace else prefix
        listing = await self._registry.cache.list(prefix_range(folder))
        uses: set[Use] = set()
        for number, version in enumerate(listing.versions):
            if number % TURN_OBJECTS == 0:
                await asyncio.sleep(0)
            found = version.value
            if found is not None and self._protection.mark in found.tail:
                uses.update(self._protection.uses(found.document()))
        return uses, listing.revision

    def _resource(self, name: str) -> ServedResource:
        found = self._table().find("", "v1", name)
        assert found is not None
        return found
