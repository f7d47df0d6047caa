"""Metrics whose values functions return."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.extensions import Extension, InvalidExtension
from apiserver.testing import ApiServer
from tests.extensions.modules import shop_metrics
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

MODULES: Final = "tests.extensions.modules"
EXTENSIONS: Final[dict[str, Sequence[Extension | str]]] = {
    "in the process of the test": [shop_metrics.app],
    "in a worker": [f"{MODULES}.shop_metrics"],
}


@pytest.fixture(scope="module", params=EXTENSIONS.values(), ids=list(EXTENSIONS))
def server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    with ApiServer(extensions=request.param) as server:
        yield server


def metrics(server: ApiServer, prefix: str) -> list[str]:
    """Returns the lines of /metrics about metrics whose names begin with a prefix."""
    code, text = server.request("GET", "/metrics")
    assert code == 200
    return [line for line in text.split("\n") if re.match(rf"(# HELP |# TYPE )?{prefix}", line)]


def test_a_metric_has_its_declaration_and_the_value_of_its_function(server: ApiServer) -> None:
    *head, _ = metrics(server, "shop_calls_total")
    assert head == [
        "# HELP shop_calls_total The calls of this function \\\\ of all.",
        "# TYPE shop_calls_total counter",
    ]
    assert metrics(server, "shop_orders_open") == [
        "# HELP shop_orders_open ",
        "# TYPE shop_orders_open gauge",
        'shop_orders_open{fruit="\\"apple\\"\\n"} 2',
        'shop_orders_open{fruit="pear"} 0.5',
    ]
    assert metrics(server, "shop_orders_by_place")[2:] == [
        'shop_orders_by_place{fruit="apple",shop="east"} 1',
        'shop_orders_by_place{fruit="pear",shop="west"} -2',
    ]


def test_a_function_can_ask_the_server(server: ApiServer) -> None:
    _, namespaces = server.request("GET", "/api/v1/namespaces")
    assert metrics(server, "shop_namespaces")[2:] == [f"shop_namespaces {len(namespaces['items'])}"]


def calls(server: ApiServer) -> int:
    return int(metrics(server, "shop_calls_total")[-1].split()[1])


def test_a_function_is_called_once_a_second_at_most(server: ApiServer) -> None:
    before, began = calls(server), time.monotonic()
    while True:
        count = calls(server)
        if time.monotonic() - began > 0.5:  # A scrape may take longer than usual.
            break
        assert count <= before + 1
    until(lambda: calls(server), lambda count: count > before + 1, "called again")


# ---- functions that fail

FAILURES: Final = {
    "none": "must return numbers, not NoneType",
    "text": "must return numbers, not str",
    "bool": "must return numbers, not bool",
    "nan": "must return finite numbers, not nan",
    "infinite": "must return finite numbers, not inf",
    "large": "Integer exceeds 64-bit range",
    "mapping": "must return numbers, not dict",
    "fails": "KeyError: 'orders'",
    "late": "has not returned within 0.3 s",
    "leaves": "has ended its worker: it has exited with status 3",
    "raw_text": "samples is not a list of at most 1000",
    "raw_null": r"samples\[0\] has wrong types",
    "raw_bool": r"samples\[0\] is True",
    "raw_labels": r"samples\[0\] has wrong types",
    "raw_many": "samples is not a list of at most 1000",
    "label_number": "must return a mapping of label values to numbers, not int",
    "label_key": "must return a mapping by values of fruit; a key is 7",
    "label_pair": r"must return a mapping by values of fruit; a key is \('a', 'b'\)",
    "label_many": "must return at most 1000 numbers, not 1001",
    "label_raw_number": r"samples\[0\] has wrong types",
    "label_raw_long": r"samples\[0\] has wrong types",
    "negative": r"samples\[0\] is -1",
}


def test_functions_that_fail_do_not_fail_the_scrape(caplog: pytest.LogCaptureFixture) -> None:
    with ApiServer(extensions=[f"{MODULES}.hostile_metrics"]) as server:
        began = time.monotonic()
        assert metrics(server, "apiserver_storage_objects")
        assert time.monotonic() - began < 10

        def shown() -> list[str]:
            return [line for line in metrics(server, "hostile_") if not line.startswith("#")]

        until(shown, lambda lines: lines == ["hostile_sound 7"], "only the sound one")
        _, text = server.request("GET", "/metrics")
        assert re.search(r'apiserver_extension_failures_total\{extension="hostile-metrics",', text)
        for name, says in FAILURES.items():
            until(partial(_has, caplog, says), bool, f"{name}: {says}")


def _has(caplog: pytest.LogCaptureFixture, says: str) -> bool:
    return re.search(says, caplog.text) is not None


# ---- declarations


WRONG: Final[dict[str, tuple[Callable[[Any], object], str]]] = {
    "a name": (lambda app: app.metric("shop-orders"), "the name 'shop-orders' must consist of letters"),
    "no name": (lambda app: app.metric(""), "the name '' must consist of letters"),
    "a kind": (lambda app: app.metric("a", kind="histogram"), 'must be "gauge" or "counter"'),
    "two lines of help": (lambda app: app.metric("a", help="a\nb"), "help must be one line"),
    "a label": (lambda app: app.metric("a", labels=["b-c"]), "the label 'b-c' must consist of letters"),
    "a reserved label": (lambda app: app.metric("a", labels=["__name__"]), "the label '__name__' must"),
    "a label twice": (lambda app: app.metric("a", labels=["b", "b"]), "at most 10 different names"),
    "too many labels": (
        lambda app: app.metric("a", labels=[f"l{number}" for number in range(11)]),
        "at most 10 different names",
    ),
    "a text for labels": (lambda app: app.metric("a", labels="bc"), "labels must be a list"),
    "an unknown parameter": (
        lambda app: app.metric("a")(lambda pod: 7),
        "nothing is known for the parameter pod; there can be: api",
    ),
    "the same metric twice": (
        lambda app: [app.metric("a")(lambda: 7) for _ in range(2)],
        "several functions have the metric a",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_declarations_are_refused(case: str) -> None:
    declare, message = WRONG[case]
    with pytest.raises(InvalidExtension, match=re.escape(message)):
        _described(declare)


def _described(declare: Callable[[Any], object]) -> None:
    app = Extension("wrong")
    declare(app)
    app.describe()


TAKEN: Final = {
    "a metric of the server": (
        ["apiserver_request_total"],
        "the server has a metric apiserver_request_total",
    ),
    "a series of the server": (
        ["apiserver_request_duration_seconds_count"],
        "the server has a metric apiserver_request_duration_seconds_count, too",
    ),
    "a metric of another extension": (
        ["shop_orders", "shop_orders"],
        'extension "shop-0" has a metric shop_orders, too',
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_server_does_not_start_with_a_metric_that_another_has(tmp_path: Path, case: str) -> None:
    names, reason = TAKEN[case]
    for number, name in enumerate(names):
        (tmp_path / f"shop_{number}_metrics.py").write_text(
            "from apiserver.extensions import Extension\n"
            f"app = Extension('shop-{number}')\n"
            f"@app.metric({name!r})\n"
            "def count(): return 7\n"
        )
    flags = [f"--extension=shop_{number}_metrics" for number in range(len(names))]
    environment = {"PYTHONPATH": str(tmp_path)}
    refusal = ServerProcess(tmp_path / "data", *flags, module="apiserver", environment=environment).refusal()
    assert refusal.code == 1
    assert reason in refusal.stderr
