"""Discovery: paths, groups, versions and resources. Rows C07, D02, D03, D17, D18, I19-I22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from apiserver.wire import cbor, yaml
from tests.support.api import Api, until_status
from tests.support.definitions import define, definition, new_group
from tests.support.fixtures import api_with
from tests.support.protobuf_writer import envelope, field
from tests.support.served import BUILT_IN, versions

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# What kubectl 1.34 sends.
KUBECTL: Final = f"{AGGREGATED},{AGGREGATED.replace('v=v2', 'v=v2beta1')},application/json"


def test_the_core_group(api: Api) -> None:
    document = api.get("/api").ok()
    assert (document["kind"], document["versions"]) == ("APIVersions", ["v1"])
    (address,) = document["serverAddressByClientCIDRs"]
    assert address["clientCIDR"] == "0.0.0.0/0"
    assert address["serverAddress"] == api.server.url.removeprefix("https://")


def test_the_groups(api: Api) -> None:
    document = api.get("/apis").ok()
    assert (document["kind"], document["apiVersion"]) == ("APIGroupList", "v1")
    names = [group["name"] for group in document["groups"]]
    assert {"apps", "batch", "coordination.k8s.io"} <= set(names)
    assert "" not in names
    assert len(set(names)) == len(names)
    for group in document["groups"]:
        assert group["preferredVersion"] in group["versions"]
        for each in group["versions"]:
            assert each["groupVersion"] == f"{group['name']}/{each['version']}"
        alone = api.get(f"/apis/{group['name']}").ok()
        assert alone == {"kind": "APIGroup", "apiVersion": "v1", **group}
        assert api.get(f"/apis/{group['name']}/").ok() == alone


def test_the_resources_of_a_version(api: Api) -> None:
    document = api.get("/api/v1").ok()
    assert (document["kind"], document["groupVersion"]) == ("APIResourceList", "v1")
    resources = {each["name"]: each for each in document["resources"]}
    configmaps = resources["configmaps"]
    assert configmaps.pop("storageVersionHash")
    assert configmaps == {
        "name": "configmaps",
        "singularName": "configmap",
        "namespaced": True,
        "kind": "ConfigMap",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["cm"],
    }
    namespaces = resources["namespaces"]
    assert namespaces["namespaced"] is False
    assert "deletecollection" not in namespaces["verbs"]
    assert resources["namespaces/finalize"]["verbs"] == ["update"]
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert "all" in resources["pods"]["categories"]


# Clients compare them; those of the built-in types are the same on every server of a release.
# Source: kubernetes, api/discovery.
STORED: Final = {
    ("/api/v1", "pods"): "xPOwRZ+Yhw8=",
    ("/api/v1", "configmaps"): "qFsyl6wFWjQ=",
    ("/api/v1", "events"): "r2yiGXH7wu8=",
    ("/api/v1", "componentstatuses"): None,
    ("/apis/events.k8s.io/v1", "events"): "r2yiGXH7wu8=",
    ("/apis/apps/v1", "deployments"): "8aSe+NMegvE=",
    ("/apis/autoscaling/v1", "horizontalpodautoscalers"): "qwQve8ut294=",
    ("/apis/autoscaling/v2", "horizontalpodautoscalers"): "qwQve8ut294=",
    ("/apis/authorization.k8s.io/v1", "subjectaccessreviews"): None,
}


@pytest.mark.parametrize(("root", "name"), STORED, ids=[f"{root}/{name}" for root, name in STORED])
def test_storage_version_hashes(api: Api, root: str, name: str) -> None:
    (resource,) = (each for each in api.get(root).ok()["resources"] if each["name"] == name)
    assert resource.get("storageVersionHash") == STORED[root, name]


def test_the_order_of_resources_and_groups(api: Api) -> None:
    """Row S03: groups as Kubernetes orders them, the preferred version first; types by name."""
    groups = {group["name"]: group for group in api.get("/apis").ok()["groups"]}
    known = [
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "autoscaling",
        "batch",
    ]
    assert [name for name in groups if name in known] == known
    assert [each["version"] for each in groups["autoscaling"]["versions"]] == ["v2", "v1"]
    for root in versions(api):
        names = [each["name"].split("/") for each in api.get(root).ok()["resources"]]
        assert [name for name, *_ in names] == sorted(name for name, *_ in names)


def test_every_built_in_version_is_served(api: Api) -> None:
    assert set(BUILT_IN) <= set(versions(api))


@pytest.mark.parametrize("root", BUILT_IN)
def test_every_version_lists_its_resources(api: Api, root: str) -> None:
    """Rows A01, C07. Of custom resources Kubernetes tells the verbs in another order."""
    document = api.get(root).ok()
    assert document["groupVersion"] == root.removeprefix("/apis/").removeprefix("/api/")
    assert document["resources"]
    names = [each["name"] for each in document["resources"]]
    assert len(set(names)) == len(names)
    assert "List" not in {each["kind"] for each in document["resources"]}
    assert all(each["verbs"] == sorted(each["verbs"]) for each in document["resources"])
    assert all(name.partition("/")[0] in names for name in names)


@pytest.mark.parametrize(
    ("path", "code"),
    {
        "/api/v2": 404,
        "/apis/nope": 404,
        "/apis/apps/v9": 404,
        "/apis/apps/v1/": 200,
        "/api/": 200,
        "/api/v1/": 200,
    }.items(),
)
def test_other_paths(api: Api, path: str, code: int) -> None:
    """Row I21."""
    assert api.get(path).status == code


# ---- all at once


def flat(document: dict[str, Any], root: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Aggregated discovery in the form of the unaggregated documents."""
    types = {}
    for group in document["items"]:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            assert version["freshness"] == "Current"
            where = f"{root}/{name}/{version['version']}" if name else f"{root}/{version['version']}"
            for each in version["resources"]:
                facts = {
                    "kind": each["responseKind"]["kind"],
                    "namespaced": each["scope"] == "Namespaced",
                    "verbs": each["verbs"],
                    "singularName": each["singularResource"],
                    "shortNames": each.get("shortNames"),
                    "categories": each.get("categories"),
                }
                types[where, each["resource"]] = facts
                for sub in each.get("subresources", ()):
                    key = (where, f"{each['resource']}/{sub['subresource']}")
                    shared = {"namespaced": facts["namespaced"], "singularName": ""}
                    none = {"shortNames": None, "categories": None}
                    types[key] = {
                        "kind": sub["responseKind"]["kind"],
                        "verbs": sub["verbs"],
                        **shared,
                        **none,
                    }
    return types


