"""Who is counted as calling what goes away, within which bounds."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.releases.deprecated_calls import (
    OTHER,
    USER_AGENT_LENGTH_MAX,
    USER_LENGTH_MAX,
    DeprecatedApi,
    DeprecatedCalls,
)
from apiserver.meta.vocabulary import GroupVersion, Removal


def api(resource: str, removed: str = "1.38") -> DeprecatedApi:
    return DeprecatedApi(GroupVersion("g.k8s.io", "v1beta1"), resource, "1.35", Removal(removed))


WIDGETS: Final = api("widgets")
ENDLESS: Final = api("endless", "")


def counts(calls: DeprecatedCalls) -> list[tuple[str, str, str, int, float]]:
    return [
        (each.resource, caller.user, caller.user_agent, counted.count, counted.last_seen)
        for each, caller, counted in calls
    ]


def test_each_user_and_program_is_counted_by_itself() -> None:
    calls = DeprecatedCalls()
    for now, (user, agent) in enumerate([("a", "x"), ("b", "x"), ("a", "y"), ("b", "x")]):
        calls.count(WIDGETS, user, agent, now)
    assert counts(calls) == [
        ("widgets", "b", "x", 2, 3),
        ("widgets", "a", "x", 1, 0),
        ("widgets", "a", "y", 1, 2),
    ]


def test_what_goes_first_comes_first() -> None:
    """By number: 1.9 goes before 1.10, and what has no end comes last."""
    calls = DeprecatedCalls()
    for each in (ENDLESS, api("tenth", "1.10"), api("ninth", "1.9")):
        calls.count(each, "a", "", 1)
    assert [row[0] for row in counts(calls)] == ["ninth", "tenth", "endless"]


def test_long_names_are_cut() -> None:
    calls = DeprecatedCalls()
    calls.count(WIDGETS, "u" * 10_000, "a" * 10_000, 1)
    [(_, user, agent, _, _)] = counts(calls)
    assert (len(user), len(agent)) == (USER_LENGTH_MAX, USER_AGENT_LENGTH_MAX)


def test_one_user_cannot_take_the_room_of_others() -> None:
    calls = DeprecatedCalls(callers_max=10, callers_of_user_max=3)
    for number in range(100):
        calls.count(WIDGETS, "loud", f"program {number}", number)
    calls.count(WIDGETS, "quiet", "program", 100)
    assert ("widgets", "loud", OTHER, 97, 99) in counts(calls)
    assert ("widgets", "quiet", "program", 1, 100) in counts(calls)


def test_what_goes_is_told_also_when_there_is_no_room_left() -> None:
    calls = DeprecatedCalls(callers_max=2, callers_of_user_max=10)
    for user in ("a", "b", "c", "d"):
        calls.count(WIDGETS, user, "", 1)
    calls.count(ENDLESS, "e", "", 1)
    calls.count(api("late"), "f", "", 2)
    assert {row[:4] for row in counts(calls)} == {
        ("widgets", "a", "", 1),
        ("widgets", "b", "", 1),
        ("widgets", OTHER, OTHER, 2),
        ("late", OTHER, OTHER, 1),
        (OTHER, OTHER, OTHER, 1),
    }


@given(
    st.lists(
        st.tuples(st.sampled_from([WIDGETS, ENDLESS, api("late")]), st.text(max_size=2), st.text(max_size=2))
    )
)
def test_every_call_is_counted_once(asked: list[tuple[DeprecatedApi, str, str]]) -> None:
    calls = DeprecatedCalls(callers_max=5, callers_of_user_max=2)
    for each, user, agent in asked:
        calls.count(each, user, agent, 1)
    rows = counts(calls)
    assert sum(row[3] for row in rows) == len(asked)
    # A counter of other programs for each user, and one of all others for each of three APIs.
    assert len(rows) <= 5 + 3
    goes = {each.resource for each, _, _ in asked if each.removal.release}
    assert goes <= {row[0] for row in rows}
