"""Names, label keys and label values: which are valid, and the problems of others.

Rows A15, B02, B10. The rules are those of k8s.io/apimachinery, pkg/util/validation.
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta import names
from apiserver.meta.names import NameRule

RULES: Final[dict[str, NameRule]] = {
    "subdomain": names.dns_subdomain,
    "label": names.dns_label,
    "dns1035": names.dns1035_label,
    "path": names.path_segment,
    "qualified": names.qualified_name,
    "value": names.label_value,
}

TAKEN: Final = {
    "a name of one character": ("a", "subdomain label dns1035 path qualified value"),
    "a dash inside": ("a-b", "subdomain label dns1035 path qualified value"),
    "a digit at the start": ("1a", "subdomain label path qualified value"),
    "only digits": ("123", "subdomain label path qualified value"),
    "dots between parts": ("a.b-c.1", "subdomain path qualified value"),
    "253 characters": (".".join(["a" * 62] * 4) + "b", "subdomain path"),
    "63 characters": ("a" * 63, "subdomain label dns1035 path qualified value"),
    "64 characters": ("a" * 64, "subdomain path"),
    "254 characters": ("a" * 254, "path"),
    "upper case": ("Name", "path qualified value"),
    "an underscore inside": ("a_b", "path qualified value"),
    "two dots together": ("a..b", "path qualified value"),
    "a dash at the start": ("-a", "path"),
    "a dash at the end": ("a-", "path"),
    "a dot at the end": ("a.", "path"),
    "a part that ends in a dash": ("a-.b", "path qualified value"),
    "nothing": ("", "path value"),
    "a colon, as roles have": ("system:a", "path"),
    "a space": ("a b", "path"),
    "a line end, which a pattern's $ would overlook": ("a\n", "path"),
    "letters beyond ASCII": ("é", "path"),
    "digits beyond ASCII": ("a٣", "path"),
    "a slash": ("a/b", "qualified"),
    "a domain before the slash": ("example.com/My_Name.1", "qualified"),
    "253 characters before the slash": (".".join(["a" * 62] * 4) + "b/c", "qualified"),
    "254 characters before the slash": ("a" * 254 + "/c", ""),
    "64 characters after the slash": ("a/" + "c" * 64, ""),
    "upper case before the slash": ("A/b", ""),
    "an underscore before the slash": ("a_b/c", ""),
    "nothing before the slash": ("/a", ""),
    "nothing after the slash": ("a/", ""),
    "two slashes": ("a/b/c", ""),
    "a percent sign": ("a%2fb", ""),
    "the directory itself": (".", ""),
    "the directory above": ("..", ""),
}


@pytest.mark.parametrize(("text", "takers"), TAKEN.values(), ids=TAKEN)
def test_which_rules_take_a_text(text: str, takers: str) -> None:
    assert {name for name, rule in RULES.items() if not rule(text)} == set(takers.split())


SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
NAME_PART: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
EXAMPLE: Final = "'example.com/MyName'"
VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

TOLD: Final = {
    "a subdomain's characters": ("subdomain", "A", [SUBDOMAIN]),
    "a subdomain's length": ("subdomain", "a" * 254, ["must be no more than 253 characters"]),
    "both at once, the length first": (
        "subdomain",
        "A" * 254,
        ["must be no more than 253 characters", SUBDOMAIN],
    ),
    "a label's characters": ("label", "a_b", [LABEL]),
    "a label's length": ("label", "a" * 64, ["must be no more than 63 characters"]),
    "a label that would do as a subdomain": ("label", "a.b", ["must not contain dots"]),
    "a DNS-1035 label's characters": ("dns1035", "1a", [DNS1035]),
    "a path segment's characters, each": ("path", "a%/", ["may not contain '/'", "may not contain '%'"]),
    "a path segment that is a directory": ("path", "..", ["may not be '..'"]),
    "a key's characters": ("qualified", "a b", [f"name part {NAME_PART}"]),
    "a key's length": ("qualified", "a" * 64, ["name part must be no more than 63 bytes"]),
    "a key's length, in bytes": (
        "qualified",
        "é" * 32,
        ["name part must be no more than 63 bytes", f"name part {NAME_PART}"],
    ),
    "a key without a name": ("qualified", "a/", ["name part must be non-empty", f"name part {NAME_PART}"]),
    "a key without a prefix": ("qualified", "/a", ["prefix part must be non-empty"]),
    "a key's prefix": ("qualified", "A/b", [f"prefix part {SUBDOMAIN}"]),
    "a key with two slashes": (
        "qualified",
        "a/b/c",
        [f"a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. {EXAMPLE})"],
    ),
    "a value's characters": ("value", "a b", [VALUE]),
    "a value's length, in bytes": ("value", "é" * 32, ["must be no more than 63 bytes", VALUE]),
}


@pytest.mark.parametrize(("rule", "text", "problems"), TOLD.values(), ids=TOLD)
def test_the_problems_of_a_name(rule: str, text: str, problems: list[str]) -> None:
    """Clients and people match on these sentences."""
    assert RULES[rule](text) == problems


@given(st.text() | st.text(alphabet="aZ0-._/%\n", max_size=70))
def test_every_text_is_judged(text: str) -> None:
    """Never an exception, whatever comes; and each rule that is stricter refuses what a wider one does."""
    problems = {name: rule(text) for name, rule in RULES.items()}
    assert not problems["label"] or problems["dns1035"]
    assert not problems["subdomain"] or problems["label"]
    assert not problems["qualified"] or problems["label"]
    assert not problems["path"] or problems["subdomain"]
    assert not problems["value"] or problems["label"]


@given(st.text(alphabet=names.GENERATED_ALPHABET, min_size=names.GENERATED_SUFFIX_LENGTH, max_size=5))
def test_a_generated_suffix_never_spoils_a_name(suffix: str) -> None:
    """Row B02."""
    longest = "a" * names.GENERATE_NAME_PREFIX_MAX + suffix
    assert names.dns_label(longest) == []


def test_the_generated_alphabet_is_that_of_kubernetes() -> None:
    """Row B02."""
    assert set(names.GENERATED_ALPHABET) == set("bcdfghjklmnpqrstvwxz2456789")
    assert (names.GENERATED_SUFFIX_LENGTH, names.GENERATE_NAME_PREFIX_MAX) == (5, 58)


@given(st.text(max_size=400), st.integers(min_value=1, max_value=3))
def test_a_rule_that_remembers_says_the_same_each_time(text: str, times: int) -> None:
    """Whatever was done to what it said before."""

    def rule(text: str) -> list[str]:
        return [f"{text} is wrong"] if text else []

    remembering = names.cached(rule)
    for _ in range(times):
        said = remembering(text)
        assert said == rule(text)
        said.append("spoilt")


def test_a_cached_rule_caches_nothing_longer_than_a_key() -> None:
    judged: list[str] = []

    @names.cached
    def rule(text: str) -> list[str]:
        judged.append(text)
        return []

    key, longer = f"{'p' * 253}/{'n' * 63}", "x" * 10_000
    for text in (key, longer) * 2:
        assert rule(text) == []
    assert judged == [key, longer, longer]
