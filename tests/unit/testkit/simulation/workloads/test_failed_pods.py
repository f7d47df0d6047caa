"""How long a failed pod of a DaemonSet stays, before there is another one on its node."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.testkit.simulation.workloads.failed_pods import FORGET_S, PLACES_MAX, DaemonSetNode, FailedPods

NOW: Final = 1_000.0
PLACE: Final = DaemonSetNode("u", 1, "a")


def test_the_first_goes_at_once_and_each_delay_is_twice_the_one_before() -> None:
    failed, now, waits = FailedPods(), NOW, []
    for _ in range(13):
        wait_s = failed.wait_s(PLACE, now)
        waits.append(round(wait_s, 3))
        now += wait_s
        failed.count(PLACE, now)
    assert waits == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 90, 90]


def test_what_has_not_failed_for_long_begins_anew() -> None:
    failed = FailedPods()
    for _ in range(5):
        failed.count(PLACE, NOW)
    later = NOW + FORGET_S + 1
    assert failed.wait_s(PLACE, later) == 0
    failed.count(PLACE, later)
    assert failed.wait_s(PLACE, later) == pytest.approx(0.1)


def test_other_places_do_not_wait() -> None:
    failed = FailedPods()
    failed.count(PLACE, NOW)
    for other in (PLACE._replace(uid="v"), PLACE._replace(generation=2), PLACE._replace(node="b")):
        assert failed.wait_s(other, NOW) == 0


def test_no_more_places_are_remembered_than_are_allowed() -> None:
    failed = FailedPods()
    for number in range(PLACES_MAX + 1):
        failed.count(PLACE._replace(node=str(number)), NOW)
    assert failed.wait_s(PLACE._replace(node="0"), NOW) == 0
    assert failed.wait_s(PLACE._replace(node="1"), NOW) > 0
