"""Removes the protection finalizers of deleted claims, volumes and classes that are not in use.

The admission plugin StorageObjectInUseProtection adds them; objects that lack them get them here. All servers
on a store run this; repeating a step changes nothing.
Source: kubernetes, pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from apiserver.controller_runtime.controller import Controller, Cooldown, Outcome
from apiserver.controller_runtime.informer import Informer, InformerCallbacks, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta.errors import ApiError, NotFound
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, Transform, WriteRequest
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.keys import prefix_range
from apiserver.storage.watch_cache import EVERYTHING, WatchScope

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(base_s=5.0, max_s=60.0)
# Namespaces that are looked at at the same time.
WORKERS: Final = 4
# The objects of a large namespace are looked at again after so much longer than a look took.
REST_FACTOR: Final = 20

# A used object: its name, and the uid of the only owner that it may have, if that matters.
Use = tuple[str, str]


class UsingResource(NamedTuple):
    """A resource of the core group whose objects use protected ones.

    mark: bytes that each object using one contains. uses: returns the protected objects that an object uses.
    """

    resource: str
    mark: bytes
    uses: Callable[[Document], Iterable[Use]]


class ProtectedResource(NamedTuple):
    """The objects that a finalizer protects, and the resources that use them.

    name: that of the controller's queue in Kubernetes. resource: the protected one.
    is_used: whether an object is among the used ones.
    """

    name: str
    resource: GroupResource
    finalizer: str
    users: tuple[UsingResource, ...]
    is_used: Callable[[Document, Container[Use]], bool]


def _uses_of_pod(pod: Document) -> Iterable[Use]:
    """Returns the claims of a pod that has a node, as no node starts a pod whose claims are being deleted."""
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


def _uses_of_claim(claim: Document) -> Iterable[Use]:
    if volume := claim["spec"].get("volumeName"):
        yield volume, ""


def _is_volume_used(volume: Document, uses: Container[Use]) -> bool:
    is_bound = (volume.get("status") or {}).get("phase") == "Bound"
    return is_bound or (volume["metadata"]["name"], "") in uses


def _classes_of_claim(claim: Document) -> Iterable[Use]:
    """Returns the class that a claim wants, the one that it has, and the one that it is changing to."""
    status = claim.get("status") or {}
    for name in (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    ):
        if name:
            yield name, ""


def _classes_of_volume(volume: Document) -> Iterable[Use]:
    if name := volume["spec"].get("volumeAttributesClassName"):
        yield name, ""


def _is_named(found: Document, uses: Container[Use]) -> bool:
    return (found["metadata"]["name"], "") in uses


CLAIMS: Final = ProtectedResource(
    "pvcprotection",
    GroupResource("", "persistentvolumeclaims"),
    "kubernetes.io/pvc-protection",
    (UsingResource("pods", b'"volumes":', _uses_of_pod),),
    _is_claim_used,
)
VOLUMES: Final = ProtectedResource(
    "pvprotection",
    GroupResource("", "persistentvolumes"),
    "kubernetes.io/pv-protection",
    (UsingResource("persistentvolumeclaims", b'"volumeName":', _uses_of_claim),),
    _is_volume_used,
)


def attributes_classes(storage_group: str) -> ProtectedResource:
    """Returns the protection of VolumeAttributesClasses. storage_group: `storage.k8s.io`, as branded."""
    mark = b"olumeAttributesClassName"
    return ProtectedResource(
        "vacprotection",
        GroupResource(storage_group, "volumeattributesclasses"),
        "kubernetes.io/vac-protection",
        (
            UsingResource("persistentvolumeclaims", mark, _classes_of_claim),
            UsingResource("persistentvolumes", mark, _classes_of_volume),
        ),
        _is_named,
    )


def _uses_of(users: UsingResource, user: Document) -> set[Use]:
    return set(users.uses(user))


@dataclass(slots=True)
class _Namespace:
    """The protected objects of one namespace that are being deleted.

    users: the informers of objects that may use them, while there are any.
    """

    names: set[str]
    users: list[Informer]
    informing: list[asyncio.Task[None]]


class StorageProtection:
    """The controller of one protection, whose keys are namespaces, or "" for cluster-scoped objects."""

    def __init__(self, registry: Registry, served: ServedTable, protection: ProtectedResource) -> None:
        self._registry = registry
        self._served = served
        self._protection = protection
        self._namespaces: dict[str, _Namespace] = {}
        # By namespace, those that lack the finalizer.
        self._unprotected: dict[str, set[str]] = {}
        self.queue: WorkQueue[str] = WorkQueue(protection.name, BACKOFF)

    async def run(self) -> None:
        """Release unused objects until cancelled."""
        prefix = self._registry.prefix_of(self._protected())
        async with asyncio.TaskGroup() as tasks:
            informer = Informer(
                ListWatch(self._registry.cache, prefix),
                lambda notification: self._on_object(tasks, notification),
                wait_for_room=self.queue.wait_for_room,
            )
            controller = Controller(
                self.queue,
                self._reconcile,
                workers=WORKERS,
                informers=[informer],
                failure_cooldown_s=BACKOFF.base_s,
            )
            await controller.run()

    def _on_object(self, tasks: asyncio.TaskGroup, notification: Notification) -> None:
        namespace, found = self._namespaces.get(notification.namespace), notification.new
        # `_try_release` and `_protect` look closer.
        has_finalizer = found is not None and self._protection.finalizer.encode() in found.tail
        is_deleted = found is not None and b'"deletionTimestamp"' in found.tail
        if found is not None and not has_finalizer and not is_deleted:
            self._unprotected.setdefault(notification.namespace, set()).add(notification.name)
            self.queue.add(notification.namespace)
        if has_finalizer and is_deleted:
            if namespace is None:
                namespace = self._namespaces[notification.namespace] = self._begin(
                    tasks, notification.namespace
                )
            namespace.names.add(notification.name)
        elif namespace is None or notification.name not in namespace.names:
            return
        else:
            namespace.names.remove(notification.name)
        self.queue.add(notification.namespace)

    def _begin(self, tasks: asyncio.TaskGroup, namespace: str) -> _Namespace:
        """Run informers of users only while objects wait for them, as there may be very many users."""
        users = [self._informer(each, namespace) for each in self._protection.users]
        return _Namespace(set(), users, [tasks.create_task(each.run()) for each in users])

    def _informer(self, users: UsingResource, namespace: str) -> Informer:
        prefix = self._registry.prefix_of(self._served.require("", users.resource))
        scope = WatchScope(key_prefix=f"{prefix}{namespace}/") if namespace else EVERYTHING
        return Informer(
            ListWatch(self._registry.cache, prefix, scope, lists=False),
            lambda _: None,
            callbacks=InformerCallbacks(on_batch=lambda: self.queue.add(namespace)),
        )

    async def _reconcile(self, key: str) -> Outcome:
        for name in self._unprotected.pop(key, ()):
            await self._protect(key, name)
        namespace = self._namespaces.get(key)
        if namespace is None:
            return None
        # What changes after this is heard of.
        for users in namespace.users:
            await users.has_synced.wait()
        began = time.monotonic()
        await self._release(key)
        if namespace.names:
            return Cooldown((time.monotonic() - began) * REST_FACTOR)
        for informing in namespace.informing:
            informing.cancel()
        del self._namespaces[key]
        return None

    async def _protect(self, namespace: str, name: str) -> None:
        """Add the finalizer to an object that lacks it."""
        finalizer = self._protection.finalizer

        def with_finalizer(found: StoredObject) -> ProposedObject:
            document = found.document()
            meta = document["metadata"]
            finalizers = meta.get("finalizers") or []
            if "deletionTimestamp" not in meta and finalizer not in finalizers:
                meta["finalizers"] = [*finalizers, finalizer]
            return ProposedObject(document)

        try:
            await self._update(namespace, name, with_finalizer)
        except NotFound:
            return
        except ApiError as error:
            log.warning("cannot add the finalizer to %s %s: %s", self._protection.resource, name, error)

    async def _release(self, namespace: str) -> None:
        """Remove the finalizer of the waiting objects that are not in use.

        Raises CorruptObject, and the storage's errors.
        """
        names = self._namespaces[namespace].names
        # Before the users are listed, which may be older than a concurrent deletion; that is checked next.
        waiting = list(names)
        uses = await self._uses(namespace)
        for name in waiting:
            try:
                if await self._try_release(namespace, name, uses):
                    names.discard(name)
            except NotFound:
                names.discard(name)
            except ApiError as error:
                log.warning(
                    "cannot remove the finalizer from %s %s: %s", self._protection.resource, name, error
                )

    async def _try_release(self, namespace: str, name: str, uses: Container[Use]) -> bool:
        """Remove the finalizer of an object that is not in use; returns whether it is not. Raises
        NotFound.
        """
        finalizer = self._protection.finalizer
        is_used = False

        def without_finalizer(found: StoredObject) -> ProposedObject:
            nonlocal is_used
            document = found.document()
            is_used = self._protection.is_used(document, uses)
            if "deletionTimestamp" in document["metadata"] and not is_used:
                finalizers = document["metadata"].get("finalizers") or ()
                document["metadata"]["finalizers"] = [each for each in finalizers if each != finalizer]
            return ProposedObject(document)

        await self._update(namespace, name, without_finalizer)
        return not is_used

    async def _update(self, namespace: str, name: str, transform: Transform) -> None:
        """Update an object."""
        request = WriteRequest(
            resource=self._protected(), namespace=namespace, name=name, writer=KUBE_CONTROLLER_MANAGER
        )
        await self._registry.update(request, transform)

    async def _uses(self, namespace: str) -> set[Use]:
        """Returns all objects that are in use in a namespace.

        Raises CorruptObject, as an unreadable object may use anything, and the storage's errors.
        """
        uses: set[Use] = set()
        for users in self._protection.users:
            prefix = self._registry.prefix_of(self._served.require("", users.resource))
            folder = f"{prefix}{namespace}/" if namespace else prefix
            listing = await self._registry.cache.list(prefix_range(folder))
            async for version in in_turns(listing.versions):
                found = version.value
                assert found is not None
                found.require_sound()
                if users.mark in found.tail:
                    uses |= await self._registry.offload.read(found, partial(_uses_of, users))
        return uses

    def _protected(self) -> ServedResource:
        return self._served.require(*self._protection.resource)
