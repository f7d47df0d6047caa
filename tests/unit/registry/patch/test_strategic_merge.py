"""Strategic merge patch: objects and lists, directives, order, bounds. Row L06.

Source: k8s.io/apimachinery, pkg/util/strategicpatch/patch.go; what is marked so is recorded from a server.
"""

from __future__ import annotations

import copy
import time
from contextlib import suppress
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.golang.formatting import TEXT_LENGTH_MAX, go_text
from apiserver.meta.vocabulary import Document
from apiserver.registry.patch import strategic_merge
from apiserver.registry.patch.strategic_merge import CannotMerge, ListOfLists, MalformedStrategicPatch
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.structural import Schema

SCHEMAS: Final = BuiltinSchemas((1, 34))
POD: Final = SCHEMAS.get("io.k8s.api.core.v1.Pod")
SERVICE: Final = SCHEMAS.get("io.k8s.api.core.v1.Service")
BUDGET: Final = SCHEMAS.get("io.k8s.api.policy.v1.PodDisruptionBudget")
DEPLOYMENT: Final = SCHEMAS.get("io.k8s.api.apps.v1.Deployment")
VOLUME: Final = SCHEMAS.get("io.k8s.api.core.v1.PersistentVolume")
JSON_SCHEMA: Final = SCHEMAS.get("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")


DELETE: Final = {"$patch": "delete"}


def patched(live: Document, patch: Document, schema: Schema = POD) -> Document:
    return strategic_merge.apply(copy.deepcopy(live), copy.deepcopy(patch), schema)


def meta(**fields: Any) -> Document:
    return {"metadata": fields}


def spec(**fields: Any) -> Document:
    return {"spec": fields}


def env(*names: str, **more: Any) -> Document:
    """A pod with one container that has these variables."""
    return spec(containers=[{"name": "c", **more, "env": [{"name": name} for name in names]}])


def ordered(*names: str) -> Document:
    """A patch that sets the order of its variables."""
    return {"$setElementOrder/env": [{"name": name} for name in names]}


def order_of(document: Document) -> list[str]:
    return [item["name"] for item in document["spec"]["containers"][0]["env"]]


# ---- what is merged, and what is replaced