def test_aggregated_and_unaggregated_discovery_agree(api: Api) -> None:
    aggregated: dict[tuple[str, str], dict[str, Any]] = {}
    for root in ("/api", "/apis"):
        answer = api.get(root, headers={"Accept": AGGREGATED})
        document = answer.ok()
        assert (document["kind"], document["apiVersion"]) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io/v2",
        )
        assert answer.headers["content-type"] == AGGREGATED
        aggregated |= flat(document, root)
    fields = ("kind", "namespaced", "verbs", "singularName", "shortNames", "categories")
    single = {
        (root, each["name"]): {field: each.get(field) for field in fields}
        for root in versions(api)
        for each in api.get(root).ok()["resources"]
    }
    assert aggregated == single


ACCEPTS: Final = {
    "kubectl's": (KUBECTL, "APIGroupDiscoveryList"),
    "JSON": ("application/json", "APIGroupList"),
    "anything": ("*/*", "APIGroupList"),
    "the old version alone falls back": (
        f"{AGGREGATED.replace('v2', 'v2beta1')},application/json",
        "APIGroupList",
    ),
    "JSON is preferred": (f"{AGGREGATED};q=0.5,application/json", "APIGroupList"),
}


@pytest.mark.parametrize(("accept", "kind"), ACCEPTS.values(), ids=ACCEPTS)
def test_accept_headers_for_aggregated_discovery(api: Api, accept: str, kind: str) -> None:
    """Row D18."""
    answer = api.get("/apis", headers={"Accept": accept})
    assert answer.ok()["kind"] == kind
    assert answer.headers["vary"] == "Accept"


