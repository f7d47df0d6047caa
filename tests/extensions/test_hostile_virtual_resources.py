"""Functions of virtual resources that return, raise or do what they must not: each request has an answer
that names the extension, the function and the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from apiserver.testing import ApiServer

GROUP: Final = "/apis/hostile.example.com/v1"
FAILED: Final = r'^Internal error occurred: extension "hostile-stocks": {function} \(hostile_stocks.py:\d+\) '
INVALID: Final = "has returned an invalid result: "

# By namespace: what the server says after the name of the function.
LISTS: Final = {
    "nothing": "failed.*: WrongResult: must return a list of objects, not NoneType",
    "text": "failed.*: WrongResult: must return a list of objects, not str",
    "mapping": "failed.*: WrongResult: must return a list of objects, not dict",
    "numbers": r"failed.*: WrongResult: must return a list of objects; \[1\] is int",
    "without-metadata": INVALID + r"items\[0\].metadata is not an object",
    "metadata-text": INVALID + r"items\[0\].metadata is not an object",
    "without-name": INVALID + r"items\[0\].metadata.name: Required value",
    "name-number": INVALID + r"items\[0\]: .* ObjectMeta.name of type string",
    "name-with-slash": INVALID + r"items\[0\].metadata.name: Invalid value: \"a/b\"",
    "name-of-parent": INVALID + r"items\[0\].metadata.name: Invalid value: \"..\"",
    "namespace-number": INVALID + r"items\[0\]: .* ObjectMeta.namespace of type string",
    "namespace-with-slash": INVALID + r"items\[0\].metadata.namespace: Invalid value",
    "label-number": INVALID + r"items\[0\]: .*labels",
    "version-number": INVALID + r"items\[0\]: .*resourceVersion",
    "other-kind": INVALID + r"items\[0\].kind is 'Pod', not Stock",
    "other-version": INVALID + r"items\[0\].apiVersion is 'v1', not hostile.example.com/v1",
    "kind-number": INVALID + r"items\[0\].kind is 7, not Stock",
    "count-text": INVALID + r"items\[0\].spec.count: Invalid value: \"string\"",
    "count-negative": INVALID + r"items\[1\].spec.count: Invalid value: -1",
    "fruit-unknown": INVALID + r"items\[0\].spec.fruit: Unsupported value: \"kiwi\"",
    "spec-missing": INVALID + r"items\[0\].spec: Required value",
    "twice": INVALID + r"items\[1\].metadata.name: there is another object of this name",
    "set": "failed: has returned what JSON cannot express: Type is not JSON serializable: set",
    "deep": "failed: has returned what JSON cannot express: Recursion limit reached",
    "cycle": "failed: has returned what JSON cannot express: Recursion limit reached",
    "huge": r"failed: has returned \d+ bytes, more than 16777216",
    "late": "has not returned within 0.5 s",
    "leaves": "has ended its worker: it has exited with status 3",
    "exits": r"failed at hostile_stocks.py:\d+: SystemExit: bye",
    "fails": r"failed at hostile_stocks.py:\d+: KeyError: 'count'",
    "text-fails": r"failed at hostile_stocks.py:\d+: TextFails: <exception str\(\) failed>$",
    "surrogate": r"failed at hostile_stocks.py:\d+: ValueError: \\ud800$",
    "notes": r"failed at hostile_stocks.py:\d+: KeyError: 'count'$",
    "unreachable": r"failed at hostile_stocks.py:\d+: ApiError: no response",
    "items-mapping": INVALID + "items is not a list",
    "items-missing": INVALID + "items is not a list",
    "items-number": INVALID + r"items\[0\] is not an object",
    "denied-text": INVALID + "denied is no refusal",
    "denied-code": INVALID + "denied is no refusal",
    "denied-details": INVALID + "denied.details has no causes",
    "warnings-text": INVALID + "warnings is not a list of texts",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(extensions=["tests.extensions.modules.hostile_stocks"]) as server:
        yield server


def stocks(namespace: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/stocks"


def require_failed(answer: tuple[int, Any], function: str, says: str) -> None:
    code, status = answer
    assert (code, status["reason"], status["code"]) == (500, "InternalError", 500)
    assert re.search(FAILED.format(function=function) + says, status["message"]), status["message"]


@pytest.mark.parametrize("namespace", LISTS)
def test_a_list_that_fails_says_why(server: ApiServer, namespace: str) -> None:
    require_failed(server.request("GET", stocks(namespace)), "list_stocks", LISTS[namespace])
    # The next request is answered, whatever has become of the worker.
    assert server.request("GET", f"{stocks('default')}/a")[0] == 200


def test_a_function_refuses_with_a_status(server: ApiServer) -> None:
    code, status = server.request("GET", stocks("denied"))
    assert (code, status["reason"], status["message"]) == (403, "Forbidden", "not today")
    assert status["details"]["causes"] == [{"message": "not today", "field": "spec.count"}]


@pytest.mark.parametrize(
    ("namespace", "code", "reason", "message"),
    [("no-such-pod", 404, "NotFound", 'pods "a" not found'), ("conflict", 409, "Conflict", "changed")],
)
def test_errors_of_the_client_are_passed_on(
    server: ApiServer, namespace: str, code: int, reason: str, message: str
) -> None:
    answered, status = server.request("GET", stocks(namespace))
    assert (answered, status["reason"], status["message"]) == (code, reason, message)


def test_unknown_fields_are_removed(server: ApiServer) -> None:
    _, found = server.request("GET", stocks("unknown-fields"))
    assert [each["spec"] for each in found["items"]] == [{"count": 1, "fruit": "apple"}]


def test_objects_of_other_namespaces_are_left_out(server: ApiServer) -> None:
    _, found = server.request("GET", stocks("elsewhere"))
    assert [each["metadata"]["name"] for each in found["items"]] == ["a"]


GETS: Final = {
    "late": "has not returned within 0.5 s",
    "other-name": INVALID + "object.metadata is that of another object than default/other-name",
    "other-namespace": INVALID + "object.metadata is that of another object than default/other-namespace",
    "number": "failed.*: WrongResult: must return None or an object, not int",
}


@pytest.mark.parametrize("name", GETS)
def test_an_object_that_cannot_be_used(server: ApiServer, name: str) -> None:
    require_failed(server.request("GET", f"{stocks('default')}/{name}"), "get_stock", GETS[name])


CREATES: Final = {
    "number": "failed.*: WrongResult: must return None or an object, not int",
    "other-name": INVALID + "object.metadata is that of another object than default/other-name",
    "negative": INVALID + "object.spec.count: Invalid value: -1",
}


@pytest.mark.parametrize("name", CREATES)
def test_a_created_object_that_cannot_be_used(server: ApiServer, name: str) -> None:
    posted = {"apiVersion": "hostile.example.com/v1", "kind": "Stock", "metadata": {"name": name}, "spec": {}}
    require_failed(server.request("POST", stocks("default"), posted), "create_stock", CREATES[name])


def test_a_function_that_knows_of_dry_runs_is_called_for_them(server: ApiServer) -> None:
    metadata = {"name": "dry-run"}
    posted = {"apiVersion": "hostile.example.com/v1", "kind": "Stock", "metadata": metadata, "spec": {}}
    _, created = server.request("POST", f"{stocks('default')}?dryRun=All", posted)
    assert created["metadata"]["labels"] == {"dry-run": "True"}


def test_a_deletion_that_fails_and_one_that_is_refused(server: ApiServer) -> None:
    answer = server.request("DELETE", f"{stocks('default')}/a")
    assert (answer[0], answer[1]["message"]) == (403, "a stays")


def test_functions_that_write_get_the_options_of_the_request(server: ApiServer) -> None:
    of_meta = {"apiVersion": "meta.k8s.io/v1"}
    metadata = {"name": "options"}
    posted = {"apiVersion": "hostile.example.com/v1", "kind": "Stock", "metadata": metadata, "spec": {}}
    _, created = server.request("POST", f"{stocks('default')}?fieldManager=shop", posted)
    assert created["metadata"]["annotations"] == {
        **of_meta,
        "kind": "CreateOptions",
        "fieldManager": "shop",
    }
    given = {"propagationPolicy": "Orphan", "gracePeriodSeconds": 7}
    _, status = server.request("DELETE", f"{stocks('default')}/options", given)
    assert json.loads(status["message"]) == {**of_meta, "kind": "DeleteOptions", **given}