MERGED: Final[dict[str, tuple[Document, Document, Document]]] = {
    "fields are merged": (
        meta(name="a", labels={"x": "1"}),
        meta(labels={"y": "2"}),
        meta(name="a", labels={"x": "1", "y": "2"}),
    ),
    "null removes a field": (
        meta(labels={"x": "1", "y": "2"}), meta(labels={"x": None}), meta(labels={"y": "2"})
    ),
    "null where nothing is": (meta(name="a"), meta(labels=None), meta(name="a")),
    "nulls in what is new": (meta(), meta(labels={"x": None, "y": "1"}), meta(labels={"y": "1"})),
    "nothing": (meta(name="a"), {}, meta(name="a")),
    "a value of another type replaces": (meta(labels={"x": "1"}), meta(labels="x"), meta(labels="x")),
    "a list without a strategy is replaced": (
        spec(tolerations=[{"key": "a"}]), spec(tolerations=[{"key": "b"}]), spec(tolerations=[{"key": "b"}])
    ),
    "items are merged by their key, those of the patch first": (
        spec(containers=[{"name": "a", "image": "1", "tty": True}, {"name": "b"}]),
        spec(containers=[{"name": "c"}, {"name": "a", "image": "2"}]),
        spec(containers=[{"name": "c"}, {"name": "a", "image": "2", "tty": True}, {"name": "b"}]),
    ),
    "the last of two items with one key wins": (
        spec(containers=[]),
        spec(containers=[{"name": "a", "image": "1"}, {"name": "a", "tty": True, "image": "2"}]),
        spec(containers=[{"name": "a", "image": "2", "tty": True}]),
    ),
    "scalars are united": (
        meta(finalizers=["a", "b"]), meta(finalizers=["c", "b"]), meta(finalizers=["c", "a", "b"])
    ),
    "$patch: delete of an item": (
        spec(containers=[{"name": "a"}, {"name": "b"}]),
        spec(containers=[{"name": "a", **DELETE}, {"name": "none", **DELETE}]),
        spec(containers=[{"name": "b"}]),
    ),
    "$patch: replace of a list": (
        spec(containers=[{"name": "a", "image": "1"}]),
        spec(containers=[{"name": "b"}, {"$patch": "replace"}, {"name": "a"}, {"name": "c", **DELETE}]),
        spec(containers=[{"name": "b"}, {"name": "a"}]),
    ),
    "$patch: replace of an object": (
        meta(labels={"x": "1"}), meta(labels={"$patch": "replace", "y": "2"}), meta(labels={"y": "2"})
    ),
    "$patch: delete of an object": (meta(labels={"x": "1"}), meta(labels=DELETE), meta(labels={})),
    # recorded: patch/strategic-patch-replace
    "$patch where nothing is takes its object away": (
        meta(name="a"), meta(labels={"$patch": "replace", "y": "2"}), meta(name="a")
    ),
    "$patch in a list that is new": (
        spec(),
        spec(containers=[{"name": "a", "env": [{"name": "X", **DELETE}, {"name": "Y"}]}, {"$patch": "x"}]),
        spec(containers=[{"name": "a", "env": [{"name": "Y"}]}]),
    ),
    "$retainKeys": (
        spec(volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}]),
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {}, "nfs": None}]),
        spec(volumes=[{"name": "v", "hostPath": {}}]),
    ),
    "$deleteFromPrimitiveList": (
        meta(finalizers=["a", "b", "a"]), meta(**{"$deleteFromPrimitiveList/finalizers": ["a", "x"]}), meta(
            finalizers=["b"]
        )
    ),
    "$deleteFromPrimitiveList of a list that is replaced otherwise": (
        spec(containers=[{"name": "c", "args": ["a", "b"]}]),
        spec(containers=[{"name": "c", "$deleteFromPrimitiveList/args": ["a"]}]),
        spec(containers=[{"name": "c", "args": ["b"]}]),
    ),
    "$deleteFromPrimitiveList of no list": (
        meta(), meta(**{"$deleteFromPrimitiveList/finalizers": ["a"]}), meta()
    ),
}  # fmt: skip


@pytest.mark.parametrize(("live", "patch", "result"), MERGED.values(), ids=MERGED)
def test_patches_are_merged(live: Document, patch: Document, result: Document) -> None:
    assert patched(live, patch) == result


def test_the_first_of_live_items_with_one_key_is_merged() -> None:
    """Ports merge by their number alone (recorded: patch/strategic-service-ports)."""
    dns = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80}]
    result = patched(spec(ports=dns), spec(ports=[{"port": 53, "targetPort": 5}]), SERVICE)
    assert result == spec(
        ports=[
            {"port": 53, "protocol": "UDP", "targetPort": 5},
            {"port": 53, "protocol": "TCP"},
            {"port": 80},
        ]
    )
    assert patched(spec(ports=dns), spec(ports=[{"port": 53, **DELETE}]), SERVICE) == spec(
        ports=[{"port": 80}]
    )


def test_numbers_of_different_types_are_different_keys() -> None:
    result = patched(spec(ports=[{"port": 1}]), spec(ports=[{"port": 1.0}, {"port": True}]), SERVICE)
    assert len(result["spec"]["ports"]) == 3


def test_an_object_that_its_field_replaces() -> None:
    """PodDisruptionBudgetSpec.selector is the one that says so; LabelSelectors elsewhere are merged."""
    live, patch = spec(selector={"matchLabels": {"a": "b"}}), spec(selector={"matchExpressions": []})
    assert patched(live, patch, BUDGET) == patch
    assert patched(live, patch, DEPLOYMENT) == spec(
        selector={"matchLabels": {"a": "b"}, "matchExpressions": []}
    )


# ---- order: live variables, the patch, the order that comes of it

