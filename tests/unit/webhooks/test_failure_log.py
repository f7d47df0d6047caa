"""A webhook that is down is logged at once, then each 30 seconds, and when it responds again."""

from __future__ import annotations

import logging
from typing import Final

import pytest

from apiserver.webhooks.failure_log import INTERVAL_S, WEBHOOKS_MAX, FailureLog

LOG: Final = logging.getLogger("tests.failure_log")
FAILS, RESPONDS = "fails", "responds"
# When a webhook is called, what comes of it, and what is logged.
CALLS: Final = {
    "an outage": [
        (0.0, RESPONDS, ""),
        (100.0, FAILS, "refused"),
        (101.0, FAILS, ""),
        (129.0, FAILS, ""),
        (130.0, FAILS, "refused (similar messages omitted: 2)"),
        (145.0, FAILS, ""),
        (146.0, RESPONDS, "w responds again, 46 s after its first failure (similar messages omitted: 1)"),
        (147.0, RESPONDS, ""),
    ],
    "an outage without calls for an hour": [
        (0.0, FAILS, "refused"),
        (3600.0, FAILS, "refused"),
        (3601.0, RESPONDS, "w responds again, 3601 s after its first failure"),
    ],
    "two outages": [
        (0.0, FAILS, "refused"),
        (60.0, RESPONDS, "w responds again, 60 s after its first failure"),
        (61.0, FAILS, "refused"),
        (70.0, RESPONDS, "w responds again, 9 s after its first failure"),
    ],
    "every other call fails": [
        (0.0, FAILS, "refused"),
        (1.0, RESPONDS, "w responds again, 1 s after its first failure"),
        (2.0, FAILS, ""),
        (3.0, RESPONDS, ""),
        (4.0, FAILS, ""),
        (5.0, RESPONDS, ""),
        (31.0, FAILS, "refused (similar messages omitted: 2)"),
        (32.0, RESPONDS, "w responds again, 1 s after its first failure"),
    ],
    "one answer during an outage": [
        (0.0, FAILS, "refused"),
        (1.0, RESPONDS, "w responds again, 1 s after its first failure"),
        (2.0, FAILS, ""),
        (32.0, FAILS, "refused (similar messages omitted: 1)"),
        (600.0, RESPONDS, "w responds again, 598 s after its first failure"),
    ],
    "responses of which none is logged": [
        (0.0, FAILS, "refused"),
        (1.0, RESPONDS, "w responds again, 1 s after its first failure"),
        (2.0, FAILS, ""),
        (40.0, RESPONDS, "w responds (similar messages omitted: 1)"),
        (41.0, FAILS, "refused"),
    ],
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
def test_what_is_logged(calls: list[tuple[float, str, str]], caplog: pytest.LogCaptureFixture) -> None:
    clock, logged = Clock(), []
    failures = FailureLog(LOG, logging.WARNING, clock)
    for clock.now, outcome, _ in calls:
        caplog.clear()
        if outcome is FAILS:
            failures.failed("w", "refused")
        else:
            failures.responded("w", "w")
        logged.append("".join(caplog.messages))
    assert logged == [text for *_, text in calls]


def test_each_webhook_has_its_own_lines(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog(LOG, logging.ERROR, Clock())
    for name in "abab":
        failures.failed(name, f"{name} is away")
    assert caplog.messages == ["a is away", "b is away"]


def test_those_beyond_the_limit_share_lines_until_others_are_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    failures = FailureLog(LOG, logging.WARNING, clock)
    for number in range(WEBHOOKS_MAX + 100):
        failures.failed(number, "away")
    assert len(caplog.messages) == WEBHOOKS_MAX + 1
    caplog.clear()
    clock.now += INTERVAL_S
    for number in range(WEBHOOKS_MAX, WEBHOOKS_MAX + 100):
        failures.failed(number, "away")
    assert len(caplog.messages) == 100
