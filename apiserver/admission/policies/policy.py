"""Compiled policies and their bindings. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy, compilePolicy in validating/plugin.go and
mutating/compilation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from apiserver.admission.policies.match_resources import MatchResources
from apiserver.cel.admission import (
    APPLY_CONFIGURATION,
    AUDIT_ANNOTATION,
    CONDITION,
    JSON_PATCHES,
    MESSAGE,
    AdmissionCompiler,
    CompilationFailed,
    ExpressionKind,
)
from apiserver.cel.compiler import Program
from apiserver.meta.vocabulary import Document


class Expression(NamedTuple):
    """A compiled expression. program: None if it does not compile; then `error` has the reason."""

    text: str
    program: Program | None
    error: str = ""


class Validation(NamedTuple):
    """A validation of a policy. message_expression: None if there is none."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


class ParamKind(NamedTuple):
    api_version: str
    kind: str

    def __str__(self) -> str:
        return f"&ParamKind{{APIVersion:{self.api_version},Kind:{self.kind},}}"


class Mutation(NamedTuple):
    """A mutation of a policy. is_json_patch: whether it makes the operations of a JSON patch, rather than a
    value to merge.
    """

    expression: Expression
    is_json_patch: bool


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """The common base of validating and mutating policies.

    params: the kind of its parameters, if it has any. variables: by name, in their order.
    sees: the variables that its expressions name.
    """

    name: str
    is_required: bool
    matches: MatchResources
    params: ParamKind | None
    conditions: Sequence[Expression]
    variables: Sequence[tuple[str, Expression]]
    sees: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class ValidatingPolicy(Policy):
    """A ValidatingAdmissionPolicy whose expressions are compiled.

    plain: the programs of its validations, if all of them compile and it has nothing else; otherwise empty.
    """

    validations: Sequence[Validation]
    audit_annotations: Sequence[tuple[str, Expression]]
    plain: Sequence[Program]

    @classmethod
    def of(cls, document: Document) -> ValidatingPolicy:
        spec = document.get("spec") or {}
        own = AdmissionCompiler(
            has_params=spec.get("paramKind") is not None, variables=spec.get("variables") or None
        )
        common = _common(document, own)
        validations = [_validation(own, each) for each in spec.get("validations") or ()]
        audit_annotations = [
            (each.get("key", ""), _compiled(own, each.get("valueExpression", "").strip(), AUDIT_ANNOTATION))
            for each in spec.get("auditAnnotations") or ()
        ]
        expressions = [
            *(each.expression for each in validations),
            *(each.message_expression for each in validations if each.message_expression is not None),
            *(each for _, each in audit_annotations),
        ]
        programs = [each.expression.program for each in validations]
        has_more = common["conditions"] or common["variables"] or common["params"] or audit_annotations
        common["sees"] |= _names(expressions)
        return cls(
            **common,
            validations=validations,
            audit_annotations=audit_annotations,
            plain=() if has_more or None in programs else [each for each in programs if each is not None],
        )


@dataclass(frozen=True, slots=True, eq=False)
class MutatingPolicy(Policy):
    """A MutatingAdmissionPolicy whose expressions are compiled.

    is_called_again: whether it runs again if others change the object after it (reinvocationPolicy IfNeeded).
    """

    mutations: Sequence[Mutation]
    is_called_again: bool

    @classmethod
    def of(cls, document: Document) -> MutatingPolicy:
        spec = document.get("spec") or {}
        own = AdmissionCompiler(
            has_params=spec.get("paramKind") is not None, variables=spec.get("variables") or ()
        )
        common = _common(document, own)
        mutations = [_mutation(own, each) for each in spec.get("mutations") or ()]
        common["sees"] |= _names(each.expression for each in mutations)
        return cls(
            **common,
            mutations=mutations,
            is_called_again=spec.get("reinvocationPolicy") == "IfNeeded",
        )


def _common(document: Document, own: AdmissionCompiler) -> dict[str, Any]:
    """Returns the fields of `Policy`. own: gets the policy's variables."""
    spec = document.get("spec") or {}
    kind = spec.get("paramKind")
    without_variables = AdmissionCompiler(has_params=kind is not None)
    conditions = [
        _compiled(without_variables, each.get("expression", "").strip(), CONDITION)
        for each in spec.get("matchConditions") or ()
    ]
    variables = [_variable(own, each) for each in spec.get("variables") or ()]
    return {
        "name": document["metadata"]["name"],
        "is_required": spec.get("failurePolicy", "Fail") == "Fail",
        "matches": MatchResources.of(spec.get("matchConstraints") or {}),
        "params": None if kind is None else ParamKind(kind.get("apiVersion", ""), kind.get("kind", "")),
        "conditions": conditions,
        "variables": variables,
        "sees": _names([*conditions, *(each for _, each in variables)]),
    }


def _names(expressions: Iterable[Expression]) -> frozenset[str]:
    """Returns the variables that expressions use; expressions that do not compile are not evaluated."""
    return frozenset(
        chain.from_iterable(each.program.names for each in expressions if each.program is not None)
    )


def _variable(compiler: AdmissionCompiler, document: Document) -> tuple[str, Expression]:
    name, text = document.get("name", ""), document.get("expression", "")
    try:
        return name, Expression(text, compiler.declare(name, text).program)
    except CompilationFailed as failed:
        return name, Expression(text, None, str(failed))


def _validation(compiler: AdmissionCompiler, document: Document) -> Validation:
    message_expression = document.get("messageExpression")
    return Validation(
        _compiled(compiler, document.get("expression", "").strip(), CONDITION),
        document.get("message", "").strip(),
        _compiled(compiler, message_expression, MESSAGE) if message_expression else None,
        document.get("reason") or "Invalid",
    )


def _mutation(compiler: AdmissionCompiler, document: Document) -> Mutation:
    is_json_patch = document.get("patchType") == "JSONPatch"
    field, kind = (
        ("jsonPatch", JSON_PATCHES) if is_json_patch else ("applyConfiguration", APPLY_CONFIGURATION)
    )
    text = (document.get(field) or {}).get("expression", "")
    return Mutation(_compiled(compiler, text.strip(), kind), is_json_patch)


def _compiled(compiler: AdmissionCompiler, text: str, kind: ExpressionKind) -> Expression:
    try:
        return Expression(text, compiler.compile(text, kind).program)
    except CompilationFailed as failed:
        return Expression(text, None, str(failed))


class ParamRef(NamedTuple):
    """The parameters that a binding refers to: one by name, or all that a selector selects.

    needs_params: whether it is an error if there are none.
    """

    name: str
    namespace: str
    selector: Document | None
    needs_params: bool


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A binding of a policy.

    matches: None if it matches everything that its policy does. actions: those of a validating policy.

    action_names: the same, in their order.
    """

    name: str
    policy: str
    actions: frozenset[str]
    params: ParamRef | None
    matches: MatchResources | None
    action_names: Sequence[str] = ()

    @classmethod
    def of(cls, document: Document) -> Binding:
        spec = document.get("spec") or {}
        ref, matches = spec.get("paramRef"), spec.get("matchResources")
        return cls(
            name=document["metadata"]["name"],
            policy=spec.get("policyName", ""),
            actions=frozenset(spec.get("validationActions") or ()),
            params=None if ref is None else _param_ref(ref),
            matches=None if matches is None else MatchResources.of(matches),
            action_names=tuple(spec.get("validationActions") or ()),
        )


def _param_ref(document: Document) -> ParamRef:
    return ParamRef(
        document.get("name") or "",
        document.get("namespace") or "",
        document.get("selector"),
        document.get("parameterNotFoundAction") == "Deny",
    )
