"""DaemonSets. Source: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation, ValidateDaemonSet."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.common.annotation_values import annotate
from apiserver.catalogue.common.columns import status_column
from apiserver.catalogue.pod_specs.templates import (
    POD_TEMPLATE_COLUMNS,
    validate_template,
    with_template_warnings,
)
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.golang.formatting import go_struct_fields
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status
from apiserver.schema.validation.checks import non_negative
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at
from apiserver.schema.validation.label_selectors import label_selector


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    return BuiltinType(
        "apps",
        "v1",
        "daemonsets",
        "DaemonSet",
        short_names=("ds",),
        categories=("all",),
        defaults={
            "DaemonSet": _complete_daemon_set,
            "DaemonSetSpec": setting(revisionHistoryLimit=10),
            "DaemonSetUpdateStrategy": workloads.rolling_by_default(1, 0),
        },
        strategy=Strategy(
            prepare_create=prepare_daemon_set_create,
            validate_ratcheting=partial(validate_daemon_set, rules),
            warn=with_template_warnings(rules, "spec", "template"),
            update=UpdateStrategy(prepare=prepare_daemon_set_update),
            has_generation=True,
        ),
        subresources=(
            status_subresource(validate_daemon_set_status_update, prepare=prepare_daemon_set_status_update),
        ),
        columns=columns(
            status_column("Desired", "desiredNumberScheduled", "The number of nodes that should run a pod."),
            status_column("Current", "currentNumberScheduled", "The number of these nodes that have a pod."),
            status_column("Ready", "numberReady", "The number of these nodes whose pod is ready."),
            status_column(
                "Up-to-date",
                "updatedNumberScheduled",
                "The number of nodes whose pod has the current template.",
            ),
            status_column("Available", "numberAvailable", "The number of nodes whose pod is available."),
            Column("Node Selector", _node_selector, "The node selector of the pods."),
            AGE,
            *POD_TEMPLATE_COLUMNS,
        ),
    )


def _complete_daemon_set(document: Document) -> None:
    """Sets the annotation as a default, so that the client that writes the object owns it."""
    if not at(document, "metadata", "annotations", TEMPLATE_GENERATION):
        _set_template_generation(document, 0)


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
    annotate(document, TEMPLATE_GENERATION, str(generation))


def validate_daemon_set(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    spec = document["spec"]
    errors = workloads.validate_selector_update(document, old)
    keeps_values = bool(label_selector("", at(old or {}, "spec", "selector")))
    of_selector = workloads.validate_selector(
        spec, kind="daemonset", is_required=False, allows_invalid_values=keeps_values
    )
    errors += of_selector
    if all(error.field == "spec.selector" for error in of_selector):
        errors += workloads.validate_selector_matches_template(spec)
    errors += validate_template("spec.template", spec["template"], rules, at(old or {}, "spec", "template"))
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
            shown = go_struct_fields({"type": "", "rollingUpdate": None} | strategy)
            return [not_supported(path, shown, ["RollingUpdate", "OnDelete"])]


def _validate_rolling(path: str, rolling: Document) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors: Errors = []
    for check in (workloads.validate_int_or_percent, workloads.validate_percent_at_most_100):
        errors += check(f"{path}.maxUnavailable", unavailable)
        errors += check(f"{path}.maxSurge", surge)
    match workloads.int_or_percent_value(unavailable) != 0, workloads.int_or_percent_value(surge) != 0:
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


# ---- columns


def _node_selector(document: Document, now: float) -> str:
    spec = document.get("spec", {}).get("template", {}).get("spec") or {}
    labels = spec.get("nodeSelector") or {}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"
