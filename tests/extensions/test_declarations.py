"""Extensions that are declared wrong: each is an error that says where and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import pytest

from apiserver.extensions import Denied, Extension, InvalidExtension
from apiserver.extensions.loading import load


def function(pod: Any) -> None: ...


def without_parameters() -> None: ...


def with_others(pod: Any, color: str) -> None: ...


def with_all(*pods: Any) -> None: ...


async def is_async(pod: Any) -> None: ...


def with_api(pod: Any, api: Any) -> None: ...


def generates(pod: Any) -> Any:
    yield pod


WRONG: Final[dict[str, tuple[Callable[[Extension], Any], str]]] = {
    "a name that is no label": (lambda _: Extension("Shop!"), "must be a DNS label"),
    "no time": (lambda _: Extension("shop", timeout_s=0), "must be 0.01 to 30 seconds"),
    "too much time": (lambda app: app.mutate("pods", timeout_s=31)(function), "must be 0.01 to 30 seconds"),
    "an unknown on_error": (
        lambda _: Extension("shop", on_error="retry"),
        'must be "fail", "ignore" or "warn"',
    ),
    "no resource": (lambda app: app.mutate(), "needs at least one resource"),
    "a kind": (lambda app: app.validate("Pod"), "the resource 'Pod' must be like pods"),
    "an unknown operation": (lambda app: app.validate("pods", on="patch"), "must be some of"),
    "no function": (lambda app: app.validate("pods")(cast(Any, 3)), "3 is not a function"),
    "a generator": (lambda app: app.validate("pods")(generates), "is a generator"),
    "no parameter": (
        lambda app: app.validate("pods")(without_parameters),
        "needs a parameter for the object",
    ),
    "an unknown parameter": (
        lambda app: app.validate("pods")(with_others),
        r"with_others \(test_declarations.py:\d+\): nothing is known for the parameter color",
    ),
    "all parameters": (lambda app: app.validate("pods")(with_all), r"a parameter cannot be \*pods"),
    "async and inline": (lambda app: app.validate("pods", inline=True)(is_async), "must not be async"),
    "api and inline": (lambda app: app.validate("pods", inline=True)(with_api), "cannot have api"),
    "one version": (
        lambda app: app.convert("orders.shop", "v1", "v1"),
        "both versions of orders.shop are v1",
    ),
    "a subresource": (lambda app: app.reconcile("pods/status"), "'pods/status' must be one resource"),
    "all resources of a group": (lambda app: app.reconcile("pods", owns="*.apps"), "must be one resource"),
    "no workers": (lambda app: app.reconcile("pods", workers=0), "must be 1 to 64"),
    "no class": (
        lambda app: app.crd(cast(Any, [1])),
        "takes a CustomResourceDefinition, or classes with @crd",
    ),
    "no definition": (lambda app: app.crd({"kind": "Pod"}), "takes a CustomResourceDefinition"),
    "a code that is no refusal": (lambda _: Denied("no", code=200), "code must be 400 to 499"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_declarations_are_refused(case: str) -> None:
    declare, message = WRONG[case]
    with pytest.raises((InvalidExtension, ValueError), match=message):
        declare(Extension("shop"))


def test_the_description_has_what_the_server_needs() -> None:
    app = Extension("shop", timeout_s=2.5, on_error="warn")
    app.validate("pods", "deployments.v1.apps", on="create", where="object.spec.x > 1")(function)
    described = app.describe()
    place = described["hooks"][0].pop("place")
    assert place.startswith("test_declarations.py:")
    assert described == {
        "name": "shop",
        "definitions": [],
        "resources": [],
        "hooks": [
            {
                "kind": "validate",
                "name": "function",
                "mode": "alone",
                "wants": [],
                "timeoutSeconds": 2.5,
                "onError": "warn",
                "inline": False,
                "options": {
                    "resources": ["pods", "deployments.v1.apps"],
                    "operations": ["create"],
                    "where": "object.spec.x > 1",
                    "sideEffects": False,
                },
            }
        ],
    }


SPECS: Final = {
    "tests.extensions.modules.hostile": None,
    "tests.extensions.modules.hostile:app": None,
    "tests.extensions.modules.hostile:loops": "is not an Extension, but function",
    "tests.extensions.modules.hostile:none": "has no none",
    "tests.extensions.modules": "has no extension",
    "not a module": "must be a module, or module:object, or the name of an entry point",
}


@pytest.mark.parametrize("spec", SPECS)
def test_extensions_are_found_by_name(spec: str) -> None:
    if (message := SPECS[spec]) is None:
        assert load(spec).name == "hostile"
        return
    with pytest.raises(InvalidExtension, match=message):
        load(spec)
