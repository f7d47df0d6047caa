"""Watch events as framed chunks: written when they happen, in one write for all of a turn of the loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final
from weakref import WeakSet

from apiserver.endpoints.api_call import Call
from apiserver.endpoints.representation import SLICE_BYTES, Encoder
from apiserver.endpoints.responses import TURN_S, Stream, chunk
from apiserver.errors import ApiError, InternalError
from apiserver.metrics.exposition import RequestMetrics
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from storage.watch_cache import EventType, KeyVersion, Watcher
from storage.watch_cache.events import Delivery

log = logging.getLogger(__name__)

# Kubernetes sends a bookmark about every minute and shortly before the end (row M05).
BOOKMARK_INTERVAL_S: Final = 60.0
LAST_BOOKMARK_BEFORE_END_S: Final = 2.0
# A client that takes nothing of its initial events for so long is gone, or might as well be. Later on it
# is the watcher's queue that bounds how far one may fall behind.
STALLED_S: Final = 60.0
# What is written in one turn of the loop, about, and how many events are made before that is looked at.
FLUSH_BYTES_MAX: Final = 256 * 1024
BATCH_EVENTS: Final = 16


class Iteration:
    """Streams that have something to write, one after the other, for a little while in each turn of the loop.

    A thousand watchers of one change would otherwise hold the loop for as long as it takes to write to all of
    them. And under load it is kind to everybody: what happens before a stream's turn has come is written
    together.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[WatchStream] = deque()

    def add(self, stream: WatchStream) -> None:
        """Have `stream` flushed, later in this turn of the loop at the earliest."""
        if not self._waiting:
            self._loop.call_soon(self._serve)
        self._waiting.append(stream)

    def _serve(self) -> None:
        waiting = self._waiting
        turn_ends = monotonic() + TURN_S
        while waiting and monotonic() < turn_ends:
            # It stays in the queue meanwhile: whoever comes then needs no other call.
            stream = waiting[0]
            try:
                stream.flush()
            except Exception:  # One stream's failure must not be the end of all others.
                log.exception("a watch cannot be written")
                stream.end()
            waiting.popleft()
        if waiting:
            self._loop.call_soon(self._serve)


