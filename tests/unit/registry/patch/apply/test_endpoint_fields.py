"""Which fields an endpoint writes. Source: reset fields of k8s.io/apiserver's strategies."""

from __future__ import annotations

import copy

import pytest

from apiserver.registry.patch.apply.endpoint_fields import ALL_FIELDS, EndpointFields
from apiserver.registry.patch.apply.field_set import FieldSet

LABELS: FieldSet = {"f:labels": {".": {}, "f:a": {}}}
SPEC: FieldSet = {"f:spec": {"f:replicas": {}}}
CONTAINERS: FieldSet = {
    "f:spec": {
        "f:containers": {
            ".": {},
            'k:{"name":"a"}': {".": {}, "f:image": {}, "f:resources": {"f:limits": {".": {}, "f:cpu": {}}}},
            'k:{"name":"b"}': {".": {}, "f:image": {}},
        }
    }
}
WRITTEN: dict[str, tuple[EndpointFields, FieldSet, FieldSet]] = {
    "all": (ALL_FIELDS, SPEC, SPEC),
    "a field at the top with all below it": (
        EndpointFields(["status"]),
        {**SPEC, "f:status": {"f:phase": {}}},
        SPEC,
    ),
    "a field below, and what is left empty by it": (
        EndpointFields(["metadata.labels"]),
        {"f:metadata": LABELS, **SPEC},
        SPEC,
    ),
    "a field below beside others": (
        EndpointFields(["metadata.labels"]),
        {"f:metadata": {**LABELS, "f:annotations": {}}},
        {"f:metadata": {"f:annotations": {}}},
    ),
    "a field that is owned itself keeps itself": (
        EndpointFields(["metadata.labels"]),
        {"f:metadata": {".": {}, **LABELS}},
        {"f:metadata": {".": {}}},
    ),
    "a field that is owned as a whole": (
        EndpointFields(["metadata.labels"]),
        {"f:metadata": {}},
        {"f:metadata": {}},
    ),
    "nothing else": (EndpointFields(writes=["status"]), {**SPEC, "f:status": {}}, {"f:status": {}}),
    "a field of each item": (
        EndpointFields(writes=["spec.containers.*.resources"]),
        CONTAINERS,
        {
            "f:spec": {
                "f:containers": {'k:{"name":"a"}': {"f:resources": {"f:limits": {".": {}, "f:cpu": {}}}}}
            }
        },
    ),
    "none of them": (EndpointFields(writes=["spec.containers.*.resizePolicy"]), CONTAINERS, {}),
}


@pytest.mark.parametrize(("endpoint", "fields", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_the_fields_that_an_endpoint_writes(
    endpoint: EndpointFields, fields: FieldSet, expected: FieldSet
) -> None:
    before = copy.deepcopy(fields)
    assert endpoint.written(fields) == expected
    assert fields == before


def test_fields_that_are_all_written_stay_the_same_set() -> None:
    assert EndpointFields(["status", "metadata.labels"]).written(SPEC) is SPEC


def test_a_document_is_compared_without_what_the_endpoint_leaves_alone() -> None:
    document = {"metadata": {"labels": {"a": "1"}}, "spec": {}, "status": {}}
    assert EndpointFields(["status", "metadata.labels"]).part_of(document).keys() == {"metadata", "spec"}
    assert EndpointFields(writes=["status"]).part_of(document).keys() == {"status"}
    assert ALL_FIELDS.part_of(document) is document
    assert EndpointFields(["data"]).part_of(document) is document