ORDERS: Final[dict[str, tuple[list[str], Document, list[str]]]] = {
    "the patch's own": (["A", "B"], env("B", "A"), ["B", "A"]),
    "others stay where they were among those of the patch": (["A", "B", "C"], env("C", "A"), ["B", "C", "A"]),
    "what is new comes first": (["A", "B"], env("N"), ["N", "A", "B"]),
    "new ones after those they follow": (["A", "B", "C"], env("B", "N"), ["A", "B", "N", "C"]),
    "an order alone": (
        ["A", "B", "C"], spec(containers=[{"name": "c", **ordered("C", "A", "B")}]), ["C", "A", "B"]
    ),
    "an order with changes": (["A", "B"], env("N", **ordered("B", "N", "A")), ["B", "N", "A"]),
    "those that the order does not name": (
        ["A", "S", "B", "T"], spec(containers=[{"name": "c", **ordered("B", "A")}]), ["S", "B", "A", "T"]
    ),
    "an order that names what is not there": (
        ["A", "B"], spec(containers=[{"name": "c", **ordered("X", "B", "A")}]), ["B", "A"]
    ),
    "an empty order is the live one": (["A", "B"], env("N", "B", "A", **ordered()), ["N", "A", "B"]),
    "an empty order alone": (["A", "B"], spec(containers=[{"name": "c", **ordered()}]), ["A", "B"]),
}  # fmt: skip


@pytest.mark.parametrize(("live", "patch", "result"), ORDERS.values(), ids=ORDERS)
def test_the_order_of_lists(live: list[str], patch: Document, result: list[str]) -> None:
    assert order_of(patched(env(*live), patch)) == result


def test_the_order_of_a_new_list_and_of_scalars() -> None:
    assert order_of(patched(spec(containers=[{"name": "c"}]), env("B", "A", **ordered("B", "A")))) == [
        "B",
        "A",
    ]
    deleting: Document = spec(
        containers=[{"name": "c", "env": [{"name": "A", **DELETE}, {"name": "B"}], **ordered("B")}]
    )
    assert order_of(patched(spec(containers=[{"name": "c"}]), deleting)) == ["B"]
    # recorded: patch/strategic-set-element-order
    patch = meta(finalizers=["3"], **{"$setElementOrder/finalizers": ["2", "3", "1"]})
    assert patched(meta(finalizers=["1", "2"]), patch) == meta(finalizers=["2", "3", "1"])
    deleting = meta(
        **{"$deleteFromPrimitiveList/finalizers": ["1"], "$setElementOrder/finalizers": ["3", "2"]}
    )
    assert patched(meta(finalizers=["1", "2", "3"]), deleting) == meta(finalizers=["3", "2"])
    assert patched(meta(), meta(**{"$setElementOrder/finalizers": ["1"]})) == meta()


# ---- what cannot be

