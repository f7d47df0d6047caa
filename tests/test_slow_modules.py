"""`make slow` imports each module that has a slow test, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.slow_modules import slow_modules

SLOW: Final = "import pytest\n\npytestmark = pytest.mark.slow\n"
# The files of a folder, and those that may have slow tests.
FOLDERS: Final[dict[str, tuple[dict[str, str], set[str]]]] = {
    "one that says so": ({"test_a.py": SLOW, "test_b.py": "import pytest\n"}, {"test_a.py"}),
    "one that speaks of slow clients": ({"test_a.py": '"""A slow client."""\n'}, set()),
    "one that imports parameters": (
        {"support/versions.py": SLOW, "test_a.py": "from tests.support.versions import VERSIONS\n"},
        {"support/versions.py", "test_a.py"},
    ),
    "one that imports a module": (
        {"support/versions.py": SLOW, "test_a.py": "from tests.support import api, versions\n"},
        {"support/versions.py", "test_a.py"},
    ),
    "one that imports a module on a line of its own": (
        {
            "support/versions.py": SLOW,
            "test_a.py": "from tests.support import (\n    api,\n    versions,\n)\n",
        },
        {"support/versions.py", "test_a.py"},
    ),
    "one that imports a package": (
        {"corpus/__init__.py": SLOW, "test_a.py": "import tests.corpus\n"},
        {"corpus/__init__.py", "test_a.py"},
    ),
    "one that imports a sibling": (
        {"unit/samples.py": SLOW, "unit/test_a.py": "from .samples import ONE\n", "test_b.py": ""},
        {"unit/samples.py", "unit/test_a.py"},
    ),
    "one that imports a cousin": (
        {"unit/samples.py": SLOW, "unit/cel/test_a.py": "from ..samples import ONE\n"},
        {"unit/samples.py", "unit/cel/test_a.py"},
    ),
    "one that imports what imports one": (
        {
            "test_a.py": SLOW,
            "test_b.py": "from tests.test_a import one\n",
            "test_c.py": "def test() -> None:\n    from tests.test_b import two\n",
        },
        {"test_a.py", "test_b.py", "test_c.py"},
    ),
    "two that import each other": (
        {
            "test_a.py": "from tests.test_b import one\n",
            "test_b.py": "from tests.test_a import two\nfrom tests.test_c import three\n",
            "test_c.py": SLOW,
        },
        {"test_a.py", "test_b.py", "test_c.py"},
    ),
}


@pytest.mark.parametrize(("files", "slow"), FOLDERS.values(), ids=FOLDERS)
def test_which_modules_are_imported_for_slow_tests(
    files: dict[str, str], slow: set[str], tmp_path: Path
) -> None:
    tests = tmp_path / "tests"
    for name, text in files.items():
        path = tests / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert {str(path.relative_to(tests)) for path in slow_modules(tests)} == slow
