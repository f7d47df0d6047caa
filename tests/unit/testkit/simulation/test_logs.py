"""Logs of simulated containers: what is written by now, and what of it is asked for.

Source: k8s.io/cri-client, pkg/logs; k8s.io/kubernetes, pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

import math
from typing import Any, Final

import pytest

from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.logs import (
    SECOND_NS,
    STEPS_MAX,
    ContainerRun,
    LogLine,
    LogReader,
    NoLog,
    PodLogOptions,
    VirtualClock,
    by_now,
    next_line_in_s,
    printed_lines,
    run_of,
    written_lines,
)
from apiserver.testkit.simulation.programs import STDERR, STDOUT, Pause, Program, ProgramEnvironment, Stdin
from apiserver.testkit.simulation.shell import start
from tests.unit.testkit.simulation.pods import NOW_S, pod

RUN: Final = ContainerRun(0, NOW_S)
LINES: Final = [LogLine(0.0, STDOUT, b"a\n"), LogLine(1.0, STDERR, b"b\n"), LogLine(2.0, STDOUT, b"c")]
LATER_S: Final = NOW_S + 60
T0: Final = timestamps.to_text(NOW_S)
T5: Final = timestamps.to_text(NOW_S + 5)


def read(options: PodLogOptions, now: float = LATER_S, run: ContainerRun = RUN) -> bytes:
    return b"".join(text for _, text in LogReader(options).read(LINES, run, now))


SELECTIONS: Final = {
    "all": (PodLogOptions(), b"a\nb\nc"),
    "the last line": (PodLogOptions(tail_lines=1), b"c"),
    "more lines than there are": (PodLogOptions(tail_lines=9), b"a\nb\nc"),
    "no line": (PodLogOptions(tail_lines=0), b""),
    "some bytes": (PodLogOptions(limit_bytes=3), b"a\nb"),
    "more bytes than there are": (PodLogOptions(limit_bytes=100), b"a\nb\nc"),
    "some bytes from the end": (PodLogOptions(tail_lines=2, limit_bytes=1), b"b"),
    "since a time": (PodLogOptions(since_ns=round((NOW_S + 1) * SECOND_NS)), b"b\nc"),
    "since the future": (PodLogOptions(since_ns=round((NOW_S + 9) * SECOND_NS)), b""),
    "the last of all, since a time": (
        PodLogOptions(tail_lines=3, since_ns=round((NOW_S + 2) * SECOND_NS)),
        b"c",
    ),
    "one stream": (PodLogOptions(streams=frozenset({STDOUT})), b"a\nc"),
    "bytes of one stream": (PodLogOptions(streams=frozenset({STDERR}), limit_bytes=1), b"b"),
    "with times": (
        PodLogOptions(timestamps=True),
        b"".join(
            (
                b"2023-11-14T22:13:20.000000000Z a\n",
                b"2023-11-14T22:13:21.000000001Z b\n",
                b"2023-11-14T22:13:22.000000002Z c",
            )
        ),
    ),
    "bytes of the times, too": (PodLogOptions(timestamps=True, limit_bytes=10), b"2023-11-14"),
}


@pytest.mark.parametrize(("options", "text"), SELECTIONS.values(), ids=SELECTIONS)
def test_what_is_asked_for(options: PodLogOptions, text: bytes) -> None:
    assert read(options) == text


# When, and until when the run goes on.
TIMES: Final = {
    "at the beginning": (NOW_S, math.inf, b"a\n"),
    "before it": (NOW_S - 1, math.inf, b""),
    "between": (NOW_S + 1.5, math.inf, b"a\nb\n"),
    "after its end": (LATER_S, NOW_S + 1, b"a\nb\n"),
}


@pytest.mark.parametrize(("now", "ended_s", "text"), TIMES.values(), ids=TIMES)
def test_what_is_written_by_now(now: float, ended_s: float, text: bytes) -> None:
    assert read(PodLogOptions(), now, ContainerRun(0, NOW_S, ended_s)) == text


def test_a_log_that_is_followed() -> None:
    reader = LogReader(PodLogOptions(follow=True, tail_lines=1, limit_bytes=3))
    found = [[text for _, text in reader.read(LINES, RUN, now)] for now in (NOW_S + 1, NOW_S + 1.5, LATER_S)]
    assert (found, reader.is_over) == ([[b"b\n"], [], [b"c"]], True)


def test_a_log_from_now_on() -> None:
    reader = LogReader(PodLogOptions(follow=True))
    reader.skip(LINES, RUN, NOW_S + 1)
    assert list(reader.read(LINES, RUN, LATER_S)) == [(STDOUT, b"c")]


NEXT: Final = {
    "the next line": (NOW_S + 0.5, math.inf, 0.5),
    "no line is left": (LATER_S, math.inf, None),
    "none is written any more": (NOW_S, NOW_S + 0.5, None),
}


@pytest.mark.parametrize(("now", "ended_s", "seconds"), NEXT.values(), ids=NEXT)
def test_when_the_next_line_is_written(now: float, ended_s: float, seconds: float | None) -> None:
    assert next_line_in_s(LINES, ContainerRun(0, NOW_S, ended_s), now) == seconds


def test_the_lines_of_a_stage() -> None:
    assert written_lines("a\n\rb\x0b\n", "c", 0.5) == [
        LogLine(0.0, STDOUT, b"a\n"),
        LogLine(0.0, STDERR, b"c"),
        LogLine(0.5, STDOUT, b"\rb\x0b\n"),
    ]


def test_the_lines_that_a_command_prints() -> None:
    clock = VirtualClock(NOW_S)
    script = "date +%s; echo -n a; sleep 2; echo b; cat; echo c >&2; date +%s; echo -n d"
    program = start(["sh", "-c", script], ProgramEnvironment({}, (), clock), Stdin())
    assert program is not None
    assert printed_lines(program, clock) == [
        LogLine(0.0, STDOUT, b"1700000000\n"),
        LogLine(2.0, STDOUT, b"ab\n"),
        LogLine(2.0, STDERR, b"c\n"),
        LogLine(2.0, STDOUT, b"1700000002\n"),
        LogLine(2.0, STDOUT, b"d"),
    ]


def test_a_command_that_prints_nothing_ends() -> None:
    def idle() -> Program:
        while True:
            yield Pause(1.0)

    clock = VirtualClock(NOW_S)
    assert printed_lines(idle(), clock) == []
    assert clock.now == NOW_S + STEPS_MAX


def test_no_date_is_later_than_the_last() -> None:
    clock = VirtualClock(NOW_S)
    program = start(["sh", "-c", "date +%Y"], ProgramEnvironment({}, (), clock), Stdin())
    assert program is not None
    clock.now = 1e12
    assert printed_lines(program, clock) == [LogLine(0.0, STDOUT, b"9999\n")]


# ---- which run

ENDED: Final = {"exitCode": 1, "startedAt": T0, "finishedAt": T5}


def with_status(listed: str = "containerStatuses", **status: Any) -> Document:
    found = pod()
    found["status"][listed] = [{"name": "c", "restartCount": 0, **status}]
    return found


RUNS: Final = {
    "it runs": (with_status(state={"running": {"startedAt": T0}}), False, ContainerRun(0, NOW_S)),
    "it has ended": (with_status(state={"terminated": ENDED}), False, ContainerRun(0, NOW_S, NOW_S + 5)),
    "it waits for its restart": (
        with_status(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ENDED}),
        False,
        ContainerRun(0, NOW_S, NOW_S + 5),
    ),
    "before that, the same": (
        with_status(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ENDED}),
        True,
        ContainerRun(0, NOW_S, NOW_S + 5),
    ),
    "before its restart": (
        with_status(state={"running": {"startedAt": T5}}, lastState={"terminated": ENDED}, restartCount=3),
        True,
        ContainerRun(2, NOW_S, NOW_S + 5),
    ),
    "an init container": (
        with_status("initContainerStatuses", state={"running": {"startedAt": T0}}),
        False,
        ContainerRun(0, NOW_S),
    ),
    "an ephemeral container": (
        with_status("ephemeralContainerStatuses", state={"running": {"startedAt": T0}}),
        False,
        ContainerRun(0, NOW_S),
    ),
    "somebody has written half of a status": (
        with_status(state={"terminated": {"exitCode": 0}}),
        False,
        ContainerRun(0, 0.0),
    ),
}


@pytest.mark.parametrize(("found", "previous", "run"), RUNS.values(), ids=RUNS)
def test_the_run_whose_log_it_is(found: Document, previous: bool, run: ContainerRun) -> None:
    assert run_of(found, "c", previous=previous) == run


NO_LOGS: Final = {
    "no status": (pod(), False, 'container "c" in pod "p" is not available'),
    "it is created": (
        with_status(state={"waiting": {"reason": "ContainerCreating"}}),
        False,
        'container "c" in pod "p" is waiting to start: ContainerCreating',
    ),
    "its image cannot be pulled": (
        with_status(state={"waiting": {"reason": "ErrImagePull"}}),
        False,
        'container "c" in pod "p" is waiting to start: image can\'t be pulled',
    ),
    "nor later": (
        with_status(state={"waiting": {"reason": "ImagePullBackOff"}}),
        False,
        'container "c" in pod "p" is waiting to start: trying and failing to pull image',
    ),
    "no state": (with_status(), False, 'container "c" in pod "p" is waiting to start - no logs yet'),
    "nothing before": (
        with_status(state={"running": {"startedAt": T0}}),
        True,
        'previous terminated container "c" in pod "p" not found',
    ),
}


@pytest.mark.parametrize(("found", "previous", "why"), NO_LOGS.values(), ids=NO_LOGS)
def test_there_is_no_log(found: Document, previous: bool, why: str) -> None:
    with pytest.raises(NoLog) as refused:
        run_of(found, "c", previous=previous)
    assert str(refused.value) == why


BY_NOW: Final = {
    "it goes on": (with_status(state={"running": {"startedAt": T0}}), math.inf),
    "it has ended": (with_status(state={"terminated": ENDED}), NOW_S + 5),
    "there is another one": (
        with_status(state={"running": {"startedAt": T5}}, lastState={"terminated": ENDED}, restartCount=1),
        NOW_S + 5,
    ),
    "there are many others": (
        with_status(state={"running": {"startedAt": T5}}, lastState={"terminated": ENDED}, restartCount=7),
        NOW_S,
    ),
    "nothing is known of it": (pod(), NOW_S),
}


@pytest.mark.parametrize(("found", "ended_s"), BY_NOW.values(), ids=BY_NOW)
def test_a_run_by_now(found: Document, ended_s: float) -> None:
    assert by_now(RUN, found, "c") == ContainerRun(0, NOW_S, ended_s)
