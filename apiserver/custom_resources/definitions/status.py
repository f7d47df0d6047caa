"""Computes the names and conditions that a definition should have, given the names in use in its group.

Sources: k8s.io/apiextensions-apiserver, pkg/controller/{status,establish,nonstructuralschema,apiapproval}.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection
from typing import Final

from apiserver.custom_resources.definitions import accepted_names, storage_version
from apiserver.custom_resources.definitions.approval import approval_of, is_protected_group
from apiserver.custom_resources.definitions.conditions import (
    API_APPROVED,
    ESTABLISHED,
    NAMES_ACCEPTED,
    NON_STRUCTURAL,
    condition,
    remove_definition_condition,
    set_definition_condition,
)
from apiserver.golang.quoting import aggregate, go_quote
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import is_condition_true
from apiserver.meta.vocabulary import Document

_SHOWN_NAMES: Final = ("plural", "singular", "kind", "listKind", "shortNames", "categories")


class NamesInUse:
    """The names that were accepted for the definitions of one group, some perhaps for several."""

    def __init__(self) -> None:
        self.resources: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def add(self, names: Document) -> None:
        """Add the names of a definition, in the form of `acceptedNames`."""
        self.resources.update(_resources(names))
        self.kinds.update(_kinds(names))

    def remove(self, names: Document) -> None:
        for counted, each in ((self.resources, _resources(names)), (self.kinds, _kinds(names))):
            counted.subtract(each)
            for name in each:
                if counted[name] <= 0:
                    del counted[name]


def have_common_name(some: Document, others: Document) -> bool:
    """Returns whether two definitions of one group have a name in common, which only one of them can have."""
    return any(names(some) & names(others) - {""} for names in (_resources, _kinds))


def _resources(names: Document) -> set[str]:
    return {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}


def _kinds(names: Document) -> set[str]:
    return {names.get("kind", ""), names.get("listKind", "")}


def with_status(definition: Document, in_use: NamesInUse, now: str, *, brand: Brand) -> Document:
    """Returns a copy of the definition with the status that it should have.

    in_use: the names in use by all definitions of its group, itself included.
    """
    # Schemas may be large, and stay as they are.
    new = {**definition, "status": copy.deepcopy(definition.get("status") or {})}
    status = new["status"]
    names, accepted = _names(new, in_use)
    status["acceptedNames"] = names
    set_definition_condition(new, accepted, now)
    if not is_condition_true(new, ESTABLISHED):
        set_definition_condition(new, _established(is_accepted=accepted["status"] == "True"), now)
    _set_or_remove(new, NON_STRUCTURAL, _non_structural(new), now)
    _set_or_remove(new, API_APPROVED, _approval(new, brand), now)
    stored = status.get("storedVersions") or []
    if (version := storage_version(new["spec"])) and version not in stored:
        status["storedVersions"] = [*stored, version]
    return new


def _set_or_remove(definition: Document, kind: str, wanted: Document | None, now: str) -> None:
    if wanted is not None:
        set_definition_condition(definition, wanted, now)
    else:
        remove_definition_condition(definition, kind)


# ---- names


def _names(definition: Document, in_use: NamesInUse) -> tuple[Document, Document]:
    """Returns the accepted names, and the condition about whether all requested names are accepted.

    Each name is accepted or refused by itself.
    """
    wanted, own = definition["spec"]["names"], accepted_names(definition)
    names = dict(own)
    conflict: tuple[str, str] | None = None
    conflicts: tuple[tuple[str, str, Collection[str]], ...] = (
        ("plural", "PluralConflict", in_use.resources),
        ("singular", "SingularConflict", in_use.resources),
        ("shortNames", "ShortNamesConflict", in_use.resources),
        ("kind", "KindConflict", in_use.kinds),
        ("listKind", "ListKindConflict", in_use.kinds),
    )
    for field, reason, others in conflicts:
        if field == "shortNames":
            asked = [each for each in wanted.get(field) or () if each not in (own.get(field) or ())]
        else:
            asked = [wanted.get(field, "")] if wanted.get(field) != own.get(field) else []
        used = [each for each in asked if each and each in others]
        if used:
            conflict = reason, aggregate([f"{go_quote(each)} is already in use" for each in used])
        else:
            names[field] = wanted.get(field)
    names["categories"] = wanted.get("categories")
    # The plural and the kind are written even where they are empty.
    shown = {"plural": names.get("plural") or "", "kind": names.get("kind") or ""}
    shown = {field: names[field] for field in _SHOWN_NAMES if names.get(field)} | {
        field: value for field, value in shown.items() if not value
    }
    if conflict is not None:
        return shown, condition(NAMES_ACCEPTED, holds=False, reason=conflict[0], message=conflict[1])
    return shown, condition(NAMES_ACCEPTED, holds=True, reason="NoConflicts", message="no conflicts found")


def _established(*, is_accepted: bool) -> Document:
    """Returns the condition Established, which Kubernetes delays until all servers have seen the
    definition.
    """
    if is_accepted:
        return condition(
            ESTABLISHED,
            holds=True,
            reason="InitialNamesAccepted",
            message="the initial names have been accepted",
        )
    return condition(ESTABLISHED, holds=False, reason="NotAccepted", message="not all names are accepted")


# ---- structure and approval


def _non_structural(definition: Document) -> Document | None:
    """Returns the condition NonStructuralSchema, which only definitions from other or old servers have."""
    if definition["spec"].get("preserveUnknownFields") is not True:
        return None
    return condition(
        NON_STRUCTURAL,
        holds=True,
        reason="Violations",
        message="spec.preserveUnknownFields: Invalid value: true: must be false",
    )


def _approval(definition: Document, brand: Brand) -> Document | None:
    if not is_protected_group(definition["spec"]["group"], brand):
        return None
    found = approval_of(definition, brand)
    return condition(API_APPROVED, holds=found.is_approved, reason=found.reason, message=found.message)