REFUSED: Final[dict[str, tuple[Document, Document, type[CannotMerge], str]]] = {
    "an item without its key": (
        spec(containers=[{"name": "a"}]), spec(containers=[{"image": "i"}]), CannotMerge,
        "map: map[image:i] does not contain declared merge key: name",
    ),
    "a deletion without the key": (
        spec(containers=[{"name": "a"}]), spec(containers=[{"$patch": "delete"}]), CannotMerge,
        "map: map[$patch:delete] does not contain declared merge key: name",
    ),
    "a directive there is none of": (
        meta(labels={}), meta(labels={"$patch": "spam"}), CannotMerge,
        "unknown patch type: spam in map: map[$patch:spam]",
    ),
    "nor for items": (
        spec(containers=[{"name": "a"}]), spec(containers=[{"name": "a", "$patch": 1}]), CannotMerge,
        "unknown patch type: 1 in map: map[$patch:1 name:a]",
    ),
    "$patch: merge of an item": (
        spec(containers=[{"name": "a"}]), spec(containers=[{"name": "a", "$patch": "merge"}]), CannotMerge,
        "merging lists cannot yet be specified in the patch",
    ),
    "items of several types": (
        spec(containers=[{"name": "a"}]), spec(containers=["a"]), CannotMerge,
        "list element types are not identical: [[map[name:a]] [a]]",
    ),
    "null for an item": (
        spec(containers=[{"name": "a"}]), spec(containers=[None]), CannotMerge,
        "list element types are not identical: [[map[name:a]] [<nil>]]",
    ),
    "null for the only item": (meta(finalizers=[]), meta(finalizers=[None]), CannotMerge, "not identical"),
    "a live item without its key": (
        spec(containers=[{"image": "i"}]), spec(containers=[{"name": "a", **DELETE}]), CannotMerge,
        "map: map[image:i] does not contain declared merge key: name",
    ),
    "a key that is an object": (
        spec(containers=[{"name": "a"}]), spec(containers=[{"name": {}}]), CannotMerge, "cannot compare"
    ),
    "lists of lists": (meta(finalizers=[]), meta(finalizers=[["a"]]), ListOfLists, "lists of lists"),
    "objects among scalars": (meta(finalizers=[]), meta(finalizers=[{}]), CannotMerge, "without merge key"),
    "an object in a map": (
        meta(labels={"a": {}}), meta(labels={"a": {}}), CannotMerge,
        "merging an object in json but data type is not struct, instead is: map",
    ),
    # recorded: patch/strategic-retain-keys
    "more than $retainKeys has": (
        meta(name="a"), meta(labels={}, **{"$retainKeys": ["name"]}), MalformedStrategicPatch,
        "invalid patch format of retainKeys",
    ),
    "$retainKeys that is no list": (
        meta(), meta(**{"$retainKeys": "name"}), MalformedStrategicPatch,
        "of retainKeys",
    ),
    "$retainKeys of no names": (
        meta(), meta(**{"$retainKeys": [{}]}), MalformedStrategicPatch,
        "of retainKeys",
    ),
    "$deleteFromPrimitiveList of nothing": (
        meta(), meta(**{"$deleteFromPrimitiveList": ["a"]}), MalformedStrategicPatch,
        "invalid patch format of primitive list",
    ),
    "$setElementOrder of nothing": (
        meta(), meta(**{"$setElementOrders/finalizers": ["a"]}), MalformedStrategicPatch,
        "invalid patch format of setElementOrder list",
    ),
    "$setElementOrder that is no list": (
        meta(), meta(**{"$setElementOrder/finalizers": "a"}), CannotMerge,
        "expected a []interface {}, but received a string",
    ),
    "$setElementOrder of no field": (
        meta(), meta(**{"$setElementOrder/spam": []}), CannotMerge,
        'unable to find api field in struct ObjectMeta for the json field "spam"',
    ),
    "$setElementOrder of no list": (
        meta(), meta(**{"$setElementOrder/labels": []}), CannotMerge, "expected slice"
    ),
    # recorded: patch/strategic-set-element-order
    "changes that the order does not name": (
        env("A"), env("A", **ordered("B")), CannotMerge,
        "The order in patch list:\n[map[name:A]]\n doesn't match $setElementOrder list:\n[map[name:B]]\n",
    ),
    "changes in another order": (
        env("A", "B"), env("A", "B", **ordered("B", "A")), CannotMerge, "The order in"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("live", "patch", "error", "told"), REFUSED.values(), ids=REFUSED)
def test_patches_that_cannot_be_merged_are_refused(
    live: Document, patch: Document, error: type[CannotMerge], told: str
) -> None:
    with pytest.raises(CannotMerge) as caught:
        patched(live, patch)
    assert type(caught.value) is error
    assert told in str(caught.value)


def test_messages_are_bounded() -> None:
    assert len(go_text([{"a": "x" * 100}] * 1_000)) <= TEXT_LENGTH_MAX + 3
    assert len(go_text(orjson.loads(b"[" * 1_000 + b"]" * 1_000))) < 200
    assert go_text({"b": [1.5, None, True], "a": {"x": "y z"}}) == "map[a:map[x:y z] b:[1.5 <nil> true]]"


# ---- what the schema says

# Of a field: strategy and key of patches; type, keys and type of its map for server-side apply.
MERGING: Final[dict[str, tuple[Schema, str, tuple[str, str, str, tuple[str, ...], str]]]] = {
    "a list with a key": (POD, "spec.containers", ("merge", "name", "map", ("name",), "")),
    "keys of apply that a patch does not have": (
        SERVICE,
        "spec.ports",
        ("merge", "port", "map", ("port", "protocol"), ""),
    ),
    "retainKeys, too": (POD, "spec.volumes", ("merge", "name", "map", ("name",), "")),
    "retainKeys alone": (DEPLOYMENT, "spec.strategy", ("", "", "", (), "")),
    "scalars": (POD, "metadata.finalizers", ("merge", "", "set", (), "")),
    "an atomic list": (POD, "spec.tolerations", ("", "", "atomic", (), "")),
    "an atomic map": (POD, "spec.nodeSelector", ("", "", "", (), "atomic")),
    "an atomic definition": (DEPLOYMENT, "spec.selector", ("", "", "", (), "atomic")),
    "an atomic definition that a field replaces": (
        BUDGET,
        "spec.selector",
        ("replace", "", "", (), "atomic"),
    ),
    "an atomic definition that a field makes granular": (
        VOLUME,
        "spec.claimRef",
        ("", "", "", (), "granular"),
    ),
    "nothing": (POD, "metadata.labels", ("", "", "", (), "")),
}


@pytest.mark.parametrize(("schema", "path", "merging"), MERGING.values(), ids=MERGING)
def test_how_fields_merge(schema: Schema, path: str, merging: tuple[Any, ...]) -> None:
    for name in path.split("."):
        schema = schema.fields[name]
    found = (schema.patch_strategy, schema.patch_merge_key, schema.list_type, schema.list_map_keys)
    assert (*found, schema.map_type) == merging


def test_a_field_that_merges_in_its_own_way_is_of_its_type_all_the_same() -> None:
    selector = BUDGET.fields["spec"].fields["selector"]
    other = DEPLOYMENT.fields["spec"].fields["selector"]
    assert (selector.fields, selector.required) == (other.fields, other.required) != ({}, frozenset())
    assert selector.definition == other.definition


# ---- bounds

DEEP: Final = {"objects": (b'{"a":', b"}"), "lists": (b"[", b"]")}


@pytest.mark.parametrize(("opening", "closing"), DEEP.values(), ids=DEEP)
def test_deep_patches_are_no_crash(opening: bytes, closing: bytes) -> None:
    """They may be refused."""
    with suppress(MalformedStrategicPatch):
        strategic_merge.apply(spec(), {"spec": orjson.loads(opening * 1_000 + b"1" + closing * 1_000)}, POD)


def test_deep_documents_are_no_crash() -> None:
    text = b'{"not":' * 1_000 + b"{}" + b"}" * 1_000
    with suppress(MalformedStrategicPatch):
        strategic_merge.apply(orjson.loads(text), orjson.loads(text), JSON_SCHEMA)


MANY: Final = [f"V{number}" for number in range(10_000)]
LONG: Final = {
    "all of them again": env(*MANY),
    "all of them backwards": env(*reversed(MANY)),
    "all deleted": spec(containers=[{"name": "c", "env": [{"name": name, **DELETE} for name in MANY]}]),
    "all of them put in order": spec(containers=[{"name": "c", **ordered(*reversed(MANY))}]),
    "changed and put in order": env(*reversed(MANY), **ordered(*reversed(MANY))),
    "others": env(*(f"{name}x" for name in MANY)),
}


@pytest.mark.parametrize("patch", LONG.values(), ids=LONG)
def test_long_lists_take_no_quadratic_time(patch: Document) -> None:
    live, began = env(*MANY), time.process_time()
    strategic_merge.apply(live, copy.deepcopy(patch), POD)
    assert time.process_time() - began < 2  # It takes 0.1 s; one that searches for each item takes minutes.


# ---- any patch

_NAMES: Final = ("a", "b", "c", "d")
_WORDS: Final = st.sampled_from(["1", "2", "3"])


def _items(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Document]]:
    """Items with a name of their own, at least one."""
    item = st.fixed_dictionaries({"name": st.sampled_from(_NAMES)}, optional=fields)
    return st.lists(item, min_size=1, max_size=4, unique_by=lambda each: str(each["name"]))


