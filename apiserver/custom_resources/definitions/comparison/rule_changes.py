"""Compares the validation rules of a schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.cel import lexer
from apiserver.custom_resources.definitions.comparison.changes import Change, breaking, note
from apiserver.custom_resources.rules.compilation import OLD_SELF, ValidationRule, rules_of
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.schema.extensions import Extensions

# The fields of a rule that change what clients see of a violation, but not what is one.
_OF_MESSAGE: Final = ("message", "message_expression", "reason", "field_path")
_Key = tuple[tuple[str, ...], bool]


def rule_changes(old: JSONSchema, new: JSONSchema, path: str, extensions: Extensions) -> Iterator[Change]:
    before = {_key(rule): rule for rule in rules_of(old, extensions) if rule.rule}
    after = {_key(rule): rule for rule in rules_of(new, extensions) if rule.rule}
    for key, rule in after.items():
        if key not in before:
            yield _added(rule, key, path)
        elif any(getattr(rule, name) != getattr(before[key], name) for name in _OF_MESSAGE):
            yield note("RuleMessageChanged", path, f"The error of a validation rule changes: {rule.rule}")
    for key, rule in before.items():
        if key not in after:
            yield note("RuleRemoved", path, f"A validation rule is removed: {rule.rule}")


def _added(rule: ValidationRule, key: _Key, path: str) -> Change:
    tokens, is_for_creates = key
    if OLD_SELF in tokens and not is_for_creates:
        return breaking("RuleAdded", path, f"Updates must meet a new validation rule: {rule.rule}")
    return breaking("RuleAdded", path, f"Values must meet a new validation rule: {rule.rule}")


def _key(rule: ValidationRule) -> _Key:
    """Returns what a rule means: its tokens, and whether it applies without an old value."""
    return tuple(lexer.tokens(rule.rule).texts), bool(rule.optional_old_self)
