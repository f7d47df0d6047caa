"""Finds the type errors in a policy's expressions, for each type that the policy is about. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/typechecking.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from apiserver.cel.admission import OBJECT, OLD_OBJECT, PARAMS, AdmissionCompiler, CompilationFailed
from apiserver.cel.types import DYN, Type
from apiserver.controllers.policy_type_checking.schema_types import type_of
from apiserver.meta.field_errors import truncated
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ResourceTable, ServedResource

# kube-controller-manager: maxTypesToCheck, of each rule.
TYPES_MAX: Final = 10
# The status is a part of the policy, and each warning quotes its expression, once for each type.
WARNINGS_LENGTH_MAX: Final = 256 * 1024


class PolicyExpression(NamedTuple):
    """An expression to check. field: its place in the policy."""

    field: str
    text: str


def types_to_check(policy: Document, table: ResourceTable) -> Sequence[ServedResource]:
    """Returns the resources that the rules of a policy name explicitly, by group, version and kind."""
    found: dict[tuple[str, str, str], ServedResource] = {}
    constraints = policy["spec"].get("matchConstraints") or {}
    for rule in constraints.get("resourceRules") or ():
        for served in _named_by(rule, table):
            if len(found) == TYPES_MAX:
                break
            found[*served.group_version, served.kind] = served
    return [found[key] for key in sorted(found)]


def _named_by(rule: Document, table: ResourceTable) -> Iterator[ServedResource]:
    """Yields the served resources that a rule names, in the order of the names.

    A rule may name thousands of each part, and billions of combinations: only served ones are visited.
    """
    groups, versions = frozenset(rule.get("apiGroups") or ()), frozenset(rule.get("apiVersions") or ())
    if any("*" in each for each in groups | versions):
        return
    resources = frozenset(rule.get("resources") or ())
    for group in sorted(groups & table.groups.keys()):
        for group_version in sorted(table.groups[group]):
            if group_version.version in versions:
                served = table.group_versions[group_version]
                yield from sorted(
                    (each for each in served if each.resource in resources), key=lambda each: each.resource
                )


def expressions_of(policy: Document) -> Iterator[PolicyExpression]:
    """Yields the expressions to check: those of validations, and of their messages."""
    for index, validation in enumerate(policy["spec"].get("validations") or ()):
        where = f"spec.validations[{index}]"
        yield PolicyExpression(f"{where}.expression", validation.get("expression", ""))
        if text := validation.get("messageExpression"):
            yield PolicyExpression(f"{where}.messageExpression", text)


class TypeChecker:
    """Checks expressions of one policy against one type."""

    def __init__(self, policy: Document, resource: ServedResource, params: ServedResource | None) -> None:
        spec = policy["spec"]
        group_version = resource.group_version
        self._told = f"{group_version.group}/{group_version.version}, Kind={resource.kind}"
        own = _type(resource)
        objects: dict[str, Type] = {OBJECT: own, OLD_OBJECT: own}
        has_params = spec.get("paramKind") is not None
        if has_params:
            objects[PARAMS] = DYN if params is None else _type(params)
        variables: Sequence[Document] = spec.get("variables") or ()
        self._compiler = AdmissionCompiler(
            has_params=has_params, variables=variables or None, objects=objects
        )
        for variable in variables:
            # An error in a variable is not reported by itself.
            with suppress(CompilationFailed):
                self._compiler.declare(variable["name"], variable["expression"])

    def problem(self, text: str) -> str:
        """Returns the error in an expression, as shown to users; empty if there is none."""
        found = self._compiler.problem(text)
        return f"{self._told}: {found}\n" if found else ""


def warning(expression: PolicyExpression, problems: Iterable[str]) -> Document | None:
    """Returns the warning about an expression; None if there is none. problems: the errors, one for each
    type.
    """
    told = "\n".join(each for each in problems if each)
    if not told:
        return None
    return {"fieldRef": expression.field, "warning": truncated(told)}


def _type(resource: ServedResource) -> Type:
    return type_of(resource.schema(), resource.kind) or DYN