_SCALARS: Final = st.lists(_WORDS, min_size=1, max_size=3, unique=True)
_PODS: Final = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": _WORDS}, optional={"labels": st.dictionaries(_WORDS, _WORDS), "finalizers": _SCALARS}
        ),
        "spec": st.fixed_dictionaries(
            {"containers": _items(image=_WORDS, env=_items(value=_WORDS), args=_SCALARS)},
            optional={
                "volumes": _items(emptyDir=st.just({}), secret=st.fixed_dictionaries({"secretName": _WORDS})),
                "nodeSelector": st.dictionaries(_WORDS, _WORDS),
            },
        ),
    }
)


def difference(live: Document, target: Document, schema: Schema) -> Document:
    """A patch that makes the one of the other, as clients make it: it says all that it can say."""
    patch: Document = {key: None for key in live if key not in target}
    for key, wanted in target.items():
        current = live.get(key)
        if current == wanted:
            continue
        field = schema.fields.get(key)
        if type(wanted) is dict and type(current) is dict and field is not None:
            patch[key] = difference(current, wanted, field)
        elif type(wanted) is list and current and field is not None and field.patch_strategy == "merge":
            patch |= _list_difference(key, current, wanted, field)
        else:
            patch[key] = wanted
    return patch


def _list_difference(key: str, live: list[Any], target: list[Any], field: Schema) -> Document:
    by = field.patch_merge_key
    if not by:
        return {
            key: [item for item in target if item not in live],
            f"$deleteFromPrimitiveList/{key}": [item for item in live if item not in target],
            f"$setElementOrder/{key}": target,
        }
    assert field.element is not None
    known = {item[by]: item for item in live}
    kept = {item[by] for item in target}
    changes = [
        {**difference(known.get(item[by], {}), item, field.element), by: item[by]}
        for item in target
        if known.get(item[by]) != item
    ]
    changes += [{by: name, **DELETE} for name in known if name not in kept]
    return {key: changes, f"$setElementOrder/{key}": [{by: item[by]} for item in target]}


