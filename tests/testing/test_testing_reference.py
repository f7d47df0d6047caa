"""docs/reference/testing-api.md describes what `apiserver.testing` exports."""

from __future__ import annotations

from apiserver import testing
from tests import references


def test_the_document_is_up_to_date() -> None:
    assert references.TESTING.read_text() == references.testing_reference(), "make docs"


def test_all_exported_names_are_in_one_section() -> None:
    named = [name for names in references.TESTING_SECTIONS.values() for name in names]
    assert sorted([*named, *references.TESTING_ALIASES]) == sorted(testing.__all__)
