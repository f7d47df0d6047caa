"""resourceVersion text as Kubernetes reads it: as Go's strconv.ParseUint(text, 10, 64).

Row J11; the rule is pkg/storage/api_object_versioner.go, ParseResourceVersion.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.storage.resource_version import REVISION_MAX, InvalidResourceVersion, parse_resource_version

READ = {
    "an empty text stands for no version": ("", 0),
    "zero": ("0", 0),
    "a revision": ("42", 42),
    "leading zeros are ignored": ("007", 7),
    "however many they are": ("0" * 30 + "7", 7),
    "the largest revision": (str(2**63 - 1), 2**63 - 1),
    "a uint64 above int64 becomes the largest revision": (str(2**63), REVISION_MAX),
    "the largest uint64": (str(2**64 - 1), REVISION_MAX),
}


@pytest.mark.parametrize(("text", "revision"), READ.values(), ids=READ)
def test_a_valid_version(text: str, revision: int) -> None:
    assert parse_resource_version(text) == revision


REFUSED = {
    "a word": ("abc", "invalid syntax"),
    "a sign": ("-1", "invalid syntax"),
    "a plus": ("+1", "invalid syntax"),
    "a fraction": ("1.0", "invalid syntax"),
    "an exponent": ("1e3", "invalid syntax"),
    "blanks before": (" 1", "invalid syntax"),
    "a line end behind": ("1\n", "invalid syntax"),
    "underscores": ("1_000", "invalid syntax"),
    "a base": ("0x10", "invalid syntax"),
    "digits of another script": ("\u0661", "invalid syntax"),
    "a superscript": ("\u00b2", "invalid syntax"),
    "one more than a uint64 holds": (str(2**64), "value out of range"),
    "far more": ("9" * 5_000, "value out of range"),
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_version(text: str, problem: str) -> None:
    with pytest.raises(InvalidResourceVersion) as refused:
        parse_resource_version(text)
    assert refused.value.text == text
    assert refused.value.problem == problem


@given(st.integers(0, REVISION_MAX))
def test_every_revision_is_read_back(revision: int) -> None:
    assert parse_resource_version(str(revision)) == revision


@given(st.text())
def test_any_text_is_a_revision_or_refused(text: str) -> None:
    try:
        revision = parse_resource_version(text)
    except InvalidResourceVersion:
        assert not text or not (text.isascii() and text.isdecimal()) or int(text) > 2**64 - 1
    else:
        assert revision == min(int(text or "0"), REVISION_MAX)