@given(_PODS, _PODS)
def test_a_difference_leads_to_its_target(live: Document, target: Document) -> None:
    patch = difference(live, target, POD)
    once = patched(live, patch)
    assert once == target
    assert patched(once, patch) == target


@given(_PODS)
def test_an_object_as_a_patch_to_itself_changes_nothing(pod: Document) -> None:
    assert patched(pod, pod) == pod
    assert patched(pod, difference(pod, pod, POD)) == pod


@given(_PODS, _PODS)
def test_an_object_as_a_patch_is_contained_in_the_result(live: Document, patch: Document) -> None:
    """And a second time it changes nothing more."""
    once = patched(live, patch)
    assert patched(once, patch) == once
    assert {item["name"] for item in once["spec"]["containers"]} == {
        item["name"] for item in live["spec"]["containers"] + patch["spec"]["containers"]
    }
    assert patched({}, patch) == patch


_KEYS: Final = st.sampled_from(
    [
        *("metadata", "spec", "containers", "env", "name", "finalizers", "labels", "$patch", "$retainKeys"),
        *(
            "$setElementOrder/containers",
            "$setElementOrder/finalizers",
            "$deleteFromPrimitiveList/finalizers",
        ),
    ]
)
_ANY: Final = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["a", "delete", "replace", "name"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(_PODS, st.dictionaries(_KEYS, _ANY), st.dictionaries(_KEYS, _ANY))
def test_any_patch_is_refused_or_leaves_what_it_does_not_name(
    live: Document, metadata: Document, inner: Document
) -> None:
    status = {"phase": "Running"}
    for patch in (
        {"metadata": metadata, "spec": inner},
        {"spec": {"containers": [{"name": "a"}, inner, metadata]}},
    ):
        with suppress(CannotMerge):
            assert patched({**live, "status": status}, patch)["status"] == status


@given(_PODS, st.dictionaries(_KEYS, _ANY), _ANY)
def test_a_directive_replaces_deletes_or_is_refused(live: Document, inner: Document, directive: Any) -> None:
    patch = {"spec": {**inner, "$patch": directive}}
    match directive:
        case "replace":
            assert patched(live, patch)["spec"] == {key: inner[key] for key in inner.keys() - {"$patch"}}
        case "delete":
            assert patched(live, patch)["spec"] == {}
        case _:
            with pytest.raises(CannotMerge):
                patched(live, patch)
