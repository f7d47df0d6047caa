"""Handles requests for virtual resources, whose objects functions of extensions make.

The handlers are those of stored objects: each request gets them with a registry that calls the functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.create import Creator, create_handler
from apiserver.endpoints.handlers.decoding import Decoder
from apiserver.endpoints.handlers.delete import DeleteOptionsReader, delete_handler
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.get import get_handler
from apiserver.endpoints.handlers.list import send_list
from apiserver.endpoints.handlers.long_selectors import wait_for_turn
from apiserver.endpoints.handlers.patch import patch_handler
from apiserver.endpoints.handlers.reviews import user_info
from apiserver.endpoints.handlers.update import update_handler
from apiserver.endpoints.handlers.watch import watch_lifetime_s
from apiserver.endpoints.handlers.write_requests import WriteRequests
from apiserver.endpoints.routes import VerbHandlers
from apiserver.endpoints.watch_stream import WatchStream, WatchStreams
from apiserver.extensions.host.virtual_registry import (
    Caller,
    Selectors,
    VirtualEvents,
    VirtualFunctions,
    VirtualRegistry,
)
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, Expired
from apiserver.meta.options import ListOptions, first
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.watch_cache import KeyVersion, Watcher
from apiserver.storage.watch_cache.events import CacheEvent, WatcherEvent

# Events that wait for a client that does not read; the function waits then, too.
EVENTS_QUEUED_MAX: Final = 64
# Handles a request with the objects of its resource.
_Handle = Callable[[ApiCall, VirtualRegistry], Awaitable[None]]


class VirtualHandlers(NamedTuple):
    """Makes the handlers of virtual resources. The fields are those of the handlers of stored objects."""

    registry: Registry
    encoders: Encoders
    decoder: Decoder
    requests: WriteRequests
    lifecycle: NamespaceLifecycle
    options_reader: DeleteOptionsReader
    authorization: AuthorizationChain
    deviations: Deviations
    brand: Brand
    streams: WatchStreams
    min_request_timeout_s: float

    def before(
        self, verbs: VerbHandlers, resources: Mapping[tuple[GroupVersion, str], VirtualFunctions]
    ) -> VerbHandlers:
        """Returns handlers of all resources. verbs: those of stored ones. resources: the virtual ones."""

        def either(handle: _Handle, stored: Handler) -> Handler:
            async def handle_either(call: ApiCall) -> None:
                resource = call.resource
                functions = resources.get((resource.group_version, resource.resource))
                if functions is None:
                    await stored(call)
                else:
                    await handle(call, VirtualRegistry(functions, self.registry, _caller(call, self.brand)))

            return handle_either

        return verbs._replace(
            get=either(self._get, verbs.get),
            list=either(self._list, verbs.list),
            create=either(self._create, verbs.create),
            update=either(self._update, verbs.update),
            patch=either(self._patch, verbs.patch),
            delete=either(self._delete, verbs.delete),
            watch=either(self._watch, verbs.watch),
        )

    async def _get(self, call: ApiCall, objects: VirtualRegistry) -> None:
        await get_handler(objects, self.encoders)(call)

    async def _list(self, call: ApiCall, objects: VirtualRegistry) -> None:
        encoder = self.encoders.for_call(call)
        query = call.query
        await wait_for_turn(query)
        options = ListOptions.for_list(query, call.resource.known_fields, self.brand.meta_group)
        async with asyncio.timeout(options.timeout_s or None):
            found = await objects.select(call.info.namespace, "", options, _selectors(call))
            await send_list(call, encoder, found)

    async def _watch(self, call: ApiCall, objects: VirtualRegistry) -> None:
        """Send the objects of the list, and then the events of the function.

        Functions keep no history: a client that names a resourceVersion must list again.
        """
        encoder, resource = self.encoders.for_call(call), call.resource
        query, info = call.query, call.info
        await wait_for_turn(query)
        options = ListOptions.for_watch(query, resource.known_fields, self.brand.meta_group)
        lifetime_s = options.timeout_s or watch_lifetime_s(self.min_request_timeout_s)
        stream = self.streams.new(call, encoder, resource, lifetime_s=lifetime_s)
        if options.start_after and not options.send_initial_events:
            await stream.fail(Expired(f"too old resource version: {options.start_after}"))
            return
        texts = _selectors(call)
        with self.streams.place(call.user):
            events = await objects.watch(info.namespace, info.name, options, texts)
            try:
                initial: list[StoredObject] = []
                if options.send_initial_events:
                    found = await objects.select(info.namespace, info.name, options, texts)
                    initial = found.objects
                    events.begin_with(initial)
                queue = EventQueue(stream.on_event)
                forwarding = asyncio.create_task(forward(events, queue, stream))
                revision = self.registry.cache.revision
                try:
                    with self.streams.open(stream):
                        await stream.run(
                            queue,
                            [key_version(each) for each in initial],
                            initial_bookmark=revision if options.ends_initial_events_with_bookmark else None,
                            progress=lambda: revision,
                            sends_bookmarks=False,
                        )
                finally:
                    forwarding.cancel()
                    await asyncio.wait([forwarding])
            finally:
                events.close()

    async def _create(self, call: ApiCall, objects: VirtualRegistry) -> None:
        creator = Creator(objects, self.lifecycle, self.requests)
        await create_handler(self.encoders, self.decoder, self.requests, creator)(call)

    async def _update(self, call: ApiCall, objects: VirtualRegistry) -> None:
        creator = Creator(objects, self.lifecycle, self.requests)
        handle = update_handler(
            objects, self.encoders, self.decoder, self.requests, creator, self.authorization
        )
        await handle(call)

    async def _patch(self, call: ApiCall, objects: VirtualRegistry) -> None:
        """Patch an object by the functions that return and update it."""
        handle = patch_handler(objects, self.encoders, self.requests, None, self.deviations)
        await handle(call)

    async def _delete(self, call: ApiCall, objects: VirtualRegistry) -> None:
        handle = delete_handler(
            objects, self.encoders, self.options_reader, self.lifecycle, self.requests, self.authorization
        )
        await handle(call)


class EventQueue(Watcher[StoredObject]):
    """The events that wait for a client. They come no faster than the client reads them."""

    def __init__(self, on_ready: Callable[[], None]) -> None:
        super().__init__(after=0, on_ready=on_ready)
        self._is_read = False
        self._room = asyncio.Event()

    def take(self, count: int | None = None) -> list[WatcherEvent[StoredObject]]:
        self._is_read = True
        self._room.set()
        return super().take(count)

    async def drain(self) -> None:
        """Wait until the client has begun to read, and has all events."""
        while len(self) or not self._is_read:
            self._room.clear()
            await self._room.wait()

    async def put(self, event: WatcherEvent[StoredObject]) -> None:
        """Add an event when there is room for it."""
        while len(self) >= EVENTS_QUEUED_MAX:
            self._room.clear()
            await self._room.wait()
        if self.offer(event):
            self.on_ready()


async def forward(events: VirtualEvents, queue: EventQueue, stream: WatchStream) -> None:
    """Put the events of a function into a queue until they end, or send the error that ends them."""
    try:
        while (found := await events.read()) is not None:
            for kind, each in found:
                version = key_version(each)
                event = CacheEvent(version)
                event.previous = version  # The object is sent as the function has given it.
                await queue.put(WatcherEvent(kind, event))
    except ApiError as error:
        await queue.drain()
        stream.end_with(error)
    else:
        queue.end()


def key_version(found: StoredObject) -> KeyVersion[StoredObject]:
    return KeyVersion(found.key, found, revision=1, create_revision=1)


def _selectors(call: ApiCall) -> Selectors:
    return Selectors(first(call.query, "labelSelector"), first(call.query, "fieldSelector"))


def _caller(call: ApiCall, brand: Brand) -> Caller:
    group, version = call.resource.group_version
    description = {
        "resource": {"group": group, "version": version, "resource": call.resource.resource},
        "userInfo": user_info(call.user),
    }
    return Caller(
        description, brand.meta_group, call.deadline, call.without_slot, call.offload, call.warnings
    )
