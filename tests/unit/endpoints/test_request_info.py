"""Method, path and query as the record that all after works with (rows A02, A07, I01-I12, I16)."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apiserver.endpoints.request_info import (
    QUERY_PARAMETERS_MAX,
    SELECTOR_LENGTH_MAX,
    MalformedRequest,
    parse_query,
    parse_target,
    selected_name,
)
from apiserver.meta.vocabulary import RequestInfo


def info(verb: str, resource: str = "pods", **more: str | bool | tuple[str, ...]) -> RequestInfo:
    known = RequestInfo("", "", verb, is_resource=True, version="v1", resource=resource)
    return replace(known, **more)  # type: ignore[arg-type]


IN_NS: Final = "/api/v1/namespaces/ns"
# method, path, whether the query asks for a watch
REQUESTS: Final[dict[str, tuple[str, str, bool, RequestInfo]]] = {
    "I02 list across namespaces": ("GET", "/api/v1/pods", False, info("list")),
    "I03 list in a namespace": ("GET", f"{IN_NS}/pods", False, info("list", namespace="ns")),
    "I04 get": ("GET", f"{IN_NS}/pods/a", False, info("get", namespace="ns", name="a")),
    "I04 get of what has no namespace": ("GET", "/api/v1/nodes/a", False, info("get", "nodes", name="a")),
    "HEAD is a get": ("HEAD", f"{IN_NS}/pods/a", False, info("get", namespace="ns", name="a")),
    "HEAD of a collection is a list": ("HEAD", "/api/v1/pods", False, info("list")),
    "I05 create": ("POST", f"{IN_NS}/pods", False, info("create", namespace="ns")),
    "I07 update": ("PUT", f"{IN_NS}/pods/a", False, info("update", namespace="ns", name="a")),
    "I08 patch": ("PATCH", f"{IN_NS}/pods/a", False, info("patch", namespace="ns", name="a")),
    "I09 delete": ("DELETE", f"{IN_NS}/pods/a", False, info("delete", namespace="ns", name="a")),
    "G16 delete a collection": ("DELETE", f"{IN_NS}/pods", False, info("deletecollection", namespace="ns")),
    "A02 watch, never list": ("GET", f"{IN_NS}/pods", True, info("watch", namespace="ns")),
    "I11 watch of one object": ("GET", f"{IN_NS}/pods/a", True, info("watch", namespace="ns", name="a")),
    "a watch of a subresource is a get": (
        "GET",
        f"{IN_NS}/pods/a/status",
        True,
        info("get", namespace="ns", name="a", subresource="status"),
    ),
    "only reads can be watches": ("DELETE", f"{IN_NS}/pods", True, info("deletecollection", namespace="ns")),
    "the old prefix is a watch": ("GET", "/api/v1/watch/pods", False, info("watch", has_watch_prefix=True)),
    "the old prefix in a namespace": (
        "GET",
        "/api/v1/watch/namespaces/ns/pods/a",
        False,
        info("watch", namespace="ns", name="a", has_watch_prefix=True),
    ),
    "I01 a group": (
        "GET",
        "/apis/apps/v1/namespaces/ns/deployments/a",
        False,
        info("get", "deployments", group="apps", namespace="ns", name="a"),
    ),
    "I12 a subresource": (
        "PUT",
        "/apis/apps/v1/namespaces/ns/deployments/a/scale",
        False,
        info("update", "deployments", group="apps", namespace="ns", name="a", subresource="scale"),
    ),
    "I12 a subresource of what has no namespace": (
        "GET",
        "/api/v1/nodes/a/status",
        False,
        info("get", "nodes", name="a", subresource="status"),
    ),
    "what follows a subresource": (
        "GET",
        "/api/v1/nodes/a/proxy/b/c",
        False,
        info("get", "nodes", name="a", subresource="proxy", rest=("b", "c")),
    ),
    "A08 empty steps for another server": (
        "GET",
        "/api/v1/namespaces/ns/services/s:80/proxy//b//",
        False,
        info("get", "services", namespace="ns", name="s:80", subresource="proxy", rest=("", "b", "")),
    ),
    "A08 a watch of another server": (
        "GET",
        "/api/v1/namespaces/ns/pods/p/proxy/b",
        True,
        info("get", namespace="ns", name="p", subresource="proxy", rest=("b",)),
    ),
    "A07 what looks like a subresource of all is a name": (
        "GET",
        "/api/v1/pods/status",
        False,
        info("get", name="status"),
    ),
    "I16 list namespaces": ("GET", "/api/v1/namespaces", False, info("list", "namespaces")),
    "I16 get a namespace, which is in itself": (
        "GET",
        IN_NS,
        False,
        info("get", "namespaces", namespace="ns", name="ns", is_namespace_itself=True),
    ),
    "a subresource of a namespace": (
        "PUT",
        f"{IN_NS}/finalize",
        False,
        info(
            *("update", "namespaces"),
            namespace="ns",
            name="ns",
            subresource="finalize",
            is_namespace_itself=True,
        ),
    ),
    "a trailing slash": ("GET", "/api/v1/pods/", False, info("list")),
    "a name with escapes": ("GET", "/api/v1/nodes/a%3Ab%C3%A9", False, info("get", "nodes", name="a:bé")),
    "a plus sign is itself": ("GET", "/api/v1/nodes/a+b", False, info("get", "nodes", name="a+b")),
    "a resource called watch": ("GET", "/api/v1/watch", False, info("list", "watch")),
    "a method nobody knows": ("PURGE", "/api/v1/nodes/a", False, info("purge", "nodes", name="a")),
}


@pytest.mark.parametrize(("method", "path", "is_watch", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_what_a_request_is_about(method: str, path: str, is_watch: bool, expected: RequestInfo) -> None:
    found = parse_target(method, path, is_watch)
    assert replace(found, method="", path="") == expected
    assert found.method == method


LONG_RUNNING: Final = {
    "a watch": ("/api/v1/pods", True, True),
    "the old prefix": ("/api/v1/watch/pods", False, True),
    "A08 a proxy": ("/api/v1/nodes/a/proxy/b", False, True),
    "logs": ("/api/v1/namespaces/ns/pods/p/log", False, True),
    "a shell": ("/api/v1/namespaces/ns/pods/p/exec", False, True),
    "a CPU profile": ("/debug/pprof/profile", False, True),
    "another profile": ("/debug/pprof/heap", False, False),
    "a list": ("/api/v1/pods", False, False),
    "an object with such a name": ("/api/v1/namespaces/ns/pods/log", False, False),
}


@pytest.mark.parametrize(("path", "is_watch", "is_long"), LONG_RUNNING.values(), ids=LONG_RUNNING)
def test_what_runs_as_long_as_its_client_likes(path: str, is_watch: bool, is_long: bool) -> None:
    assert parse_target("GET", path, is_watch).is_long_running is is_long


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/api",
        "/api/",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/apps/v1/",
        "/version",
        "/livez/ping",
        "/openapi/v3/apis/apps/v1",
        "/API/v1/pods",
        "/api/v1//pods",
        "//api/v1/pods",
        "/api/v1/pods//",
        "/api/v1/namespaces//pods",
        "/api/v1/nodes/a%00b",
    ],
)
def test_paths_of_no_resource(path: str) -> None:
    found = parse_target("GET", path, False)
    assert (found.is_resource, found.verb, found.resource, found.name) == (False, "get", "", "")
    assert parse_target("POST", path, True).verb == "post"


def test_the_path_is_decoded() -> None:
    assert parse_target("GET", "/a%20b", False).path == "/a b"


@pytest.mark.parametrize("path", ["/api/v1/nodes/%ff", "/%C3", "/api/v1/nodes/%ed%a0%80"])
def test_a_path_that_is_not_utf8_is_refused(path: str) -> None:
    with pytest.raises(MalformedRequest, match="UTF-8"):
        parse_target("GET", path, False)


_segment: Final = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=8)


@given(_segment, _segment, _segment, _segment)
def test_names_are_preserved(group: str, namespace: str, resource: str, name: str) -> None:
    assume(resource not in ("status", "finalize"))  # those of the namespace itself
    parts = [quote(part, safe="") for part in ("v1", "namespaces", namespace, resource, name)]
    found = parse_target("GET", f"/apis/{quote(group, safe='')}/{'/'.join(parts)}", False)
    assert (found.group, found.namespace, found.resource, found.name) == (group, namespace, resource, name)


@given(st.text(max_size=40), st.booleans())
def test_any_path_is_parsed_or_malformed(path: str, is_watch: bool) -> None:
    with contextlib.suppress(MalformedRequest):
        found = parse_target("GET", path, is_watch)
        assert found.is_resource or not found.resource


QUERIES: Final = {
    "nothing": ("", {}),
    "one": ("a=b", {"a": ["b"]}),
    "many of one": ("a=b&c=d&a=e", {"a": ["b", "e"], "c": ["d"]}),
    "empty values are kept": ("a=&b", {"a": [""], "b": [""]}),
    "escapes": ("labelSelector=a%20in%20%28b%29+", {"labelSelector": ["a in (b) "]}),
    "UTF-8": ("a=%C3%A9", {"a": ["é"]}),
    "a semicolon is part of a value": ("a=b;c=d", {"a": ["b;c=d"]}),
}


@pytest.mark.parametrize(("raw", "parameters"), QUERIES.values(), ids=QUERIES)
def test_query_parameters(raw: str, parameters: dict[str, list[str]]) -> None:
    assert dict(parse_query(raw)) == parameters


def test_a_query_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="UTF-8"):
        parse_query("a=%ff")


def test_the_number_of_parameters_is_bounded() -> None:
    most = "&".join(["a=b"] * QUERY_PARAMETERS_MAX)
    assert parse_query(most) == {"a": ["b"] * QUERY_PARAMETERS_MAX}
    with pytest.raises(MalformedRequest, match=f"more than {QUERY_PARAMETERS_MAX} parameters"):
        parse_query(most + "&a=b")


def test_a_parsed_query_cannot_be_changed() -> None:
    """It is shared by all requests with the same query."""
    for raw in ("", "a=b"):
        with pytest.raises(TypeError):
            parse_query(raw)["c"] = ["d"]  # type: ignore[index]


def named(selector: str, method: str = "GET", path: str = f"{IN_NS}/pods", more: str = "") -> str:
    query = parse_query(f"fieldSelector={quote(selector, safe='')}{more}")
    return selected_name(parse_target(method, path, "watch" in query), query)


# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
SELECTED: Final = {
    "one name": ("metadata.name=a", "a"),
    "two equal signs": ("metadata.name==a", "a"),
    "among others": ("status.phase=Running,metadata.name=a,x!=y", "a"),
    "of several the first by the order of texts": ("metadata.name=b,metadata.name=a", "a"),
    "in whose order they stand": ("metadata.name=a,metadata.name=b", "a"),
    "of several that are written in different ways": ("metadata.name=b,metadata.name==z", "z"),
    "no name before a name": ("metadata.name=a,metadata.name=", ""),
    "a name that a path cannot hold before a name": ("metadata.name=b,metadata.name=a/b", ""),
    "one before what is not one": ("metadata.name=b,metadata.name!=a", "b"),
    "escaped": (r"metadata.name=a\,b", "a,b"),
    "any but one": ("metadata.name!=a", ""),
    "another field": ("metadata.namespace=a", ""),
    "none": ("metadata.name=", ""),
    "not one that a path could hold": ("metadata.name=a/b", ""),
    "no selector": ("metadata.name", ""),
    "a part that cannot be understood": ("metadata.name=a,x", ""),
    "a bad escape": (r"metadata.name=a\b", ""),
    "empty": ("", ""),
    "too long": (f"metadata.name=a,x={'y' * SELECTOR_LENGTH_MAX}", ""),
}


@pytest.mark.parametrize(("selector", "name"), SELECTED.values(), ids=SELECTED)
def test_the_name_that_a_field_selector_requires(selector: str, name: str) -> None:
    assert named(selector) == name


def test_the_verbs_whose_selectors_name_an_object() -> None:
    """Lists and watches; nothing that has a name already, and no way of asking that ignores selectors."""
    assert named("metadata.name=a", more="&watch=1") == "a"
    assert named("metadata.name=a", "HEAD") == "a"
    assert named("metadata.name=a", more="&fieldSelector=metadata.name%3Db") == "a"
    for method, path in (
        ("DELETE", f"{IN_NS}/pods"),
        ("POST", f"{IN_NS}/pods"),
        ("GET", f"{IN_NS}/pods/b"),
        ("GET", "/api/v1/watch/pods"),
        ("GET", "/version"),
    ):
        assert named("metadata.name=a", method, path) == "", (method, path)
    assert selected_name(parse_target("GET", f"{IN_NS}/pods", False), parse_query("limit=1")) == ""


@given(st.text(max_size=60))
def test_any_selector_names_an_object_or_none(selector: str) -> None:
    """What is wrong with one is not told here."""
    assert "/" not in named(selector)
