"""Evaluates the rules of a custom resource when it is written.

Source: k8s.io/apiextensions-apiserver, pkg/registry/customresource/strategy.go and
pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from apiserver import field_errors
from apiserver.apiextensions.schema_rules.compilation import SELF
from apiserver.apiextensions.schema_rules.evaluation import (
    ERRORS_MAX,
    OBJECT_COST_MAX,
    UNKNOWN,
    UNLIMITED,
    WHOLE_OBJECT,
    Change,
    Evaluation,
    TakesLong,
)
from apiserver.apiextensions.schema_rules.rule_tree import Finder, Node, schema_work
from apiserver.apiextensions.validation.schema_defaults import DefaultValue
from apiserver.field_errors import FieldError
from apiserver.schema.custom.correlation import Correlation
from apiserver.schema.custom.json_schema import Extensions, JSONSchema
from apiserver.vocabulary import Document

# After one of these errors a value may be of another type than its schema says.
_BLOCKING: Final = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)

# About 5 ms: whoever waits may wait for that.
BOUNDED_WORK_MAX: Final = 100_000


class Findings(NamedTuple):
    """warnings: errors about what an update leaves as it was; it is not refused for them."""

    errors: list[FieldError]
    warnings: list[FieldError]


def blocking_error(errors: Iterable[FieldError]) -> FieldError | None:
    """What is said instead of evaluating rules for an object with these errors; None if they allow it."""
    if all(error.reason not in _BLOCKING for error in errors):
        return None
    text = (
        "some validation rules were not checked because the object was invalid;"
        " correct the existing errors to complete validation"
    )
    return field_errors.invalid(WHOLE_OBJECT, None, text)


class Rules:
    """The rules in one schema."""

    def __init__(self, schema: JSONSchema, *, vendor: str) -> None:
        self._schema, self._vendor = schema, vendor

    def validate(self, new: Document, old: Document | None = None) -> Findings:
        """new: complete, with its defaults, and without errors that prevent rules.

        old: in an update, what was stored, in the same version.
        """
        return self._validate(new, old, UNLIMITED)

    def validate_soon(self, new: Document, old: Document | None = None) -> Findings | None:
        """The same; but None, after a few milliseconds, if it takes longer.

        Whether it does depends on what has been compiled before, and on nothing else than the arguments.
        """
        if "_root" not in self.__dict__ and schema_work(self._schema) > BOUNDED_WORK_MAX:
            return None
        try:
            return self._validate(new, old, BOUNDED_WORK_MAX)
        except TakesLong:
            return None

    @cached_property
    def _root(self) -> Node | None:
        return Finder(self._vendor).find(self._schema, SELF, is_root=True)

    @cached_property
    def _extensions(self) -> Extensions:
        return Extensions(self._vendor)

    def _validate(self, new: Document, old: Document | None, work_max: int) -> Findings:
        if self._root is None:
            return Findings([], [])
        correlation = None if old is None else Correlation(new, old, self._schema, self._extensions)
        evaluation = Evaluation(work_max=work_max)
        evaluation.run(self._root, new, old, None, Change(correlation, None))
        return Findings(evaluation.errors, evaluation.warnings)


def evaluate_defaults(defaults: Sequence[DefaultValue], *, vendor: str) -> list[FieldError]:
    """What the rules of schemas say of their own defaults, in turn.

    Each as if it stayed as it is, and as if it was new. All together may cost what an object may.
    """
    finder, budget = Finder(vendor), OBJECT_COST_MAX
    errors: list[FieldError] = []
    for index, (schema, value, path) in enumerate(defaults):
        node = finder.find(schema, f"{SELF}{index}")
        if node is None:
            continue
        left = []
        for old in (value, None):
            evaluation = Evaluation(budget=budget)
            evaluation.run(node, value, old, (None, path), UNKNOWN)
            left.append(evaluation.budget)
            errors += evaluation.errors
            if evaluation.errors:
                break
        budget = min(left)
        if budget < 0 or len(errors) >= ERRORS_MAX:
            break
    return errors
