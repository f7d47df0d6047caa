"""Applies a mutating policy to an object, for one write and one set of parameters. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/mutating/dispatcher.go and patch/{smd,json_patch}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from apiserver.admission.patched_documents import completed
from apiserver.admission.policies.budget import (
    BOUNDED_COST_MAX,
    COMPILE_ERROR,
    COST_BUDGET,
    INVALID_ERROR,
    NO_ERROR,
    OUT_OF_BUDGET,
    OUT_OF_BUDGET_ERROR,
    Budget,
    ConditionsCheck,
    PolicyVariables,
    check_conditions,
    resulted_in,
)
from apiserver.admission.policies.policy import MutatingPolicy, Mutation
from apiserver.cel.admission import OBJECT, PARAMS, VARIABLES
from apiserver.cel.json_values import JsonValues, NotJson, TooLarge
from apiserver.cel.values import CostExceeded, EvaluationError, Message
from apiserver.load.size_class import LARGE_BYTES, SizeClass, TakesLong
from apiserver.meta.vocabulary import Document
from apiserver.registry import write_stages
from apiserver.registry.patch.apply.apply_configuration import InvalidApplyConfiguration, apply_configuration
from apiserver.registry.patch.apply.type_defs import TypeDef
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.compile import TypeMismatch

# What one mutation may add. No object that can be stored is larger.
PATCH_BYTES_MAX: Final = 3 * 1024 * 1024


class MutationFailed(Exception):
    """A mutation cannot be made; the message is for the client.

    error_type: as in metrics.
    """

    def __init__(self, why: str, error_type: str = INVALID_ERROR) -> None:
        super().__init__(why)
        self.error_type = error_type


class MutationTarget(NamedTuple):
    """The document that a policy mutates. kind: that of the document. type_def: that of all its fields."""

    document: Document
    kind: ServedResource
    type_def: TypeDef


@dataclass(slots=True)
class MutationOutcome:
    """The outcome of a mutating policy.

    document: the mutated one; the same object if unchanged.
    errors: those of failed mutations or conditions.
    checks: the outcome of each mutation, as in metrics, and its seconds.
    conditions: their outcome; None if the policy has none.
    """

    document: Document
    errors: list[str] = field(default_factory=list)
    checks: list[tuple[str, float]] = field(default_factory=list)
    conditions: ConditionsCheck | None = field(default=None, compare=False)


def mutated(
    policy: MutatingPolicy,
    variables: Mapping[str, Any],
    params: Any,
    target: MutationTarget,
    clock: Callable[[], float],
    is_bounded: bool,
) -> MutationOutcome:
    """Make all mutations of a policy, in their order; each sees the changes of those before it.

    variables: those of the request. params: the object that a binding refers to; None if there is none. Does
    not change the target's document. Raises TakesLong if it is bounded; InternalError if the result is not a
    valid object of its kind.
    """
    outcome = MutationOutcome(target.document)
    known: dict[str, Any] = {**variables, OBJECT: target.document}
    if policy.params is not None:
        known[PARAMS] = params
    budget = Budget(COST_BUDGET, BOUNDED_COST_MAX if is_bounded else None)
    # Of all mutations together: each works on what those before it have made larger.
    bounded_values = JsonValues(LARGE_BYTES) if is_bounded else None
    if policy.conditions:
        outcome.conditions = check_conditions(policy, known, budget)
        if not outcome.conditions.is_met:
            if outcome.conditions.failure:
                outcome.errors.append(outcome.conditions.failure)
            return outcome
    for mutation in policy.mutations:
        began, error_type = clock(), NO_ERROR
        budget = Budget(COST_BUDGET, budget.bounded)
        known[OBJECT] = outcome.document
        if policy.variables:
            known[VARIABLES] = PolicyVariables(policy.variables, budget, known)
        try:
            value = _evaluated(mutation, known, budget)
            current = target._replace(document=outcome.document)
            outcome.document = _patched(mutation, value, current, bounded_values)
        except MutationFailed as failed:
            outcome.errors.append(str(failed))
            error_type = failed.error_type
        outcome.checks.append((error_type, clock() - began))
    return outcome


def _evaluated(mutation: Mutation, known: Mapping[str, Any], budget: Budget) -> Any:
    expression = mutation.expression
    if expression.program is None:
        raise MutationFailed(expression.error, COMPILE_ERROR)
    try:
        value = budget.evaluate(expression, known)
    except (EvaluationError, CostExceeded) as error:
        raise MutationFailed(resulted_in(expression, error)) from None
    if budget.left < 0:  # Variables cost, too.
        raise MutationFailed(OUT_OF_BUDGET, OUT_OF_BUDGET_ERROR)
    return value


def _patched(
    mutation: Mutation, value: Any, target: MutationTarget, bounded_values: JsonValues | None
) -> Document:
    """Returns the document with the result of an expression; the same one if nothing changes.

    bounded_values: makes the added values, if the work is bounded.
    """
    values = bounded_values or JsonValues(PATCH_BYTES_MAX)
    is_bounded = bounded_values is not None
    try:
        made: Any = _operations(value, values) if mutation.is_json_patch else values.of(value)
        if is_bounded and target.kind.is_custom and _has_large_defaults(made, target.kind):
            raise TakesLong
        if mutation.is_json_patch:
            return _json_patched(made, target, is_bounded=is_bounded)
        return _merged(made, target)
    except NotJson as error:
        raise MutationFailed(str(error)) from None
    except TooLarge:
        if is_bounded:
            raise TakesLong from None
        raise MutationFailed(f"the patch is longer than {PATCH_BYTES_MAX} bytes") from None


def _has_large_defaults(made: Any, kind: ServedResource) -> bool:
    """Returns whether the defaults of an added value may take too long on the event loop."""
    try:
        return kind.size_of_defaults(orjson.dumps(made)) is not SizeClass.SMALL
    except orjson.JSONEncodeError:
        return True  # It is nested too deeply, which the next step reports.


def _merged(configuration: Document, target: MutationTarget) -> Document:
    """Returns the document merged with a value, which is taken over: it must have been made for this call."""
    document, kind, type_def = target
    configuration |= {"apiVersion": kind.api_version, "kind": kind.kind}
    try:
        merged = apply_configuration(document, configuration, type_def)
        if merged is document:
            return document
        kind.check(merged)
    except InvalidApplyConfiguration as error:
        raise MutationFailed(f"error applying patch: {error}") from None
    except TypeMismatch as mismatch:
        raise MutationFailed(f"error applying patch: {mismatch}") from None
    return document if write_stages.is_same(merged, document) else merged


def _operations(value: Any, values: JsonValues) -> list[dict[str, Any]]:
    """Returns the operations of a JSON patch. value: a list of JSONPatch, by the type of the expression."""
    operations: list[dict[str, Any]] = []
    for each in value:
        if not isinstance(each, Message):
            raise MutationFailed(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
            )
        # Of each field by itself: the type of a JSONPatch is no place in the object.
        operation = {name: values.of(part) for name, part in each.fields.items()}
        operations.append({"op": "", "path": "", **operation})
    return operations


def _json_patched(operations: list[dict[str, Any]], target: MutationTarget, *, is_bounded: bool) -> Document:
    from apiserver.registry.patch import json_patch

    document, kind, _ = target
    try:
        json_patch.check(operations)
        if is_bounded and json_patch.may_multiply(operations):
            raise TakesLong
        patched = json_patch.apply(orjson.loads(orjson.dumps(document)), operations)
    except json_patch.TestFailed:
        return document
    except (json_patch.MalformedJsonPatch, json_patch.TooManyOperations, json_patch.CannotApply) as error:
        raise MutationFailed(f"JSON Patch: {error}") from None
    except orjson.JSONEncodeError:
        raise MutationFailed("JSON Patch: the object is nested too deeply") from None
    changed = completed(patched, kind, is_strict=not kind.is_custom)
    return document if write_stages.is_same(changed, document) else changed
