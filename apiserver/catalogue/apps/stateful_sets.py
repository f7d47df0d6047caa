"""StatefulSets. Source: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation, ValidateStatefulSet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.common.claim_specs import validate_claim_spec, warn_claim_spec
from apiserver.catalogue.pod_specs.templates import (
    pod_template_columns,
    validate_template,
    validate_template_metadata,
    with_template_warnings,
)
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import named, non_negative, one_of
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at, items


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    unavailable = {"maxUnavailable": 1} if gates.is_on("MaxUnavailableStatefulSet") else {}
    return BuiltinType(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        short_names=("sts",),
        categories=("all",),
        defaults={
            "StatefulSetSpec": _complete_spec,
            "StatefulSetUpdateStrategy": partial(_complete_strategy, setting(partition=0, **unavailable)),
        },
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=prepare_stateful_set_create,
            validate_ratcheting=partial(validate_stateful_set, rules),
            warn=partial(warn_stateful_set, with_template_warnings(rules, "spec", "template")),
            update=UpdateStrategy(prepare=keep_status),
            has_generation=True,
        ),
        subresources=(status_subresource(validate_stateful_set_status_update), workloads.SCALE_SUBRESOURCE),
        columns=columns(
            Column("Ready", workloads.ready_of_desired, "The numbers of ready pods and of desired pods."),
            AGE,
            *pod_template_columns("spec", "template", has_selector=False),
        ),
    )


def _complete_spec(spec: Document) -> None:
    setting(podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)(spec)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    setting(whenDeleted="Retain", whenScaled="Retain")(retention)
    for claim in spec.get("volumeClaimTemplates") or ():
        # The defaults of claims, and their type.
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        setting(phase="Pending")(claim.setdefault("status", {}))


def _complete_strategy(rolling: Default, strategy: Document) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        rolling(strategy["rollingUpdate"])


def prepare_stateful_set_create(document: Document) -> None:
    document["status"] = {"replicas": 0, "availableReplicas": 0}


def validate_stateful_set(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    spec = document["spec"]
    if old is None:
        return _validate_spec(rules, spec, None)
    before = old["spec"]
    errors = _validate_spec(rules, spec, before)
    if errors and _validate_spec(rules, before, before):
        # Pods are not checked again if the stored spec is wrong.
        errors = _validate_spec(rules, spec, before, checks_pods=False)
    return errors + _validate_change(spec, before)


def _validate_spec(
    rules: PodSpecRules, spec: Document, old: Document | None, *, checks_pods: bool = True
) -> Errors:
    """Checks a spec. old: the stored spec, whose claims and service are not checked, since they cannot
    change.
    """
    policy = spec["podManagementPolicy"]
    errors: Errors = []
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, text))
    errors += _validate_strategy(spec["updateStrategy"])
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
        errors += one_of(path, retention.get(field), ("Retain", "Delete"))
    for path, claim in items(spec, "volumeClaimTemplates", "spec") if old is None else ():
        errors += validate_claim_spec(f"{path}.spec", claim.get("spec") or {})
    errors += non_negative("spec.replicas", spec.get("replicas"))
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += non_negative("spec.ordinals.start", at(spec, "ordinals", "start"))
    if old is None:
        errors += named("spec.serviceName", spec.get("serviceName"), names.dns_label, is_required=False)
    errors += workloads.validate_selector(spec, kind="statefulset")
    selector, template = spec.get("selector"), spec["template"]
    if selector is not None and any(error.field.startswith("spec.selector.") for error in errors):
        errors.append(invalid("spec.selector", selector, ""))
    else:
        if selector != {}:
            errors += workloads.validate_selector_matches_template(spec)
        if checks_pods:
            old_template = at(old or {}, "template")
            errors += validate_template("spec.template", _pods_to_be(template, spec), rules, old_template)
        # Kubernetes checks these once more.
        errors += validate_template_metadata("spec.template", template, rules, at(old or {}, "template"))
    return errors + workloads.validate_always_restarts(template, kind="StatefulSet")


def _in_go(rolling: Document) -> Document:
    """Returns a rolling update as Go prints Kubernetes' struct."""
    return {"Partition": rolling.get("partition") or 0, "MaxUnavailable": rolling.get("maxUnavailable")}


def _validate_strategy(strategy: Document) -> Errors:
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            if rolling is not None:
                text = "only allowed for updateStrategy 'RollingUpdate'"
                return [invalid(f"{path}.rollingUpdate", _in_go(rolling), text)]
            return []
        case "RollingUpdate":
            return _validate_rolling(f"{path}.rollingUpdate", rolling) if rolling is not None else []
        case _:
            shown = {"Type": strategy.get("type", ""), "RollingUpdate": rolling and _in_go(rolling)}
            return [invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]


def _validate_rolling(path: str, rolling: Document) -> Errors:
    errors = non_negative(f"{path}.partition", rolling.get("partition"))
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        path = f"{path}.maxUnavailable"
        errors += workloads.validate_int_or_percent(path, unavailable)
        if workloads.int_or_percent_value(unavailable) == 0:
            errors.append(invalid(path, unavailable, "cannot be 0"))
        errors += workloads.validate_percent_at_most_100(path, unavailable)
    return errors


_OF_CONTROLLER: Final = ("hostname", "subdomain")


def _pods_to_be(template: Document, spec: Document) -> Document:
    """Returns the template as its pods will be: with volumes of claims, and without names that the controller
    sets.

    Claims replace volumes with the same name.
    """
    claims = [at(claim, "metadata", "name") or "" for claim in spec.get("volumeClaimTemplates") or ()]
    pods = template.get("spec") or {}
    if not claims and not any(field in pods for field in _OF_CONTROLLER):
        return template
    pods = {field: value for field, value in pods.items() if field not in _OF_CONTROLLER}
    if not claims:
        return {**template, "spec": pods}
    of_claims = {name: {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims}
    others = [volume for volume in pods.get("volumes") or () if volume.get("name", "") not in of_claims]
    pods["volumes"] = [*of_claims.values(), *others]
    return {**template, "spec": pods}


_MUTABLE: Final = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def _validate_change(spec: Document, before: Document) -> Errors:
    if all(spec.get(field) == before.get(field) for field in (spec.keys() | before.keys()) - _MUTABLE):
        return []
    text = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden"
    )
    return [forbidden("spec", text)]


def validate_stateful_set_status_update(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    counted = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    errors = workloads.validate_counts(status, ("replicas", *counted, "observedGeneration", "collisionCount"))
    errors += workloads.validate_at_most(
        status, counted, "replicas", "cannot be greater than status.replicas"
    )
    errors += workloads.validate_at_most(
        status, ("availableReplicas",), "readyReplicas", "cannot be greater than status.readyReplicas"
    )
    return errors + workloads.validate_collision_count(new, old)


def warn_stateful_set(
    warn_template: Callable[[Document, Document | None], list[str]], new: Document, old: Document | None
) -> list[str]:
    warnings = warn_template(new, old)
    # As Kubernetes spells the path, of a create and of an update.
    suffix = "" if old is None else ".Spec"
    warnings += [
        text
        for path, claim in items(new["spec"], "volumeClaimTemplates", "spec")
        for text in warn_claim_spec(f"{path}{suffix}", claim.get("spec") or {})
    ]
    if (at(new, "spec", "revisionHistoryLimit") or 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        warnings.append(f"spec.revisionHistoryLimit: {text}")
    return warnings
