"""Validation of scheduling constraints: tolerations, affinity, node selectors, spreading, gates.

Source: pkg/apis/core/validation, ValidateTolerations, validateAffinity, validateTopologySpreadConstraints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, duplicate, forbidden, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import one_of
from apiserver.schema.validation.documents import items
from apiserver.schema.validation.label_selectors import label_selector

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _label_name(path: str, name: str) -> Errors:
    return [invalid(path, name, problem) for problem in names.qualified_name(name)]


# ---- tolerations


def validate_tolerations(path: str, values: Iterable[Document], *, has_comparisons: bool = False) -> Errors:
    """Checks tolerations. has_comparisons: whether they may compare numbers
    (TaintTolerationComparisonOperators).
    """
    errors: Errors = []
    for index, toleration in enumerate(values):
        errors += _toleration(f"{path}[{index}]", toleration, has_comparisons)
    return errors


def _toleration(path: str, toleration: Document, has_comparisons: bool) -> Errors:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    errors = _label_name(f"{path}.key", key) if key else []
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", operator, text))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, text))
    if operator in ("", "Equal"):
        if problems := names.label_value(value):
            errors.append(invalid(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            errors.append(
                invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
            )
    elif operator in _COMPARISONS and has_comparisons:
        errors += _decimal(f"{path}.value", value)
    else:
        supported = ("Equal", "Exists", *(_COMPARISONS if operator in _COMPARISONS else ()))
        errors.append(not_supported(f"{path}.operator", operator, supported))
    if effect and effect not in TAINT_EFFECTS:
        errors += one_of(f"{path}.effect", effect, TAINT_EFFECTS)
    return errors


_COMPARISONS: Final = ("Lt", "Gt")
_is_decimal = re.compile(r"0|-?[1-9][0-9]*", re.ASCII).fullmatch
_is_integer = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_INT64_MAX: Final = (1 << 63) - 1
_INT64_DIGITS_MAX: Final = 19


def _decimal(path: str, value: str) -> Errors:
    """Checks a decimal number of 64 bits."""
    errors: Errors = []
    if not _is_decimal(value):
        text = "must be a valid decimal integer in canonical form" if value else "must be non-empty"
        errors.append(invalid(path, value, text))
    problem = ""
    if not _is_integer(value):
        problem = "invalid syntax"
    elif len(digits := value.lstrip("+-").lstrip("0")) > _INT64_DIGITS_MAX or (
        int(digits or "0") > _INT64_MAX + value.startswith("-")
    ):
        problem = "value out of range"
    if problem:
        text = f"strconv.ParseInt: parsing {go_quote(value)}: {problem}"
        errors.append(invalid(path, value, text))
    return errors


# ---- affinity


def validate_affinity(
    path: str, value: Document, *, any_pod_values: bool = False, any_node_values: bool = False
) -> Errors:
    """Checks an affinity.

    any_pod_values, any_node_values: whether pod selectors, or required node selectors, may name label values
    that no object can have.
    """
    errors: Errors = []
    if "nodeAffinity" in value:
        errors += _node_affinity(f"{path}.nodeAffinity", value["nodeAffinity"], any_node_values)
    for field in ("podAffinity", "podAntiAffinity"):
        for where, term in items(value.get(field) or {}, REQUIRED, f"{path}.{field}"):
            errors += _pod_term(where, term, any_pod_values)
        for where, weighted in items(value.get(field) or {}, PREFERRED, f"{path}.{field}"):
            errors += _weight(where, weighted)
            term = weighted.get("podAffinityTerm") or {}
            errors += _pod_term(f"{where}.podAffinityTerm", term, any_pod_values)
    return errors


def pod_affinity_terms(path: str, affinity: Document) -> Iterator[tuple[str, Document]]:
    """Yields the terms that select pods, required and preferred ones, with their paths."""
    for field in ("podAffinity", "podAntiAffinity"):
        pods, where = affinity.get(field) or {}, f"{path}.{field}"
        yield from items(pods, REQUIRED, where)
        for place, weighted in items(pods, PREFERRED, where):
            yield f"{place}.podAffinityTerm", weighted.get("podAffinityTerm") or {}


def _node_affinity(path: str, value: Document, any_values: bool) -> Errors:
    errors: Errors = []
    if REQUIRED in value:
        errors += validate_node_selector(
            f"{path}.{REQUIRED}", value[REQUIRED], allows_invalid_values=any_values
        )
    for where, preferred in items(value, PREFERRED, path):
        errors += _weight(where, preferred)
        preference = preferred.get("preference") or {}
        errors += _node_term(f"{where}.preference", preference, allows_invalid_values=True)
    return errors


def _weight(path: str, value: Document) -> Errors:
    weight = value.get("weight", 0)
    return [] if 0 < weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(path: str, selector: Document, *, allows_invalid_values: bool = False) -> Errors:
    """Checks a NodeSelector: a list of terms, one of which has to match."""
    if not selector.get("nodeSelectorTerms"):
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: Errors = []
    for where, term in items(selector, "nodeSelectorTerms", path):
        errors += _node_term(where, term, allows_invalid_values=allows_invalid_values)
    return errors


def _node_term(path: str, term: Document, *, allows_invalid_values: bool) -> Errors:
    errors: Errors = []
    for where, requirement in items(term, "matchExpressions", path):
        errors += _node_requirement(where, requirement, allows_invalid_values)
    for where, requirement in items(term, "matchFields", path):
        errors += _node_field_requirement(where, requirement)
    return errors


_NO_OPERATOR: Final = "not a valid selector operator"


def _node_requirement(path: str, requirement: Document, allows_invalid_values: bool) -> Errors:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    errors: Errors = []
    match operator:
        case "In" | "NotIn":
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(required(f"{path}.values", text))
        case "Exists" | "DoesNotExist":
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(f"{path}.values", text))
        case "Gt" | "Lt":
            if len(values) != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                errors.append(required(f"{path}.values", text))
        case _:
            errors.append(invalid(f"{path}.operator", operator, _NO_OPERATOR))
    errors += _label_name(f"{path}.key", requirement.get("key", ""))
    return errors if allows_invalid_values else errors + _values(path, values, names.label_value)


def _node_field_requirement(path: str, requirement: Document) -> Errors:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    errors: Errors = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, _NO_OPERATOR))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", text))
    key = requirement.get("key", "")
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    return errors + _values(path, values, names.dns_subdomain)


def _values(path: str, values: Iterable[str], rule: Callable[[str], list[str]]) -> Errors:
    return [
        invalid(f"{path}.values[{index}]", value, problem)
        for index, value in enumerate(values)
        for problem in rule(value)
    ]


def _pod_term(path: str, term: Document, any_values: bool) -> Errors:
    selector = term.get("labelSelector")
    errors = validate_pod_selectors(path, term, any_values=any_values)
    for name in term.get("namespaces") or ():
        errors += [invalid(f"{path}.namespace", name, problem) for problem in names.dns_label(name)]
    if "matchLabelKeys" in term or "mismatchLabelKeys" in term:
        errors += _label_keys(path, term, selector)
    topology = term.get("topologyKey", "")
    if not topology:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + _label_name(f"{path}.topologyKey", topology)


def validate_pod_selectors(path: str, term: Document, *, any_values: bool) -> Errors:
    """Checks the selectors of pods, and of their namespaces, in a term of an affinity."""
    return [
        error
        for field in ("labelSelector", "namespaceSelector")
        for error in label_selector(f"{path}.{field}", term.get(field), allows_invalid_values=any_values)
    ]


def _label_keys(path: str, term: Document, selector: Document | None) -> Errors:
    """Checks label keys for whose values the selected pods must match the pod, or must not."""
    errors: Errors = []
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(field) and selector is None:
            text = "must not be specified when labelSelector is not set"
            errors.append(forbidden(f"{path}.{field}", text))
        elif selector is not None:
            for where, key in items(term, field, path):
                errors += _label_name(where, key)
    keys = {key: index for index, key in enumerate(term.get("matchLabelKeys") or ())}
    selected = set((selector or {}).get("matchLabels") or ())
    for expression in (selector or {}).get("matchExpressions") or ():
        # What the keys themselves select is among these by now; only the second mention is one too many.
        key = expression.get("key", "")
        if key in keys and key in selected:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{path}[{keys[key]}]", key, text))
        selected.add(key)
    mismatched = set(term.get("mismatchLabelKeys") or ())
    for where, key in items(term, "matchLabelKeys", path):
        if key in mismatched:
            errors.append(invalid(where, key, "exists in both matchLabelKeys and mismatchLabelKeys"))
    return errors


# ---- spreading

_SPREAD_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")


def validate_topology_spread(
    path: str, constraints: list[Document], *, are_keys_merged: bool, any_selectors: bool
) -> Errors:
    """Checks TopologySpreadConstraints.

    are_keys_merged: whether matchLabelKeys are part of the selectors of a pod, where each may occur once.
    any_selectors: whether to skip checks of their selectors.
    """
    errors: Errors = []
    last: dict[tuple[str, str], int] = {}
    if len(constraints) > 1:
        last = {_kind_of_spread(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        action, skew = constraint.get("whenUnsatisfiable", ""), constraint.get("maxSkew", 0)
        if skew <= 0:
            errors.append(invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not constraint.get("topologyKey"):
            errors.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in _SPREAD_ACTIONS:
            errors += one_of(f"{where}.whenUnsatisfiable", action, _SPREAD_ACTIONS)
        if last and last[_kind_of_spread(constraint)] > index:
            kind = f"{{{constraint.get('topologyKey', '')}, {action}}}"
            errors.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", kind))
        if "minDomains" in constraint:
            errors += _min_domains(f"{where}.minDomains", constraint["minDomains"], action)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if field in constraint:
                errors += one_of(f"{where}.{field}", constraint[field], ("Honor", "Ignore"))
        if "matchLabelKeys" in constraint:
            errors += validate_spread_keys(where, constraint, are_keys_merged=are_keys_merged)
        if not any_selectors:
            errors += label_selector(f"{where}.labelSelector", constraint.get("labelSelector"))
    return errors


def _kind_of_spread(constraint: Document) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _min_domains(path: str, number: int | None, action: str) -> Errors:
    errors: Errors = []
    if number is not None and number <= 0:
        errors.append(invalid(path, number, "must be greater than zero"))
    if number is not None and action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, number, text))
    return errors


def validate_spread_keys(path: str, constraint: Document, *, are_keys_merged: bool) -> Errors:
    """Checks the matchLabelKeys of a constraint. See `validate_topology_spread`."""
    if are_keys_merged:
        return _label_keys(path, constraint, constraint.get("labelSelector"))
    keys, selector = constraint["matchLabelKeys"] or (), constraint.get("labelSelector")
    path = f"{path}.matchLabelKeys"
    if not keys:
        return []
    errors: Errors = []
    if selector is None:
        errors.append(forbidden(path, "must not be specified when labelSelector is not set"))
    selected = {
        *((selector or {}).get("matchLabels") or ()),
        *(each.get("key", "") for each in (selector or {}).get("matchExpressions") or ()),
    }
    for index, key in enumerate(keys):
        errors += _label_name(f"{path}[{index}]", key)
        if key in selected:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{path}[{index}]", key, text))
    return errors


def merge_label_keys(spec: Document, labels: Document, *, in_affinity: bool, in_spread: bool) -> None:
    """Adds the effects of matchLabelKeys and mismatchLabelKeys to the selectors of a new pod.

    in_affinity, in_spread: the selectors to extend. Source: pkg/registry/core/pod, mutatePodAffinity and
    mutateTopologySpreadConstraints.
    """
    for constraint in (spec.get("topologySpreadConstraints") or ()) if in_spread else ():
        _merge(constraint, labels)
    if in_affinity and (affinity := spec.get("affinity")):
        for _, term in pod_affinity_terms("", affinity):
            _merge(term, labels)


def _merge(term: Document, labels: Document) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field) or ()
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


# ---- groups and gates


def validate_scheduling_group(path: str, group: Document) -> Errors:
    """Checks the scheduling group of a pod."""
    name = group.get("podGroupName")
    if name is None:
        return [invalid(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")]
    return [invalid(f"{path}.podGroupName", name, problem) for problem in names.dns_subdomain(name)]


def validate_readiness_gates(path: str, gates: Iterable[Document]) -> Errors:
    errors: Errors = []
    for index, gate in enumerate(gates):
        errors += _label_name(f"{path}[{index}].conditionType", gate.get("conditionType", ""))
    return errors


def validate_scheduling_gates(path: str, gates: Iterable[Document]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += _label_name(f"{path}[{index}]", name)
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors
