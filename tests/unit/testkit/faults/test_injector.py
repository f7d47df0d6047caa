"""The faults that there are, how often they are had, and when they end."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.testkit.faults import (
    Answer,
    CutConnection,
    Delay,
    Effect,
    EndWatch,
    ExpireToken,
    FaultInjector,
    HoldEvents,
    InvalidFault,
    Match,
    NotReady,
    RefuseTls,
    RequestAttributes,
    TooManyFaults,
)
from apiserver.testkit.faults.errors import FAULTS_MAX

GET: Final = RequestAttributes("get", "", "pods", "", "default", "a", "alice", "curl/8")


@pytest.fixture
def injector() -> FaultInjector:
    return FaultInjector(lambda: 0.0)


def had(injector: FaultInjector, count: int) -> list[int]:
    """Returns which of so many requests have a fault, from 1 on."""
    return [
        number for number in range(1, count + 1) for fault in injector.reserve(GET) if fault.hit_reserved()
    ]


COUNTED: Final[dict[str, tuple[Match, int | None, list[int]]]] = {
    "always": (Match(), None, [1, 2, 3, 4, 5]),
    "twice": (Match(), 2, [1, 2]),
    "the third": (Match(nth=3), None, [3]),
    "each second, once": (Match(every=2), 1, [2]),
    "not of others": (Match(verb="list"), None, []),
}


@pytest.mark.parametrize(("match", "times", "requests"), COUNTED.values(), ids=COUNTED)
def test_how_often(injector: FaultInjector, match: Match, times: int | None, requests: list[int]) -> None:
    fault = injector.inject(Answer(500), match, times)
    assert had(injector, 5) == requests
    assert fault.hits == len(requests)


def test_delays_come_first_and_one_end_comes_last(injector: FaultInjector) -> None:
    first, later = injector.inject(Answer(503), times=1), injector.inject(CutConnection())
    delays = [injector.inject(Delay(1)), injector.inject(Delay(2))]
    assert injector.reserve(GET) == [*delays, first]
    assert injector.reserve(GET) == [*delays, later]


def test_which_request_has_a_fault_does_not_depend_on_how_long_others_wait(injector: FaultInjector) -> None:
    injector.inject(Delay(1), times=1)
    of_first, of_second = injector.inject(Answer(500), Match(nth=1)), injector.inject(Answer(503), times=1)
    waits, goes_on = injector.reserve(GET), injector.reserve(GET)
    assert goes_on == [of_second]
    assert waits[1:] == [of_first]


def test_what_is_reserved_is_nobody_elses_and_happens_unless_it_is_cleared(injector: FaultInjector) -> None:
    fault = injector.inject(Answer(500), times=1)
    assert fault.reserve()
    assert (fault.is_active, fault.reserve(), fault.hits) == (False, False, 0)
    fault.release()
    assert (fault.is_active, fault.reserve()) == (True, True)
    injector.clear_all()
    assert (fault.hit_reserved(), fault.hits) == (False, 0)


def test_only_what_matches_is_counted(injector: FaultInjector) -> None:
    fault = injector.inject(Answer(500), Match(verb="get", nth=2))
    for verb, is_selected in (("get", False), ("list", False), ("get", True)):
        assert fault.selects(GET._replace(verb=verb)) is is_selected


def test_one_that_is_cleared_is_over(injector: FaultInjector) -> None:
    first, second = injector.inject(Answer(500)), injector.inject(Delay(1))
    assert injector.clear(first.id) is first
    assert injector.clear(first.id) is None
    assert (first.is_cleared, first.hit(), first.selects(GET)) == (True, False, False)
    assert list(injector) == [second]
    assert injector.clear_all() == [second]
    assert (list(injector), injector.of_requests) == ([], ())
    assert injector.inject(Answer(500)).id == 3, "numbers are not used again"


def test_changes_are_told(injector: FaultInjector) -> None:
    told: list[int] = []
    injector.subscribe(changed := lambda: told.append(len(list(injector))))
    injector.inject(HoldEvents())
    injector.clear_all()
    assert told == [1, 0]
    injector.unsubscribe(changed)
    injector.inject(HoldEvents())
    assert told == [1, 0]


SORTED: Final[dict[str, tuple[Effect, bool]]] = {
    "an answer": (Answer(500), False),
    "a lost connection": (CutConnection("after-write"), False),
    "one that is lost in an event": (CutConnection("in-event"), True),
    "an end": (EndWatch(), True),
}


@pytest.mark.parametrize(("effect", "is_of_watches"), SORTED.values(), ids=SORTED)
def test_requests_and_watches(injector: FaultInjector, effect: Effect, is_of_watches: bool) -> None:
    injector.inject(effect)
    assert (len(injector.of_requests), len(injector.of_watches)) == (not is_of_watches, is_of_watches)


def test_readiness() -> None:
    now = 0.0
    injector = FaultInjector(lambda: now)
    assert injector.is_ready()
    fault = injector.inject(NotReady(seconds=5))
    assert not injector.is_ready()
    now = 5
    assert injector.is_ready()
    assert fault.hits == 1


def test_handshakes(injector: FaultInjector) -> None:
    injector.inject(RefuseTls(), times=2)
    assert [injector.refuses_handshake() for _ in range(3)] == [True, True, False]
    assert injector.active_count == 0


def test_a_token_that_is_expired_stays_so_and_a_new_one_is_let_in(injector: FaultInjector) -> None:
    fault = injector.inject(ExpireToken(), Match(user="alice"), times=1)
    assert not injector.expires("b", "bob", "")
    assert [injector.expires(token, "alice", "") for token in ("old", "new", "old")] == [True, False, True]
    assert fault.hits == 1
    injector.clear_all()
    assert not fault.expires("old")


def test_all_tokens(injector: FaultInjector) -> None:
    injector.inject(ExpireToken())
    assert [injector.expires(token, "alice", "") for token in ("a", "b")] == [True, True]


UNFITTING: Final[dict[str, tuple[Effect, dict[str, Any], int | None, str]]] = {
    "the server has no verb": (NotReady(), {"verb": "get"}, None, "match: NotReady applies to the server"),
    "nor have handshakes users": (RefuseTls(), {"user": "a"}, None, "match: RefuseTls applies to the server"),
    "tokens are of users": (ExpireToken(), {"verb": "get"}, None, "match: ExpireToken applies to users"),
    "a list is no watch": (
        EndWatch(),
        {"verb": "list"},
        None,
        "match.verb: EndWatch applies to watches, not to",
    ),
    "never": (Answer(500), {}, 0, "times: 0 is not between 1 and"),
}


@pytest.mark.parametrize(("effect", "match", "times", "message"), UNFITTING.values(), ids=UNFITTING)
def test_what_does_not_fit(
    injector: FaultInjector, effect: Effect, match: dict[str, Any], times: int | None, message: str
) -> None:
    with pytest.raises(InvalidFault, match=message):
        injector.inject(effect, Match(**match), times)


def test_there_is_a_bound(injector: FaultInjector) -> None:
    for _ in range(FAULTS_MAX):
        injector.inject(NotReady())
    with pytest.raises(TooManyFaults, match="1000 faults already"):
        injector.inject(NotReady())


def test_its_text_says_what_is_not_as_by_default(injector: FaultInjector) -> None:
    fault = injector.inject(Answer(409), Match(verb="update"), 2)
    assert str(fault) == "fault 1: Answer(code=409), Match(verb='update'), times=2"
