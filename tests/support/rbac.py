"""Roles and bindings for tests."""

from __future__ import annotations

from typing import Any, Final

from tests.support.api import Api

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
RBAC: Final = f"/apis/{RBAC_GROUP}/v1"


def rule(verbs: str, resources: str, *names: str, group: str = "") -> dict[str, Any]:
    """A rule of a role. verbs, resources: separated by spaces."""
    made: dict[str, Any] = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return made | ({"resourceNames": list(names)} if names else {})


def binding(
    name: str,
    role: str,
    *subjects: str,
    kind: str = "ClusterRole",
    subject_kind: str = "User",
    group: str = RBAC_GROUP,
) -> dict[str, Any]:
    """A binding of a role. kind: of the role. subjects: names of users, or of what `subject_kind` says."""
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        "subjects": [{"apiGroup": group, "kind": subject_kind, "name": each} for each in subjects],
    }


def bind(api: Api, name: str, role: str, *subjects: str, subject_kind: str = "User") -> None:
    """Bind a cluster role for everything."""
    document = binding(name, role, *subjects, subject_kind=subject_kind)
    api.post(f"{RBAC}/clusterrolebindings", document).ok()


def grant(
    api: Api, namespace: str, name: str, *rules: dict[str, Any], subject_kind: str = "User", root: str = RBAC
) -> dict[str, str]:
    """Create a role with the name of a user or a group, and bind it. namespace: empty for everywhere.

    root: where a brand has another group. Returns the headers by which an administrator is the user.
    """
    where, kind = (f"{root}/namespaces/{namespace}", "Role") if namespace else (root, "ClusterRole")
    api.post(f"{where}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)}).ok()
    bound = binding(name, name, name, kind=kind, subject_kind=subject_kind, group=root.split("/")[2])
    api.post(f"{where}/{kind.lower()}bindings", bound).ok()
    return {"Impersonate-User": name}
