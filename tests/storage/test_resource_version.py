"""resourceVersion text as Kubernetes reads it: Go's strconv.ParseUint(text, 10, 64), and etcd's int64 behind.

Row J11; the rule is pkg/storage/api_object_versioner.go, ParseResourceVersion.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.resource_version import REVISION_MAX, InvalidResourceVersion, parse_resource_version

READ = {
    "no text stands for no version": ("", 0),
    "zero": ("0", 0),
    "a revision": ("42", 42),
    "leading zeros count for nothing": ("007", 7),
    "however many they are": ("0" * 30 + "7", 7),
    "the largest revision": (str(2**63 - 1), 2**63 - 1),
    "what only a uint64 holds is never reached": (str(2**63), REVISION_MAX),
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


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_version(text: str, why: str) -> None:
    with pytest.raises(InvalidResourceVersion, match=r"^strconv\.ParseUint: parsing ") as refused:
        parse_resource_version(text)
    assert str(refused.value).endswith(f": {why}")


# What strconv.Quote makes of the text: https://pkg.go.dev/strconv#Quote
QUOTED = {
    "letters as they are": ("abc", '"abc"'),
    "letters of any script as they are": ("é", '"é"'),
    "a quote is escaped": ('a"b', r'"a\"b"'),
    "a backslash is escaped": ("a\\b", r'"a\\b"'),
    "a line end is escaped": ("1\n", r'"1\n"'),
    "a control character is escaped": ("1\x00", r'"1\x00"'),
    "what cannot be seen is escaped": ("1\u200b\U000e0001", r'"1\u200b\U000e0001"'),
    "what is not of the first plane is as it is": ("😀", '"😀"'),
}


@pytest.mark.parametrize(("text", "quoted"), QUOTED.values(), ids=QUOTED)
def test_the_message_quotes_the_text_as_go_does(text: str, quoted: str) -> None:
    with pytest.raises(InvalidResourceVersion) as refused:
        parse_resource_version(text)
    assert str(refused.value) == f"strconv.ParseUint: parsing {quoted}: invalid syntax"


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
