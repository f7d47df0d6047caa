"""The columns of HorizontalPodAutoscalers. Source: pkg/printers/internalversion."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Final

from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers import conversion, validation
from apiserver.catalogue.common.columns import status_count
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at


def _columns(targets: Callable[[Document, float], str]) -> Columns:
    return columns(
        Column("Reference", _reference, "The object that is scaled."),
        Column("Targets", targets, "The current values of the metrics, and their targets."),
        Column(
            "MinPods",
            lambda document, now: str(at(document, "spec", "minReplicas") or "<unset>"),
            "The minimum number of pods.",
        ),
        Column("MaxPods", field_cell("spec", "maxReplicas", default=0), "The maximum number of pods."),
        Column("Replicas", status_count("currentReplicas"), "The current number of pods."),
        AGE,
    )


def _reference(document: Document, now: float) -> str:
    target = at(document, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets_of_v1(document: Document, now: float) -> str:
    """Shows all metrics, as v2 does, including those that v1 has in an annotation."""
    document = copy.deepcopy(document)
    conversion.to_v2(document)
    return _targets(document, now)


_METRICS_SHOWN_MAX: Final = 2


def _targets(document: Document, now: float) -> str:
    metrics = at(document, "spec", "metrics") or []
    if not metrics:
        return "<none>"
    shown = ", ".join(list(_as_texts(document))[:_METRICS_SHOWN_MAX])
    more = len(metrics) - _METRICS_SHOWN_MAX
    return f"{shown} + {more} more..." if more > 0 else shown


def _as_texts(document: Document) -> Iterator[str]:
    statuses = at(document, "status", "currentMetrics") or []
    for index, metric in enumerate(at(document, "spec", "metrics") or ()):
        source = validation.source_of(metric.get("type", ""))
        status = statuses[index] if index < len(statuses) else {}
        yield _as_text(source, metric.get(source), at(status, source, "current") or {})


def _as_text(source: str, metric: Document | None, current: Document) -> str:
    """Returns a metric and its target: `cpu: 40%/80%`, or `3/5 (avg)`."""
    if metric is None or source not in validation.SOURCES:
        return "<unknown type>"
    target, unknown = metric["target"], "<unknown>"
    average = target.get("averageValue")
    if source in ("resource", "containerResource"):
        if average is not None:
            return f"{metric.get('name', '')}: {current.get('averageValue', unknown)}/{average}"
        used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        return (
            f"{metric.get('name', '')}: {unknown if used is None else f'{used}%'}/"
            f"{'<auto>' if wanted is None else f'{wanted}%'}"
        )
    if average is not None:
        suffix = "" if source == "pods" else " (avg)"
        return f"{current.get('averageValue', unknown)}/{average}{suffix}"
    return f"{current.get('value', unknown)}/{target.get('value', '0')}"


COLUMNS: Final = _columns(_targets)
COLUMNS_OF_V1: Final = _columns(_targets_of_v1)
