"""Subresources that are no view of their object's own document. Rows A17, I12, I13, I15, O04, O08."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.support import objects
from tests.support.api import JSON_PATCH, Api, assert_refused
from tests.support.server_process import ServerProcess

DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"
BUDGETS: Final = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
PODS: Final = "/api/v1/namespaces/{}/pods"
ACCOUNTS: Final = "/api/v1/namespaces/{}/serviceaccounts"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    # The account's token is not asked for: nobody has made the account.
    made = objects.pod(name, **{"automountServiceAccountToken": False, **spec})
    made["metadata"]["labels"] = {"app": name}
    return made


@pytest.fixture
def account(api: Api, namespace: str) -> str:
    """The path of the service account that pods have if they name none, for which somebody has to see."""
    path = f"{ACCOUNTS.format(namespace)}/default"
    api.post(ACCOUNTS.format(namespace), {"metadata": {"name": "default"}})
    return path


@pytest.fixture
def pods(namespace: str, account: str) -> str:
    return PODS.format(namespace)


# ---- scale


@pytest.fixture
def deployment(api: Api, namespace: str) -> str:
    """A deployment `d` of two pods with labels app=a; its path."""
    api.post(DEPLOYMENTS.format(namespace), objects.deployment(replicas=2)).ok()
    return f"{DEPLOYMENTS.format(namespace)}/d"


def test_a_scale_is_a_view_of_its_object(api: Api, deployment: str) -> None:
    api.patch(f"{deployment}/status", {"status": {"replicas": 1}}).ok()
    owner = api.get(deployment).ok()
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert api.get(f"{deployment}/scale").ok() == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: owner["metadata"][field] for field in shown},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "app=a"},
    }


def test_a_scale_that_is_written_changes_its_object(api: Api, deployment: str) -> None:
    path = f"{deployment}/scale"
    scale = api.get(path).ok()
    scale["spec"]["replicas"] = 3
    put = api.put(path, scale).ok()
    assert put["spec"] == {"replicas": 3}
    assert put["metadata"]["resourceVersion"] != scale["metadata"]["resourceVersion"]
    assert api.patch(path, {"spec": {"replicas": 4}}).ok()["spec"] == {"replicas": 4}
    operations = [
        {"op": "test", "path": "/spec/replicas", "value": 4},
        {"op": "replace", "path": "/spec/replicas", "value": 5},
    ]
    patched = api.patch(path, operations, JSON_PATCH).ok()
    owner = api.get(deployment).ok()
    assert owner["spec"]["replicas"] == 5
    assert owner["metadata"]["generation"] == 4
    assert owner["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]
    # Down to nothing, which Go leaves out.
    assert api.patch(path, {"spec": {"replicas": 0}}).ok()["spec"] == {}
    assert api.get(deployment).ok()["spec"]["replicas"] == 0


def test_a_scale_changes_nothing_else(api: Api, deployment: str) -> None:
    """Labels and status in a scale are not the object's."""
    before = api.get(deployment).ok()
    change = {"metadata": {"labels": {"x": "y"}}, "spec": {"replicas": 7}, "status": {"replicas": 9}}
    assert api.patch(f"{deployment}/scale", change).ok()["status"]["replicas"] == 0
    after = api.get(deployment).ok()
    assert after["metadata"].get("labels") == before["metadata"].get("labels")
    assert after["status"] == before["status"]
    assert after["spec"] == {**before["spec"], "replicas": 7}


def test_a_dry_run_of_a_scale_changes_nothing(api: Api, deployment: str) -> None:
    before = api.get(deployment).ok()
    tried = api.patch(f"{deployment}/scale?dryRun=All", {"spec": {"replicas": 9}}).ok()
    assert tried["spec"] == {"replicas": 9}
    assert api.get(deployment).ok() == before


@pytest.mark.parametrize("metadata", [{}, {"metadata": {}}, {"metadata": {"name": "d"}}], ids=str)
def test_an_applied_scale_takes_the_name_of_the_path(
    api: Api, deployment: str, metadata: dict[str, Any]
) -> None:
    """Rows A17, F09."""
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}} | metadata
    path = f"{deployment}/scale?fieldManager=m&force=true"
    scale = api.apply(path, body).ok()
    assert (scale["metadata"]["name"], scale["spec"]) == ("d", {"replicas": 4})
    other = body | {"metadata": {"name": "e"}}
    assert api.apply(path, other).status == 400
    absent = api.apply(path.replace("/d/", "/absent/"), body)
    assert absent.status == (400 if metadata.get("metadata") else 404)


