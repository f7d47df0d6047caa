"""Reads the lists of resources of extension servers.

Only known fields are kept, in Kubernetes' forms, since other clients read them from here. Source: k8s.io/api,
apidiscovery/v2; k8s.io/apiserver, pkg/endpoints/groupversion.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from apiserver.meta.vocabulary import Document, GroupVersion

LIST_KIND: Final = "APIGroupDiscoveryList"
# Of one version, and of one resource.
RESOURCES_MAX: Final = 1_000
SUBRESOURCES_MAX: Final = 100
_TEXTS_MAX: Final = 100


class NotDiscovery(ValueError):
    """A document is not a discovery document; the message is for people."""


def aggregated_resources(document: Any) -> Mapping[GroupVersion, tuple[Document, ...]]:
    """Returns the resources of each version in an APIGroupDiscoveryList. Raises NotDiscovery."""
    if not isinstance(document, dict) or document.get("kind") != LIST_KIND:
        raise NotDiscovery(f"the response is not an {LIST_KIND}")
    found: dict[GroupVersion, tuple[Document, ...]] = {}
    for group in _objects(document.get("items")):
        metadata = group.get("metadata")
        name = _text(metadata.get("name")) if isinstance(metadata, dict) else ""
        for version in _objects(group.get("versions")):
            group_version = GroupVersion(name, _text(version.get("version")))
            resources = (_resource(each, group_version) for each in _objects(version.get("resources")))
            named = (each for each in resources if each["resource"])
            found[group_version] = tuple(islice(named, RESOURCES_MAX))
    return found


def listed_resources(document: Any, group_version: GroupVersion) -> tuple[Document, ...]:
    """Returns the resources in an APIResourceList, in the form of aggregated discovery. Raises
    NotDiscovery.
    """
    if not isinstance(document, dict) or document.get("kind") != "APIResourceList":
        raise NotDiscovery("the response is not an APIResourceList")
    found: dict[str, Document] = {}
    below: list[tuple[str, str, Mapping[str, Any]]] = []
    for each in _objects(document.get("resources")):
        name, slash, subresource = _text(each.get("name")).partition("/")
        if slash:
            below.append((name, subresource, each))
        elif name and len(found) < RESOURCES_MAX:
            found[name] = _resource(
                {
                    **each,
                    "resource": name,
                    "responseKind": _kind_of(each, group_version),
                    "singularResource": each.get("singularName"),
                    "scope": "Namespaced" if each.get("namespaced") is True else "Cluster",
                    "subresources": None,
                },
                group_version,
            )
    for name, subresource, each in below:
        if (parent := found.get(name)) is None:
            continue
        subresources = parent.setdefault("subresources", [])
        if len(subresources) < SUBRESOURCES_MAX:
            described = {**each, "subresource": subresource, "responseKind": _kind_of(each, group_version)}
            subresources.append(_subresource(described, group_version))
    return tuple(found.values())


def _kind_of(described: Mapping[str, Any], group_version: GroupVersion) -> Document:
    return {
        "group": _text(described.get("group")) or group_version.group,
        "version": _text(described.get("version")) or group_version.version,
        "kind": described.get("kind"),
    }


def _resource(described: Mapping[str, Any], group_version: GroupVersion) -> Document:
    scope = "Namespaced" if described.get("scope") == "Namespaced" else "Cluster"
    document: Document = {
        "resource": _text(described.get("resource")),
        "responseKind": _response_kind(described.get("responseKind"), group_version),
        "scope": scope,
        "singularResource": _text(described.get("singularResource")),
        "verbs": _texts(described.get("verbs")),
    }
    for field in ("shortNames", "categories"):
        if texts := _texts(described.get(field)):
            document[field] = texts
    subresources = (_subresource(each, group_version) for each in _objects(described.get("subresources")))
    if found := list(islice(subresources, SUBRESOURCES_MAX)):
        document["subresources"] = found
    return document


def _subresource(described: Mapping[str, Any], group_version: GroupVersion) -> Document:
    return {
        "subresource": _text(described.get("subresource")),
        "responseKind": _response_kind(described.get("responseKind"), group_version),
        "verbs": _texts(described.get("verbs")),
    }


def _response_kind(described: Any, group_version: GroupVersion) -> Document:
    kind = described if isinstance(described, dict) else {}
    return {
        "group": _text(kind.get("group", group_version.group)),
        "version": _text(kind.get("version", group_version.version)),
        "kind": _text(kind.get("kind")),
    }


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    items: Iterable[Any] = value if isinstance(value, list) else ()
    return (each for each in items if isinstance(each, dict))


def _texts(value: Any) -> list[str]:
    items: Iterable[Any] = value if isinstance(value, list) else ()
    return [each for each in islice(items, _TEXTS_MAX) if isinstance(each, str)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
