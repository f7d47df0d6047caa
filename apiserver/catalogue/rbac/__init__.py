"""The group `rbac.authorization.k8s.io`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from apiserver.brand import Brand
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.rbac import role_bindings
from apiserver.field_errors import FieldError
from apiserver.meta import names
from apiserver.meta.table import AGE, CREATED, Column, Columns, columns
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.vocabulary import Document

GROUP: Final = "rbac.authorization"


def types(brand: Brand) -> tuple[BuiltinType, ...]:
    group = brand.group(GROUP)
    update = UpdateStrategy(validate=role_bindings.validate_binding_update)
    return (
        _rbac(
            "clusterrolebindings",
            "ClusterRoleBinding",
            partial(role_bindings.validate_cluster_role_binding, group),
            is_namespaced=False,
            update=update,
            columns=_BINDING_COLUMNS,
        ),
        _rbac("clusterroles", "ClusterRole", role_bindings.validate_cluster_role, is_namespaced=False),
        _rbac(
            "rolebindings",
            "RoleBinding",
            partial(role_bindings.validate_role_binding, group),
            update=update,
            columns=_BINDING_COLUMNS,
        ),
        _rbac("roles", "Role", role_bindings.validate_role),
    )


_FREE: Final = UpdateStrategy()
_ROLE_COLUMNS: Final = columns(CREATED)


def _rbac(
    resource: str,
    kind: str,
    validate: Callable[[Document], list[FieldError]],
    *,
    is_namespaced: bool = True,
    update: UpdateStrategy = _FREE,
    columns: Columns = _ROLE_COLUMNS,
) -> BuiltinType:
    return BuiltinType(
        f"{GROUP}.",
        "v1",
        resource,
        kind,
        f"io.k8s.api.rbac.v1.{kind}",
        is_namespaced=is_namespaced,
        strategy=Strategy(
            name_rule=names.path_segment, validate=validate, update=update, allows_create_on_update=True
        ),
        columns=columns,
    )


# ---- columns


def _role(document: Document, now: float) -> str:
    role_ref = document.get("roleRef", {})
    return f"{role_ref.get('kind', '')}/{role_ref.get('name', '')}"


def _subjects(kind: str) -> Callable[[Document, float], Any]:
    def cell(document: Document, now: float) -> str:
        return ", ".join(
            f"{subject.get('namespace', '')}/{subject.get('name', '')}"
            if kind == "ServiceAccount"
            else subject.get("name", "")
            for subject in document.get("subjects") or ()
            if subject.get("kind") == kind
        )

    return cell


_BINDING_COLUMNS: Final = columns(
    Column("Role", _role, description="The role that is granted."),
    AGE,
    Column("Users", _subjects("User"), priority=1, description="The users that have it by this binding."),
    Column("Groups", _subjects("Group"), priority=1, description="The groups that have it by this binding."),
    Column(
        "ServiceAccounts",
        _subjects("ServiceAccount"),
        priority=1,
        description="The service accounts that have it by this binding.",
    ),
)
