"""Expressions of admission policies and match conditions: what they see, and what they must evaluate to.

Source: k8s.io/apiserver, pkg/admission/plugin/cel/{compile,composition}_test.go.
"""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.cel.admission import (
    AUDIT_ANNOTATION,
    CONDITION,
    MESSAGE,
    VARIABLE,
    AdmissionCompiler,
    CompilationFailed,
    ExpressionKind,
)
from apiserver.cel.compatibility_version import CompatibilityVersion
from tests.support.compatibility import DEFAULT_COMPATIBILITY

VERSION: Final = DEFAULT_COMPATIBILITY

COMPILED: Final = {
    "objects are of any type": (CONDITION, "object.a.b[0] == 1 && oldObject == null && has(object.x)"),
    "a request": (
        CONDITION,
        (
            "request.kind.group == '' && request.requestKind.kind == 'a' && request.resource.resource == 'b'"
            " && request.requestResource.version == 'v1' && request.subResource + request.requestSubResource"
            " + request.name + request.namespace + request.operation == '' && !request.dryRun"
            " && request.options.fieldManager == 'x'"
        ),
    ),
    "who asks": (
        CONDITION,
        (
            "request.userInfo.username == request.userInfo.uid && 'a' in request.userInfo.groups"
            " && request.userInfo.extra['k'][0] == 'v'"
        ),
    ),
    "a namespace": (
        CONDITION,
        (
            "namespaceObject.metadata.labels['a'] == namespaceObject.metadata.UID"
            " && namespaceObject.spec.finalizers.size() == 0 && namespaceObject.status.phase == 'Active'"
            " && namespaceObject.metadata.creationTimestamp < timestamp('2024-01-01T00:00:00Z')"
            " && namespaceObject.status.conditions.all(c, c.type != '')"
        ),
    ),
    "the authorizer": (
        CONDITION,
        (
            "authorizer.group('apps').resource('deployments').check('create').allowed()"
            " && authorizer.requestResource.check('get').allowed()"
        ),
    ),
    "parameters": (CONDITION, "params.x == 1 || params == null"),
    "a message": (MESSAGE, "'%s has %d'.format([request.name, 1]) + string(object.a)"),
    "an annotation": (AUDIT_ANNOTATION, "request.name"),
    "an annotation that is left out": (AUDIT_ANNOTATION, "null"),
    "a variable of any type": (VARIABLE, "object.spec"),
    "libraries": (CONDITION, "isQuantity('1') && ip('::1').isLoopback() && [1, 2].sum() == 3"),
}


@pytest.mark.parametrize(("kind", "text"), COMPILED.values(), ids=COMPILED)
def test_expressions_that_compile(kind: ExpressionKind, text: str) -> None:
    """Row R22: objects and parameters are of any type, all else has its own."""
    AdmissionCompiler(has_params=True).compile(text, kind, VERSION)


_UNDECLARED: Final = (
    "compilation failed: ERROR: <input>:1:1: undeclared reference to '{0}' (in container '')\n"
)
REFUSED: Final = {
    "a condition is true or false": (CONDITION, "1", "must evaluate to bool but got int"),
    "what may be anything is not": (CONDITION, "object.a", "must evaluate to bool but got dyn"),
    "a message is a text": (MESSAGE, "object.a", "must evaluate to string but got dyn"),
    "types have their full names": (
        MESSAGE,
        "namespaceObject.metadata.creationTimestamp",
        "must evaluate to string but got google.protobuf.Timestamp",
    ),
    "so have those in lists": (
        MESSAGE,
        "[duration('1s')]",
        "must evaluate to string but got list(google.protobuf.Duration)",
    ),
    "an annotation is a text or null": (
        AUDIT_ANNOTATION,
        "1",
        "must evaluate to one of [string null_type] but got int",
    ),
    "messages have no authorizer": (MESSAGE, "authorizer.path('/')", _UNDECLARED.format("authorizer")),
    "variables that the policy has not": (CONDITION, "variables.a", _UNDECLARED.format("variables")),
    "parameters that the policy has not": (CONDITION, "params.a", _UNDECLARED.format("params")),
    "a request has no objects": (
        CONDITION,
        "request.object == null",
        "compilation failed: ERROR: <input>:1:8: undefined field 'object'\n",
    ),
    "JSON patches are for those that mutate": (
        CONDITION,
        "jsonpatch.escapeKey('a') == ''",
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'jsonpatch' (in container '')\n",
    ),
    "no expression": (
        CONDITION,
        "object.",
        "compilation failed: ERROR: <input>:1:8: Syntax error: no viable",
    ),
}


@pytest.mark.parametrize(("kind", "text", "problem"), REFUSED.values(), ids=REFUSED)
def test_expressions_that_are_refused(kind: ExpressionKind, text: str, problem: str) -> None:
    with pytest.raises(CompilationFailed) as caught:
        AdmissionCompiler(has_params=False).compile(text, kind, VERSION)
    assert str(caught.value).startswith(problem)


def test_variables_have_the_types_of_their_expressions() -> None:
    compiler = AdmissionCompiler(has_params=False, variables=())
    for name, text in {
        "number": "1",
        "texts": "['a']",
        "next": "variables.number + 1",
        "by_name": "{'a': variables.texts}",
        "moment": "timestamp('2024-01-01T00:00:00Z')",
        "object": "namespaceObject.metadata",
        "amount": "quantity('1')",
    }.items():
        compiler.declare(name, text, VERSION)
    for text in (
        "variables.next == 2 && variables.by_name['a'] == variables.texts",
        "variables.moment.getFullYear() == 2024",
        "variables.object.whatever && variables.amount.whatever",  # of which nothing is known
    ):
        compiler.compile(text, CONDITION, VERSION)
    with pytest.raises(
        CompilationFailed, match="no matching overload for '_==_' applied to '\\(int, string\\)'"
    ):
        compiler.compile("variables.next == 'a'", CONDITION, VERSION)


@pytest.mark.parametrize("named", ["a", "b"], ids=["itself", "one that is declared later"])
@pytest.mark.parametrize("version", [VERSION, None], ids=["new", "stored"])
def test_variables_are_known_after_their_declaration(
    named: str, version: CompatibilityVersion | None
) -> None:
    compiler = AdmissionCompiler(has_params=False, variables=())
    with pytest.raises(CompilationFailed, match=f"undefined field '{named}'"):
        compiler.declare("a", f"variables.{named}", version)
    # The error has been told.
    compiler.compile("variables.a.c == 1", CONDITION, version)


def test_an_error_about_many_places_is_bounded() -> None:
    text = f"[{', '.join(f'x{n:010}' for n in range(250))}] == []"  # a hundred errors with 3,000 characters
    with pytest.raises(CompilationFailed) as caught:
        AdmissionCompiler(has_params=False).compile(text, CONDITION, VERSION)
    assert 10 < str(caught.value).count("ERROR") < 50