NEGATIVE: Final = (
    'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
)
# What differs from the scale as it is, the query, and what is answered.
REFUSED_SCALES: Final[dict[str, tuple[dict[str, Any], str, int, str, str]]] = {
    "fewer than none": ({"spec": {"replicas": -1}}, "", 422, "Invalid", NEGATIVE),
    "more than a number has room for": (
        {"spec": {"replicas": 1 << 31}},
        "",
        400,
        "BadRequest",
        "cannot unmarshal number 2147483648 into Go struct field ScaleSpec.spec.replicas of type int32",
    ),
    "a text": ({"spec": {"replicas": "3"}}, "", 400, "BadRequest", "of type int32"),
    "of another version": ({"metadata": {"resourceVersion": "1"}}, "", 409, "Conflict", "has been modified"),
    "of another object": (
        {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}},
        "",
        409,
        "Conflict",
        "Precondition failed: UID in precondition: 11111111-2222-3333-4444-555555555555",
    ),
    "of another name": (
        {"metadata": {"name": "e"}},
        "",
        400,
        "BadRequest",
        "does not match the name on the URL",
    ),
    "of another namespace": (
        {"metadata": {"namespace": "else"}},
        "",
        400,
        "BadRequest",
        "does not match the namespace sent on the request",
    ),
    "of another kind": ({"kind": "Deployment", "apiVersion": "apps/v1"}, "", 400, "BadRequest", "as a Scale"),
    "with a field that nobody knows": (
        {"spec": {"replicas": 1, "x": 1}},
        "?fieldValidation=Strict",
        400,
        "BadRequest",
        'unknown field "spec.x"',
    ),
}


@pytest.mark.parametrize(
    ("change", "query", "code", "reason", "message"), REFUSED_SCALES.values(), ids=REFUSED_SCALES
)
def test_a_scale_is_refused(
    api: Api, deployment: str, change: dict[str, Any], query: str, code: int, reason: str, message: str
) -> None:
    scale = api.get(f"{deployment}/scale").ok()
    for field, value in change.items():
        scale[field] = {**scale[field], **value} if isinstance(value, dict) else value
    assert_refused(api.put(f"{deployment}/scale{query}", scale), code, reason, message)
    assert api.get(deployment).ok()["spec"]["replicas"] == 2


def test_a_scale_has_a_table_of_its_own(api: Api, deployment: str) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = api.get(f"{deployment}/scale", headers={"Accept": accept}).ok()
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["d", 2, 0]


SELECTOR: Final = {"matchLabels": {"app": "a"}}
SCALED: Final = {
    "a Deployment": ("/apis/apps/v1", "deployments", {"selector": SELECTOR}),
    "a ReplicaSet": ("/apis/apps/v1", "replicasets", {"selector": SELECTOR}),
    "a StatefulSet": ("/apis/apps/v1", "statefulsets", {"selector": SELECTOR, "serviceName": "s"}),
    "a ReplicationController": ("/api/v1", "replicationcontrollers", {"selector": {"app": "a"}}),
}


@pytest.mark.parametrize(("group", "plural", "spec"), SCALED.values(), ids=SCALED)
def test_whatever_has_replicas_has_a_scale(
    api: Api, namespace: str, group: str, plural: str, spec: dict[str, Any]
) -> None:
    collection = f"{group}/namespaces/{namespace}/{plural}"
    labels, containers = {"app": "a"}, [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    api.post(collection, {"metadata": {"name": "a"}, "spec": {**spec, "template": template}}).ok()
    scale = api.get(f"{collection}/a/scale").ok()
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 1}, "app=a")
    scale["spec"]["replicas"] = 3
    assert api.put(f"{collection}/a/scale", scale).ok()["spec"] == {"replicas": 3}
    assert api.patch(f"{collection}/a/scale", {"spec": {"replicas": 4}}).ok()["spec"] == {"replicas": 4}
    assert api.get(f"{collection}/a").ok()["spec"]["replicas"] == 4


