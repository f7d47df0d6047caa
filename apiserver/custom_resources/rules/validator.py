"""Validates custom resources by the rules in their schemas.

Source: k8s.io/apiextensions-apiserver, pkg/registry/customresource/strategy.go and
pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from apiserver.custom_resources.rules.compilation import OLD_SELF, SELF, rules_of
from apiserver.custom_resources.rules.evaluation import UNLIMITED, WHOLE_OBJECT, Evaluation, ValueChange
from apiserver.custom_resources.rules.rule_tree import (
    NULL_TIMER,
    ExpressionTimer,
    RuleNode,
    RuleTreeBuilder,
    schema_work,
)
from apiserver.custom_resources.schemas.correlation import Correlation
from apiserver.custom_resources.schemas.json_schema import JSONSchema, all_schemas
from apiserver.load.size_class import TakesLong
from apiserver.meta import field_errors
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Findings
from apiserver.schema.extensions import Extensions

# With one of these errors, a value may be of another type than its schema says.
_BLOCKING: Final = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)

# The work of a bounded validation, about 5 ms.
BOUNDED_WORK_MAX: Final = 100_000


def blocking_error(errors: Iterable[FieldError]) -> FieldError | None:
    """Returns the error to report instead of evaluating rules for an object with these errors.

    Returns None if the rules can be evaluated nevertheless.
    """
    if all(error.reason not in _BLOCKING for error in errors):
        return None
    text = (
        "some validation rules were not checked because the object was invalid;"
        " correct the existing errors to complete validation"
    )
    return field_errors.invalid(WHOLE_OBJECT, None, text)


class RuleValidator:
    """Validates objects by the rules in one schema, which are compiled on first use."""

    def __init__(self, schema: JSONSchema, *, vendor: str, timer: ExpressionTimer = NULL_TIMER) -> None:
        self._schema, self._extensions, self._timer = schema, Extensions(vendor), timer

    def validate(self, new: Document, old: Document | None = None, *, is_bounded: bool) -> Findings:
        """Evaluates all rules; errors in values that an update does not change are warnings.

        new: complete, with its defaults, and without blocking errors.
        old: in an update, the stored document, in the same version.
        is_bounded: whether to raise TakesLong after a few milliseconds. This depends only on the arguments,
            and on what has been compiled before.
        """
        if is_bounded and "_root" not in self.__dict__ and schema_work(self._schema) > BOUNDED_WORK_MAX:
            raise TakesLong
        if self._root is None:
            return Findings(())
        correlation = None if old is None else Correlation(new, old, self._schema, self._extensions)
        evaluation = Evaluation(work_max=BOUNDED_WORK_MAX if is_bounded else UNLIMITED)
        change = ValueChange(correlation, None)
        began = self._timer.now()
        evaluation.evaluate(self._root, new, old, None, change)
        self._timer.evaluated(began)
        return Findings(evaluation.errors, [str(each) for each in evaluation.warnings])

    @cached_property
    def compares_old(self) -> bool:
        """Whether a rule may use the old value, so that it may also fail for unchanged objects."""
        schemas = all_schemas(self._schema)
        rules = (rule for each in schemas for rule in rules_of(each, self._extensions))
        return any(OLD_SELF in rule.rule for rule in rules)

    @cached_property
    def _root(self) -> RuleNode | None:
        return RuleTreeBuilder(self._extensions, self._timer).build(self._schema, SELF, is_root=True)
