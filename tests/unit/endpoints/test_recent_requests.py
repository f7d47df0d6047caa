"""The last slow, refused and failed requests: which are kept, and within which bounds."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.endpoints.recent_requests import (
    KEPT_BYTES_MAX,
    KEPT_MAX,
    NAME_LENGTH_MAX,
    PARTS_MAX,
    TEXT_LENGTH_MAX,
    Outcome,
    RecentRequest,
    RecentRequests,
)
from apiserver.endpoints.request_log import SLOW_S, RequestLog
from apiserver.meta.vocabulary import ANONYMOUS, UNAUTHENTICATED, UserInfo
from tests.unit.endpoints.handlers.calls import call

PODS: Final = "/api/v1/namespaces/default/pods"
WATCH: Final = "/api/v1/watch/pods"


def kept(recent: RecentRequests) -> list[RecentRequest]:
    return list(recent.newest_first())


KEPT: Final[dict[str, tuple[str, int, float, float, Outcome | None]]] = {
    # path, status, seconds, of which the server made the client wait, outcome
    "a quick success": (PODS, 200, 0.1, 0, None),
    "a slow success": (PODS, 200, 0.6, 0, Outcome.SLOW),
    "a slow one whose client has left": (PODS, 0, 0.6, 0, Outcome.SLOW),
    "a slow one that found nothing": (PODS, 404, 0.6, 0, Outcome.SLOW),
    "one that was delayed on purpose": (PODS, 200, 0.6, 0.5, None),
    "a watch lasts": (WATCH, 200, 60, 0, None),
    "a watch is refused": (WATCH, 403, 0.1, 0, Outcome.REFUSED),
    "nothing is found": (PODS, 404, 0.1, 0, None),
    "a conflict": (PODS, 409, 0.1, 0, None),
    "an expired revision": (PODS, 410, 0.1, 0, None),
    **{f"refused with {code}": (PODS, code, 0.1, 0, Outcome.REFUSED) for code in (400, 401, 403, 406)},
    **{f"refused with {code}": (PODS, code, 0.1, 0, Outcome.REFUSED) for code in (413, 415, 422, 429)},
    **{f"failed with {code}": (PODS, code, 0.1, 0, Outcome.FAILED) for code in (500, 503, 504)},
}


@pytest.mark.parametrize(("target", "status", "seconds", "delayed_s", "outcome"), KEPT.values(), ids=KEPT)
def test_which_requests_are_kept(
    target: str, status: int, seconds: float, delayed_s: float, outcome: Outcome | None
) -> None:
    recent = RecentRequests(lambda: 7.0)
    ended = call("GET", target)
    ended.status, ended.trace.delayed_s = status, delayed_s
    ended.trace.began -= seconds
    assert seconds < SLOW_S or seconds - delayed_s >= SLOW_S or outcome is None
    RequestLog(recent).ended(ended)
    assert [each.outcome for each in kept(recent)] == ([] if outcome is None else [outcome])


def test_the_newest_come_first_whatever_their_outcome() -> None:
    recent = RecentRequests(lambda: 7.0)
    for status in (403, 500, 200, 403):
        ended = call("GET", PODS)
        ended.status = status
        recent.add(ended, 1.0)
    assert [(each.number, each.status) for each in kept(recent)] == [(4, 403), (3, 200), (2, 500), (1, 403)]
    assert recent.counts == {Outcome.SLOW: 1, Outcome.REFUSED: 2, Outcome.FAILED: 1}


def test_a_flood_of_one_outcome_or_of_unauthenticated_clients_displaces_no_others() -> None:
    recent = RecentRequests(lambda: 7.0)
    unauthenticated = [UserInfo(ANONYMOUS, (UNAUTHENTICATED,)), None]
    for status, user in [(200, UserInfo("alice")), (403, UserInfo("bob")), (500, UserInfo("carol"))]:
        ended = call("GET", PODS)
        ended.status, ended.known_user = status, user
        recent.add(ended, 1.0)
    for number in range(3 * KEPT_MAX):
        ended = call("GET", PODS)
        ended.status, ended.known_user = 401, unauthenticated[number % 2]
        recent.add(ended, 0.0)
    found = kept(recent)
    assert len(found) == KEPT_MAX + 3
    assert [each.user for each in found[-3:]] == ["carol", "bob", "alice"]


def test_texts_of_clients_are_cut_and_bounded_together() -> None:
    recent = RecentRequests(lambda: 7.0)
    long = "\N{SNOWMAN}" * 5_000
    for _ in range(KEPT_MAX):
        ended = call("GET", f"{PODS}/{'a' * 5_000}", user_agent=long)
        ended.status, ended.known_user, ended.error = 400, UserInfo(long), ("BadRequest", long)
        ended.trace.parts = [("webhook", long, 0, 1, False)] * 50
        recent.add(ended, 2.0)
    found = kept(recent)
    assert 10 < len(found) < KEPT_MAX
    assert sum(each.size_bytes for each in found) <= KEPT_BYTES_MAX
    last = found[0]
    assert len(last.path) == len(last.message) == TEXT_LENGTH_MAX + 1
    assert len(last.user) == len(last.user_agent) == len(last.parts[0].detail) == NAME_LENGTH_MAX + 1
    assert (len(last.parts), last.omitted, last.other_s) == (PARTS_MAX, 50 - PARTS_MAX, 1.0)


QUERIES: Final = {
    "a selector": ("labelSelector=app%3Dx", "labelSelector=app%3Dx"),
    "a credential": ("access_token=geheim&limit=5", "access_token=REDACTED&limit=5"),
    "a credential in an escaped name": ("acc%65ss_token=geheim", "acc%65ss_token=REDACTED"),
    "one that is cut off": (f"a={'x' * 2 * TEXT_LENGTH_MAX}&token=geheim", None),
}


@pytest.mark.parametrize(("query", "expected"), QUERIES.values(), ids=QUERIES)
def test_no_credentials_are_kept(query: str, expected: str | None) -> None:
    recent = RecentRequests(lambda: 7.0)
    ended = call("GET", f"{PODS}?{query}")
    ended.status = 403
    recent.add(ended, 0.0)
    (found,) = kept(recent)
    assert "geheim" not in found.path
    if expected is not None:
        assert found.path == f"{PODS}?{expected}"
