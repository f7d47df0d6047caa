"""Subresources that have their own kind, or connect to a node; `handlers.subresources` serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import ScaleFields, Subresource
from apiserver.schema.validation.documents import at

SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
# The scales, and orders to go back to a former revision, of versions that were removed.
OLD_SCALES: Final = (
    "io.k8s.api.apps.v1beta1.Scale",
    "io.k8s.api.apps.v1beta2.Scale",
    "io.k8s.api.extensions.v1beta1.Scale",
)
OLD_ROLLBACKS: Final = (
    "io.k8s.api.apps.v1beta1.DeploymentRollback",
    "io.k8s.api.extensions.v1beta1.DeploymentRollback",
)
BINDING: Final = "io.k8s.api.core.v1.Binding"
EVICTION: Final = "io.k8s.api.policy.v1.Eviction"
TOKEN_REQUEST: Final = "io.k8s.api.authentication.v1.TokenRequest"  # noqa: S105  a definition's name

AUTOSCALING_V1: Final = GroupVersion("autoscaling", "v1")
CORE_V1: Final = GroupVersion("", "v1")
POLICY_V1: Final = GroupVersion("policy", "v1")

# ---- scale


def scale(fields: ScaleFields) -> Subresource:
    return Subresource("scale", kind="Scale", group_version=AUTOSCALING_V1, definition=SCALE, scale=fields)


def old_scale(fields: ScaleFields, group: str, version: str) -> Subresource:
    """Returns the scale subresource of a version that has its own kind for it."""
    definition = f"io.k8s.api.{group}.{version}.Scale"
    assert definition in OLD_SCALES
    return Subresource(
        "scale",
        kind="Scale",
        group_version=GroupVersion(group, version),
        definition=definition,
        scale=fields._replace(has_labels=True),
    )


def old_rollback(group: str, version: str) -> Subresource:
    """Returns the subresource that rolls Deployments of an old version back to a former revision."""
    definition = f"io.k8s.api.{group}.{version}.DeploymentRollback"
    assert definition in OLD_ROLLBACKS
    return Subresource(
        "rollback",
        verbs=("create",),
        kind="DeploymentRollback",
        group_version=GroupVersion(group, version),
        definition=definition,
    )


def group_version_of(definition: str) -> GroupVersion:
    """Returns the group and version in the name of a definition of k8s.io/api, as
    `io.k8s.api.apps.v1beta1.Scale`.
    """
    group, version, _ = definition.removeprefix("io.k8s.api.").split(".")
    return GroupVersion(group, version)


def text_at(*path: str) -> Callable[[Document], str]:
    """Returns a getter of a selector that the object holds as a string at a path, as custom resources do."""

    def text(document: Document) -> str:
        value = at(document, *path)
        return value if isinstance(value, str) else ""

    return text


# ---- connections to a node


def proxy(kind: str) -> Subresource:
    """Returns a subresource that proxies HTTP. kind: that of the options in the query."""
    verbs = ("create", "delete", "get", "patch", "update")
    return Subresource("proxy", verbs=verbs, kind=kind, has_paths=True, connects=True)


def stream(name: str, kind: str) -> Subresource:
    """Returns a subresource that streams. kind: that of the options in the query."""
    return Subresource(name, verbs=("create", "get"), kind=kind, connects=True)