class WatchStream:
    """One watch, from its first byte to its last.

    turns: where it waits for its turn to write.
    selects: of what is shown, where the watcher cannot tell for sure which changes are meant.
    ends_at: on the event loop's clock.
    """

    def __init__(
        self,
        call: Call,
        encoder: Encoder,
        resource: ServedResource,
        metrics: RequestMetrics,
        turns: Iteration,
        *,
        selects: Callable[[StoredObject], bool] | None = None,
        ends_at: float,
        clock: Callable[[], float],
    ) -> None:
        self._call = call
        self._encoder = encoder
        self.resource = resource
        self._metrics = metrics
        self._turns = turns
        self._selects = selects
        self._ends_at = ends_at
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._stream: Stream | None = None
        self._watcher: Watcher[StoredObject] | None = None
        # Taken from the watcher, and waiting to be converted by somebody else.
        self._unconverted: Sequence[Delivery[StoredObject]] = ()
        self._showing: asyncio.Task[None] | None = None
        # What has been converted for these, should there be no room to keep it elsewhere.
        self._views: dict[StoredObject, StoredObject] = {}
        self._is_live = False  # the initial events are out: changes are written as they come
        self._is_flush_scheduled = False
        self._has_sent_event = False
        self._ended: asyncio.Future[None] = self._loop.create_future()

    def on_event(self) -> None:
        """The watcher has something: write it when this stream's turn comes."""
        if self._is_live and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._turns.add(self)

    def end(self) -> None:
        """Let the stream end as if its time were up."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def fail(self, error: ApiError) -> None:
        """Open the stream, send one ERROR event, and end it (row M04)."""
        stream = Stream(self._call, self._encoder.stream_type)
        stream.write(self._encoder.error(error.status()))
        stream.finish()

    async def run(
        self,
        watcher: Watcher[StoredObject],
        initial: list[KeyVersion[StoredObject]],
        *,
        initial_bookmark: int | None,
        revision: Callable[[], int],
        sends_bookmarks: bool,
    ) -> None:
        """Send the initial events, then changes until the time is up, the watcher ends, or the client goes.

        initial: taken over, and emptied once it is sent.
        bookmark_initial: the revision of the bookmark after the initial events, if there is to be one.
        revision: up to which the cache has handed out changes.
        """
        self._watcher = watcher
        self._stream = stream = Stream(self._call, self._encoder.stream_type)
        try:
            await self._send_initial(initial)
        except ApiError as error:
            # Whatever has been sent, the client must begin again (row M04).
            stream.write(self._encoder.error(error.status()))
            stream.finish()
            return
        initial.clear()
        if initial_bookmark is not None:
            stream.write(self._encoder.bookmark(initial_bookmark, ends_initial_events=True))
        self._is_live = True
        self.flush()
        try:
            await self._wait_for_end(revision if sends_bookmarks else None)
        finally:
            self._is_live = False
            if self._showing is not None:
                self._showing.cancel()
        stream.finish()

    async def _send_initial(self, initial: Sequence[KeyVersion[StoredObject]]) -> None:
        """State as synthetic ADDED events, in slices, so that neither memory nor loop are kept by it."""
        assert self._stream is not None
        pieces: list[bytes] = []
        size = 0
        objects = [version.value for version in initial if version.value is not None]
        if self.resource.keeping is not None:
            for found in objects:
                found.require_sound()
            objects = await self.resource.shown(objects)
        if self._selects is not None:
            objects = list(filter(self._selects, objects))
        turn_ends = monotonic() + TURN_S  # The loop's own clock stands still until the turn is over.
        for found in objects:
            found.require_sound()
            found = self.resource.view(found)
            piece = chunk(self._event("ADDED", found, found.tail))
            pieces.append(piece)
            size += len(piece)
            if size >= SLICE_BYTES or monotonic() > turn_ends:
                self._stream.write_chunks(b"".join(pieces))
                pieces, size = [], 0
                async with asyncio.timeout(STALLED_S):
                    await self._stream.drain()
                if monotonic() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = monotonic() + TURN_S
        if pieces:
            self._stream.write_chunks(b"".join(pieces))
        self._metrics.count_watch_events(self.resource, len(objects))

    def _event(self, kind: str, found: StoredObject, tail: bytes) -> bytes:
        event = self._encoder.event(kind, found, tail, is_first=not self._has_sent_event)
        self._has_sent_event = True
        return event

    def flush(self) -> None:
        """Write all that waits, or leave it in the watcher's queue while the client does not read."""
        self._is_flush_scheduled = False
        watcher, stream = self._watcher, self._stream
        if watcher is None or stream is None or not self._is_live:
            return
        if watcher.is_overrun:
            # It has not read for a long time; waiting until it takes the rest would help nobody.
            self._call.closes_connection = True
            stream.abort()
            self.end()
        elif self._showing is not None:
            return  # When that is done it is flushed.
        elif not stream.can_write:
            self._call.connection.on_writable = self.on_event
        else:
            try:
                self._write_some(watcher, stream)
                if len(watcher) and self._showing is None:
                    self.on_event()  # the rest in the next turn, after others have had theirs
            except ApiError as error:
                # Without this event the stream would have a hole: it must not go on.
                stream.write(self._encoder.error(error.status()))
                self.end()
            except Exception:
                log.exception("an event of %s cannot be sent", self.resource.resource)
                stream.write(self._encoder.error(InternalError("Internal error occurred").status()))
                self.end()
            if watcher.is_ended and not len(watcher) and self._showing is None:
                self.end()

    def _write_some(self, watcher: Watcher[StoredObject], stream: Stream) -> None:
        """In one write, and no more than others can wait for."""
        encoded = self._encoded
        pieces = [encoded(delivery) for delivery in self._take(watcher)]
        if len(watcher) and not self._unconverted:
            size = sum(map(len, pieces))
            turn_ends = monotonic() + TURN_S
            while (
                len(watcher) and not self._unconverted and size < FLUSH_BYTES_MAX and monotonic() < turn_ends
            ):
                more = [encoded(delivery) for delivery in self._take(watcher)]
                size += sum(map(len, more))
                pieces += more
        if pieces:
            stream.write_chunks(b"".join(pieces))
            self._metrics.count_watch_events(self.resource, len(pieces))

    def _take(self, watcher: Watcher[StoredObject]) -> Sequence[Delivery[StoredObject]]:
        """What is next and can be shown. What cannot yet is seen to, and comes before all else then."""
        if self.resource.keeping is None:
            return watcher.take(BATCH_EVENTS)
        if not self._unconverted:
            self._views = {}
        taken, self._unconverted = self._unconverted or watcher.take(BATCH_EVENTS), ()
        for index, delivery in enumerate(taken):
            found = _object_of(delivery)
            has_view = found in self._views or self.resource.view_at_hand(found) is not None
            if not has_view or not (self._selects is None or self._has_views(delivery)):
                self._unconverted = taken[index:]
                self._showing = self._loop.create_task(self._convert(self._unconverted))
                taken = taken[:index]
                break
        if self._selects is None:
            return taken
        return [each for delivery in taken if (each := self._selected(delivery, self._selects)) is not None]

    def _concerned(self, delivery: Delivery[StoredObject]) -> Sequence[StoredObject]:
        """What has to be shown for a delivery, and to tell what it is. Raises CorruptObject."""
        kind, change = delivery
        if self._selects is None or kind is not EventType.MODIFIED:
            return (_object_of(delivery),)
        return (_object_of(delivery), _object_of(Delivery(EventType.DELETED, change)))

    def _has_views(self, delivery: Delivery[StoredObject]) -> bool:
        """Whether all is at hand; it is held on to, as its room elsewhere may be taken by what comes next."""
        for found in self._concerned(delivery):
            view = self._views.get(found) or self.resource.view_at_hand(found)
            if view is None:
                return False
            self._views[found] = view
        return True

    def _selected(
        self, delivery: Delivery[StoredObject], selects: Callable[[StoredObject], bool]
    ) -> Delivery[StoredObject] | None:
        """What a change is, once both states of the object can be shown; None if neither is meant."""
        kind, change = delivery
        held = [selects(self._view_of(found)) for found in self._concerned(delivery)]
        if kind is not EventType.MODIFIED:
            return delivery if held[0] else None
        match held:
            case [True, False]:
                return Delivery(EventType.ADDED, change)
            case [False, True]:
                return Delivery(EventType.DELETED, change)
        return delivery if held[0] else None

    def _view_of(self, found: StoredObject) -> StoredObject:
        return self._views.get(found) or self.resource.view(found)

    async def _convert(self, deliveries: Sequence[Delivery[StoredObject]]) -> None:
        """Have what is waiting converted. The same change is converted once for all who watch."""
        failure: ApiError | None = None
        try:
            objects = [found for each in deliveries for found in self._concerned(each)]
            self._views = dict(zip(objects, await self.resource.shown(objects), strict=True))
        except ApiError as error:
            failure = error
        except Exception:
            log.exception("an event of %s cannot be sent", self.resource.resource)
            failure = InternalError("Internal error occurred")
        self._showing = None
        if failure is None:
            self.on_event()
            return
        # Without these events the stream would have a hole: it must not go on.
        if self._stream is not None and self._is_live:
            self._stream.write(self._encoder.error(failure.status()))
        self.end()

    def _encoded(self, delivery: Delivery[StoredObject]) -> bytes:
        """The event as a chunk: made once for all streams that want it in the same form."""
        kind, change = delivery
        if not self._has_sent_event:
            # The first event of a table carries its columns; it is made for this stream alone.
            return chunk(self._encode(delivery))
        # Custom resources may be served otherwise from one moment to the next.
        served: object = self.resource.api_version
        if self.resource.keeping is not None:
            served = self.resource.token
        key = (kind, served, self._encoder.key)
        encoded = change.encodings.get(key)
        if encoded is None:
            encoded = change.encodings[key] = chunk(self._encode(delivery))
        return encoded

    def _encode(self, delivery: Delivery[StoredObject]) -> bytes:
        kind, change = delivery
        if kind is EventType.DELETED:
            # Shown as it was, at the revision of its going (rows M03, M06).
            assert change.previous is not None
            found = change.previous.value
            assert found is not None
            found.require_sound()
            found = self._view_of(found)
            return self._event(kind.value, found, found.at_revision(change.revision))
        found = change.version.value
        assert found is not None
        found.require_sound()
        found = self._view_of(found)
        return self._event(kind.value, found, found.tail)

    async def _wait_for_end(self, revision: Callable[[], int] | None) -> None:
        """Until the stream has to end; with bookmarks now and then, if `revision` tells theirs."""
        while True:
            now = self._clock()
            wakes_at = self._ends_at
            if revision is not None:
                last = self._ends_at - LAST_BOOKMARK_BEFORE_END_S
                wakes_at = min(now + BOOKMARK_INTERVAL_S, last if last > now else self._ends_at)
            try:
                async with asyncio.timeout_at(wakes_at):
                    await asyncio.shield(self._ended)
                return
            except TimeoutError:
                if self._clock() >= self._ends_at:
                    return
                if revision is not None:
                    self._send_bookmark(revision())

    def _send_bookmark(self, revision: int) -> None:
        """Say how far the stream has come, if everything before has been written."""
        watcher, stream = self._watcher, self._stream
        if watcher is None or stream is None or not stream.can_write:
            return
        if len(watcher) or self._unconverted:
            return
        if revision > watcher.after:
            stream.write(self._encoder.bookmark(revision, ends_initial_events=False))


