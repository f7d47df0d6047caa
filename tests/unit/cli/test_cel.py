"""`apiserver cel eval`: expressions and files to a value, its type and its cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli import cel
from apiserver.cli.argument_parser import UsageError

POD: Final = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": {"replicas": 3}}
SPEC: Final = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "hosts": {"type": "array", "maxItems": 4, "items": {"type": "string", "maxLength": 10}},
    },
}


def version(name: str, *, is_stored: bool) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC} if is_stored else {}}}
    return {"name": name, "served": True, "storage": is_stored, "schema": schema}


DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [version("v1alpha1", is_stored=False), version("v1", is_stored=True)],
    },
}
WIDGET: Final = {"metadata": {"name": "w"}, "spec": {"replicas": 3, "hosts": ["a", "b"]}}
FILES: Final[dict[str, Any]] = {
    "pod.json": POD,
    "widget.json": WIDGET,
    "old.json": {"spec": {"replicas": 2}},
    "params.json": {"max": 5},
    "namespace.json": {"metadata": {"name": "shop", "labels": {"team": "red"}}},
    "request.json": {"operation": "CONNECT"},
    "crd.json": DEFINITION,
    "bad-crd.json": {**DEFINITION, "metadata": {"name": "gadgets.example.com"}},
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, document in FILES.items():
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "two.yaml").write_text("a: 1\n---\na: 2\n")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    return tmp_path


def run(files: Path, *arguments: str) -> int:
    """Runs the command with the files that arguments name."""
    names = [*FILES, "two.yaml", "broken.yaml", "missing.json"]
    return cel.run(["eval", *(str(files / each) if each in names else each for each in arguments)])


POLICY: Final = ("--object", "pod.json")
RULE: Final = ("--object", "widget.json", "--crd", "crd.json")
EVALUATED: Final[dict[str, tuple[tuple[str, ...], int, list[str]]]] = {
    "a policy": (
        ("object.spec.replicas + 1", *POLICY),
        0,
        ["4", "type: int", "cost: 4 of 1,000,000"],
    ),
    "false": (("object.spec.replicas > 5", *POLICY), 1, ["false", "type: bool"]),
    "what a policy sees": (
        (
            "oldObject.spec.replicas + params.max + variables.two",
            *POLICY,
            *("--old-object", "old.json", "--params", "params.json", "--variable", "two=1 + 1"),
        ),
        0,
        ["9", "type: int"],
    ),
    "the Namespace and the request": (
        (
            "namespaceObject.metadata.labels.team + request.operation",
            *("--namespace-object", "namespace.json", "--request", "request.json"),
        ),
        0,
        ['"redCONNECT"'],
    ),
    "a rule": (
        ("self.size() < 3", *RULE, "--path", "spec.hosts"),
        0,
        [
            *("true", "type: bool", "cost: 3 of 1,000,000"),
            "estimated cost: 3 to 3; for an object 3 of 10,000,000",
        ],
    ),
    "a path to an item": (("self + '!'", *RULE, "--path", ".spec.hosts.1"), 0, ['"b!"', "type: string"]),
    "a path as JSON": (("self", *RULE, "--path", '["spec", "replicas"]'), 0, ["3", "type: int"]),
    "an optional old value": (
        ("oldSelf.hasValue()", *RULE, "--path", "spec.replicas", "--optional-old-self"),
        1,
        ["false"],
    ),
    "another version": (
        ("has(self.spec)", *RULE, "--crd-version", "v1alpha1"),
        2,
        ["error: 1:4: undefined field 'spec'"],
    ),
    "an error": (("object.nothing", *POLICY), 2, ["error: no such key: nothing", "type: dyn"]),
    "what does not compile": (("1 +\n'a'", *POLICY), 2, ["error: 1:3: found no matching overload for '_+_'"]),
    "a variable that does not compile": (
        ("variables.a", "--variable", "a=nothing"),
        2,
        ["error: variable a: 1:1: undeclared reference to 'nothing'"],
    ),
    "a permission": (
        ("authorizer.path('/x').check('get').allowed()",),
        2,
        ["error: permissions are not available without a server"],
    ),
}


@pytest.mark.parametrize(("arguments", "code", "lines"), EVALUATED.values(), ids=EVALUATED)
def test_an_expression_is_evaluated(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, lines: list[str]
) -> None:
    assert run(files, *arguments) == code
    printed = capsys.readouterr().out.splitlines()
    for line, expected in zip(printed, lines, strict=False):
        assert line.startswith(expected)
    assert len(printed) >= len(lines)


def test_the_answer_is_that_of_the_server_as_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files, "object.spec.replicas", *POLICY, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "result": 3,
        "type": "dyn",
        "cost": 3,
        "costLimit": 1_000_000,
        "estimatedCost": None,
        "error": None,
        "issues": [],
        "warnings": [],
    }


REFUSED: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "a file that is missing": (("1", "--object", "missing.json"), "No such file"),
    "a file with two documents": (("1", "--object", "two.yaml"), "must contain one document, but contains 2"),
    "a file that is no YAML": (("1", "--object", "broken.yaml"), "broken.yaml: "),
    "a file with no definition": (("1", "--crd", "pod.json"), "there are no CustomResourceDefinitions"),
    "a definition that is not valid": (
        ("1", "--crd", "bad-crd.json"),
        "is not valid; run apiserver crd check",
    ),
    "an unknown version": (("1", "--crd", "crd.json", "--crd-version", "v9"), "has no version v9"),
    "a path without a definition": (("1", "--path", "spec"), "--path needs --crd"),
    "a path that leads nowhere": (("1", *RULE, "--path", "spec.nothing"), "path leads nowhere in the schema"),
    "a path that is no JSON": (("1", *RULE, "--path", "["), "--path is not JSON"),
    "a variable without an expression": (("1", "--variable", "a"), "--variable must be NAME=EXPRESSION"),
    "standard input twice": (("1", "--object", "-", "--params", "-"), "- can be used only once"),
    "an unknown release": (("1", "--release", "1.99"), "1.99"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_command_line_is_refused(files: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        run(files, *arguments)
    assert message in str(refused.value)
