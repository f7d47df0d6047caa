"""An extension whose workers end again and again has a limited number of Events."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.extension_events import BURST, INTERVAL_S, ExtensionEvents
from apiserver.extensions.host.runner import WorkerEnd
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry


class Served:
    def find(self, *_: str) -> Any:
        return "services"


class Empty:
    async def get(self, *_: Any) -> Any:
        raise NotFound(GroupResource("", "services"), "kubernetes")


class Recorder:
    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def warn(self, *_: Any, reason: str, message: str) -> None:
        self.found.append((reason, message))

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_events_of_an_extension_are_limited() -> None:
    now, recorder = [100.0], Recorder()
    events = ExtensionEvents(
        cast(Registry, Empty()),
        cast(ServedTable, Served()),
        cast(EventRecorder, recorder),
        lambda: now[0],
    )
    running = asyncio.create_task(events.run())
    events.worker_ended("shop", WorkerEnd("it was ended by SIGSEGV", "", 0.0))
    for _ in range(BURST + 5):
        events.worker_ended("shop", WorkerEnd("it was ended by SIGSEGV", "", 0.1))
    events.worker_ended("other", WorkerEnd("it was ended by SIGKILL", "", 0.0))
    await asyncio.sleep(0.01)
    assert len(recorder.found) == BURST + 1
    ended = "it was ended by SIGSEGV"
    assert recorder.found[:2] == [
        (
            "ExtensionWorkerEnded",
            f"the worker of extension shop has ended once, the next one starts now: {ended}",
        ),
        ("BackOff", f"the worker of extension shop has ended 2 times, the next one starts in 0.1 s: {ended}"),
    ]
    now[0] += INTERVAL_S
    for _ in range(2):
        events.worker_ended("shop", WorkerEnd("it was ended by SIGSEGV", "", 30.0))
    await asyncio.sleep(0.01)
    assert [message[:47] for _, message in recorder.found[-1:]] == [
        "the worker of extension shop has ended 17 times"
    ]
    assert len(recorder.found) == BURST + 2
    running.cancel()
