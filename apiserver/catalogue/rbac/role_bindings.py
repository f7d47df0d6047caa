"""RoleBindings and ClusterRoleBindings. Source: pkg/apis/rbac/validation, pkg/apis/rbac/v1/defaults.go.

group: RBAC's API group, whose domain is the deployment's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.rbac.roles import GROUP
from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import named, one_of
from apiserver.schema.validation.documents import items


def builtin_types(brand: Brand) -> tuple[BuiltinType, BuiltinType]:
    """Returns the types ClusterRoleBinding and RoleBinding."""
    group = brand.group(GROUP)
    completions = defaults(group)

    def bindings(
        kind: str, validate: Callable[[str, Document], Errors], *, is_namespaced: bool
    ) -> BuiltinType:
        return BuiltinType(
            f"{GROUP}.",
            "v1",
            f"{kind.lower()}s",
            kind,
            is_namespaced=is_namespaced,
            defaults=completions,
            strategy=Strategy(
                name_rule=names.path_segment,
                validate_ratcheting=_fixed(partial(validate, group)),
                allows_create_on_update=True,
            ),
            columns=_COLUMNS,
        )

    return (
        bindings("ClusterRoleBinding", validate_cluster_role_binding, is_namespaced=False),
        bindings("RoleBinding", validate_role_binding, is_namespaced=True),
    )


_PACKAGE: Final = "io.k8s.api.rbac.v1."


def defaults(group: str) -> Mapping[str, Default]:
    """Returns the defaults of references to roles, users and groups: RBAC's group."""

    def complete_role_ref(role_ref: Document) -> None:
        role_ref["apiGroup"] = role_ref.get("apiGroup") or group

    def complete_subject(subject: Document) -> None:
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = group

    return {f"{_PACKAGE}RoleRef": complete_role_ref, f"{_PACKAGE}Subject": complete_subject}


def validate_role_binding(group: str, document: Document) -> Errors:
    return _binding(group, document, kinds=("Role", "ClusterRole"), is_namespaced=True)


def validate_cluster_role_binding(group: str, document: Document) -> Errors:
    return _binding(group, document, kinds=("ClusterRole",), is_namespaced=False)


def _fixed(validate: Callable[[Document], Errors]) -> Callable[[Document, Document | None], Errors]:
    """Returns a check that bindings keep their roles."""
    return lambda new, old: validate(new) + (_same_role(new, old) if old is not None else [])


def _same_role(new: Document, old: Document) -> Errors:
    """Checks that a binding keeps its role, for which its subjects were chosen."""
    role_ref = new.get("roleRef", {})
    if role_ref == old.get("roleRef", {}):
        return []
    names_in_go = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
    shown = {name: role_ref.get(field, "") for name, field in names_in_go.items()}
    return [invalid("roleRef", shown, "cannot change roleRef")]


def _binding(group: str, document: Document, *, kinds: tuple[str, ...], is_namespaced: bool) -> Errors:
    role_ref: dict[str, Any] = document.get("roleRef", {})
    errors = one_of("roleRef.apiGroup", role_ref.get("apiGroup"), (group,))
    errors += one_of("roleRef.kind", role_ref.get("kind"), kinds)
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
        errors += one_of(f"{path}.apiGroup", found, ("",))
        if not is_namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
        return errors
    return errors + one_of(f"{path}.apiGroup", found, (group,))


# ---- columns


def _role(document: Document, now: float) -> str:
    role_ref = document.get("roleRef", {})
    return f"{role_ref.get('kind', '')}/{role_ref.get('name', '')}"


def _subjects_cell(kind: str) -> Callable[[Document, float], Any]:
    def cell(document: Document, now: float) -> str:
        return ", ".join(
            f"{subject.get('namespace', '')}/{subject.get('name', '')}"
            if kind == "ServiceAccount"
            else subject.get("name", "")
            for subject in document.get("subjects") or ()
            if subject.get("kind") == kind
        )

    return cell


_COLUMNS: Final = columns(
    Column("Role", _role, "The role that is granted."),
    AGE,
    Column("Users", _subjects_cell("User"), "The users that the binding grants the role.", priority=1),
    Column("Groups", _subjects_cell("Group"), "The groups that the binding grants the role.", priority=1),
    Column(
        "ServiceAccounts",
        _subjects_cell("ServiceAccount"),
        "The service accounts that the binding grants the role.",
        priority=1,
    ),
)
