"""The group resource.k8s.io. Source: pkg/apis/resource/{validation,v1} (release 1.36)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

GROUP: Final = "resource.k8s.io"
SLICE: Final = ServedKind(
    f"resourceslices.{GROUP}",
    {
        "spec": {
            "driver": "d.example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "dev-0",
                    "attributes": {"model": {"string": "m"}},
                    "capacity": {"ram": {"value": "1Gi"}},
                }
            ],
        }
    },
)

REQUEST: Final = {"name": "r", "exactly": {"deviceClassName": "c"}}
DEVICES: Final = {"requests": [REQUEST]}
CLAIM: Final = ServedKind(f"resourceclaims.{GROUP}", {"spec": {"devices": DEVICES}})
TEMPLATE: Final = ServedKind(f"resourceclaimtemplates.{GROUP}", {"spec": {"spec": {"devices": DEVICES}}})
CLASS: Final = ServedKind(f"deviceclasses.{GROUP}", {"spec": {}})


@pytest.mark.parametrize(
    "served", [CLAIM, TEMPLATE, CLASS, SLICE], ids=["claim", "template", "class", "slice"]
)
def test_the_least_object_is_valid(served: ServedKind) -> None:
    assert served.create().errors == []


def test_a_request_is_for_one_device() -> None:
    document = CLAIM.create().document
    (request,) = document["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    assert document["status"] == {}


def test_who_asks_for_all_gets_no_count() -> None:
    document, errors = CLAIM.create({"spec.devices.requests.0.exactly.allocationMode": "All"})
    assert errors == []
    assert "count" not in document["spec"]["devices"]["requests"][0]["exactly"]


_REQUEST: Final = "spec.devices.requests[0]"
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def request(**changes: Any) -> Changes:
    return {"spec.devices.requests": [{**REQUEST, **changes}]}


INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a request asks for something": (
        {"spec.devices.requests": [{"name": "r"}]},
        [f"{_REQUEST}: Required value: exactly one of `exactly` or `firstAvailable` is required"],
    ),
    "a request asks for one thing": (
        request(firstAvailable=[{"name": "s", "deviceClassName": "c"}]),
        [
            (
                f"{_REQUEST}: Invalid value: null: exactly one of `exactly` or `firstAvailable` is "
                "required, but "
                "multiple fields are set"
            )
        ],
    ),
    "a device is of a class": (request(exactly={}), [f"{_REQUEST}.exactly.deviceClassName: Required value"]),
    "requests differ": (
        {"spec.devices.requests": [REQUEST, REQUEST]},
        ['spec.devices.requests[1]: Duplicate value: "r"'],
    ),
    "there are no more requests than 32": (
        {"spec.devices.requests": [{**REQUEST, "name": f"r{i}"} for i in range(33)]},
        ["spec.devices.requests: Too many: 33: must have at most 32 items"],
    ),
    "a selector is an expression": (
        request(exactly={"deviceClassName": "c", "selectors": [{}]}),
        [f"{_REQUEST}.exactly.selectors[0].cel: Required value"],
    ),
    "a mode is one of two": (
        request(exactly={"deviceClassName": "c", "allocationMode": "Some"}),
        [
            (
                f'{_REQUEST}.exactly.allocationMode: Unsupported value: "Some": supported values: "All", '
                '"ExactCount"'
            )
        ],
    ),
    "a constraint is about requests that there are": (
        {"spec.devices.constraints": [{"requests": ["other"], "matchAttribute": "d.example.com/model"}]},
        [f'spec.devices.constraints[0].requests[0]: Invalid value: "other": {_REFERENCE}'],
    ),
    "an attribute is of a domain": (
        {"spec.devices.constraints": [{"matchAttribute": "model"}]},
        [
            (
                'spec.devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified '
                "name must "
                "be a domain and a name separated by a slash"
            )
        ],
    ),
    "a constraint is about an attribute": (
        {"spec.devices.constraints": [{"requests": ["r"]}]},
        [
            (
                'spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or '
                '"distinctAttribute" is required, but multiple fields are set'
            )
        ],
    ),
    "an attribute has a name": (
        {"spec.devices.constraints": [{"distinctAttribute": "a"}, {"distinctAttribute": "a.b/c/d"}]},
        [
            (
                'spec.devices.constraints[0].distinctAttribute: Invalid value: "a": a fully qualified name '
                "must be a domain and a name separated by a slash"
            )
        ],
    ),
    "an operator is one of two": (
        request(exactly={"deviceClassName": "c", "tolerations": [{"operator": "In", "key": "a"}]}),
        [
            (
                f'{_REQUEST}.exactly.tolerations[0].operator: Unsupported value: "In": supported values: '
                '"Equal", "Exists"'
            )
        ],
    ),
    "a toleration is of any value or of one": (
        request(
            exactly={
                "deviceClassName": "c",
                "tolerations": [{"operator": "Exists", "value": "v"}, {"operator": "Equal", "value": "-"}],
            }
        ),
        [
            (
                f'{_REQUEST}.exactly.tolerations[0].value: Invalid value: "v": must be empty for operator '
                "`Exists`"
            ),
            (
                f'{_REQUEST}.exactly.tolerations[1].value: Invalid value: "-": a valid label must be '
                "an empty "
                "string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
                "with an "
                "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
                "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
        ],
    ),
    "names that are too many are not compared": (
        {"spec.devices.requests": [REQUEST] * 33},
        ["spec.devices.requests: Too many: 33: must have at most 32 items"],
    ),
    "a configuration is not long": (
        {"spec.devices.config": [{"opaque": {"driver": "d", "parameters": {"a": "x" * 10_240}}}]},
        ["spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"],
    ),
    "a configuration is some driver's": (
        {"spec.devices.config": [{}]},
        ["spec.devices.config[0].opaque: Required value"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_claims_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert CLAIM.create(changes).texts == texts
    in_template = {path.replace("spec.", "spec.spec.", 1): value for path, value in changes.items()}
    of_template = [text.replace("spec.", "spec.spec.", 1) for text in texts]
    assert TEMPLATE.create(in_template).texts == of_template
    # An update checks the whole template again, though it cannot change.
    assert TEMPLATE.update(in_template).texts[: len(texts)] == of_template


def test_alternatives_are_referred_to_by_two_names() -> None:
    alternatives = [{"name": "a", "deviceClassName": "c"}, {"name": "b", "deviceClassName": "c"}]
    changes = {
        "spec.devices.requests": [{"name": "r", "firstAvailable": alternatives}],
        "spec.devices.constraints": [{"requests": ["r/a", "r/x"], "matchAttribute": "d.example.com/m"}],
    }
    assert CLAIM.create(changes).texts == [
        f'spec.devices.constraints[0].requests[1]: Invalid value: "r/x": {_REFERENCE}'
    ]


def test_what_may_be_asked_for() -> None:
    """Attributes that differ, parts of capacities, and tolerations of any effect and without a key."""
    asked = {
        "deviceClassName": "c",
        "capacity": {"requests": {"ram": "1Gi"}},
        "tolerations": [{"effect": "None"}, {"operator": "Exists"}],
    }
    changes = {
        **request(exactly=asked),
        "spec.devices.constraints": [
            {"distinctAttribute": "d.example.com/numa"},
            {"matchAttribute": "d.example.com/model", "distinctAttribute": "not looked at"},
        ],
    }
    assert CLAIM.create(changes).texts == []


ASKED: Final = {"claim": (CLAIM, "spec.devices"), "template": (TEMPLATE, "spec.spec.devices")}


@pytest.mark.parametrize(("served", "path"), ASKED.values(), ids=ASKED)
def test_what_is_asked_for_stays(served: ServedKind, path: str) -> None:
    (text,) = served.update({path: {}}).texts
    assert text.startswith("spec: Invalid value: ")
    assert text.endswith("field is immutable")


CONSUMER: Final = {"resource": "pods", "name": "p", "uid": "u"}
RESULT: Final = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "dev"}
ALLOCATION: Final = {"devices": {"results": [RESULT]}}
STATUSES: Final[dict[str, tuple[Changes, Changes, list[str]]]] = {
    "devices for somebody": ({"status": {"allocation": ALLOCATION, "reservedFor": [CONSUMER]}}, {}, []),
    "nothing for somebody": (
        {"status": {"reservedFor": [CONSUMER]}},
        {},
        ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
    ),
    "somebody twice": (
        {"status": {"allocation": ALLOCATION, "reservedFor": [CONSUMER, CONSUMER]}},
        {},
        ['status.reservedFor[1]: Duplicate value: "u"'],
    ),
    "an answer to nobody's request": (
        {"status": {"allocation": {"devices": {"results": [{**RESULT, "request": "x"}]}}}},
        {},
        [f'status.allocation.devices.results[0].request: Invalid value: "x": {_REFERENCE}'],
    ),
    "somebody new while it goes": (
        {"status": {"allocation": ALLOCATION, "reservedFor": [CONSUMER]}},
        {"metadata.deletionTimestamp": "2024-01-01T00:00:00Z", "status": {"allocation": ALLOCATION}},
        [
            (
                "status.reservedFor: Forbidden: new entries may not be added while "
                "`deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "old", "texts"), STATUSES.values(), ids=STATUSES)
def test_the_status_has(changes: Changes, old: Changes, texts: list[str]) -> None:
    assert CLAIM.update(changes, "status", old=old).texts == texts


def test_an_allocation_stays() -> None:
    other = {"devices": {"results": [{**RESULT, "device": "other"}]}}
    (text,) = CLAIM.update(
        {"status.allocation": other}, "status", old={"status.allocation": ALLOCATION}
    ).texts
    assert text.startswith("status.allocation: Invalid value: ")


def test_an_allocation_is_the_same_without_what_a_former_release_shows_as_null() -> None:
    """Row T31: what was stored by 1.34, whose results have `adminAccess: null`, can be updated."""
    former = {"devices": {"results": [{**RESULT, "adminAccess": None}]}}
    changes = {"status.allocation": ALLOCATION}
    assert CLAIM.update(changes, "status", old={"status.allocation": former}).texts == []


def test_a_class_may_stand_for_an_extended_resource() -> None:
    assert CLASS.create({"spec.extendedResourceName": "example.com/gpu"}).errors == []
    (text,) = CLASS.create({"spec.extendedResourceName": "cpu"}).texts
    assert text == 'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name'


LONG: Final = [{"opaque": {"driver": "d", "parameters": {"a": "x" * 10_240}}}]
# What changes of a class that is stored with selectors and a configuration that are too long.
CLASS_CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "nothing of them": ({"spec.extendedResourceName": "example.com/gpu"}, []),
    "a selector": (
        {"spec.selectors": [{"cel": {"expression": "y" * 10_241}}]},
        ["spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"],
    ),
    "the configuration": (
        {"spec.config": [*LONG, *LONG]},
        [f"spec.config[{i}].opaque.parameters: Too long: may not be more than 10240 bytes" for i in range(2)],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), CLASS_CHANGES.values(), ids=CLASS_CHANGES)
def test_what_stays_of_a_class_may_be_long(changes: Changes, texts: list[str]) -> None:
    old = {"spec.selectors": [{"cel": {"expression": "x" * 10_241}}], "spec.config": LONG}
    assert CLASS.update(changes, old=old).texts == texts


STATES: Final[dict[str, tuple[Changes, str]]] = {
    "new": ({}, "pending"),
    "allocated": ({"status.allocation": ALLOCATION}, "allocated"),
    "in use": ({"status": {"allocation": ALLOCATION, "reservedFor": [CONSUMER]}}, "allocated,reserved"),
    "going": ({"metadata.deletionTimestamp": "2024-01-01T00:00:00Z"}, "deleted"),
}


@pytest.mark.parametrize(("changes", "state"), STATES.values(), ids=STATES)
def test_rows(changes: Changes, state: str) -> None:
    assert CLAIM.cells(changes)["State"] == state


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("name", "a", "name"),
        ("generateName", "a-", "generateName"),
        ("namespace", "a", "namespace"),
        ("uid", "u", "uID"),
        ("resourceVersion", "1", "resourceVersion"),
        ("generation", 1, "generation"),
        ("deletionGracePeriodSeconds", 0, "deletionGracePeriodSeconds"),
        ("finalizers", ["a/b"], "finalizers"),
        (
            "ownerReferences",
            [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
            "ownerReferences",
        ),
    ],
)
def test_claims_of_a_template_have_labels_and_annotations_alone(field: str, value: Any, shown: str) -> None:
    changes = {"spec.metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, field: value}}
    assert TEMPLATE.create(changes).texts == [f"spec.metadata.{shown}: Forbidden: cannot be set"]


def test_no_generation_is_none_in_a_template() -> None:
    assert TEMPLATE.create({"spec.metadata": {"generation": 0, "name": ""}}).errors == []
