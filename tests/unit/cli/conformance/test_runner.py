"""Conversations run side by side, each in its time, and clean up when they are interrupted."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest

from apiserver.cli.conformance.conversations import Conversation
from apiserver.cli.conformance.endpoint import CLEANUP_WITHIN_S, Limits
from apiserver.cli.conformance.results import Outcome, Result
from apiserver.cli.conformance.runner import DETAIL_LENGTH_MAX, _next, replay_all
from apiserver.cli.subcommand import Interrupted, interruptible
from tests.support.eventually import WITHIN_S, until

CONVERSATIONS: Final = [Conversation(f"area/{number}", {"steps": []}) for number in range(6)]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """What no conversation should wait for."""
    event = threading.Event()
    yield event
    event.set()


def test_no_more_than_jobs_run_at_a_time() -> None:
    lock = threading.Lock()
    running = most = 0
    together = threading.Barrier(2)

    def replay(conversation: Conversation) -> Result:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(WITHIN_S)
        with lock:
            running -= 1
        return Result(conversation.name, Outcome.PASSED)

    results = replay_all(CONVERSATIONS, replay, 2, Limits(1))
    assert sorted(each.name for each in results) == [each.name for each in CONVERSATIONS]
    assert most == 2


def test_one_that_never_ends_has_failed_and_holds_up_no_other(never: threading.Event) -> None:
    def replay(conversation: Conversation) -> Result:
        if conversation.name == "area/0":
            never.wait()
        return Result(conversation.name, Outcome.PASSED)

    results = {each.name: each for each in replay_all(CONVERSATIONS, replay, 1, Limits(1), within_s=0.5)}
    assert results.pop("area/0").details == ("did not end within 0.5 s",)
    assert {each.outcome for each in results.values()} == {Outcome.PASSED}
    assert len(results) == 5


@pytest.mark.parametrize("when", ["at its end", "in the middle"])
def test_interrupted_it_waits_for_those_under_way_and_no_longer(when: str) -> None:
    """Python sees the signal when the wait for results ends: it may have taken the last of them by then."""
    limits, ended = Limits(1), []
    main = threading.main_thread().ident
    assert main is not None

    def is_waiting() -> bool:
        return sys._current_frames()[main].f_code is _next.__code__

    def replay(conversation: Conversation) -> Result:
        until(is_waiting, what="the main thread waits for results")
        signal.raise_signal(signal.SIGINT)  # In this thread, so that the system does not wake the main one.
        if when == "in the middle":
            until(lambda: limits.stopped, what="it is interrupted")
        ended.append(conversation.name)
        return Result(conversation.name, Outcome.PASSED)

    began = time.monotonic()
    with interruptible(), pytest.raises(Interrupted):
        replay_all(CONVERSATIONS, replay, 1, limits)
    assert ended == ["area/0"]
    assert limits.stopped == "interrupted"
    assert time.monotonic() - began < CLEANUP_WITHIN_S / 2


def test_interrupted_while_a_result_is_shown_it_waits_for_those_under_way() -> None:
    """As by a signal, or by a terminal that has gone."""
    limits, ended = Limits(1), []

    def replay(conversation: Conversation) -> Result:
        if conversation.name == "area/1":
            until(lambda: limits.stopped, what="it is interrupted")
        ended.append(conversation.name)
        return Result(conversation.name, Outcome.PASSED)

    def show(result: Result) -> None:
        raise Interrupted(signal.SIGINT)

    with pytest.raises(Interrupted):
        replay_all(CONVERSATIONS, replay, 2, limits, on_result=show)
    assert sorted(ended) == ["area/0", "area/1"]
    assert limits.stopped == "interrupted"


RAISED: Final[dict[str, tuple[BaseException, str]]] = {
    "an error": (KeyError("metadata"), "the replay failed: KeyError: 'metadata'"),
    "an end of the program": (SystemExit(3), "the replay failed: SystemExit: 3"),
    "a long text": (ValueError("x" * 5_000), f"{'the replay failed: ValueError: ':x<{DETAIL_LENGTH_MAX}}..."),
}


@pytest.mark.parametrize(("error", "detail"), RAISED.values(), ids=RAISED)
def test_one_whose_replay_raises_has_failed_at_once_and_names_the_error(
    error: BaseException, detail: str
) -> None:
    def replay(conversation: Conversation) -> Result:
        if conversation.name == "area/0":
            raise error
        return Result(conversation.name, Outcome.PASSED)

    results = {each.name: each for each in replay_all(CONVERSATIONS, replay, 1, Limits(1))}
    failed = results.pop("area/0")
    assert (failed.outcome, failed.details) == (Outcome.FAILED, (detail,))
    assert [each.outcome for each in results.values()] == [Outcome.PASSED] * 5


def test_nothing_to_replay() -> None:
    assert replay_all([], lambda _: pytest.fail("nothing"), 2, Limits(1)) == []
