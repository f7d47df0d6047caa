"""Streams watch events, written as they happen, those of one turn of the event loop together."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Final, Protocol, TypeAlias
from weakref import WeakSet, ref

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.representation import SLICE_BYTES, Encoder
from apiserver.endpoints.responses import Stream
from apiserver.endpoints.websocket import asks_for_websocket, open_websocket
from apiserver.load.fair_queue import TurnQueue
from apiserver.load.offload import SERVER
from apiserver.load.size_class import SizeClass, size_class
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import ApiError, InternalError, TooManyRequests
from apiserver.meta.vocabulary import SYSTEM_MASTERS, UserInfo
from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.event_loop_turns import TURN_S, Turn, in_turns
from apiserver.storage.watch_cache import EventType, KeyVersion, Watcher
from apiserver.storage.watch_cache.events import CacheEvent, WatcherEvent

log = logging.getLogger(__name__)

# Kubernetes sends a bookmark about every minute and shortly before the end (row M05).
BOOKMARK_INTERVAL_S: Final = 60.0
LAST_BOOKMARK_BEFORE_END_S: Final = 2.0
# About so much is written to one stream in one turn of the event loop, and waits for a client that does not
# read; it is checked after each batch.
FLUSH_BYTES_MAX: Final = 64 * 1024
BATCH_EVENTS: Final = 16
# Watches about which an authorizer is asked at the same time, if it has to ask others: far fewer
# questions than may wait for a webhook, so that requests have theirs.
ASKING_MAX: Final = 200


class EventTransport(Protocol):
    """Sends events to a client: in the chunks of a response, or in the messages of a WebSocket.

    Both have a function `frame`, which frames an event for `write_frames`.
    """

    @property
    def can_write(self) -> bool:
        """Whether the client has read what was written before, and is connected."""
        ...

    def write(self, event: bytes, /) -> None:
        """Write one event."""
        ...

    def write_frames(self, frames: bytes) -> None:
        """Write events that have been framed already."""
        ...

    async def drain(self) -> None:
        """Wait until the client has read enough. Raises ConnectionResetError."""
        ...

    def abort(self) -> None:
        """Drop the connection with all unsent data."""
        ...

    async def close(self) -> None:
        """End the stream once everything written before is sent."""
        ...


class EventEncodings:
    """The encodings of large objects' events that threads are making, shared by all streams of a form."""

    def __init__(self) -> None:
        self._making: dict[object, asyncio.Task[bytes]] = {}

    async def encoded(
        self, event: CacheEvent[StoredObject], form: object, make: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        """Returns an event in one form, made by `make` unless another stream already has it made.

        If cancelled, the encoding continues: other streams may wait for it.
        """
        made = event.encodings.get(form)
        if made is not None:
            return made
        key = (event.version.key, event.revision, form)
        making = self._making.get(key)
        if making is None:

            async def run() -> bytes:
                try:
                    encoded = event.encodings[form] = await make()
                    return encoded
                finally:
                    del self._making[key]

            making = self._making[key] = asyncio.ensure_future(run())
            making.add_done_callback(_mark_retrieved)
        return await asyncio.shield(making)


def _mark_retrieved(done: asyncio.Task[bytes]) -> None:
    """Retrieve the error of an encoding, so that asyncio does not report it if no stream waits for it."""
    if not done.cancelled():
        done.exception()


# Events in their frames, which can be written; the deliveries that follow them; and what prepares the first
# of these to be written, where that takes long.
_Batch: TypeAlias = tuple[
    list[bytes], Sequence[WatcherEvent[StoredObject]], Callable[[], Awaitable[None]] | None
]


class WatchStream:
    """One watch, from its first byte to its last.

    streams: all open watches, whose metrics, clock, flush queue and allowed origins it shares.
    lifetime_s: from now on.
    view_predicate: selects objects by their views, where these differ from the stored objects; the watcher
        then lets changes pass that may not be selected.
    """

    def __init__(
        self,
        call: ApiCall,
        encoder: Encoder,
        resource: ServedResource,
        streams: WatchStreams,
        *,
        lifetime_s: float,
        view_predicate: Callable[[StoredObject], bool] | None = None,
    ) -> None:
        self._call = call
        self._encoder = encoder
        self.resource = resource
        self._metrics, self._event_sizes = streams.metrics, streams.metrics.event_sizes(resource)
        self._flush_queue = streams.flush_queue
        self._view_predicate = view_predicate
        self._clock = streams.clock
        self._ends_at = streams.clock() + lifetime_s
        self._loop = asyncio.get_running_loop()
        self._origins = streams.origins
        self._stream: EventTransport | None = None
        self._frame: Callable[[bytes], bytes] = Stream.frame
        self._form = encoder.key  # with its framing, unless that is the usual one
        self._watcher: Watcher[StoredObject] | None = None
        self._event_encodings = streams.event_encodings
        # Taken from the watcher, and not written yet. The first waits for its preparation, if there is one:
        # its object is being converted, or it is being encoded in a thread.
        self._pending: Sequence[WatcherEvent[StoredObject]] = ()
        self._preparation: asyncio.Task[None] | None = None
        self._encoded_first: bytes | None = None
        # The views of pending objects, which the cache of views may not have room for.
        self._views: dict[StoredObject, StoredObject] = {}
        self._is_live = False  # the initial events are out: changes are written as they come
        self._is_flush_scheduled = False
        self._has_sent_event = False
        self._is_handed_over = False
        self._ended: asyncio.Future[None] = self._loop.create_future()

    @property
    def call(self) -> ApiCall:
        return self._call

    def on_event(self) -> None:
        """Schedule a flush of the stream; called by the watcher when it has events."""
        if self._is_live and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._flush_queue.append(self)

    def end(self) -> None:
        """End the stream as if its time were up."""
        if not self._ended.done():
            self._ended.set_result(None)

    def hand_over(self) -> None:
        """End the stream, and its connection, so that the client may continue with another server.

        A last bookmark tells the client how far it is. That server may have begun after its last event.
        """
        self._is_handed_over = self._call.closes_connection = True
        self.end()

    async def fail(self, error: ApiError) -> None:
        """Open the stream, send one ERROR event, and end it (row M04)."""
        stream = await self._open()
        stream.write(self._encoder.error(error.status()))
        await stream.close()

    async def _open(self) -> EventTransport:
        """Open the stream."""
        if not asks_for_websocket(self._call.request):
            return Stream(self._call, self._encoder.stream_type)
        stream = await open_websocket(self._call, self._encoder, self._origins)
        self._frame, self._form = stream.frame, (stream.framing, self._encoder.key)
        return stream

    async def run(
        self,
        watcher: Watcher[StoredObject],
        initial: list[KeyVersion[StoredObject]],
        *,
        initial_bookmark: int | None,
        progress: Callable[[], int],
        sends_bookmarks: bool,
    ) -> None:
        """Send the initial events, then changes until the time is up, the watcher ends, or the client
        disconnects.

        initial: emptied once it is sent.
        initial_bookmark: the revision of the bookmark after the initial events, if there is to be one.
        progress: returns the revision up to which the cache has delivered changes.
        """
        self._watcher = watcher
        try:
            self._stream = stream = await self._open()
            await self._run(stream, initial, initial_bookmark, progress if sends_bookmarks else None)
            await stream.close()
        finally:
            # They refer to this stream, and would be kept until the next full garbage collection, with what
            # waits in the watcher's queue.
            self._watcher = self._stream = None
            if self._call.connection.on_writable == self.on_event:
                self._call.connection.on_writable = None

    async def _run(
        self,
        stream: EventTransport,
        initial: list[KeyVersion[StoredObject]],
        initial_bookmark: int | None,
        progress: Callable[[], int] | None,
    ) -> None:
        try:
            await self._send_initial(initial)
        except ApiError as error:
            # Whatever has been sent, the client must begin again (row M04).
            stream.write(self._encoder.error(error.status()))
            return
        initial.clear()
        if initial_bookmark is not None:
            await self._end_initial_events(stream, initial_bookmark)
        self._call.release_slot()  # It has begun: what follows is little, and lasts.
        self._is_live = True
        self.flush()
        try:
            await self._wait_for_end(progress)
        finally:
            self._is_live = False
            if self._preparation is not None:
                self._preparation.cancel()

    async def _send_initial(self, initial: Sequence[KeyVersion[StoredObject]]) -> None:
        """Send the state as synthetic ADDED events, in slices that bound memory and turns of the loop."""
        assert self._stream is not None
        codec = self.resource.codec
        pieces: list[bytes] = []
        size = 0
        objects = [version.value for version in initial if version.value is not None]
        if not codec.is_immediate:
            for obj in objects:
                obj.require_sound()
            objects = await codec.views(objects, self._call.offload)
        if self._view_predicate is not None:
            objects = await _select(objects, self._view_predicate)
        turn = Turn()
        for obj in objects:
            obj.require_sound()
            work = self._work(obj)
            if work is SizeClass.SMALL:
                piece = self._framed_initial(obj)
            else:
                piece = await self._call.offload.run_begun(work, self._framed_initial, obj)
            pieces.append(piece)
            size += len(piece)
            is_turn_over = turn.is_over()
            if size >= SLICE_BYTES or is_turn_over:
                self._event_sizes.observe_all(map(len, pieces))
                self._stream.write_frames(b"".join(pieces))
                pieces, size = [], 0
                await self._stream.drain()
                if is_turn_over:
                    await turn.next()
        if pieces:
            self._event_sizes.observe_all(map(len, pieces))
            self._stream.write_frames(b"".join(pieces))

    async def _end_initial_events(self, stream: EventTransport, revision: int) -> None:
        self._write_bookmark(stream, revision, ends_initial_events=True)
        self._metrics.observe_watch_list(self._call, self._clock() - self._call.received_at)

    def _work(self, hub: StoredObject) -> SizeClass:
        """Returns how much work it is to send an object of the hub version."""
        if self.resource.codec.converts_hub:
            return size_class(len(hub.tail))
        return self._encoder.work(hub)

    def _framed_initial(self, hub: StoredObject) -> bytes:
        obj = self.resource.codec.view_of_hub(hub)
        return self._frame(self._event("ADDED", obj, obj.tail))

    def _event(self, kind: str, obj: StoredObject, tail: bytes) -> bytes:
        event = self._encoder.event(kind, obj, tail, is_first=not self._has_sent_event)
        self._has_sent_event = True
        return event

    def flush(self) -> None:
        """Write the waiting events, or leave them in the watcher's queue while the client does not read."""
        self._is_flush_scheduled = False
        watcher, stream = self._watcher, self._stream
        if watcher is None or stream is None or not self._is_live:
            return
        if watcher.is_overrun:
            # The client has not read for a long time; it need not get the rest.
            self._call.closes_connection = True
            stream.abort()
            self.end()
        elif self._preparation is not None:
            return  # When that is done the stream is flushed.
        elif not stream.can_write:
            self._call.connection.on_writable = self.on_event
        else:
            try:
                self._write_some(watcher, stream)
                if self._has_more(watcher) and self._preparation is None:
                    self.on_event()  # the rest after other streams have been flushed
            except Exception as error:
                self.end_with(error)
            if watcher.is_ended and not self._has_more(watcher):
                self.end()

    def _has_more(self, watcher: Watcher[StoredObject]) -> bool:
        """Whether there are unwritten events."""
        return bool(len(watcher) or self._pending)

    def end_with(self, error: Exception) -> None:
        """Send an ERROR event, and end the stream: without the failed event it would have a gap."""
        if not isinstance(error, ApiError):
            log.error("cannot send an event of %s", self.resource.resource, exc_info=error)
            error = InternalError("Internal error occurred")
        if self._stream is not None and self._is_live:
            self._stream.write(self._encoder.error(error.status()))
        self.end()

    def _write_some(self, watcher: Watcher[StoredObject], stream: EventTransport) -> None:
        """Write events in one piece, bounded in size and time, and begin to prepare the next one."""
        pieces: list[bytes] = []
        size, turn_ends = 0, 0.0
        deliveries = self._pending or watcher.take(BATCH_EVENTS)
        while True:
            batch, rest, preparation = self._next_batch(deliveries)
            if batch:
                self._has_sent_event, self._encoded_first = True, None
                pieces += batch
            if rest or not len(watcher):
                break
            size += sum(map(len, batch))
            turn_ends = turn_ends or monotonic() + TURN_S
            if size >= FLUSH_BYTES_MAX or monotonic() >= turn_ends:
                break
            deliveries = watcher.take(BATCH_EVENTS)
        self._pending = rest
        if preparation is not None:
            self._preparation = self._loop.create_task(self._prepare(preparation))
        elif self._views:
            self._views = {}
        if pieces:
            stream.write_frames(b"".join(pieces))
            self._metrics.count_events(self._event_sizes, pieces)

    def _next_batch(self, deliveries: Sequence[WatcherEvent[StoredObject]]) -> _Batch:
        """Returns the next events, up to the first that has to be converted or encoded elsewhere.

        All streams of the same form and framing share the frames. Raises CorruptObject, ApiError.
        """
        resource, encoder, framing = self.resource, self._encoder, self._form
        pieces: list[bytes] = []
        ready = deliveries if resource.codec.is_immediate else self._converted(deliveries)
        selects = self._view_predicate
        is_first, encoded = not self._has_sent_event, self._encoded_first
        # A custom resource of the same version may have another schema from one moment to the next.
        served: object = resource.cache_key if resource.is_custom else resource.api_version
        for index, delivery in enumerate(ready):
            if selects is not None:
                selected = self._selected(delivery, selects)
                if selected is None:
                    continue
                delivery = selected
            kind, change = delivery
            form = (kind, served, framing, is_first and encoder.first_event_differs)
            piece = change.encodings.get(form) if encoded is None else encoded
            if piece is None:
                hub = self._hub_of(_object_of(delivery))
                if self._work(hub) is not SizeClass.SMALL:
                    return pieces, deliveries[index:], partial(self._encode_first, delivery, hub, form)
                piece = change.encodings[form] = self._framed(delivery, hub, is_first=is_first)
            pieces.append(piece)
            is_first, encoded = False, None
        if ready is deliveries:
            return pieces, (), None
        rest = deliveries[len(ready) :]
        return pieces, rest, partial(self._convert, rest)

    # ---- objects that have to be converted

    def _converted(
        self, deliveries: Sequence[WatcherEvent[StoredObject]]
    ) -> Sequence[WatcherEvent[StoredObject]]:
        """Returns the deliveries before the first whose views are missing, and holds the views of these."""
        views, cached_view = self._views, self.resource.codec.cached_view
        for index, delivery in enumerate(deliveries):
            for obj in self._objects_of(delivery):
                view = views.get(obj) or cached_view(obj)
                if view is None:
                    return deliveries[:index]
                views[obj] = view
        return deliveries

    def _objects_of(self, delivery: WatcherEvent[StoredObject]) -> Sequence[StoredObject]:
        """Returns the states whose views are needed to select and send a delivery. Raises CorruptObject."""
        kind, change = delivery
        if self._view_predicate is None or kind is not EventType.MODIFIED:
            return (_object_of(delivery),)
        return (_object_of(delivery), _object_of(WatcherEvent(EventType.DELETED, change)))

    def _selected(
        self, delivery: WatcherEvent[StoredObject], predicate: Callable[[StoredObject], bool]
    ) -> WatcherEvent[StoredObject] | None:
        """Returns a change as the selector sees it: ADDED, MODIFIED or DELETED; None if it sees none."""
        kind, change = delivery
        selected = [predicate(self._hub_of(obj)) for obj in self._objects_of(delivery)]
        if kind is not EventType.MODIFIED:
            return delivery if selected[0] else None
        match selected:
            case [True, False]:
                return WatcherEvent(EventType.ADDED, change)
            case [False, True]:
                return WatcherEvent(EventType.DELETED, change)
        return delivery if selected[0] else None

    def _hub_of(self, obj: StoredObject) -> StoredObject:
        """Returns a stored object in the hub version: of a custom resource the view that is held."""
        return obj if self.resource.codec.is_immediate else self._views[obj]

    # ---- what is done beside the event loop

    async def _prepare(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Do what the first pending event waits for; then schedule a flush."""
        failure: Exception | None = None
        try:
            await prepare()
        except Exception as error:
            failure = error
        self._preparation = None
        if failure is None:
            self.on_event()
        else:
            self.end_with(failure)

    async def _convert(self, deliveries: Sequence[WatcherEvent[StoredObject]]) -> None:
        """Convert the objects of deliveries, once for all watches of an object."""
        objects = [obj for each in deliveries for obj in self._objects_of(each)]
        views = await self.resource.codec.views(objects, self._call.offload)
        self._views = dict(zip(objects, views, strict=True))

    async def _encode_first(
        self, delivery: WatcherEvent[StoredObject], hub: StoredObject, form: object
    ) -> None:
        """Encode the first pending event in a thread. hub: the object in the hub version."""
        # The encoding is shared by all streams of the form.
        offload = self._call.offload.for_user(SERVER)
        framed = partial(self._framed, delivery, hub, is_first=not self._has_sent_event)

        def make() -> Awaitable[bytes]:
            return offload.run_begun(self._work(hub), framed)

        self._encoded_first = await self._event_encodings.encoded(delivery.event, form, make)

    def _framed(self, delivery: WatcherEvent[StoredObject], hub: StoredObject, *, is_first: bool) -> bytes:
        kind, change = delivery
        obj = self.resource.codec.view_of_hub(hub)
        # A deletion has its own revision (rows M03, M06).
        tail = obj.at_revision(change.revision) if kind is EventType.DELETED else obj.tail
        return self._frame(self._encoder.event(kind.value, obj, tail, is_first=is_first))

    async def _wait_for_end(self, progress: Callable[[], int] | None) -> None:
        """Wait until the stream has to end, and send a bookmark now and then, if `progress` is given."""
        while True:
            now = self._clock()
            wakes_at = self._ends_at
            if progress is not None:
                last = self._ends_at - LAST_BOOKMARK_BEFORE_END_S
                wakes_at = min(now + BOOKMARK_INTERVAL_S, last if last > now else self._ends_at)
            try:
                async with asyncio.timeout_at(wakes_at):
                    await asyncio.shield(self._ended)
                if self._is_handed_over and progress is not None:
                    self._send_bookmark(progress())
                return
            except TimeoutError:
                if self._clock() >= self._ends_at:
                    return
                if progress is not None:
                    self._send_bookmark(progress())

    def _send_bookmark(self, revision: int) -> None:
        """Send a bookmark at `revision`, if all events before it have been written."""
        watcher, stream = self._watcher, self._stream
        if watcher is None or stream is None or not stream.can_write:
            return
        if revision > watcher.after and not self._has_more(watcher):
            self._write_bookmark(stream, revision, ends_initial_events=False)

    def _write_bookmark(self, stream: EventTransport, revision: int, *, ends_initial_events: bool) -> None:
        bookmark = self._encoder.bookmark(revision, ends_initial_events=ends_initial_events)
        stream.write(bookmark)
        self._event_sizes.observe(len(bookmark))


async def _select(
    objects: Sequence[StoredObject], predicate: Callable[[StoredObject], bool]
) -> list[StoredObject]:
    """Returns the objects that a predicate selects, letting other tasks run meanwhile."""
    selected = []
    turn = Turn()
    for obj in objects:
        if turn.is_over():
            await turn.next()
        if predicate(obj):
            selected.append(obj)
    return selected


def _flush_failed(stream: WatchStream) -> None:
    log.exception("cannot write to a watch")
    stream.end()


def _object_of(delivery: WatcherEvent[StoredObject]) -> StoredObject:
    """Returns the state of the object that a delivery sends. Raises CorruptObject."""
    kind, change = delivery
    version = change.previous if kind is EventType.DELETED else change.version
    assert version is not None
    assert version.value is not None
    version.value.require_sound()
    return version.value


class WatchStreams:
    """All open watches, so that they can be ended together.

    clock: the event loop's, in seconds. origins: of the pages that may open WebSockets.
    watches_max: the limit of watches of all users but `system:masters`; 0 for none.
    refused_total: how many were refused because their users had their share of all watches.
    unauthorized_total: how many ended because their users were no longer authorized.
    """

    def __init__(
        self,
        metrics: RequestMetrics,
        clock: Callable[[], float],
        origins: AllowedOrigins | None = None,
        *,
        watches_max: int = 0,
        make_stream: Callable[..., WatchStream] | None = None,
    ) -> None:
        """make_stream: in place of the class.

        new: makes the stream of a watch that is about to begin, from the arguments of `WatchStream` but this.
        """
        self.new: Callable[..., WatchStream] = partial(make_stream or WatchStream, streams=self)
        self.origins = AllowedOrigins() if origins is None else origins
        self.metrics = metrics
        self.clock = clock
        # The events that come before a stream is flushed are written together.
        self.flush_queue = TurnQueue(TURN_S, WatchStream.flush, _flush_failed)
        self.event_encodings = EventEncodings()
        self.refused_total = self.unauthorized_total = 0
        self.watches_max = watches_max
        self._places = SharedPool(watches_max or math.inf)
        self._open: set[WatchStream] = set()
        self._is_closing = False
        self._withdrawn: WeakSet[ServedResource] = WeakSet()
        # The last question of `end_unauthorized`, and when it was asked.
        self._is_authorized: Callable[[ApiCall], bool | Awaitable[bool]] | None = None
        self._asked_at = 0.0
        self._asking: set[asyncio.Future[None]] = set()

    @property
    def open_count(self) -> int:
        return len(self._open)

    def calls(self) -> list[ApiCall]:
        """Returns the requests of the open watches."""
        return [stream.call for stream in self._open]

    @property
    def limited_count(self) -> int:
        """The number of open watches that count against the limit."""
        return self._places.held_total

    @contextmanager
    def place(self, user: UserInfo) -> Iterator[None]:
        """Reserves a place for a watch; users share all places by the rules for slots.

        Raises TooManyRequests if the user has its share.
        """
        if SYSTEM_MASTERS in user.groups:
            yield
            return
        holder = holder_of(user)
        if not self._places.take(holder):
            self.refused_total += 1
            raise TooManyRequests("Too many watches, please try again later.")
        try:
            yield
        finally:
            self._places.give_back(holder)

    @contextmanager
    def open(self, stream: WatchStream) -> Iterator[None]:
        self._open.add(stream)
        if self._is_closing or stream.resource in self._withdrawn:
            stream.end()
        elif self._is_authorized is not None and stream.call.received_at <= self._asked_at:
            # The right to it may have been revoked since it was authorized.
            self._ask(stream, self._is_authorized)
        try:
            with self.metrics.long_running(stream.call):
                yield
        finally:
            self._open.discard(stream)

    def end_all_of(self, resources: Collection[ServedResource]) -> None:
        """End the watches of resources that are withdrawn or replaced, so that their clients begin again.

        Watches of them that begin later end at once.
        """
        self._withdrawn.update(resources)
        for stream in list(self._open):
            if stream.resource in resources:
                stream.end()

    def restore_all_of(self, resources: Collection[ServedResource]) -> None:
        """Allow watches again for resources that were withdrawn and are served again."""
        self._withdrawn.difference_update(resources)

    async def end_unauthorized(self, is_authorized: Callable[[ApiCall], bool | Awaitable[bool]]) -> int:
        """End the watches whose users are no longer authorized, so that their clients begin again.

        is_authorized: called once for each open watch, in turns of the event loop, and for those that were
            authorized before now and are about to begin.
        Returns how many watches it ended.
        """
        self._is_authorized, self._asked_at = is_authorized, self.clock()
        before = self.unauthorized_total
        async for stream in in_turns(list(self._open)):
            self._ask(stream, is_authorized)
            if len(self._asking) >= ASKING_MAX:
                await asyncio.wait(self._asking, return_when=asyncio.FIRST_COMPLETED)
        if self._asking:
            await asyncio.wait(self._asking)
        return self.unauthorized_total - before

    def _ask(self, stream: WatchStream, is_authorized: Callable[[ApiCall], bool | Awaitable[bool]]) -> None:
        """End a watch if its user is no longer authorized, now or when the decision is known."""
        answer = is_authorized(stream.call)
        if isinstance(answer, bool):
            self._end_unless(answer, stream)
            return

        async def end_later(answer: Awaitable[bool]) -> None:
            self._end_unless(await answer, stream)

        asking = asyncio.ensure_future(end_later(answer))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    def _end_unless(self, is_authorized: bool, stream: WatchStream) -> None:
        if not is_authorized and stream in self._open:
            self.unauthorized_total += 1
            stream.end()

    async def end_gradually(self, over_s: float) -> None:
        """Hand over the watches that are open now one after the other, at even intervals."""
        ending = [ref(stream) for stream in self._open]
        began = self.clock()
        for number, each in enumerate(ending, 1):
            await asyncio.sleep(began + over_s * number / len(ending) - self.clock())
            if (stream := each()) is not None and stream in self._open:
                stream.hand_over()

    def end_all(self) -> None:
        """Hand over every watch, and those that begin from now on at once."""
        self._is_closing = True
        for stream in list(self._open):
            stream.hand_over()
