"""docs/reference/conformance.md has what the recorded conversations and their expected failures say."""

from __future__ import annotations

from tests.references import CONFORMANCE, conformance_reference


def test_the_document_is_up_to_date() -> None:
    assert CONFORMANCE.read_text() == conformance_reference(), "make docs"
