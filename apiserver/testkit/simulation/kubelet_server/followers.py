"""Watches a pod while its log is followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from apiserver.controller_runtime.informer import Informer, InformerCallbacks, ListWatch, Notification
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.storage.interface import MOST_RECENT
from apiserver.storage.watch_cache import WatchScope


class FollowedPod:
    """A pod that is watched while its log is followed.

    document: the current pod; None if it was deleted or replaced, or if its state is unknown.
    """

    def __init__(self, uid: str) -> None:
        self.document: Document | None = None
        self._uid = uid
        self._is_over = False
        self._changed = asyncio.Event()

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until the pod has changed, up to a timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    def put(self, document: Document | None) -> None:
        self._is_over |= document is None or document["metadata"]["uid"] != self._uid
        self.document = None if self._is_over else document
        self._changed.set()

    def notify(self, notification: Notification) -> None:
        """Record a change of the pod, as the informer's handler."""
        self.put(None if notification.new is None else notification.new.document())

    def lose(self) -> None:
        """Handle the end of the watch, after which the state of the pod is unknown."""
        self.put(None)


@asynccontextmanager
async def followed(registry: Registry, pods: ServedResource, pod: Document) -> AsyncIterator[FollowedPod]:
    """Follows a pod, from now on."""
    meta = pod["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    follower = FollowedPod(meta["uid"])
    scope = WatchScope(key=registry.key(pods, namespace, name))
    informer = Informer(
        ListWatch(registry.cache, registry.prefix_of(pods), scope, lists=False),
        follower.notify,
        callbacks=InformerCallbacks(on_failure=follower.lose),
    )
    following = asyncio.create_task(informer.run())
    try:
        await informer.has_synced.wait()
        # It includes all earlier changes; the watch delivers later ones.
        with suppress(NotFound):
            found = await registry.get(pods, namespace, name, MOST_RECENT)
            if follower.document is None:
                follower.put(found.document())
        yield follower
    finally:
        following.cancel()
        await asyncio.wait((following,))
