"""Compares two definitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from apiserver.custom_resources.definitions import storage_version, versions_of
from apiserver.custom_resources.definitions.comparison.changes import Change, breaking, note
from apiserver.custom_resources.definitions.comparison.schema_changes import PRUNING, SchemaComparison
from apiserver.custom_resources.definitions.comparison.version_changes import (
    schema_of,
    version_changes,
    version_path,
)
from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions
from apiserver.schema.validation.documents import at

_NONE: Final = "None"


def definition_changes(old: Document, new: Document, extensions: Extensions) -> list[Change]:
    """Returns the changes from one definition to another, which replaces it. Both have their defaults."""
    return [
        *_identity(old["spec"], new["spec"]),
        *_names(old["spec"]["names"], new["spec"]["names"]),
        *_storage(old, new),
        *_conversion(old["spec"], new["spec"]),
        *_versions(old, new, extensions),
    ]


def stored_versions(definition: Document) -> Collection[str]:
    """Returns the versions in which objects may be stored; without a status, the version of new objects."""
    stored = at(definition, "status", "storedVersions")
    return stored or [storage_version(definition["spec"])]


# ---- the definition as a whole


def _identity(old: Document, new: Document) -> Iterator[Change]:
    """Yields the changes of fields that the server does not allow to change."""
    for steps in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        before, after = at(old, *steps), at(new, *steps)
        if before != after:
            text = f"{before} becomes {after}. The server refuses this: create another definition."
            yield breaking(f"{steps[-1].title()}Changed", ".".join(("spec", *steps)), text)


def _names(old: Document, new: Document) -> Iterator[Change]:
    for field, kind in (("singular", "SingularChanged"), ("listKind", "ListKindChanged")):
        before, after = old.get(field), new.get(field)
        if before != after:
            yield breaking(kind, f"spec.names.{field}", f"{before} becomes {after}.")
    for field, kind in (("shortNames", "ShortName"), ("categories", "Category")):
        was, is_ = (dict.fromkeys(each.get(field) or ()) for each in (old, new))
        for name in was:
            if name not in is_:
                # Lists of a category contain what is in it.
                change = breaking if field == "shortNames" else note
                yield change(f"{kind}Removed", f"spec.names.{field}", f"{name} is removed.")
        for name in is_:
            if name not in was:
                yield note(f"{kind}Added", f"spec.names.{field}", f"{name} is added.")


def _storage(old: Document, new: Document) -> Iterator[Change]:
    if old["spec"].get("preserveUnknownFields") and not new["spec"].get("preserveUnknownFields"):
        text = "The server prunes fields that the schemas do not name."
        yield breaking("PreserveUnknownFieldsRemoved", "spec.preserveUnknownFields", text)
    before, after = storage_version(old["spec"]), storage_version(new["spec"])
    if before != after:
        text = f"Objects are stored in {after} instead of {before} from their next update."
        yield note("StorageVersionChanged", version_path(after), text)


def _conversion(old: Document, new: Document) -> Iterator[Change]:
    before, after = (at(each, "conversion") or {"strategy": _NONE} for each in (old, new))
    strategies = before.get("strategy"), after.get("strategy")
    path = "spec.conversion.strategy"
    if strategies == (_NONE, "Webhook"):
        yield note(
            "ConversionChanged", path, "The server calls a webhook to convert objects between versions."
        )
    elif strategies == ("Webhook", _NONE):
        text = "The server does not call the webhook any more. It changes only the apiVersion of objects."
        change = breaking if len(old["versions"]) > 1 else note
        yield change("ConversionChanged", path, text)
    elif before != after:
        text = "The server calls another webhook, or calls it in another way."
        yield note("ConversionChanged", "spec.conversion.webhook", text)


# ---- versions


def _versions(old: Document, new: Document, extensions: Extensions) -> Iterator[Change]:
    comparison = SchemaComparison(extensions)
    stored = stored_versions(old)
    before = {each["name"]: each for each in versions_of(old)}
    after = {each["name"]: each for each in versions_of(new)}
    for name, version in before.items():
        if name not in after:
            yield _removed(version, is_stored=name in stored)
            continue
        yield from version_changes(version, after[name], extensions)
        if version.get("served") or name in stored:
            for change in comparison.changes(schema_of(version), schema_of(after[name])):
                yield change._replace(version=name)
    for name in after:
        if name not in before:
            yield note("VersionAdded", version_path(name), "The version is added.")
    if at(new, "spec", "conversion", "strategy") in (None, _NONE):
        yield from _unconverted(old, new, comparison)


def _removed(version: Document, *, is_stored: bool) -> Change:
    path = version_path(version["name"])
    if is_stored:
        text = (
            "The version is removed, but objects may be stored in it. The server refuses this until they are "
            "rewritten and the version is removed from status.storedVersions."
        )
        return breaking("VersionRemoved", path, text)
    if version.get("served"):
        return breaking("VersionRemoved", path, "The version is removed. Clients that use it get 404.")
    return note("VersionRemoved", path, "The version is removed. It was not served.")


def _unconverted(old: Document, new: Document, comparison: SchemaComparison) -> Iterator[Change]:
    """Yields what objects lose in other versions, as the server does not convert them."""
    before = {each["name"]: each for each in versions_of(old)}
    after = {each["name"]: each for each in versions_of(new)}
    was_stored, is_stored = storage_version(old["spec"]), storage_version(new["spec"])
    stored = after.get(was_stored) or before[was_stored]
    for name, version in after.items():
        if not version.get("served"):
            continue
        if not (name in before and before[name].get("served")):
            for change in comparison.changes(schema_of(stored), schema_of(version)):
                if change.is_breaking:
                    text = f"Objects of {was_stored} are not converted to this version: {change.message}"
                    yield change._replace(version=name, message=text)
        elif was_stored != is_stored:
            for change in comparison.changes(schema_of(version), schema_of(after[is_stored])):
                if change.is_breaking and change.kind in PRUNING:
                    text = f"Objects are stored in {is_stored}, but not converted to it: {change.message}"
                    yield change._replace(version=name, message=text)
