"""Watch streams of what has to be converted first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from apiserver.endpoints import watch_stream
from apiserver.endpoints.watch_stream import Iteration, WatchStream
from apiserver.registry.stored_object import StoredObject
from storage.watch_cache import KeyVersion, Watcher
from storage.watch_cache.events import CacheEvent, Delivery

ENDED_WITHIN_S: Final = 5


class _Written:
    can_write = True

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def write(self, piece: Any) -> None:
        self.pieces.append(piece)

    def finish(self) -> None:
        self.pieces.append("end")


def test_a_damaged_value_behind_one_to_be_converted_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async def shown(objects: Sequence[StoredObject]) -> list[StoredObject]:
        return list(objects)

    async def run() -> None:
        written = _Written()
        monkeypatch.setattr(watch_stream, "Stream", lambda *_: written)
        resource: Any = SimpleNamespace(
            keeping=1, resource="things", view_at_hand=lambda _: None, shown=shown
        )
        encoder: Any = SimpleNamespace(stream_type="", error=lambda status: status["code"])
        loop = asyncio.get_running_loop()
        call: Any = None
        metrics: Any = SimpleNamespace(count_watch_events=lambda *_: None)
        ends_at = loop.time() + ENDED_WITHIN_S
        stream = WatchStream(call, encoder, resource, metrics, Iteration(), ends_at=ends_at, clock=loop.time)
        watcher = Watcher[StoredObject](after=0, predicate=None, on_ready=stream.on_event)
        for revision, head in ((1, b"{"), (2, b"")):
            found = StoredObject(f"/{revision}", head, b"")
            change = CacheEvent(KeyVersion(found.key, found, revision=revision, create_revision=revision))
            watcher.offer(Delivery(change.type, change))
        await stream.run(watcher, [], initial_bookmark=None, revision=lambda: 2, sends_bookmarks=False)
        assert written.pieces == [500, "end"]

    asyncio.run(run())
