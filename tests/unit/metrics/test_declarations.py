"""What metrics are declared to be, and how long they live. Rows S09, S10, S13."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.metrics.declarations import (
    DEPRECATED_RELEASES,
    Metric,
    MetricStability,
    MetricStage,
    bounds_of,
    known_metrics,
    not_served,
)

# Stability, and what becomes of a metric that 1.30 deprecates, from 1.29 on.
STAGES: Final = {
    "S10, a stable one is hidden in the third release after": (
        MetricStability.STABLE,
        "current deprecated deprecated deprecated hidden gone gone",
    ),
    "S13, a beta one in the next": (MetricStability.BETA, "current deprecated hidden gone gone gone gone"),
    "S13, an alpha one need not be kept, but is for once": (
        MetricStability.ALPHA,
        "current deprecated hidden gone gone gone gone",
    ),
    "S13, as an internal one": (MetricStability.INTERNAL, "current deprecated hidden gone gone gone gone"),
}


@pytest.mark.parametrize(("stability", "stages"), STAGES.values(), ids=STAGES)
def test_what_becomes_of_a_metric(stability: MetricStability, stages: str) -> None:
    life = Metric("m", "counter", stability, deprecated=30)
    assert [life.stage(minor) for minor in range(29, 36)] == [MetricStage(each) for each in stages.split()]


def test_s13_deprecated_metrics_stay_as_long_as_the_policy_says() -> None:
    """Releases: 3 of a stable one, 1 of a beta one."""
    assert DEPRECATED_RELEASES[MetricStability.STABLE] >= 3
    assert DEPRECATED_RELEASES[MetricStability.BETA] >= 1


# Stability, the release that deprecates it, and its help text in 1.35.
HELPS: Final = {
    "its class": (MetricStability.STABLE, None, "[STABLE] Words."),
    "S09, since when it is deprecated": (MetricStability.BETA, 34, "[BETA] (Deprecated since 1.34.0) Words."),
    "S09, from that release on": (MetricStability.ALPHA, 35, "[ALPHA] (Deprecated since 1.35.0) Words."),
    "S09, not before": (MetricStability.ALPHA, 36, "[ALPHA] Words."),
    "nothing where nothing is promised": (MetricStability.NONE, None, "Words."),
}


@pytest.mark.parametrize(("stability", "deprecated", "text"), HELPS.values(), ids=HELPS)
def test_help_texts(stability: MetricStability, deprecated: int | None, text: str) -> None:
    metric = Metric("m", "gauge", stability, text="Words.", deprecated=deprecated)
    assert metric.head(35) == f"# HELP m {text}\n# TYPE m gauge\n"


def test_what_is_not_served_is_not_served_in_that_form() -> None:
    known = known_metrics()
    both = [each for group in not_served().values() for each in group if each.name in known]
    assert {each.name for each in both} == {"apiserver_request_total", "pod_security_evaluations_total"}
    assert all({*known[each.name].labels} != {*each.labels} for each in both)


def test_the_table_is_sorted_and_complete() -> None:
    metrics = known_metrics()
    assert list(metrics) == sorted(metrics)
    assert [each.name for each in metrics.values() if not each.text] == []
    assert [
        each.name for each in metrics.values() if (each.kind == "histogram") is not bool(each.bounds)
    ] == []
    assert [each.name for each in metrics.values() if list(each.bounds) != sorted({*each.bounds})] == []


# Sets of buckets, as client_golang makes them.
BOUNDS: Final = {
    "listed": ("apiserver_watch_cache_read_wait_seconds", (0.005, 1.0, 3.0)),
    "exponential": ("apiserver_watch_events_sizes", (1024.0, 16384.0, 131072.0)),
    "linear": ("apiserver_request_body_size_bytes", (50_000.0, 1_550_000.0, 3_050_000.0)),
}


@pytest.mark.parametrize(("name", "some"), BOUNDS.values(), ids=BOUNDS)
def test_bounds_of_buckets(name: str, some: tuple[float, ...]) -> None:
    """The first, one in the middle, and the last."""
    bounds = bounds_of(name)
    assert {bounds.index(each) for each in some} >= {0, len(bounds) - 1}


def test_a_histogram_that_is_served_as_two_metrics_has_the_buckets_of_both() -> None:
    leases, events = "etcd_lease_object_counts", "apiserver_watch_events_sizes"
    assert bounds_of(leases, events) == tuple(sorted({*bounds_of(leases), *bounds_of(events)}))


def test_s13_a_stable_metric_is_there_and_deprecated() -> None:
    """Kubernetes 1.34 has deprecated it, so it is hidden from 1.37 on."""
    life = known_metrics()["apiserver_storage_objects"]
    assert [life.stage(minor) for minor in (33, 34, 36, 37, 38)] == [
        MetricStage.CURRENT,
        MetricStage.DEPRECATED,
        MetricStage.DEPRECATED,
        MetricStage.HIDDEN,
        MetricStage.GONE,
    ]
