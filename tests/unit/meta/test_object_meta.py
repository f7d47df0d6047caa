"""The rules of `metadata` (rows A15, B01-B15, G01-G03): fields that the server sets, and errors.

Sources: k8s.io/apimachinery pkg/api/validation/objectmeta.go, k8s.io/apiserver pkg/registry/rest.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta import names, object_meta

Meta = dict[str, Any]
NOW: Final = "2023-11-14T22:13:20Z"
OWNER: Final[Meta] = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}


def prepared(meta: Meta) -> Meta:
    object_meta.wipe_server_fields(meta)
    object_meta.prepare_create(meta, uid="u-1", now=NOW, generated_suffix=lambda: "x7k2p")
    return meta


def updated(meta: Meta, old: Meta) -> Meta:
    object_meta.prepare_update(meta, old)
    return meta


# ---- creation

IDENTITY: Final = {"uid": "u-1", "creationTimestamp": NOW}
CREATED: Final[dict[str, tuple[Meta, Meta]]] = {
    "the name is the client's (B01)": ({"name": "a"}, {"name": "a"}),
    "a name is made from a prefix (B02)": ({"generateName": "a-"}, {"generateName": "a-", "name": "a-x7k2p"}),
    "an empty name counts as none": (
        {"name": "", "generateName": "a-"},
        {"name": "a-x7k2p", "generateName": "a-"},
    ),
    "a name counts more than a prefix": (
        {"name": "a", "generateName": "b-"},
        {"name": "a", "generateName": "b-"},
    ),
    "without either there is no name": ({}, {}),
    "the client's uid and time are ignored (B04, B08)": (
        {"name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z"},
        {"name": "a"},
    ),
    "nobody is born dying (B05)": (
        {"name": "a", "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 3},
        {"name": "a"},
    ),
    "selfLink is not the client's (B12)": ({"name": "a", "selfLink": "/a"}, {"name": "a"}),
    "labels, annotations, finalizers and owners are": (
        {
            "name": "a",
            "labels": {"b": "c"},
            "annotations": {"d": "e"},
            "finalizers": ["f/g"],
            "ownerReferences": [OWNER],
        },
        {
            "name": "a",
            "labels": {"b": "c"},
            "annotations": {"d": "e"},
            "finalizers": ["f/g"],
            "ownerReferences": [OWNER],
        },
    ),
}


@pytest.mark.parametrize(("meta", "expected"), CREATED.values(), ids=CREATED)
def test_the_fields_set_in_a_new_object(meta: Meta, expected: Meta) -> None:
    assert prepared(dict(meta)) == expected | IDENTITY


@given(st.text(alphabet="ab-", max_size=80))
def test_a_generated_name_fits_a_host_name_and_ends_in_its_suffix(prefix: str) -> None:
    """Row B02: 58 characters of the prefix and 5 of chance."""
    name = object_meta.generate_name(prefix, "x7k2p")
    assert name == prefix[:58] + "x7k2p"
    assert len(name) <= names.LABEL_MAX


# ---- update

OLD: Final[Meta] = {"name": "a", "uid": "u-1", "creationTimestamp": NOW, "generation": 3}
DYING: Final[Meta] = {**OLD, "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}
UPDATED: Final[dict[str, tuple[Meta, Meta, Meta]]] = {
    "what clients leave out is kept": ({"name": "a"}, OLD, OLD),
    "an empty uid is none": ({"name": "a", "uid": ""}, OLD, OLD),
    "another uid is kept, to be refused": ({"name": "a", "uid": "u-2"}, OLD, {**OLD, "uid": "u-2"}),
    "another time of creation is ignored (B04)": (
        {"name": "a", "creationTimestamp": "2000-01-01T00:00:00Z"},
        OLD,
        OLD,
    ),
    "another generation is ignored (B12)": ({"name": "a", "generation": 9}, OLD, OLD),
    "a generation where there was none is ignored": (
        {"name": "a", "generation": 9},
        {"name": "a"},
        {"name": "a"},
    ),
    "selfLink is ignored": ({"name": "a", "selfLink": "/a"}, OLD, OLD),
    "managedFields are told before": ({"name": "a", "managedFields": []}, OLD, {**OLD, "managedFields": []}),
    "a deletion cannot be taken back (B05)": ({"name": "a"}, DYING, DYING),
    "nor put off": (
        {"name": "a", "deletionTimestamp": "2999-01-01T00:00:00Z", "deletionGracePeriodSeconds": None},
        DYING,
        DYING,
    ),
    "another grace period is kept, to be refused": (
        {"name": "a", "deletionGracePeriodSeconds": 5},
        DYING,
        {**DYING, "deletionGracePeriodSeconds": 5},
    ),
    "labels and finalizers are the client's": (
        {"name": "a", "labels": {"b": "c"}},
        {**OLD, "labels": {"x": "y"}, "finalizers": ["f/g"]},
        {**OLD, "labels": {"b": "c"}},
    ),
}


@pytest.mark.parametrize(("meta", "old", "expected"), UPDATED.values(), ids=UPDATED)
def test_the_fields_an_update_keeps(meta: Meta, old: Meta, expected: Meta) -> None:
    before = dict(old)
    assert updated(dict(meta), old) == expected
    assert old == before


CHANGES: Final[dict[str, tuple[Meta, Meta, list[str]]]] = {
    "none": (OLD, OLD, []),
    "labels": ({**OLD, "labels": {"a": "b"}}, OLD, []),
    "the name (B01)": ({**OLD, "name": "b"}, OLD, ['metadata.name: Invalid value: "b": field is immutable']),
    "the namespace": (
        {**OLD, "namespace": "b"},
        {**OLD, "namespace": "a"},
        ['metadata.namespace: Invalid value: "b": field is immutable'],
    ),
    "the uid (B08)": ({**OLD, "uid": "2"}, OLD, ['metadata.uid: Invalid value: "2": field is immutable']),
    "the beginning of a deletion (B05)": (
        {**OLD, "deletionTimestamp": NOW},
        OLD,
        [f'metadata.deletionTimestamp: Invalid value: "{NOW}": field is immutable'],
    ),
    "a beginning that is the zero time": (
        {**OLD, "deletionTimestamp": None},
        OLD,
        ["metadata.deletionTimestamp: Invalid value: null: field is immutable"],
    ),
    "the grace period": (
        {**DYING, "deletionGracePeriodSeconds": 5},
        DYING,
        ["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"],
    ),
    "the generation, upwards": ({**OLD, "generation": 4}, OLD, []),
    "the generation, downwards": (
        {**OLD, "generation": 2},
        OLD,
        ["metadata.generation: Invalid value: 2: must not be decremented"],
    ),
    "a new finalizer while alive": ({**OLD, "finalizers": ["a/b"]}, OLD, []),
    "a new finalizer while dying (B07)": (
        {**DYING, "finalizers": ["a/b", "a/d", "a/c"]},
        {**DYING, "finalizers": ["a/b"]},
        [
            (
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
                'deleted, found new finalizers []string{"a/c", "a/d"}'
            )
        ],
    ),
    "another order of finalizers while dying (B06, G03)": (
        {**DYING, "finalizers": ["a/c", "a/b"]},
        {**DYING, "finalizers": ["a/b", "a/c"]},
        [],
    ),
    "a finalizer less while dying (G03)": (
        {**DYING, "finalizers": ["a/c"]},
        {**DYING, "finalizers": ["a/b", "a/c"]},
        [],
    ),
}


@pytest.mark.parametrize(("meta", "old", "told"), CHANGES.values(), ids=CHANGES)
def test_which_changes_are_refused(meta: Meta, old: Meta, told: list[str]) -> None:
    assert [str(error) for error in object_meta.validate_update(meta, old)] == told


# ---- what may be stored


def owners(*changes: Meta) -> Meta:
    return {"name": "a", "ownerReferences": [{**OWNER, **change} for change in changes]}


LIMIT: Final = 256 * 1024
OWNERS: Final = "metadata.ownerReferences"
EVENT: Final = '{"apiVersion":"v1","kind":"Event","name":"o","uid":"1"}'
FIRST: Final = '{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"1","controller":true}'
SECOND: Final = '{"apiVersion":"v1","kind":"ConfigMap","name":"p","uid":"1","controller":true}'
NO_STANDARD: Final = "name is neither a standard finalizer name nor is it fully qualified"
# Owner references: row B15.
STORED: Final[dict[str, tuple[Meta, list[str]]]] = {
    "a name": ({"name": "a"}, []),
    "no name (A15)": ({}, ["metadata.name: Required value: name or generateName is required"]),
    "an empty name (A15)": (
        {"name": ""},
        ["metadata.name: Required value: name or generateName is required"],
    ),
    "a bad name (A15)": (
        {"name": "A"},
        [f'metadata.name: Invalid value: "A": {names.dns_subdomain("A")[0]}'],
    ),
    "what is before a dash at the end of a prefix": ({"name": "a", "generateName": "A-"}, []),
    "a dash alone": (
        {"name": "a", "generateName": "-"},
        [f'metadata.generateName: Invalid value: "-": {names.dns_subdomain("-")[0]}'],
    ),
    "a prefix that ends in a dash": ({"name": "a-x", "generateName": "a-"}, []),
    "a bad prefix": (
        {"name": "a", "generateName": "A.a-"},
        [f'metadata.generateName: Invalid value: "A.a-": {names.dns_subdomain("A")[0]}'],
    ),
    "a generation below nothing": (
        {"name": "a", "generation": -1},
        ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a namespace on what has none": (
        {"name": "a", "namespace": "b"},
        ["metadata.namespace: Forbidden: not allowed on this type"],
    ),
    "labels (B10)": ({"name": "a", "labels": {"example.com/a": "", "b": "c"}}, []),
    "a bad label key (B10)": (
        {"name": "a", "labels": {"/a": "b"}},
        ['metadata.labels: Invalid value: "/a": prefix part must be non-empty'],
    ),
    "a bad label value (B10)": (
        {"name": "a", "labels": {"b": "c d"}},
        [f'metadata.labels: Invalid value: "c d": {names.label_value("c d")[0]}'],
    ),
    "an annotation's domain in upper case": (
        {"name": "a", "annotations": {"Example.COM/a": "any text \n"}},
        [],
    ),
    "a bad annotation key, as it was given": (
        {"name": "a", "annotations": {"/A": ""}},
        ['metadata.annotations: Invalid value: "/A": prefix part must be non-empty'],
    ),
    "annotations of the greatest size (B10)": ({"name": "a", "annotations": {"k": "x" * (LIMIT - 1)}}, []),
    "annotations a byte larger (B10)": (
        {"name": "a", "annotations": {"k": "x" * LIMIT}},
        [f"metadata.annotations: Too long: may not be more than {LIMIT} bytes"],
    ),
    "annotations that are larger together, in bytes (B10)": (
        {"name": "a", "annotations": {"k": "é" * (LIMIT // 4), "l": "é" * (LIMIT // 4)}},
        [f"metadata.annotations: Too long: may not be more than {LIMIT} bytes"],
    ),
    "owners, one of them the controller (B15)": (owners({"controller": True}, {"controller": False}, {}), []),
    "an owner of a group (B15)": (owners({"apiVersion": "apps/v1"}), []),
    "an owner without a version (B15)": (
        owners({"apiVersion": "apps/"}),
        ['metadata.ownerReferences.apiVersion: Invalid value: "apps/": version must not be empty'],
    ),
    "an owner of a group and version that are none (B15)": (
        owners({"apiVersion": "a/b/c"}),
        ['metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty'],
    ),
    "an owner without kind, name and uid (B15)": (
        owners({"kind": "", "name": "", "uid": ""}),
        [
            f'metadata.ownerReferences.{each}: Invalid value: "": must not be empty'
            for each in ("kind", "name", "uid")
        ],
    ),
    "an Event as owner": (
        owners({"kind": "Event"}),
        [f"{OWNERS}: Invalid value: {EVENT}: /v1, Kind=Event is disallowed from being an owner"],
    ),
    "an Event of another group as owner": (owners({"kind": "Event", "apiVersion": "example.com/v1"}), []),
    "two controllers (B15)": (
        owners({"controller": True}, {"name": "p", "controller": True}),
        [
            (
                f"{OWNERS}: Invalid value: [{FIRST},{SECOND}]: Only one reference can have Controller "
                'set to true. Found "true" in references for ConfigMap/o and ConfigMap/p'
            )
        ],
    ),
    "finalizers": ({"name": "a", "finalizers": ["example.com/a", "kubernetes", "orphan"]}, []),
    "a finalizer without a domain": (
        {"name": "a", "finalizers": ["example.com/a", "b"]},
        [f'metadata.finalizers[1]: Invalid value: "b": {NO_STANDARD}'],
    ),
    "a bad finalizer": (
        {"name": "a", "finalizers": ["/b"]},
        ['metadata.finalizers: Invalid value: "/b": prefix part must be non-empty'],
    ),
    "dependents both orphaned and deleted first (G08)": (
        {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
        [
            (
                'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                "finalizer orphan and foregroundDeletion cannot be both set"
            )
        ],
    ),
}


@pytest.mark.parametrize(("meta", "told"), STORED.values(), ids=STORED)
def test_the_metadata_that_may_be_stored(meta: Meta, told: list[str]) -> None:
    errors = object_meta.validate(meta, is_namespaced=False, name_rule=names.dns_subdomain)
    assert [str(error) for error in errors] == told


NAMESPACES: Final[dict[str, tuple[str | None, list[str]]]] = {
    "a namespace": ("b", []),
    "none": (None, ["metadata.namespace: Required value"]),
    "an empty one": ("", ["metadata.namespace: Required value"]),
    "a bad one": ("b.c", ['metadata.namespace: Invalid value: "b.c": must not contain dots']),
}


@pytest.mark.parametrize(("namespace", "told"), NAMESPACES.values(), ids=NAMESPACES)
def test_the_namespace_of_a_namespaced_object(namespace: str | None, told: list[str]) -> None:
    """Row B03."""
    meta = {"name": "a", "namespace": namespace}
    errors = object_meta.validate(meta, is_namespaced=True, name_rule=names.dns_subdomain)
    assert [str(error) for error in errors] == told


def test_all_errors_are_reported_at_once() -> None:
    meta = {"labels": {"/a": "b"}, "finalizers": ["c"], "generation": -1}
    errors = object_meta.validate(meta, is_namespaced=True, name_rule=names.dns_subdomain)
    assert [(error.field, error.reason) for error in errors] == [
        ("metadata.name", "FieldValueRequired"),
        ("metadata.namespace", "FieldValueRequired"),
        ("metadata.generation", "FieldValueInvalid"),
        ("metadata.labels", "FieldValueInvalid"),
        ("metadata.finalizers[0]", "FieldValueInvalid"),
    ]


# ---- owners that come more than once

OTHER: Final = {**OWNER, "uid": "2"}
SAME_UID: Final = {**OWNER, "name": "p"}
DUPLICATES: Final[dict[str, tuple[list[Meta], list[Meta], list[str]]]] = {
    "none": ([OWNER, OTHER], [OWNER, OTHER], []),
    "one": ([OWNER, OTHER, OWNER], [OWNER, OTHER], ["1"]),
    "one that comes three times is told once": ([OWNER] * 3, [OWNER], ["1"]),
    "two": ([OWNER, OTHER, OTHER, OWNER], [OWNER, OTHER], ["2", "1"]),
    "the same uid with another name is another owner": ([OWNER, SAME_UID], [OWNER, SAME_UID], []),
}


@pytest.mark.parametrize(("given_", "kept", "repeated"), DUPLICATES.values(), ids=DUPLICATES)
def test_an_owner_is_kept_once(given_: list[Meta], kept: list[Meta], repeated: list[str]) -> None:
    meta: Meta = {"ownerReferences": list(given_)}
    assert object_meta.remove_duplicate_owners(meta) == repeated
    assert meta == {"ownerReferences": kept}


@pytest.mark.parametrize(
    "meta", [{}, {"ownerReferences": None}, {"ownerReferences": []}], ids=["absent", "null", "empty"]
)
def test_no_owners_are_left_as_they_are(meta: Meta) -> None:
    before = dict(meta)
    assert object_meta.remove_duplicate_owners(meta) == []
    assert meta == before


@pytest.mark.parametrize(
    ("meta", "found"),
    [({}, []), ({"finalizers": None}, []), ({"finalizers": ["a/b", "c/d"]}, ["a/b", "c/d"])],
    ids=["nobody", "null", "two"],
)
def test_the_finalizers_of_an_object(meta: Meta, found: list[str]) -> None:
    """Row G02."""
    assert object_meta.finalizers({"metadata": meta}) == found
