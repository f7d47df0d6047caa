"""Definitions of thousands of columns or hundreds of versions: long work is done in a thread, or in parts.

Rows D10, S02. Kubernetes has no bound but the size of a definition.
"""

from __future__ import annotations

import time
from typing import Any, Final, cast

import orjson
import pytest

from apiserver.custom_resources.serving.columns import COMPILED_INLINE_MAX
from apiserver.custom_resources.serving.custom_resource_codec import DefinitionReader
from apiserver.custom_resources.serving.resources import CustomResourceFactory, DefinedResources
from apiserver.custom_resources.serving.version_schema import DefinitionSource
from apiserver.endpoints.negotiation import ResponseForm
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.json_forms import SEGMENT_CELLS_MAX, TableEncoder
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.registry.results import ObjectList
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.schema.structural import Schema
from apiserver.storage.interface import Stored
from tests.support.body_slices import sent_slices
from tests.support.definitions import definition, version

VERSIONS: Final = 300
HEAD: Final = head_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
ROW_HEAD: Final = head_of("example.com/v1", "Widget")


def _stored(document: dict[str, Any], revision: int = 7) -> StoredObject:
    return StoredObject.of(Stored("/registry/definition", encode(document, HEAD), revision, revision))


def _with_columns(count: int) -> DefinedResources:
    columns = [{"name": f"C{n}", "type": "integer", "jsonPath": f".spec.n{n}"} for n in range(count)]
    document = definition("example.com", version(additionalPrinterColumns=columns))
    document["status"] = {"acceptedNames": document["spec"]["names"]}
    return factory_of(Offload()).create(_stored(document), document)


def factory_of(offload: Offload) -> CustomResourceFactory:
    """Returns what makes resources of definitions that nobody writes objects of."""
    return CustomResourceFactory(
        brand=Brand(),
        meta=lambda: cast(Schema, None),
        definitions=cast(DefinitionReader, None),
        view_cache=FormCaches().objects,
        offload=offload,
        converter=lambda *_: pytest.fail("there is none"),
    )


def test_thousands_of_paths_are_compiled_by_a_preparation_and_not_before_it_runs() -> None:
    resource = _with_columns(3_000).stored
    due = [each for each in resource.preparations[1:] if each.is_due]
    assert len(due) == 1
    due[0].prepare()
    assert not due[0].is_due
    assert resource.columns.cells({"metadata": {"name": "a"}, "spec": {"n2": 5}}, 0.0)[:5] == [
        "a",
        None,
        None,
        5,
        None,
    ]
    assert not _with_columns(COMPILED_INLINE_MAX // 2).stored.preparations[1:]


@pytest.mark.parametrize(
    ("columns", "objects_at_once"), [(2 * SEGMENT_CELLS_MAX, 1), (SEGMENT_CELLS_MAX // 2, 2)]
)
def test_rows_of_thousands_of_cells_are_encoded_a_few_at_a_time(columns: int, objects_at_once: int) -> None:
    """Others have their turns between two slices, be they empty."""
    resource = _with_columns(columns - 1).stored
    encoder = TableEncoder(
        resource,
        Brand(),
        ResponseForm(kind="Table", include_object="None"),
        now=lambda: 0.0,
        caches=FormCaches(),
    )
    documents = [{"metadata": {"name": f"o{n}"}, "spec": {"n1": n}} for n in range(8)]
    objects = [
        StoredObject.of(Stored(f"/registry/o{n}", encode(each, ROW_HEAD), 7, 7))
        for n, each in enumerate(documents)
    ]
    for _ in ("made", "kept"):
        slices = sent_slices(encoder.list(ObjectList(objects, 7, "", None)))
        assert len(slices) == len(objects) / objects_at_once + 1
        rows = orjson.loads(b"".join(slices))["rows"]
        assert [(each["cells"][0], each["cells"][2]) for each in rows] == [(f"o{n}", n) for n in range(8)]


def _many_versions() -> dict[str, Any]:
    described = [version(f"v{n}", storage=n == 1, description=f"é{n}") for n in range(VERSIONS)]
    return definition("example.com", *described)


FORMS: Final = {
    "as our encoder writes it": lambda document: encode(document, HEAD),
    "as another encoder does": lambda document: (
        HEAD
        + orjson.dumps(document["metadata"])
        + b","
        + orjson.dumps({"spec": document["spec"]}, option=orjson.OPT_INDENT_2)[1:]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_of_many_versions_is_read_in_any_encoding(form: str) -> None:
    document = _many_versions()
    source = DefinitionSource(StoredObject.of(Stored("/registry/definition", FORMS[form](document), 7, 7)))
    for each in document["spec"]["versions"][:20]:
        assert source.version(each["name"]) == (each, False)
    # Another text that says the same, in which all stand elsewhere.
    document["metadata"]["annotations"] = {"a": orjson.dumps(document["spec"]["versions"][5]).decode()}
    source.stored = StoredObject.of(Stored("/registry/definition", FORMS[form](document), 8, 8))
    for each in document["spec"]["versions"][:20]:
        assert source.version(each["name"]) == (each, False)


def test_many_versions_may_keep_unknown_fields() -> None:
    document = _many_versions()
    document["spec"]["preserveUnknownFields"] = True
    source = DefinitionSource(_stored(document))
    assert [source.version("v7")[1], source.version("v8")[1]] == [True, True]


def test_reading_many_versions_one_by_one_costs_little_more_than_together() -> None:
    """OpenAPI tells of each by itself."""
    found = _stored(_many_versions())
    started = time.thread_time()
    for _ in range(20):
        found.document()
    decoded_20_times_s = time.thread_time() - started
    source = DefinitionSource(found)
    started = time.thread_time()
    for number in range(VERSIONS):
        source.version(f"v{number}")
    assert time.thread_time() - started < decoded_20_times_s
