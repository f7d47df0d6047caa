"""Evaluates the rules of a custom resource when it is written.

Source: k8s.io/apiextensions-apiserver, pkg/registry/customresource/strategy.go and
pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final, NamedTuple

from apiserver import field_errors
from apiserver.custom_resources.rules.compiled import SELF
from apiserver.custom_resources.rules.evaluation import UNKNOWN, WHOLE_OBJECT, Change, Evaluation
from apiserver.custom_resources.rules.nodes import Node, find_rules
from apiserver.custom_resources.rules.types import SchemaTypes
from apiserver.field_errors import FieldError
from apiserver.schema.custom.correlation import Correlation
from apiserver.schema.custom.document import Extensions, JSONSchema
from apiserver.vocabulary import Document

# After one of these errors a value may be of another type than its schema says.
_PREVENTING: Final = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)


class Findings(NamedTuple):
    """warnings: errors about what an update leaves as it was; it is not refused for them."""

    errors: list[FieldError]
    warnings: list[FieldError]


def prevented(errors: Iterable[FieldError]) -> FieldError | None:
    """What is said instead of evaluating rules for an object with these errors; None if they allow it."""
    if all(error.reason not in _PREVENTING for error in errors):
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

    @cached_property
    def _root(self) -> Node | None:
        return find_rules(self._schema, SELF, SchemaTypes(self._vendor), self._vendor, is_root=True)

    @cached_property
    def _extensions(self) -> Extensions:
        return Extensions(self._vendor)

    def validate(
        self, new: Document, old: Document | None = None, correlation: Correlation | None = None
    ) -> Findings:
        """new: complete, with its defaults, and without errors that prevent rules.

        old: in an update, what was stored, in the same version.
        correlation: of the two, if there is one already.
        """
        if self._root is None:
            return Findings([], [])
        if old is not None and correlation is None:
            correlation = Correlation(new, old, self._schema, self._extensions)
        evaluation = Evaluation()
        evaluation.run(self._root, new, old, None, Change(correlation, None))
        return Findings(evaluation.errors, evaluation.warnings)


def evaluate_default(schema: JSONSchema, value: Any, *, path: str, vendor: str) -> list[FieldError]:
    """What the rules of a schema say of its own default, as if it stayed as it is. path: the default's."""
    node = find_rules(schema, SELF, SchemaTypes(vendor), vendor)
    evaluation = Evaluation()
    if node is not None:
        evaluation.run(node, value, value, (None, path), UNKNOWN)
    return evaluation.errors
