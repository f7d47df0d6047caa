"""ValidatingAdmissionPolicies and their bindings, compiled. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/plugin.go, compilePolicy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from apiserver.admission.policies.match_resources import MatchResources
from apiserver.catalogue.admissionregistration.expressions import condition_texts, policy_texts
from apiserver.cel.admission import (
    AUDIT_ANNOTATION,
    CONDITION,
    MESSAGE,
    NAMESPACE_OBJECT,
    AdmissionCompiler,
    CompilationFailed,
    ExpressionKind,
)
from apiserver.cel.compiler import Program
from apiserver.vocabulary import Document


class Expression(NamedTuple):
    """An expression. program: None if it does not compile; then `error` says why."""

    text: str
    program: Program | None
    error: str = ""


class Validation(NamedTuple):
    """One validation. message_expression: None if there is none."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


class ParamKind(NamedTuple):
    api_version: str
    kind: str

    def __str__(self) -> str:
        return f"&ParamKind{{APIVersion:{self.api_version},Kind:{self.kind},}}"


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A policy.

    params: the kind of its parameters, if it has any. variables: by name, in their order.
    sees_namespace: whether an expression may use `namespaceObject`.
    """

    name: str
    is_required: bool
    matches: MatchResources
    params: ParamKind | None
    conditions: Sequence[Expression]
    variables: Sequence[tuple[str, Expression]]
    validations: Sequence[Validation]
    audit_annotations: Sequence[Expression]
    sees_namespace: bool

    @classmethod
    def of(cls, document: Document) -> Policy:
        spec = document.get("spec") or {}
        kind = spec.get("paramKind")
        has_params = kind is not None
        own = AdmissionCompiler(has_params=has_params, has_variables=bool(spec.get("variables")))
        variables = [_variable(own, each) for each in spec.get("variables") or ()]
        without_variables = AdmissionCompiler(has_params=has_params)
        return cls(
            name=document["metadata"]["name"],
            is_required=spec.get("failurePolicy", "Fail") == "Fail",
            matches=MatchResources.of(spec.get("matchConstraints") or {}),
            params=None if kind is None else ParamKind(kind.get("apiVersion", ""), kind.get("kind", "")),
            conditions=[
                _compiled(without_variables, each.get("expression", "").strip(), CONDITION)
                for each in spec.get("matchConditions") or ()
            ],
            variables=variables,
            validations=[_validation(own, each) for each in spec.get("validations") or ()],
            audit_annotations=[
                _compiled(own, each.get("valueExpression", "").strip(), AUDIT_ANNOTATION)
                for each in spec.get("auditAnnotations") or ()
            ],
            sees_namespace=any(
                NAMESPACE_OBJECT in each for each in chain(condition_texts(spec), policy_texts(spec))
            ),
        )


def _variable(compiler: AdmissionCompiler, document: Document) -> tuple[str, Expression]:
    name, text = document.get("name", ""), document.get("expression", "")
    try:
        return name, Expression(text, compiler.declare(name, text, is_stored=True).program)
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


def _compiled(compiler: AdmissionCompiler, text: str, kind: ExpressionKind) -> Expression:
    try:
        return Expression(text, compiler.compile(text, kind, is_stored=True).program)
    except CompilationFailed as failed:
        return Expression(text, None, str(failed))


class ParamRef(NamedTuple):
    """Which parameters a binding refers to: one of a name, or all that a selector selects.

    needs_params: whether it is an error if there are none.
    """

    name: str
    namespace: str
    selector: Document | None
    needs_params: bool


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A binding. matches: None if it is about all that its policy is."""

    name: str
    policy: str
    actions: frozenset[str]
    params: ParamRef | None
    matches: MatchResources | None

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
        )


def _param_ref(document: Document) -> ParamRef:
    return ParamRef(
        document.get("name") or "",
        document.get("namespace") or "",
        document.get("selector"),
        document.get("parameterNotFoundAction") == "Deny",
    )
