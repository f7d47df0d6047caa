"""Subresources that speak a kind of their own, or connect to a node.

What answers them: `handlers.subresources`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.brand import Brand
from apiserver.meta import table
from apiserver.registry.served_resource import ScaleFields, Subresource
from apiserver.vocabulary import Document, GroupVersion

SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
BINDING: Final = "io.k8s.api.core.v1.Binding"
EVICTION: Final = "io.k8s.api.policy.v1.Eviction"
TOKEN_REQUEST: Final = "io.k8s.api.authentication.v1.TokenRequest"  # noqa: S105  a definition's name

AUTOSCALING_V1: Final = GroupVersion("autoscaling", "v1")
CORE_V1: Final = GroupVersion("", "v1")
POLICY_V1: Final = GroupVersion("policy", "v1")

_PROXY_VERBS: Final = ("create", "delete", "get", "patch", "update")
_STREAM_VERBS: Final = ("create", "get")


# ---- scale


def scale(fields: ScaleFields) -> Subresource:
    return Subresource("scale", kind="Scale", group_version=AUTOSCALING_V1, definition=SCALE, scale=fields)


def _label_selector(document: Document) -> str:
    selector = _at(document, "spec", "selector")
    return table.selector_text(selector) if selector else ""


def _equalities(document: Document) -> str:
    labels = _at(document, "spec", "selector")
    return table.selector_text({"matchLabels": labels}) if labels else ""


def text_at(*path: str) -> Callable[[Document], str]:
    """A selector that the object holds as a text, as custom resources do."""

    def text(document: Document) -> str:
        found = _at(document, *path)
        return found if isinstance(found, str) else ""

    return text


def _at(document: Document, *path: str) -> Any:
    value: Any = document
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


SCALE_SUBRESOURCE: Final = scale(ScaleFields(_label_selector))
_SCALE: Final = scale(ScaleFields(_equalities))


# ---- of pods, services, nodes and service accounts

POD_ATTACH: Final = Subresource("attach", verbs=_STREAM_VERBS, kind="PodAttachOptions")
POD_BINDING: Final = Subresource("binding", verbs=("create",), kind="Binding", definition=BINDING)
POD_EVICTION: Final = Subresource(
    "eviction", verbs=("create",), kind="Eviction", group_version=POLICY_V1, definition=EVICTION
)
POD_EXEC: Final = Subresource("exec", verbs=_STREAM_VERBS, kind="PodExecOptions")
POD_LOG: Final = Subresource("log", verbs=("get",))
POD_PORT_FORWARD: Final = Subresource("portforward", verbs=_STREAM_VERBS, kind="PodPortForwardOptions")
POD_PROXY: Final = Subresource("proxy", verbs=_PROXY_VERBS, kind="PodProxyOptions", has_paths=True)
SERVICE_PROXY: Final = Subresource("proxy", verbs=_PROXY_VERBS, kind="ServiceProxyOptions", has_paths=True)
NODE_PROXY: Final = Subresource("proxy", verbs=_PROXY_VERBS, kind="NodeProxyOptions", has_paths=True)


def service_account_token(brand: Brand) -> Subresource:
    return Subresource(
        "token",
        verbs=("create",),
        kind="TokenRequest",
        group_version=GroupVersion(brand.group("authentication"), "v1"),
        definition=TOKEN_REQUEST,
    )
