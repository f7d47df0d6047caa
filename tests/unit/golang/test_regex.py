"""Regular expressions: Go's meaning, Go's errors, linear time. Rows E05, R12; golang.org/s/re2syntax."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.golang.regex import InvalidPattern, TooMuchWork, compilation_cost, compile_pattern
from apiserver.golang.regex_size import expanded_size, with_repetitions_apart

SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

# What Go means, where Python's `re` would mean something else.
MEANINGS = {
    "$ is the end of the text, not before a last newline": (r"^a$", "a\n", False),
    r"\z is the end of the text": (r"a\z", "a", True),
    r"\d is ASCII": (r"^\d$", "٣", False),
    r"\w is ASCII": (r"^\w$", "é", False),
    r"\s is no vertical tab": (r"^\s$", "\v", False),
    r"\s is no no-break space": (r"^\s$", "\u00a0", False),
    r"\b is between ASCII words and the rest": (r"a\b", "aé", True),
    "a dot is no newline": (r"^.$", "\n", False),
    "a dot is one code point": (r"^.$", "😀", True),
    "a negated class takes newlines": (r"^[^a]$", "\n", True),
    "a negated class takes what is not ASCII": (r"^[^a]$", "é", True),
    "a caret belongs to its branch alone": (r"^a|b", "xb", True),
    "case folding is Unicode's": (r"(?i)^k$", "\u212a", True),
    "classes of Unicode": (r"^\p{Greek}+$", "αβγ", True),
    "POSIX classes": (r"^[[:alpha:]]+$", "abc", True),
    "a brace that counts nothing is itself": (r"^a{,2}$", "a{,2}", True),
    "an ampersand in a class is itself": (r"^[a&&b]+$", "a&b", True),
    "a bracket in a class is itself": (r"^[[]$", "[", True),
    r"what \Q quotes is itself": (r"^\Qa.b\E$", "a.b", True),
    r"\C may be quoted": (r"^\Q\C\E$", r"\C", True),
    "names of Kubernetes": (SUBDOMAIN, "a-b.c", True),
    "no names of Kubernetes": (SUBDOMAIN, "a-", False),
    "an empty pattern is everywhere": (r"", "", True),
    "half a character of UTF-16 is no letter": (r"^a$", "\ud800", False),
    "half a character of UTF-16 is one": (r"^.$", "\ud800", True),
}  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "found"), MEANINGS.values(), ids=MEANINGS)
def test_patterns_match_as_in_go(pattern: str, text: str, found: bool) -> None:
    assert compile_pattern(pattern).search(text) is found


# go/src/regexp/syntax/parse.go
WRONG = {
    "[a": "missing closing ]: `[a`",
    "(a": "missing closing ): `(a`",
    "a)": "unexpected ): `a)`",
    "*": "missing argument to repetition operator: `*`",
    "(+a)": "missing argument to repetition operator: `+`",
    "a**": "invalid nested repetition operator: `**`",
    "a{2}{3}": "invalid nested repetition operator: `{2}{3}`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "(a{100}){11}": "invalid repeat count: `{11}`",
    "a{2,1}": "invalid repeat count: `{2,1}`",
    r"\q": r"invalid escape sequence: `\q`",
    r"a\C": r"invalid escape sequence: `\C`",
    r"\1": r"invalid escape sequence: `\1`",
    "a\\": "trailing backslash at end of expression: ``",
    "[z-a]": "invalid character class range: `z-a`",
    "[[:foo:]]": "invalid character class range: `[:foo:]`",
    r"\p{Foo}": r"invalid character class range: `\p{Foo}`",
    "(?P<n": "invalid named capture: `(?P<n`",
    "(?=a)": "invalid or unsupported Perl syntax: `(?=`",
    "é(?x)": "invalid or unsupported Perl syntax: `(?x`",
    "\ud800": "invalid UTF-8: `\ud800`",
}


@pytest.mark.parametrize(("pattern", "message"), WRONG.items(), ids=map(ascii, WRONG))
def test_errors_are_gos(pattern: str, message: str) -> None:
    with pytest.raises(InvalidPattern) as raised:
        compile_pattern(pattern)
    assert str(raised.value) == f"error parsing regexp: {message}"


def test_a_program_has_a_largest_size() -> None:
    with pytest.raises(InvalidPattern, match="expression too large"):
        compile_pattern(r"\pL{1000}")
    assert compile_pattern(r"^\pL{1,253}$").search("é" * 253)


# Patterns of which RE2 takes seconds to minutes to compile, or to find what is wrong, and what the shorter of
# the two have in them. The first is allowed: it takes milliseconds once RE2 does not join its parts.
SLOW_TO_COMPILE = {
    "one character, counted again and again": ("a{0,100}" * 300, ""),
    "the same in groups": ("(?:(a{0,100}))" * 300, ""),
    "optional characters in a row": ("a?" * 16_000, ""),
    "either case": ("(?i)" + "k{0,1000}" * 30, ""),
    "groups with flags": ("(?i:(?P<n>k{0,1000}))", ""),
    "more copies than are allowed": ("a{0,1000}" * 1_000, "expression too large"),
    "copies in copies": ("((a{0,10}b){0,10}c){0,10}" * 500, "expression too large"),
    "too long": ("a" * 40_000 + "é", "expression too large"),
    "classes without an end": ("[[:a:" * 20_000, "expression too large"),
    "groups without an end": ("(" * 30_000, "missing closing )"),
    "a last quantifier of two": ("a{1000}" * 3 + "a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
    "wrong as a whole": ("(a{1000}a{1000}", "missing closing ): `(a{1000}a{1000}`"),
}


@pytest.mark.parametrize(("pattern", "message"), SLOW_TO_COMPILE.values(), ids=SLOW_TO_COMPILE)
def test_compiling_is_bounded(pattern: str, message: str) -> None:
    began = time.thread_time()
    with pytest.raises(InvalidPattern, match=re.escape(message)) if message else nullcontext():
        compile_pattern(pattern)
    assert time.thread_time() - began < 1.0


# Each takes quadratic or exponential time where one way is tried after another.
EVIL = {
    "a repetition in a repetition": (r"^(a+)+$", "a" * 200_000 + "!"),
    "branches that overlap": (r"^(a|aa|b)*$", "a" * 200_000 + "!"),
    "optional parts in a row": (r"^(a?){30}a{30}$", "a" * 200_000),
    "two repetitions of one": (r"^[a-z]*[a-y]*$", "a" * 200_000 + "!"),
    "two stars around a word": (r"^.*a.*b$", "a" * 200_000),
    "tried from everywhere": (r"a+b", "a" * 200_000),
    "counted, tried from everywhere": (r"a{0,1000}b", "a" * 50_000),
    "space at the end": (r"\s+$", " " * 200_000 + "x"),
    "counted in a repetition": (r"^(a{1,30}){1,30}$", "a" * 10_000 + "!"),
    "labels that are not told apart": (r"^([a-z-]+-?)*$", "a-" * 50_000 + "!"),
}


@pytest.mark.parametrize(("pattern", "text"), EVIL.values(), ids=EVIL)
def test_time_is_linear(pattern: str, text: str) -> None:
    """It ends at all: any other way takes minutes to centuries."""
    regex = compile_pattern(pattern)
    assert regex.search(text) is False
    assert regex.find(text) is None


# go/src/regexp/find_test.go: rules of FindAll.
FOUND = {
    "matches do not overlap": ("aa", "aaaaa", -1, ["aa", "aa"]),
    "empty ones too": ("a*", "baac", -1, ["", "aa", ""]),
    "no more than the limit": ("[0-9]", "123", 2, ["1", "2"]),
    "a limit of none": ("[0-9]", "123", 0, []),
    "none": ("x", "abc", -1, []),
    "whole matches, not groups": ("(a)(b)", "abab", -1, ["ab", "ab"]),
    "what comes first in the pattern": ("a|ab", "ab", -1, ["a"]),
    "code points, not bytes": ("(?i)É.", "éa-ÉB", -1, ["éa", "ÉB"]),
    "empty ones between code points": ("(?i)", "éa", -1, ["", "", ""]),
    "an empty one is not tried again": ("a?|.", "1", -1, ["", ""]),
    "as little as may be": ("a+?", "aaa", -1, ["a", "a", "a"]),
    "half a character of UTF-16 is one": ("[ab]", "a\ud800b", -1, ["a", "b"]),
}


@pytest.mark.parametrize(("pattern", "text", "limit", "found"), FOUND.values(), ids=FOUND)
def test_all_matches(pattern: str, text: str, limit: int, found: list[str]) -> None:
    regex = compile_pattern(pattern)
    assert regex.find_all(text, limit) == found
    if limit < 0:
        assert regex.find(text) == (found[0] if found else None)


def test_to_find_all_matches_may_not_take_too_long() -> None:
    regex = compile_pattern("a*b|a")  # looks at all of the rest to find each
    with pytest.raises(TooMuchWork):
        regex.find_all("a" * 3_000_000)
    assert regex.find_all("a" * 3_000_000, 2) == ["a", "a"]


_ATOMS = st.sampled_from(
    ["a", "b", "c", r"\.", ".", "[ab]", "[^a]", "[a-c-]", "[]b]", r"\d", r"\W", r"[\s\w]", r"\b", "^", "$"]
)  # fmt: skip
_QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "{1}", "*?"])
_PATTERNS = st.recursive(
    st.builds("{}{}".format, _ATOMS, _QUANTIFIERS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.builds("({}){}".format, inner, _QUANTIFIERS),
        st.builds("^(?:{}){}$".format, inner, _QUANTIFIERS),
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(_PATTERNS, st.lists(st.text("abc.1 \n\v-é", max_size=12), min_size=1, max_size=8))
def test_every_way_to_match_says_the_same(pattern: str, texts: list[str]) -> None:
    try:
        oracle = re2.compile(pattern)
    except re2.error:
        with pytest.raises(InvalidPattern):
            compile_pattern(pattern)
        return
    regex = compile_pattern(pattern)
    for text in texts:
        assert regex.search(text) == (oracle.search(text) is not None)
        spans = [match.span() for match in oracle.finditer(text)]
        ends = [-1, *(end for _, end in spans)]
        assert regex.spans(text) == [
            s for s, before in zip(spans, ends, strict=False) if s != (before, before)
        ]


SIZES = {
    r"abc": 3,
    r"a{3}": 3,
    r"a{2,5}?b": 6,
    r"a{7,}": 7,
    r"(ab){0,10}": 20,
    r"(?:a(b{3}c){2})": 9,
    r"(?P<n>a|b)*": 3,
    r"(?i)a": 2,
    r"[]{5}]{3}": 12,
    r"\Q{9}\E{2}": 14,
    r"\x{1F600}{4}": 4,
    r"\{4}": 3,
    r"a{,9}": 5,
    r"a{12345}": 8,
    r")a{2}": 3,
}


COSTS = {
    r"a{1,100}": 0,
    r"[^a]{1,1000}": 3_000,
    # A millisecond each.
    r"\pL": 0,
    r"\pL{1,10}": 3_250,
    r"[\p{L}]{10}": 3_290,
    r"\pL{1,300}": 126_500,
}


@pytest.mark.parametrize(("pattern", "cost"), COSTS.items(), ids=COSTS)
def test_a_pattern_costs_what_compiling_it_takes(pattern: str, cost: int) -> None:
    assert compilation_cost(pattern) == cost


@pytest.mark.parametrize(("pattern", "size"), SIZES.items(), ids=SIZES)
def test_the_size_of_a_pattern_counts_its_copies(pattern: str, size: int) -> None:
    assert expanded_size(pattern, 1_000) == size


@settings(max_examples=200, deadline=None)
@given(_PATTERNS, st.lists(st.text("abc.1 \n\v-é", max_size=12), min_size=1, max_size=8))
def test_repetitions_apart_mean_the_same(pattern: str, texts: list[str]) -> None:
    try:
        oracle = re2.compile(pattern)
    except re2.error:
        return
    apart = re2.compile(with_repetitions_apart(pattern))
    for text in texts:
        assert [m.span() for m in apart.finditer(text)] == [m.span() for m in oracle.finditer(text)]
