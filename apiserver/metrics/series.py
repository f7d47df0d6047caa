"""Metrics with many series, whose text is made series by series when /metrics is requested.

prometheus-client's own objects take 40 µs for each line: seconds, where thousands of resources have a
histogram each. What is made here takes 0.2 µs, and nothing until it is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from apiserver.metrics.histograms import Histogram

# Stands for labels in the template of a histogram; no label has it.
_LABELS: Final = "\0"
_INFINITE: Final = "+Inf"


class Family(NamedTuple):
    """A metric.

    kind: counter, gauge, histogram or summary. series: the lines of each series, made one by one.
    """

    name: str
    kind: str
    text: str
    series: Iterable[str]

    @property
    def head(self) -> str:
        return f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n"


def label_text(names: Sequence[str], values: Sequence[str]) -> str:
    """Returns labels as they stand between braces: by their names, as kube-apiserver writes them."""
    labels = sorted(zip(names, values, strict=True))
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def number_text(value: float) -> str:
    """Whole numbers have no fraction, as kube-apiserver writes them."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)


def values(
    name: str, kind: str, text: str, labels: Sequence[str], by_labels: Iterable[tuple[Sequence[str], float]]
) -> Family:
    """Returns a metric with a number for each set of labels."""
    if not labels:
        return Family(name, kind, text, (f"{name} {number_text(value)}\n" for _, value in by_labels))
    lines = (f"{name}{{{label_text(labels, each)}}} {number_text(value)}\n" for each, value in by_labels)
    return Family(name, kind, text, lines)


def counts(
    name: str, text: str, labels: Sequence[str], by_labels: Iterable[tuple[Sequence[str], int]]
) -> Family:
    """Returns a counter that few sets of labels have: those whose count is 0 have no line.

    They have an empty piece instead: while thousands are passed over others must have their turn.
    """
    lines = (f"{name}{{{label_text(labels, each)}}} {count}\n" if count else "" for each, count in by_labels)
    return Family(name, "counter", text, lines)


def histograms(name: str, text: str, by_labels: Iterable[tuple[str, Histogram | None]]) -> Family:
    """Returns a metric with a histogram for each set of labels, given as `label_text`.

    Where there is none, there is an empty piece, as in `counts`.
    """
    return Family(name, "histogram", text, _histogram_lines(name, by_labels))


def histogram_family(
    name: str, text: str, labels: Sequence[str], by_values: Iterable[tuple[Sequence[str], Histogram]]
) -> Family:
    """Returns a metric with a histogram for each set of values of labels."""
    return histograms(name, text, ((label_text(labels, each), histogram) for each, histogram in by_values))


def summary_family(
    name: str, text: str, labels: Sequence[str], by_values: Iterable[tuple[Sequence[str], Histogram]]
) -> Family:
    """Returns a metric with the sum and the count of a histogram for each set of values of labels.

    There are no quantiles: a histogram does not know them.
    """
    lines = (
        f"{name}_sum{{{of}}} {number_text(each.sum)}\n{name}_count{{{of}}} {each.count}\n"
        for of, each in ((label_text(labels, of), each) for of, each in by_values)
    )
    return Family(name, "summary", text, lines)


def _histogram_lines(name: str, by_labels: Iterable[tuple[str, Histogram | None]]) -> Iterator[str]:
    for labels, histogram in by_labels:
        if histogram is None:
            yield ""
            continue
        template = _template(name, tuple(histogram.bounds))
        if not labels:
            template = template.replace(f"{_LABELS},", "").replace(f"{{{_LABELS}}}", "")
        *counts, total = itertools.accumulate(histogram.buckets)
        yield template.replace(_LABELS, labels.replace("%", "%%")) % (
            *counts,
            total,
            total,
            number_text(histogram.sum),
        )


@lru_cache(maxsize=256)
def _template(name: str, bounds: tuple[float, ...]) -> str:
    """Returns the lines of a histogram, to be filled in: labels first, then numbers."""
    bound_texts = (*(str(float(bound)) for bound in bounds), _INFINITE)
    buckets = (f'{name}_bucket{{{_LABELS},le="{bound}"}} %d\n' for bound in bound_texts)
    return f"{''.join(buckets)}{name}_count{{{_LABELS}}} %d\n{name}_sum{{{_LABELS}}} %s\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
