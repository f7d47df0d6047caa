"""Checks the expressions of policies and webhooks when they are written: that they compile.

What is stored is not refused for what it is: an expression that is stored with the same parameters and
variables is not compiled again, and any that is stored may use what later releases have.

Source: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

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
from apiserver.field_errors import Errors, forbidden, invalid
from apiserver.vocabulary import Document

# Kubernetes has no limit but the request's size. These are those of the rules in one definition.
EXPRESSIONS_MAX: Final = 2_000
CHARACTERS_MAX: Final = 100_000


class MatchConditionExpressions:
    """The match conditions of a policy or of webhooks; they see no variables."""

    def __init__(self, old: Iterable[Document], *, has_params: bool = False) -> None:
        """old: whatever had conditions before an update."""
        self._compiler = AdmissionCompiler(has_params=has_params)
        self._stored = frozenset(text.strip() for each in old for text in condition_texts(each))

    def errors(self, path: str, text: str) -> Errors:
        return _errors(path, text, text, CONDITION, self._compiler, self._stored)


class PolicyExpressions:
    """The other expressions of a policy."""

    def __init__(
        self, spec: Document, old_spec: Document | None, *, always_has_variables: bool = False
    ) -> None:
        """old_spec: that before an update.

        always_has_variables: expressions may name `variables` even if the policy has none.
        """
        self._always_has_variables = always_has_variables
        self._variables = spec.get("variables") or ()
        self._has_params = spec.get("paramKind") is not None
        old = old_spec or {}
        self._stored = frozenset(policy_texts(old))
        # Stored expressions mean the same as before.
        self._is_same = old_spec is not None and (
            self._has_params == (old.get("paramKind") is not None)
            and list(self._variables) == list(old.get("variables") or ())
        )

    @cached_property
    def _compiler(self) -> AdmissionCompiler:
        has_variables = self._always_has_variables or bool(self._variables)
        compiler = AdmissionCompiler(has_params=self._has_params, has_variables=has_variables)
        if self._is_same:
            for variable in self._variables:
                self._declared(compiler, variable)
        return compiler

    def variable(self, path: str, variable: Document) -> Errors:
        """Checks a variable, and lets the expressions after it use it."""
        if self._is_same:
            return []
        text = variable.get("expression", "")
        problem = self._declared(self._compiler, variable)
        return [] if problem is None else [invalid(path, text, problem)]

    def _declared(self, compiler: AdmissionCompiler, variable: Document) -> str | None:
        text = variable.get("expression", "")
        try:
            compiler.declare(variable.get("name", ""), text, is_stored=text in self._stored)
        except CompilationFailed as failed:
            return str(failed)
        return None

    def validation(self, path: str, text: str) -> Errors:
        return self._of_kind(path, text, text, CONDITION)

    def message(self, path: str, text: str) -> Errors:
        return self._of_kind(path, text, text, MESSAGE)

    def audit_annotation(self, path: str, text: str) -> Errors:
        return self._of_kind(path, text, text.strip(), AUDIT_ANNOTATION)

    def apply_configuration(self, path: str, text: str) -> Errors:
        return self._of_kind(path, text, text, APPLY_CONFIGURATION)

    def json_patches(self, path: str, text: str) -> Errors:
        return self._of_kind(path, text, text, JSON_PATCHES)

    def _of_kind(self, path: str, shown: str, text: str, kind: ExpressionKind) -> Errors:
        if self._is_same and shown in self._stored:
            return []
        return _errors(path, shown, text, kind, self._compiler, self._stored)


def _errors(
    path: str,
    shown: str,
    text: str,
    kind: ExpressionKind,
    compiler: AdmissionCompiler,
    stored: frozenset[str],
) -> Errors:
    try:
        compiler.compile(text, kind, is_stored=shown in stored)
    except CompilationFailed as failed:
        return [invalid(path, shown, str(failed))]
    return []


# ---- extents


def condition_texts(value: Document) -> Iterator[str]:
    for condition in value.get("matchConditions") or ():
        yield condition.get("expression", "")


def policy_texts(spec: Document) -> Iterator[str]:
    for variable in spec.get("variables") or ():
        yield variable.get("expression", "")
    for validation in spec.get("validations") or ():
        yield validation.get("expression", "")
        if message := validation.get("messageExpression"):
            yield message
    for annotation in spec.get("auditAnnotations") or ():
        yield annotation.get("valueExpression", "")
    yield from mutation_texts(spec)


def mutation_texts(spec: Document) -> Iterator[str]:
    for mutation in spec.get("mutations") or ():
        for field in ("applyConfiguration", "jsonPatch"):
            if (patch := mutation.get(field)) is not None:
                yield patch.get("expression", "").strip()


def too_many_expressions(path: str, texts: Iterable[str], old: Iterable[str]) -> Errors:
    """Returns an error if there are more expressions than are compiled for one object.

    old: those before an update, which are not too many if they stay.
    """
    texts = list(texts)
    if texts == list(old):
        return []
    count, characters = len(texts), sum(map(len, texts))
    if count > EXPRESSIONS_MAX:
        return [forbidden(path, f"must not have more than {EXPRESSIONS_MAX} expressions, but has {count}")]
    if characters > CHARACTERS_MAX:
        text = f"expressions must not have more than {CHARACTERS_MAX} characters together"
        return [forbidden(path, f"{text}, but have {characters}")]
    return []
