"""Objects as tables and as metadata alone, for each verb that reads. Rows D07-D16."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.objects import pod

META: Final = "meta.k8s.io/v1"
END: Final = {"k8s.io/initial-events-end": "true"}


def form(kind: str, *, version: str = "v1", group: str = "meta.k8s.io") -> dict[str, str]:
    return {"Accept": f"application/json;as={kind};v={version};g={group}"}


TABLE: Final = form("Table")
PARTIAL: Final = form("PartialObjectMetadata")
PARTIAL_LIST: Final = form("PartialObjectMetadataList")


@pytest.fixture
def configmaps(api: Api, namespace: str) -> str:
    """The path of a collection of two: `a` with two entries, `b` with none."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(path, {"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"x": "1", "y": "2"}}).ok()
    api.post(path, {"metadata": {"name": "b"}}).ok()
    return path


def partial(document: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": document["metadata"]}


def columns(table: dict[str, Any]) -> list[tuple[str, str, str, int]]:
    assert (table["kind"], table["apiVersion"]) == ("Table", META)
    assert all(each["description"] for each in table["columnDefinitions"])
    fields = ("name", "type", "format", "priority")
    return [tuple(each[field] for field in fields) for each in table["columnDefinitions"]]


# ---- tables


def test_a_list_as_a_table(api: Api, configmaps: str) -> None:
    """Rows D07, D09, D11: a row for each object, with its metadata."""
    full = api.get(configmaps).ok()
    answer = api.get(configmaps, headers=TABLE)
    table = answer.ok()
    assert columns(table) == [
        ("Name", "string", "name", 0),
        ("Data", "string", "", 0),
        ("Age", "string", "", 0),
    ]
    assert table["metadata"] == full["metadata"]
    cells = [row["cells"] for row in table["rows"]]
    assert [(str(name), int(data)) for name, data, _ in cells] == [("a", 2), ("b", 0)]
    assert all(re.fullmatch(r"\d+s", age) for *_, age in cells)
    assert [row["object"] for row in table["rows"]] == [partial(item) for item in full["items"]]
    assert answer.headers["content-type"].startswith("application/json")


def test_one_object_as_a_table(api: Api, configmaps: str) -> None:
    """Row D11: one row; the table's version is the object's."""
    document = api.get(f"{configmaps}/a").ok()
    table = api.get(f"{configmaps}/a", headers=TABLE).ok()
    assert [row["cells"][0] for row in table["rows"]] == ["a"]
    assert table["rows"][0]["object"] == partial(document)
    assert table["metadata"] == {"resourceVersion": document["metadata"]["resourceVersion"]}
    assert len(table["columnDefinitions"]) == 3


def test_an_empty_table(api: Api, namespace: str) -> None:
    table = api.get(f"/api/v1/namespaces/{namespace}/secrets", headers=TABLE).ok()
    assert table["rows"] == []
    assert [name for name, *_ in columns(table)] == ["Name", "Type", "Data", "Age"]


@pytest.mark.parametrize("included", ["None", "Metadata", "Object", ""])
def test_include_object(api: Api, configmaps: str, included: str) -> None:
    """Row D09: includeObject."""
    document = api.get(f"{configmaps}/a").ok()
    expected = {"None": None, "Object": document}.get(included, partial(document))
    for path in (configmaps, f"{configmaps}/a"):
        table = api.get(f"{path}?includeObject={included}", headers=TABLE).ok()
        assert table["rows"][0]["object"] == expected
    assert api.get(f"{configmaps}?includeObject=Some", headers=TABLE).status == 400


def test_a_watch_as_tables(api: Api, configmaps: str) -> None:
    """Row D11: a table for each event; only the first one has the columns."""
    with api.watch(f"{configmaps}?watch=1&allowWatchBookmarks=true", **TABLE) as events:
        added = [events.next() for _ in "ab"]
        assert [event["type"] for event in added] == ["ADDED", "ADDED"]
        assert [event["object"]["rows"][0]["cells"][0] for event in added] == ["a", "b"]
        assert len(added[0]["object"]["columnDefinitions"]) == 3
        end = events.next()
        assert end["type"] == "BOOKMARK"
        assert end["object"]["kind"] == "Table"
        assert end["object"]["rows"][0]["object"]["metadata"]["annotations"] == END
        document = api.patch(f"{configmaps}/b", {"data": {"x": "1"}}).ok()
        api.delete(f"{configmaps}/b").ok()
        changed, deleted = events.next(), events.next()
    assert (changed["type"], deleted["type"]) == ("MODIFIED", "DELETED")
    (row,) = changed["object"]["rows"]
    assert (row["cells"][:2], row["object"]) == (["b", 1], partial(document))
    for event in (*added[1:], changed, deleted):
        assert event["object"]["columnDefinitions"] is None
        version = event["object"]["rows"][0]["object"]["metadata"]["resourceVersion"]
        assert event["object"]["metadata"] == {"resourceVersion": version}


def test_the_first_event_of_a_quiet_watch_has_the_columns(api: Api, configmaps: str) -> None:
    """Row D11: also when others have been told of the same event already."""
    start = api.get(configmaps).ok()["metadata"]["resourceVersion"]
    path = f"{configmaps}?watch=1&resourceVersion={start}"
    with api.watch(path, **TABLE) as early:
        for name in ("c", "d"):
            api.post(configmaps, {"metadata": {"name": name}}).ok()
        seen = [early.next()["object"] for _ in range(2)]
        with api.watch(f"{configmaps}?watch=1&resourceVersion={version_of(seen[0])}", **TABLE) as late:
            first = late.next()["object"]
    assert [table["columnDefinitions"] is None for table in (*seen, first)] == [False, True, False]
    assert first["rows"][0]["cells"][0] == seen[1]["rows"][0]["cells"][0] == "d"


def version_of(table: dict[str, Any]) -> str:
    return str(table["metadata"]["resourceVersion"])


def test_a_table_in_chunks(api: Api, configmaps: str) -> None:
    """Rows C04, C05."""
    first = api.get(f"{configmaps}?limit=1", headers=TABLE).ok()
    assert first["metadata"]["remainingItemCount"] == 1
    rest = api.get(f"{configmaps}?limit=1&continue={first['metadata']['continue']}", headers=TABLE).ok()
    assert [table["rows"][0]["cells"][0] for table in (first, rest)] == ["a", "b"]
    assert columns(rest) == columns(first)
    selected = api.get(f"{configmaps}?labelSelector=l%3D1", headers=TABLE).ok()
    assert [row["cells"][0] for row in selected["rows"]] == ["a"]


# Columns as kubectl shows them: https://kubernetes.io/docs/reference/kubectl/
COLUMNS: Final = {
    "/api/v1/namespaces": ["Name", "Status", "Age"],
    "/api/v1/pods": ["Name", "Ready", "Status", "Restarts", "Age"],
    "/api/v1/services": ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"],
    "/api/v1/events": ["Last Seen", "Type", "Reason", "Object", "Message"],
    "/apis/apps/v1/deployments": ["Name", "Ready", "Up-to-date", "Available", "Age"],
    "/apis/coordination.k8s.io/v1/leases": ["Name", "Holder", "Age"],
}


@pytest.mark.parametrize(("path", "shown"), COLUMNS.items(), ids=COLUMNS)
def test_the_columns_of_built_in_kinds(api: Api, path: str, shown: list[str]) -> None:
    """Row D10: those of priority 0; more are for wide output."""
    table = api.get(path, headers=TABLE).ok()
    assert [name for name, _, _, priority in columns(table) if priority == 0] == shown


def test_the_response_to_a_write_can_be_a_table(api: Api, configmaps: str) -> None:
    created = api.post(configmaps, {"metadata": {"name": "c"}}, headers=TABLE).ok()
    assert (created["kind"], created["rows"][0]["cells"][0]) == ("Table", "c")
    dry = api.post(f"{configmaps}?dryRun=All", {"metadata": {"name": "d"}}, headers=TABLE).ok()
    assert dry["rows"][0]["cells"][0] == "d"
    assert api.get(f"{configmaps}/nope", headers=TABLE).json["kind"] == "Status"


# ---- metadata alone


def test_partial_object_metadata(api: Api, configmaps: str) -> None:
    """Rows D12, D13, D15."""
    full = api.get(configmaps).ok()
    assert api.get(f"{configmaps}/a", headers=PARTIAL).ok() == partial(full["items"][0])
    listed = api.get(configmaps, headers=PARTIAL_LIST).ok()
    assert listed == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": META,
        "metadata": full["metadata"],
        "items": [partial(item) for item in full["items"]],
    }
    assert api.get(f"{configmaps}?labelSelector=no", headers=PARTIAL_LIST).ok()["items"] == []
    patched = api.patch(f"{configmaps}/a", {"data": {"z": "3"}}, headers=PARTIAL).ok()
    assert set(patched) == {"kind", "apiVersion", "metadata"}


