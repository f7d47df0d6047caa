"""Old versions are dropped again and again, whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from apiserver.registry.history.forms import RecordedForms
from apiserver.registry.history.policy import HistoryPolicy
from apiserver.registry.history.thinning import Thinning
from apiserver.storage.history.segment import Segment
from apiserver.storage.history.thinning import OldRows
from apiserver.storage.history.undo_log import UndoLog
from tests.unit.registry.history.test_recent_changes import reading
from tests.unit.registry.history.test_recorder import PREFIX, ROOMY


class Failing(UndoLog):
    """Fails as often as there are errors, and then finds nothing to do. done: called then, in its thread."""

    def __init__(self, errors: list[Exception], done: Callable[[], object]) -> None:
        super().__init__(None, ROOMY)
        self._errors, self._done = errors, done

    def old_rows(self, before_ms: int, is_wanted: Callable[[str], bool]) -> tuple[Segment, OldRows] | None:
        if self._errors:
            raise self._errors.pop(0)
        self._done()
        return None


async def test_an_error_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Neither one that is expected, nor one that is not: the tasks of a server end together."""
    loop, is_done = asyncio.get_running_loop(), asyncio.Event()
    errors = [OSError("the disk is full"), KeyError("unexpected")]
    log = Failing(errors, lambda: loop.call_soon_threadsafe(is_done.set))
    forms = RecordedForms(PREFIX, b"k" * 32, HistoryPolicy((), PREFIX))
    async with reading() as made:
        thinning = Thinning(made.past, log, made.recording.recorder, forms, lambda: 1e9, interval_s=0)
        running = asyncio.create_task(thinning.run())
        async with asyncio.timeout(60):
            await is_done.wait()
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert [bool(each.exc_info) for each in caplog.records] == [False, True]