def test_nothing_acceptable(api: Api) -> None:
    """Row D17."""
    assert api.get("/apis", headers={"Accept": "text/html"}).status == 406


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_unchanged_documents_are_not_sent_again(api: Api, path: str) -> None:
    """Row I19."""
    first = api.get(path, headers={"Accept": AGGREGATED})
    etag = first.headers["etag"]
    assert first.headers["cache-control"] == "public"
    again = api.get(path, headers={"Accept": AGGREGATED, "If-None-Match": etag})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    other = api.get(path, headers={"Accept": AGGREGATED, "If-None-Match": '"other"'})
    assert (other.status, other.body) == (200, first.body)
    plain = api.get(path, headers={"If-None-Match": etag})
    assert plain.status == 200


# ---- in other forms. Source: k8s.io/apiserver, pkg/endpoints/discovery and its aggregated/wrapper.go

YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
CBOR: Final = "application/cbor"
AS_AGGREGATED: Final = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DOCUMENTS: Final = {
    "/api": "APIVersions",
    "/apis": "APIGroupList",
    "/apis/autoscaling": "APIGroup",
    "/api/v1": "APIResourceList",
    "/apis/apps/v1": "APIResourceList",
    "/apis/authorization.k8s.io/v1": "APIResourceList",
}


cbor_api = api_with("--feature-gates=CBORServingAndStorage=true")


def each(number: int, values: list[Any], write: Callable[[Any], str | bytes] = str) -> bytes:
    """The occurrences of a repeated field."""
    return b"".join(field(number, write(value)) for value in values)


def optional(number: int, value: str | None) -> bytes:
    return b"" if value is None else field(number, value)


# Numbers as in generated.proto of k8s.io/apimachinery/pkg/apis/meta/v1 and k8s.io/api/apidiscovery/v2.


def address(it: dict[str, Any]) -> bytes:
    return field(1, it["clientCIDR"]) + field(2, it["serverAddress"])


def version_of_group(it: dict[str, Any]) -> bytes:
    return field(1, it["groupVersion"]) + field(2, it["version"])


def group(it: dict[str, Any]) -> bytes:
    preferred = version_of_group(it["preferredVersion"])
    return field(1, it["name"]) + each(2, it["versions"], version_of_group) + field(3, preferred)


def resource(it: dict[str, Any]) -> bytes:
    """Its verbs are a message: `Verbs` is a type of its own."""
    return (
        field(1, it["name"])
        + field(2, it["namespaced"])
        + field(3, it["kind"])
        + field(4, each(1, it["verbs"]))
        + each(5, it.get("shortNames", []))
        + field(6, it["singularName"])
        + each(7, it.get("categories", []))
        + optional(8, it.get("group"))
        + optional(9, it.get("version"))
        + optional(10, it.get("storageVersionHash"))
    )


def kind_of(it: dict[str, Any]) -> bytes:
    return field(1, it["group"]) + field(2, it["version"]) + field(3, it["kind"])


def aggregated_subresource(it: dict[str, Any]) -> bytes:
    return field(1, it["subresource"]) + field(2, kind_of(it["responseKind"])) + each(4, it["verbs"])


def aggregated_resource(it: dict[str, Any]) -> bytes:
    return (
        field(1, it["resource"])
        + field(2, kind_of(it["responseKind"]))
        + field(3, it["scope"])
        + field(4, it["singularResource"])
        + each(5, it["verbs"])
        + each(6, it.get("shortNames", []))
        + each(7, it.get("categories", []))
        + each(8, it.get("subresources", []), aggregated_subresource)
    )


def aggregated_version(it: dict[str, Any]) -> bytes:
    return field(1, it["version"]) + each(2, it["resources"], aggregated_resource) + field(3, it["freshness"])


def aggregated_group(it: dict[str, Any]) -> bytes:
    return field(1, optional(1, it["metadata"].get("name"))) + each(2, it["versions"], aggregated_version)


MESSAGES: Final[dict[str, Callable[[dict[str, Any]], bytes]]] = {
    "APIVersions": lambda it: each(1, it["versions"]) + each(2, it["serverAddressByClientCIDRs"], address),
    "APIGroupList": lambda it: each(1, it["groups"], group),
    "APIGroup": group,
    "APIResourceList": lambda it: field(1, it["groupVersion"]) + each(2, it["resources"], resource),
    "APIGroupDiscoveryList": lambda it: field(1, b"") + each(2, it["items"], aggregated_group),
}


