"""The rows of docs/requirements.md: every row that is named exists, and every row has a test or a reason.

A test names a row in one of these ways: "Row K31" or "Rows K31, K35" in a docstring or comment,
`test_f10_…` in its name, "J09 what is unknown" or "the uid (B08)" as the name of a case. "Rows B05-B07" names
three rows; a longer range is a heading and names none: nobody reads from it which test is whose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.test_conformance import expected_failures, scenarios

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("apiserver", "storage", "tests", "benchmarks", "deploy", "docs")
RANGE_MAX: Final = 3

# Rows that a recorded conversation of tests/conformance/scenarios shows to be kept.
RECORDED: Final = {
    "F07": "apply/managed-fields-set",
    "G11": "delete/ignore-read-error",
    "L09": "webhooks/dry-run",
}

# Rows whose feature is not built. A row leaves this list when a test names it.
NOT_BUILT: Final[dict[str, str]] = {}

_ROW: Final = r"[A-T]\d{2}"
_MENTION: Final = re.compile(rf"\b[Rr]ows?\s+({_ROW}(?:(?:\s*,|\s*-|\s+(?:and|to|or))*\s*{_ROW}\b)*)")
_TEST_NAME: Final = re.compile(r"\bdef test((?:_[a-t]\d{2})+)_")
_CASE_START: Final = re.compile(rf'"({_ROW}(?:[ ,]+{_ROW})*)\b[ ,:]')
_CASE_END: Final = re.compile(rf"\(({_ROW}(?:, {_ROW})*)\)")


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
