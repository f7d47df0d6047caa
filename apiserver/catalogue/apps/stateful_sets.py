"""StatefulSets. Source: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation, ValidateStatefulSet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.pod_specs.templates import (
    pod_template_columns,
    validate_template,
    with_template_warnings,
)
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.features.gates import FeatureGates
from apiserver.field_errors import Errors, forbidden, invalid
from apiserver.golang.formatting import go_struct_fields
from apiserver.meta import names
from apiserver.meta.table import AGE, Column, columns
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import named, non_negative, one_of
from apiserver.validation.defaults import setting
from apiserver.validation.documents import at
from apiserver.vocabulary import Document


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    return BuiltinType(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        "io.k8s.api.apps.v1.StatefulSet",
        short_names=("sts",),
        categories=("all",),
        defaults=DEFAULTS,
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=prepare_stateful_set_create,
            validate_ratcheting=partial(validate_stateful_set, rules),
            validate_create=validate_stateful_set_create,
            warn=with_template_warnings(rules, "spec", "template", warn=warn_stateful_set),
            update=UpdateStrategy(prepare=keep_status, validate=validate_stateful_set_update),
            has_generation=True,
        ),
        subresources=(status_subresource(validate_stateful_set_status_update), workloads.SCALE_SUBRESOURCE),
        columns=columns(
            Column(
                "Ready",
                workloads.ready_of_desired,
                description="How many of the pods that are wanted are ready.",
            ),
            AGE,
            *pod_template_columns("spec", "template", has_selector=False),
        ),
    )


_PACKAGE: Final = "io.k8s.api.apps.v1."


def _complete_spec(spec: Document) -> None:
    setting(podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)(spec)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    setting(whenDeleted="Retain", whenScaled="Retain")(retention)
    for claim in spec.get("volumeClaimTemplates") or ():
        # The defaults of claims, and their type.
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        setting(volumeMode="Filesystem")(claim.setdefault("spec", {}))
        setting(phase="Pending")(claim.setdefault("status", {}))


def _complete_strategy(strategy: Document) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{_PACKAGE}StatefulSetSpec": _complete_spec,
        f"{_PACKAGE}StatefulSetUpdateStrategy": _complete_strategy,
    }
)

_EMPTY_STATUS: Final = {"replicas": 0, "availableReplicas": 0}


def prepare_stateful_set_create(document: Document) -> None:
    document["status"] = dict(_EMPTY_STATUS)


def validate_stateful_set(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    spec = document["spec"]
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
    errors += non_negative("spec.replicas", spec.get("replicas"))
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += non_negative("spec.ordinals.start", at(spec, "ordinals", "start"))
    return errors + _validate_pods(rules, spec, at(old or {}, "spec", "template"))


def _validate_strategy(strategy: Document) -> Errors:
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            if rolling is not None:
                text = "only allowed for updateStrategy 'RollingUpdate'"
                return [invalid(f"{path}.rollingUpdate", go_struct_fields(rolling), text)]
            return []
        case "RollingUpdate":
            return _validate_rolling(f"{path}.rollingUpdate", rolling) if rolling is not None else []
        case _:
            shown = go_struct_fields({"type": "", "rollingUpdate": None} | strategy)
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


def _validate_pods(rules: PodSpecRules, spec: Document, old_template: Document | None) -> Errors:
    errors = workloads.validate_selector(spec, kind="statefulset")
    selector, template = spec.get("selector"), spec["template"]
    if selector is not None and any(error.field != "spec.selector" for error in errors):
        errors.append(invalid("spec.selector", selector, ""))
    else:
        if selector != {}:
            errors += workloads.validate_selector_matches_template(spec)
        errors += validate_template("spec.template", _pods_to_be(template, spec), rules, old_template)
    return errors + workloads.validate_always_restarts(template, kind="StatefulSet")


_OF_CONTROLLER: Final = ("hostname", "subdomain")


def _pods_to_be(template: Document, spec: Document) -> Document:
    """Returns the template without the names that the controller gives, and with the volumes of its claims.

    Claims replace volumes of their name.
    """
    claims = [at(claim, "metadata", "name") for claim in spec.get("volumeClaimTemplates") or ()]
    pods = template.get("spec") or {}
    if not claims and not any(field in pods for field in _OF_CONTROLLER):
        return template
    pods = {field: value for field, value in pods.items() if field not in _OF_CONTROLLER}
    if not claims:
        return {**template, "spec": pods}
    named_so = set(claims)
    pods["volumes"] = [
        *(volume for volume in pods.get("volumes") or () if volume.get("name") not in named_so),
        *(
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in dict.fromkeys(claims)
            if name
        ),
    ]
    return {**template, "spec": pods}


def validate_stateful_set_create(document: Document) -> Errors:
    return named("spec.serviceName", document["spec"].get("serviceName"), names.dns_label, is_required=False)


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


def validate_stateful_set_update(new: Document, old: Document) -> Errors:
    spec, before = new["spec"], old["spec"]
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


def warn_stateful_set(new: Document, old: Document | None) -> list[str]:
    if (at(new, "spec", "revisionHistoryLimit") or 0) >= 0:
        return []
    text = "a negative value retains all historical revisions; a value >= 0 is recommended"
    return [f"spec.revisionHistoryLimit: {text}"]
