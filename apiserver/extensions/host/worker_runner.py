"""Keeps the worker process of an extension running, and decides what becomes of its calls.

`call_schedule` decides when calls are sent. The time of a call begins when it is sent. A call that is late is
over at once, and its function is asked to stop; if it does not, as a function that loops cannot, the worker
is ended. A worker says which function blocks it, as that may be another one, such as that of a watch.

When a worker ends, the call that has ended it fails, and the others are sent again, to a new worker. New
workers start at once, and later and later if they end again and again.

When its code changes, a worker with the new code replaces the one with the old code, and gets the calls that
were running. If the new code cannot be imported, the old worker stays.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from apiserver.controller_runtime.work_queue import Backoff
from apiserver.extensions.frames import frame
from apiserver.extensions.hooks import Hook, Kind, Mode
from apiserver.extensions.host.call_schedule import WAITING_MAX, CallSchedule
from apiserver.extensions.host.event_stream import EventStream, EventStreams
from apiserver.extensions.host.inline import load_inline
from apiserver.extensions.host.pending_calls import CallTimer, PendingCall
from apiserver.extensions.host.runner import (
    CannotLoad,
    ExtensionInfo,
    Failure,
    HookFailed,
    HookInfo,
    WorkerEnd,
)
from apiserver.extensions.host.stop_requests import StopRequests
from apiserver.extensions.host.worker_process import WorkerProcess, described, readable_description

log = logging.getLogger(__name__)

# How long a function that is late may take to stop before its worker is ended.
STOP_TIMEOUT_S: Final = 0.25
# How long a function that nobody waits for may go on, at most.
ABANDONED_MAX_S: Final = 1.0
# How long a call may wait for others, and for a new worker, beside its own time.
WAIT_MAX_S: Final = 2.0
# So many messages of a worker may belong to no call.
STRAYS_MAX: Final = 1_000
RESTART: Final = Backoff(base_s=0.1, max_s=30.0)
# A worker that has run for so long was healthy: the delays begin anew.
HEALTHY_S: Final = 60.0
_NOT_STARTED: Final = ExtensionInfo("", (), (), ())


class State(enum.Enum):
    """STARTING: the first worker, or the next one, has not started yet. READY: a worker takes calls, unless
    it has just ended. CLOSED: the server stops.
    """

    STARTING = enum.auto()
    READY = enum.auto()
    CLOSED = enum.auto()


class WorkerRunner:
    """Runs the functions of an extension in a worker process, which is replaced when it ends.

    spec: see `extensions.loading`. api: returns how an extension of a name reaches the server.
    on_end: called when a worker has ended.
    info: of the extension, once a worker has started.
    files: those of the extension's code, as far as they were imported when it was loaded.
    imported_after_ns: a time before the import, as `time.time_ns` returns it.
    check: called before new code with other functions takes over; raises CannotLoad to keep the old code.
    on_change: called when it has taken over.
    """

    def __init__(
        self,
        spec: str,
        api: Callable[[str], Mapping[str, Any]],
        on_end: Callable[[WorkerEnd], None],
        restart: Backoff = RESTART,
        wait_max_s: float = WAIT_MAX_S,
    ) -> None:
        self._spec, self._api, self._on_end, self._restart = spec, api, on_end, restart
        self.info = _NOT_STARTED
        # How long a call may wait: also for the longest function that has the worker for itself.
        self._wait_max_s = self._wait_min_s = wait_max_s
        self.functions: Sequence[Hook] = ()
        self._worker: WorkerProcess | None = None
        self._state = State.STARTING
        self._started_at = self._starts_at = 0.0
        self._ends = 0
        self._last_number = 0
        self._schedule = CallSchedule()
        self._stopping = StopRequests(self._not_stopped)
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams = EventStreams()
        self._restarting: asyncio.Task[None] | None = None
        # The function because of which the worker is being ended: it does not stop, or blocks others.
        self._killed_for: HookInfo | None = None
        # Messages of the worker that belong to no call.
        self._strays = 0
        self.files: Sequence[Path] = ()
        self.imported_after_ns = 0
        self.check: Callable[[ExtensionInfo], None] = lambda _: None
        self.on_change: Callable[[], None] = lambda: None
        self._reloading = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._timer = CallTimer(self._schedule.calls, self._end_late)

    @property
    def is_ready(self) -> bool:
        """Whether a worker takes calls."""
        return self._state is State.READY and self._worker is not None and self._worker.is_connected

    def _set_info(self, info: ExtensionInfo) -> None:
        self.info = info
        alone = (each.timeout_s for each in info.hooks if each.mode is Mode.ALONE)
        self._wait_max_s = max(self._wait_min_s, max(alone, default=0.0) + 2 * STOP_TIMEOUT_S)

    @property
    def pid(self) -> int | None:
        """The process ID of the worker, if there is one."""
        return None if self._worker is None else self._worker.pid

    async def start(self) -> None:
        """Start the first worker. Raises CannotLoad."""
        self._set_info(await self._start_worker())
        if any(each.inline for each in self.info.hooks):
            self.functions = await asyncio.to_thread(load_inline, self._spec, self.info)
        if self._worker is None or not self._worker.is_connected:
            raise CannotLoad("its worker has ended")
        self._state = State.READY

    async def reload(self, is_needed: Callable[[], bool] = lambda: True) -> None:
        """Replace the worker by one with the current code. Raises ValueError if that is not possible.

        Then the old worker stays, if there is one. is_needed: called once no other reload is running.
        """
        async with self._reloading:
            if is_needed():
                await self._reload()

    async def _reload(self) -> None:
        if self._state is not State.READY:  # The next worker has the current code: start it now.
            if self._restarting is not None:
                self._restarting.cancel()
            self._ends = 0
            restart = self._begin_restart(0.0)
            await asyncio.wait([restart])
            if not self.is_ready:
                raise ValueError("its worker cannot be started")
            return
        new = WorkerProcess(self._spec, self._receive, self._ended)
        try:
            first = await new.start()
            info = described(first)
            self._require_replaceable(info)
            if not new.is_connected:
                raise CannotLoad("its worker has ended")
        except (OSError, TimeoutError, CannotLoad) as error:
            await new.close()
            raise ValueError(str(error)) from None
        self._send_api(new, info.name)
        self._note_files(new, first)
        old, self._worker = self._worker, new
        self._streams.end_all()
        self.functions = ()  # They are of the old code.
        if self._restarting is not None:  # The old one has ended meanwhile.
            self._restarting.cancel()
        self._state = State.READY
        self._started_at, self._ends = self._loop.time(), 0
        self._killed_for, self._strays = None, 0
        self._take(info)
        self._send_again()
        if old is not None:
            await old.close()

    def _require_replaceable(self, info: ExtensionInfo) -> None:
        """Raise CannotLoad for code that cannot take over while the server runs."""
        with readable_description():
            if fixed := info.fixed_changes(self.info):
                verb = "has" if len(fixed) == 1 else "have"
                raise CannotLoad(f"{', '.join(fixed)} {verb} changed: restart the server")
            if info != self.info:
                self.check(info)

    def _take(self, info: ExtensionInfo) -> None:
        """Use the functions of new code, also for the calls that have begun or wait."""
        old = self.info
        if info == old:
            return
        self._set_info(info)
        for each in self._schedule.calls():
            hook = info.counterpart(old, each.hook)
            if hook is None:
                each.fail(f"{each.hook} has been removed by a reload", Failure.NOT_RUNNING)
            else:
                each.hook = hook
        self.on_change()

    def _send_again(self) -> None:
        """Send the calls that were running to a new worker."""
        self._stopping.forget()
        for each in self._schedule.repeat_running():
            self._timer.limit(each, self._wait_max_s)
        self._send_waiting()

    async def close(self) -> None:
        self._state = State.CLOSED
        for task in self._tasks:
            task.cancel()
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.wait([self._restarting])
        if self._worker is not None:
            await self._worker.close()
        self._streams.end_all()
        for each in self._schedule.calls():
            each.fail("the server stops", Failure.NOT_RUNNING)
        self._stopping.forget()
        self._timer.close()

    # ---- calls

    def call(
        self, hook: HookInfo, call: bytes, timeout_s: float | None = None
    ) -> Coroutine[Any, Any, Mapping[str, Any]]:
        """Returns the result of a hook, as `Runner.call` says. The call is sent before that is awaited."""
        pending = self._pending(hook, call, timeout_s)
        self._begin(pending)
        return self._result(pending)

    async def watch(self, hook: HookInfo, call: bytes, timeout_s: float | None = None) -> EventStream:
        """Returns the events of a hook, as `Runner.watch` says."""
        pending = self._pending(hook, call, timeout_s)
        pending.stream = stream = EventStream(
            partial(self._events_read, pending.number), partial(self._stop_stream, pending.number)
        )
        try:
            self._begin(pending)
            await self._result(pending)
        except BaseException:
            stream.close()
            raise
        return stream

    def _pending(self, hook: HookInfo, call: bytes, timeout_s: float | None) -> PendingCall:
        """Returns a new call. Raises HookFailed if the worker starts too late for it."""
        if self._state is not State.READY:
            self._require_start_in_time(hook)
        timeout_s = hook.timeout_s if timeout_s is None else min(timeout_s, hook.timeout_s)
        self._last_number += 1
        return PendingCall(self._last_number, hook, call, timeout_s, self._loop)

    def _require_start_in_time(self, hook: HookInfo) -> None:
        """Raise HookFailed if no call waits so long for the next worker."""
        delay_s = self._starts_at - self._loop.time()
        if delay_s > self._wait_max_s:
            raise HookFailed(
                f"{hook} cannot be called: the worker has ended {self._ends} times, and starts again in "
                f"{delay_s:.0f} s",
                Failure.NOT_RUNNING,
            )

    def _begin(self, pending: PendingCall) -> None:
        """Send a call, or let it wait. Raises HookFailed if too many do."""
        schedule = self._schedule
        if self.is_ready and schedule.is_free:
            self._send(pending)
            return
        if schedule.is_full:
            why = f"{pending.hook} cannot be called: {WAITING_MAX} calls wait"
            raise HookFailed(why, Failure.NOT_RUNNING)
        schedule.wait(pending)
        self._timer.limit(pending, self._wait_max_s)
        self._send_waiting()

    async def _result(self, pending: PendingCall) -> Mapping[str, Any]:
        try:
            return await pending.future
        finally:
            if pending.number in self._schedule.running:  # The caller has been cancelled.
                self._stop(pending)

    def _send_waiting(self) -> None:
        """Send the calls that can run now."""
        while self.is_ready and (pending := self._schedule.next()) is not None:
            self._send(pending)

    def _send(self, pending: PendingCall) -> None:
        assert self._worker is not None
        # First, as the worker runs while the rest is done here.
        self._worker.send(pending.encoded())
        self._schedule.begin(pending)
        pending.began_at = self._timer.limit(pending, pending.timeout_s)

    def _end_late(self, pending: PendingCall) -> None:
        """End a call that has waited, or run, for too long."""
        if pending.number in self._schedule.running:
            self._late(pending)
        else:
            failure = Failure.TIMEOUT if self._state is State.READY else Failure.NOT_RUNNING
            pending.fail(f"{pending.hook} could not begin within {self._wait_max_s:g} s", failure)

    def _late(self, pending: PendingCall) -> None:
        if len(self._streams) and self._worker is not None:
            # It may be late because a function for a watch does not let it run.
            pending.late_at = math.inf
            self._start_task(self._end_late_beside_watches(self._worker, pending))
        else:
            self._fail_late(pending)

    async def _end_late_beside_watches(self, worker: WorkerProcess, pending: PendingCall) -> None:
        blocking = self._streams.hook_of(await worker.running_call())
        # Otherwise it has an answer now, or another worker.
        if worker is self._worker and pending.number in self._schedule.running:
            self._fail_late(pending, blocking)

    def _fail_late(self, pending: PendingCall, blocking: HookInfo | None = None) -> None:
        """End a call that is late. blocking: the function for a watch because of which it is."""
        hook, time_s = pending.hook, f"{pending.timeout_s:g} s"
        if blocking is None:
            pending.fail(f"{hook} has not returned within {time_s}", Failure.TIMEOUT)
        else:
            why = f"{hook} could not run within {time_s}: {blocking} blocks the worker"
            pending.fail(why, Failure.NOT_RUNNING)
        self._stop(pending)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(task := self._loop.create_task(work))
        task.add_done_callback(self._tasks.discard)

    def _stop(self, pending: PendingCall) -> None:
        """Ask the function of a call that is over to stop, and end the worker if it does not.

        The function has its time for that, if it is not long: clients that go, or have less time, end no
        worker, and no other call waits in vain.
        """
        remaining_s = max(0.0, pending.began_at + pending.hook.timeout_s - self._loop.time())
        timeout_s = min(remaining_s, ABANDONED_MAX_S) + STOP_TIMEOUT_S
        self._stopping.ask(self._worker, pending.number, pending.hook, timeout_s)

    def _not_stopped(self, worker: WorkerProcess, number: int, hook: HookInfo) -> None:
        self._start_task(self._end_for(worker, number, hook))

    async def _end_for(self, worker: WorkerProcess, number: int, hook: HookInfo) -> None:
        """End the worker for a function that has not stopped, or for the one that keeps it from stopping."""
        running = await worker.running_call() if self.info.has_event_loop else 0
        if worker is not self._worker or number not in self._stopping:
            return
        call = self._schedule.running.get(running)
        blocking = self._streams.hook_of(running) if call is None else call.hook
        is_other = blocking is not None and running != number
        self._killed_for = blocking or hook
        worker.kill(f"{blocking} blocks it" if is_other else f"{hook} has not stopped")

    # ---- messages of the worker

    def _receive(self, worker: WorkerProcess, message: Mapping[str, Any]) -> None:
        if worker is not self._worker:
            return  # It has been replaced.
        if (stream := message.get("stream")) is not None:
            self._receive_event(worker, stream, message)
            return
        number = message.get("id")
        pending = self._schedule.end(number) if isinstance(number, int) else None
        if pending is None:
            self._note_stray(worker)
            return
        self._stopping.stopped(pending.number)
        if pending.stream is not None and "result" in message:
            self._streams.begin(pending.number, pending.hook, pending.stream)
            if pending.is_over:
                self._stop_stream(pending.number)
        if not pending.future.done():
            self._conclude(pending, message)
        if self._schedule.has_waiting:
            self._send_waiting()

    def _conclude(self, pending: PendingCall, message: Mapping[str, Any]) -> None:
        pending.is_suspect = False
        if isinstance(result := message.get("result"), dict):
            pending.future.set_result(result)
        elif isinstance(error := message.get("error"), dict):
            pending.future.set_exception(HookFailed.of(pending.hook, error))
        else:
            pending.fail(f"{pending.hook} has no result", Failure.ERROR)

    def _note_stray(self, worker: WorkerProcess) -> None:
        """Count a message that belongs to no call: a function has written to the socket."""
        self._strays += 1
        if self._strays > STRAYS_MAX:
            worker.kill("it has sent too many messages that belong to no call")

    # ---- watches

    @property
    def streams_open(self) -> int:
        return len(self._streams) + self._schedule.streams_beginning

    def _receive_event(self, worker: WorkerProcess, number: Any, message: Mapping[str, Any]) -> None:
        hook = self._streams.hook_of(number)
        if hook is None:
            self._note_stray(worker)
        elif "event" in message:
            if not self._streams.receive(number, message["event"], worker.message_bytes):
                self._killed_for = hook
                worker.kill(f"{hook} has sent more events than it may")
        else:
            self._stopping.stopped(number)
            self._streams.end(number, message.get("end"))

    def _events_read(self, number: int, count: int) -> None:
        if self._streams.hook_of(number) is not None and self.is_ready and self._worker is not None:
            self._worker.send(frame({"read": number, "events": count}))

    def _stop_stream(self, number: int) -> None:
        """Ask a function to yield no more, and end the worker if it does not stop.

        Others that have the worker for themselves may keep it from stopping for a while.
        """
        if (hook := self._streams.hook_of(number)) is not None:
            self._stopping.ask(self._worker, number, hook, self._wait_max_s)

    # ---- the end of a worker, and the next one

    def _ended(self, worker: WorkerProcess, why: str) -> None:
        if worker is not self._worker:
            return  # It has been replaced, or was not used.
        self._worker = None
        self._streams.end_all()
        if self._state is not State.READY:
            return  # The caller of `start` sees that.
        self._state = State.STARTING
        killed_for = self._killed_for
        hook = self._decide_calls(why, killed_for)
        if self._loop.time() - self._started_at > HEALTHY_S:
            self._ends = 0
        # A late call has taken its time already: a delay would take that of all others. A function for a
        # watch may do the same again as soon as its client begins again.
        counts = killed_for is None or killed_for.kind is Kind.WATCH
        delay_s = self._restart.delay_s(max(0, self._ends - 1)) if self._ends and counts else 0.0
        self._begin_restart(delay_s, counts=counts)
        reason = why if hook is None or hook is killed_for else f"{hook} ended it: {why}"
        self._on_end(WorkerEnd(reason, "" if hook is None else hook.name, delay_s))

    def _decide_calls(self, why: str, killed_for: HookInfo | None) -> HookInfo | None:
        """Decide which of the calls that were running fails, and which are sent again.

        killed_for: the function because of which the worker was ended, whose call is over already. Returns
        the one that has ended the worker, if it is known.
        """
        self._stopping.forget()
        after = self._schedule.worker_ended(is_known=killed_for is not None)
        for each in after.failed:
            each.fail(f"{each.hook} has ended its worker: {why}", Failure.ENDED)
        for each in after.repeated:
            self._timer.limit(each, self._wait_max_s)
        is_alone = len(after.failed) == 1 and not after.repeated
        return after.failed[0].hook if is_alone else killed_for

    def _begin_restart(self, delay_s: float, *, counts: bool = True) -> asyncio.Task[None]:
        """Start a worker after a delay. counts: whether the end of the last one counts for later delays."""
        self._ends += counts
        self._starts_at = self._loop.time() + delay_s
        self._restarting = restart = self._loop.create_task(self._start_again(delay_s))
        return restart

    async def _start_again(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            info = await self._start_worker()
            try:
                self._require_replaceable(info)
            except CannotLoad:
                worker, self._worker = self._worker, None
                if worker is not None:
                    await worker.close()
                raise
        except CannotLoad as error:
            log.error("extension %s cannot be started again: %s", self.info.name, error)
            self._begin_restart(self._restart.delay_s(self._ends - 1))
            return
        self._take(info)
        self._state = State.READY
        self._send_waiting()

    async def _start_worker(self) -> ExtensionInfo:
        """Start a worker. Returns the extension that it runs. Raises CannotLoad."""
        self._worker = worker = WorkerProcess(self._spec, self._receive, self._ended)
        self._started_at = self._loop.time()
        self._killed_for, self._strays = None, 0
        try:
            first = await worker.start()
        except (OSError, TimeoutError) as error:
            self._worker = None
            raise CannotLoad(str(error) or "its module was not imported in time") from None
        try:
            info = described(first)
        except CannotLoad:
            await worker.close()
            raise
        self._note_files(worker, first)
        self._send_api(worker, info.name)
        return info

    def _note_files(self, worker: WorkerProcess, first: Mapping[str, Any]) -> None:
        """Note the files in the first message of a worker."""
        if isinstance(files := first.get("files"), list):
            self.files, self.imported_after_ns = [Path(str(each)) for each in files], worker.made_at_ns

    def update_api(self) -> None:
        """Tell the worker how it reaches the server, after that has changed."""
        if self._state is State.READY and self._worker is not None:
            self._send_api(self._worker, self.info.name)

    def _send_api(self, worker: WorkerProcess, name: str) -> None:
        worker.send(frame({"api": self._api(name)}))
