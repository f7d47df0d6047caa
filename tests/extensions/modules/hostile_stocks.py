"""Virtual resources whose functions return, raise and do what they must not. Only workers import it.

What they do depends on the namespace, so that any test can choose.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from apiserver.extensions import ApiError, Conflict, Denied, Extension, NotFound, Request
from apiserver.extensions.invocation import Call
from apiserver.types import Ge, crd

# A function can change the code that checks results in the worker: the server must not rely on it.
_checked = Call.result
_unchecked: list[str] = []


class _Results:
    """Replaces the check of results, and lets some of them pass."""

    def __get__(self, call: Call, _: type) -> Callable[[Any], dict[str, Any]]:
        def result(returned: Any) -> dict[str, Any]:
            return {**returned} if _unchecked and _unchecked.pop() else _checked(call, returned)

        return result


Call.result = _Results()  # type: ignore[assignment, method-assign]

app = Extension("hostile-stocks", timeout_s=0.5)


@dataclass
class StockSpec:
    count: Annotated[int, Ge(0)] = 1
    fruit: Literal["apple", "pear"] = "apple"


@crd("hostile.example.com/v1")
@dataclass
class Stock:
    spec: StockSpec


stocks = app.resource(Stock)


def named(name: Any = "a", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}, "spec": {}}


def with_spec(**spec: Any) -> dict[str, Any]:
    return {**named(), "spec": spec}


def raises(error: BaseException) -> Callable[[], Any]:
    def raise_error() -> Any:
        raise error

    return raise_error


class TextFails(Exception):
    def __str__(self) -> str:
        raise KeyError("text")


def with_notes(error: BaseException) -> BaseException:
    error.__notes__ = 7  # type: ignore[assignment]
    return error


def deep() -> Any:
    found: Any = []
    for _ in range(2_000):
        found = [found]
    return [with_spec(count=found)]


def cycle() -> Any:
    found = named()
    found["spec"] = found
    return [found]


def unchecked(result: Any) -> Callable[[], Any]:
    """Returns a function whose result reaches the server as it is."""

    def function() -> Any:
        _unchecked.append("next")
        return result

    return function


# What is returned for a list, by the namespace.
LISTS: Final[Mapping[str, Callable[[], Any]]] = {
    "nothing": lambda: None,
    "text": lambda: "stocks",
    "mapping": lambda: {"a": named()},
    "numbers": lambda: [named(), 7],
    "without-metadata": lambda: [{"spec": {}}],
    "metadata-text": lambda: [{"metadata": "a", "spec": {}}],
    "without-name": lambda: [{"metadata": {}, "spec": {}}],
    "name-number": lambda: [named(7)],
    "name-with-slash": lambda: [named("a/b")],
    "name-of-parent": lambda: [named("..")],
    "namespace-number": lambda: [named(namespace=7)],
    "namespace-with-slash": lambda: [named(namespace="../kube-system")],
    "label-number": lambda: [named(labels={"a": 7})],
    "version-number": lambda: [named(resourceVersion=7)],
    "other-kind": lambda: [{**named(), "kind": "Pod"}],
    "other-version": lambda: [{**named(), "apiVersion": "v1"}],
    "kind-number": lambda: [{**named(), "kind": 7}],
    "count-text": lambda: [with_spec(count="many")],
    "count-negative": lambda: [named("b"), with_spec(count=-1)],
    "fruit-unknown": lambda: [with_spec(fruit="kiwi")],
    "spec-missing": lambda: [{"metadata": {"name": "a"}}],
    "twice": lambda: [named(), named()],
    "set": lambda: [with_spec(count={1})],
    "deep": deep,
    "cycle": cycle,
    "huge": lambda: [with_spec(more="x" * (17 << 20))],
    "late": lambda: time.sleep(60),
    "leaves": lambda: os._exit(3),
    "exits": raises(SystemExit("bye")),
    "fails": raises(KeyError("count")),
    "text-fails": raises(TextFails()),
    "surrogate": raises(ValueError("\ud800")),
    "notes": raises(with_notes(KeyError("count"))),
    "denied": raises(Denied("not today", field="spec.count")),
    "no-such-pod": raises(NotFound(404, {"message": 'pods "a" not found', "reason": "NotFound"})),
    "conflict": raises(Conflict(409, {"message": "changed", "reason": "Conflict"})),
    "unreachable": raises(ApiError(0, {"message": "no response"})),
    "items-mapping": unchecked({"items": {"a": 1}}),
    "items-missing": unchecked({}),
    "items-number": unchecked({"items": [7]}),
    "denied-text": unchecked({"denied": "no"}),
    "denied-code": unchecked({"denied": {"message": "no", "reason": "No", "code": 200}}),
    "denied-details": unchecked(
        {"denied": {"message": "no", "reason": "No", "code": 403, "details": {"causes": 7}}}
    ),
    "warnings-text": unchecked({"items": [], "warnings": "beware"}),
    "unknown-fields": lambda: [with_spec(color="red")],
    "elsewhere": lambda: [named("b", namespace="kube-system"), named("a", namespace="elsewhere")],
}


@stocks.list
def list_stocks(namespace: str) -> Any:
    return LISTS[namespace]()


@stocks.get
async def get_stock(name: str, namespace: str) -> Any:
    match name:
        case "late":
            await asyncio.sleep(60)
        case "other-name":
            return named("b")
        case "other-namespace":
            return named("other-namespace", namespace="kube-system")
        case "number":
            return 7
    return named(name)


@stocks.create
def create_stock(stock: dict[str, Any], dry_run: bool, request: Request) -> Any:
    match stock["metadata"]["name"]:
        case "options":
            stock["metadata"]["annotations"] = request.options
        case "number":
            return 7
        case "other-name":
            return named("b")
        case "negative":
            stock["spec"]["count"] = -1
        case "dry-run":
            stock["metadata"]["labels"] = {"dry-run": str(dry_run)}
    return stock


@stocks.delete
def delete_stock(name: str, request: Request) -> Any:
    if name == "number":
        return 7
    if name == "options":
        raise Denied(json.dumps(request.options))
    raise Denied(f"{name} stays")