def as_protobuf(document: dict[str, Any]) -> bytes:
    """An answer, byte for byte. What has no version in JSON has none here either."""
    kind = document["kind"]
    raw = MESSAGES[kind](document)
    return envelope(raw, document.get("apiVersion", ""), kind, more=field(3, "") + field(4, ""))


def says_the_same(media_type: str, body: bytes, document: dict[str, Any]) -> bool:
    match media_type:
        case "application/yaml":
            return bool(yaml.load(body) == (document, []))
        case "application/cbor":
            return bool(cbor.load(body) == document)
        case "application/vnd.kubernetes.protobuf":
            return body == as_protobuf(document)
    return False


@pytest.mark.parametrize("media_type", [YAML, PROTOBUF])
@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_the_same_in_every_form(api: Api, path: str, media_type: str) -> None:
    """Rows D02, D03."""
    document = api.get(path).ok()
    assert document["kind"] == DOCUMENTS[path]
    for _ in range(2):  # made, and kept
        answer = api.get(path, headers={"Accept": media_type})
        assert (answer.status, answer.headers["content-type"]) == (200, media_type)
        assert says_the_same(media_type, answer.body, document)
    head = api.send("HEAD", path, headers={"Accept": media_type})
    assert (head.headers["content-type"], head.headers["content-length"]) == (
        media_type,
        str(len(answer.body)),
    )


