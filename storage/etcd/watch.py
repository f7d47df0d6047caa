"""Turns etcd's watch stream into batches of whole revisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

from apiserver.storage.errors import RevisionCompacted, StorageError, StorageUnavailable
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.call_timeouts import TICK_S
from apiserver.storage.etcd.client import EtcdClient, WatchCall
from apiserver.storage.etcd.notes import NoteKeys
from apiserver.storage.etcd.version import EtcdVersion
from apiserver.storage.interface import NO_LEASE, Event, EventBatch, KeyRange
from apiserver.storage.keys import decoded, encoded
from apiserver.storage.resource_version import REVISION_MAX

# etcd responds to a request for progress in milliseconds; a watch that is opened again costs little.
SILENCE_MAX_S: Final = 0.7
# A connection may have to be made first, for which the channel has 2 s.
OPENING_SILENCE_MAX_S: Final = 3.0


class EtcdWatch:
    """A watch on a separate stream; see `storage.interface.Watch`.

    Cancelling the iteration ends the stream.

    version_and_endpoint: returns a member's release, which decides whether progress reports can be trusted to
        come after the events they cover, and the endpoint on which the watch is opened.
    notes: the keys of notes of transactions, whose values the other events at their revisions have as notes.
    write_progress_key: writes a key in the range, whose event proves the progress where reports cannot.
    """

    def __init__(
        self,
        client: EtcdClient,
        keys: KeyRange,
        after: int,
        *,
        notes: NoteKeys,
        version_and_endpoint: Callable[[], Awaitable[tuple[EtcdVersion, int]]],
        write_progress_key: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._keys = keys
        self._notes = notes
        self._reached = after
        self._version_and_endpoint = version_and_endpoint
        self._trusts_progress = False
        self._progress_write = write_progress_key
        self._call: WatchCall | None = None
        self._created = asyncio.Event()
        # When etcd was asked for what it has not sent yet, or the stream was opened; by the loop's clock.
        self._asked_at: float | None = None
        self._requested_at = 0.0  # when progress was last requested
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[EventBatch]:
        version, endpoint = await self._version_and_endpoint()
        self._trusts_progress = version.has_ordered_progress
        async with self._client.watch(endpoint) as call:
            self._call = call
            self._require_open()
            self._asked_at = asyncio.get_running_loop().time()
            await call.write(self._creation())
            async for response in _whole_responses(call):
                self._asked_at = None
                if response.canceled:
                    self._raise_canceled(response)
                elif response.created:
                    self._created.set()
                    yield EventBatch((), self._reached)
                elif (batch := self._batch(response)) is not None:
                    self._reached = batch.revision
                    yield batch
        raise StorageUnavailable("etcd ended the watch")

    def _creation(self) -> pb.WatchRequest:
        return pb.WatchRequest(
            create_request=pb.WatchCreateRequest(
                key=encoded(self._keys.start),
                range_end=encoded(self._keys.end),
                start_revision=min(self._reached + 1, REVISION_MAX),
                fragment=True,
            )
        )

    def _batch(self, response: pb.WatchResponse) -> EventBatch | None:
        if response.events:
            events = list(_decode(response.events, self._notes.folder))
            # The header has the store's revision at the time of sending; events before it may still come.
            return EventBatch(events, events[-1].mod_revision)
        if self._trusts_progress and response.header.revision > self._reached:
            return EventBatch((), response.header.revision)
        return None

    def _raise_canceled(self, response: pb.WatchResponse) -> None:
        if response.compact_revision:
            raise RevisionCompacted(requested=self._reached, oldest=response.compact_revision)
        raise StorageUnavailable(f"etcd canceled the watch: {response.cancel_reason or 'no reason given'}")

    async def request_progress(self) -> None:
        if self._call is not None:
            await self._require_response(self._call)
        try:
            if not self._trusts_progress:
                await self._progress_write()
            elif self._call is not None and self._created.is_set():
                await self._call.request_progress()
        except StorageError:
            self._asked_at = None
            raise
        finally:
            self._requested_at = asyncio.get_running_loop().time()

    async def _require_response(self, call: WatchCall) -> None:
        """End the stream if etcd has sent nothing for a while since it was asked.

        Its member hangs, and readers wait. The next stream is opened on an endpoint that responds.
        """
        now = asyncio.get_running_loop().time()
        # etcd may drop a request, and nobody repeats one whose reader has gone.
        if self._asked_at is None or now - self._requested_at > SILENCE_MAX_S:
            self._asked_at = now
        elif self._is_silent(call):
            # After a long turn of the event loop, what was sent before it is read first.
            await asyncio.sleep(TICK_S)
            if self._is_silent(call):
                call.give_up("etcd does not respond to the watch")

    def _is_silent(self, call: WatchCall) -> bool:
        """Whether etcd has sent nothing for too long, while somebody was waiting for it."""
        since = call.silent_since
        if self._asked_at is None or since is None:
            return False
        silence_s = asyncio.get_running_loop().time() - max(since, self._asked_at)
        return silence_s > (SILENCE_MAX_S if self._created.is_set() else OPENING_SILENCE_MAX_S)

    async def close(self) -> None:
        self._is_closed = True
        if self._call is not None:
            self._call.cancel()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageUnavailable("the watch is closed")


async def _whole_responses(call: WatchCall) -> AsyncIterator[pb.WatchResponse]:
    """Yields responses, with fragmented ones put together again."""
    whole: pb.WatchResponse | None = None
    while (response := await call.read()) is not None:
        if whole is None:
            whole = response
        else:
            whole.events.extend(response.events)
        if not response.fragment:
            yield whole
            whole = None


def _decode(events: Iterable[pb.WatchEvent], note_folder: bytes) -> Iterable[Event]:
    """Yields events, with their notes. note_folder: that of the keys of notes."""
    note, noted_revision = b"", 0
    for event in events:
        kv = event.kv
        if kv.key.startswith(note_folder):
            # It is the first write of its transaction.
            note, noted_revision = kv.value, kv.mod_revision
        noted = note if kv.mod_revision == noted_revision else b""
        key = decoded(kv.key)
        if event.type == pb.WatchEvent.DELETE:
            yield Event(key, None, 0, kv.mod_revision, NO_LEASE, noted)
        else:
            yield Event(key, kv.value, kv.create_revision, kv.mod_revision, kv.lease, noted)
