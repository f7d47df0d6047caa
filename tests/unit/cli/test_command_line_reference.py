"""docs/reference/command-line.md describes all commands."""

from __future__ import annotations

from tests.references import COMMAND_LINE, command_line_reference


def test_the_document_is_up_to_date() -> None:
    assert COMMAND_LINE.read_text() == command_line_reference(), "make docs"
