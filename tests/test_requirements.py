"""The rows of docs/requirements.md: every row that is named exists, and every row has a test or a reason.

A test names a row in one of these ways: "Row K31" or "Rows K31, K35" in a docstring or comment,
`test_f10_…` in its name, "J09 what is unknown" or "the uid (B08)" as the name of a case. "Rows B05-B07" names
three rows; a longer range is a heading and names none: nobody reads from it which test is whose.

Below each row of some sections (PROVEN) stand the tests that prove it. The list is made by hand, of those
that a reader should open; what is checked is that it stays true.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.test_conformance import expected_failures, scenarios

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("apiserver", "storage", "tests", "benchmarks", "deploy", "docs")
RANGE_MAX: Final = 3

# The sections whose rows are followed by the tests that prove them.
PROVEN: Final = "HST"

# Rows that a recorded conversation of tests/conformance/scenarios shows to be kept.
RECORDED: Final = {"F07": "apply/managed-fields-set", "G11": "delete/ignore-read-error"}

# Rows whose feature is not built. A row leaves this list when a test names it.
NOT_BUILT: Final[dict[str, str]] = {}

_ROW: Final = r"[A-T]\d{2}"
_MENTION: Final = re.compile(rf"\b[Rr]ows?\s+({_ROW}(?:(?:\s*,|\s*-|\s+(?:and|to|or))*\s*{_ROW}\b)*)")
_TEST_NAME: Final = re.compile(r"\bdef test((?:_[a-t]\d{2})+)_")
_CASE_START: Final = re.compile(rf'"({_ROW}(?:[ ,]+{_ROW})*)\b[ ,:]')
_CASE_END: Final = re.compile(rf"\(({_ROW}(?:, {_ROW})*)\)")
_REQUIREMENT: Final = re.compile(rf"- ({_ROW}) \[")
_PROOF: Final = re.compile(r"  - `(tests/[\w/]+\.py)`: (`test_\w+`(?:, `test_\w+`)*)")


def requirements() -> dict[str, str]:
    """The rows of docs/requirements.md: number -> tag."""
    text = (ROOT / "docs" / "requirements.md").read_text()
    return dict(re.findall(rf"^- ({_ROW}) \[(core|adv|ops)\] ", text, re.MULTILINE))


def sources() -> Iterator[Path]:
    """Everything that may name a row, but for the recorded conversations, which come from elsewhere."""
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".txt", ".yaml") and "scenarios" not in path.parts:
                yield path


def mentions(text: str) -> Iterator[tuple[str, ...]]:
    """The rows of each mention: one row, or all of a range."""
    plain = re.sub(r"\s*\n\s*(?:#:?\s*)?", " ", text)
    for listed in _MENTION.findall(plain):
        for first, last in re.findall(rf"({_ROW})(?:(?:\s*-\s*|\s+to\s+)({_ROW}))?", listed):
            yield tuple(f"{first[0]}{n:02}" for n in range(int(first[1:]), int((last or first)[1:]) + 1))
    for names in _TEST_NAME.findall(plain):
        yield from ((name,) for name in names.upper().split("_")[1:])
    for pattern in (_CASE_START, _CASE_END):
        for names in pattern.findall(plain):
            yield from ((name,) for name in re.findall(_ROW, names))


MENTIONS: Final = {
    "a row": ("Row K31.", [("K31",)]),
    "several rows": ("see rows K31,\n    # K35 and K46: gone", [("K31",), ("K35",), ("K46",)]),
    "a range": ("Rows B05-B07, G01.", [("B05", "B06", "B07"), ("G01",)]),
    "a range in words": ("Rows R26 to R28", [("R26", "R27", "R28")]),
    "the name of a test": ("def test_f12_f13_a_name() -> None:", [("F12",), ("F13",)]),
    "the beginning of a case": ('"K04 K07, unset": 1', [("K04",), ("K07",)]),
    "the end of a case": ('"the uid (B08, B09)": 1', [("B08",), ("B09",)]),
    "something else": ("a row of B12 cells, the key 'A1' and C0FFEE", []),
}


@pytest.mark.parametrize(("text", "rows"), MENTIONS.values(), ids=MENTIONS)
def test_what_names_a_row(text: str, rows: list[tuple[str, ...]]) -> None:
    assert list(mentions(text)) == rows


def test_rows_are_numbered_without_gaps() -> None:
    by_section: dict[str, list[int]] = {}
    for row in requirements():
        by_section.setdefault(row[0], []).append(int(row[1:]))
    assert sorted(by_section) == [chr(letter) for letter in range(ord("A"), ord("T") + 1)]
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_section.values())


def test_every_row_that_is_named_exists() -> None:
    known = requirements()
    unknown = {
        (str(path.relative_to(ROOT)), row)
        for path in sources()
        if path.name != Path(__file__).name
        for rows in mentions(path.read_text())
        for row in rows
        if row not in known
    }
    assert unknown == set()


def test_rows_are_named_by_number() -> None:
    """A section's letter alone leads nowhere."""
    bare = re.compile(r"\bRows? (?:of section |[A-T]\b(?!\d))")
    vague = {str(path.relative_to(ROOT)) for path in sources() if bare.search(path.read_text())}
    assert vague - {str(Path(__file__).relative_to(ROOT))} == set()


