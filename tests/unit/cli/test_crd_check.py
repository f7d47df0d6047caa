"""`apiserver crd check`: the files it reads, what it prints, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.crd import command
from apiserver.cli.crd.class_sources import definition_of
from tests.support.definitions import definition, version
from tests.support.modules_on_disk import modules_in

GROUP: Final = "shop.example.com"
NAME: Final = f"widgets.{GROUP}"
PASSED: Final = f"{NAME}: no problems found"
CONFIG_MAP: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def run(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], list[str]]:
    """Returns the exit code, and the lines on stdout and stderr."""
    code = command.run(["check", *map(str, arguments)])
    out, err = capfd.readouterr()
    return code, out.splitlines(), err.splitlines()


def written(path: Path, *documents: Any) -> Path:
    path.write_text(yaml.safe_dump_all(documents))
    return path


def spec_schema(spec: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}


def test_a_definition_that_the_server_accepts(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", definition(GROUP))
    assert run(capfd, file) == (0, [f"{file}: {PASSED}"], [])


def test_an_error_has_the_path_and_the_text_of_the_server(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = {**definition(GROUP), "typo": 1}
    broken["spec"]["scope"] = "Everywhere"
    file = written(tmp_path / "a.yaml", broken)
    code, out, err = run(capfd, file)
    assert (code, err) == (1, [])
    unsupported = 'Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"'
    assert out == [
        f'{file}: {NAME}: error: typo: unknown field "typo"',
        f"{file}: {NAME}: error: spec.scope: {unsupported}",
    ]


def test_warnings_fail_with_strict_only(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    odd = version(schema=spec_schema({"a": {"type": "string", "format": "odd"}}))
    file = written(tmp_path / "a.yaml", definition(GROUP, odd))
    lines = [f'{file}: {NAME}: warning: unrecognized format "odd"']
    assert run(capfd, file) == (0, lines, [])
    assert run(capfd, file, "--strict") == (1, lines, [])


def test_a_rule_over_budget_has_its_cost_and_the_bounds_that_help(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    hosts: dict[str, Any] = {
        "type": "array",
        "items": {"type": "string", "maxLength": 63},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.exists_one(y, x == y))"}],
    }
    dear = definition(GROUP, version(schema=spec_schema({"hosts": hosts})))
    file = written(tmp_path / "a.yaml", dear)
    code, out, _ = run(capfd, file)
    rule = (
        "spec.validation.openAPIV3Schema.properties[spec].properties[hosts].x-kubernetes-validations[0].rule"
    )
    assert code == 1
    assert out[0].startswith(f"{file}: {NAME}: error: {rule}: Forbidden: estimated rule cost exceeds budget")
    assert re.fullmatch(r"  The estimated cost is [\d,]+, [\d,]+\.\d times the limit of 10,000,000\.", out[1])
    assert out[2] == "  To meet the limit, set maxItems: 512 on spec.hosts."
    found = as_json(capfd, file)[0]["findings"][0]
    assert (found["severity"], found["path"], found["reason"]) == ("error", rule, "FieldValueForbidden")
    assert found["cost"]["estimated"] == int(out[1].split()[4].replace(",", ""))
    assert found["cost"]["factor"] == found["cost"]["estimated"] / found["cost"]["limit"]
    assert found["cost"]["remedies"] == [[{"path": "spec.hosts", "keyword": "maxItems", "value": 512}]]
    hosts["maxItems"] = 512
    assert run(capfd, written(file, dear)) == (0, [f"{file}: {PASSED}"], [])


def as_json(capfd: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    command.run(["check", "-o", "json", *map(str, arguments)])
    found: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["definitions"]
    return found


def test_json_lists_all_definitions(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", definition(GROUP), definition(GROUP, plural="gadgets", kind="Gadget"))
    assert as_json(capfd, file) == [
        {"file": str(file), "name": NAME, "findings": []},
        {"file": str(file), "name": f"gadgets.{GROUP}", "findings": []},
    ]


def test_names_conflict_with_those_of_earlier_definitions(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = definition(GROUP, names={"shortNames": ["w"]})
    other = definition(GROUP, plural="wares", kind="Ware", names={"shortNames": ["w"]})
    file = written(tmp_path / "a.yaml", one, other)
    error = 'error: spec.names.shortNames: NamesAccepted=False: "w" is already in use'
    assert run(capfd, file) == (1, [f"{file}: {PASSED}", f"{file}: wares.{GROUP}: {error}"], [])
    elsewhere = definition("other.example.com", plural="wares", kind="Ware", names={"shortNames": ["w"]})
    assert run(capfd, written(file, one, elsewhere))[0] == 0
    assert run(capfd, written(file, one, one))[0] == 0


def test_a_group_that_is_not_approved(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    unapproved = definition("shop.k8s.io")
    file = written(tmp_path / "a.yaml", unapproved)
    code, (line,), _ = run(capfd, file)
    assert code == 1
    assert "error: metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups" in line
    unapproved["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, only a test"}
    code, (line,), _ = run(capfd, written(file, unapproved))
    assert code == 0
    assert "warning: KubernetesAPIApprovalPolicyConformant=False: not approved" in line


def test_a_definition_that_was_read_from_a_server(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    read = definition(GROUP)
    read["metadata"] |= {"uid": "1-2", "resourceVersion": "7", "generation": 1, "managedFields": []}
    read["metadata"]["namespace"] = "default"  # As written by some generators; the server drops it.
    read["status"] = {"storedVersions": ["v1"], "conditions": [], "acceptedNames": read["spec"]["names"]}
    items = {"apiVersion": "v1", "kind": "List", "items": [read]}
    file = written(tmp_path / "a.yaml", items)
    assert run(capfd, file) == (0, [f"{file}: {PASSED}"], [])


def test_other_versions_and_types(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    old = {**definition(GROUP), "apiVersion": "apiextensions.k8s.io/v1beta1"}
    wrong = definition(GROUP)
    wrong["spec"]["versions"] = "v1"
    file = written(tmp_path / "a.yaml", old, wrong)
    code, (of_old, of_wrong), _ = run(capfd, file)
    assert code == 1
    served = "does not serve apiextensions.k8s.io/v1beta1, but apiextensions.k8s.io/v1"
    assert of_old == f"{file}: {NAME}: error: Kubernetes 1.36 {served}"
    assert of_wrong.startswith(f"{file}: {NAME}: error: json: cannot unmarshal string into Go struct field")
    code, (line,), _ = run(capfd, written(file, old), "--release", "1.21")
    assert (code, "spec.versions: Invalid value: " in line) == (1, True)
    del old["spec"]["versions"][0]["schema"]
    assert (
        run(
            capfd,
            written(file, {**old, "spec": {**old["spec"], "preserveUnknownFields": True}}),
            "--release",
            "1.21",
        )[0]
        == 0
    )


def test_text_that_the_server_cannot_read(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("kind: [")
    code, (line,), _ = run(capfd, file)
    assert code == 1
    assert line.startswith(f"{file}: error: yaml: ")
    text = yaml.safe_dump(definition(GROUP))
    file.write_text(f"kind: Widget\n{text}")
    code, (line,), _ = run(capfd, file)
    assert code == 1
    assert line.startswith(f"{file}: {NAME}: error: line ")
    assert line.endswith('key "kind" already set in map')


def test_directories_and_other_documents(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    one = written(tmp_path / "a.yaml", CONFIG_MAP, definition(GROUP), CONFIG_MAP)
    two = written(tmp_path / "below" / "b.yaml", definition(GROUP))
    skipped = "skipped 2 documents that are not a CustomResourceDefinition"
    told = [f"apiserver crd check: {one}: {skipped}"]
    assert run(capfd, tmp_path) == (0, [f"{one}: {PASSED}"], told)
    assert run(capfd, tmp_path, "-R") == (0, [f"{one}: {PASSED}", f"{two}: {PASSED}"], told)


def test_json_documents_in_one_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    gadget = json.dumps(definition(GROUP, plural="gadgets", kind="Gadget"), indent=2)
    file.write_text(f"{json.dumps(definition(GROUP))}\n\n{gadget}\n")
    found = [f"{file}: {PASSED}", f"{file}: gadgets.{GROUP}: no problems found"]
    assert run(capfd, file) == (0, found, [])
    file.write_text(f"{json.dumps(definition(GROUP))}\n---\n{gadget}")
    assert run(capfd, file) == (0, found, [])
    file.write_text(json.dumps(definition(GROUP)).replace('"', ""))  # YAML in braces.
    assert run(capfd, file) == (0, [f"{file}: {PASSED}"], [])
    file.write_text(json.dumps(definition(GROUP)) + "}")
    code, (whole, rest), _ = run(capfd, file)
    assert (code, whole) == (1, f"{file}: {PASSED}")
    assert rest.startswith(f"{file}: error: yaml: ")


def test_the_list_of_a_server_names_its_type_once(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    untyped = {name: value for name, value in definition(GROUP).items() if name in ("metadata", "spec")}
    items = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinitionList",
        "items": [untyped],
    }
    file = written(tmp_path / "a.yaml", items)
    assert run(capfd, file) == (0, [f"{file}: {PASSED}"], [])


def test_items_that_are_no_documents(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [None, 1, definition(GROUP)]}
    file = written(tmp_path / "a.yaml", items)
    told = f"apiserver crd check: {file}: skipped 2 documents that are not a CustomResourceDefinition"
    assert run(capfd, file) == (0, [f"{file}: {PASSED}"], [told])


def test_standard_input(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", definition(GROUP))
    with file.open("rb") as stdin:
        program = [sys.executable, "-m", "apiserver", "crd", "check", "-"]
        done = subprocess.run(program, stdin=stdin, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"-: {PASSED}\n", "")


# ---- classes


MODULE: Final = """
from dataclasses import dataclass
from apiserver.types import crd

