"""A docstring begins with a complete sentence that can be read alone, and says nothing twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
# What may follow that sentence: errors, another docstring, the source of a rule, a parameter or a field.
_NAMES: Final = r"[A-Za-z_]\w*(?:, \w+)*: "
_BEGINS_WITH_DETAIL: Final = re.compile(r"Raises |See `|Sources?: |[a-z_]\w*(?:, \w+)*: ")
_DETAIL: Final = re.compile(rf"(?:^ *|(?<=\. )){_NAMES}", re.MULTILINE)
_BETWEEN_SENTENCES: Final = re.compile(r"(?<=\.)\s+")
_UNFINISHED: Final = re.compile(r"(?:[,;]|\b(?:and|as|because|but|if|or|so|than|that|when|which|while))$")
_TEXT: Final = re.compile(r'"""(.*?)"""', re.DOTALL)


def problems(docstring: str) -> Iterator[str]:
    """Yields what is wrong with any docstring, private ones and those of modules included."""
    names = list(chain.from_iterable(re.findall(r"\w+", detail) for detail in _DETAIL.findall(docstring)))
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        yield f"explains {', '.join(repeated)} twice"
    sentences = [" ".join(each.split()) for each in _BETWEEN_SENTENCES.split(docstring)]
    if not repeated and len(sentences) != len(set(sentences)):
        yield "says a sentence twice"
    if "\n\n\n" in docstring:
        yield "has two blank lines in a row"
    if _UNFINISHED.search(docstring.partition("\n\n")[0].rstrip()):
        yield "begins with half a sentence"


def found_in(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields the lines, names and problems of docstrings."""
    texts = [cleandoc(text) for text in _TEXT.findall(source)]
    # Most modules are fine, and are not parsed.
    if not any(_BEGINS_WITH_DETAIL.match(text) or any(problems(text)) for text in texts):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring, line, name = ast.get_docstring(node) or "", 1, ""
        if not isinstance(node, ast.Module):
            line, name = node.lineno, node.name
            if not name.startswith("_") and _BEGINS_WITH_DETAIL.match(docstring):
                yield line, name, "begins with no sentence"
        for problem in problems(docstring):
            yield line, name, problem


@pytest.mark.parametrize("package", ["apiserver", "storage"])
def test_docstrings_are_complete_and_say_nothing_twice(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name} {problem}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, name, problem in found_in(path.read_text())
    ]
    assert found == []


BEGINNINGS: Final = {
    "an error": ("Raises Malformed.", True),
    "another docstring": ("See `of_version`.", True),
    "a source": ("Source: pkg/apis/core/validation.", True),
    "a parameter": ("clock: seconds since 1970.", True),
    "two parameters": ("services, defined: their resources.", True),
    "a sentence": ("Returns the rule. Raises Malformed.", False),
    "code with a colon": ("`a: b` is a map.", False),
}


@pytest.mark.parametrize(("docstring", "is_found"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_what_is_no_sentence(docstring: str, *, is_found: bool) -> None:
    named = {name: f'    def {name}(self) -> None:\n        """{docstring}"""' for name in ("of", "_of")}
    source = "class A:\n" + "\n".join(named.values())
    assert [name for _, name, _ in found_in(source)] == ["of"] * is_found


DOCSTRINGS: Final[dict[str, tuple[str, list[str]]]] = {
    "a parameter twice": ("Make it. clock: seconds.\n\nclock: seconds.", ["explains clock twice"]),
    "one of two": ("Make it.\n\na, clock: seconds.\nclock: in UTC.", ["explains clock twice"]),
    "a member twice": ("The level. HIGH: none.\n\nHIGH: none.", ["explains HIGH twice"]),
    "a sentence twice": ("The kinds. `a` serves\nthem. `a` serves them.", ["says a sentence twice"]),
    "each parameter once": ("Make it. clock: seconds. name: of it.\n\nuser: its clock: in UTC.", []),
    "two blank lines": ("Make it.\n\n\nRaises Malformed.", ["has two blank lines in a row"]),
    "a semicolon": ("The result of a list;\n\nhead: its beginning.", ["begins with half a sentence"]),
    "a comma": ("The result of a list,", ["begins with half a sentence"]),
    "a conjunction": ("A check that runs once, so that", ["begins with half a sentence"]),
    "a list": ("The order, and its reasons:\n\n- first", []),
    "two lines": ("A check that runs once, so that\nmany probes ask once.", []),
}


@pytest.mark.parametrize(("docstring", "expected"), DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_what_is_wrong(docstring: str, expected: list[str]) -> None:
    for source in (f'"""{docstring}"""', f'def _private() -> None:\n    """{docstring}"""'):
        assert [problem for *_, problem in found_in(source)] == expected
