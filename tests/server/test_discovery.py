"""What clients learn of the server: paths, groups, versions, types. Rows C07, I19, I20."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.api import Api
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


def test_the_types_of_a_version(api: Api) -> None:
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
def test_in_which_version_objects_are_stored(api: Api, root: str, name: str) -> None:
    (resource,) = (each for each in api.get(root).ok()["resources"] if each["name"] == name)
    assert resource.get("storageVersionHash") == STORED[root, name]


def test_the_order_of_types_and_groups(api: Api) -> None:
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


def test_every_built_in_version_is_there(api: Api) -> None:
    assert set(BUILT_IN) <= set(versions(api))


@pytest.mark.parametrize("root", BUILT_IN)
def test_every_version_tells_its_types(api: Api, root: str) -> None:
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
    """What aggregated discovery says, in the words of the other."""
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


def test_both_ways_of_discovery_agree(api: Api) -> None:
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
def test_which_discovery_is_meant(api: Api, accept: str, kind: str) -> None:
    """Row D18."""
    answer = api.get("/apis", headers={"Accept": accept})
    assert answer.ok()["kind"] == kind
    assert answer.headers["vary"] == "Accept"


def test_nothing_acceptable(api: Api) -> None:
    """Row D17."""
    assert api.get("/apis", headers={"Accept": "text/html"}).status == 406


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_what_has_not_changed_is_not_sent_again(api: Api, path: str) -> None:
    """Row I19."""
    first = api.get(path, headers={"Accept": AGGREGATED})
    etag = first.headers["etag"]
    again = api.get(path, headers={"Accept": AGGREGATED, "If-None-Match": etag})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    other = api.get(path, headers={"Accept": AGGREGATED, "If-None-Match": '"other"'})
    assert (other.status, other.body) == (200, first.body)
    plain = api.get(path, headers={"If-None-Match": etag})
    assert plain.status == 200


# ---- everything else


def test_the_version(api: Api) -> None:
    """Row I20: what kubectl compares its own with."""
    document = api.get("/version").ok()
    assert (document["major"], document["minor"]) == ("1", "34")
    assert document["gitVersion"].startswith("v1.34.0")
    assert all(isinstance(value, str) for value in document.values())
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= set(document)


def test_every_path_that_is_told_of_answers(api: Api) -> None:
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


# ---- versions that an APIService says another server has


def test_what_another_server_has_is_unavailable_and_what_nobody_has_is_not_found(api: Api) -> None:
    """There is no network here in which a service could be found; source: kube-aggregator."""
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {"group": "ext.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    service = {"name": "s", "namespace": "default"}
    name = "v1.ext.example.com"
    api.post(services, {"metadata": {"name": name}, "spec": {**spec, "service": service}}).ok()
    try:
        for path in ("/apis/ext.example.com/v1", "/apis/ext.example.com/v1/namespaces/default/things/a"):
            answer = api.get(path)
            assert (answer.status, answer.body) == (503, b"service unavailable\n"), path
        assert api.get("/apis/ext.example.com/v2").status == 404
    finally:
        api.delete(f"{services}/{name}").ok()
    assert api.get("/apis/ext.example.com/v1").status == 404
