"""The logs of simulated containers: the output of a run so far, and the part that a request selects. Pure.

A stage has the text of a log, and how long the container waits from line to line. Without one, the log is the
output of the container's command, if that is understood.
Source of the selection: k8s.io/cri-client, pkg/logs/logs.go; of the refusals: k8s.io/kubernetes,
pkg/kubelet/kubelet_pods.go, validateContainerLogStatus.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from apiserver.golang.quoting import go_quote
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.programs import STDERR, STDOUT, Output, Pause, Program, ReadInput

# What a command has printed that is not in the table prints no more than it is long.
PRINTED_BYTES_MAX: Final = 1024 * 1024
# A log is made anew for each request.
LINES_MAX: Final = 10_000
# Of a command, whose steps need not write anything.
STEPS_MAX: Final = 50_000
SECOND_NS: Final = 1_000_000_000
_NOT_STARTED: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class NoLog(Exception):
    """A container has no log now; the message is a kubelet's."""


class ContainerRun(NamedTuple):
    """A run of a container. number: that of earlier runs. began_s, ended_s: seconds since 1970."""

    number: int
    began_s: float
    ended_s: float = math.inf


class LogLine(NamedTuple):
    """A line of a log. offset_s: when it is written, in seconds from the beginning of the run."""

    offset_s: float
    stream: int
    text: bytes


class PodLogOptions(NamedTuple):
    """The requested part of a log. since_ns: nanoseconds since 1970; None: all."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_ns: int = 0
    limit_bytes: int | None = None
    streams: frozenset[int] = frozenset({STDOUT, STDERR})


def run_of(pod: Document, container: str, *, previous: bool = False) -> ContainerRun:
    """Returns the run of a container whose log is requested. Raises NoLog."""
    name = pod["metadata"]["name"]
    status = status_of(pod, container)
    what = f"container {go_quote(container)} in pod {go_quote(name)}"
    if status is None:
        raise NoLog(f"{what} is not available")
    restarts = status.get("restartCount") or 0
    state = status.get("state") or {}
    running, terminated, waiting = (state.get(kind) for kind in ("running", "terminated", "waiting"))
    last = (status.get("lastState") or {}).get("terminated")
    if previous:
        if last is None:
            raise NoLog(f"previous terminated {what} not found")
        return _ended(last, restarts - (waiting is None))
    if running is not None:
        return ContainerRun(restarts, _seconds(running.get("startedAt")))
    if terminated is not None:
        return _ended(terminated, restarts)
    if last is not None:
        return _ended(last, restarts)
    if waiting is not None:
        reason = waiting.get("reason") or ""
        raise NoLog(f"{what} is waiting to start: {_NOT_STARTED.get(reason, reason)}")
    raise NoLog(f"{what} is waiting to start - no logs yet")


def by_now(run: ContainerRun, pod: Document, container: str) -> ContainerRun:
    """Returns the current state of a run, which may have ended. pod: the current one."""
    for previous in (False, True):
        with suppress(NoLog):
            found = run_of(pod, container, previous=previous)
            if found.number == run.number:
                return found
    return run._replace(ended_s=run.began_s)


def status_of(pod: Document, container: str) -> Document | None:
    status = pod.get("status") or {}
    listed = (
        each
        for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for each in status.get(kind) or ()
    )
    return next((each for each in listed if each.get("name") == container), None)


def _ended(terminated: Document, number: int) -> ContainerRun:
    began_s, ended_s = _seconds(terminated.get("startedAt")), _seconds(terminated.get("finishedAt"), math.inf)
    return ContainerRun(max(number, 0), began_s, ended_s)


def _seconds(text: str | None, otherwise: float = 0.0) -> float:
    found = timestamps.from_text(text or "")
    return otherwise if found is None else found


# ---- what is written


def written_lines(stdout: str, stderr: str, interval_s: float) -> list[LogLine]:
    """Returns the lines of a log in a stage."""
    found = [
        LogLine(number * interval_s, stream, line)
        for stream, text in ((STDOUT, stdout), (STDERR, stderr))
        for number, line in enumerate(_split(text.encode("utf-8", "surrogatepass")))
    ]
    return sorted(found, key=lambda line: line.offset_s)


def _split(text: bytes) -> list[bytes]:
    """Returns the lines of a text, with their ends; the last one may have none."""
    *lines, last = text.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


class VirtualClock:
    """The clock of a program that runs in no time; pauses advance it. now: seconds since 1970."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def printed_lines(program: Program, clock: VirtualClock) -> list[LogLine]:
    """Returns everything that a program prints with empty input. clock: the program's."""
    began_s, printed = clock.now, 0
    found: list[LogLine] = []
    pending: dict[int, bytes] = {}
    try:
        step = next(program)
        for _ in range(STEPS_MAX):
            if printed >= PRINTED_BYTES_MAX or len(found) >= LINES_MAX:
                break
            match step:
                case Output(stream, data):
                    printed += len(data)
                    whole, end, rest = (pending.pop(stream, b"") + data).rpartition(b"\n")
                    found += (LogLine(clock.now - began_s, stream, line) for line in _split(whole + end))
                    if rest:
                        pending[stream] = rest
                case Pause(seconds):
                    clock.now += seconds
                case ReadInput():
                    pass
            step = program.send(b"")
    except StopIteration:
        pass
    finally:
        program.close()
    return found + [LogLine(clock.now - began_s, stream, rest) for stream, rest in pending.items()]


# ---- what is asked for


class LogReader:
    """Reads the requested part of a run's log. is_over: whether nothing more will follow.

    Its methods take the lines of the run, whose earlier lines never change, the current run, and the time, in
    seconds since 1970.
    """

    def __init__(self, options: PodLogOptions) -> None:
        self._options = options
        self._at: int | None = None  # of the lines
        self._left = options.limit_bytes
        self.is_over = self._left == 0

    def skip(self, lines: Sequence[LogLine], run: ContainerRun, now: float) -> None:
        """Skip the lines that are written by now."""
        self._at = _written(lines, run, now)

    def read(self, lines: Sequence[LogLine], run: ContainerRun, now: float) -> Iterator[tuple[int, bytes]]:
        """Yields the lines written since the last call, with their streams."""
        end = _written(lines, run, now)
        tail = self._options.tail_lines
        begin = self._at if self._at is not None else max(0, end - tail) if tail is not None else 0
        self._at = max(begin, end)
        began_ns = round(run.began_s * SECOND_NS)
        for number in range(begin, end):
            if self.is_over:
                return
            line = lines[number]
            # No two lines have the same time.
            time_ns = began_ns + round(line.offset_s * SECOND_NS) + number
            if time_ns < self._options.since_ns or line.stream not in self._options.streams:
                continue
            text = line.text
            if self._options.timestamps:
                text = _nanosecond_text(time_ns).encode() + b" " + text
            if self._left is not None:
                text = text[: self._left]
                self._left -= len(text)
                self.is_over = not self._left
            yield line.stream, text


def next_line_in_s(lines: Sequence[LogLine], run: ContainerRun, now: float) -> float | None:
    """Returns in how many seconds the next line is written; None if there are no more."""
    end = _written(lines, run, now)
    if end == len(lines) or run.began_s + lines[end].offset_s > run.ended_s:
        return None
    return max(0.0, run.began_s + lines[end].offset_s - now)


def _written(lines: Sequence[LogLine], run: ContainerRun, now: float) -> int:
    """Returns how many lines are written by now."""
    until_s = min(now, run.ended_s) - run.began_s
    return bisect_right(lines, until_s, key=lambda line: line.offset_s)


def _nanosecond_text(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
