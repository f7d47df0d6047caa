"""The distribution of seats to priority levels, by demand and within the bounds of each level.

Source: k8s.io/apiserver, pkg/util/flowcontrol/conc_alloc.go; KEP-1040, "Dispatching and borrowing".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

# What a level that uses nothing is taken to want, so that proportions exist.
_TARGET_MIN: Final = 0.001


class SeatClaim(NamedTuple):
    """The demand of a level, and the bounds of its seats. target >= low >= 0."""

    target: float
    low: float
    high: float

    def at(self, proportion: float) -> float:
        return min(self.high, max(self.low, proportion * max(self.target, _TARGET_MIN)))


def allocate(total: float, claims: Sequence[SeatClaim]) -> tuple[list[float], float]:
    """Returns the seats of each level, which add up to `total`, and the proportion of the targets.

    Each gets the same proportion of its target, as far as its bounds allow. Where the bounds do not allow the
    total, all get their lower, or their upper bounds.
    """
    # The sum grows with the proportion, by straight lines between those at which a bound begins or ends to
    # matter.
    corners = sorted(
        {bound / max(each.target, _TARGET_MIN) for each in claims for bound in (each.low, each.high)}
    )
    if not corners:
        return [], 0.0

    def total_at(proportion: float) -> float:
        return sum(each.at(proportion) for each in claims)

    index = bisect_left(corners, total, key=total_at)
    if index == 0 or index == len(corners):
        proportion = corners[min(index, len(corners) - 1)]
    else:
        below, above = corners[index - 1], corners[index]
        sum_below, sum_above = total_at(below), total_at(above)
        proportion = below + (above - below) * (total - sum_below) / (sum_above - sum_below)
    return [each.at(proportion) for each in claims], proportion
