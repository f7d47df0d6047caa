"""Daemon sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.common import workloads
from apiserver.catalogue.pod_specs.templates import validate_template
from apiserver.field_errors import invalid, not_supported, required
from apiserver.registry.strategy import keep_status, only_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, at, non_negative, setting
from apiserver.vocabulary import Document

_APPS: Final = "io.k8s.api.apps.v1."


def _complete_strategy(strategy: Document) -> None:
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{_APPS}DaemonSetSpec": setting(revisionHistoryLimit=10),
        f"{_APPS}DaemonSetUpdateStrategy": _complete_strategy,
    }
)

# Counts changes of the template; once a field of the spec, which older versions of the API had.
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_is_number = re.compile(r"[0-9]{1,18}", re.ASCII).fullmatch


def prepare_daemon_set_create(document: Document) -> None:
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    document["status"] = dict.fromkeys(counts, 0)
    _set_template_generation(document, max(_template_generation(document), 1))


def prepare_daemon_set_update(new: Document, old: Document) -> None:
    keep_status(new, old)
    is_changed = at(new, "spec", "template") != at(old, "spec", "template")
    _set_template_generation(new, _template_generation(old) + is_changed)


def prepare_daemon_set_status_update(new: Document, old: Document) -> None:
    only_status(new, old)
    _set_template_generation(new, _template_generation(old))


def _template_generation(document: Document) -> int:
    text = at(document, "metadata", "annotations", TEMPLATE_GENERATION) or ""
    return int(text) if _is_number(text) else 0


def _set_template_generation(document: Document, generation: int) -> None:
    annotations = document["metadata"].get("annotations") or {}
    document["metadata"]["annotations"] = {**annotations, TEMPLATE_GENERATION: str(generation)}


def validate_daemon_set(document: Document) -> Errors:
    spec = document["spec"]
    errors = workloads.validate_selector(spec, kind="daemonset", is_required=False)
    if all(error.field == "spec.selector" for error in errors):
        errors += workloads.validate_selector_matches_template(spec)
    errors += validate_template("spec.template", spec["template"])
    errors += workloads.validate_always_restarts(spec["template"], kind="DaemonSet")
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += _validate_strategy(spec["updateStrategy"])
    return errors + non_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _validate_strategy(strategy: Document) -> Errors:
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            return []
        case "RollingUpdate":
            if rolling is None:
                return [required(f"{path}.rollingUpdate")]
            return _validate_rolling(f"{path}.rollingUpdate", rolling)
        case _:
            shown = workloads.as_go({"type": "", "rollingUpdate": None} | strategy)
            return [not_supported(path, shown, ["RollingUpdate", "OnDelete"])]


def _validate_rolling(path: str, rolling: Document) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors: Errors = []
    for check in (workloads.validate_int_or_percent, workloads.validate_percent_at_most_100):
        errors += check(f"{path}.maxUnavailable", unavailable)
        errors += check(f"{path}.maxSurge", surge)
    match workloads.amount(unavailable) != 0, workloads.amount(surge) != 0:
        case True, True:
            text = "may not be set when maxUnavailable is non-zero"
            errors.append(invalid(f"{path}.maxSurge", surge, text))
        case False, False:
            errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def validate_daemon_set_status_update(new: Document, old: Document) -> Errors:
    fields = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    )
    errors = workloads.validate_counts(new.get("status") or {}, fields)
    return errors + workloads.validate_collision_count(new, old)
