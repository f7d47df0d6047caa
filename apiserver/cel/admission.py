"""The expressions of admission: those of policies, and the match conditions of policies and webhooks.

Their variables are the request and its objects; the types of objects are unknown, since they differ from
request to request. A policy's expressions may also use its variables, each of which has the type of its
expression. `ExpressionKind` has the allowed result types.

Source: k8s.io/apiserver, pkg/admission/plugin/cel/{compile,composition}.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.cel import types
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.compiler import Program, ProgramError
from apiserver.cel.kubernetes_environments import kubernetes_environment
from apiserver.cel.library.authorizer import AUTHORIZER, RESOURCE_CHECK
from apiserver.cel.library.json_patch import JSON_PATCH, JSON_PATCH_TYPE
from apiserver.cel.syntax import InvalidExpression, Issue
from apiserver.cel.types import BOOL, DYN, INT, NULL, STRING, TIMESTAMP, Field, Type, TypeKind
from apiserver.cel.unification import SCALARS
from apiserver.meta.vocabulary import Document

if TYPE_CHECKING:
    from apiserver.cel.environment import Environment

OBJECT: Final = "object"
OLD_OBJECT: Final = "oldObject"
REQUEST: Final = "request"
NAMESPACE_OBJECT: Final = "namespaceObject"
PARAMS: Final = "params"
AUTHORIZER_NAME: Final = "authorizer"
REQUEST_RESOURCE: Final = "authorizer.requestResource"
VARIABLES: Final = "variables"

_STRINGS: Final = types.list_of(STRING)
_TEXTS_BY_NAME: Final = types.map_of(STRING, STRING)


def _object(name: str, fields: Mapping[str, Type]) -> Type:
    return types.object_of(f"kubernetes.{name}", {key: Field(key, type_) for key, type_ in fields.items()})


_KIND: Final = _object("GroupVersionKind", dict.fromkeys(("group", "version", "kind"), STRING))
_RESOURCE: Final = _object("GroupVersionResource", dict.fromkeys(("group", "version", "resource"), STRING))
_USER_INFO: Final = _object(
    "UserInfo",
    {"username": STRING, "uid": STRING, "groups": _STRINGS, "extra": types.map_of(STRING, _STRINGS)},
)
REQUEST_TYPE: Final = _object(
    "AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER_INFO,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_NAMESPACE_META: Final = _object(
    "NamespaceMetadata",
    {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _TEXTS_BY_NAME,
        "annotations": _TEXTS_BY_NAME,
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _STRINGS,
    },
)
_NAMESPACE_CONDITION: Final = _object(
    "NamespaceCondition",
    {"status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING},
)
NAMESPACE_TYPE: Final = _object(
    "Namespace",
    {
        "metadata": _NAMESPACE_META,
        "spec": _object("NamespaceSpec", {"finalizers": _STRINGS}),
        "status": _object(
            "NamespaceStatus", {"conditions": types.list_of(_NAMESPACE_CONDITION), "phase": STRING}
        ),
    },
)


# The type of what ApplyConfigurations make; those of its parts are called by their paths, `Object.spec`.
OBJECT_TYPE: Final = "Object"


class ExpressionKind(NamedTuple):
    """The rules for a kind of admission expression: its variables, and its result.

    results: the allowed result types; empty: any.
    has_authorizer: whether it may use the authorizer.
    makes_patches: whether it may make values of the types of patches.
    """

    results: tuple[Type, ...]
    has_authorizer: bool = True
    makes_patches: bool = False


CONDITION: Final = ExpressionKind((BOOL,))
VARIABLE: Final = ExpressionKind(())
MESSAGE: Final = ExpressionKind((STRING,), has_authorizer=False)
AUDIT_ANNOTATION: Final = ExpressionKind((STRING, NULL))
APPLY_CONFIGURATION: Final = ExpressionKind((types.open_object(OBJECT_TYPE),), makes_patches=True)
JSON_PATCHES: Final = ExpressionKind((types.list_of(JSON_PATCH_TYPE),), makes_patches=True)


class CompilationFailed(Exception):
    """An expression that does not compile, or does not have a required type. The message is for the
    client.

    issues: the errors in the expression, where it does not parse or check.
    """

    def __init__(self, message: str, issues: Sequence[Issue] = ()) -> None:
        super().__init__(message)
        self.issues = issues


class CompiledExpression(NamedTuple):
    type: Type
    program: Program


class AdmissionCompiler:
    """Compiles the expressions of one policy or webhook. Pure."""

    def __init__(
        self,
        *,
        has_params: bool,
        variables: Sequence[Document] | None = None,
        objects: Mapping[str, Type] | None = None,
    ) -> None:
        """has_params: whether the policy has a kind of parameters.

        variables: the names of the policy's variables, declared later in their order; None if expressions
            cannot use any. Of several with one name the last counts, as in Kubernetes.
        objects: the types of `object`, `oldObject` and `params`, where they are known.
        """
        self._has_params = has_params
        self._objects = objects or {}
        self._fields: dict[str, Field] = {}
        # The type of `variables` has a field more with each that is declared.
        self._declared = None if variables is None else types.object_of("kubernetes.variables", self._fields)
        self._left = Counter(each.get("name", "") for each in variables or ())
        self._environments: dict[tuple[bool, bool], Environment] = {}

    def compile(
        self, text: str, kind: ExpressionKind, version: CompatibilityVersion | None = None
    ) -> CompiledExpression:
        """Compile an expression. Raises CompilationFailed.

        version: the parts of the language that a new expression may use; None for a stored one, which may use
            all.
        """
        environment = self._environment(kind.has_authorizer, kind.makes_patches)
        try:
            checked = environment.check(text, version)
        except InvalidExpression as error:
            raise CompilationFailed(f"compilation failed: {error}", error.issues) from None
        if kind.results and checked.type not in kind.results:
            names = [_shown(each) for each in kind.results]
            wanted = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
            raise CompilationFailed(f"must evaluate to {wanted} but got {_shown(checked.type)}")
        try:
            return CompiledExpression(checked.type, environment.program(checked))
        except ProgramError as error:
            raise CompilationFailed(f"program instantiation failed: {error}") from None

    def _environment(self, has_authorizer: bool, makes_patches: bool) -> Environment:
        if self._declared is None and not self._objects:
            return _environment(self._has_params, has_authorizer, makes_patches)
        key = has_authorizer, makes_patches
        found = self._environments.get(key)
        if found is None:
            variables = {**_variables(self._has_params, has_authorizer), **self._objects}
            if self._declared is not None:
                variables[VARIABLES] = self._declared
            found = self._environments[key] = _environment_of(variables, makes_patches)
        return found

    def worst_cost(self, text: str, kind: ExpressionKind) -> int | None:
        """Returns the greatest cost of a valid expression; None if it depends on the objects.

        The sizes of objects are not known. kube-apiserver estimates no costs of such expressions, but limits
        what each evaluation may cost.
        """
        # Imported only for functions of extensions.
        from apiserver.cel.cost_estimate import estimate
        from apiserver.cel.functions import UNBOUNDED

        node = self._environment(kind.has_authorizer, kind.makes_patches).check(text).node
        cost = estimate(node, types.DYN).high
        return None if cost >= UNBOUNDED else cost

    def problem(self, text: str) -> str:
        """Returns the error of an expression, whatever it evaluates to; empty if there is none."""
        try:
            self._environment(True, False).check(text)
        except InvalidExpression as error:
            return str(error)
        return ""

    def declare(
        self, name: str, text: str, version: CompatibilityVersion | None = None
    ) -> CompiledExpression:
        """Compile a variable, which later expressions may use. Raises CompilationFailed.

        It may only use the variables before it. If it does not compile, later expressions may still use its
        name, so that one error is reported once.
        """
        self._left[name] -= 1
        type_ = DYN
        try:
            compiled = self.compile(text, VARIABLE, version)
            type_ = _field_type(compiled.type)
        finally:
            if self._left[name] <= 0:
                self._fields[name] = Field(name, type_)
        return compiled


def _variables(has_params: bool, has_authorizer: bool) -> dict[str, Type]:
    found = {OBJECT: DYN, OLD_OBJECT: DYN, NAMESPACE_OBJECT: NAMESPACE_TYPE, REQUEST: REQUEST_TYPE}
    if has_params:
        found[PARAMS] = DYN
    if has_authorizer:
        found |= {AUTHORIZER_NAME: AUTHORIZER, REQUEST_RESOURCE: RESOURCE_CHECK}
    return found


@lru_cache
def _environment(has_params: bool, has_authorizer: bool, makes_patches: bool) -> Environment:
    return _environment_of(_variables(has_params, has_authorizer), makes_patches)


def _environment_of(variables: Mapping[str, Type], makes_patches: bool) -> Environment:
    if not makes_patches:
        return kubernetes_environment(variables)
    messages = {JSON_PATCH_TYPE.name: JSON_PATCH_TYPE}
    return kubernetes_environment(variables, (JSON_PATCH,), messages, open_message=OBJECT_TYPE)


def _field_type(type_: Type) -> Type:
    """Returns the type that a variable has for others; types of objects and libraries are unknown to them."""
    if type_.kind is TypeKind.LIST:
        return types.list_of(_field_type(type_.element))
    if type_.kind is TypeKind.MAP:
        return types.map_of(_field_type(type_.key), _field_type(type_.value))
    return type_ if type_.kind in SCALARS else DYN


def _shown(type_: Type) -> str:
    """Returns a type by its name in declarations, as `google.protobuf.Timestamp`."""
    name = type_.name or type_.kind.value
    return f"{name}({', '.join(map(_shown, type_.parameters))})" if type_.parameters else name
