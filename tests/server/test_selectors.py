"""Which objects label and field selectors select, for each verb that takes them. Rows I17, I18, A06, M06."""

from __future__ import annotations

import itertools
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.support.api import Api

LABELS: Final[dict[str, dict[str, str]]] = {
    "a": {"app": "web", "tier": "front", "size": "3"},
    "b": {"app": "web", "tier": "back", "size": "7"},
    "c": {"app": "db", "tier": "back"},
    "d": {"app": "", "x.io/own": "yes"},
    "e": {},
}

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
LABEL_SELECTORS: Final = {
    "nothing asked for": ("", "abcde"),
    "equal": ("app=web", "ab"),
    "equal, written twice": ("app==web", "ab"),
    "equal to nothing": ("app=", "d"),
    "unequal, which absent labels are, too": ("app!=web", "cde"),
    "in a set": ("app in (web, db)", "abc"),
    "in a set of one": ("app in (db)", "c"),
    "not in a set": ("app notin (web, db)", "de"),
    "there": ("app", "abcd"),
    "absent": ("!app", "e"),
    "greater": ("size>3", "b"),
    "less": ("size<7", "a"),
    "several hold together": ("app=web,tier=back", "b"),
    "several forms together": ("app in (web),!x.io/own,tier!=back", "a"),
    "key with a domain": ("x.io/own=yes", "d"),
    "nothing is like this": ("app=web,app=db", ""),
    "spaces do not count": (" app  in ( web ) , tier = front ", "a"),
}
FIELD_SELECTORS: Final = {
    "name": ("metadata.name=a", "a"),
    "name, written twice": ("metadata.name==a", "a"),
    "other names": ("metadata.name!=a", "bcde"),
    "a name and not it": ("metadata.name=a,metadata.name!=a", ""),
    "a name that is not there": ("metadata.name=z", ""),
    "this namespace": ("metadata.namespace={ns}", "abcde"),
    "another namespace": ("metadata.namespace=default", ""),
    "not this namespace": ("metadata.namespace!={ns}", ""),
    "name and namespace": ("metadata.name=b,metadata.namespace={ns}", "b"),
}
SELECTORS: Final = {
    **{f"label: {what}": ({"labelSelector": text}, names) for what, (text, names) in LABEL_SELECTORS.items()},
    **{f"field: {what}": ({"fieldSelector": text}, names) for what, (text, names) in FIELD_SELECTORS.items()},
    "label and field": ({"labelSelector": "app=web", "fieldSelector": "metadata.name!=a"}, "b"),
    "label, field, and no match": ({"labelSelector": "app=db", "fieldSelector": "metadata.name=a"}, ""),
}
each_selector = pytest.mark.parametrize(("query", "names"), SELECTORS.values(), ids=SELECTORS)


