"""Sets fields of CustomResourceDefinitions when they are created, updated and deleted.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/v1/defaults.go and
pkg/registry/customresourcedefinition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apiserver.custom_resources.definitions import cleanup_finalizer, versions_of
from apiserver.custom_resources.definitions.conditions import TERMINATING, condition, set_definition_condition
from apiserver.meta import object_meta
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at

_PACKAGE: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."


def _complete(definition: Document) -> None:
    status = definition["status"]
    if not status.get("storedVersions"):
        status["storedVersions"] = _storage_versions(definition) or None


def _complete_spec(spec: Document) -> None:
    all_names = spec["names"]
    kind = all_names.get("kind", "")
    if kind and not all_names.get("singular"):
        all_names["singular"] = kind.lower()
    if kind and not all_names.get("listKind"):
        all_names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def _complete_conversion(conversion: Document) -> None:
    """Removes a webhook without any fields."""
    if "webhook" in conversion and not any(conversion["webhook"].values()):
        del conversion["webhook"]


DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}CustomResourceDefinition": _complete,
    f"{_PACKAGE}CustomResourceDefinitionSpec": _complete_spec,
    f"{_PACKAGE}CustomResourceConversion": _complete_conversion,
    f"{_PACKAGE}ServiceReference": setting(port=443),
}


def prepare_create(document: Document) -> None:
    document["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": _storage_versions(document) or None,
    }


def prepare_update(new: Document, old: Document) -> None:
    """Adds the storage version to those in which objects may be stored."""
    keep_status(new, old)
    stored = at(new, "status", "storedVersions") or []
    if not set(_storage_versions(new)) <= set(stored):
        new["status"] = {**new.get("status", {}), "storedVersions": [*stored, *_storage_versions(new)]}


def _storage_versions(definition: Document) -> list[str]:
    """Returns the name of the storage version in a list, if there is one."""
    return [version["name"] for version in versions_of(definition) if version.get("storage")][:1]


# ---- deletion


def blockers(definition: Document) -> Sequence[str]:
    """Returns the objects and finalizers that must be removed before a definition."""
    if "deletionTimestamp" not in definition["metadata"]:
        return ("objects",)
    return object_meta.finalizers(definition)


def mark_deleted(brand: Brand) -> Callable[[Document, str], None]:
    """Returns the function that marks a definition as being deleted."""
    finalizer = cleanup_finalizer(brand)

    def mark(definition: Document, now: str) -> None:
        meta = definition["metadata"]
        meta["deletionTimestamp"] = now
        finalizers = meta.get("finalizers") or []
        if finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, finalizer]
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        pending = condition(TERMINATING, holds=True, reason="InstanceDeletionPending", message=text)
        set_definition_condition(definition, pending, now)

    return mark
