"""What a CustomResourceDefinition says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apiserver.brand import Brand
from apiserver.registry.served_resource import version_priority
from apiserver.vocabulary import Document, GroupVersion

RESOURCE: Final = "customresourcedefinitions"
NAMES_ACCEPTED: Final = "NamesAccepted"
NON_STRUCTURAL: Final = "NonStructuralSchema"
API_APPROVED: Final = "KubernetesAPIApprovalPolicyConformant"


def group_of(brand: Brand) -> str:
    """The group of definitions."""
    return brand.group("apiextensions")


def is_deleted(definition: Document) -> bool:
    return "deletionTimestamp" in definition["metadata"]


def accepted_names(definition: Document) -> Document:
    names: Document = (definition.get("status") or {}).get("acceptedNames") or {}
    return names


def storage_version(spec: Mapping[str, Any]) -> str:
    """The version in which objects are stored now."""
    return next((each["name"] for each in spec["versions"] if each.get("storage")), "")


def versions_to_serve(spec: Mapping[str, Any]) -> Iterator[Document]:
    return (each for each in spec["versions"] if each.get("served"))


def deprecation_warning(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """What clients of a deprecated version are told.

    Where nobody has put it into words, they are sent to the newest version that is as stable, or more so.
    """
    if said := version.get("deprecationWarning"):
        return str(said)

    def shown(name: str) -> str:
        return f"{GroupVersion(spec['group'], name)} {spec['names']['kind']}"

    own = version_priority(version["name"])
    better = [
        each["name"]
        for each in versions_to_serve(spec)
        if not each.get("deprecated") and version_priority(each["name"]) > own
    ]
    text = f"{shown(version['name'])} is deprecated"
    return f"{text}; use {shown(max(better, key=version_priority))}" if better else text
