"""The loop of all controllers: take a key from the queue, reconcile it, retry it if that failed.

Source of the idea: kubernetes-sigs/controller-runtime, pkg/internal/controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from apiserver.controller_runtime.informer import Informer
from apiserver.controller_runtime.undone_writes import UndoneWrites
from apiserver.controller_runtime.work_queue import ShutDown, WorkQueue
from apiserver.meta.errors import ApiError
from apiserver.metrics.work_queues import MeasuredQueue
from apiserver.storage.errors import StorageError

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


class Runnable(Protocol):
    """A controller that the server runs, and whose metrics it shows."""

    @property
    def queue(self) -> MeasuredQueue: ...

    async def run(self) -> None: ...


class ReconcileFailed(Exception):
    """A key could not be reconciled. The message says why; it is logged without a traceback."""


class Requeue(NamedTuple):
    """The key has to be reconciled again.

    after_s: when; None: with back-off. cooldown_s: the minimum delay, whatever changes.
    """

    after_s: float | None = None
    cooldown_s: float = 0.0


class Cooldown(NamedTuple):
    """The key is done, and must not be reconciled for some seconds, whatever changes."""

    cooldown_s: float


class DriftCorrected(NamedTuple):
    """The object had to be corrected by a write. content: identifies the desired state."""

    content: Hashable


Outcome: TypeAlias = Requeue | Cooldown | DriftCorrected | None


class Controller(Generic[K]):
    """Reconciles the keys in a queue.

    reconcile: reconciles one key, never concurrently for the same key. It returns None if nothing is left to
        do. Its errors are logged, and the key is retried with back-off, also if something that it waits for
        was cancelled. If it has to repeat a write, another client has undone it; `UndoneWrites` decides when
        it may do so again.
    workers: how many keys are reconciled concurrently. A worker is started once all others have been busy.
    failure_cooldown_s: for how long a failed key is not reconciled, whatever changes, so that frequent
        changes do not repeat a costly failure all the time.
    informers: run together with the workers; their handlers add keys to the queue.
    """

    def __init__(
        self,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Outcome]],
        *,
        workers: int = 1,
        informers: Sequence[Informer] = (),
        failure_cooldown_s: float = 0.0,
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._informers = informers
        self._failure_cooldown_s = failure_cooldown_s
        self._undone: UndoneWrites[K] = UndoneWrites(queue)
        self._working: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Reconcile until cancelled, or until the queue is shut down."""
        name = self._queue.name
        try:
            async with asyncio.TaskGroup() as tasks:
                informers = [tasks.create_task(each.run(), name=name) for each in self._informers]
                self._start_worker(tasks)
                while self._working:
                    await asyncio.wait(self._working)
                for informer in informers:
                    informer.cancel()
        finally:
            self._queue.shut_down()

    def _start_worker(self, tasks: asyncio.TaskGroup) -> None:
        """Start another worker if there may be more, as most controllers need only one that waits."""
        worker = tasks.create_task(self._work(tasks), name=self._queue.name)
        self._working.add(worker)
        worker.add_done_callback(self._working.discard)

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            try:
                key = await self._queue.get()
            except ShutDown:
                return
            if self._queue.processing == len(self._working) < self._workers:
                self._start_worker(tasks)
            cooldown_s = self._failure_cooldown_s
            try:
                cooldown_s = self._conclude(key, await self._reconcile(key))
            except (ApiError, StorageError, ReconcileFailed) as error:
                self._retry(key, error, is_expected=True)
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                # What it has waited for was cancelled: a task, or a future, that is not the worker.
                self._retry(key, error, is_expected=False)
            except Exception as error:  # An object that breaks us must not stop the others, or the server.
                self._retry(key, error, is_expected=False)
            finally:
                self._queue.done(key, cooldown_s=cooldown_s)

    def _conclude(self, key: K, outcome: Outcome) -> float:
        """Returns how long the key has to cool down, in seconds."""
        if isinstance(outcome, Requeue) and outcome.after_s is None:
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)
        if isinstance(outcome, Requeue) and outcome.after_s is not None:
            self._queue.add_after(key, outcome.after_s)
        if isinstance(outcome, DriftCorrected):
            return self._undone.cooldown_s(key, outcome.content)
        return 0.0 if outcome is None else outcome.cooldown_s

    def _retry(self, key: K, error: BaseException, *, is_expected: bool) -> None:
        # Changes of the object may bring it back sooner; it is logged once for each delay.
        is_logged = not self._queue.is_delayed(key)
        delay_s = self._queue.add_rate_limited(key)
        if is_logged:
            log.warning(
                "%s: cannot reconcile %s, retrying in %.3g s: %s",
                self._queue.name,
                key,
                delay_s,
                error if str(error) else type(error).__name__,
                exc_info=None if is_expected else error,
            )


def is_being_cancelled() -> bool:
    """Returns whether the running task itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
