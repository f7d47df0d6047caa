"""Turns etcd's watch stream into batches of whole revisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from apiserver.storage.errors import RevisionCompacted, StorageUnavailable
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.client import EtcdClient, WatchCall
from apiserver.storage.etcd.version import EtcdVersion
from apiserver.storage.interface import NO_LEASE, Event, EventBatch, KeyRange
from apiserver.storage.keys import decoded, encoded
from apiserver.storage.resource_version import REVISION_MAX


class EtcdWatch:
    """A watch on a separate stream; see `storage.interface.Watch`.

    Cancelling the iteration ends the stream: gRPC cannot take a read back.

    version: returns the server's release, which decides whether progress reports can be trusted to come after
        the events they cover.
    write_progress_key: writes a key in the range, whose event proves the progress where reports cannot.
    """

    def __init__(
        self,
        client: EtcdClient,
        keys: KeyRange,
        after: int,
        *,
        version: Callable[[], Awaitable[EtcdVersion]],
        write_progress_key: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._keys = keys
        self._reached = after
        self._version = version
        self._trusts_progress = False
        self._progress_write = write_progress_key
        self._call: WatchCall | None = None
        self._opening: asyncio.Future[None] | None = None
        self._created = asyncio.Event()
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[EventBatch]:
        self._trusts_progress = (await self._version()).has_ordered_progress
        async with self._client.watch() as call:
            self._call = call
            try:
                self._require_open()
                # A task, so that `close` can end it: cancelling a call that is still connecting does not.
                self._opening = asyncio.ensure_future(call.write(self._creation()))
                await self._opening
                async for response in _whole_responses(call):
                    if response.canceled:
                        self._raise_canceled(response)
                    elif response.created:
                        self._created.set()
                        yield EventBatch((), self._reached)
                    elif (batch := self._batch(response)) is not None:
                        self._reached = batch.revision
                        yield batch
            except asyncio.CancelledError:
                # `close` cancels the call, which also raises CancelledError here, although the task was not
                # cancelled.
                task = asyncio.current_task()
                if task is None or not task.cancelling():
                    self._require_open()
                raise
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
            events = list(_decode(response.events))
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
        if not self._trusts_progress:
            await self._progress_write()
        elif self._call is not None and self._created.is_set():
            await self._call.write(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))

    async def close(self) -> None:
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
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


def _decode(events: Iterable[pb.WatchEvent]) -> Iterable[Event]:
    for event in events:
        kv = event.kv
        key = decoded(kv.key)
        if event.type == pb.WatchEvent.DELETE:
            yield Event(key, None, 0, kv.mod_revision, NO_LEASE)
        else:
            yield Event(key, kv.value, kv.create_revision, kv.mod_revision, kv.lease)