def _object_of(delivery: Delivery[StoredObject]) -> StoredObject:
    """What a delivery shows. Raises CorruptObject."""
    kind, change = delivery
    version = change.previous if kind is EventType.DELETED else change.version
    assert version is not None
    assert version.value is not None
    version.value.require_sound()
    return version.value


class WatchStreams:
    """All watches that are open, so that they can be ended together."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        self.turns = Iteration()
        self._open: set[WatchStream] = set()
        self._is_closing = False
        self._withdrawn: WeakSet[ServedResource] = WeakSet()

    @contextmanager
    def open(self, stream: WatchStream) -> Iterator[None]:
        self._open.add(stream)
        self._metrics.watches += 1
        if self._is_closing or stream.resource in self._withdrawn:
            stream.end()
        try:
            yield
        finally:
            self._open.discard(stream)
            self._metrics.watches -= 1

    def end_all_of(self, resources: Collection[ServedResource]) -> None:
        """End the watches of resources that are served no more, or otherwise: their clients begin again.

        Those of them that are about to begin end at once.
        """
        self._withdrawn.update(resources)
        for stream in list(self._open):
            if stream.resource in resources:
                stream.end()

    def end_all(self) -> None:
        """End every watch cleanly, and those that begin from now on at once."""
        self._is_closing = True
        for stream in list(self._open):
            stream.end()
