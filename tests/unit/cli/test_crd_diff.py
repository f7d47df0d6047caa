"""`apiserver crd diff`: the definitions it compares, what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.crd import command
from tests.support.definitions import SPEC, definition, version
from tests.support.modules_on_disk import modules_in

GROUP: Final = "shop.example.com"
NAME: Final = f"widgets.{GROUP}"
WITHOUT_A: Final = {
    **SPEC,
    "properties": {
        **SPEC["properties"],
        "spec": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
}
OLD: Final = definition(GROUP)
NEW: Final = definition(GROUP, version(schema=WITHOUT_A), names={"shortNames": ["w"]})
OTHER: Final = definition(GROUP, plural="gadgets", kind="Gadget")
REMOVED: Final = "The field is removed. The server prunes it from objects."


class Files:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, *documents: Any) -> str:
        path = self._directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Returns the exit code and the lines that are printed."""
    code = command.run(["diff", *arguments])
    return code, capfd.readouterr().out.splitlines()


def test_breaking_changes_come_first(capfd: pytest.CaptureFixture[str], files: Files) -> None:
    assert run(capfd, files.write("old", OLD), files.write("new", NEW)) == (
        1,
        [
            f"{NAME}: breaking: v1 spec.a: {REMOVED}",
            f"{NAME}: note: spec.names.shortNames: w is added.",
        ],
    )


def test_compatible_changes(capfd: pytest.CaptureFixture[str], files: Files) -> None:
    old, new = files.write("old", definition(GROUP, version(schema=WITHOUT_A))), files.write("new", OLD)
    assert run(capfd, old, new) == (0, [f"{NAME}: note: v1 spec.a: The field is added."])
    assert run(capfd, old, old) == (0, [f"{NAME}: no changes"])


def test_json(capfd: pytest.CaptureFixture[str], files: Files) -> None:
    code, lines = run(capfd, files.write("old", OLD), files.write("new", NEW), "-o", "json")
    assert code == 1
    removed = {
        "kind": "FieldRemoved",
        "severity": "breaking",
        "version": "v1",
        "path": "spec.a",
        "message": REMOVED,
    }
    added = {
        "kind": "ShortNameAdded",
        "severity": "note",
        "version": "",
        "path": "spec.names.shortNames",
        "message": "w is added.",
    }
    assert json.loads("\n".join(lines)) == {
        "isBreaking": True,
        "definitions": [{"name": NAME, "changes": [removed, added]}],
    }


def test_definitions_of_the_same_name_are_compared(capfd: pytest.CaptureFixture[str], files: Files) -> None:
    old, new = files.write("old", OTHER, OLD), files.write("new", OLD, OTHER)
    assert run(capfd, old, new) == (0, [f"gadgets.{GROUP}: no changes", f"{NAME}: no changes"])


def test_definitions_are_added_and_removed(capfd: pytest.CaptureFixture[str], files: Files) -> None:
    one, both = files.write("one", OLD), files.write("both", OLD, OTHER)
    assert run(capfd, one, both) == (
        0,
        [f"{NAME}: no changes", f"gadgets.{GROUP}: note: The definition is added."],
    )
    code, (_, line) = run(capfd, both, one)
    assert code == 1
    assert line.startswith(f"gadgets.{GROUP}: breaking: The definition is removed.")


def test_a_definition_may_have_another_name(capfd: pytest.CaptureFixture[str], files: Files) -> None:
    code, lines = run(capfd, files.write("old", OLD), files.write("new", definition("other.example.com")))
    assert code == 1
    text = f"{GROUP} becomes other.example.com. The server refuses this: create another definition."
    assert lines == [f"{NAME}: breaking: spec.group: {text}"]


def test_definitions_that_were_read_from_a_server(capfd: pytest.CaptureFixture[str], files: Files) -> None:
    meta = {"uid": "1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3}
    accepted = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    established = {"type": "Established", "status": "True", "reason": "a", "message": "b"}
    read = {
        **OLD,
        "metadata": {**OLD["metadata"], **meta},
        "status": {"storedVersions": ["v1"], "acceptedNames": accepted, "conditions": [established]},
    }
    listed = {"apiVersion": "v1", "kind": "List", "items": [read]}
    assert run(capfd, files.write("old", listed), files.write("new", OLD)) == (0, [f"{NAME}: no changes"])


MISTAKES: Final = {
    "one file": ["old"],
    "a file that does not exist": ["old", "none.yaml"],
    "no definition": ["old", "config"],
    "two definitions of a name": ["old", "twice"],
    "a definition that cannot be read": ["old", "broken"],
    "no versions": ["old", "empty"],
    "no YAML": ["old", "text"],
}


@pytest.mark.parametrize("names", MISTAKES.values(), ids=MISTAKES)
def test_wrong_usage(files: Files, names: list[str]) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    broken = {**OLD, "spec": {**OLD["spec"], "versions": "v1"}}
    known = {
        "old": files.write("old", OLD),
        "config": files.write("config", config),
        "twice": files.write("twice", OLD, OLD),
        "broken": files.write("broken", broken),
        "empty": files.write("empty", {**OLD, "spec": {**OLD["spec"], "versions": []}}),
        "text": files.write("text"),
    }
    Path(known["text"]).write_text("a: [")
    with pytest.raises(UsageError, match=r"^crd diff: "):
        command.run(["diff", *(known.get(name, name) for name in names)])


def test_a_class_is_compared_with_a_file(
    capfd: pytest.CaptureFixture[str], files: Files, tmp_path: Path
) -> None:
    text = (
        "from dataclasses import dataclass\n"
        "from apiserver.types import crd\n"
        "@dataclass\nclass Spec:\n    n: int = 0\n"
        f"@crd('{GROUP}/v1')\n@dataclass\nclass Widget:\n    spec: Spec\n"
    )
    old = files.write("old", OLD)
    with modules_in(tmp_path, {"widgets_of_a_shop": text}):
        code, lines = run(capfd, old, "widgets_of_a_shop:Widget")
        assert code == 1
        assert f"{NAME}: breaking: v1 spec.a: {REMOVED}" in lines
        with pytest.raises(UsageError, match="does not exist"):
            command.run(["diff", old, "widgets_of_a_shop:Gadget"])


@pytest.mark.parametrize("arguments", [["check", "-", "-"], ["diff", "-", "-"]], ids=lambda each: each[0])
def test_standard_input_is_read_once(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^crd .*: - can be used only once"):
        command.run(arguments)
