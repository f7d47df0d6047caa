"""Which metrics are served, and how. Rows S09, S10."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import pytest

from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.metrics.declarations import Metric, MetricStability
from apiserver.metrics.exposition import Exposition
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.registry import MetricRegistry, MetricsConfiguration
from apiserver.metrics.series import Family, family_of

METRICS: Final = {
    each.name: each
    for each in (
        Metric("new", "gauge", MetricStability.ALPHA, text="Words."),
        Metric("old_total", "counter", MetricStability.STABLE, text="Words.", deprecated=34),
        Metric("hidden_total", "counter", MetricStability.STABLE, text="Words.", deprecated=33),
        Metric("gone_total", "counter", MetricStability.STABLE, text="Words.", deprecated=32),
    )
}
COUNTER: Final = Metric("m", "counter", MetricStability.ALPHA, ("a", "b"))


class Source:
    """Has one series of each metric."""

    def families(self) -> list[Family]:
        return [family_of(each, [((), 1)]) for each in METRICS.values()]


def registry(configuration: MetricsConfiguration, minor: int = 36) -> MetricRegistry:
    return MetricRegistry(configuration, EmulatedRelease.of(minor), METRICS)


def served(configuration: MetricsConfiguration, minor: int = 36) -> list[str]:
    text = b"".join(Exposition([Source()], registry(configuration, minor)).slices()).decode()
    return [line.split()[2] for line in text.splitlines() if line.startswith("# HELP") and "Words" in line]


SERVED: Final[Mapping[str, tuple[MetricsConfiguration, int, str]]] = {
    "S10: what is not hidden": (MetricsConfiguration(), 36, "new old_total"),
    "S10: in an earlier release": (MetricsConfiguration(), 34, "new old_total hidden_total gone_total"),
    "S10: what is shown, but for what is gone": (
        MetricsConfiguration(shows_hidden=True),
        36,
        "new old_total hidden_total",
    ),
    "what is not disabled": (MetricsConfiguration(disabled=frozenset({"new"})), 36, "old_total"),
    "what is disabled, though it is shown": (
        MetricsConfiguration(shows_hidden=True, disabled=frozenset({"hidden_total"})),
        36,
        "new old_total",
    ),
}


@pytest.mark.parametrize(("configuration", "minor", "names"), SERVED.values(), ids=SERVED)
def test_what_is_served(configuration: MetricsConfiguration, minor: int, names: str) -> None:
    assert served(configuration, minor) == names.split()


def test_s09_who_reads_deprecated_metrics_finds_it_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    exposition = Exposition([], registry(MetricsConfiguration()))
    with caplog.at_level(logging.WARNING):
        assert caplog.messages == []
        for _ in range(2):
            list(exposition.slices())
    assert caplog.messages == ["the metric old_total has been deprecated since 1.34"]


def test_metrics_are_counted() -> None:
    configuration = MetricsConfiguration(disabled=frozenset({"other"}))
    lines = [line for family in registry(configuration).families() for line in family.series]
    assert lines == [
        'registered_metrics_total{deprecated_version="",stability_level="ALPHA"} 1\n',
        'registered_metrics_total{deprecated_version="1.34.0",stability_level="STABLE"} 1\n',
        "hidden_metrics_total 2\n",
        "disabled_metrics_total 1\n",
        'version_info{binary="1.36",component="kube",emulation="1.36",min_compat="1.35"} 1\n',
    ]


def lines(family: Family, allowed: dict[str, frozenset[str]]) -> list[str]:
    configuration = MetricsConfiguration(allowed_labels={family.name: allowed})
    found = registry(configuration).lines(family)
    return "".join(found).splitlines()[2:]


def test_values_that_are_not_allowed_are_added_up() -> None:
    series = [(("x", "1"), 1), (("y", "1"), 2), (("z", "2"), 2.5), (('q"{} ', "1"), 4)]
    every = list(family_of(COUNTER, series).series)
    family = Family(COUNTER, every)
    assert lines(family, {"a": frozenset({"x"})}) == [
        'm{a="x",b="1"} 1',
        'm{a="unexpected",b="1"} 6',
        'm{a="unexpected",b="2"} 2.5',
    ]
    assert lines(family, {"c": frozenset()}) == "".join(every).splitlines()


@pytest.mark.parametrize("value", ["a\u2028b", "a\x85b", 'a"\\b', "a\nb", "a b 1", "}"])
def test_values_may_be_anything(value: str) -> None:
    every = list(family_of(COUNTER, [((value, "1"), 1), ((value, "2"), 2)]).series)
    configuration = MetricsConfiguration(allowed_labels={"m": {"b": frozenset({"1"})}})
    found = "".join(registry(configuration).lines(Family(COUNTER, every)))
    assert found == COUNTER.head(36) + every[0] + every[1].replace('b="2"', 'b="unexpected"')


def test_a_metric_of_the_process_is_disabled_as_others_are() -> None:
    name = "process_cpu_seconds_total"
    for disabled, count in ((frozenset[str](), 1), (frozenset({name}), 0)):
        exposition = Exposition([], registry(MetricsConfiguration(disabled=disabled)))
        assert b"".join(exposition.slices()).count(f"# HELP {name} ".encode()) == count


def test_histograms_are_added_up_bucket_by_bucket() -> None:
    durations = []
    for label, seconds in (("x", 0.05), ("y", 0.5), ("y2", 7.0)):
        histogram = Histogram((0.1, 1))
        histogram.observe(seconds)
        durations.append(((label,), histogram))
    metric = Metric("h", "histogram", MetricStability.ALPHA, ("a",), bounds=(0.1, 1.0))
    found = lines(family_of(metric, durations), {"a": frozenset({"x"})})
    assert found[-5:] == [
        'h_bucket{a="unexpected",le="0.1"} 0',
        'h_bucket{a="unexpected",le="1.0"} 1',
        'h_bucket{a="unexpected",le="+Inf"} 2',
        'h_count{a="unexpected"} 2',
        'h_sum{a="unexpected"} 7.5',
    ]
