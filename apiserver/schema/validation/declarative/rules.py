"""The declared rules of one type, and their evaluation."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import orjson

from apiserver.meta.field_errors import Errors, FieldError
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.declarative.markers import (
    DeclaredRule,
    ValidatedField,
    Where,
    covers,
    is_same,
    rule_of,
)

_INDEX: Final = re.compile(r"\[\d+\]")
_EACH: Final = "[*]"
_POINTER: Final = "?"


@dataclass(slots=True)
class _Field:
    """A field of an object, and the fields below it.

    is_pointer: whether nothing below an absent field is checked. is_list: whether the fields below it are
        those of its items.
    """

    name: str
    is_pointer: bool = False
    is_list: bool = False
    rules: list[DeclaredRule] = field(default_factory=list)
    below: dict[str, _Field] = field(default_factory=dict)


class DeclaredRules:
    """The declared rules for the fields of one type."""

    def __init__(self, lines: Sequence[str]) -> None:
        """lines: those of a type in migrated.txt: the path of a field, and its markers, first those that
        end.
        """
        self._fields: dict[str, _Field] = {}
        # By the path of a field, as migrated.txt has it, without question marks.
        self._by_path: dict[str, list[DeclaredRule]] = {}
        for line in lines:
            path, *markers = line.split()
            rules = list(map(rule_of, markers))
            self._add(path, rules)
            self._by_path.setdefault(path.replace(_POINTER, ""), []).extend(rules)

    def _add(self, path: str, rules: Sequence[DeclaredRule]) -> None:
        below, *steps = self._fields, *path.split(".")
        for step in steps:
            name = step.removesuffix(_EACH).removesuffix(_POINTER)
            found = below.setdefault(name, _Field(name))
            found.is_list |= step.endswith(_EACH)
            found.is_pointer |= step.endswith(_POINTER)
            below = found.below
        found.rules += rules

    def errors(self, new: Document, old: Document | None) -> Errors:
        """Returns the errors in a document, or in a change; for a change, the new ones.

        old: None for a new object. Both have passed the schema of their type.
        """
        found: Errors = []
        _check_object(self._fields, None, new, old, found)
        return found

    def covers(self, error: FieldError) -> bool:
        """Returns whether a rule of the error's field can find the error, whichever check found it."""
        rules = self._by_path.get(_INDEX.sub(_EACH, error.field), ())
        return any(covers(rule, error) for rule in rules)


def _check_object(
    fields: Mapping[str, _Field], where: Where | None, new: Document, old: Document | None, found: Errors
) -> None:
    for each in fields.values():
        value = new.get(each.name)
        before = None if old is None else old.get(each.name)
        _check_field(each, ValidatedField((where, each.name), value, before, new, old), found)


def _check_field(declared: _Field, site: ValidatedField, found: Errors) -> None:
    is_as_before = site.old_owner is not None and is_same(site.value, site.old)
    ended = False
    for rule in declared.rules:
        if (ended and not rule.is_of_change) or (is_as_before and not rule.is_of_owner):
            continue
        if errors := rule.find(site):
            found += errors
            ended |= rule.ends
    if ended:
        return
    below, value = declared.below, site.value
    if not below or is_as_before:
        return
    if declared.is_list:
        for index, item in _new_items(site):
            _check_object(below, (site.where, index), item, None, found)
    elif value is not None or not declared.is_pointer:
        is_new = site.old_owner is None or (declared.is_pointer and site.old is None)
        before = None if is_new else site.old or {}
        _check_object(below, site.where, value or {}, before, found)


def _new_items(site: ValidatedField) -> Iterator[tuple[int, Any]]:
    """Returns the new items of a list, with their indexes, wherever equal old items were."""
    known = {orjson.dumps(item, option=orjson.OPT_SORT_KEYS) for item in site.old or ()}
    for index, item in enumerate(site.value or ()):
        if not known or orjson.dumps(item, option=orjson.OPT_SORT_KEYS) not in known:
            yield index, item


@cache
def migrated_types() -> Mapping[str, DeclaredRules]:
    """Returns the rules of all types with migrated fields, by the name of their definition."""
    text = pkgutil.get_data(__package__, "migrated.txt")
    assert text is not None
    types: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.decode().splitlines():
        if line.startswith(" "):
            lines.append(line)
        elif not line.startswith("#"):
            types[line] = lines = []
    return MappingProxyType({name: DeclaredRules(each) for name, each in types.items()})
