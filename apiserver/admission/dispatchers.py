"""Calls those that review a write: webhooks, and functions of extensions.

Those that may change it are called one after the other, and those that validate it at the same time.
Source: k8s.io/apiserver, pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from apiserver.admission.chain import Plugin
from apiserver.admission.reviewed_write import ReviewedWrite
from apiserver.meta.errors import ApiError
from apiserver.storage.event_loop_turns import Turn

# How many of those that validate one write are called at the same time.
CONCURRENT_CALLS_MAX: Final = 100
# So few are found to match a write, or not, within a fraction of a turn of the event loop.
FEW: Final = 16


class Reviewer(Hashable, Protocol):
    """A webhook, or a function of an extension.

    is_called_again: whether it is called again if a later one or another plugin has changed the object.
    """

    @property
    def is_called_again(self) -> bool: ...


T = TypeVar("T")
R = TypeVar("R", bound=Reviewer)


class ReviewOutcome(NamedTuple):
    """The outcome of a call. refusal: the error that refuses the write, if there is one."""

    warnings: Sequence[str] = ()
    refusal: ApiError | None = None
    has_changed: bool = False


NOTHING: Final = ReviewOutcome()


async def call_in_turn(
    reviewers: Collection[R],
    plugin: Plugin,
    write: ReviewedWrite,
    call: Callable[[R, int], Awaitable[ReviewOutcome | None]],
) -> Sequence[str]:
    """Call those that may change a write one after the other. Returns their warnings.

    plugin: calls them. call: calls one with its index; returns None if the write is not its concern. Raises
    the first refusal.
    """
    context = write.attributes.rounds
    assert context is not None
    is_second = context.is_second
    # In the first round, the plugin has left nothing that could have changed, and few writes have a second.
    rounds = context.of(plugin) if is_second else None
    if rounds is not None:
        await rounds.enter(write.new, write.offload)
    warnings: list[str] = []
    # There may be thousands, few of which match.
    turn = Turn() if len(reviewers) > FEW else None
    try:
        for index, reviewer in enumerate(reviewers):
            if turn is not None and turn.is_over():
                await turn.next()
            if is_second and rounds is not None and reviewer not in rounds.due:
                continue
            outcome = await call(reviewer, index)
            if outcome is None:
                continue
            warnings += outcome.warnings
            if outcome.refusal is not None:
                raise outcome.refusal
            if outcome.has_changed or reviewer.is_called_again:
                rounds = context.of(plugin)
                if outcome.has_changed:
                    rounds.on_change()
                if reviewer.is_called_again:
                    rounds.called.add(reviewer)
        if rounds is not None and rounds.called:
            rounds.leave(write.new)
    except ApiError as refused:
        refused.add_warnings(warnings)
        raise
    return warnings


async def call_together(
    calls: Sequence[T], call: Callable[[T, int], Awaitable[ReviewOutcome]]
) -> Sequence[str]:
    """Make all calls at the same time. Returns their warnings.

    call: makes one, and gets its index. If several refuse the write, this raises the error of the first in
    order, with the warnings of all.
    """
    if len(calls) == 1:
        outcome = await call(calls[0], 0)
        if outcome is NOTHING:  # As most reviewers of most writes say.
            return ()
        outcomes: Sequence[ReviewOutcome] = [outcome]
    else:
        outcomes = await _all(calls, call)
    warnings = [each for outcome in outcomes for each in outcome.warnings]
    refusal = next((each.refusal for each in outcomes if each.refusal is not None), None)
    if refusal is not None:
        refusal.add_warnings(warnings)
        raise refusal
    return warnings


async def _all(
    calls: Sequence[T], call: Callable[[T, int], Awaitable[ReviewOutcome]]
) -> Sequence[ReviewOutcome]:
    slots = asyncio.Semaphore(CONCURRENT_CALLS_MAX)

    async def call_one(each: T, index: int) -> ReviewOutcome:
        async with slots:
            return await call(each, index)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call_one(each, index)) for index, each in enumerate(calls)]
    return [task.result() for task in tasks]
