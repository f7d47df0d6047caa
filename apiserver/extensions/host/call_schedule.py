"""Decides in which order a worker gets calls, and which of them fail when it ends. No I/O.

Functions that need the worker for themselves get it one after the other, so that it is known which one does
not return. If a worker has ended and it is not clear because of which call, those that were running are
suspects: they are sent again one after the other, before all others, and the one that is running when the
next worker ends fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from apiserver.extensions.hooks import Kind, Mode
from apiserver.extensions.host.pending_calls import PendingCall

# How many calls wait. More are refused.
WAITING_MAX: Final = 10_000


class AfterEnd(NamedTuple):
    """The calls that were running when a worker ended: those that fail, and those that wait again."""

    failed: Sequence[PendingCall]
    repeated: Sequence[PendingCall]


class CallSchedule:
    """The calls of a worker that run or wait. running: those that have been sent, by their numbers."""

    def __init__(self) -> None:
        self.running: dict[int, PendingCall] = {}
        # Calls that are not sent yet: those that were running when a worker ended, and all others.
        self._suspects: deque[PendingCall] = deque()
        self._waiting: deque[PendingCall] = deque()
        # The one that has the worker for itself.
        self._alone: PendingCall | None = None

    @property
    def is_full(self) -> bool:
        """Whether no further call may wait."""
        return len(self._waiting) >= WAITING_MAX

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting or self._suspects)

    @property
    def streams_beginning(self) -> int:
        """How many watches have been asked for and have not begun."""
        return sum(each.stream is not None for each in self.calls())

    def calls(self) -> list[PendingCall]:
        """Returns the calls that run or wait."""
        return [*self.running.values(), *self._suspects, *self._waiting]

    def wait(self, call: PendingCall) -> None:
        """Let a call wait behind all others."""
        self._waiting.append(call)

    @property
    def is_free(self) -> bool:
        """Whether a new call can run now, and overtakes no other."""
        return self._alone is None and not self._waiting and not self._suspects

    def may_begin(self, call: PendingCall) -> bool:
        """Whether a call can run beside those that are running. What may end a worker runs alone."""
        return self._alone is None and not (call.is_suspect and self.running)

    def begin(self, call: PendingCall) -> None:
        """Note that a call is sent."""
        self.running[call.number] = call
        if call.is_suspect or call.hook.mode is Mode.ALONE:
            self._alone = call

    def next(self) -> PendingCall | None:
        """Returns the next call that can run now, if there is one. It waits no longer."""
        for queue in (self._suspects, self._waiting):
            while queue and queue[0].is_over:
                queue.popleft()
            if queue and self.may_begin(queue[0]):
                return queue.popleft()
            if queue and queue[0].is_suspect:
                return None
        return None

    def end(self, number: int) -> PendingCall | None:
        """Note that a call has an answer. Returns the call; None if none with this number is running."""
        call = self.running.pop(number, None)
        if self._alone is call:
            self._alone = None
        return call

    def repeat_running(self) -> Sequence[PendingCall]:
        """Let the calls that are running wait before all others, for a worker with new code. Returns them."""
        found = [each for each in self.running.values() if not each.is_over]
        self._forget_running()
        self._waiting.extendleft(reversed(found))
        return found

    def worker_ended(self, *, is_known: bool) -> AfterEnd:
        """Decide which of the calls that were running fail, and let the others wait again.

        is_known: whether the worker was ended because of a function that is none of theirs.
        """
        running = [each for each in self.running.values() if not each.is_over]
        self._forget_running()
        if is_known:
            self._waiting.extend(running)
            return AfterEnd((), running)
        # Reconciliations are repeated anyway, and may run for long: others must not wait for them.
        failed = [
            each
            for each in running
            if each.is_suspect or len(running) == 1 or each.hook.kind is Kind.RECONCILE
        ]
        repeated = [each for each in running if each not in failed]
        for each in repeated:
            each.is_suspect = True
        self._suspects.extend(repeated)
        return AfterEnd(failed, repeated)

    def _forget_running(self) -> None:
        self.running.clear()
        self._alone = None
