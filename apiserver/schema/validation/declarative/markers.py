"""The validation rules for markers of fields.

Sources: k8s.io/apimachinery, pkg/api/validate (what a rule finds, and its texts); k8s.io/code-generator,
cmd/validation-gen/validators (which rules come first, and end the checks of their field).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from apiserver.meta.field_errors import (
    INVALID,
    Errors,
    FieldError,
    field_below,
    forbidden,
    invalid,
    item_below,
    not_supported,
    required,
    too_many,
)
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import UNCHANGED, ZERO_OR_ONE, at_least, immutable

Where: TypeAlias = "tuple[Where | None, str | int]"


class ValidatedField(NamedTuple):
    """One field of one object, and its old value.

    where: the names of fields and indexes of items that lead to it: its path is made of them when there is an
        error.
    value, old: None if it is absent. owner, old_owner: the new and the old object with the field; the old one
    is None if there was none.
    """

    where: Where
    value: Any
    old: Any
    owner: Document
    old_owner: Document | None

    @property
    def path(self) -> str:
        return _path(self.where)


def _path(where: Where) -> str:
    outside, step = where
    path = _path(outside) if outside is not None else ""
    return item_below(path, step) if isinstance(step, int) else field_below(path, step)


class DeclaredRule(NamedTuple):
    """A rule about the value of a field, declared by a marker.

    reason: the cause type of its errors. origin: the origin of errors whose type is INVALID.
    ends: whether an error ends the validation of the field, and of the fields below it.
    is_of_change: whether it compares with the old value, and so runs even after a rule with `ends`.
    is_of_owner: whether it reads other fields of the object, too; if not, it does not run for an unchanged
        value.
    """

    reason: str
    origin: str
    find: Callable[[ValidatedField], Errors]
    ends: bool = False
    is_of_change: bool = False
    is_of_owner: bool = False


def rule_of(marker: str) -> DeclaredRule:
    """Returns the rule of a marker, as migrated.txt has them. Raises KeyError for an unknown one."""
    name, _, argument = marker.partition("=")
    return _MARKERS[name](argument)


def is_empty(value: Any) -> bool:
    """Returns whether Go treats a value of a field without a pointer as absent. An object is never absent."""
    return value is None or value == "" or value == [] or value == 0


def is_same(new: Any, old: Any) -> bool:
    """Returns whether two values are equal in Go, where absent strings are empty."""
    return bool(new == old) or bool(_in_go(new) == _in_go(old))


def _in_go(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_go(each) for name, each in value.items() if each is not None and each != ""}
    if isinstance(value, list):
        return [_in_go(each) for each in value]
    return None if value == "" else value


# ---- the markers


def _required(argument: str) -> DeclaredRule:
    def find(site: ValidatedField) -> Errors:
        return [required(site.path)] if is_empty(site.value) else []

    return DeclaredRule("FieldValueRequired", "", find, ends=True)


def _immutable(argument: str) -> DeclaredRule:
    def find(site: ValidatedField) -> Errors:
        if site.old_owner is None or is_same(site.value, site.old):
            return []
        return immutable(site.path, site.value, site.old)

    return DeclaredRule(INVALID, UNCHANGED, find, is_of_change=True)


def _minimum(argument: str) -> DeclaredRule:
    low = int(argument)

    def find(site: ValidatedField) -> Errors:
        return at_least(site.path, site.value, low)

    return DeclaredRule(INVALID, "minimum", find)


def _max_items(argument: str) -> DeclaredRule:
    most = int(argument)

    def find(site: ValidatedField) -> Errors:
        count = len(site.value or ())
        return [too_many(site.path, count, most)] if count > most else []

    return DeclaredRule("FieldValueTooMany", "maxItems", find, ends=True)


def _enum(argument: str) -> DeclaredRule:
    values = argument.split(",")

    def find(site: ValidatedField) -> Errors:
        if is_empty(site.value) or site.value in values:
            return []
        return [not_supported(site.path, site.value, values)]

    return DeclaredRule("FieldValueNotSupported", "", find)


def _zero_or_one_of(argument: str) -> DeclaredRule:
    key, _, text = argument.partition(":")
    members = text.split(",")

    def present(items: Sequence[Document] | None) -> list[str]:
        found = {item.get(key) for item in items or ()}
        return [member for member in members if member in found]

    def find(site: ValidatedField) -> Errors:
        found = present(site.value)
        if len(found) <= 1 or found == present(site.old):
            return []
        field = site.path.rpartition(".")[2]
        shown, allowed = (
            ", ".join(f"{field}[{orjson.dumps({key: each}).decode()}]" for each in some)
            for some in (found, members)
        )
        text = f"must specify at most one of: {allowed}"
        return [invalid(site.path, f"{{{shown}}}", text, origin=ZERO_OR_ONE)]

    return DeclaredRule(INVALID, ZERO_OR_ONE, find)


def _member(argument: str) -> DeclaredRule:
    where, _, effect = argument.partition(",")
    discriminator, _, named = where.partition(":")
    is_wanted = effect == "required"

    def find(site: ValidatedField) -> Errors:
        is_there = site.value is not None
        if is_there is is_wanted or site.owner.get(discriminator) != named:
            return []
        old = site.old_owner
        if old is not None and old.get(discriminator) == named and (site.old is not None) is is_there:
            return []
        return [required(site.path) if is_wanted else forbidden(site.path)]

    reason = "FieldValueRequired" if is_wanted else "FieldValueForbidden"
    return DeclaredRule(reason, "", find, is_of_owner=True)


_MARKERS: Final[dict[str, Callable[[str], DeclaredRule]]] = {
    "required": _required,
    "immutable": _immutable,
    "minimum": _minimum,
    "maxItems": _max_items,
    "enum": _enum,
    "zeroOrOneOf": _zero_or_one_of,
    "member": _member,
}


def covers(rule: DeclaredRule, error: FieldError) -> bool:
    """Returns whether a rule of the same field can find an error."""
    return rule.reason == error.reason and (error.reason != INVALID or rule.origin == error.origin)
