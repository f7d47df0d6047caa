"""How long metrics live. Rows S09, S10, S13."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.metrics.lifecycles import (
    DEPRECATED_RELEASES,
    MetricLifecycle,
    Stability,
    Stage,
    known_metrics,
    not_served,
)

# Stability, and what becomes of a metric that 1.30 deprecates, from 1.29 on.
STAGES: Final = {
    "S10, a stable one is hidden in the third release after": (
        Stability.STABLE,
        "current deprecated deprecated deprecated hidden gone gone",
    ),
    "S13, a beta one in the next": (Stability.BETA, "current deprecated hidden gone gone gone gone"),
    "S13, an alpha one need not be kept, but is for once": (
        Stability.ALPHA,
        "current deprecated hidden gone gone gone gone",
    ),
    "S13, as an internal one": (Stability.INTERNAL, "current deprecated hidden gone gone gone gone"),
}


@pytest.mark.parametrize(("stability", "stages"), STAGES.values(), ids=STAGES)
def test_what_becomes_of_a_metric(stability: Stability, stages: str) -> None:
    life = MetricLifecycle("m", "counter", stability, deprecated=30)
    assert [life.stage(minor) for minor in range(29, 36)] == [Stage(each) for each in stages.split()]


def test_s13_deprecated_metrics_stay_as_long_as_the_policy_says() -> None:
    """Releases: 3 of a stable one, 1 of a beta one."""
    assert DEPRECATED_RELEASES[Stability.STABLE] >= 3
    assert DEPRECATED_RELEASES[Stability.BETA] >= 1


# Stability, the release that deprecates it, and what help texts begin with in 1.35.
PREFIXES: Final = {
    "its class": (Stability.STABLE, None, "[STABLE] "),
    "S09, since when it is deprecated": (Stability.BETA, 34, "[BETA] (Deprecated since 1.34.0) "),
    "S09, from that release on": (Stability.ALPHA, 35, "[ALPHA] (Deprecated since 1.35.0) "),
    "S09, not before": (Stability.ALPHA, 36, "[ALPHA] "),
    "nothing where nothing is promised": (Stability.NONE, None, ""),
}


@pytest.mark.parametrize(("stability", "deprecated", "prefix"), PREFIXES.values(), ids=PREFIXES)
def test_what_help_texts_begin_with(stability: Stability, deprecated: int | None, prefix: str) -> None:
    assert MetricLifecycle("m", "gauge", stability, (), deprecated).help_prefix(35) == prefix


def test_what_is_not_served_is_not_served_in_that_form() -> None:
    known = known_metrics()
    both = [each for group in not_served().values() for each in group if each.name in known]
    assert {each.name for each in both} == {
        "apiserver_request_total",
        "pod_security_evaluations_total",
    }
    assert all(known[each.name].labels != each.labels for each in both)


def test_labels_have_one_order() -> None:
    everything = [*known_metrics().values(), *(each for group in not_served().values() for each in group)]
    assert [each.name for each in everything if list(each.labels) != sorted(set(each.labels))] == []
    names = list(known_metrics())
    assert names == sorted(names)


def test_s13_a_stable_metric_is_there_and_deprecated() -> None:
    """Kubernetes 1.34 has deprecated it, so it is hidden from 1.37 on."""
    life = known_metrics()["apiserver_storage_objects"]
    assert [life.stage(minor) for minor in (33, 34, 36, 37, 38)] == [
        Stage.CURRENT,
        Stage.DEPRECATED,
        Stage.DEPRECATED,
        Stage.HIDDEN,
        Stage.GONE,
    ]
