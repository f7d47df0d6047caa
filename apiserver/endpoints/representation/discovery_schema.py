"""The schema of aggregated discovery, which the definitions of the built-in types do not have.

Source: k8s.io/api, apidiscovery/v2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.schema.structural import Schema, ValueKind

KIND: Final = "APIGroupDiscoveryList"
_PACKAGE: Final = "io.k8s.api.apidiscovery.v2."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."


def schema(schemas: Callable[[str], Schema]) -> Schema:
    """Returns the schema of APIGroupDiscoveryList. schemas: those of other definitions, by name."""
    text = Schema(ValueKind.STRING, "string")
    texts = _list(text)
    kind = _struct(f"{_META}GroupVersionKind", {"group": text, "version": text, "kind": text})
    subresource = _struct(
        f"{_PACKAGE}APISubresourceDiscovery",
        {"subresource": text, "responseKind": kind, "acceptedTypes": _list(kind), "verbs": texts},
    )
    resource = _struct(
        f"{_PACKAGE}APIResourceDiscovery",
        {
            "resource": text,
            "responseKind": kind,
            "scope": text,
            "singularResource": text,
            "verbs": texts,
            "shortNames": texts,
            "categories": texts,
            "subresources": _list(subresource),
        },
    )
    version = _struct(
        f"{_PACKAGE}APIVersionDiscovery", {"version": text, "resources": _list(resource), "freshness": text}
    )
    group = _struct(
        f"{_PACKAGE}APIGroupDiscovery",
        {"metadata": schemas(f"{_META}ObjectMeta"), "versions": _list(version)},
    )
    return _struct(f"{_PACKAGE}{KIND}", {"metadata": schemas(f"{_META}ListMeta"), "items": _list(group)})


def _struct(definition: str, fields: dict[str, Schema]) -> Schema:
    *_, version, kind = definition.split(".")
    return Schema(ValueKind.STRUCT, f"{version}.{kind}", fields, definition=definition)


def _list(element: Schema) -> Schema:
    return Schema(ValueKind.LIST, f"[]{element.go_type}", element=element)
