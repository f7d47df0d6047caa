"""Histograms that are served with fewer buckets than they have."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from apiserver.metrics.declarations import bounds_of
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import FILTER_DURATIONS

BOUNDS: Final = bounds_of("apiserver_flowcontrol_request_wait_duration_seconds")
FILTER_BUCKETS: Final = bounds_of(FILTER_DURATIONS)
BOTH: Final = bounds_of("apiserver_flowcontrol_request_wait_duration_seconds", FILTER_DURATIONS)
VALUES: Final = st.lists(st.floats(0, 100) | st.sampled_from((*BOUNDS, *FILTER_BUCKETS)), max_size=20)


def of(bounds: tuple[float, ...], values: list[float]) -> Histogram:
    found = Histogram(bounds)
    for each in values:
        found.observe(each)
    return found


@given(VALUES)
def test_fewer_buckets_are_those_of_the_values_themselves(values: list[float]) -> None:
    every = of(BOTH, values)
    for bounds in (BOUNDS, FILTER_BUCKETS):
        fewer = every.with_bounds(bounds)
        assert (fewer.buckets, fewer.sum) == (of(bounds, values).buckets, every.sum)


@given(VALUES, VALUES)
def test_sums(some: list[float], others: list[float]) -> None:
    total = of(FILTER_BUCKETS, some)
    total.merge(of(BOTH, others))
    assert total.buckets == of(FILTER_BUCKETS, some + others).buckets
    assert total.count == len(some) + len(others)


@given(VALUES)
def test_values_that_are_observed_together(values: list[float]) -> None:
    together = Histogram(BOUNDS)
    together.observe_all(values)
    one_by_one = of(BOUNDS, values)
    assert (together.buckets, together.sum) == (one_by_one.buckets, one_by_one.sum)
