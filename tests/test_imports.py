"""No files import each other in a circle; pyproject.toml has the other rules of imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent


def module_name(path: Path) -> str:
    """Returns the name of a file's module; the package apiserver.storage is a link to the folder storage."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts if parts[0] == "apiserver" else ("apiserver", *parts))
    return name.removesuffix(".__init__")


FILES: Final = {
    module_name(path): path.read_text()
    for folder in ("apiserver", "storage")
    for path in (ROOT / folder).rglob("*.py")
}


def imported(source: str, modules: set[str]) -> Iterator[str]:
    """Yields the modules that a file imports, wherever it does, also for types alone."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            yield from {f"{node.module}.{alias.name}" for alias in node.names} & modules or {node.module}


def require_no_circle(files: dict[str, str]) -> None:
    """Raises CycleError, which names the circle."""
    graph = {name: {*imported(source, {*files})} - {name} for name, source in files.items()}
    TopologicalSorter(graph).prepare()


def test_no_files_import_each_other_in_a_circle() -> None:
    require_no_circle(FILES)


CIRCLES: Final = {
    "two files": {"a": "from b import name", "b": "import a"},
    "for types alone": {"a": "import b", "b": "if TYPE_CHECKING:\n    from a import Name"},
    "in a function": {"a": "import p.b", "p": "", "p.b": "def f():\n    import a"},
    "of three": {"a": "from p import b", "p": "", "p.b": "import c", "c": "import a"},
}


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES)
def test_a_circle_is_found(files: dict[str, str]) -> None:
    with pytest.raises(CycleError):
        require_no_circle(files)