def test_what_has_no_scale_and_what_is_not_there(api: Api, namespace: str, deployment: str) -> None:
    assert_refused(api.get(f"{deployment}x/scale"), 404, "NotFound", 'deployments.apps "dx" not found')
    assert_refused(api.post(f"{deployment}/scale", {}), 405, "MethodNotAllowed")
    assert_refused(api.get(f"/api/v1/namespaces/{namespace}/configmaps/a/scale"), 404, "NotFound")


# ---- binding


def test_a_pod_is_bound_once(api: Api, pods: str) -> None:
    api.post(pods, pod("p")).ok()
    binding = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n1"}}
    tried = api.post(f"{pods}/p/binding?dryRun=All", binding)
    assert (tried.status, tried.json["status"]) == (201, "Success")
    assert "nodeName" not in api.get(f"{pods}/p").ok()["spec"]
    assert api.post(f"{pods}/p/binding", binding).status == 201
    bound = api.get(f"{pods}/p").ok()
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"]["a"] == "b"
    assert bound["metadata"]["generation"] == 1, "what is wanted of the pod is the same"
    (scheduled,) = [each for each in bound["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert (scheduled["status"], bool(scheduled["lastTransitionTime"])) == ("True", True)
    message = 'pods/binding "p": pod p is already assigned to node "n1"'
    assert_refused(api.post(f"{pods}/p/binding", binding), 409, "Conflict", message)


def test_a_pod_that_is_bound_tells_nothing_of_the_time_before(api: Api, pods: str) -> None:
    gated = api.post(pods, pod("gated", schedulingGates=[{"name": "example.com/gate"}])).ok()
    assert gated["status"]["conditions"][0]["reason"] == "SchedulingGated"
    api.patch(f"{pods}/gated", {"spec": {"schedulingGates": None}}).ok()
    api.patch(f"{pods}/gated/status", {"status": {"nominatedNodeName": "n2"}}).ok()
    binding = {"metadata": {"name": "gated"}, "target": {"kind": "Node", "name": "n1"}}
    api.post(f"{pods}/gated/binding", binding).ok()
    status = api.get(f"{pods}/gated").ok()["status"]
    (scheduled,) = status["conditions"]
    assert scheduled.keys() == {"type", "status", "lastProbeTime", "lastTransitionTime"}
    assert (scheduled["status"], scheduled["lastProbeTime"]) == ("True", None)
    assert "nominatedNodeName" not in status


BAD_BINDINGS: Final[dict[str, tuple[dict[str, Any], int, str]]] = {
    "no target": ({"metadata": {"name": "p"}}, 422, "target.name: Required value"),
    "a target that is no node": (
        {"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n"}},
        422,
        'target.kind: Unsupported value: "Pod"',
    ),
    "another pod": (
        {"metadata": {"name": "q"}, "target": {"name": "n"}},
        400,
        "name in URL does not match name in Binding object",
    ),
    "the pod before this one": (
        {"metadata": {"name": "p", "uid": "11111111-2222-3333-4444-555555555555"}, "target": {"name": "n"}},
        409,
        'fulfilled on pods "p": Precondition failed',
    ),
    "an older version of the pod": (
        {"metadata": {"name": "p", "resourceVersion": "1"}, "target": {"name": "n"}},
        409,
        "ResourceVersion in precondition: 1",
    ),
    "text as the version of the pod": (
        {"metadata": {"name": "p", "resourceVersion": "v1"}, "target": {"name": "n"}},
        409,
        "ResourceVersion in precondition: v1",
    ),
}


@pytest.mark.parametrize(("binding", "code", "message"), BAD_BINDINGS.values(), ids=BAD_BINDINGS)
def test_a_binding_is_refused(api: Api, pods: str, binding: dict[str, Any], code: int, message: str) -> None:
    api.post(pods, pod("p")).ok()
    answer = api.post(f"{pods}/p/binding", binding)
    assert answer.status == code, answer.body
    assert message in answer.message
    assert "nodeName" not in api.get(f"{pods}/p").ok()["spec"]


def test_the_collection_of_bindings(api: Api, namespace: str, pods: str) -> None:
    """The old way: the pod is the one that the binding names. Nothing of it is kept.

    Its uid is that of a new object, which is no condition, unlike that of a binding at a pod's path.
    """
    api.post(pods, pod("p")).ok()
    bindings = f"/api/v1/namespaces/{namespace}/bindings"
    body = {"metadata": {"name": "p", "uid": "other"}, "target": {"name": "n"}}
    assert api.post(bindings, body).status == 201
    assert api.get(f"{pods}/p").ok()["spec"]["nodeName"] == "n"
    absent = api.post(bindings, {"metadata": {"name": "zz"}, "target": {"name": "n"}})
    assert_refused(absent, 404, "NotFound", 'pods "zz" not found')
    assert_refused(api.get(bindings), 405, "MethodNotAllowed")
    assert_refused(api.get(f"{bindings}/p"), 404, "NotFound")


# ---- eviction


def eviction(name: str, **options: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **({"deleteOptions": options} if options else {})}


@pytest.fixture
def running(api: Api, pods: str) -> str:
    """A ready pod `p` on a node; its path."""
    api.post(pods, pod("p", nodeName="n")).ok()
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(f"{pods}/p/status", {"status": status}).ok()
    return f"{pods}/p"


def budget(api: Api, namespace: str, name: str = "b", **status: int) -> str:
    """A budget for the pod `p`, as its controller has left it; its path."""
    collection = BUDGETS.format(namespace)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}
    created = api.post(collection, {"metadata": {"name": name}, "spec": spec}).ok()
    numbers = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, **status}
    numbers.setdefault("observedGeneration", created["metadata"]["generation"])
    api.patch(f"{collection}/{name}/status", {"status": numbers}).ok()
    return f"{collection}/{name}"