def rows_named_by_tests() -> set[str]:
    return {
        row
        for path in sources()
        if path.suffix == ".py" and path.is_relative_to(ROOT / "tests") and path.name != Path(__file__).name
        for rows in mentions(path.read_text())
        if len(rows) <= RANGE_MAX
        for row in rows
    }


def test_every_row_has_a_test_or_a_reason() -> None:
    assert requirements().keys() - rows_named_by_tests() - RECORDED.keys() - NOT_BUILT.keys() == set()


def test_rows_without_a_test_become_fewer() -> None:
    """What a test names leaves the two lists, and they hold no row that there is not."""
    named = rows_named_by_tests()
    assert (RECORDED.keys() | NOT_BUILT.keys()) & named == set()
    assert RECORDED.keys() & NOT_BUILT.keys() == set()
    assert (RECORDED.keys() | NOT_BUILT.keys()) - requirements().keys() == set()


def test_recorded_conversations_exist_and_pass() -> None:
    assert set(RECORDED.values()) <= scenarios() - expected_failures()


# ---- the tests below the rows


def proofs() -> dict[str, list[tuple[str, str]]]:
    """The tests below each row: file and name."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    row = ""
    for line in (ROOT / "docs" / "requirements.md").read_text().splitlines():
        if requirement := _REQUIREMENT.match(line):
            row = requirement[1]
        elif line.startswith("  - "):
            listed = _PROOF.fullmatch(line)
            assert listed is not None, f"not of the form of a list of tests: {line}"
            found[row] += ((listed[1], name.strip("`")) for name in listed[2].split(", "))
    return found


class TestFile:
    """A file of tests. Tests, and the values of the names that they use, are read as text."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self._lines = path.read_text().splitlines()
        tree = ast.parse("\n".join(self._lines))
        self._about = rows_of(ast.get_docstring(tree) or "")
        self._values: dict[str, ast.stmt] = {}
        self.tests: dict[str, ast.stmt] = {}
        for statement in tree.body:
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                    self.tests[name] = statement
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    self._values[name] = statement

    def rows_of(self, test: str) -> set[str]:
        """The rows that a test names, or a table that it uses, or the file as a whole."""
        rows, seen, to_read = set(self._about), set[str](), [self.tests[test]]
        while to_read:
            statement = to_read.pop()
            rows |= rows_of(self._text(statement))
            names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            to_read += (self._values[name] for name in (names - seen) & self._values.keys())
            seen |= names
        return rows

    def _text(self, statement: ast.stmt) -> str:
        decorators = getattr(statement, "decorator_list", ())
        first = min(node.lineno for node in (statement, *decorators)) - 1
        while first and self._lines[first - 1].startswith("#"):
            first -= 1
        return "\n".join(self._lines[first : statement.end_lineno])


def rows_of(text: str) -> set[str]:
    return {row for rows in mentions(text) if len(rows) <= RANGE_MAX for row in rows}


@cache
def file_of_tests(path: str) -> TestFile:
    return TestFile(ROOT / path)


def test_rows_of_some_sections_are_followed_by_their_tests() -> None:
    assert proofs().keys() == {row for row in requirements() if row[0] in PROVEN}


def test_tests_below_a_row_exist_and_name_it() -> None:
    wrong = [
        (row, path, test)
        for row, tests in proofs().items()
        for path, test in tests
        if not (ROOT / path).exists()
        or test not in file_of_tests(path).tests
        or row not in file_of_tests(path).rows_of(test)
    ]
    assert wrong == []


def test_tests_that_have_a_row_in_their_name_are_below_it() -> None:
    """What is written later for a row is found from there, too."""
    named = {
        (row, str(path.relative_to(ROOT)), test)
        for path in (ROOT / "tests").rglob("test_*.py")
        for test in re.findall(r"^(?:async )?def (test_[hst]\d{2}_\w+)", path.read_text(), re.MULTILINE)
        for row in rows_of(f"def {test}")
    }
    listed = {(row, path, test) for row, tests in proofs().items() for path, test in tests}
    assert named - listed == set()


def test_tests_stand_below_a_row_once() -> None:
    repeated = {row for row, tests in proofs().items() if len(set(tests)) < len(tests)}
    assert repeated == set()
