"""Compiles and evaluates an expression of an admission policy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from apiserver.admission.match_conditions import namespace_object
from apiserver.admission.policies.budget import PolicyVariables
from apiserver.admission.policies.policy import Expression
from apiserver.cel.admission import (
    AUTHORIZER_NAME,
    NAMESPACE_OBJECT,
    OBJECT,
    OLD_OBJECT,
    PARAMS,
    REQUEST,
    REQUEST_RESOURCE,
    VARIABLE,
    VARIABLES,
    AdmissionCompiler,
    CompilationFailed,
    CompiledExpression,
)
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.library.authorizer import (
    AuthorizerValue,
    CheckAttributes,
    ExpressionAuthorizer,
    ResourceCheck,
)
from apiserver.cel.types import DYN, Type
from apiserver.console.playground.answers import (
    Answer,
    Effort,
    FoundIssue,
    QuestionBudget,
    evaluate,
    found_issues,
)
from apiserver.console.playground.question import Question
from apiserver.load.size_class import TakesLong
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import ServedResource


def evaluate_policy(
    question: Question,
    known: Mapping[str, Any],
    types: Mapping[str, Type] | None,
    version: CompatibilityVersion,
    effort: Effort,
) -> Answer:
    """Returns the answer to a question about a policy.

    known: see `variables_of`. types: those of the objects; None if they are unknown. version: the parts of
    the language that new policies may use. Raises TakesLong, DecisionNeeded, Abandoned.
    """
    if effort.is_bounded and question.takes_long:
        raise TakesLong
    compilation = _Compilation(question, version, effort)
    if compilation.compiled is None:
        return Answer(issues=compilation.issues)
    compiled = compilation.compiled
    type_ = compiled.type
    warnings: tuple[FoundIssue, ...] = ()
    if types is not None:
        typed = _Compilation(question, version, effort, types)
        warnings = tuple(typed.issues)
        if typed.compiled is not None:
            type_ = typed.compiled.type
    programs = [compiled.program, *(each.program for _, each in compilation.variables)]
    budget, own = QuestionBudget(effort, filter(None, programs)), {**known}
    own[VARIABLES] = PolicyVariables(compilation.variables, budget, own)
    value = evaluate(Expression(question.expression, compiled.program), own, budget)
    # Kubernetes estimates no costs of policies: the sizes of their objects are not known.
    return Answer(
        value.result,
        str(type_),
        value.cost,
        error=value.error,
        warnings=warnings,
        cost_max=budget.total,
    )


def variables_of(
    question: Question, request: Document, authorizer: ExpressionAuthorizer
) -> Mapping[str, Any]:
    """Returns the variables of a question, but those that it defines.

    request: the description of the request. authorizer: decides what its user may do.
    """
    resource = request.get("requestResource")
    names = resource if type(resource) is dict else {}
    attributes = CheckAttributes(
        group=_text(names.get("group")),
        resource=_text(names.get("resource")),
        subresource=_text(request.get("requestSubResource")),
        namespace=_text(request.get("namespace")),
        name=_text(request.get("name")),
    )
    return {
        OBJECT: question.new,
        OLD_OBJECT: question.old,
        REQUEST: request,
        NAMESPACE_OBJECT: None if question.namespace is None else namespace_object(question.namespace),
        AUTHORIZER_NAME: AuthorizerValue(authorizer),
        REQUEST_RESOURCE: ResourceCheck(authorizer, attributes),
        **({PARAMS: question.params} if question.has_params else {}),
    }


class ObjectType(NamedTuple):
    """The type of an object. resource: empty if it is unknown."""

    group_version: GroupVersion
    kind: str
    resource: str = ""

    @classmethod
    def of(cls, resource: ServedResource) -> Self:
        return cls(resource.group_version, resource.kind, resource.resource)

    @classmethod
    def in_document(cls, document: Document) -> Self:
        """Returns what an object says of its type."""
        group, slash, version = _text(document.get("apiVersion")).rpartition("/")
        return cls(GroupVersion(group if slash else "", version), _text(document.get("kind")))


def described(question: Question, type_: ObjectType | None, user_info: Document) -> Document:
    """Returns the description of a request that would write the object.

    type_: None if only the object says it. user_info: the user of the request.
    """
    document = (question.new if question.new is not None else question.old) or {}
    group_version, kind, resource = type_ or ObjectType.in_document(document)
    names = {"group": group_version.group, "version": group_version.version}
    of_kind, of_resource = {**names, "kind": kind}, {**names, "resource": resource}
    meta = document.get("metadata")
    named = meta if type(meta) is dict else {}
    operation = "UPDATE" if question.old is not None else "CREATE"
    return {
        "kind": of_kind,
        "resource": of_resource,
        "requestKind": of_kind,
        "requestResource": of_resource,
        **{field: named[field] for field in ("name", "namespace") if type(named.get(field)) is str},
        "operation": "DELETE" if question.new is None and question.old is not None else operation,
        "userInfo": user_info,
        "dryRun": False,
        "options": None,
    }


def _text(value: Any) -> str:
    return value if type(value) is str else ""


class _Compilation:
    """The compiled expressions of a question.

    compiled: the expression; None if it, or a variable, does not compile. issues: why not.
    """

    def __init__(
        self,
        question: Question,
        version: CompatibilityVersion,
        effort: Effort,
        types: Mapping[str, Type] | None = None,
    ) -> None:
        """types: those of the objects; None if unknown, as they are to policies. Raises Abandoned."""
        if types is not None and question.has_params:
            types = {**types, PARAMS: DYN}
        documents = [{"name": name} for name, _ in question.variables]
        self._compiler = AdmissionCompiler(
            has_params=question.has_params, variables=documents or None, objects=types
        )
        self.variables: list[tuple[str, Expression]] = []
        self.issues: list[FoundIssue] = []
        self.compiled: CompiledExpression | None = None
        for name, text in question.variables:
            effort.check()
            try:
                compiled = self._compiler.declare(name, text, version)
                self.variables.append((name, Expression(text, compiled.program)))
            except CompilationFailed as failed:
                self.issues += _issues(text, failed, name)
        effort.check()
        try:
            found = self._compiler.compile(question.expression, VARIABLE, version)
        except CompilationFailed as failed:
            self.issues += _issues(question.expression, failed)
        else:
            self.compiled = None if self.issues else found


def _issues(text: str, failed: CompilationFailed, variable: str = "") -> Iterator[FoundIssue]:
    return found_issues(text, failed.issues, failed, variable)