@pytest.fixture
def configmaps(api: Api, namespace: str) -> str:
    """The path of a collection of five."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name, labels in LABELS.items():
        api.post(path, {"metadata": {"name": name, "labels": labels}}).ok()
    return path


def query_of(selectors: dict[str, str], namespace: str, **more: Any) -> str:
    return urlencode({key: text.format(ns=namespace) for key, text in selectors.items()} | more)


def names_of(document: dict[str, Any]) -> str:
    return "".join(item["metadata"]["name"] for item in document["items"])


@each_selector
def test_list(api: Api, namespace: str, configmaps: str, query: dict[str, str], names: str) -> None:
    """The same at any read: most recent, from the cache, and in chunks."""
    for more in ({}, {"resourceVersion": "0"}, {"limit": 100}):
        assert names_of(api.get(f"{configmaps}?{query_of(query, namespace, **more)}").ok()) == names


@each_selector
def test_watch(api: Api, namespace: str, configmaps: str, query: dict[str, str], names: str) -> None:
    """Initial events, and what happens later: the bookmark tells where the former end."""
    text = query_of(query, namespace, watch=1, allowWatchBookmarks="true")
    with api.watch(f"{configmaps}?{text}") as events:
        expected = [("ADDED", name) for name in names]
        assert events.take(len(names) + 1) == [*expected, ("BOOKMARK", "")]
        for name in LABELS:
            api.patch(f"{configmaps}/{name}", {"data": {"k": "v"}}).ok()
        if names:
            assert events.take(len(names)) == [("MODIFIED", name) for name in names]


@each_selector
def test_deletecollection(
    api: Api, namespace: str, configmaps: str, query: dict[str, str], names: str
) -> None:
    """Row G16: what is selected goes, nothing else does."""
    assert names_of(api.delete(f"{configmaps}?{query_of(query, namespace)}").ok()) == names
    assert names_of(api.get(configmaps).ok()) == "".join(name for name in LABELS if name not in names)


def test_deletecollection_takes_no_more_than_the_limit(api: Api, configmaps: str) -> None:
    """Row G16."""
    assert names_of(api.delete(f"{configmaps}?limit=2").ok()) == "ab"
    assert names_of(api.get(configmaps).ok()) == "cde"


def test_over_all_namespaces(api: Api, namespace: str, configmaps: str) -> None:
    """Rows I02, I18: the namespace is a field like others."""
    for selector in (f"metadata.namespace={namespace}", f"metadata.namespace={namespace},metadata.name!=z"):
        assert names_of(api.get(f"/api/v1/configmaps?fieldSelector={selector}").ok()) == "abcde"
    found = api.get(f"/api/v1/configmaps?fieldSelector=metadata.name=c,metadata.namespace={namespace}").ok()
    assert [item["metadata"]["namespace"] for item in found["items"]] == [namespace]


# Fields of their own, as in each type's ToSelectableFields in Kubernetes.
POD: Final[dict[str, Any]] = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
OWN_FIELDS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any], str]]] = {
    "a pod's node": ("pods", POD, {"spec": POD["spec"] | {"nodeName": "n"}}, "spec.nodeName=n"),
    "a pod's restart policy": (
        "pods",
        {"spec": POD["spec"] | {"restartPolicy": "Always"}},
        {"spec": POD["spec"] | {"restartPolicy": "Never"}},
        "spec.restartPolicy=Never",
    ),
    "a secret's type": ("secrets", {}, {"type": "x.io/own"}, "type=x.io/own"),
    "a secret's default type": ("secrets", {"type": "x.io/own"}, {}, "type=Opaque"),
    "an event's reason": ("events", {"reason": "A"}, {"reason": "B"}, "reason=B"),
    "an event's component": (
        "events",
        {"source": {"component": "x"}, "reportingComponent": "kubelet"},
        {"source": {"component": "kubelet"}, "reportingComponent": "x"},
        "source=kubelet",
    ),
    "the component of an event of the new kind": (
        "events",
        {"reportingComponent": "x"},
        {"reportingComponent": "kubelet"},
        "source=kubelet",
    ),
    "a pod's node, as clients from before v1 call it": (
        "pods",
        POD,
        {"spec": POD["spec"] | {"nodeName": "n"}},
        "spec.host=n",
    ),
    "whom an event is about": (
        "events",
        {"involvedObject": {"kind": "Pod"}},
        {"involvedObject": {"kind": "Node"}},
        "involvedObject.kind=Node",
    ),
}


@pytest.mark.parametrize(("resource", "other", "wanted", "selector"), OWN_FIELDS.values(), ids=OWN_FIELDS)
def test_fields_that_a_type_has_of_its_own(
    api: Api, namespace: str, resource: str, other: dict[str, Any], wanted: dict[str, Any], selector: str
) -> None:
    """Row I18."""
    path = f"/api/v1/namespaces/{namespace}/{resource}"
    for name, fields in (("a", other), ("b", wanted)):
        body = {"metadata": {"name": name, "namespace": namespace}, **fields}
        if resource == "events":
            body["involvedObject"] = {"namespace": namespace, **fields.get("involvedObject", {})}
        api.post(path, body).ok()
    assert names_of(api.get(f"{path}?fieldSelector={selector}").ok()) == "b"
    assert names_of(api.get(f"{path}?fieldSelector={selector.replace('=', '!=')}").ok()) == "a"


def test_the_phase_of_namespaces(api: Api, namespace: str) -> None:
    """Row I18, of a cluster-scoped type."""
    path = "/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D"
    assert [each["metadata"]["name"] for each in api.get(path + namespace).ok()["items"]] == [namespace]
    assert api.get("/api/v1/namespaces?fieldSelector=status.phase%3DGone").ok()["items"] == []


# Kubernetes' default: name and namespace, also where there are no namespaces.
_DEFAULT: Final = '"zz" is not a known field selector: only "metadata.name", "metadata.namespace"'
UNKNOWN_FIELDS: Final = {
    "/api/v1/configmaps": _DEFAULT,
    "/api/v1/persistentvolumes": _DEFAULT,
    "/apis/apps/v1/replicasets": _DEFAULT,
    "/api/v1/nodes": "field label not supported: zz",
    "/api/v1/pods": "field label not supported: zz",
    "/apis/events.k8s.io/v1/events": "field label not supported: zz",
    "/apis/batch/v1/jobs": 'field label "zz" not supported for Job',
    "/apis/resource.k8s.io/v1/resourceslices": (
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: zz"
    ),
}


@pytest.mark.parametrize(("path", "message"), UNKNOWN_FIELDS.items(), ids=UNKNOWN_FIELDS)
def test_fields_that_a_type_cannot_be_selected_by(api: Api, path: str, message: str) -> None:
    answer = api.get(f"{path}?fieldSelector=zz=x")
    assert (answer.status, answer.message) == (400, message)


# Types that have fields of their own name all that they can be selected by.
WITH_FIELDS_OF_THEIR_OWN: Final = (
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
)


@pytest.mark.parametrize("path", WITH_FIELDS_OF_THEIR_OWN)
def test_some_types_without_namespaces_do_not_know_the_field(api: Api, path: str) -> None:
    answer = api.get(f"{path}?fieldSelector=metadata.namespace=x")
    assert (answer.status, answer.message) == (400, "field label not supported: metadata.namespace")


WITHOUT_NAMESPACES: Final = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)


@pytest.mark.parametrize("path", WITHOUT_NAMESPACES)
def test_the_namespace_of_what_has_none_is_empty(api: Api, path: str) -> None:
    answer = api.get(f"{path}?fieldSelector=metadata.namespace=x")
    assert answer.ok()["items"] == []
    everything = api.get(path).ok()["items"]
    for selector in ("metadata.namespace!=x", "metadata.namespace="):
        assert api.get(f"{path}?fieldSelector={selector}").ok()["items"] == everything


TRANSITIONS: Final = [
    # (labels after the change, what a watch with app=web sees)
    ({"app": "web"}, "ADDED"),
    ({"app": "web", "more": "1"}, "MODIFIED"),
    ({"app": "db"}, "DELETED"),
    ({"app": "db", "more": "2"}, None),
    ({"app": "web"}, "ADDED"),
]


def test_objects_that_enter_and_leave_a_watch(api: Api, configmaps: str) -> None:
    """Row M06: who leaves the selection is shown as it was before, at the version of the change."""
    path = f"{configmaps}/e"
    start = api.get(configmaps).ok()["metadata"]["resourceVersion"]
    expected = []
    before: dict[str, Any] = {}
    for labels, seen in TRANSITIONS:
        after = api.put(path, {"metadata": {"name": "e", "labels": labels}}).ok()
        if seen == "DELETED":
            version = after["metadata"]["resourceVersion"]
            expected.append((seen, before | {"metadata": before["metadata"] | {"resourceVersion": version}}))
        elif seen:
            expected.append((seen, after))
        before = after
    with api.watch(f"{configmaps}?watch=1&labelSelector=app%3Dweb&resourceVersion={start}") as events:
        seen_events = itertools.islice(events, len(expected))
        assert [(event["type"], event["object"]) for event in seen_events] == expected


def test_a_pod_that_changes_its_phase(api: Api, namespace: str) -> None:
    """Row M06, with a field."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    with api.watch(f"{path}?watch=1&fieldSelector=status.phase%3DRunning") as events:
        api.post(path, {"metadata": {"name": "p"}, **POD}).ok()
        for phase in ("Running", "Failed"):
            api.patch(f"{path}/p/status", {"status": {"phase": phase}}).ok()
        assert events.take(2) == [("ADDED", "p"), ("DELETED", "p")]
