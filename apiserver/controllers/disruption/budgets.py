"""Computes the status of a budget from its pods. Pure.

Source: kubernetes, pkg/controller/disruption/disruption.go; component-helpers, apps/poddisruptionbudget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from apiserver.catalogue.common.workloads import int_or_percent_value
from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition, is_condition_true, set_condition
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import Document

ALLOWED: Final = "DisruptionAllowed"
# Until then a pod whose eviction was allowed counts as gone, though it is still there.
DELETION_TIMEOUT_S: Final = 120.0


class BudgetedPod(NamedTuple):
    """The properties of a pod that matter for budgets. owner: the reference to its controller, if it has
    one.
    """

    name: str
    is_ready: bool
    is_deleted: bool
    owner: Document | None

    @classmethod
    def of(cls, pod: Document) -> Self:
        meta = pod["metadata"]
        return cls(
            meta["name"], is_condition_true(pod, "Ready"), "deletionTimestamp" in meta, controller_of(pod)
        )


class Expectation(NamedTuple):
    """The expected number of pods, and how many of them have to be healthy."""

    pods: int
    healthy: int


def needs_scale(budget: Document) -> bool:
    """Returns whether a budget depends on the desired number of pods of their owners."""
    spec = budget.get("spec") or {}
    return "maxUnavailable" in spec or isinstance(spec.get("minAvailable"), str)


def expectation(budget: Document, pods: int, scale: int) -> Expectation:
    """Returns how many pods a budget expects, and how many healthy ones.

    pods: the current number. scale: the number that their owners want, if the budget `needs_scale`.
    """
    spec = budget.get("spec") or {}
    if (most_missing := spec.get("maxUnavailable")) is not None:
        return Expectation(scale, max(0, scale - _scaled(most_missing, scale)))
    least = spec.get("minAvailable")
    if least is None:
        return Expectation(0, 0)
    if isinstance(least, str):
        return Expectation(scale, _scaled(least, scale))
    return Expectation(pods, least)


def _scaled(value: int | str, total: int) -> int:
    """Returns a number, or a percentage of `total`, rounded up."""
    number = int_or_percent_value(value)
    return -(-number * total // 100) if isinstance(value, str) else number


class DisruptedPods(NamedTuple):
    """Pods whose eviction was allowed and that still exist.

    pods: the times of eviction, by name. next_end_s: in how many seconds the first of them counts again.
    """

    pods: dict[str, str]
    next_end_s: float | None


def still_disrupted(budget: Document, pods: Sequence[BudgetedPod], now: float) -> DisruptedPods:
    """Returns the evicted pods whose deletion is still pending. now: seconds since 1970."""
    listed = (budget.get("status") or {}).get("disruptedPods") or {}
    found: dict[str, str] = {}
    ends = []
    for pod in pods if listed else ():
        since = listed.get(pod.name)
        if since is None or pod.is_deleted:
            continue
        ends_in_s = (timestamps.from_text(since) or 0.0) + DELETION_TIMEOUT_S - now
        if ends_in_s >= 0:
            found[pod.name] = since
            ends.append(ends_in_s)
    return DisruptedPods(found, min(ends, default=None))


def status(
    budget: Document, pods: Sequence[BudgetedPod], expected: Expectation, disrupted: DisruptedPods, now: str
) -> Document:
    """Returns the status that a budget should have; its current status, if only times would differ."""
    healthy = sum(pod.is_ready and not pod.is_deleted and pod.name not in disrupted.pods for pod in pods)
    allowed = max(0, healthy - expected.healthy) if expected.pods > 0 else 0
    generation = budget["metadata"].get("generation", 0)
    wanted: Document = {
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
    }
    if disrupted.pods:
        wanted["disruptedPods"] = disrupted.pods
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return _with_condition(budget, wanted, allowed > 0, reason, "", now)


def failed_status(budget: Document, why: str, now: str) -> Document:
    """Returns the status of a budget that cannot be computed, which allows no eviction."""
    before = budget.get("status") or {}
    wanted = {name: value for name, value in before.items() if name != "conditions"}
    return _with_condition(budget, {**wanted, "disruptionsAllowed": 0}, False, "SyncFailed", why, now)


def _with_condition(
    budget: Document, wanted: Document, is_allowed: bool, reason: str, message: str, now: str
) -> Document:
    before = budget.get("status") or {}
    condition = {
        "type": ALLOWED,
        "status": "True" if is_allowed else "False",
        "observedGeneration": wanted.get("observedGeneration", 0),
        "reason": reason,
        "message": message,
    }
    found = find_condition(budget, ALLOWED)
    conditions = [dict(each) for each in before.get("conditions") or ()]
    if found is None or any(found.get(name) != value for name, value in condition.items()):
        holder: Document = {"status": {"conditions": conditions}}
        set_condition(holder, condition, now)
    return {**wanted, "conditions": conditions}
