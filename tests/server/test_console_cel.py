"""POST /console/cel: expressions, evaluated against objects that clients send."""

from __future__ import annotations

from typing import Any, Final

import pytest
import yaml

from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.console.playground.answers import RESULT_BYTES_MAX
from apiserver.console.playground.question import PATH_STEPS_MAX, PATTERNS_MAX, VARIABLES_MAX
from apiserver.custom_resources.definitions.validation.schema_rules import CHARACTERS_MAX, RULE_COST_MAX
from tests.support.api import Api
from tests.support.eventually import until

PATH: Final = "/console/cel"
POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "x"}]},
}
PODS: Final = {"group": "", "version": "v1", "resource": "pods"}
WIDGETS: Final = {"group": "cel.example.com", "version": "v1", "resource": "widgets"}
PORT: Final = {
    "type": "object",
    "required": ["port"],
    "properties": {"port": {"type": "integer"}, "name": {"type": "string", "maxLength": 10}},
}
SPEC: Final = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "ratio": {"type": "number"},
        "start": {"type": "string", "format": "date-time"},
        "hosts": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 20}},
        "names": {"type": "array", "items": {"type": "string"}},
        "size": {"x-kubernetes-int-or-string": True},
        "limits": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "integer"}},
        "ports": {
            "type": "array",
            "maxItems": 8,
            "items": PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
        },
    },
}
DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.cel.example.com"},
    "spec": {
        "group": "cel.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
            }
        ],
    },
}
WIDGET: Final = {
    "apiVersion": "cel.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w"},
    "spec": {
        "replicas": 3,
        "ratio": 2,
        "start": "2026-01-01T00:00:00Z",
        "hosts": ["a", "b"],
        "names": ["x"],
        "size": "10%",
        "limits": {"cpu": 2},
        "ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}],
    },
}


