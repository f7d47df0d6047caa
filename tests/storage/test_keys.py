"""The keys of objects in the store, and ranges of keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.storage.interface import KeyRange
from apiserver.storage.keys import (
    INTERNAL_GROUP,
    after,
    object_key,
    prefix_range,
    resource_of,
    resource_prefix,
)

# Segments of keys: DNS names, but also what path-segment names allow (":" in RBAC names, letters of any
# script); never a slash, and never the group of the server's own records.
SEGMENT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1).filter(
    lambda text: text != INTERNAL_GROUP
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PREFIX = st.sampled_from(["/registry", "/r", "", "/tenants/blue"])

KEYS = {
    "a namespaced object of a named group": (
        ("/registry", "apps", "deployments", "default", "web"),
        "/registry/apps/deployments/default/web",
    ),
    "the core group is called core": (
        ("/registry", "", "configmaps", "default", "a"),
        "/registry/core/configmaps/default/a",
    ),
    "a cluster-scoped object has no namespace segment": (
        ("/registry", "", "namespaces", "", "default"),
        "/registry/core/namespaces/default",
    ),
    "a custom resource's group has dots": (
        ("/registry", "stable.example.com", "crontabs", "ns", "x"),
        "/registry/stable.example.com/crontabs/ns/x",
    ),
    "another prefix": (("/tenants/blue", "", "pods", "ns", "x"), "/tenants/blue/core/pods/ns/x"),
}


@pytest.mark.parametrize(("identity", "key"), KEYS.values(), ids=KEYS)
def test_the_key_of_an_object(identity: tuple[str, str, str, str, str], key: str) -> None:
    prefix, group, resource, namespace, name = identity
    assert object_key(resource_prefix(prefix, group, resource), namespace, name) == key


@given(PREFIX, SEGMENT | st.just(""), SEGMENT, SEGMENT | st.just(""), SEGMENT)
def test_every_objects_key_leads_back_to_its_resource(
    prefix: str, group: str, resource: str, namespace: str, name: str
) -> None:
    resource_keys = resource_prefix(prefix, group, resource)
    key = object_key(resource_keys, namespace, name)
    assert resource_of(prefix, key) == resource_keys
    assert key in prefix_range(resource_keys)


NO_OBJECTS = {
    "the progress key of the etcd store": "/registry/-/etcd/fence",
    "the key of compaction": "/registry/-/compaction/latest",
    "a key without resource": "/registry/core",
    "a key without object": "/registry/core/configmaps",
    "the prefix itself": "/registry",
}


@pytest.mark.parametrize("key", NO_OBJECTS.values(), ids=NO_OBJECTS)
def test_keys_that_are_not_of_objects(key: str) -> None:
    assert resource_of("/registry", key) is None


@given(SEGMENT.map(lambda text: f"/registry/{text}/"), TEXT)
def test_a_prefix_range_has_the_keys_that_begin_with_the_prefix_and_no_others(prefix: str, key: str) -> None:
    assert prefix + key in prefix_range(prefix)
    assert (key in prefix_range(prefix)) == key.startswith(prefix)


NEIGHBOURS = {
    "a resource with a longer name": "/registry/core/configmapsx/a",
    "a resource with a longer name that sorts before the slash": "/registry/core/configmaps-x/a",
    "a resource with a shorter name": "/registry/core/configmap/a",
    "the range without its slash": "/registry/core/configmaps",
    "the first key after the range": "/registry/core/configmaps0",
}


@pytest.mark.parametrize("key", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_neighbours_of_a_prefix_range(key: str) -> None:
    assert key not in prefix_range("/registry/core/configmaps/")


@given(TEXT, TEXT)
def test_nothing_sorts_between_a_key_and_the_one_after_it(key: str, other: str) -> None:
    assert key < after(key)
    assert not key < other < after(key)


@given(TEXT, TEXT)
def test_keys_compare_as_their_bytes_do(key: str, other: str) -> None:
    """etcd compares bytes, Python code points: UTF-8 makes them agree."""
    assert (key < other) == (key.encode() < other.encode())


@given(TEXT, TEXT, TEXT)
def test_a_range_includes_its_start_and_excludes_its_end(start: str, end: str, key: str) -> None:
    assert (key in KeyRange(start, end)) == (start.encode() <= key.encode() < end.encode())


def test_only_text_is_in_a_range() -> None:
    assert not prefix_range("/registry/").__contains__(b"/registry/a")
