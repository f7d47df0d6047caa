"""The process that records the history answers the others, and does not end if it cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apiserver.registry.history.follower import Follower, RecorderEndpoint
from apiserver.registry.history.writes import OwnWrites
from apiserver.storage.history.undo_log import UndoLog
from tests.support.eventually import eventually
from tests.unit.registry.history.test_recent_changes import reading
from tests.unit.registry.history.test_recorder import PREFIX, ROOMY


async def test_a_socket_that_cannot_be_made_is_made_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    UndoLog(tmp_path, ROOMY).close()  # It makes the files that a follower reads.
    obstacle = tmp_path / "recorder.sock"
    obstacle.mkdir()  # which no `unlink` removes
    follower = Follower(UndoLog(tmp_path, ROOMY, follows=True), tmp_path)
    async with reading() as made:
        writes = OwnWrites(made.log, made.recording.recorder, PREFIX)
        endpoint = asyncio.create_task(RecorderEndpoint(made.past, writes, tmp_path, retry_s=0.001).run())
        await eventually(lambda: len(caplog.records) > 0)
        with pytest.raises(OSError, match="does not answer"):
            await follower.ask("complete")
        obstacle.rmdir()
        await eventually(obstacle.is_socket)
        (revision,) = await follower.ask("complete")
        assert revision == made.log.recorded
        assert [each.levelname for each in caplog.records] == ["ERROR"]
        assert not endpoint.done()
        endpoint.cancel()
        await asyncio.gather(endpoint, return_exceptions=True)
