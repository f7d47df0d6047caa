"""Roles and ClusterRoles. Source: pkg/apis/rbac/validation, ValidateRole and ValidateClusterRole."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import CREATED, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.documents import at, items
from apiserver.schema.validation.label_selectors import label_selector

# The group, whose domain is the deployment's.
GROUP: Final = "rbac.authorization"


def validate_role(document: Document) -> Errors:
    return _rules(document, is_namespaced=True)


def validate_cluster_role(document: Document, old: Document | None) -> Errors:
    errors = _rules(document, is_namespaced=False)
    stored = at(old or {}, "aggregationRule", "clusterRoleSelectors") or ()
    keeps_values = any(label_selector("", selector) for selector in stored)
    if (aggregation := document.get("aggregationRule")) is not None:
        path = "aggregationRule.clusterRoleSelectors"
        if not aggregation.get("clusterRoleSelectors"):
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required(path, text))
        for where, selector in items(aggregation, "clusterRoleSelectors", "aggregationRule"):
            errors += label_selector(where, selector, allows_invalid_values=keeps_values)
            if label_selector("", selector):
                errors.append(invalid(where, None, "invalid label selector."))
    return errors


def _rules(document: Document, *, is_namespaced: bool) -> Errors:
    return [
        error
        for where, rule in items(document, "rules", "")
        for error in _rule(where, rule, is_namespaced=is_namespaced)
    ]


def _rule(path: str, rule: Document, *, is_namespaced: bool) -> Errors:
    errors: Errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        where = f"{path}.nonResourceURLs"
        if is_namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(where, urls, text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


# The types ClusterRole and Role.
TYPES: Final = (
    BuiltinType(
        f"{GROUP}.",
        "v1",
        "clusterroles",
        "ClusterRole",
        is_namespaced=False,
        strategy=Strategy(
            name_rule=names.path_segment,
            validate_ratcheting=validate_cluster_role,
            allows_create_on_update=True,
        ),
        columns=columns(CREATED),
    ),
    BuiltinType(
        f"{GROUP}.",
        "v1",
        "roles",
        "Role",
        strategy=Strategy(name_rule=names.path_segment, validate=validate_role, allows_create_on_update=True),
        columns=columns(CREATED),
    ),
)