def test_an_eviction_says_why_the_pod_goes(api: Api, running: str) -> None:
    assert api.post(f"{running}/eviction?dryRun=All", eviction("p")).status == 201
    assert "deletionTimestamp" not in api.get(running).ok()["metadata"]
    assert api.post(f"{running}/eviction", eviction("p", gracePeriodSeconds=7)).status == 201
    going = api.get(running).ok()
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7
    (target,) = [each for each in going["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


@pytest.mark.parametrize(
    ("api_version", "status"), [("policy/v1", 201), ("policy/v1beta1", 201), ("policy/v2", 400), ("v1", 400)]
)
def test_evictions_may_come_in_the_beta_version(
    api: Api, running: str, api_version: str, status: int
) -> None:
    """As `kubectl drain` of before 1.22 sends them."""
    body = {"apiVersion": api_version, "kind": "Eviction", **eviction("p", dryRun=["All"])}
    assert api.post(f"{running}/eviction", body).status == status


def test_a_pending_pod_is_evicted_at_once(api: Api, namespace: str, pods: str) -> None:
    """Whatever its budget says: nothing is disrupted."""
    api.post(pods, pod("p")).ok()
    budget(api, namespace)
    assert api.post(f"{pods}/p/eviction", eviction("p")).status == 201
    assert_refused(api.get(f"{pods}/p"), 404, "NotFound")


def test_a_budget_that_is_used_up_refuses(api: Api, namespace: str, running: str) -> None:
    budget(api, namespace, disruptionsAllowed=0, desiredHealthy=3, currentHealthy=2)
    answer = api.post(f"{running}/eviction", eviction("p"))
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    assert_refused(answer, 429, "TooManyRequests", message)
    assert answer.json["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 3 healthy pods and has 2 currently",
        }
    ]
    assert "deletionTimestamp" not in api.get(running).ok()["metadata"]


def test_an_eviction_is_taken_from_the_budget(api: Api, namespace: str, running: str) -> None:
    path = budget(api, namespace, disruptionsAllowed=1)
    assert api.post(f"{running}/eviction?dryRun=All", eviction("p")).status == 201
    assert api.get(path).ok()["status"]["disruptionsAllowed"] == 1
    assert api.post(f"{running}/eviction", eviction("p")).status == 201
    status = api.get(path).ok()["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    (allowed,) = status["conditions"]
    assert (allowed["type"], allowed["status"], allowed["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )
    assert "deletionTimestamp" in api.get(running).ok()["metadata"]


def test_a_budget_without_an_observed_generation_refuses(api: Api, namespace: str, running: str) -> None:
    budget(api, namespace, disruptionsAllowed=1, observedGeneration=0)
    answer = api.post(f"{running}/eviction", eviction("p"))
    assert_refused(answer, 429, "TooManyRequests")
    assert "still being processed" in answer.json["details"]["causes"][0]["message"]
    assert answer.headers["retry-after"] == "10"


# policy, healthy pods, those that are desired: may a pod go that is not ready?
UNREADY: Final = {
    "enough are healthy": ({}, 2, 2, 201),
    "not enough": ({}, 1, 2, 429),
    "none is desired": ({}, 0, 0, 429),
    "by the policy that is the default": ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 1, 2, 429),
    "always": ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 1, 2, 201),
}


@pytest.mark.parametrize(("policy", "healthy", "desired", "code"), UNREADY.values(), ids=UNREADY)
def test_a_pod_that_is_not_ready_counts_for_no_budget(
    api: Api, namespace: str, running: str, policy: dict[str, str], healthy: int, desired: int, code: int
) -> None:
    api.patch(f"{running}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}).ok()
    path = budget(api, namespace, disruptionsAllowed=0, currentHealthy=healthy, desiredHealthy=desired)
    changed = api.patch(path, {"spec": policy}).ok()
    seen = {"observedGeneration": changed["metadata"]["generation"]}
    api.patch(f"{path}/status", {"status": seen}).ok()
    assert api.post(f"{running}/eviction", eviction("p")).status == code
    assert "disruptedPods" not in api.get(path).ok()["status"]


def test_a_budget_with_an_empty_selector_is_for_all_pods(api: Api, namespace: str, running: str) -> None:
    path = budget(api, namespace, disruptionsAllowed=0)
    changed = api.patch(path, [{"op": "replace", "path": "/spec/selector", "value": {}}], JSON_PATCH).ok()
    seen = {"observedGeneration": changed["metadata"]["generation"]}
    api.patch(f"{path}/status", {"status": seen}).ok()
    assert api.post(f"{running}/eviction", eviction("p")).status == 429


def test_evictions_at_once_take_no_more_than_the_budget(
    server: ServerProcess, api: Api, namespace: str, pods: str
) -> None:
    names = [f"p-{number}" for number in range(8)]
    for name in names:
        made = pod(name, nodeName="n")
        made["metadata"]["labels"] = {"app": "p"}
        api.post(pods, made).ok()
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.patch(f"{pods}/{name}/status", {"status": status}).ok()
    path = budget(api, namespace, disruptionsAllowed=3, currentHealthy=8, desiredHealthy=5)

    def evict(name: str) -> int:
        with Api(server) as own:
            return own.post(f"{pods}/{name}/eviction", eviction(name)).status

    with ThreadPoolExecutor(len(names)) as threads:
        assert sorted(threads.map(evict, names)) == [201] * 3 + [429] * 5
    status = api.get(path).ok()["status"]
    assert (status["disruptionsAllowed"], len(status["disruptedPods"])) == (0, 3)
    going = [each for each in api.get(pods).ok()["items"] if "deletionTimestamp" in each["metadata"]]
    assert {each["metadata"]["name"] for each in going} == status["disruptedPods"].keys()


def test_a_pod_of_several_budgets_stays(api: Api, namespace: str, running: str) -> None:
    for name in ("b", "c"):
        budget(api, namespace, name, disruptionsAllowed=1)
    answer = api.post(f"{running}/eviction", eviction("p"))
    assert_refused(answer, 422, "Invalid", "This pod has more than one PodDisruptionBudget")


BAD_EVICTIONS: Final[dict[str, tuple[dict[str, Any], int, str]]] = {
    "of another name": (eviction("q"), 400, "name in URL does not match name in Eviction object"),
    "of another pod of that name": (
        eviction("p", preconditions={"uid": "11111111-2222-3333-4444-555555555555"}),
        409,
        "does not match the UID in record",
    ),
    "of another version": (
        eviction("p", preconditions={"resourceVersion": "1"}),
        409,
        "does not match the ResourceVersion in record",
    ),
    "with a policy that is none": (eviction("p", propagationPolicy="x"), 422, "propagationPolicy"),
}


@pytest.mark.parametrize(("body", "code", "message"), BAD_EVICTIONS.values(), ids=BAD_EVICTIONS)
def test_an_eviction_is_refused(
    api: Api, running: str, body: dict[str, Any], code: int, message: str
) -> None:
    answer = api.post(f"{running}/eviction", body)
    assert answer.status == code, answer.body
    assert message in answer.message
    assert "deletionTimestamp" not in api.get(running).ok()["metadata"]


# ---- token


def test_a_token_shows_its_account(api: Api, namespace: str, account: str) -> None:
    answer = api.post(f"{account}/token", {"spec": {"expirationSeconds": 1200}})
    assert answer.status == 201
    request = answer.json
    assert request["spec"] == {
        "audiences": ["https://kubernetes.default.svc"],
        "expirationSeconds": 1200,
        "boundObjectRef": None,
    }
    bot = api.as_caller(request["status"]["token"])
    review = bot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).ok()
    user = review["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{namespace}:default"
    assert user["uid"] == api.get(account).ok()["metadata"]["uid"]
    assert user["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]
    assert_refused(bot.get(PODS.format(namespace)), 403, "Forbidden", user["username"])
    bot.close()


def test_a_token_ends_with_what_it_is_bound_to(api: Api, namespace: str, account: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    uid = api.post(secrets, {"metadata": {"name": "s"}}).ok()["metadata"]["uid"]
    reference = {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": uid}
    token = api.post(f"{account}/token", {"spec": {"boundObjectRef": reference}}).ok()["status"]["token"]
    bot = api.as_caller(token)
    assert bot.get("/apis").status == 200
    api.delete(f"{secrets}/s").ok()
    assert_refused(bot.get("/apis"), 401, "Unauthorized")
    bot.close()


def test_a_token_for_others_is_not_for_the_server(api: Api, account: str) -> None:
    token = api.post(f"{account}/token", {"spec": {"audiences": ["vault"]}}).ok()["status"]["token"]
    bot = api.as_caller(token)
    assert_refused(bot.get("/apis"), 401, "Unauthorized")
    bot.close()


BAD_TOKENS: Final[dict[str, tuple[dict[str, Any], int, str]]] = {
    "too short a life": (
        {"spec": {"expirationSeconds": 599}},
        422,
        (
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
            "may not specify a duration less than 10 minutes"
        ),
    ),
    "of another account": (
        {"metadata": {"name": "bot"}, "spec": {}},
        422,
        "must match the service account name if specified",
    ),
    "bound to what is not there": (
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}},
        404,
        'secrets "none" not found',
    ),
    "bound to something of a kind that ends nothing": (
        {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}}},
        400,
        "cannot bind token to object of type v1, Kind=ConfigMap",
    ),
    "bound to a pod of another account": (
        {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}},
        400,
        "pod running with different serviceaccount name",
    ),
    "bound to one that is gone": (
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "gone"}}},
        409,
        "the UID in the bound object reference (gone) does not match the UID in record",
    ),
    "of another kind": (
        {"kind": "ConfigMap", "apiVersion": "v1"},
        400,
        (
            'ConfigMap in version "v1" cannot be handled as a TokenRequest: converting (v1.ConfigMap) to '
            "(authentication.TokenRequest): unknown conversion"
        ),
    ),
}


@pytest.mark.parametrize(("body", "code", "message"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_a_token_is_refused(
    api: Api, namespace: str, account: str, body: dict[str, Any], code: int, message: str
) -> None:
    api.post(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "s"}}).ok()
    api.post(ACCOUNTS.format(namespace), {"metadata": {"name": "other"}}).ok()
    api.post(PODS.format(namespace), pod("p", serviceAccountName="other")).ok()
    answer = api.post(f"{account}/token", body)
    assert answer.status == code, answer.body
    assert message in answer.message


# ---- what connects to another server


def test_only_proxies_have_paths_below_them(api: Api, pods: str) -> None:
    api.post(pods, pod("p")).ok()
    assert_refused(api.get(f"{pods}/p/log/x"), 404, "NotFound", "could not find the requested resource")
    for method in ("PUT", "HEAD", "OPTIONS"):
        assert api.send(method, f"{pods}/p/log").status == 405
        assert api.send(method, f"{pods}/p/exec").status == 405
