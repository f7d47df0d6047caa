"""The text of /metrics is made in small slices, however much of it there is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apiserver.metrics.declarations import Metric, MetricStability, bounds_of
from apiserver.metrics.exposition import SLICE_BYTES, Exposition
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, family_of, number_text
from tests.support.garbage import no_collections

# As many as custom resources may have in one metric.
MANY: Final = 10_000
# One series: the lines of a histogram.
SERIES_BYTES_MAX: Final = 8 * 1024


class Source:
    def __init__(self, *families: Family) -> None:
        self._families = families

    def families(self) -> Iterable[Family]:
        return self._families


def histogram(*observed: float) -> Histogram:
    made = Histogram((0.1, 1.0))
    for value in observed:
        made.observe(value)
    return made


def text(*families: Family) -> str:
    """The text without what is told of every process."""
    made = b"".join(Exposition([Source(*families)]).slices()).decode()
    return made[made.index("# HELP mine") :]


def declaration(name: str, kind: str, *labels: str) -> Metric:
    return Metric(
        name, kind, MetricStability.ALPHA, labels, "Words.", (0.1, 1.0) if kind == "histogram" else ()
    )


def test_a_histogram_is_cumulative() -> None:
    metric = declaration("mine", "histogram", "b", "a")
    family = family_of(metric, [(("y", "x"), histogram(0.05, 0.5, 0.5, 7))])
    assert text(family).splitlines() == [
        "# HELP mine [ALPHA] Words.",
        "# TYPE mine histogram",
        'mine_bucket{a="x",b="y",le="0.1"} 1',
        'mine_bucket{a="x",b="y",le="1.0"} 3',
        'mine_bucket{a="x",b="y",le="+Inf"} 4',
        'mine_count{a="x",b="y"} 4',
        'mine_sum{a="x",b="y"} 8.05',
    ]


@pytest.mark.parametrize("value", ["plain", 'a"b', "a\\b", "a\nb", "100 %d", "{}", "\\n"])
def test_labels_are_escaped(value: str) -> None:
    families = [
        family_of(declaration("mine_total", "counter", "a"), [((value,), 1)]),
        family_of(declaration("mine_s", "histogram", "a"), [((value,), histogram(1))]),
    ]
    parsed = list(text_string_to_metric_families(text(*families)))
    assert {sample.labels["a"] for family in parsed for sample in family.samples} == {value}


def test_what_has_no_value_has_no_line() -> None:
    """But a piece of the text, so that others have their turn."""
    family = family_of(declaration("mine", "gauge", "a"), [(("x",), None), (("y",), 0)])
    assert list(family.series) == ["", 'mine{a="y"} 0\n']


@pytest.mark.parametrize("values", [("x",), ("x", "y", "z")])
def test_each_label_has_a_value(values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="values of the labels"):
        list(family_of(declaration("mine", "gauge", "a", "b"), [(values, 1)]).series)


NUMBERS: Final[dict[str, float]] = {"3": 3, "4": 4.0, "0.25": 0.25, "1e+30": 1e30, "-2": -2.0}


@pytest.mark.parametrize(("expected", "number"), NUMBERS.items(), ids=NUMBERS)
def test_numbers(expected: str, number: float) -> None:
    assert number_text(number) == expected


def test_no_slice_is_long() -> None:
    """10,000 histograms: 26 lines of each."""
    bounds = bounds_of("apiserver_request_duration_seconds")
    metric = declaration("mine", "histogram", "a", "b")._replace(bounds=bounds)
    named = [((f"resource-{number}", "x" * 100), Histogram(bounds)) for number in range(MANY)]
    slices = Exposition([Source(family_of(metric, named))]).slices()
    with no_collections():
        lines, longest_s, began = 0, 0.0, time.thread_time()
        for piece in slices:
            longest_s = max(longest_s, time.thread_time() - began)
            assert len(piece) <= SLICE_BYTES + SERIES_BYTES_MAX
            lines += piece.count(b"\n")
            began = time.thread_time()
    assert lines > MANY * 26
    assert longest_s < 0.02
