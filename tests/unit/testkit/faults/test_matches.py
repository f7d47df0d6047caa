"""Which requests a fault is for."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.testkit.faults import InvalidFault, Match, RequestAttributes
from apiserver.testkit.faults.matches import OWN_USER_AGENT, is_like

UPDATE: Final = RequestAttributes(
    "update", "apps", "deployments", "", "shop", "web-1", "system:serviceaccount:shop:op", "kopf/1.40"
)
STATUS: Final = UPDATE._replace(subresource="status")
VERSION: Final = RequestAttributes("get", "", "", "", "", "", "alice", "curl/8")

CASES: Final[dict[str, tuple[Match, RequestAttributes, bool]]] = {
    "nothing is said": (Match(), UPDATE, True),
    "of a path of no resource": (Match(), VERSION, True),
    "the verb": (Match(verb="update"), UPDATE, True),
    "another verb": (Match(verb="patch"), UPDATE, False),
    "the resource": (Match(resource="deployments"), UPDATE, True),
    "another resource": (Match(resource="pods"), UPDATE, False),
    "a resource, and a path of none": (Match(resource="pods"), VERSION, False),
    "a resource is not its subresource": (Match(resource="deployments"), STATUS, False),
    "the subresource": (Match(resource="deployments", subresource="status"), STATUS, True),
    "the subresource of any resource": (Match(subresource="status"), STATUS, True),
    "no subresource": (Match(subresource=""), STATUS, False),
    "any subresource and none": (Match(resource="deployments", subresource="*"), UPDATE, True),
    "any resource with any subresource": (Match(verb="update"), STATUS, True),
    "the group": (Match(group="apps"), UPDATE, True),
    "the core group": (Match(group=""), UPDATE, False),
    "the namespace": (Match(namespace="shop"), UPDATE, True),
    "another namespace": (Match(namespace="sho"), UPDATE, False),
    "a pattern of names": (Match(name="web-*"), UPDATE, True),
    "a pattern of other names": (Match(name="db-*"), UPDATE, False),
    "the user": (Match(user="system:serviceaccount:shop:*"), UPDATE, True),
    "another user": (Match(user="alice"), UPDATE, False),
    "the program": (Match(user_agent="kopf/*"), UPDATE, True),
    "another program": (Match(user_agent="kubectl/*"), UPDATE, False),
    "all but one is as said": (Match(verb="update", resource="deployments", name="x"), UPDATE, False),
    "the test itself": (Match(), UPDATE._replace(user_agent=OWN_USER_AGENT), False),
    "the test itself, if it is named": (
        Match(user_agent=OWN_USER_AGENT),
        UPDATE._replace(user_agent=OWN_USER_AGENT),
        True,
    ),
}


@pytest.mark.parametrize(("match", "request_", "is_included"), CASES.values(), ids=CASES)
def test_what_a_match_includes(match: Match, request_: RequestAttributes, is_included: bool) -> None:
    assert match.includes(request_) is is_included


NUMBERS: Final = {
    "all": (Match(), [1, 2, 3, 4, 5, 6]),
    "the third": (Match(nth=3), [3]),
    "each third": (Match(every=3), [3, 6]),
    "each": (Match(every=1), [1, 2, 3, 4, 5, 6]),
}


@pytest.mark.parametrize(("match", "numbers"), NUMBERS.values(), ids=NUMBERS)
def test_which_of_them_by_their_order(match: Match, numbers: list[int]) -> None:
    assert [number for number in range(1, 7) if match.includes_number(number)] == numbers


REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a verb that there is not": ({"verb": "updat"}, "match.verb: 'updat' is not one of get, list, watch, "),
    "a resource with its group": ({"resource": "deployments.apps"}, "match.resource: 'deployments.apps' is"),
    "a resource with a subresource": ({"resource": "pods/status"}, "match.resource: 'pods/status' is not"),
    "a long text": ({"user": "u" * 513}, "match.user: is longer than 512 characters"),
    "before the first": ({"nth": -1}, "match.nth: -1 is not between 1 and"),
    "the one before the first": ({"nth": 0}, "match.nth: 0 is not between 1 and"),
    "none of so many": ({"every": 0}, "match.every: 0 is not between 1 and"),
    "both": ({"nth": 1, "every": 1}, "match.every: cannot be combined with nth"),
}


@pytest.mark.parametrize(("said", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_match(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidFault, match=re.escape(message)):
        Match(**said)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_patterns_are_as_those_of_regular_expressions(pattern: str, text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL)
    assert is_like(text, pattern) is (expected is not None)
