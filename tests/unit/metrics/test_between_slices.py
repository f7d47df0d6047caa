"""What is counted while /metrics is being written, a slice at a time, does not break the text. Row N10."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import RequestInfo
from apiserver.metrics.controllers import ApiServiceMetrics
from apiserver.metrics.requests import RequestEnding, RequestMetrics
from apiserver.metrics.series import Family

Observe = Callable[[str], None]


def api_services() -> tuple[Callable[[], Iterable[Family]], Observe]:
    metrics = ApiServiceMetrics()

    def observe(name: str) -> None:
        metrics.observe(name, f"reason {name}", is_available=False, was_available=True)

    return metrics.families, observe


def requests() -> tuple[Callable[[], Iterable[Family]], Observe]:
    metrics, codes = RequestMetrics(), itertools.count(200)

    def observe(name: str) -> None:
        target = RequestInfo("GET", f"/{name}", "get")
        call: Any = SimpleNamespace(
            info=target,
            query={},
            found_resource=None,
            status=next(codes),
            body_bytes=10,
            waited_s=0.05,
            ending=RequestEnding.TERMINATED,
        )
        metrics.observe(call, 0.1)

    return metrics.families, observe


SOURCES: Final = {"API services": api_services, "requests": requests}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_what_comes_between_two_lines(
    source: Callable[[], tuple[Callable[[], Iterable[Family]], Observe]],
) -> None:
    families, observe = source()
    for number in range(3):
        observe(f"first-{number}")
    lines, seen = 0, itertools.count()
    for family in families():
        for _ in family.series:
            lines += 1
            observe(f"later-{next(seen)}")
    assert lines > 3
