"""Runs tasks beside the requests of a server: each builder yields the tasks of its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple

from apiserver.endpoints.health import PostStartHook
from apiserver.metrics.work_queues import MeasuredQueue, WorkQueueMetrics

HAND_OVER_S: Final = 0.001


class BackgroundTask(NamedTuple):
    """Work that runs beside requests, until it ends or is cancelled.

    queues: its work queues, which are measured.
    hook: what it does once, to begin with, if the server is not ready before that.
    is_upkeep: it reads everything that is stored, and repairs it where needed.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    queues: Sequence[MeasuredQueue] = ()
    hook: PostStartHook | None = None
    is_upkeep: bool = False

    @classmethod
    def hooked(
        cls,
        hook: PostStartHook,
        run: Callable[[Callable[[], None]], Coroutine[Any, Any, None]],
        queues: Sequence[MeasuredQueue] = (),
        *,
        is_upkeep: bool = False,
    ) -> BackgroundTask:
        """Returns a task with the name of its hook. run: gets the function to call when the hook is done."""
        return cls(hook.name, lambda: run(hook.done), queues, hook, is_upkeep)


def start(
    group: asyncio.TaskGroup,
    tasks: Iterable[BackgroundTask],
    metrics: WorkQueueMetrics,
    later: asyncio.Event | None,
) -> list[asyncio.Task[None]]:
    """Start tasks, upkeep last. Returns the tasks, which run until they are cancelled.

    later: of a server that begins with another server's objects: set when its upkeep may begin.
    """
    tasks = sorted(tasks, key=lambda each: each.is_upkeep)
    for each in tasks:
        for queue in each.queues:
            metrics.add(queue)
    return [
        group.create_task(
            each.run() if later is None or not each.is_upkeep else _run_later(each, later), name=each.name
        )
        for each in tasks
    ]


async def _run_later(task: BackgroundTask, later: asyncio.Event) -> None:
    if task.hook is not None:
        task.hook.done()
    await later.wait()
    # A client that waits for the server, in another thread of this interpreter, continues first.
    await asyncio.sleep(HAND_OVER_S)
    await task.run()