@dataclass
class Spec:
    fruit: str

@crd("shop.example.com/v1")
@dataclass
class Order:
    spec: Spec

@crd("shop.example.com/v1beta1", kind="Order", storage=False)
@dataclass
class OldOrder:
    spec: Spec

@crd("shop.example.com/v1")
@dataclass
class Odd:
    spec: complex

class Plain:
    pass
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    """The name of a module in the current directory."""
    texts = {"classes_of_a_shop": MODULE, "broken_shop": "import dataclasses\n1 / 0\n"}
    with modules_in(tmp_path, texts):
        yield "classes_of_a_shop"


def test_classes(capfd: pytest.CaptureFixture[str], module: str) -> None:
    """Each has all versions of its type."""
    name = f"orders.{GROUP}"
    for cls in ("Order", "OldOrder"):
        assert run(capfd, f"{module}:{cls}") == (0, [f"{module}:{cls}: {name}: no problems found"], [])
        assert len(definition_of("", f"{module}:{cls}")["spec"]["versions"]) == 2
    code, (line,), _ = run(capfd, f"{module}:Odd")
    assert code == 1
    assert line.startswith(f"{module}:Odd: error: Odd.spec: JSON has no values of type complex")


def test_what_a_module_prints_is_not_in_the_output(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with modules_in(tmp_path, {"loud_shop": f"print('loud')\n{MODULE}"}):
        assert as_json(capfd, "loud_shop:Order")[0]["findings"] == []


def test_a_file_with_a_colon_in_its_name(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with chdir(tmp_path):
        written(Path("a:b"), definition(GROUP))
        assert run(capfd, "a:b") == (0, [f"a:b: {PASSED}"], [])


CLASSES: Final = {
    "classes_of_a_shop:None_": "classes_of_a_shop:None_ does not exist",
    "classes_of_a_shop:Plain": "classes_of_a_shop:Plain does not have the decorator crd",
    "no_such_shop:Order": "cannot import no_such_shop: ModuleNotFoundError: No module named 'no_such_shop'",
    "broken_shop:Order": "cannot import broken_shop: ZeroDivisionError: division by zero (",
}


@pytest.mark.parametrize(("argument", "message"), CLASSES.items(), ids=CLASSES)
def test_classes_that_cannot_be_had(module: str, argument: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        command.run(["check", argument])
    assert str(raised.value).startswith(f"crd check: {message}")


# ---- mistakes


@pytest.mark.parametrize("arguments", [[], ["no-such-file"], ["--release", "1.2", "-"], ["-o", "yaml", "-"]])
def test_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        command.run(["check", *arguments])


def test_a_file_without_definitions(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", CONFIG_MAP)
    with pytest.raises(UsageError, match="there are no CustomResourceDefinitions"):
        command.run(["check", str(file)])