def test_a_watch_of_partial_object_metadata(api: Api, configmaps: str) -> None:
    """Row D15."""
    items = api.get(configmaps).ok()["items"]
    with api.watch(f"{configmaps}?watch=1&allowWatchBookmarks=true", **PARTIAL) as events:
        assert [events.next() for _ in items] == [
            {"type": "ADDED", "object": partial(item)} for item in items
        ]
        end = events.next()["object"]
        assert (end["kind"], end["apiVersion"]) == ("PartialObjectMetadata", META)
        assert end["metadata"]["annotations"] == END
        api.delete(f"{configmaps}/b").ok()
        gone = events.next()
    assert gone["type"] == "DELETED"
    assert set(gone["object"]) == {"kind", "apiVersion", "metadata"}
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(items[1]["metadata"]["resourceVersion"])


# ---- what is acceptable

REFUSED: Final = {
    "D16: a list as one object": ("", PARTIAL),
    "one object as a list": ("/a", PARTIAL_LIST),
    "an unknown kind": ("", form("Chart")),
    "an unknown version": ("", form("Table", version="v9")),
    "an unknown group": ("", form("Table", group="meta.example.com")),
    "an unknown media type": ("", {"Accept": "text/html"}),
}


@pytest.mark.parametrize(("below", "headers"), REFUSED.values(), ids=REFUSED)
def test_unacceptable_forms(api: Api, configmaps: str, below: str, headers: dict[str, str]) -> None:
    """Rows D16, D17."""
    answer = api.get(configmaps + below, headers=headers)
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert api.send("DELETE", f"{configmaps}/a", headers={"Accept": "text/html"}).status == 406
    assert api.get(f"{configmaps}/a").status == 200


