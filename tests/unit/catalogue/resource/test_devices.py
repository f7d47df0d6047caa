"""Devices of ResourceSlices. Source: pkg/apis/resource/validation, validateDevice (release 1.36)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.resource.devices import complete_device, validate_device
from apiserver.catalogue.resource.resource_slices import validate_new_slice
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import WriteContext
from tests.unit.catalogue.served_kinds import Changes, ServedKind

POOL: Final = {"name": "p", "generation": 1, "resourceSliceCount": 1}
SPEC: Final[Document] = {"driver": "d.example.com", "pool": POOL, "nodeName": "n", "devices": [{"name": "d"}]}
SLICE: Final = ServedKind("resourceslices.resource.k8s.io", {"spec": SPEC})
DEVICE: Final = "spec.devices[0]"
COUNTERS: Final = {"name": "set", "counters": {"memory": {"value": "1Gi"}}}
CONSUMES: Final = {"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}
TAINT: Final = {"key": "a", "effect": "NoSchedule"}
LABEL_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
DNS_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def texts(**device: Any) -> list[str]:
    return list(map(str, validate_new_slice({"spec": {**SPEC, "devices": [{"name": "d", **device}]}})))


def attributes(count: int) -> Document:
    return {f"a{i}": {"bool": True} for i in range(count)}


FEATURES: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "as many as there may be": ({"attributes": attributes(31), "capacity": {"c": {"value": "1"}}}, []),
    "one more": (
        {"attributes": attributes(32), "capacity": {"c": {"value": "1"}}},
        [(f"{DEVICE}: Invalid value: 33: the total number of attributes and capacities must not exceed 32")],
    ),
    "names of a domain": ({"attributes": {"example.com/a": {"bool": True}}}, []),
    "names with two slashes": (
        {"attributes": {"a/b/c": {"bool": True}}, "capacity": {"//": {"value": "1"}}},
        [],
    ),
    "a name without a domain or an identifier": (
        {"capacity": {"/": {"value": "1"}}},
        [
            f'{DEVICE}.capacity: Invalid value: "": the domain must not be empty',
            f'{DEVICE}.capacity: Invalid value: "": the name must not be empty',
        ],
    ),
    "values in lists": (
        {"attributes": {"a": {"bools": [True]}, "b": {"strings": ["x", "y"]}, "c": {"versions": ["1.2.3"]}}},
        [],
    ),
    "a list and a single value": (
        {"attributes": {"a": {"int": 1, "ints": [2]}}},
        [
            (
                f'{DEVICE}.attributes[a]: Invalid value: {{"int":1,"ints":[2]}}: exactly one value '
                "must be specified"
            )
        ],
    ),
    "an empty list": (
        {"attributes": {"a": {"ints": []}}},
        [f"{DEVICE}.attributes[a].ints: Invalid value: []: must not be empty if specified"],
    ),
    "items of lists that are wrong": (
        {"attributes": {"a": {"strings": ["x", "y" * 65]}, "b": {"versions": ["1"]}}},
        [
            f"{DEVICE}.attributes[a].strings[1]: Too long: may not be more than 64 bytes",
            (
                f'{DEVICE}.attributes[b].versions[0]: Invalid value: "1": must be a string compatible with '
                "semver.org spec 2.0.0"
            ),
        ],
    ),
    "more values in lists than 48": (
        {"attributes": {"a": {"ints": list(range(48))}, "b": {"int": 1}}},
        [f"{DEVICE}: Invalid value: 49: the total number of attribute values must not exceed 48"],
    ),
    "no value": (
        {"attributes": {"a": {}}},
        [f'{DEVICE}.attributes[a]: Invalid value: "": exactly one value must be specified'],
    ),
    "a version that is too long": (
        {"attributes": {"a": {"version": f"1.2.3-{'x' * 60}"}}},
        [f"{DEVICE}.attributes[a].version: Too long: may not be more than 64 bytes"],
    ),
    "a very long name is told without its middle": (
        {"attributes": {f"{'d' * 63}.{'e' * 63}/{'i' * 30}": {}}},
        [
            f"{DEVICE}.attributes: Too long: may not be more than 63 bytes",
            (
                f"{DEVICE}.attributes[{'d' * 47}...{'e' * 15}/{'i' * 30}]: "
                'Invalid value: "": exactly one value must be specified'
            ),
        ],
    ),
}


@pytest.mark.parametrize(("device", "expected"), FEATURES.values(), ids=FEATURES)
def test_features(device: dict[str, Any], expected: list[str]) -> None:
    assert texts(**device) == expected


BOTH_CONDITIONS: Final = {"bindingConditions": ["example.com/a"], "bindingFailureConditions": ["b"]}
OTHERS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "taints": ({"taints": [TAINT, {"key": "a", "value": "v", "effect": "None"}]}, []),
    "taints without an effect, or with another": (
        {"taints": [{"key": "a"}, {"key": "b", "effect": "PreferNoSchedule"}]},
        [
            f"{DEVICE}.taints[0].effect: Required value",
            (
                f'{DEVICE}.taints[1].effect: Unsupported value: "PreferNoSchedule": supported values: '
                '"NoExecute", "NoSchedule", "None"'
            ),
        ],
    ),
    "more taints than 16": (
        {"taints": [TAINT] * 17},
        [f"{DEVICE}.taints: Too many: 17: must have at most 16 items"],
    ),
    "counters": ({"consumesCounters": [CONSUMES]}, []),
    "counters of no set, and none of one": (
        {"consumesCounters": [{"counters": {"A": {"value": "1"}}}, {"counterSet": "B"}]},
        [
            f"{DEVICE}.consumesCounters[0].counterSet: Required value",
            f'{DEVICE}.consumesCounters[0].counters: Invalid value: "A": {DNS_LABEL_TEXT}',
            f'{DEVICE}.consumesCounters[1].counterSet: Invalid value: "B": {DNS_LABEL_TEXT}',
            f"{DEVICE}.consumesCounters[1].counters: Required value",
        ],
    ),
    "counters of a set twice": (
        {"consumesCounters": [CONSUMES, CONSUMES]},
        [f'{DEVICE}.consumesCounters[1]: Duplicate value: "set"'],
    ),
    "more sets than two": (
        {"consumesCounters": [{**CONSUMES, "counterSet": each} for each in "abc"]},
        [f"{DEVICE}.consumesCounters: Too many: 3: must have at most 2 items"],
    ),
    "more counters than 32": (
        {"consumesCounters": [{"counterSet": "a", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}]},
        [f"{DEVICE}.consumesCounters[0].counters: Too many: 33: must have at most 32 items"],
    ),
    "conditions of both kinds": (BOTH_CONDITIONS, []),
    "conditions of one kind": (
        {"bindingConditions": ["a"]},
        [
            (
                f"{DEVICE}.bindingFailureConditions: Invalid value: null: bindingFailureConditions are "
                "required "
                "to use bindingConditions"
            )
        ],
    ),
    "conditions of the other kind": (
        {"bindingConditions": [], "bindingFailureConditions": ["a"]},
        [
            (
                f"{DEVICE}.bindingConditions: Invalid value: []: bindingConditions are required to use "
                "bindingFailureConditions"
            )
        ],
    ),
    "conditions twice, and in both": (
        {"bindingConditions": ["a", "a"], "bindingFailureConditions": ["a", "b", "b"]},
        [
            f'{DEVICE}.bindingConditions[1]: Duplicate value: "a"',
            f'{DEVICE}.bindingFailureConditions[2]: Duplicate value: "b"',
            (
                f'{DEVICE}.bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions '
                "must not "
                "overlap with bindingConditions"
            ),
        ],
    ),
    "conditions with wrong names, or too many": (
        {"bindingConditions": ["-"], "bindingFailureConditions": list("abcde")},
        [
            f'{DEVICE}.bindingConditions[0]: Invalid value: "-": {LABEL_TEXT}',
            f"{DEVICE}.bindingFailureConditions: Too many: 5: must have at most 4 items",
        ],
    ),
}


@pytest.mark.parametrize(("device", "expected"), OTHERS.values(), ids=OTHERS)
def test_what_else_a_device_has(device: dict[str, Any], expected: list[str]) -> None:
    assert texts(**device) == expected


_ONE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set "
    "to true in the ResourceSlice spec"
)
_NONE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
    "the ResourceSlice spec"
)
SELECTOR: Final = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
# Whether devices tell where they are, what this one says, and what is wrong with it.
PLACES: Final[dict[str, tuple[bool, dict[str, Any], list[str]]]] = {
    "nothing where the slice tells": (False, {}, []),
    "something where the slice tells": (
        False,
        {"allNodes": False},
        [f"{DEVICE}: Invalid value: null: {_NONE}"],
    ),
    "a node": (True, {"nodeName": "n"}, []),
    "some nodes": (True, {"nodeSelector": SELECTOR}, []),
    "all nodes": (True, {"allNodes": True}, []),
    "nothing": (True, {}, [f"{DEVICE}: Required value: {_ONE}"]),
    "nothing that counts": (
        True,
        {"nodeName": "", "allNodes": False},
        [
            f'{DEVICE}.nodeName: Invalid value: "": must not be empty',
            f"{DEVICE}.allNodes: Invalid value: false: must be either unset or set to true",
            f"{DEVICE}: Required value: {_ONE}",
        ],
    ),
    "two": (
        True,
        {"nodeName": "n", "allNodes": True},
        [f'{DEVICE}: Invalid value: "{{`nodeName`, `allNodes`}}": {_ONE}'],
    ),
    "a selector of nothing": (
        True,
        {"nodeSelector": {"nodeSelectorTerms": []}},
        [
            (
                f"{DEVICE}.nodeSelector.nodeSelectorTerms: Required value: must have at least one node "
                "selector term"
            )
        ],
    ),
}


@pytest.mark.parametrize(("is_own", "device", "expected"), PLACES.values(), ids=PLACES)
def test_where_a_device_is(is_own: bool, device: dict[str, Any], expected: list[str]) -> None:
    place = {"perDeviceNodeSelection": True} if is_own else {"nodeName": "n"}
    spec = {"driver": "d.example.com", "pool": POOL, "devices": [{"name": "d", **device}], **place}
    assert list(map(str, validate_new_slice({"spec": spec}))) == expected


RESOURCES: Final[dict[str, tuple[Document, list[str]]]] = {
    "an amount for a device": ({"cpu": {"allocationMultiplier": "2"}}, []),
    "an amount for a capacity": ({"memory": {"allocationMultiplier": "1", "capacityKey": "ram"}}, []),
    "nothing is one": ({"cpu": {}}, []),
    "somebody else's": (
        {"example.com/a": {}},
        ['[example.com/a]: Invalid value: "example.com/a": must be a node allocatable resource name'],
    ),
    "nothing of it": (
        {"cpu": {"allocationMultiplier": "0"}},
        ['[cpu].allocationMultiplier: Invalid value: "0": must be positive'],
    ),
    "of a capacity that there is not": (
        {"cpu": {"capacityKey": "cores"}},
        ['[cpu].capacityKey: Not found: "cores"'],
    ),
    "of a capacity without a name": (
        {"cpu": {"capacityKey": ""}},
        ['[cpu].capacityKey: Invalid value: "": capacityKey must not be an empty string'],
    ),
}


@pytest.mark.parametrize(("mappings", "expected"), RESOURCES.values(), ids=RESOURCES)
def test_which_resources_of_its_node_a_device_has(mappings: Document, expected: list[str]) -> None:
    device = {"name": "d", "capacity": {"ram": {"value": "1"}}}
    device["nodeAllocatableResourceMappings"] = {name: {**each} for name, each in mappings.items()}
    complete_device(device)
    found = validate_device("d", device, None, has_own_place=False)
    assert list(map(str, found)) == [f"d.nodeAllocatableResourceMappings{text}" for text in expected]


def devices(count: int, **more: Any) -> list[Document]:
    return [{"name": f"d{i}", **more} for i in range(count)]


ADVANCED: Final[dict[str, dict[str, Any]]] = {
    "taints": {"taints": [TAINT]},
    "counters": {"consumesCounters": [CONSUMES]},
    "lists": {"attributes": {"a": {"ints": [1]}}},
}


@pytest.mark.parametrize("more", ADVANCED.values(), ids=ADVANCED)
def test_devices_that_take_more_room_are_fewer(more: dict[str, Any]) -> None:
    def found(among: list[Document]) -> list[str]:
        return list(map(str, validate_new_slice({"spec": {**SPEC, "devices": among}})))

    assert found(devices(128)) == []
    assert found(devices(129)) == ["spec.devices: Too many: 129: must have at most 128 items"]
    assert found([*devices(63), {"name": "e", **more}]) == []
    assert found([*devices(64), {"name": "e", **more}]) == [
        "spec.devices: Too many: 65: must have at most 64 items"
    ]


SHARED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "counters instead of devices": ({"spec.devices": None, "spec.sharedCounters": [COUNTERS]}, []),
    "both": (
        {"spec.sharedCounters": [COUNTERS]},
        ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'],
    ),
    "a set twice": (
        {"spec.devices": None, "spec.sharedCounters": [COUNTERS, COUNTERS]},
        ['spec.sharedCounters[1]: Duplicate value: "set"'],
    ),
    "sets without a name, or without counters": (
        {"spec.devices": None, "spec.sharedCounters": [{**COUNTERS, "name": ""}, {"name": "b"}]},
        ["spec.sharedCounters[0].name: Required value", "spec.sharedCounters[1].counters: Required value"],
    ),
    "more sets than eight": (
        {"spec.devices": None, "spec.sharedCounters": [{**COUNTERS, "name": f"s{i}"} for i in range(9)]},
        ["spec.sharedCounters: Too many: 9: must have at most 8 items"],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), SHARED.values(), ids=SHARED)
def test_what_devices_share(changes: Changes, expected: list[str]) -> None:
    assert SLICE.create(changes).texts == expected


def test_taints_that_stay_are_not_looked_at_again() -> None:
    old: Changes = {"spec.devices.0.taints": [{"key": "a", "effect": "OfALaterRelease"}]}
    assert SLICE.update({"spec.pool.generation": 2}, old=old).texts == []
    (text,) = SLICE.update({"spec.devices.0.taints.0.value": "v"}, old=old).texts
    assert text.startswith(f'{DEVICE}.taints[0].effect: Unsupported value: "OfALaterRelease"')


NOW: Final = "2024-05-01T00:00:00Z"
BEFORE: Final = "2024-01-01T00:00:00Z"


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "changed"])
def test_a_taint_that_has_no_time_gets_one(is_new: bool) -> None:
    taints = [{**TAINT}, {**TAINT, "timeAdded": BEFORE}]
    document = {"spec": {**SPEC, "devices": [{"name": "d", "taints": taints}, {"name": "e"}]}}
    context = WriteContext(None, NOW)
    strategy = SLICE.strategy
    if is_new:
        assert strategy.stamp_create is not None
        strategy.stamp_create(context, document)
    else:
        assert strategy.update.stamp is not None
        strategy.update.stamp(context, document, {})
    assert [taint["timeAdded"] for taint in taints] == [NOW, BEFORE]
