"""Families of metrics, whose text is made series by series when /metrics is requested.

A family is made from the name of a metric, which identifies its declaration (`declarations`), and from a
value for each set of label values.

Each line takes 0.2 µs, and nothing until it is requested: thousands of resources have a histogram each.
prometheus-client's own objects take 40 µs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.metrics.declarations import Metric, declared
from apiserver.metrics.histograms import Histogram

# Stands for labels in the template of a histogram; no label has it.
_LABELS: Final = "\0"
_INFINITE: Final = "+Inf"
# What a series has: a histogram if it is one, or a summary. None has no line, but an empty piece: while
# thousands are passed over, others must have their turn.
Value: TypeAlias = float | Histogram | None


class Family(NamedTuple):
    """A metric and its series. series: the lines of each series, made one by one."""

    metric: Metric
    series: Iterable[str]

    @property
    def name(self) -> str:
        return self.metric.name


def family(name: str, by_labels: Iterable[tuple[Sequence[str], Value]]) -> Family:
    """Returns a metric with a value for each sequence of the values of its labels."""
    return family_of(declared(name), by_labels)


def single(name: str, value: Value) -> Family:
    """Returns a metric without labels."""
    return labelled(name, [("", value)])


def labelled(name: str, by_text: Iterable[tuple[str, Value]]) -> Family:
    """Returns a metric with a value for each text of labels, as `label_text` makes it."""
    metric = declared(name)
    return Family(metric, _lines(metric, by_text))


def family_of(metric: Metric, by_labels: Iterable[tuple[Sequence[str], Value]]) -> Family:
    text = _text_maker(metric.labels)
    by_text = ((text(each) if value is not None else "", value) for each, value in by_labels)
    return Family(metric, _lines(metric, by_text))


def label_text(name: str, values: Sequence[str]) -> str:
    """Returns the labels of a metric as the text between braces."""
    return _text_maker(declared(name).labels)(values)


def number_text(value: float) -> str:
    """Returns a number as kube-apiserver writes it: whole numbers have no fraction."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)


@cache
def _text_maker(labels: tuple[str, ...]) -> Callable[[Sequence[str]], str]:
    """Returns a function that makes the text of label values, by their names, as kube-apiserver writes
    them.
    """
    order = sorted(range(len(labels)), key=labels.__getitem__)
    template = ",".join(f'{labels[i]}="%s"' for i in order)

    def text(values: Sequence[str]) -> str:
        if len(values) != len(labels):
            raise ValueError(f"{len(values)} values of the labels {labels}")
        return template % tuple([_escaped(values[i]) for i in order])

    return text


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _lines(metric: Metric, by_text: Iterable[tuple[str, Value]]) -> Iterable[str]:
    line = _WRITERS.get(metric.kind, _number_writer)(metric)
    return ("" if value is None else line(labels, value) for labels, value in by_text)


def _number_writer(metric: Metric) -> Callable[[str, Any], str]:
    name = metric.name
    if not metric.labels:
        return lambda _, value: f"{name} {number_text(value)}\n"
    return lambda labels, value: f"{name}{{{labels}}} {number_text(value)}\n"


def _summary_writer(metric: Metric) -> Callable[[str, Any], str]:
    """Returns a writer for the sum and the count of a histogram. There are no quantiles."""
    name = metric.name

    def lines(labels: str, histogram: Histogram) -> str:
        total = number_text(histogram.sum)
        return f"{name}_sum{{{labels}}} {total}\n{name}_count{{{labels}}} {histogram.count}\n"

    return lines


def _histogram_writer(metric: Metric) -> Callable[[str, Any], str]:
    """Returns a writer for histograms, which reduces them to the buckets of the metric."""
    name, bounds = metric.name, metric.bounds
    # Labels are filled in first, then numbers.
    before, between = (f"{{{_LABELS},", f"{{{_LABELS}}}") if metric.labels else ("{", "")
    bound_texts = (*map(str, bounds), _INFINITE)
    buckets = (f'{name}_bucket{before}le="{bound}"}} %d\n' for bound in bound_texts)
    template = f"{''.join(buckets)}{name}_count{between} %d\n{name}_sum{between} %s\n"

    def lines(labels: str, histogram: Histogram) -> str:
        if histogram.bounds is not bounds:
            histogram = histogram.with_bounds(bounds)
        *counts, total = itertools.accumulate(histogram.buckets)
        text = template.replace(_LABELS, labels.replace("%", "%%"))
        return text % (*counts, total, total, number_text(histogram.sum))

    return lines


_WRITERS: Final = {"histogram": _histogram_writer, "summary": _summary_writer}
