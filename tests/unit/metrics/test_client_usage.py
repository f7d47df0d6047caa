"""Requests are counted by client over the last minutes, in bounded memory."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from apiserver.metrics.client_usage import OTHER, WINDOW_S, ClientUsage, Source, Usage

LISTS: Final = Source("alice", "kubectl", "list", "", "pods", "")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_what_requests_take_is_added_up() -> None:
    usage = ClientUsage(Clock())
    for status in (200, 401, 403, 404, 409, 429, 500, 503):
        usage.count(LISTS, 0.25, 100, status)
    assert usage.read()[1] == {LISTS: Usage(requests=8, seconds=2.0, sent_bytes=800, refused=3, failed=2)}


def test_the_counts_are_those_of_the_last_one_to_two_minutes() -> None:
    clock = Clock()
    usage = ClientUsage(clock)
    counts: dict[float, tuple[float, int]] = {}
    for second in map(float, range(0, 400, 10)):
        clock.now = 1_000.0 + second
        usage.count(LISTS, 0.0, 0, 200)
        seconds, found = usage.read()
        counts[second] = (seconds, found[LISTS].requests)
    assert counts[0] == (0.0, 1)
    assert counts[50] == (50.0, 6)
    assert counts[110] == (110.0, 12)
    for second, (seconds, requests) in counts.items():
        if second >= WINDOW_S:
            assert WINDOW_S <= seconds < 2 * WINDOW_S
        assert requests == seconds / 10 + 1


def test_what_is_old_is_forgotten() -> None:
    clock = Clock()
    usage = ClientUsage(clock)
    usage.count(LISTS, 0.0, 0, 200)
    clock.now += 10 * WINDOW_S
    assert usage.read() == (0.0, {})


AGENTS_MAX: Final = 40


@given(
    st.lists(
        st.builds(
            lambda user, agent: LISTS._replace(user=f"user-{user}", user_agent=f"agent-{agent}"),
            st.integers(0, 30),
            st.integers(0, 500),
        ),
        max_size=400,
    )
)
def test_however_many_sources_there_are_no_request_is_lost_and_memory_is_bounded(
    sources: list[Source],
) -> None:
    usage = ClientUsage(Clock(), sources_max=AGENTS_MAX)
    for source in sources:
        usage.count(source, 1.0, 10, 200)
        assert len(usage.read()[1]) <= AGENTS_MAX
    total = Usage()
    for each in usage.read()[1].values():
        total.add(each)
    assert total == Usage(requests=len(sources), seconds=float(len(sources)), sent_bytes=10 * len(sources))


def test_a_client_that_invents_user_agents_is_seen_and_hides_no_other() -> None:
    usage = ClientUsage(Clock(), sources_max=AGENTS_MAX)
    for number in range(10_000):
        usage.count(LISTS._replace(user="mallory", user_agent=f"agent-{number}"), 0.001, 0, 200)
        if number % 10 == 0:
            usage.count(LISTS, 0.001, 0, 200)
    found = usage.read()[1]
    assert found[LISTS].requests == 1_000
    assert found[Source("mallory", OTHER, OTHER, "", OTHER, "")].requests > 9_900


def test_many_users_are_counted_together() -> None:
    usage = ClientUsage(Clock(), sources_max=AGENTS_MAX)
    for number in range(1_000):
        usage.count(LISTS._replace(user=f"user-{number}"), 0.001, 0, 200)
    found = usage.read()[1]
    assert found[Source(OTHER, OTHER, OTHER, "", OTHER, "")].requests > 900
