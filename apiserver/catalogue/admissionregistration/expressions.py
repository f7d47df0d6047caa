"""Checks that expressions of policies and webhooks compile, when they are written.

Stored expressions are not refused: one that is stored with the same parameters and variables is not compiled
again, and any stored one may use features of later releases. New ones may use the features of the
compatibility version.

Source: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
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
from apiserver.cel.compatibility_version import CompatibilityVersion, ExpressionVersions
from apiserver.meta.field_errors import Errors, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

# Kubernetes has no limit but the request's size. These are those of the rules in one definition.
EXPRESSIONS_MAX: Final = 2_000
CHARACTERS_MAX: Final = 100_000


class MatchConditionExpressions:
    """The match conditions of a policy or of webhooks, which cannot use variables."""

    def __init__(
        self, old: Iterable[Document], version: CompatibilityVersion, *, has_params: bool = False
    ) -> None:
        """old: the holders of conditions before an update. version: the compatibility version for new
        ones.
        """
        self._compiler = AdmissionCompiler(has_params=has_params)
        stored = frozenset(text.strip() for each in old for text in condition_texts(each))
        self._versions = ExpressionVersions(version, stored)

    def errors(self, path: str, text: str) -> Errors:
        return _errors(path, text, self._compiler, text, CONDITION, self._versions)


class PolicyExpressions:
    """The expressions of a policy, except its match conditions."""

    def __init__(
        self,
        spec: Document,
        old_spec: Document | None,
        version: CompatibilityVersion,
        *,
        always_has_variables: bool = False,
    ) -> None:
        """old_spec: the spec before an update. version: the compatibility version for new expressions.

        always_has_variables: whether expressions may use `variables` even if the policy has none.
        """
        self._always_has_variables = always_has_variables
        self._variables = spec.get("variables") or ()
        self._has_params = spec.get("paramKind") is not None
        old = old_spec or {}
        self._versions = ExpressionVersions(version, frozenset(policy_texts(old)))
        self._old = old
        # Stored expressions mean the same as before.
        self._is_same = old_spec is not None and (
            self._has_params == (old.get("paramKind") is not None)
            and list(self._variables) == list(old.get("variables") or ())
        )

    @cached_property
    def _compiler(self) -> AdmissionCompiler:
        variables = self._variables if self._variables or self._always_has_variables else None
        compiler = AdmissionCompiler(has_params=self._has_params, variables=variables)
        if self._is_same:
            for variable in self._variables:
                self._declared(compiler, variable)
        return compiler

    @cached_property
    def _stored(self) -> Mapping[ExpressionKind, Container[str]]:
        """The stored texts, by their required types."""
        validations, mutations = self._old.get("validations") or (), self._old.get("mutations") or ()
        return {
            CONDITION: _texts(validations, "expression"),
            MESSAGE: _texts(validations, "messageExpression"),
            AUDIT_ANNOTATION: _texts(self._old.get("auditAnnotations") or (), "valueExpression"),
            APPLY_CONFIGURATION: _texts(mutations, "applyConfiguration", "expression"),
            JSON_PATCHES: _texts(mutations, "jsonPatch", "expression"),
        }

    def variable(self, path: str, variable: Document) -> Errors:
        """Check a variable, and declare it for the expressions after it."""
        if self._is_same:
            return []
        text = variable.get("expression", "")
        problem = self._declared(self._compiler, variable)
        return [] if problem is None else [invalid(path, text, problem)]

    def _declared(self, compiler: AdmissionCompiler, variable: Document) -> str | None:
        text = variable.get("expression", "")
        try:
            compiler.declare(variable.get("name", ""), text, self._versions.version_of(text))
        except CompilationFailed as failed:
            return str(failed)
        return None

    def errors(self, path: str, text: str, kind: ExpressionKind) -> Errors:
        if self._is_same and text in self._stored[kind]:
            return []
        compiled = text.strip() if kind is AUDIT_ANNOTATION else text
        return _errors(path, text, self._compiler, compiled, kind, self._versions)


def _errors(
    path: str,
    shown: str,
    compiler: AdmissionCompiler,
    text: str,
    kind: ExpressionKind,
    versions: ExpressionVersions,
) -> Errors:
    try:
        compiler.compile(text, kind, versions.version_of(shown))
    except CompilationFailed as failed:
        return [invalid(path, shown, str(failed))]
    return []


def _texts(values: Iterable[Document], *steps: str) -> frozenset[str]:
    """Returns the texts at a path of each value, as they are, and without surrounding blanks."""
    found = frozenset(at(value, *steps) or "" for value in values)
    return found | frozenset(text.strip() for text in found)


# ---- limits


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
    """Returns an error if an object has more expressions than the server compiles.

    old: those before an update, which are accepted if they do not change.
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
