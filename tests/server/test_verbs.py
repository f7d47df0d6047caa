"""What each verb does to an object, over HTTP. Rows A01-A16, B01-B13, C01-C10, G01-G16, I01-I13, L01-L08."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from tests.support.api import STRATEGIC_PATCH, Answer, Api, assert_refused, names_in, with_callers
from tests.support.objects import deployment, named, version_of
from tests.support.served import BUILT_IN

CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"


# ---- the verbs

TYPES: Final = {
    "namespaced, core group": (CONFIGMAPS, "v1", "ConfigMap"),
    "namespaced, named group": (
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
        "coordination.k8s.io/v1",
        "Lease",
    ),
    "cluster-scoped": ("/api/v1/namespaces", "v1", "Namespace"),
}


@pytest.mark.parametrize(("collection", "api_version", "kind"), TYPES.values(), ids=TYPES)
def test_every_verb_on_one_object(
    api: Api, namespace: str, collection: str, api_version: str, kind: str
) -> None:
    """Rows A01, A06, B03, C01, C02, C08, I01-I05, I07-I09, I16."""
    collection, name = collection.format(namespace), f"one-of-{namespace}"
    item = f"{collection}/{name}"

    answer = api.post(collection, named(name, labels={"a": "1"}))
    created = answer.ok()
    assert answer.status == 201
    assert (created["apiVersion"], created["kind"]) == (api_version, kind)
    is_namespaced = "/namespaces/" in collection
    assert created["metadata"].get("namespace") == (namespace if is_namespaced else None)
    assert api.get(item).ok() == created

    listed = api.get(collection).ok()
    assert (listed["apiVersion"], listed["kind"]) == (api_version, f"{kind}List")
    (found,) = [each for each in listed["items"] if each["metadata"]["name"] == name]
    assert found["metadata"] == created["metadata"]
    assert int(version_of(listed)) >= int(version_of(created))

    created["metadata"]["labels"]["a"] = "2"
    updated = api.put(item, created).ok()
    merged = api.patch(item, {"metadata": {"labels": {"b": "3"}}}).ok()
    assert {"a": "2", "b": "3"}.items() <= merged["metadata"]["labels"].items()
    patched = api.patch(item, [{"op": "remove", "path": "/metadata/labels/a"}], "json-patch").ok()
    assert "a" not in patched["metadata"]["labels"]
    assert (
        int(version_of(created))
        < int(version_of(updated))
        < int(version_of(merged))
        < int(version_of(patched))
    )
    assert api.get(item).ok() == patched

    assert api.delete(item).ok()
    if is_namespaced:  # Namespaces take their time: test_namespaces.py.
        assert_refused(api.get(item), 404, "NotFound", f'"{name}" not found')
        assert name not in names_in(api, collection)


def test_a_list_over_all_namespaces(api: Api, namespace: str) -> None:
    """Rows A11, C10, I02: one name in two places is two objects; they come in the order of their keys."""
    other = f"{namespace}x"
    api.post("/api/v1/namespaces", named(other)).ok()
    for where, name in ((other, "a"), (namespace, "b"), (namespace, "a")):
        api.post(CONFIGMAPS.format(where), named(name)).ok()
    metas = [item["metadata"] for item in api.get("/api/v1/configmaps").ok()["items"]]
    keys = [f"{meta['namespace']}/{meta['name']}" for meta in metas]
    assert [key for key in keys if key.startswith(namespace)] == [
        f"{namespace}/a",
        f"{namespace}/b",
        f"{other}/a",
    ]
    assert keys == sorted(keys)


def test_an_empty_list_is_an_array(api: Api, configmaps: str) -> None:
    """Rows C03, C04, C09."""
    listed = api.get(configmaps).ok()
    assert listed["items"] == []
    assert set(listed["metadata"]) == {"resourceVersion"}
    api.post(configmaps, named("a")).ok()
    (item,) = api.get(configmaps).ok()["items"]
    assert not {"kind", "apiVersion"} & set(item)


def test_names_are_unique(api: Api, configmaps: str) -> None:
    """Rows A09, A10."""
    first = api.post(configmaps, named("a")).ok()
    assert_refused(api.post(configmaps, named("a")), 409, "AlreadyExists", 'configmaps "a" already exists')
    api.delete(f"{configmaps}/a").ok()
    second = api.post(configmaps, named("a")).ok()
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


ABSENT: Final[dict[str, Callable[[Api, str], Answer]]] = {
    "get": lambda api, path: api.get(path),
    "put": lambda api, path: api.put(path, named("nope")),
    "merge patch": lambda api, path: api.patch(path, {}),
    "JSON patch": lambda api, path: api.patch(path, [], "json-patch"),
    "delete": lambda api, path: api.delete(path),
}


@pytest.mark.parametrize("request_", ABSENT.values(), ids=ABSENT)
def test_absent_objects(api: Api, configmaps: str, request_: Callable[[Api, str], Answer]) -> None:
    """Rows A03, G05, I21, L07."""
    answer = request_(api, f"{configmaps}/nope")
    assert_refused(answer, 404, "NotFound", 'configmaps "nope" not found')
    assert answer.json["details"] == {"name": "nope", "kind": "configmaps"}


LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
# What is put, and what a PUT of an existing object without a version is answered.
CREATED_BY_PUT: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "/api/v1/namespaces/{}/endpoints": ({}, 200),
    "/api/v1/namespaces/default/events": ({"involvedObject": {"namespace": "default"}}, 200),
    LEASES: ({}, 422),
    "/apis/node.k8s.io/v1/runtimeclasses": ({"handler": "runc"}, 422),
}


@pytest.mark.parametrize(("path", "fields", "code"), [(k, *v) for k, v in CREATED_BY_PUT.items()])
def test_put_creates_where_the_type_allows_it(
    api: Api, namespace: str, path: str, fields: dict[str, Any], code: int
) -> None:
    """Rows A03, L02."""
    path, body = f"{path.format(namespace)}/{namespace}", named(namespace) | fields
    answer = api.put(path, body)
    assert answer.status == 201, answer.body
    assert api.get(path).ok() == answer.json
    body["metadata"]["labels"] = {"a": "b"}
    again = api.put(path, body)
    assert again.status == code
    if code == 422:
        assert again.message.endswith("resourceVersion: Invalid value: 0: must be specified for an update")
    body["metadata"]["resourceVersion"] = version_of(api.get(path).ok())
    assert api.put(path, body).status == 200


CLUSTER_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
# What is sent about an object that belongs to the cluster: path, kind, apiVersion.
SAID: Final[dict[str, Callable[[Api, str, dict[str, Any]], Answer]]] = {
    "PUT": lambda api, path, body: api.put(path, body),
    "merge patch": lambda api, path, body: api.patch(path, {"metadata": body["metadata"]}),
    "strategic merge patch": lambda api, path, body: api.patch(
        path, {"metadata": body["metadata"]}, STRATEGIC_PATCH
    ),
    "JSON patch": lambda api, path, body: api.patch(
        path, [{"op": "add", "path": "/metadata/namespace", "value": "elsewhere"}], "json-patch"
    ),
    "apply": lambda api, path, body: api.apply(f"{path}?fieldManager=m&force=true", body),
    "apply of a new one": lambda api, path, body: api.apply(
        f"{path}-new?fieldManager=m",
        body | {"metadata": {**body["metadata"], "name": body["metadata"]["name"] + "-new"}},
    ),
}


@pytest.mark.parametrize("say", SAID.values(), ids=SAID)
@pytest.mark.parametrize("kind", ["ClusterRole", "Namespace"])
def test_what_belongs_to_the_cluster_loses_the_namespace_that_it_is_given(
    api: Api, namespace: str, kind: str, say: Callable[[Api, str, dict[str, Any]], Answer]
) -> None:
    """Row B03. Files of real projects have it, and tools for GitOps patch and apply them as they are."""
    group = "rbac.authorization.k8s.io/v1" if kind == "ClusterRole" else "v1"
    path = CLUSTER_ROLES if kind == "ClusterRole" else "/api/v1/namespaces"
    body = {"apiVersion": group, "kind": kind, **named(f"c-{namespace}", namespace="elsewhere")}
    created = api.post(path, body).ok()
    assert "namespace" not in created["metadata"]
    answered = say(api, f"{path}/c-{namespace}", body).ok()
    assert "namespace" not in answered["metadata"]
    assert api.get(f"{path}/{answered['metadata']['name']}").ok() == answered


def test_what_is_in_a_namespace_is_not_moved(api: Api, path: str) -> None:
    """Row A16."""
    for patched in (
        api.patch(path, {"metadata": {"namespace": "elsewhere"}}),
        api.patch(path, [{"op": "replace", "path": "/metadata/namespace", "value": "x"}], "json-patch"),
    ):
        assert_refused(patched, 400, "BadRequest", "does not match the namespace sent on the request")


REPLACED_BY_VERSION: Final[dict[str, dict[str, Any]]] = {
    LEASES: {},
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets": {"spec": {"minAvailable": 1}},
    "/apis/storage.k8s.io/v1/csinodes": {"spec": {"drivers": []}},
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {},
}


@pytest.mark.parametrize(("path", "fields"), REPLACED_BY_VERSION.items(), ids=REPLACED_BY_VERSION)
def test_types_without_unconditional_updates(
    api: Api, namespace: str, path: str, fields: dict[str, Any]
) -> None:
    """Row L02: whoever replaces the object, or takes its version away by a patch, has to name one."""
    path, body = path.format(namespace), named(namespace) | fields
    created = api.post(path, body).ok()
    one = f"{path}/{namespace}"
    for refused in (
        api.put(one, body),
        api.put(one, named(namespace, resourceVersion="0") | fields),
        api.patch(one, {"metadata": {"resourceVersion": None, "labels": {"a": "b"}}}),
        api.patch(one, [{"op": "remove", "path": "/metadata/resourceVersion"}], "json-patch"),
    ):
        assert_refused(refused, 422, "Invalid", "resourceVersion: Invalid value: 0: must be specified")
    assert api.patch(one, {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert api.put(one, created).status == 409
    assert api.put(one, api.get(one).ok()).status == 200


# ---- metadata


def test_a_generated_name(api: Api, configmaps: str) -> None:
    """Row B02."""
    created = [api.post(configmaps, {"metadata": {"generateName": "my-"}}).ok() for _ in range(5)]
    names = {each["metadata"]["name"] for each in created}
    assert len(names) == 5
    assert all(re.fullmatch("my-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert {each["metadata"]["generateName"] for each in created} == {"my-"}
    long = api.post(configmaps, {"metadata": {"generateName": "x" * 80}}).ok()
    assert re.fullmatch("x{58}[bcdfghjklmnpqrstvwxz2456789]{5}", long["metadata"]["name"])
    named_too = api.post(configmaps, {"metadata": {"name": "mine", "generateName": "my-"}}).ok()
    assert named_too["metadata"]["name"] == "mine"


def test_server_set_metadata_cannot_be_written(api: Api, configmaps: str) -> None:
    """Rows B04, B05, B08, B12, B13."""
    theirs = {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 7,
        "selfLink": "/mine",
    }
    meta = api.post(configmaps, named("a", **theirs)).ok()["metadata"]
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(meta)
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", meta["uid"])
    assert re.fullmatch(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["creationTimestamp"])

    updated = api.put(f"{configmaps}/a", named("a", creationTimestamp="2001-01-01T00:00:00Z")).ok()[
        "metadata"
    ]
    assert (updated["uid"], updated["creationTimestamp"]) == (meta["uid"], meta["creationTimestamp"])
    answer = api.patch(f"{configmaps}/a", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})
    assert_refused(answer, 422, "Invalid")
    assert ("FieldValueInvalid", "metadata.deletionTimestamp") in answer.causes


def test_a_patch_may_not_rename(api: Api, path: str) -> None:
    """Row B01."""
    assert_refused(api.patch(path, {"metadata": {"name": "b"}}), 400, "BadRequest", "name")
    assert_refused(api.patch(path, {"metadata": {"uid": "b"}}), 422, "Invalid", "field is immutable")


def test_generation_counts_changes_of_the_spec(api: Api, namespace: str) -> None:
    """Row B12."""
    path = f"{DEPLOYMENTS.format(namespace)}/d"
    assert (
        api.post(DEPLOYMENTS.format(namespace), deployment("d", replicas=1)).ok()["metadata"]["generation"]
        == 1
    )

    def after(patch: dict[str, Any], where: str = path) -> int:
        return int(api.patch(where, patch).ok()["metadata"]["generation"])

    assert after({"metadata": {"labels": {"a": "b"}}}) == 1
    assert after({"status": {"replicas": 3}}, f"{path}/status") == 1
    assert after({"spec": {"replicas": 2}}) == 2
    assert after({"spec": {"replicas": 2}}) == 2
    assert after({"metadata": {"generation": 9}}) == 2


# ---- versions and conflicts

NO_OPS: Final[dict[str, Callable[[Api, str], Answer]]] = {
    "PUT of what was read": lambda api, path: api.put(path, api.get(path).ok()),
    "PUT without what the server owns": lambda api, path: api.put(path, named("a") | {"data": {"k": "v"}}),
    "empty merge patch": lambda api, path: api.patch(path, {}),
    "merge patch with the same value": lambda api, path: api.patch(path, {"data": {"k": "v"}}),
    "empty JSON patch": lambda api, path: api.patch(path, [], "json-patch"),
    "JSON patch with the same value": lambda api, path: api.patch(
        path, [{"op": "replace", "path": "/data/k", "value": "v"}], "json-patch"
    ),
}


@pytest.mark.parametrize("write", NO_OPS.values(), ids=NO_OPS)
def test_a_write_that_changes_nothing_is_a_no_op(
    api: Api, path: str, write: Callable[[Api, str], Answer]
) -> None:
    """Row B09: same version, and no event before that of the next real write."""
    before = api.get(path).ok()
    assert write(api, path).ok() == before
    assert api.get(path).ok() == before
    changed = api.patch(path, {"data": {"k": "w"}}).ok()
    collection = path.rpartition("/")[0]
    with api.watch(f"{collection}?watch=1&resourceVersion={version_of(before)}") as events:
        assert events.next()["object"] == changed


STALE: Final[dict[str, Callable[[Api, str, str], Answer]]] = {
    "PUT": lambda api, path, rv: api.put(path, named("a", resourceVersion=rv)),
    "merge patch": lambda api, path, rv: api.patch(path, {"metadata": {"resourceVersion": rv}}),
    "JSON patch": lambda api, path, rv: api.patch(
        path, [{"op": "replace", "path": "/metadata/resourceVersion", "value": rv}], "json-patch"
    ),
    "JSON patch with If-Match": lambda api, path, rv: api.patch(
        path, [{"op": "remove", "path": "/data/k"}], "json-patch", headers={"If-Match": f'"{rv}"'}
    ),
}


@pytest.mark.parametrize("write", STALE.values(), ids=STALE)
def test_a_write_on_an_old_version_conflicts(
    api: Api, path: str, write: Callable[[Api, str, str], Answer]
) -> None:
    """Rows L01, L04, L05."""
    old = version_of(api.get(path).ok())
    current = api.patch(path, {"data": {"k": "w"}}).ok()
    message = 'Operation cannot be fulfilled on configmaps "a": the object has been modified'
    assert_refused(write(api, path, old), 409, "Conflict", message)
    assert api.get(path).ok() == current
    assert write(api, path, version_of(current)).status == 200


VERSIONED_WRITES: Final[dict[str, Callable[[Api, str, str], Answer]]] = {
    **{form: write for form, write in STALE.items() if form != "JSON patch with If-Match"},
    "strategic merge patch": lambda api, path, rv: api.patch(
        path, {"metadata": {"resourceVersion": rv}}, STRATEGIC_PATCH
    ),
    "apply": lambda api, path, rv: api.apply(
        f"{path}?fieldManager=m",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": rv}},
    ),
}


@pytest.mark.parametrize("write", VERSIONED_WRITES.values(), ids=VERSIONED_WRITES)
def test_versions_that_a_write_names(api: Api, path: str, write: Callable[[Api, str, str], Answer]) -> None:
    """Rows L01, J11: versions are compared as numbers. 0 means that none is given."""
    for given in ("0", "00"):
        assert write(api, path, given).status == 200
    assert write(api, path, f"00{version_of(api.get(path).ok())}").status == 200
    assert_refused(write(api, path, "1"), 409, "Conflict")
    assert_refused(write(api, path, "v1"), 400, "BadRequest", "invalid resource version")
    answer = api.delete(path, {"preconditions": {"resourceVersion": "0"}})
    assert_refused(answer, 409, "Conflict", "the ResourceVersion in the precondition (0)")


# Row L04, RFC 9110, 13.1.1: V is the object's version.
IF_MATCH: Final = {
    '"V"': 200,
    "V": 200,
    '"1", "V"': 200,
    '"V","1"': 200,
    ' "1" ,, "V" ': 200,
    "*": 200,
    '"1", *': 200,
    '"1"': 409,
    '"1", "2"': 409,
    'W/"V"': 409,
    '"1V"': 409,
    '""': 409,
}


@pytest.mark.parametrize(("header", "code"), IF_MATCH.items(), ids=IF_MATCH)
def test_if_match_names_the_versions_that_a_json_patch_may_change(
    api: Api, path: str, header: str, code: int
) -> None:
    sent = {"If-Match": header.replace("V", version_of(api.get(path).ok()))}
    patch = [{"op": "add", "path": "/data/k", "value": "w"}]
    assert api.patch(path, patch, "json-patch", headers=sent).status == code


SCALE: Final = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}}


def test_the_version_that_a_scale_names(api: Api, namespace: str) -> None:
    path = DEPLOYMENTS.format(namespace)
    api.post(path, deployment("a")).ok()
    for given, code in (("0", 200), ("1", 409), ("v1", 400)):
        assert api.put(f"{path}/a/scale", named("a", resourceVersion=given) | SCALE).status == code
        patch = {"metadata": {"resourceVersion": given}, "spec": {"replicas": 3}}
        assert api.patch(f"{path}/a/scale", patch).status == code


def test_put_preconditions(api: Api, path: str) -> None:
    """Row L02: no version, no condition; another uid is another object."""
    assert api.put(path, named("a") | {"data": {"k": "w"}}).ok()["data"] == {"k": "w"}
    assert_refused(api.put(path, named("a", uid="other")), 409, "Conflict", "UID in precondition: other")


def test_no_update_is_lost(api: Api, path: str) -> None:
    """Row L01: read, add one, write, and again on a conflict: every addition counts."""

    def add_ten(caller: Api, _: int) -> None:
        done = 0
        while done < 10:
            found = caller.get(path).ok()
            found["data"]["count"] = str(int(found["data"].get("count", 0)) + 1)
            answer = caller.put(path, found)
            assert answer.status in (200, 409), answer.body
            done += answer.status == 200

    with_callers(api, 4, add_ten)
    assert api.get(path).ok()["data"]["count"] == "40"


def test_patches_without_a_condition_never_conflict(api: Api, path: str) -> None:
    """Row L07."""
    with_callers(
        api, 4, lambda caller, i: [caller.patch(path, {"data": {f"{i}-{n}": ""}}).ok() for n in range(10)]
    )
    assert len(api.get(path).ok()["data"]) == 41


def test_one_of_many_creates_wins(api: Api, configmaps: str) -> None:
    """Row A09."""
    codes: list[int] = []
    with_callers(api, 8, lambda caller, _: codes.append(caller.post(configmaps, named("a")).status))
    assert sorted(codes) == [201] + [409] * 7


# ---- patches

DATA: Final = {"a": "1", "b": "2"}
JSON_PATCHES: Final[dict[str, tuple[list[dict[str, Any]], dict[str, str]]]] = {
    "add": ([{"op": "add", "path": "/data/c", "value": "3"}], {"a": "1", "b": "2", "c": "3"}),
    "remove": ([{"op": "remove", "path": "/data/a"}], {"b": "2"}),
    "replace": ([{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
    "move": ([{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
    "copy": ([{"op": "copy", "from": "/data/a", "path": "/data/c"}], {"a": "1", "b": "2", "c": "1"}),
    "test, then act": (
        [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}],
        {"b": "2"},
    ),
}


@pytest.mark.parametrize(("patch", "data"), JSON_PATCHES.values(), ids=JSON_PATCHES)
def test_json_patch(api: Api, configmaps: str, patch: list[dict[str, Any]], data: dict[str, str]) -> None:
    """Row L03, RFC 6902."""
    api.post(configmaps, named("p") | {"data": DATA}).ok()
    assert api.patch(f"{configmaps}/p", patch, "json-patch").ok()["data"] == data
    assert api.get(f"{configmaps}/p").ok()["data"] == data


MERGE_PATCHES: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a value": ({"data": {"a": "9"}}, {"data": {"a": "9", "b": "2"}}),
    "null removes": ({"data": {"a": None}}, {"data": {"b": "2"}}),
    "null removes a whole map": ({"data": None}, {"data": None}),
    "null of what is not there": ({"data": {"z": None}}, {"data": DATA}),
    "a new map": ({"binaryData": {"c": "AA=="}}, {"data": DATA, "binaryData": {"c": "AA=="}}),
}


@pytest.mark.parametrize(("patch", "fields"), MERGE_PATCHES.values(), ids=MERGE_PATCHES)
def test_merge_patch(api: Api, configmaps: str, patch: dict[str, Any], fields: dict[str, Any]) -> None:
    """Row L05, RFC 7386."""
    api.post(configmaps, named("p") | {"data": DATA}).ok()
    patched = api.patch(f"{configmaps}/p", patch).ok()
    assert {field: patched.get(field) for field in fields} == fields


def test_merge_patch_replaces_lists(api: Api, configmaps: str) -> None:
    """Row L05."""
    api.post(configmaps, named("p", finalizers=["x.io/a", "x.io/b"])).ok()
    patched = api.patch(f"{configmaps}/p", {"metadata": {"finalizers": ["x.io/c"]}}).ok()
    assert patched["metadata"]["finalizers"] == ["x.io/c"]


REFUSED_PATCHES: Final[dict[str, tuple[str, Any, int, str]]] = {
    "a test that fails": ("json-patch", [{"op": "test", "path": "/data/k", "value": "x"}], 422, "Invalid"),
    "a path that is not there": ("json-patch", [{"op": "remove", "path": "/data/x"}], 422, "Invalid"),
    "an unknown operation": ("json-patch", [{"op": "turn", "path": "/data/k"}], 422, "Invalid"),
    "no list": ("json-patch", {"op": "remove", "path": "/data/k"}, 400, "BadRequest"),
    "10,001 operations": (
        "json-patch",
        [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001,
        413,
        "RequestEntityTooLarge",
    ),
    "a merge patch that is a list": ("merge", [], 400, "BadRequest"),
    "a result of another type": ("merge", {"data": {"k": 1}}, 422, "Invalid"),
    "another kind of patch": ("json", {}, 415, "UnsupportedMediaType"),
}


@pytest.mark.parametrize(("kind", "patch", "code", "reason"), REFUSED_PATCHES.values(), ids=REFUSED_PATCHES)
def test_patches_that_fail(api: Api, path: str, kind: str, patch: Any, code: int, reason: str) -> None:
    """Rows D19, L03, L05: nothing of it is done."""
    before = api.get(path).ok()
    assert_refused(api.patch(path, patch, kind), code, reason)
    assert api.get(path).ok() == before


# ---- subresources


def test_the_status_is_written_at_its_own_path(api: Api, namespace: str) -> None:
    """Rows I12, I13."""
    collection = DEPLOYMENTS.format(namespace)
    path = f"{collection}/d"
    created = api.post(collection, deployment("d") | {"status": {"replicas": 7}}).ok()
    assert "replicas" not in created.get("status", {})

    status = {"status": {"replicas": 3}, "spec": {"replicas": 9}}
    written = api.patch(f"{path}/status", status).ok()
    assert (written["status"]["replicas"], written["spec"]["replicas"]) == (3, 1)
    assert api.get(f"{path}/status").ok() == api.get(path).ok() == written

    written["status"]["replicas"], written["spec"]["replicas"] = 8, 2
    replaced = api.put(path, written).ok()
    assert (replaced["status"]["replicas"], replaced["spec"]["replicas"]) == (3, 2)
    replaced["status"]["replicas"], replaced["spec"]["replicas"] = 4, 5
    replaced = api.put(f"{path}/status", replaced).ok()
    assert (replaced["status"]["replicas"], replaced["spec"]["replicas"]) == (4, 2)

    assert_refused(api.put(f"{path}/status", written), 409, "Conflict")
    assert api.get(f"{CONFIGMAPS.format(namespace)}/a/status").status == 404


# ---- field validation

UNKNOWN: Final = {"bogus": 1, "metadata": {"labels": {}, "odd": True}}
WRITES: Final[dict[str, Callable[[Api, str, str], Answer]]] = {
    "POST": lambda api, path, query: api.post(
        path.rpartition("/")[0] + query, {**UNKNOWN, "metadata": {"name": "b", "odd": True}}
    ),
    "PUT": lambda api, path, query: api.put(
        path + query, {**UNKNOWN, "metadata": {"name": "a", "odd": True}}
    ),
    "merge patch": lambda api, path, query: api.patch(path + query, UNKNOWN),
    "JSON patch": lambda api, path, query: api.patch(
        path + query,
        [{"op": "add", "path": p, "value": 1} for p in ("/bogus", "/metadata/odd")],
        "json-patch",
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize(
    "query", ["", "?fieldValidation=", "?fieldValidation=Warn", "?fieldValidation=Ignore"]
)
def test_unknown_fields_are_dropped(
    api: Api, path: str, query: str, write: Callable[[Api, str, str], Answer]
) -> None:
    """Rows E03, E06, E07, E09, E12: with a warning for each, unless it is not wanted."""
    answer = write(api, path, query)
    document = answer.ok()
    assert "bogus" not in document
    assert "odd" not in document["metadata"]
    expected = set() if "Ignore" in query else {r"unknown field \"bogus\"", r"unknown field \"metadata.odd\""}
    assert set(answer.warnings) == expected


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_unknown_fields_can_be_an_error(
    api: Api, path: str, write: Callable[[Api, str, str], Answer]
) -> None:
    """Rows E08, E09: all of them are listed, and nothing is stored."""
    collection = path.rpartition("/")[0]
    before = api.get(collection).ok()["items"]
    answer = write(api, path, "?fieldValidation=Strict")
    assert_refused(answer, 400, "BadRequest", "strict decoding error: ")
    assert all(f'unknown field "{field}"' in answer.message for field in ("bogus", "metadata.odd"))
    assert api.get(collection).ok()["items"] == before


def test_repeated_fields(api: Api, configmaps: str) -> None:
    """Rows E04, E07, E08: the last one counts, and the client is told."""
    body = b'{"metadata":{"name":"%b"},"data":{"k":"1"},"data":{"k":"2"}}'
    assert_refused(
        api.post(f"{configmaps}?fieldValidation=Strict", body % b"a"),
        400,
        "BadRequest",
        'duplicate field "data"',
    )
    answer = api.post(configmaps, body % b"b")
    assert answer.ok()["data"] == {"k": "2"}
    assert answer.warnings == [r"duplicate field \"data\""]
    assert api.post(f"{configmaps}?fieldValidation=Ignore", body % b"c").warnings == []


def test_invalid_values_of_field_validation(api: Api, configmaps: str) -> None:
    """Row E11."""
    answer = api.post(f"{configmaps}?fieldValidation=Some", named("a"))
    assert_refused(answer, 422, "Invalid", 'supported values: "", "Ignore", "Strict", "Warn"')


# ---- dry runs

DRY_RUNS: Final[dict[str, tuple[int, Callable[[Api, str, str], Answer]]]] = {
    "create": (201, lambda api, path, query: api.post(path.rpartition("/")[0] + query, named("b"))),
    "update": (200, lambda api, path, query: api.put(path + query, named("a") | {"data": {"k": "dry"}})),
    "merge patch": (200, lambda api, path, query: api.patch(path + query, {"data": {"k": "dry"}})),
    "JSON patch": (
        200,
        lambda api, path, query: api.patch(path + query, [{"op": "remove", "path": "/data/k"}], "json-patch"),
    ),
    "delete": (200, lambda api, path, query: api.delete(path + query)),
    "delete with options in the body": (200, lambda api, path, query: api.delete(path, {"dryRun": ["All"]})),
    "deletecollection": (200, lambda api, path, query: api.delete(path.rpartition("/")[0] + query)),
}


@pytest.mark.parametrize("query", ["?dryRun=All", "?dryRun"])
@pytest.mark.parametrize(("code", "write"), DRY_RUNS.values(), ids=DRY_RUNS)
def test_a_dry_run_changes_nothing(
    api: Api, path: str, query: str, code: int, write: Callable[[Api, str, str], Answer]
) -> None:
    """Rows B13, G10, J07, J08, L08: the answer is that of the real thing; no write, no event."""
    collection = path.rpartition("/")[0]
    before = api.get(collection).ok()
    answer = write(api, path, query)
    assert answer.status == code, answer.body
    after = api.get(collection).ok()
    assert after["items"] == before["items"]
    assert version_of(after) == version_of(before)


def test_a_dry_run_shows_what_would_be(api: Api, path: str) -> None:
    """Rows J07, J08, L08."""
    assert api.put(f"{path}?dryRun=All", named("a") | {"data": {"k": "dry"}}).ok()["data"] == {"k": "dry"}
    collection = path.rpartition("/")[0]
    created = api.post(f"{collection}?dryRun=All", named("b")).ok()
    assert {"uid", "creationTimestamp"} <= set(created["metadata"])
    assert_refused(api.post(f"{collection}?dryRun=All", named("a")), 409, "AlreadyExists")
    assert_refused(api.post(f"{collection}?dryRun=All", named("B")), 422, "Invalid")
    bare = api.patch(f"{path}?dryRun", {"data": {"k": "dry"}})
    assert len(bare.warnings) == 1
    assert "dry run" in bare.warnings[0]


def all_types(api: Api) -> Iterable[tuple[str, dict[str, Any]]]:
    """Path of the list over all namespaces, and what discovery says, of all built-in types that are kept."""
    for root in BUILT_IN:
        for resource in api.get(root).ok()["resources"]:
            # Of what is not kept there are answers to questions, and the states of components.
            if "/" not in resource["name"] and resource["verbs"] not in (["create"], ["get", "list"]):
                yield f"{root}/{resource['name']}", resource


def test_every_built_in_type_can_be_listed(api: Api) -> None:
    """Rows A01, C01, C07, I01, I02."""
    kinds = {}
    for path, resource in all_types(api):
        assert {"get", "list", "watch"} <= set(resource["verbs"])
        kinds[resource["kind"]] = api.get(path).ok()["kind"]
    assert {"ConfigMap", "Namespace", "Deployment", "Lease"} <= set(kinds)
    assert "List" not in kinds
    assert all(listed == f"{kind}List" for kind, listed in kinds.items())