@pytest.mark.parametrize("media_type", [YAML, PROTOBUF])
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery_is_the_same_in_every_form(api: Api, path: str, media_type: str) -> None:
    """Row I19: the ETag is that of what is said; `Vary` says that it holds for one form."""
    first = api.get(path, headers={"Accept": AGGREGATED})
    asked = {"Accept": media_type + AS_AGGREGATED}
    answer = api.get(path, headers=asked)
    assert (answer.status, answer.headers["content-type"]) == (200, media_type + AS_AGGREGATED)
    assert (answer.headers["etag"], answer.headers["vary"]) == (first.headers["etag"], "Accept")
    assert says_the_same(media_type, answer.body, first.ok())
    again = api.get(path, headers={**asked, "If-None-Match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", DOCUMENTS)
def test_documents_in_cbor(cbor_api: Api, path: str) -> None:
    """Row D22."""
    answer = cbor_api.get(path, headers={"Accept": CBOR})
    assert (answer.status, answer.headers["content-type"]) == (200, CBOR)
    assert says_the_same(CBOR, answer.body, cbor_api.get(path).ok())


def test_aggregated_discovery_has_no_cbor(cbor_api: Api) -> None:
    """Source: aggregated/wrapper.go, whose serializer knows it not, whatever the gate says."""
    answer = cbor_api.get("/apis", headers={"Accept": CBOR + AS_AGGREGATED})
    assert answer.status == 406
    fallback = cbor_api.get("/apis", headers={"Accept": f"{CBOR}{AS_AGGREGATED}, {AGGREGATED};q=0.5"})
    assert fallback.headers["content-type"] == AGGREGATED


# What is asked for at /apis, and the media type and kind of the answer.
CHOICES: Final = {
    "protobuf, as client-go would": (f"{PROTOBUF}{AS_AGGREGATED},application/json", PROTOBUF, True),
    "a version that is not served": (
        f"{PROTOBUF}{AS_AGGREGATED.replace('v2', 'v2beta1')},application/json",
        "application/json",
        False,
    ),
    "the best quality": (f"application/json;q=0.1,{YAML};q=0.9,{PROTOBUF};q=0.5", YAML, False),
    "a quality of nothing": (f"{YAML};q=0,{PROTOBUF}", PROTOBUF, False),
    "all at once, less liked": (f"{PROTOBUF}{AS_AGGREGATED};q=0.5,{YAML}", YAML, False),
    "the first of equal ones": (f"{PROTOBUF},{YAML}", PROTOBUF, False),
    "something unknown before": (f"text/html,{YAML};q=0.5", YAML, False),
    "the gate is off": (f"{CBOR},{PROTOBUF};q=0.5", PROTOBUF, False),
    "anything, all at once": (f"*/*{AS_AGGREGATED}", "application/json", True),
}


@pytest.mark.parametrize(("accept", "media_type", "is_aggregated"), CHOICES.values(), ids=CHOICES)
def test_accept_headers(api: Api, accept: str, media_type: str, is_aggregated: bool) -> None:
    """Row D18."""
    answer = api.get("/apis", headers={"Accept": accept})
    assert answer.status == 200
    assert answer.headers["content-type"] == media_type + (AS_AGGREGATED if is_aggregated else "")


_ROUTED: Final = "406: Not Acceptable\n\nAvailable representations: "
_UNROUTED: Final = "only the following media types are accepted: "
NOT_ACCEPTABLE: Final = {
    "an unknown type": ("text/html", _ROUTED),
    "a type behind a gate": (CBOR, _ROUTED),
    "a table": ("application/json;as=Table;g=meta.k8s.io;v=v1", _UNROUTED),
    "an unknown version of all at once": (f"{PROTOBUF}{AS_AGGREGATED.replace('v2', 'v9')}", _UNROUTED),
    "another stream": (f"{PROTOBUF};stream=list", _UNROUTED),
    "a stream of YAML": (f"{YAML};stream=watch", _UNROUTED),
}
# What lies above the versions of groups does not come from Kubernetes' router.
_AGGREGATED_PATHS: Final = ("/apis", "/apis/autoscaling")


@pytest.mark.parametrize("path", DOCUMENTS)
@pytest.mark.parametrize(("accept", "message"), NOT_ACCEPTABLE.values(), ids=NOT_ACCEPTABLE)
def test_unacceptable_media_types(api: Api, path: str, accept: str, message: str) -> None:
    """Row D17: with a list of what can be."""
    answer = api.get(path, headers={"Accept": accept})
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    message = _UNROUTED if path in _AGGREGATED_PATHS else message
    assert answer.message == f"{message}application/json, {YAML}, {PROTOBUF}"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_stream_of_a_document_is_the_document(api: Api, path: str) -> None:
    """OpenAPI offers the parameter everywhere; it says nothing where nothing is streamed."""
    answer = api.get(path, headers={"Accept": "application/json;stream=watch"})
    assert (answer.status, answer.body) == (200, api.get(path).body)


def test_documents_of_definitions_are_not_routed(api: Api) -> None:
    defined = define(api, definition(new_group()))
    for path in (f"/apis/{defined.group}", f"/apis/{defined.group}/v1"):
        assert api.get(path, headers={"Accept": "application/*"}).status == 200
        assert api.get(path, headers={"Accept": "text/html"}).message.startswith(_UNROUTED)


@pytest.mark.parametrize("path", ["/apis/apps", "/apis/apps/v1"])
def test_only_the_roots_serve_aggregated_discovery(api: Api, path: str) -> None:
    assert api.get(path, headers={"Accept": AGGREGATED}).status == 406


@pytest.mark.parametrize("media_type", ["application/json", YAML, PROTOBUF])
def test_cached_documents_follow_the_served_resources(api: Api, media_type: str) -> None:
    """Row I22."""
    defined = define(api, definition(new_group()))
    asked, alone = {"Accept": media_type}, f"/apis/{defined.group}"

    def lists() -> list[bytes]:
        return [api.get("/apis", headers={"Accept": media_type + more}).body for more in ("", AS_AGGREGATED)]

    assert all(defined.group.encode() in body for body in lists())
    assert api.get(alone, headers=asked).status == 200
    api.delete(defined.path).ok()
    until_status(404, lambda: api.get(alone, headers=asked), "gone")
    assert not any(defined.group.encode() in body for body in lists())


# ---- everything else


def test_the_version(api: Api) -> None:
    """Row I20: what kubectl compares its own with."""
    document = api.get("/version").ok()
    assert (document["major"], document["minor"]) == ("1", "36")
    assert document["gitVersion"].startswith("v1.36.0")
    assert all(isinstance(value, str) for value in document.values())
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= set(document)


def test_every_listed_path_is_served(api: Api) -> None:
    """Row I20: the list at the root."""
    paths = api.get("/").ok()["paths"]
    assert paths == sorted(paths)
    expected = {
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/livez",
        "/readyz/ping",
        "/metrics",
    }
    assert expected | {"/version", "/openapi/v2", "/openapi/v3"} <= set(paths)
    assert {path: api.get(path).status for path in paths} == dict.fromkeys(paths, 200)