@pytest.fixture(scope="module")
def api(api: Api) -> Api:
    """The administrator's client of a server that serves widgets."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    # The server is shared, and may have them from an earlier run of this module's tests.
    api.apply(f"{definitions}/widgets.cel.example.com?fieldManager=test", DEFINITION).ok()
    until(lambda: api.get("/apis/cel.example.com/v1/widgets").status, lambda status: status == 200, "widgets")
    return api


def asked(api: Api, expression: str, **fields: Any) -> dict[str, Any]:
    answer: dict[str, Any] = api.post(PATH, {"expression": expression, **fields}).ok()
    return answer


VALUES: Final[dict[str, tuple[str, Any, str]]] = {
    "a bool": ("object.metadata.name.startsWith('web')", True, "bool"),
    "a number": ("size(object.spec.containers)", 2, "int"),
    "an unsigned number": ("uint(7)", 7, "uint"),
    "a fraction": ("1.5 * 3.0", 4.5, "double"),
    "a text": ("object.spec.containers[0].image + '!'", "x:1!", "string"),
    "a list": ("object.spec.containers.map(c, c.name)", ["a", "b"], "list(dyn)"),
    "a map": ("{'a': 1}", {"a": 1}, "map(string, int)"),
    "a part of the object": ("object.metadata.labels", {"app": "web"}, "dyn"),
    "a duration": ("duration('90m')", "5400s", "duration"),
    "a time": ("timestamp('2026-01-01T00:00:00Z')", "2026-01-01T00:00:00Z", "timestamp"),
    "bytes": ("b'abc'", "YWJj", "bytes"),
    "an optional without a value": ("object.?missing", None, "optional_type(dyn)"),
    "nothing": ("null", None, "null"),
    "the old object, where there is none": ("oldObject == null", True, "bool"),
    "the operation": ("request.operation", "CREATE", "string"),
    "the name and namespace of the request": (
        "request.namespace + '/' + request.name",
        "shop/web-1",
        "string",
    ),
    "the kind of the request": ("request.kind.kind", "Pod", "string"),
    "the caller": ("request.userInfo.username", "admin", "string"),
    "the namespace, where there is none": ("namespaceObject == null", True, "bool"),
    "a permission of the caller": (
        "authorizer.group('').resource('pods').check('list').allowed()",
        True,
        "bool",
    ),
}


@pytest.mark.parametrize(("expression", "result", "type_"), VALUES.values(), ids=VALUES)
def test_the_value_of_an_expression(api: Api, expression: str, result: Any, type_: str) -> None:
    answer = asked(api, expression, object=POD)
    assert (answer["error"], answer["issues"], answer["warnings"]) == (None, [], [])
    assert (answer["result"], answer["type"]) == (result, type_)
    assert answer["costLimit"] == PER_CALL_LIMIT
    assert 0 <= answer["cost"] <= PER_CALL_LIMIT


GIVEN: Final[dict[str, tuple[str, dict[str, Any], Any]]] = {
    "an update": ("request.operation", {"oldObject": POD}, "UPDATE"),
    "a deletion": ("request.operation", {"object": None, "oldObject": POD}, "DELETE"),
    "the old object": ("object.metadata.name != oldObject.metadata.name", {"oldObject": POD}, False),
    "parameters": ("params.max > 2", {"params": {"max": 3}}, True),
    "parameters that are missing": ("params == null", {"params": None}, True),
    "a request": ("request.dryRun && request.operation == 'CREATE'", {"request": {"dryRun": True}}, True),
    "a Namespace": (
        "namespaceObject.metadata.labels.team",
        {"namespaceObject": {"metadata": {"name": "shop", "labels": {"team": "red"}}}},
        "red",
    ),
    "variables": (
        "variables.twice + 1",
        {
            "variables": [
                {"name": "count", "expression": "size(object.spec.containers)"},
                {"name": "twice", "expression": "variables.count * 2"},
            ]
        },
        5,
    ),
    "the resource of the object": ("request.resource.resource", {"resource": PODS}, "pods"),
}


@pytest.mark.parametrize(("expression", "fields", "result"), GIVEN.values(), ids=GIVEN)
def test_what_a_policy_sees(api: Api, expression: str, fields: dict[str, Any], result: Any) -> None:
    answer = asked(api, expression, **{"object": POD, **fields})
    assert (answer["result"], answer["error"], answer["issues"]) == (result, None, [])


# line, column and a part of the message
NOT_COMPILING: Final[dict[str, tuple[str, dict[str, Any], tuple[int, int, str]]]] = {
    "a syntax error": ("object.", {}, (1, 8, "Syntax error")),
    "on another line": ("true\n  && nothing", {}, (2, 6, "undeclared reference to 'nothing'")),
    "a type error": ("1 + 'a'", {}, (1, 3, "found no matching overload for '_+_'")),
    "parameters without any": ("params.max", {}, (1, 1, "undeclared reference to 'params'")),
    "variables without any": ("variables.max", {}, (1, 1, "undeclared reference to 'variables'")),
    "a pattern that is none": ("'a'.matches('(')", {}, (1, 13, "invalid matches argument")),
    "a rule sees no object": ("object.spec", {"kind": "rule"}, (1, 1, "undeclared reference to 'object'")),
    "a rule with an unknown field": (
        "self.spec.replcas > 1",
        {"kind": "rule", "resource": WIDGETS, "object": WIDGET},
        (1, 10, "undefined field 'replcas'"),
    ),
    "a rule about old items of a list that is no map": (
        "self == oldSelf",
        {"kind": "rule", "resource": WIDGETS, "object": WIDGET, "path": ["spec", "hosts", 0]},
        (0, 0, "oldSelf cannot be used on the uncorrelatable portion of the schema"),
    ),
    "optionalOldSelf in vain": (
        "self.spec.replicas > 1",
        {"kind": "rule", "resource": WIDGETS, "object": WIDGET, "optionalOldSelf": True},
        (0, 0, "may not be set if oldSelf is not used"),
    ),
}


@pytest.mark.parametrize(("expression", "fields", "issue"), NOT_COMPILING.values(), ids=NOT_COMPILING)
def test_an_expression_that_does_not_compile(
    api: Api, expression: str, fields: dict[str, Any], issue: tuple[int, int, str]
) -> None:
    answer = asked(api, expression, **{"object": POD, **fields})
    found = answer.pop("issues")[0]
    assert (found["line"], found["column"]) == issue[:2]
    assert issue[2] in found["message"]
    assert answer == {
        **dict.fromkeys(("result", "type", "cost", "estimatedCost", "error")),
        "costLimit": PER_CALL_LIMIT,
        "warnings": [],
    }


def test_the_issues_of_a_variable_name_it(api: Api) -> None:
    answer = asked(api, "variables.a", object=POD, variables=[{"name": "a", "expression": "1 +"}])
    assert [each["variable"] for each in answer["issues"]] == ["a"]


TEN: Final = str(list(range(1, 11)))
COSTLY: Final = f"{''.join(f'{TEN}.all({name}, ' for name in 'abcde')}a + b + c + d + e > 0)))))"
FAILING: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "a missing field": ("object.spec.nothing == 1", {}, "no such key: nothing"),
    "a division by zero": ("1 / (size(object.spec.containers) - 2)", {}, "division by zero"),
    "a field of a text": ("object.metadata.name.first", {}, "no such key"),
    "a variable that fails": (
        "variables.a > 0",
        {"variables": [{"name": "a", "expression": "object.nothing"}]},
        'composited variable "a" fails to evaluate',
    ),
    "too costly": (
        COSTLY,
        {},
        "actual cost limit exceeded",
    ),
    "a value without JSON": ("quantity('1Gi')", {}, "kubernetes.Quantity has no form in JSON"),
    "a key without JSON": ("{1: 2}", {}, "map key 1 is of type int"),
    "all variables": ("variables", {"variables": [{"name": "a", "expression": "1"}]}, "no form in JSON"),
    "the authorizer itself": ("authorizer", {}, "no form in JSON"),
    "a type": ("type(1)", {}, "no form in JSON"),
    "what is not a number": ("0.0 / 0.0", {}, "no form in JSON"),
    "a request with a field of a wrong type": (
        "request.name + 'a'",
        {"request": {"name": 5}},
        "no such overload",
    ),
    "a permission of a service account": (
        "authorizer.serviceAccount('default', 'robot').group('').resource('pods').check('list').allowed()",
        {},
        "the permissions of service accounts are not available here",
    ),
    "a rule without a value": (
        "self > 1",
        {"kind": "rule", "resource": WIDGETS, "object": {}, "path": ["spec", "replicas"]},
        "the object has no value at the path",
    ),
    "a rule without an old value": (
        "self.spec.replicas >= oldSelf.spec.replicas",
        {"kind": "rule", "resource": WIDGETS, "object": WIDGET},
        "it uses oldSelf, and there is no old value",
    ),
}


@pytest.mark.parametrize(("expression", "fields", "error"), FAILING.values(), ids=FAILING)
def test_an_expression_that_fails(api: Api, expression: str, fields: dict[str, Any], error: str) -> None:
    answer = asked(api, expression, **{"object": POD, **fields})
    assert error in answer["error"]
    assert (answer["result"], answer["issues"]) == (None, [])
    assert answer["type"]


def test_a_result_is_bounded(api: Api) -> None:
    text = "x" * (RESULT_BYTES_MAX // 4)
    answer = asked(api, "[object.a, object.a, object.a, object.a, object.a]", object={"a": text})
    assert (answer["result"], answer["error"]) == (
        None,
        f"the result is larger than {RESULT_BYTES_MAX} bytes",
    )
    fits = asked(api, "[object.a, object.a, object.a]", object={"a": text})
    assert fits["result"] == [text] * 3


def test_a_result_is_not_nested_more_deeply_than_json_can_be(api: Api) -> None:
    nested: Any = 1
    for _ in range(300):
        nested = [nested]
    assert asked(api, "object.a", object={"a": nested})["error"] == "the result has no form in JSON"


WARNED: Final[dict[str, tuple[str, dict[str, Any], list[tuple[int, int, str]], str]]] = {
    "without a resource nothing is known": ("object.spec.replicas > 1", {}, [], "bool"),
    "a field that the type does not have": (
        *("has(object.spec.replicas)", {"resource": PODS}),
        *([(1, 4, "undefined field 'replicas'")], "bool"),
    ),
    "the type of a field": (
        "object.spec.containers",
        {"resource": PODS},
        [],
        "list(Pod.spec.containers.@idx)",
    ),
    "of a custom resource": ("object.spec.replicas", {"resource": WIDGETS, "object": WIDGET}, [], "int"),
    "in a variable": (
        "variables.a",
        {"resource": PODS, "variables": [{"name": "a", "expression": "has(object.spec.nothing)"}]},
        [(1, 4, "undefined field 'nothing'")],
        "bool",
    ),
}


@pytest.mark.parametrize(("expression", "fields", "warnings", "type_"), WARNED.values(), ids=WARNED)
def test_types_of_objects_are_warned_about(
    api: Api, expression: str, fields: dict[str, Any], warnings: list[tuple[int, int, str]], type_: str
) -> None:
    """As in the status of policies: a policy is evaluated whatever its types are."""
    answer = asked(api, expression, **{"object": POD, **fields})
    assert answer["issues"] == []
    assert answer["type"] == type_
    assert [
        (found["line"], found["column"], expected[2] in found["message"])
        for found, expected in zip(answer["warnings"], warnings, strict=True)
    ] == [(*each[:2], True) for each in warnings]


def rule(expression: str, *path: str | int, **fields: Any) -> tuple[str, dict[str, Any]]:
    return expression, {"path": list(path), **fields}


CHANGED: Final = {
    **WIDGET,
    "spec": {**WIDGET["spec"], "replicas": 2, "ports": [{"port": 443, "name": "old"}]},  # type: ignore[dict-item]
}
RULES: Final[dict[str, tuple[tuple[str, dict[str, Any]], Any]]] = {
    "of the whole object": (rule("self.metadata.name + '/' + string(self.spec.replicas)"), "w/3"),
    "of a field": (rule("self > 2", "spec", "replicas"), True),
    "of a number that is a double": (rule("self / 4.0", "spec", "ratio"), 0.5),
    "of a time": (rule("self.getFullYear()", "spec", "start"), 2026),
    "of a text or number": (rule("type(self) == string && self == '10%'", "spec", "size"), True),
    "of a list": (rule("self.exists(h, h == 'b')", "spec", "hosts"), True),
    "of an item": (rule("self", "spec", "hosts", 1), "b"),
    "of a map": (rule("self['cpu']", "spec", "limits"), 2),
    "of a value of a map": (rule("self * 2", "spec", "limits", "cpu"), 4),
    "of an item of a list of type map": (rule("self.name", "spec", "ports", 1), "https"),
    "of the old value": (rule("self - oldSelf", "spec", "replicas", oldObject=CHANGED), 1),
    "of the old item with the same key": (
        rule("self.name + oldSelf.name", "spec", "ports", 1, oldObject=CHANGED),
        "httpsold",
    ),
    "of an optional old value": (
        rule("!oldSelf.hasValue()", "spec", "replicas", optionalOldSelf=True),
        True,
    ),
    "of an optional old value that is there": (
        rule("oldSelf.value()", "spec", "replicas", optionalOldSelf=True, oldObject=CHANGED),
        2,
    ),
}


@pytest.mark.parametrize(("asking", "result"), RULES.values(), ids=RULES)
def test_the_value_of_a_rule(api: Api, asking: tuple[str, dict[str, Any]], result: Any) -> None:
    expression, fields = asking
    answer = asked(api, expression, kind="rule", resource=WIDGETS, object=WIDGET, **fields)
    assert (answer["issues"], answer["error"]) == ([], None)
    assert answer["result"] == result


def test_a_rule_without_a_resource_has_no_types(api: Api) -> None:
    answer = asked(api, "self.a.b[0]", kind="rule", object={"x": {"a": {"b": [7]}}}, path=["x"])
    assert (answer["result"], answer["type"], answer["warnings"]) == (7, "dyn", [])


ESTIMATES: Final[dict[str, tuple[str, dict[str, Any], Any]]] = {
    "of a rule in a field": (
        "self > 1",
        {"kind": "rule", "resource": WIDGETS, "path": ["spec", "replicas"]},
        {"min": 2, "max": 2, "perObject": 2, "limit": RULE_COST_MAX},
    ),
    "of a rule in each item": (
        "self.size() > 1",
        {"kind": "rule", "resource": WIDGETS, "path": ["spec", "hosts", 0]},
        {"min": 3, "max": 3, "perObject": 15, "limit": RULE_COST_MAX},
    ),
}


@pytest.mark.parametrize(("expression", "fields", "estimated"), ESTIMATES.values(), ids=ESTIMATES)
def test_the_estimated_cost(api: Api, expression: str, fields: dict[str, Any], estimated: Any) -> None:
    answer = asked(api, expression, **{"object": WIDGET, **fields})
    assert answer["estimatedCost"] == estimated
    assert estimated["min"] <= answer["cost"] <= estimated["max"]


def test_costs_of_policies_are_not_estimated(api: Api) -> None:
    assert asked(api, "object.metadata.name == 'a'", object=POD)["estimatedCost"] is None


def test_a_rule_over_the_limit_of_definitions_is_evaluated_nevertheless(api: Api) -> None:
    expression = "self.all(a, self.all(b, a != b || a == b))"
    fields = {"kind": "rule", "resource": WIDGETS, "object": WIDGET, "path": ["spec", "names"]}
    answer = asked(api, expression, **fields)
    assert answer["result"] is True
    assert answer["estimatedCost"]["perObject"] > RULE_COST_MAX


INVALID: Final[dict[str, tuple[Any, str]]] = {
    "no JSON": (b"{", "json parse error"),
    "a list": ([], "the body must be an object"),
    "nothing": ({}, "expression must be a string that is not empty"),
    "an expression that is no text": ({"expression": 1}, "expression must be a string"),
    "an empty expression": ({"expression": " "}, "expression must be a string that is not empty"),
    "an unknown kind": ({"kind": "webhook", "expression": "1"}, "kind must be policy or rule, not 'webhook'"),
    "a kind that is no text": ({"kind": {}, "expression": "1"}, "kind must be policy or rule, not {}"),
    "an unknown field": ({"expresion": "1"}, "unknown field 'expresion'"),
    "a repeated field": (b'{"expression": "1", "expression": "2"}', 'duplicate field "expression"'),
    "an object that is none": ({"expression": "1", "object": 1}, "object must be an object"),
    "a resource that is none": ({"expression": "1", "resource": "pods"}, "resource must be an object"),
    "a resource with a number": (
        {"expression": "1", "resource": {"resource": 1}},
        "resource.resource must be a string",
    ),
    "a resource that is not served": (
        {"expression": "1", "resource": {"version": "v1", "resource": "unicorns"}},
        "the server does not serve unicorns",
    ),
    "a rule of a built-in type": (
        {"kind": "rule", "expression": "1", "resource": PODS},
        "pods is not a custom resource",
    ),
    "a rule with variables": (
        {"kind": "rule", "expression": "1", "variables": []},
        "unknown field 'variables': a rule has kind, expression, object, oldObject, resource, path",
    ),
    "a policy with a path": ({"expression": "1", "path": []}, "unknown field 'path': a policy has"),
    "a path that is a text": ({"kind": "rule", "expression": "1", "path": "spec"}, "path must be a list"),
    "a path with true": ({"kind": "rule", "expression": "1", "path": [True]}, "path must be a list"),
    "a path with a negative index": (
        {"kind": "rule", "expression": "1", "path": [-1]},
        "path must not have negative indices",
    ),
    "a path of too many steps": (
        {"kind": "rule", "expression": "1", "path": ["a"] * (PATH_STEPS_MAX + 1)},
        f"path must not have more than {PATH_STEPS_MAX} steps",
    ),
    "a path that leads nowhere": (
        {"kind": "rule", "expression": "1", "resource": WIDGETS, "path": ["spec", "ports", "a"]},
        "path leads nowhere in the schema: ['spec']['ports']['a']",
    ),
    "a flag that is no bool": (
        {"kind": "rule", "expression": "1", "optionalOldSelf": "true"},
        "optionalOldSelf must be true or false",
    ),
    "variables that are no list": ({"expression": "1", "variables": {}}, "variables must be a list"),
    "a variable without a name": (
        {"expression": "1", "variables": [{"expression": "1"}]},
        "variables[0].name must be a string",
    ),
    "a variable with a strange name": (
        {"expression": "1", "variables": [{"name": "a b", "expression": "1"}]},
        "variables[0].name must be an identifier, not 'a b'",
    ),
    "a variable twice": (
        {"expression": "1", "variables": [{"name": "a", "expression": "1"}] * 2},
        "variables[1].name is that of an earlier variable: 'a'",
    ),
    "too many variables": (
        {"expression": "1", "variables": [{}] * (VARIABLES_MAX + 1)},
        f"variables must not have more than {VARIABLES_MAX} items",
    ),
    "too long expressions": (
        {"expression": "1" + " " * CHARACTERS_MAX},
        f"the expressions have {CHARACTERS_MAX + 1} characters",
    ),
    "too many patterns": (
        {"expression": " && ".join(["'a'.matches('a')"] * (PATTERNS_MAX + 1))},
        f"the expressions use functions of regular expressions {PATTERNS_MAX + 1} times",
    ),
    "a Namespace with metadata that is none": (
        {"expression": "1", "namespaceObject": {"metadata": 5}},
        "namespaceObject.metadata must be an object",
    ),
    "a Namespace with a time that is none": (
        {"expression": "1", "namespaceObject": {"metadata": {"creationTimestamp": 5}}},
        "namespaceObject.metadata.creationTimestamp must be a string",
    ),
}


@pytest.mark.parametrize(("body", "message"), INVALID.values(), ids=INVALID)
def test_a_malformed_question_is_refused(api: Api, body: Any, message: str) -> None:
    answer = api.post(PATH, body)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


def test_a_question_may_be_yaml(api: Api) -> None:
    body = yaml.safe_dump({"expression": "object.metadata.name", "object": POD}).encode()
    answer = api.send("POST", PATH, body, type="application/yaml").ok()
    assert answer["result"] == "web-1"
    protobuf = api.send("POST", PATH, b"k8s\x00", type="application/vnd.kubernetes.protobuf")
    assert protobuf.status == 415


CALLERS: Final = {
    "without any right": ("POST", "alice-token", 200),
    "without credentials": ("POST", "", 401),
    "with wrong credentials": ("POST", "wrong", 401),
    "by another method": ("GET", "admin-token", 405),
}


@pytest.mark.parametrize(("method", "token", "status"), CALLERS.values(), ids=CALLERS)
def test_every_authenticated_user_may_ask(api: Api, method: str, token: str, status: int) -> None:
    with api.as_caller(token) as caller:
        body = {"expression": "authorizer.group('').resource('secrets').check('list').allowed()"}
        answer = caller.send(method, PATH, body if method == "POST" else None)
        assert answer.status == status
        if status == 200:
            assert answer.json["result"] is False, "alice has few rights"


def test_a_large_question_is_answered(api: Api) -> None:
    items = [{"name": f"item-{number}", "value": number} for number in range(10_000)]
    answer = asked(api, "object.items.filter(i, i.value > 9990).map(i, i.name)", object={"items": items})
    assert answer["result"] == [f"item-{number}" for number in range(9991, 10_000)]
    assert answer["cost"] > 20_000, "more than is evaluated on the event loop"