POSTED: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "a review of access": (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    "a review of rules": (
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {"spec": {"namespace": "default"}},
    ),
    "a review of oneself": ("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
    "a review of a token": ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}}),
    "a token": ("/api/v1/namespaces/{}/serviceaccounts/default/token", {"spec": {}}),
    "a binding": (
        "/api/v1/namespaces/{}/pods/p/binding",
        {"metadata": {"name": "p"}, "target": {"name": "n"}},
    ),
    "a binding of a pod that it names": (
        "/api/v1/namespaces/{}/bindings",
        {"metadata": {"name": "p"}, "target": {"name": "n"}},
    ),
    "an eviction": ("/api/v1/namespaces/{}/pods/p/eviction", {"metadata": {"name": "p"}}),
}


@pytest.mark.parametrize(("path", "body"), POSTED.values(), ids=POSTED)
def test_what_is_only_posted_has_no_table(api: Api, namespace: str, path: str, body: dict[str, Any]) -> None:
    """Row D17: Kubernetes has conformance tests for it. Nothing has been done when it is refused."""
    before = api.post(f"/api/v1/namespaces/{namespace}/pods", pod()).ok()
    answer = api.post(path.format(namespace), body, headers=form("Table"))
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert answer.message.startswith("only the following media types are accepted: application/json")
    assert api.get(f"/api/v1/namespaces/{namespace}/pods/p").ok() == before


def test_a_review_has_metadata(api: Api) -> None:
    """Row D12: with nothing in it but what the server sets."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    answer = api.post(path, {"spec": {"token": "t"}}, headers=PARTIAL)
    assert answer.json == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {}}


CHOICES: Final = {
    "kubectl's": ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table"),
    "an old version first": (
        "application/json;as=Table;v=v1beta9;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io",
        "Table",
    ),
    "what is not there falls back": (
        "application/json;as=Chart;v=v1;g=meta.k8s.io,application/json",
        "ConfigMapList",
    ),
    "the better one": (
        "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1,application/json",
        "ConfigMapList",
    ),
    "the better one comes last": (
        "text/html,application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io",
        "Table",
    ),
    "anything": ("*/*", "ConfigMapList"),
    "nothing said": ("", "ConfigMapList"),
}


@pytest.mark.parametrize(("accept", "kind"), CHOICES.values(), ids=CHOICES)
def test_accept_headers(api: Api, configmaps: str, accept: str, kind: str) -> None:
    """Rows D01, D18."""
    assert api.get(configmaps, headers={"Accept": accept}).ok()["kind"] == kind
