"""`apiserver crd generate`: the classes it finds, what it prints, and its exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.crd import command
from tests.support.modules_on_disk import modules_in

MODULE: Final = """
from dataclasses import dataclass
from apiserver.types import PodSpec, crd

@dataclass
class Spec:
    fruit: str

@crd("shop.example.com/v1")
@dataclass
class Order:
    spec: Spec
    first: PodSpec | None = None
    second: PodSpec | None = None

@crd("shop.example.com/v1beta1", kind="Order", storage=False)
@dataclass
class OldOrder:
    spec: Spec

@crd("shop.example.com/v1", scope="Cluster")
@dataclass
class Box:
    spec: Spec
"""
ODD: Final = """
from dataclasses import dataclass
from apiserver.types import crd

@crd("shop.example.com/v1")
@dataclass
class Odd:
    spec: complex
"""
EMPTY: Final = "from apiserver.types import crd\n"
BOXES: Final = b"""\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: boxes.shop.example.com
spec:
  group: shop.example.com
  names:
    kind: Box
    plural: boxes
    singular: box
  scope: Cluster
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              fruit:
                type: string
            required:
            - fruit
            type: object
        required:
        - spec
        type: object
    served: true
    storage: true
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path) -> Iterator[None]:
    texts = {"generated_shop": MODULE, "generated_odd": ODD, "generated_empty": EMPTY}
    with modules_in(tmp_path, texts):
        yield


def generate(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> bytes:
    """The output of a command that succeeds."""
    assert command.run(["generate", *arguments]) == 0
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    assert err == b""
    return out


def names(documents: list[Any]) -> list[str]:
    return [document["metadata"]["name"] for document in documents]


def test_the_definition_of_a_class(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert generate(capfdbinary, "generated_shop:Box") == BOXES


def test_a_definition_has_all_versions_in_the_module(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    out = generate(capfdbinary, "generated_shop:OldOrder", "generated_shop:Order")
    (document,) = yaml.safe_load_all(out)
    assert [version["name"] for version in document["spec"]["versions"]] == ["v1", "v1beta1"]
    assert b"&id" not in out  # Both pods are written out.


def test_the_definitions_of_a_module(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    everything = ["orders.shop.example.com", "boxes.shop.example.com"]
    assert names([*yaml.safe_load_all(generate(capfdbinary, "generated_shop"))]) == everything
    listed = json.loads(generate(capfdbinary, "generated_shop", "-o", "json"))
    assert (listed["kind"], names(listed["items"])) == ("List", everything)
    one = json.loads(generate(capfdbinary, "generated_shop:Box", "-o", "json"))
    assert one == yaml.safe_load(BOXES)


def test_a_class_without_a_schema(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.run(["generate", "generated_odd:Odd"]) == 1
    hint = "use two numbers, or a str"
    assert capfd.readouterr() == (
        "",
        f"apiserver: crd generate: Odd.spec: JSON has no values of type complex; {hint}\n",
    )


PROBLEMS: Final = {
    "generated_shop:Missing": "generated_shop:Missing does not exist",
    "generated_shop:Spec": "generated_shop:Spec does not have the decorator crd",
    "generated_empty": "the module generated_empty has no classes with the decorator crd",
    "no_such_shop": "cannot import no_such_shop: ModuleNotFoundError: No module named 'no_such_shop'",
    "shop.py": "cannot import shop.py: ",
    "./shop": "'./shop' is not MODULE or MODULE:CLASS",
    "shop:Order:x": "'shop:Order:x' is not MODULE or MODULE:CLASS",
}


@pytest.mark.parametrize(("argument", "problem"), PROBLEMS.items(), ids=PROBLEMS)
def test_arguments_without_classes(argument: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        command.run(["generate", argument])
    assert str(raised.value).startswith(f"crd generate: {problem}")
