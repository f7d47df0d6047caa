"""`apiserver extensions check`: what it prints about an extension, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli import extensions
from apiserver.cli.argument_parser import UsageError
from tests.support.modules_on_disk import modules_in

FINE: Final = """
from apiserver.extensions import Extension
app = Extension("shop")

@app.mutate("pods", "deployments.apps", on="create", where="object.metadata.name != 'a'")
def price(pod): ...

@app.healthz()
def stock(): ...
"""
DEFINED: Final = """
from dataclasses import dataclass
from apiserver.types import crd, rule

@crd("shop.example.com/v1")
@dataclass
class Order:
    spec: str
app.crd(Order)

@app.validate("orders.shop.example.com")
def check(order): ...
"""


def run(capfd: pytest.CaptureFixture[str], directory: Path, code: str, *flags: str) -> tuple[int, list[str]]:
    """Returns the exit code and the lines on stdout of a check of a module."""
    with modules_in(directory, {"shop_checked": code}):
        exit_code = extensions.run(["check", "shop_checked", *flags])
    return exit_code, capfd.readouterr().out.splitlines()


def test_the_functions_of_an_extension_are_listed(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capfd, tmp_path, FINE + DEFINED) == (
        0,
        [
            "mutate price (shop_checked.py:5): pods, deployments.apps (where costs at most 2 of 1000000)",
            "validate check (shop_checked.py:20): orders.shop.example.com",
            "healthz stock (shop_checked.py:8)",
            "extension shop: no problems found",
        ],
    )


VIRTUAL: Final = """
from dataclasses import dataclass
from apiserver.types import crd

@crd("shop.example.com/v1")
@dataclass
class Stock:
    spec: str
stocks = app.resource(Stock)

@stocks.list
def list_stocks(): ...

@app.validate("stocks.shop.example.com")
def check(stock): ...
"""


def test_virtual_resources_are_listed_and_known(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capfd, tmp_path, FINE + VIRTUAL)[1][1:] == [
        "validate check (shop_checked.py:23): stocks.shop.example.com",
        "healthz stock (shop_checked.py:8)",
        "list list_stocks (shop_checked.py:20): stocks.shop.example.com",
        "extension shop: no problems found",
    ]


UNSERVABLE: Final = """
spec = {"versions": [{"name": "v1"}]}
crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "stocks.shop"}, "spec": spec}
app.resource(crd).list(lambda: [])
"""
CHECK: Final = "authorizer.group('').resource('pods').check('get').allowed()"
COSTLY: Final = f"""
@app.validate("pods", where="{CHECK} && {CHECK} && {CHECK}")
def f(pod): ...

@app.validate("pods", where="'team' in object.metadata.labels")
def g(pod): ...
"""


def test_a_condition_that_costs_too_much_is_an_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, lines = run(capfd, tmp_path, FINE + COSTLY)
    assert code == 1
    assert lines[1:3] == [
        "validate f (shop_checked.py:11): pods (where costs at most 1050012 of 1000000)",
        "validate g (shop_checked.py:14): pods (the cost of where depends on the objects)",
    ]
    assert lines[-1].endswith(
        "the estimated cost is 1050012, and exceeds the limit of 1000000 by a factor of 1.1 "
        "(try simplifying the expression)"
    )
    found = json.loads("".join(run(capfd, tmp_path, FINE + COSTLY, "--output=json")[1]))
    costs = [each["whereCostMax"] for each in found["functions"] if "whereCostMax" in each]
    assert costs == [2, 1050012, None]


METRIC: Final = '@app.metric("shop_stock")\ndef count(): ...'


def test_metrics_are_listed(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "metric count (shop_checked.py:10): shop_stock" in run(capfd, tmp_path, FINE + METRIC)[1]


WRONG: Final = {
    "a metric of the server": (
        METRIC.replace("shop_stock", "apiserver_request_total"),
        1,
        'error: extension "shop": count (shop_checked.py:11): the server has a metric ',
    ),
    "the definition of a virtual resource": (UNSERVABLE, 1, "error: stocks.shop: "),
    "a condition": (
        '@app.validate("pods", where="object.")\ndef f(pod): ...',
        1,
        "error: extension \"shop\": f (shop_checked.py:11): where='object.': ",
    ),
    "a resource that nobody defines": (
        '@app.validate("orders.shop.example.com")\ndef f(order): ...',
        0,
        'warning: extension "shop": f (shop_checked.py:11): the resource orders.shop.example.com is neither',
    ),
    "a definition": (
        'app.crd({"kind": "CustomResourceDefinition", "metadata": {"name": "orders.shop"}, "spec": {}})',
        1,
        "error: orders.shop: ",
    ),
    "a definition without metadata": (
        'app.crd({"kind": "CustomResourceDefinition", "spec": {}})',
        1,
        "error: a CustomResourceDefinition has no metadata.name",
    ),
    "a definition with a set": (
        'app.crd({"kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}, "spec": {"names": {1}}})',
        1,
        "error: a.b cannot be written as JSON: Type is not JSON serializable: set",
    ),
    "a definition with conversion functions and no versions": (
        (
            'app.crd({"kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}, "spec": {}})\n'
            '@app.convert("a.b", "v1", "v2")\ndef f(each): ...'
        ),
        1,
        "error: a.b has conversion functions, but spec.versions is not a list of versions with names",
    ),
    "a definition whose parts are of the wrong types": (
        (
            'for wrong in ("", 3, [], {"names": 3}, {"names": {}, "versions": 3}, {"versions": [3]}):\n'
            '    app.crd({"kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}, "spec": wrong})'
        ),
        1,
        "error: a.b: ",
    ),
    "a definition with conversion functions and versions with odd names": (
        (
            'app.crd({"kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}, '
            '"spec": {"versions": [{"name": ["v1"]}]}})\n@app.convert("a.b", "v1", "v2")\ndef f(each): ...'
        ),
        1,
        "error: a.b has conversion functions, but spec.versions is not a list of versions with names",
    ),
    "two health checks with one name": (
        "app.healthz()(stock)",
        1,
        "error: healthz: several functions have the name stock",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_problems_are_reported(capfd: pytest.CaptureFixture[str], tmp_path: Path, case: str) -> None:
    code, expected, message = WRONG[case]
    found, lines = run(capfd, tmp_path, f"{FINE}\n{code}\n")
    assert found == expected
    assert any(each.startswith(message) for each in lines), lines


def test_warnings_count_with_strict(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = f'{FINE}\n@app.validate("unknown")\ndef f(each): ...\n'
    assert run(capfd, tmp_path, code, "--strict")[0] == 1


def test_the_output_can_be_json(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, lines = run(capfd, tmp_path, FINE, "-o", "json")
    document = json.loads("\n".join(lines))
    assert (code, document["name"], document["findings"]) == (0, "shop", [])
    assert document["functions"][1] == {
        "kind": "healthz",
        "name": "stock",
        "place": "shop_checked.py:8",
        "resources": [],
    }


UNUSABLE: Final = {
    "raise RuntimeError('no license')": r"cannot import shop_checked: RuntimeError: no license "
    r"\(shop_checked.py:1\)",
    "import sys; sys.exit('bye')": "cannot import shop_checked: SystemExit: bye",
    "app = 3": "shop_checked has no extension",
    f"{FINE}\n@app.validate('pods')\ndef f(pod, color): ...": "nothing is known for the parameter color",
}


@pytest.mark.parametrize("code", UNUSABLE)
def test_modules_that_cannot_be_imported_are_usage_errors(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, code: str
) -> None:
    with pytest.raises(UsageError, match=UNUSABLE[code]):
        run(capfd, tmp_path, code)
