"""Histograms, counted in plain numbers until /metrics is requested.

prometheus-client's own histograms lock and loop: 3 µs for each observation, and a request makes two.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from math import inf
from typing import Generic, Self, TypeVar

from apiserver.metrics.declarations import bounds_of

_K = TypeVar("_K", bound=Hashable)


class Histogram:
    """The histogram of the durations or sizes observed under one set of labels.

    bounds: the upper bounds of the buckets, in order.
    buckets: for each of `bounds` the number of values up to it and above the bound before it; and last, the
        number of values above all. They become cumulative in the exposition.
    sum: of all values.
    """

    __slots__ = ("bounds", "buckets", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self.buckets = [0] * (len(bounds) + 1)

    @classmethod
    def of(cls, *names: str) -> Self:
        """Returns an empty histogram with the buckets of a metric, or with those of several metrics."""
        return cls(bounds_of(*names))

    def with_bounds(self, bounds: Sequence[float]) -> Histogram:
        """Returns the same values in fewer buckets. bounds: a subset of its bounds."""
        found = Histogram(bounds)
        found.merge(self)
        return found

    def merge(self, other: Histogram) -> None:
        """Add the observations of another histogram, which must have at least the bounds of this one."""
        self.sum += other.sum
        for bound, count in zip((*other.bounds, inf), other.buckets, strict=True):
            self.buckets[bisect_left(self.bounds, bound)] += count

    def observe(self, value: float) -> None:
        self.sum += value
        self.buckets[bisect_left(self.bounds, value)] += 1

    def observe_all(self, values: Iterable[float], times: int = 1) -> None:
        """Observe a value several times, for each of several values."""
        bounds, buckets, total = self.bounds, self.buckets, 0.0
        for value in values:
            total += value
            buckets[bisect_left(bounds, value)] += times
        self.sum += total * times

    @property
    def count(self) -> int:
        return sum(self.buckets)


class Histograms(dict[_K, Histogram], Generic[_K]):
    """The histograms of a metric, by the values of its labels. Missing ones are made."""

    def __init__(self, *names: str) -> None:
        """names: the metric, or all metrics that the histograms are served as."""
        super().__init__()
        self._names = names

    def __missing__(self, key: _K) -> Histogram:
        found = self[key] = Histogram.of(*self._names)
        return found
