"""Objects of built-in types for tests, with no more than they need, and the paths of their collections."""

from __future__ import annotations

from typing import Any, Final

CONTAINERS: Final[list[dict[str, Any]]] = [{"name": "c", "image": "i"}]


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def named(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}}


def version_of(document: dict[str, Any]) -> str:
    return str(document["metadata"]["resourceVersion"])


def config_map(name: str = "a", **data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod with the container `c`, unless the spec has others."""
    return {"metadata": {"name": name}, "spec": {"containers": CONTAINERS, **spec}}


def template(app: str = "a", **spec: Any) -> dict[str, Any]:
    """A template of pods with the label `app` and the container `c`, unless the spec has others."""
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": CONTAINERS, **spec}}


def deployment(name: str = "d", **spec: Any) -> dict[str, Any]:
    """A deployment of pods with the label `app=a`."""
    selector = {"matchLabels": {"app": "a"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template(), **spec},
    }
