"""What is deleted, and what is kept back: finalizers, preconditions, grace periods. Rows G01-G16, A06."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.support.api import Answer, Api, assert_refused, names_in, with_callers
from tests.support.objects import deployment, named, pod, version_of

CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"
PODS: Final = "/api/v1/namespaces/{}/pods"


FINALIZER: Final = "example.com/hold"


def test_a_delete_is_answered_with_a_status(api: Api, path: str) -> None:
    """Row G04."""
    uid = api.get(path).ok()["metadata"]["uid"]
    status = api.delete(path).ok()
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": uid}


def test_finalizers_hold_an_object(api: Api, configmaps: str) -> None:
    """Rows B05-B07, G01-G03, G05."""
    path = f"{configmaps}/held"
    others = ["x.io/b", "x.io/c"]
    api.post(configmaps, named("held", finalizers=[FINALIZER, *others])).ok()
    marked = api.delete(path).ok()
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert api.get(path).ok() == marked
    assert api.delete(path).ok() == marked, "a second delete changes nothing"

    answer = api.patch(path, {"metadata": {"finalizers": [FINALIZER, *others, "x.io/d"]}})
    assert_refused(answer, 422, "Invalid", "no new finalizers can be added if the object is being deleted")
    assert api.patch(path, {"metadata": {"deletionTimestamp": None}}).ok() == marked, "no way back"
    assert_refused(api.post(configmaps, named("held")), 409, "AlreadyExists")

    reordered = api.patch(path, {"metadata": {"finalizers": [*reversed(others), FINALIZER]}}).ok()
    assert reordered["metadata"]["finalizers"] == [*reversed(others), FINALIZER]
    api.patch(path, {"metadata": {"finalizers": others}}).ok()
    assert api.get(path).status == 200
    api.patch(path, {"metadata": {"finalizers": None}}).ok()
    assert api.get(path).status == 404
    assert api.post(configmaps, named("held")).status == 201


def with_preconditions(api: Api, path: str, place: str, wanted: dict[str, str], options: str = "") -> Answer:
    """A delete with preconditions in its query or its body; options: others, of the query."""
    if place == "query":
        return api.delete(f"{path}?{urlencode(wanted)}&{options}")
    return api.delete(path, {"preconditions": wanted} | ({"dryRun": ["All"]} if options else {}))


# Row G06: what is deleted, and what a refusal calls it. Namespaces and definitions have other words for it.
CONDITIONAL: Final = {
    "an object": (CONFIGMAPS, named("a"), "ConfigMap", "in the precondition"),
    "an object of a named group": (DEPLOYMENTS, deployment("a"), "Deployment", "in the precondition"),
    "an object with a grace period": (PODS, pod("a", nodeName="n"), "Pod", "in the precondition"),
    "an object with a finalizer": (
        CONFIGMAPS,
        named("a", finalizers=[FINALIZER]),
        "ConfigMap",
        "in the precondition",
    ),
    "a namespace": ("/api/v1/namespaces", {"metadata": {}}, "namespaces", "Precondition failed: "),
}


@pytest.mark.parametrize("options", ["", "dryRun=All"], ids=["for good", "dry run"])
@pytest.mark.parametrize("place", ["query", "body"])
@pytest.mark.parametrize(("kind", "body", "called", "words"), CONDITIONAL.values(), ids=CONDITIONAL)
def test_preconditions_of_a_delete(
    api: Api,
    namespace: str,
    kind: str,
    body: dict[str, Any],
    called: str,
    words: str,
    place: str,
    options: str,
) -> None:
    """Row G06."""
    collection = kind.format(namespace)
    generated = {"metadata": {"generateName": f"{namespace}-"}} if called == "namespaces" else body
    created = api.post(collection, generated).ok()
    meta, path = created["metadata"], f"{collection}/{created['metadata']['name']}"
    group = str(created["apiVersion"]).rpartition("/")[0]
    details = {"name": meta["name"], "kind": called} | ({"group": group} if group else {})
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}, {"uid": meta["uid"], "resourceVersion": "1"}):
        refusal = with_preconditions(api, path, place, wrong, options)
        assert_refused(refusal, 409, "Conflict", words)
        assert refusal.json["details"] == details
        assert api.get(path).ok() == created
    right = {key: meta[key] for key in ("uid", "resourceVersion")}
    with_preconditions(api, path, place, right, options).ok()
    assert (api.get(path).json == created) is bool(options)


@pytest.mark.parametrize("options", ["", "dryRun=All"], ids=["for good", "dry run"])
@pytest.mark.parametrize("place", ["query", "body"])
def test_preconditions_of_a_deletecollection(
    api: Api, configmaps: str, path: str, place: str, options: str
) -> None:
    """Row G06: they hold for each object. A resourceVersion in a query is also the version of the list."""
    meta = api.get(path).ok()["metadata"]
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        assert_refused(with_preconditions(api, configmaps, place, wrong, options), 409, "Conflict")
        assert names_in(api, configmaps) == ["a"]
    right = {key: meta[key] for key in ("uid", "resourceVersion")}
    with_preconditions(api, configmaps, place, right, options).ok()
    assert names_in(api, configmaps) == (["a"] if options else [])


def test_a_deletecollection_deletes_what_comes_before_the_object_that_fails(
    api: Api, configmaps: str
) -> None:
    """Rows A06, G06: what comes before it is gone, always, and nothing that comes after it."""
    names = [f"o{number:02}" for number in range(40)]
    for name in names:
        api.post(configmaps, named(name)).ok()
    first = api.get(f"{configmaps}/o00").ok()["metadata"]["uid"]
    answer = api.delete(configmaps, {"preconditions": {"uid": first}})
    assert_refused(answer, 409, "Conflict", 'ConfigMap "o01": the UID in the precondition')
    assert names_in(api, configmaps) == names[1:]


def test_the_body_of_a_delete_has_all_its_options(api: Api, path: str) -> None:
    """Row G09: of a query beside a body no option counts, not even a dry run."""
    query = urlencode({"uid": "other", "dryRun": "All", "propagationPolicy": "x"})
    api.delete(f"{path}?{query}", {"kind": "DeleteOptions", "apiVersion": "v1"}).ok()
    assert api.get(path).status == 404


PROPAGATION: Final = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"], "Background": None}


@pytest.mark.parametrize(("policy", "finalizers"), PROPAGATION.items(), ids=PROPAGATION)
@pytest.mark.parametrize("place", ["query", "body"])
def test_propagation(api: Api, path: str, policy: str, finalizers: list[str] | None, place: str) -> None:
    """Rows G08, G09: whoever collects garbage finds what to do in the finalizers."""
    if place == "query":
        api.delete(f"{path}?propagationPolicy={policy}").ok()
    else:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        api.delete(path, body).ok()
    answer = api.get(path)
    assert (answer.json["metadata"]["finalizers"] if answer.status == 200 else None) == finalizers


REFUSED_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "an unknown policy": {"propagationPolicy": "Sideways"},
    "both ways to say it": {"propagationPolicy": "Orphan", "orphanDependents": True},
    "an unknown dry run": {"dryRun": ["Some"]},
}


@pytest.mark.parametrize("options", REFUSED_OPTIONS.values(), ids=REFUSED_OPTIONS)
def test_invalid_delete_options(api: Api, path: str, options: dict[str, Any]) -> None:
    """Row G07."""
    assert_refused(api.delete(path, options), 422, "Invalid", next(iter(options)))
    assert api.get(path).status == 200


def test_a_pod_on_a_node_has_a_grace_period(api: Api, namespace: str) -> None:
    """Rows G01, G05: until the time is up or somebody confirms; it can only be shortened."""
    collection = PODS.format(namespace)
    path = f"{collection}/p"
    api.post(collection, pod("p", nodeName="n")).ok()

    def grace_s(query: str) -> int:
        return int(api.delete(path + query).ok()["metadata"]["deletionGracePeriodSeconds"])

    assert [grace_s(q) for q in ("", "?gracePeriodSeconds=9", "?gracePeriodSeconds=20")] == [30, 9, 9]
    assert api.delete(path, {"gracePeriodSeconds": 5}).ok()["metadata"]["deletionGracePeriodSeconds"] == 5
    api.delete(f"{path}?gracePeriodSeconds=0").ok()
    assert api.get(path).status == 404

    api.post(collection, pod("p")).ok()
    assert api.delete(path).ok()["metadata"]["name"] == "p", "nobody has to stop it: gone at once"
    assert api.get(path).status == 404


def test_deletecollection(api: Api, configmaps: str) -> None:
    """Rows A06, G16: the answer lists what was deleted; what has finalizers is marked."""
    for name in ("a", "b", "c"):
        api.post(configmaps, named(name, finalizers=[FINALIZER] if name == "b" else [])).ok()
    listed = api.delete(configmaps).ok()
    assert listed["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    (left,) = api.get(configmaps).ok()["items"]
    assert left["metadata"]["name"] == "b"
    assert left["metadata"]["deletionTimestamp"]
    assert_refused(api.delete("/api/v1/namespaces"), 405, "MethodNotAllowed")


LARGE: Final = {"k": "x" * 300_000}
LIST_FORMS: Final = {
    "JSON": "application/json",
    "YAML": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "table": "application/json;as=Table;g=meta.k8s.io;v=v1",
    "metadata": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
}


def test_a_deletecollection_of_more_than_is_kept_for_the_answer(api: Api, configmaps: str) -> None:
    """Row G16: the list is read again while it is sent, as it was before all was deleted."""
    for number in range(20):
        api.post(configmaps, {**named(f"c{number:02}"), "data": LARGE}).ok()

    at = f"?resourceVersionMatch=Exact&resourceVersion={version_of(api.get(configmaps).ok())}"

    def answer(method: str, accept: str, body: Any = None) -> bytes:
        """Returns the list at one revision; of a table the ages as if no time passed."""
        found = api.send(method, f"{configmaps}{at}", body, headers={"Accept": accept}).body
        return re.sub(rb'"\d+s"', b'"age"', found)

    for accept in LIST_FORMS.values():
        assert answer("DELETE", accept, {"dryRun": ["All"]}) == answer("GET", accept)
    first = api.delete(f"{configmaps}?limit=18&labelSelector=none!=this").ok()
    assert [each["metadata"]["name"] for each in first["items"]] == [f"c{number:02}" for number in range(18)]
    assert all(each["data"] == LARGE for each in first["items"])
    assert first["metadata"]["continue"]
    assert names_in(api, configmaps) == ["c18", "c19"]


def test_deletes_of_one_object_at_the_same_time(api: Api, path: str) -> None:
    """Row G05: one removes it, the others find it gone."""
    codes: list[int] = []
    with_callers(api, 8, lambda caller, _: codes.append(caller.delete(path).status))
    assert sorted(codes) == [200] + [404] * 7


PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.mark.parametrize("query", ["", "?dryRun=All"], ids=["delete", "dry run"])
def test_what_the_server_itself_needs_cannot_be_deleted(api: Api, query: str) -> None:
    """Kubernetes: pkg/registry/scheduling/priorityclass/storage."""
    path = f"{PRIORITY_CLASSES}/system-node-critical"
    refused = api.delete(path + query)
    assert (refused.status, refused.message) == (
        403,
        (
            'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system '
            "priority class and cannot be deleted"
        ),
    )
    api.get(path).ok()
