"""Replays conversations side by side, each within a time."""

from __future__ import annotations

import http.client
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from apiserver.cli.conformance.conversations import Conversation
from apiserver.cli.conformance.endpoint import CLEANUP_WITHIN_S, CONVERSATION_WITHIN_S, Limits
from apiserver.cli.conformance.results import Outcome, Result
from apiserver.cli.limited_connection import NoAnswer, reason_of

DETAILS_MAX: Final = 20
DETAIL_LENGTH_MAX: Final = 500
# A conversation that takes so long waits for no answer: it computes. Some answers take for ever to compare.
ABANDONED_AFTER_S: Final = CONVERSATION_WITHIN_S + CLEANUP_WITHIN_S + 60.0
# A signal that arrives just before the main thread begins to wait for a lock does not wake it.
SIGNAL_SEEN_WITHIN_S: Final = 0.2
Replay = Callable[[Conversation], Result]


def replay_with(replayer: Any, client: Any, arguments: Any) -> Replay:
    """Returns the function that replays one conversation. arguments: the replayer's."""

    class Run(replayer.Run):  # type: ignore[misc]  # the module is loaded when it is needed
        """A conversation that has a time to end, and one to clean up."""

        def run(self) -> None:
            client.begin(CONVERSATION_WITHIN_S)
            super().run()

        def watch_step(self, step: Any) -> Any:
            try:
                return super().watch_step(step)
            except (OSError, http.client.HTTPException) as error:
                raise NoAnswer(reason_of(error)) from None

        def cleanup(self) -> None:
            client.begin(CLEANUP_WITHIN_S, is_cleaning=True)
            super().cleanup()

    def replay(conversation: Conversation) -> Result:
        run = Run(client, conversation.document, arguments)
        try:
            run.run()
        finally:
            client.close()
        hard = [difference for difference in run.diffs if not difference[2]]
        outcome = Outcome.FAILED if hard else Outcome.PASSED
        return Result(conversation.name, outcome, tuple(_texts(hard or run.diffs)), round(run.seconds, 3))

    return replay


def _texts(differences: Sequence[tuple[int, str, bool]]) -> Iterator[str]:
    for step, text, _ in differences[:DETAILS_MAX]:
        yield f"step {step}: {_shortened(text)}"
    if len(differences) > DETAILS_MAX:
        yield f"and {len(differences) - DETAILS_MAX} more differences"


def _shortened(text: str) -> str:
    return text if len(text) <= DETAIL_LENGTH_MAX else f"{text[:DETAIL_LENGTH_MAX]}..."


def replay_all(
    conversations: Sequence[Conversation],
    replay: Replay,
    jobs: int,
    limits: Limits,
    *,
    on_result: Callable[[Result], None] = lambda _: None,
    within_s: float = ABANDONED_AFTER_S,
) -> list[Result]:
    """Returns the results, in the order in which conversations end.

    A conversation that does not end within a time has failed, as has one whose replay raises.
    on_result: is called with each result at once.
    If this is interrupted, or `on_result` raises, it lets those that are under way clean up, and raises.
    Each has a thread that is a daemon: one that never ends does not keep the program.
    """
    results: list[Result] = []
    waiting = list(reversed(conversations))
    began: dict[str, float] = {}
    threads: dict[str, threading.Thread] = {}
    ended: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def start(conversation: Conversation) -> None:
        name = conversation.name
        began[name] = time.monotonic()
        threads[name] = threading.Thread(
            target=lambda: ended.put(_result_of(replay, conversation)), daemon=True
        )
        threads[name].start()

    try:
        while waiting or began:
            while waiting and len(began) < jobs:
                start(waiting.pop())
            oldest = min(began, key=began.__getitem__)
            result = _next(ended, began[oldest] + within_s)
            if result is None:
                result = Result(oldest, Outcome.FAILED, (f"did not end within {within_s:g} s",), within_s)
            if began.pop(result.name, None) is not None:
                del threads[result.name]
                results.append(result)
                on_result(result)
    except BaseException:
        limits.stopped = "interrupted"
        _await_all(threads.values(), time.monotonic() + CLEANUP_WITHIN_S)
        raise
    return results


def _result_of(replay: Replay, conversation: Conversation) -> Result:
    """Returns the result of a replay, also of one that raises what nobody has foreseen."""
    began = time.monotonic()
    try:
        return replay(conversation)
    except BaseException as error:  # Else the thread would end without a result, as if it had taken too long.
        detail = _shortened(f"the replay failed: {type(error).__name__}: {error}")
        return Result(conversation.name, Outcome.FAILED, (detail,), round(time.monotonic() - began, 3))


def _next(ended: queue.SimpleQueue[Result], end: float) -> Result | None:
    """Returns the next result; None if there is none until the moment `end`."""
    while True:
        left = end - time.monotonic()
        try:
            return ended.get(timeout=min(max(0.0, left), SIGNAL_SEEN_WITHIN_S))
        except queue.Empty:
            if left <= SIGNAL_SEEN_WITHIN_S:
                return None


def _await_all(threads: Iterable[threading.Thread], end: float) -> None:
    """Wait until threads have ended, or for the moment `end`.

    Not for their results: the last one may have been taken from the queue when the signal was seen.
    """
    for thread in threads:
        if thread.is_alive():  # Else it may not even have started.
            thread.join(max(0.0, end - time.monotonic()))
