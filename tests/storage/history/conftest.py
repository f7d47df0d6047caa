"""A history for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.storage.history.undo_log import UndoLog
from tests.support.histories import ROOMY


@pytest.fixture
def log(tmp_path: Path) -> Iterator[UndoLog]:
    log = UndoLog(tmp_path / "history", ROOMY)
    yield log
    log.close()
