"""The group `autoscaling`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers import conversion, validation
from apiserver.catalogue.builtin_type import BuiltinType, StoredAs
from apiserver.catalogue.pod_specs.templates import status_count
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status
from apiserver.validation.checks import at
from apiserver.vocabulary import Document

_STRATEGY: Final = Strategy(
    prepare_create=validation.prepare_autoscaler_create,
    validate=validation.validate_autoscaler,
    update=UpdateStrategy(prepare=keep_status),
)
_STATUS: Final = Subresource(
    "status",
    update=UpdateStrategy(prepare=only_status, validate=validation.validate_autoscaler_status_update),
)


def types() -> tuple[BuiltinType, ...]:
    return (
        _autoscalers("v2", _columns(_targets)),
        _autoscalers(
            "v1",
            _columns(_targets_of_v1),
            stored_as=StoredAs(
                "autoscaling",
                "v2",
                "horizontalpodautoscalers",
                "HorizontalPodAutoscaler",
                to_stored=conversion.to_v2,
                from_stored=conversion.to_v1,
            ),
        ),
    )


def _autoscalers(version: str, columns: Columns, **more: Any) -> BuiltinType:
    return BuiltinType(
        "autoscaling",
        version,
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        f"io.k8s.api.autoscaling.{version}.HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        strategy=_STRATEGY,
        subresources=(_STATUS,),
        columns=columns,
        **more,
    )


def _columns(targets: Callable[[Document, float], str]) -> Columns:
    return columns(
        Column("Reference", _reference, description="What is scaled."),
        Column("Targets", targets, description="The metrics: what they are, and what they should be."),
        Column(
            "MinPods",
            lambda document, now: str(at(document, "spec", "minReplicas") or "<unset>"),
            description="How many pods there are at least.",
        ),
        Column(
            "MaxPods",
            field_cell("spec", "maxReplicas", default=0),
            description="How many pods there are at most.",
        ),
        Column("Replicas", status_count("currentReplicas"), description="How many pods there are."),
        AGE,
    )


def _reference(document: Document, now: float) -> str:
    target = at(document, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets_of_v1(document: Document, now: float) -> str:
    """All metrics show in all versions."""
    document = copy.deepcopy(document)
    conversion.to_v2(document)
    return _targets(document, now)


SHOWN_METRICS: Final = 2


def _targets(document: Document, now: float) -> str:
    metrics = at(document, "spec", "metrics") or []
    if not metrics:
        return "<none>"
    shown = ", ".join(list(_as_texts(document))[:SHOWN_METRICS])
    more = len(metrics) - SHOWN_METRICS
    return f"{shown} + {more} more..." if more > 0 else shown


def _as_texts(document: Document) -> Iterator[str]:
    statuses = at(document, "status", "currentMetrics") or []
    for index, metric in enumerate(at(document, "spec", "metrics") or ()):
        source = validation.source_of(metric.get("type", ""))
        status = statuses[index] if index < len(statuses) else {}
        yield _as_text(source, metric.get(source), at(status, source, "current") or {})


def _as_text(source: str, metric: Document | None, current: Document) -> str:
    """What it is, over what it should be: `cpu: 40%/80%`, or `3/5 (avg)`."""
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
