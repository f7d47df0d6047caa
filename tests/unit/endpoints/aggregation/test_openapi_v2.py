"""What is kept of other servers' documents of OpenAPI v2, and how it is merged into this server's.

Source: k8s.io/kube-openapi, pkg/aggregator/aggregator_test.go.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import orjson
import pytest

from apiserver.endpoints.aggregation import openapi_v2
from apiserver.endpoints.aggregation.openapi_v2 import NotOpenApi, parts_of
from apiserver.endpoints.aggregation.remote_versions import OpenApiPart
from apiserver.endpoints.openapi.documents import DocumentPart
from apiserver.endpoints.openapi.remote_parts import RemoteParts
from apiserver.meta.vocabulary import GroupVersion

VERSION: Final = GroupVersion("g", "v1")
PATH: Final = "/apis/g/v1/widgets"


def ref(name: str, kind: str = "definitions") -> dict[str, str]:
    return {"$ref": f"#/{kind}/{name}"}


def operation(schema: Any, *parameters: Any) -> dict[str, Any]:
    answer = {"200": {"description": "OK", "schema": schema}}
    return {"get": {"operationId": "get", "parameters": [*parameters], "responses": answer}}


def a_text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def document(paths: Any, definitions: Any, **more: Any) -> dict[str, Any]:
    return {"swagger": "2.0", "paths": paths, "definitions": definitions, **more}


def kept(given: Any) -> dict[str, Any]:
    (part,) = parts_of(given, [VERSION]).values()
    text = zlib.decompress(part.compressed)
    assert part.size == len(text)
    found: dict[str, Any] = orjson.loads(text)
    return found


def part(paths: Any, definitions: Any) -> OpenApiPart:
    (found,) = parts_of(document(paths, definitions), [VERSION]).values()
    return found


def test_paths_of_the_version_and_what_they_refer_to() -> None:
    widget = {"type": "object", "properties": {"a": ref("A"), "self": {"items": [ref("Widget")]}}}
    found = kept(
        document(
            {
                PATH: operation(ref("Widget")),
                "/apis/g/v2/widgets": operation(ref("Other")),
                "/api/v1/pods": operation(ref("Pod")),
                "/apis/g/v1": operation(ref("Other")),
            },
            {"Widget": widget, "A": a_text(), "Other": a_text(), "Pod": a_text()},
        )
    )
    assert found == {
        "paths": {PATH: operation(ref("Widget"))},
        "definitions": {"Widget": widget, "A": a_text()},
    }


def test_parameters_that_are_shared_are_put_in() -> None:
    name = {"name": "name", "in": "query", "type": "string"}
    item = operation(a_text(), ref("name", "parameters"), ref("nothing", "parameters"))
    found = kept(
        document({PATH: item | {"parameters": [ref("name", "parameters")]}}, {}, parameters={"name": name})
    )
    assert found["paths"][PATH] == operation(a_text(), name) | {"parameters": [name]}


def test_parameters_that_are_shared_by_very_many_are_refused() -> None:
    """A document of 3 MB, which would have 10 GB with them."""
    item = {"parameters": [{"$ref": "#/parameters/long"}] * 10}
    paths = {f"{PATH}/{number}": item for number in range(10_000)}
    shared = {"long": {"name": "x" * 100_000, "in": "query", "type": "string"}}
    with pytest.raises(NotOpenApi, match="the resolved references to parameters exceed"):
        parts_of({"swagger": "2.0", "paths": paths, "parameters": shared}, [VERSION])


def test_definitions_are_of_no_other_kinds_than_the_versions_own() -> None:
    """Else the server of one group could say what pods look like."""
    kinds = [{"group": group, "version": "v1", "kind": "Pod"} for group in ("", "g")]
    given = a_text(**{"x-kubernetes-group-version-kind": [*kinds, 7]})
    found = kept(document({PATH: operation(ref("A"))}, {"A": given}))
    assert found["definitions"]["A"] == a_text(**{"x-kubernetes-group-version-kind": kinds[1:]})


REFUSED: Final[dict[str, Any]] = {
    "no object": [],
    "another version": {"openapi": "3.0"},
    "a definition that is not there": document({PATH: operation(ref("Nothing"))}, {}),
    "a definition that is none": document({PATH: operation(ref("A"))}, {"A": 7}),
    "a reference to another document": document({PATH: operation({"$ref": "http://x/y"})}, {}),
    "a large one": document({PATH: operation(a_text(description="x" * openapi_v2.PART_BYTES_MAX))}, {}),
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(given: Any) -> None:
    with pytest.raises(NotOpenApi):
        parts_of(given, [VERSION])


@pytest.mark.parametrize("given", [document({}, {}), document([], 7), document({PATH: 7}, {})])
def test_documents_that_do_not_tell_of_the_version(given: Any) -> None:
    assert parts_of(given, [VERSION]) == {}


def test_deep_documents() -> None:
    schema: Any = ref("Widget")
    for _ in range(1_000):
        schema = {"items": schema}
    with pytest.raises(NotOpenApi, match="nested too deeply"):
        kept(document({PATH: operation(schema)}, {"Widget": schema}))


def test_conflicting_definitions_are_renamed() -> None:
    known: dict[str, Any] = {"Same": a_text(), "Other": a_text(), "Other_v2": a_text(format="x")}
    kinds = {"x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "Same"}]}
    definitions = {
        "Same": a_text(**kinds),
        "Other": {"type": "object", "properties": {"o": ref("Other"), "s": ref("Same"), "n": ref("New")}},
        "New": a_text(),
    }
    found = list(RemoteParts().merged([part({PATH: operation(ref("Other"))}, definitions)], known))
    other = {"type": "object", "properties": {"o": ref("Other_v3"), "s": ref("Same"), "n": ref("New")}}
    assert found == [DocumentPart({PATH: operation(ref("Other_v3"))}, {"Other_v3": other, "New": a_text()})]
    assert known.keys() == {"Same", "Other", "Other_v2", "Other_v3", "New"}


def test_parts_that_no_reader_understands_are_left_out() -> None:
    sound = part({PATH: operation(ref("A"))}, {"A": a_text()})
    broken = part(
        {PATH: operation(ref("B")) | {"get": []}, f"{PATH}/b": operation(ref("B"))}, {"B": {"type": {}}}
    )
    known: dict[str, Any] = {}
    assert [each.schemas for each in RemoteParts().merged([broken, sound], known)] == [{"A": a_text()}]
    assert known == {"A": a_text()}
