"""The group `rbac.authorization.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.rbac import role_bindings, roles
from apiserver.meta.brand import Brand


def types(brand: Brand) -> tuple[BuiltinType, ...]:
    cluster_role, role = roles.TYPES
    cluster_role_binding, role_binding = role_bindings.builtin_types(brand)
    return (cluster_role_binding, cluster_role, role_binding, role)
