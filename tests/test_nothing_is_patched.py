"""Tests pass in fakes that keep a contract, and set limits through parameters: they patch nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
PATCHES: Final = re.compile(r"\b(?:monkeypatch|MonkeyPatch|unittest\.mock|mock\.patch|setattr\()")


def test_nothing_is_patched() -> None:
    patching = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if path != Path(__file__) and PATCHES.search(path.read_text())
    }
    assert patching == set()
