"""docs/reference/flags.md tells of all flags. Row S11."""

from __future__ import annotations

from tests.references import FLAGS, flags_reference


def test_the_document_is_up_to_date() -> None:
    assert FLAGS.read_text() == flags_reference(), "make docs"
