"""Roles and bindings. Source: pkg/apis/rbac/validation, pkg/apis/rbac/v1/defaults.go.

group: RBAC's own API group, whose domain is the deployment's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.field_errors import invalid, not_supported, required
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, items, label_selector, named
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.rbac.v1."


def defaults(group: str) -> Mapping[str, Default]:
    def complete_role_ref(role_ref: Document) -> None:
        role_ref["apiGroup"] = role_ref.get("apiGroup") or group

    def complete_subject(subject: Document) -> None:
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = group

    return {f"{_PACKAGE}RoleRef": complete_role_ref, f"{_PACKAGE}Subject": complete_subject}


# ---- roles


def validate_role(document: Document) -> Errors:
    return _rules(document, is_namespaced=True)


def validate_cluster_role(document: Document) -> Errors:
    errors = _rules(document, is_namespaced=False)
    if (aggregation := document.get("aggregationRule")) is not None:
        path = "aggregationRule.clusterRoleSelectors"
        if not aggregation.get("clusterRoleSelectors"):
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required(path, text))
        for where, selector in items(aggregation, "clusterRoleSelectors", "aggregationRule"):
            errors += label_selector(where, selector)
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


# ---- bindings


def validate_role_binding(group: str, document: Document) -> Errors:
    return _binding(group, document, kinds=("Role", "ClusterRole"), is_namespaced=True)


def validate_cluster_role_binding(group: str, document: Document) -> Errors:
    return _binding(group, document, kinds=("ClusterRole",), is_namespaced=False)


def validate_binding_update(new: Document, old: Document) -> Errors:
    """What a binding grants is never exchanged: its subjects were chosen for this role."""
    role_ref = new.get("roleRef", {})
    if role_ref == old.get("roleRef", {}):
        return []
    names_in_go = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
    shown = {name: role_ref.get(field, "") for name, field in names_in_go.items()}
    return [invalid("roleRef", shown, "cannot change roleRef")]


def _binding(group: str, document: Document, *, kinds: tuple[str, ...], is_namespaced: bool) -> Errors:
    role_ref: dict[str, Any] = document.get("roleRef", {})
    errors: Errors = []
    if (found := role_ref.get("apiGroup", "")) != group:
        errors.append(not_supported("roleRef.apiGroup", found, (group,)))
    if (kind := role_ref.get("kind", "")) not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    errors += named("roleRef.name", role_ref.get("name"), names.path_segment)
    for where, subject in items(document, "subjects", ""):
        errors += _subject(group, where, subject, is_namespaced=is_namespaced)
    return errors


_SUBJECT_KINDS: Final = ("ServiceAccount", "User", "Group")


def _subject(group: str, path: str, subject: Document, *, is_namespaced: bool) -> Errors:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    found = subject.get("apiGroup", "")
    errors: Errors = [] if name else [required(f"{path}.name")]
    if kind not in _SUBJECT_KINDS:
        return [*errors, not_supported(f"{path}.kind", kind, _SUBJECT_KINDS)]
    if kind == "ServiceAccount":
        errors += named(f"{path}.name", name, names.dns_subdomain, is_required=False)
        if found:
            errors.append(not_supported(f"{path}.apiGroup", found, ("",)))
        if not is_namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
        return errors
    if not name:
        errors.append(invalid(f"{path}.name", name, f"{kind.lower()} name cannot be empty"))
    if found != group:
        errors.append(not_supported(f"{path}.apiGroup", found, (group,)))
    return errors
