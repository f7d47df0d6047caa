"""Conversations run side by side, each in its time, and clean up when they are interrupted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import pytest

from apiserver.cli.conformance.conversations import Conversation
from apiserver.cli.conformance.endpoint import Limits
from apiserver.cli.conformance.results import Outcome, Result
from apiserver.cli.conformance.runner import replay_all
from tests.support.eventually import WITHIN_S

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

    results = list(replay_all(CONVERSATIONS, replay, 2, Limits(1)))
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


def test_nothing_to_replay() -> None:
    assert list(replay_all([], lambda _: pytest.fail("nothing"), 2, Limits(1))) == []
