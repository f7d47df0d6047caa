"""Makes the profiles of this process: CPU time by stack, objects by type, tasks by coroutine, long turns.

None of them costs anything until it is asked for. A CPU profile charges each sample of a thread's stack with
the processor time that the thread has used since the sample before.

A timer of the process' CPU time interrupts the main thread, which runs the event loop, between two bytecodes.
Another thread could look at it only when it hands over the interpreter: when it waits, reads or writes, and
hardly ever where it computes. `ThreadStacks` samples other threads in this way; they compute long, or wait.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import CodeType, FrameType
from typing import Any, Final

from apiserver.load.collection_pause import CollectionPause
from apiserver.load.tracked_objects import tracked_sizes
from apiserver.metrics.event_loop import LongTurn
from apiserver.metrics.thread_stacks import ThreadStacks
from apiserver.storage.event_loop_turns import Turn

# As in Go.
SAMPLE_INTERVAL_S: Final = 0.01
# Reading the stacks of threads stops all of them, for longer the more there are. Idle ones are not worth it.
STACKS_READ_FROM_S_USED: Final = 0.001
# A pause of so many times what reading took limits the cost to a twentieth of a processor.
PAUSE_PER_STACKS_READ: Final = 20
# Different stacks in one profile. Further ones count together.
STACKS_MAX: Final = 10_000
TYPES_SHOWN: Final = 200
TASK_GROUPS_SHOWN: Final = 500
# Coroutines that wait for each other; longer chains are cut.
_AWAITS_MAX: Final = 100
_MAIN: Final = "MainThread"


async def cpu_profile(seconds: float, is_ended: threading.Event) -> str:
    """Returns the CPU time of each stack as collapsed stacks: THREAD;FUNCTION;FUNCTION MICROSECONDS.

    It takes that many seconds, or until `is_ended` is set, and is to be called in the main thread, once at a
    time. Where the system does not report the CPU time of single threads, other threads are charged with the
    time that has passed. Raises OSError.
    """
    used_by: dict[tuple[str, ...], float] = {}
    with _MainThreadSampler(used_by):
        try:
            others = await asyncio.to_thread(_sample_other_threads, seconds, is_ended)
        finally:
            is_ended.set()  # if it has been cancelled
    lines = [f"{';'.join(stack)} {used * 1e6:.0f}\n" for stack, used in (used_by | others).items()]
    return "".join(sorted(lines))


class _MainThreadSampler:
    """A context in which the main thread's stack is sampled. used_by: gets the CPU time of each stack."""

    def __init__(self, used_by: dict[tuple[str, ...], float]) -> None:
        self._used_by = used_by
        self._names: dict[CodeType, str] = {}
        self._last = 0.0

    def __enter__(self) -> None:
        self._last = time.thread_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.siginterrupt(signal.SIGPROF, False)  # System calls of other threads go on.
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_INTERVAL_S, SAMPLE_INTERVAL_S)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # Its default action ends the process, and one signal may still be on its way.
        signal.signal(signal.SIGPROF, signal.SIG_IGN)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        now, functions = time.thread_time(), []
        while frame is not None:
            code = frame.f_code
            name = self._names.get(code)
            if name is None:
                module = frame.f_globals.get("__name__", "?")
                name = self._names[code] = f"{module}:{code.co_qualname}".replace(";", ",").replace(" ", "_")
            functions.append(name)
            frame = frame.f_back
        _charge(self._used_by, (_MAIN, *reversed(functions)), now - self._last)
        self._last = now


def _sample_other_threads(seconds: float, is_ended: threading.Event) -> dict[tuple[str, ...], float]:
    """Returns the CPU time of each stack of the threads but the main one and this one."""
    stacks = ThreadStacks()
    try:
        sampler = OtherThreadsSampler(stacks.functions, _other_cpu_clocks)
        ends_at, is_last = time.monotonic() + seconds, False
        while not is_last:
            is_last = is_ended.wait(SAMPLE_INTERVAL_S) or time.monotonic() >= ends_at
            sampler.sample(is_last=is_last)
    finally:
        stacks.close()
    return sampler.used_by


