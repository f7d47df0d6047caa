"""The docstring of a public class or function begins with a sentence that can be read alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
# What stands behind that sentence: errors, another docstring, the source of a rule, a parameter or a field.
_DETAIL: Final = r"Raises |See `|Sources?: |[a-z_]\w*(?:, \w+)*: "
_BEGINS_WITH_DETAIL: Final = re.compile(_DETAIL)
# Most modules have no such docstring, and are not parsed.
_MAY_HAVE_SOME: Final = re.compile(rf'"""(?:{_DETAIL})')


def without_sentence(source: str) -> Iterator[tuple[int, str]]:
    """Yields the lines and names of public classes and functions whose docstring begins with a detail."""
    if not _MAY_HAVE_SOME.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("_") and _BEGINS_WITH_DETAIL.match(ast.get_docstring(node) or ""):
            yield node.lineno, node.name


@pytest.mark.parametrize("package", ["apiserver", "storage"])
def test_docstrings_begin_with_a_sentence(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, name in without_sentence(path.read_text())
    ]
    assert found == []


DOCSTRINGS: Final = {
    "an error": ("Raises Malformed.", True),
    "another docstring": ("See `of_version`.", True),
    "a source": ("Source: pkg/apis/core/validation.", True),
    "a parameter": ("clock: seconds since 1970.", True),
    "two parameters": ("services, defined: their resources.", True),
    "a sentence": ("Returns the rule. Raises Malformed.", False),
    "code with a colon": ("`a: b` is a map.", False),
}


@pytest.mark.parametrize(("docstring", "is_found"), DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_what_is_no_sentence(docstring: str, *, is_found: bool) -> None:
    named = {name: f'    def {name}(self) -> None:\n        """{docstring}"""' for name in ("of", "_of")}
    source = "class A:\n" + "\n".join(named.values())
    assert [name for _, name in without_sentence(source)] == ["of"] * is_found
