"""Which modules of tests may hold slow ones: only these are imported where only slow tests are asked for.

Most modules have none, and to import all of them takes each process of pytest-xdist 16 s of processor time.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_MARK: Final = "mark.slow"
# What is imported from the tests: a module, and names, of which some may be modules.
_IMPORT: Final = re.compile(
    r"^\s*(?:from|import) +(tests[.\w]*|\.+[.\w]*)(?: +import +(\([^)]*\)|.*))?", re.MULTILINE
)


def slow_modules(tests: Path) -> frozenset[Path]:
    """Returns the files of modules whose tests may be slow: that say `mark.slow`, or import one that does.

    tests: the folder of the package `tests`.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in tests.rglob("*.py")}
    importers: dict[Path, set[Path]] = {}
    for path, text in texts.items():
        for imported in _imported(path, text, tests):
            importers.setdefault(imported, set()).add(path)
    found = {path for path, text in texts.items() if _MARK in text}
    unvisited = list(found)
    while unvisited:
        new = importers.get(unvisited.pop(), set()) - found
        found |= new
        unvisited += new
    return frozenset(found)


def _imported(path: Path, text: str, tests: Path) -> set[Path]:
    """Returns the files that a module of the tests imports, and some that do not exist."""
    found = set()
    for module, names in _IMPORT.findall(text):
        steps = len(module) - len(module.lstrip("."))
        # The parent of a file is its own package, the one of the folder `tests` is where `tests` is found.
        base = path.parents[steps - 1] if steps else tests.parent
        target = base.joinpath(*filter(None, module.split(".")))
        for each in (target, *(target / name for name in re.findall(r"\w+", names))):
            found |= {each.with_suffix(".py"), each / "__init__.py"}
    return found
