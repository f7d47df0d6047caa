"""The files that docs/testing.md shows are a suite that passes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
# A block whose first line is a comment with a path.
_FILE: Final = re.compile(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIGURATION: Final = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def test_every_block_of_code_is_a_file() -> None:
    assert len(_FILE.findall(PAGE)) == len(re.findall(r"^```\w+$", PAGE, re.MULTILINE))


@pytest.mark.slow
def test_the_files_are_a_suite_that_passes(tmp_path: Path) -> None:
    for name, text in _FILE.findall(PAGE):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text(CONFIGURATION)
    end = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 0, end.stdout
    assert re.search(r"^[12]\d passed", end.stdout, re.MULTILINE), end.stdout
