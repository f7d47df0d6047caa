"""CustomResourceDefinitions as objects: their fields, defaults and validation.

This module reads a definition: its group, names, versions and finalizer. Everything is pure.

    conditions  the conditions in the status of a definition
    strategy    the fields set when a definition is created, updated and deleted
    approval    the approval that groups of the community's domains need
    status      the names and conditions it should have, given all others of its group
    validation  validates a definition when it is written
    comparison  compares two definitions: what an upgrade breaks
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import version_priority
from apiserver.schema.validation.documents import at

RESOURCE: Final = "customresourcedefinitions"


def group_of(brand: Brand) -> str:
    """Returns the API group that definitions are in."""
    return brand.group("apiextensions")


def cleanup_finalizer(brand: Brand) -> str:
    """Returns the finalizer that is removed when all objects of a definition have been deleted."""
    return f"customresourcecleanup.{brand.group('apiextensions')}"


def is_deleted(definition: Document) -> bool:
    return "deletionTimestamp" in definition["metadata"]


def accepted_names(definition: Document) -> Document:
    names: Document = (definition.get("status") or {}).get("acceptedNames") or {}
    return names


def storage_version(spec: Mapping[str, Any]) -> str:
    """Returns the name of the current storage version; empty if there is none."""
    return next((each["name"] for each in spec["versions"] if each.get("storage")), "")


def versions_of(definition: Document) -> list[Document]:
    """Returns the versions of a definition that may be malformed."""
    return at(definition, "spec", "versions") or []


def versions_to_serve(spec: Mapping[str, Any]) -> Iterator[Document]:
    return (each for each in spec["versions"] if each.get("served"))


def deprecation_warning(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """Returns the warning that clients of a deprecated version get.

    A version without its own text refers to the newest version that is at least as stable.
    """
    if text := version.get("deprecationWarning"):
        return str(text)

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
