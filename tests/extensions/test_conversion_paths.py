"""The functions that lead from one version of a custom resource to another."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.extensions import Extension, InvalidExtension
from apiserver.extensions.conversions import Conversion, conversion_url, extension_of, shortest_path
from apiserver.extensions.invocation import Invocation, WrongResult
from tests.support.definitions import definition, version

NAME: Final = "widgets.shop.example.com"

# Conversions, the first and the last version, and the versions on the way; None if there is no way.
PATHS: Final[dict[str, tuple[list[str], str, str, list[str] | None]]] = {
    "the same version": ([], "v1", "v1", []),
    "one function": (["v1 v2"], "v1", "v2", ["v2"]),
    "several functions": (["v1beta1 v1", "v1 v2"], "v1beta1", "v2", ["v1", "v2"]),
    "the shortest of several ways": (["a b", "b c", "c d", "a c"], "a", "d", ["c", "d"]),
    "a cycle that leads nowhere": (["a b", "b a"], "a", "c", None),
    "the wrong direction": (["v2 v1"], "v1", "v2", None),
}


@pytest.mark.parametrize(("pairs", "source", "target", "way"), PATHS.values(), ids=PATHS)
def test_the_shortest_path(pairs: list[str], source: str, target: str, way: list[str] | None) -> None:
    path = shortest_path([Conversion(*each.split()) for each in pairs], source, target)
    assert (None if path is None else [each.target for each in path]) == way


def test_the_address_of_an_extension_names_it() -> None:
    assert extension_of(conversion_url("my-shop2")) == "my-shop2"
    for url in ("https://shop.example.com/convert", "https://shop.extension.invalid.example.com/convert", ""):
        assert extension_of(url) is None


def _extension(*pairs: str, **spec: Any) -> Extension:
    versions = [version("v1"), version("v2", storage=False), version("v3", storage=False)]
    app = Extension("shop")
    app.crd(definition("shop.example.com", *versions, **spec))
    for each in pairs:
        app.convert(NAME, *each.split())(_unchanged)
    return app


def _unchanged(document: Any) -> None:
    """Converts between versions that differ in name only."""


HUB: Final = ("v1 v2", "v2 v1", "v2 v3", "v3 v2")


def test_a_definition_with_conversion_functions_names_its_extension() -> None:
    [found] = _extension(*HUB).describe()["definitions"]
    assert found["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": conversion_url("shop")}, "conversionReviewVersions": ["v1"]},
    }
    [same] = _extension(*HUB, conversion=found["spec"]["conversion"]).describe()["definitions"]
    assert same == found


def test_functions_for_another_definition_change_nothing() -> None:
    app = _extension()
    app.convert("gadgets.shop.example.com", "v1", "v2")(_unchanged)
    assert app.describe()["definitions"] == app.definitions


OTHER: Final = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1"]},
}
REFUSED: Final[dict[str, tuple[tuple[str, ...], dict[str, Any], str]]] = {
    "no way back": (HUB[:3], {}, f"no function converts {NAME} from v3 to v1, or from v3 to v2"),
    "a version that is not connected": (
        ("v1 v2", "v2 v1"),
        {},
        "from v1 to v3, or from v2 to v3, or from v3 to v1, or from v3 to v2",
    ),
    "two functions for the same versions": ((*HUB, "v1 v2"), {}, f"both convert {NAME} from v1 to v2"),
    "another webhook": (HUB, {"conversion": OTHER}, "another webhook in spec.conversion"),
}


@pytest.mark.parametrize(("pairs", "spec", "message"), REFUSED.values(), ids=REFUSED)
def test_an_extension_that_cannot_convert_is_refused(
    pairs: tuple[str, ...], spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidExtension, match=message):
        _extension(*pairs, **spec).describe()


@pytest.mark.parametrize("resource", ["orders", "*.example.com", "orders.example.com/status"])
def test_only_definitions_can_be_converted(resource: str) -> None:
    with pytest.raises(InvalidExtension, match="must be the name of a CustomResourceDefinition"):
        Extension("shop").convert(resource, "v1", "v2")


def _called(function: Any, *objects: Any) -> list[Any]:
    """Returns the objects that a conversion function makes of others."""
    app = Extension("shop")
    app.convert(NAME, "v1", "v2")(function)
    call = Invocation(app.hooks[0], lambda *_: None).begin({"objects": objects, "desiredAPIVersion": "g/v2"})
    objects_of: list[Any] = call.result(call.run())["objects"]
    return objects_of


def test_the_server_sets_the_api_version() -> None:
    def changes(document: Any) -> None:
        document["spec"] = 1

    def replaces(document: Any) -> Any:
        return {"apiVersion": "g/v2", "spec": 2}

    def by_name(*, document: Any) -> None:
        document["spec"] = 3

    for number, function in enumerate((changes, replaces, by_name), 1):
        found = _called(function, {"apiVersion": "g/v1"}, {"apiVersion": "g/v1", "spec": 0})
        assert found == [{"apiVersion": "g/v2", "spec": number}] * 2


def test_an_error_names_the_object() -> None:
    def converts(document: Any) -> Any:
        return [] if document["metadata"]["name"] == "b" else None

    objects = [{"apiVersion": "g/v1", "metadata": {"namespace": "n", "name": each}} for each in "abc"]
    with pytest.raises(WrongResult, match="not list") as caught:
        _called(converts, *objects)
    assert caught.value.__notes__ == ["object n/b"]
