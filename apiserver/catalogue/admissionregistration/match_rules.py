"""Rules for the requests that webhooks and policies match. Source: pkg/apis/admissionregistration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from apiserver.catalogue.admissionregistration.expressions import MatchConditionExpressions
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import follows, max_items, one_of, one_of_if_set, uniqueness
from apiserver.schema.validation.defaults import in_turn, setting
from apiserver.schema.validation.documents import items
from apiserver.schema.validation.label_selectors import label_selector

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
# Of a deletion there is nothing to change.
_MUTATING_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_CONDITIONS_MAX: Final = 64


def default_selectors(value: Document) -> None:
    """Sets absent selectors to ones that select everything."""
    for field in ("namespaceSelector", "objectSelector"):
        if value.get(field) is None:
            value[field] = {}


_PACKAGE: Final = "io.k8s.api.admissionregistration.v1."

DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}RuleWithOperations": setting(scope="*"),
    f"{_PACKAGE}NamedRuleWithOperations": setting(scope="*"),
    f"{_PACKAGE}MatchResources": in_turn(setting(matchPolicy="Equivalent"), default_selectors),
}


# ---- rules


def validate_named_rules(path: str, value: Document, field: str) -> Errors:
    errors: Errors = []
    for where, rule in items(value, field, path):
        unique = uniqueness()
        for name_path, name in items(rule, "resourceNames", where):
            errors += follows(name_path, name, names.path_segment)
            errors += unique(name_path, name)
        errors += validate_operation_rule(where, rule)
    return errors


def validate_operation_rule(path: str, rule: Document) -> Errors:
    errors = _alone(f"{path}.operations", rule.get("operations") or [], "operations")
    errors += [
        not_supported(where, operation, _OPERATIONS)
        for where, operation in items(rule, "operations", path)
        if operation not in _OPERATIONS
    ]
    errors += _alone(f"{path}.apiGroups", rule.get("apiGroups") or [], "API groups")
    errors += _alone(f"{path}.apiVersions", rule.get("apiVersions") or [], "API versions")
    errors += [required(where) for where, version in items(rule, "apiVersions", path) if not version]
    errors += _resources(f"{path}.resources", rule.get("resources") or [])
    return errors + one_of_if_set(f"{path}.scope", rule.get("scope"), _SCOPES)


def _alone(path: str, values: Sequence[str], what: str) -> Errors:
    """Checks that a list is not empty, and that a `*` is its only item."""
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resources(path: str, resources: Sequence[str]) -> Errors:
    if not resources:
        return [required(path)]
    errors: Errors = []
    with_all_subresources: set[str] = set()  # x of x/*
    of_all_resources: set[str] = set()  # x of */x
    has_plain = False
    for index, text in enumerate(resources):
        where = f"{path}[{index}]"
        if not text:
            errors.append(required(where))
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            has_plain = text != "*"
            continue
        if resource in with_all_subresources:
            problem = f"if '{resource}/*' is present, must not specify {text}"
            errors.append(invalid(where, text, problem))
        if subresource in of_all_resources:
            problem = f"if '*/{subresource}' is present, must not specify {text}"
            errors.append(invalid(where, text, problem))
        if subresource == "*":
            with_all_subresources.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        problem = "if '*/*' is present, must not specify other resources"
        errors.append(invalid(path, resources, problem))
    if "*" in resources and has_plain:
        problem = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, problem))
    return errors


# ---- what policies and bindings match


def required_one_of(path: str, value: str | None, supported: Sequence[str]) -> Errors:
    """Checks a required text, which may be absent or empty: it is a pointer in Go, so both have their
    error.
    """
    return [required(path)] if value is None else one_of(path, value, supported)


def validate_match_resources(path: str, match: Document | None) -> Errors:
    if match is None:
        return []
    return [
        *required_one_of(f"{path}.matchPolicy", match.get("matchPolicy"), MATCH_POLICIES),
        *label_selector(f"{path}.namespaceSelector", match.get("namespaceSelector")),
        *label_selector(f"{path}.objectSelector", match.get("objectSelector")),
        *validate_named_rules(path, match, "resourceRules"),
        *validate_named_rules(path, match, "excludeResourceRules"),
    ]


def validate_mutating_operations(path: str, match: Document) -> Errors:
    """Checks the operations in rules of mutating policies. Errors do not name the rule."""
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _MUTATING_OPERATIONS)
        for rule in match.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _MUTATING_OPERATIONS
    ]


def validate_match_conditions(path: str, value: Document, expressions: MatchConditionExpressions) -> Errors:
    errors = max_items(f"{path}.matchConditions", value.get("matchConditions"), _CONDITIONS_MAX)
    unique = uniqueness()
    for item_path, condition in items(value, "matchConditions", path):
        name = condition.get("name", "")
        if text := condition.get("expression", "").strip():
            errors += expressions.errors(f"{item_path}.expression", text)
        else:
            errors.append(required(f"{item_path}.expression"))
        if not name:
            errors.append(required(f"{item_path}.name"))
            continue
        errors += follows(f"{item_path}.name", name, names.qualified_name)
        errors += unique(f"{item_path}.name", name)
    return errors