class OtherThreadsSampler:
    """Charges the CPU time of threads to their stacks, which it reads only when that is worth its cost.

    read_stacks: returns the functions that each thread is in. read_clocks: returns the name of each thread,
    and the CPU time it has used. clock: seconds. own_cpu_clock: the CPU time of the calling thread.
    """

    def __init__(
        self,
        read_stacks: Callable[[], Mapping[int, Sequence[str]]],
        read_clocks: Callable[[], Mapping[int, tuple[str, float]]],
        clock: Callable[[], float] = time.monotonic,
        own_cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._read_stacks, self._read_clocks = read_stacks, read_clocks
        self._clock, self._own_cpu_clock = clock, own_cpu_clock
        self.used_by: dict[tuple[str, ...], float] = {}
        # The clock of each thread when it was last charged, or first seen.
        self._charged = {thread: used for thread, (_, used) in read_clocks().items()}
        self._pauses_until = clock()

    def sample(self, *, is_last: bool) -> None:
        """Charge the time since the sample before to what the threads do now, or leave it to the next one."""
        clocks = self._read_clocks()
        # Below zero after the end of a thread whose identifier another one has got.
        used = {
            thread: max(now - self._charged.setdefault(thread, now), 0.0)
            for thread, (_, now) in clocks.items()
        }
        is_paused = self._clock() < self._pauses_until and not is_last
        if is_paused or sum(used.values()) < STACKS_READ_FROM_S_USED:
            return
        began = self._own_cpu_clock()
        functions = self._read_stacks()
        self._pauses_until = self._clock() + PAUSE_PER_STACKS_READ * (self._own_cpu_clock() - began)
        for thread, (name, _) in clocks.items():
            if used[thread] > 0:
                _charge(self.used_by, (name, *functions.get(thread, ())), used[thread])
        self._charged = {thread: now for thread, (_, now) in clocks.items()}


def _charge(used_by: dict[tuple[str, ...], float], stack: tuple[str, ...], used_s: float) -> None:
    if stack not in used_by and len(used_by) >= STACKS_MAX:
        stack = (stack[0], "(other stacks)")
    used_by[stack] = used_by.get(stack, 0.0) + used_s


def _other_cpu_clocks() -> dict[int, tuple[str, float]]:
    """Returns the name of each thread, and the CPU time it has used, by its identifier.

    Not among them: the main thread, and the one that calls.
    """
    left_out = {threading.get_ident(), threading.main_thread().ident}
    return {
        # A semicolon separates functions, and a space precedes the time.
        thread.ident: (thread.name.replace(";", ",").replace(" ", "_"), _cpu_s(thread.native_id))
        for thread in threading.enumerate()
        if thread.ident is not None and thread.native_id is not None and thread.ident not in left_out
    }


def _cpu_s(thread: int) -> float:
    """Returns the CPU time of a thread of this process; elsewhere than on Linux, the time that has passed."""
    if sys.platform != "linux":
        return time.monotonic()
    try:
        # The clock's number is part of Linux' interface: the complement of the thread's, and CPUCLOCK_SCHED
        # of one thread. `time.pthread_getcpuclockid` crashes if the thread has just ended.
        return time.clock_gettime(~thread << 3 | 6)
    except OSError:
        return 0.0


def object_counts() -> str:
    """Returns the number of objects that the garbage collector knows of each type, and their own bytes.

    Not among them: text, bytes, numbers and what holds only these; and the objects that were there when the
    server became ready, which the collector leaves alone.
    """
    counts: Counter[type] = Counter()
    sizes: Counter[type] = Counter()
    with CollectionPause()():
        for generation in range(3):
            for kind, size in tracked_sizes(generation):
                counts[kind] += 1
                sizes[kind] += size
    summary = (
        f"# {counts.total()} objects of {len(counts)} types, {sizes.total()} bytes; "
        f"{gc.get_freeze_count()} objects from the start are not counted; "
        f"{sys.getallocatedblocks()} allocated blocks\n"
    )
    lines = [summary, f"{'objects':>10} {'bytes':>12} type\n"]
    for kind, count in sorted(counts.items(), key=lambda each: -sizes[each[0]])[:TYPES_SHOWN]:
        lines.append(f"{count:>10} {sizes[kind]:>12} {kind.__module__}.{kind.__qualname__}\n")
    return "".join(lines)


async def task_counts(loop: asyncio.AbstractEventLoop) -> str:
    """Returns the number of tasks of each coroutine that wait at the same place."""
    groups: Counter[str] = Counter()
    turn = Turn()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        if turn.is_over():
            await turn.next()
        groups[_waits_at(task.get_coro())] += 1
    lines = [f"# {len(tasks)} tasks\n", f"{'tasks':>10} coroutine\n"]
    lines += [f"{count:>10} {where}\n" for where, count in groups.most_common(TASK_GROUPS_SHOWN)]
    return "".join(lines)


def _waits_at(coroutine: Any) -> str:
    """Returns the name of a coroutine, and the place where the innermost one that it awaits is."""
    name, place = getattr(coroutine, "__qualname__", type(coroutine).__name__), ""
    for _ in range(_AWAITS_MAX):
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is None:
            break
        place = f" at {frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return f"{name}{place}"


def turns_text(turns: Iterable[LongTurn]) -> str:
    """Returns a line for each turn: its durations in milliseconds, when it ended, and what it did."""
    lines = [f"{'elapsed ms':>10} {'thread ms':>10} {'process ms':>10} {'ended':<24} operations\n"]
    for (wall, process_cpu, thread_cpu), ended_at, operations in turns:
        ended = datetime.fromtimestamp(ended_at, UTC).isoformat(timespec="milliseconds")[:23] + "Z"
        done = ", then ".join(operations) or "unknown operation"
        lines.append(
            f"{wall * 1e3:>10.1f} {thread_cpu * 1e3:>10.1f} {process_cpu * 1e3:>10.1f} {ended} {done}\n"
        )
    return "".join(lines)
