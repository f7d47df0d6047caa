"""Requests that make more work than they seem to: webhooks enlarge objects, subresources show little of them.

Whatever a client has sent, what is made of it is worked on beside the event loop if it is large.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import pytest

from tests.hostile.support import longest_turn
from tests.support.api import APPLY, MERGE_PATCH, Api
from tests.support.definitions import Defined, define, definition, new_group, version
from tests.support.eventually import until
from tests.support.fixtures import server_with
from tests.support.offloaded import pieces_offloaded
from tests.support.webhook_server import Reply, Review, WebhookServer

# Of the loop's thread, as for large objects that clients send.
TURN_S: Final = 0.05
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
# Of a webhook's answer, which has at most 3 MiB, in base64.
PATCH_BYTES: Final = 2_200_000


server = server_with()


class PatchingWebhook(WebhookServer):
    """Answers every review with a patch. operations: those of the patch."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.operations: Sequence[dict[str, Any]] = ()

    async def answer(self, path: str, review: Review) -> Reply:
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(orjson.dumps(self.operations)).decode(),
        }
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PatchingWebhook]:
    with PatchingWebhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


def register(
    api: Api, namespace: str, webhook: PatchingWebhook, resource: str, group: str = "", **more: Any
) -> None:
    """Have a webhook asked about all writes to a resource of a namespace, as of version v1."""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{webhook.port}/", "caBundle": webhook.ca_bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    body = {"metadata": {"name": f"w-{namespace}"}, "webhooks": [hook]}
    api.post(f"{REGISTRATION}/mutatingwebhookconfigurations", body).ok()


def members(count: int) -> dict[str, str]:
    return {f"k{number}": "" for number in range(count)}


def owners(count: int) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {f"f:f{number}": {} for number in range(100)}
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return [{"manager": f"m{number}", **entry} for number in range(count)]


class Patched(NamedTuple):
    """An object that is sent, and what a webhook makes of it.

    path, value: what it adds. statuses: what may be answered to a create, and to a change.
    """

    resource: str
    kind: str
    spec: dict[str, Any]
    path: str
    value: Any
    statuses: tuple[int, int]


_CONTAINERS: Final = {"containers": [{"name": "c", "image": "i"}]}
_PORTS: Final = {"ports": [{"port": 1}]}
PATCHED: Final = {
    "a long text": Patched("configmaps", "ConfigMap", {}, "/data", {"k": "x" * PATCH_BYTES}, (422, 422)),
    "many texts": Patched("configmaps", "ConfigMap", {}, "/data", members(120_000), (201, 200)),
    "many labels": Patched(
        "configmaps", "ConfigMap", {}, "/metadata/labels", members(100_000), (201, 200)
    ),
    "many owners": Patched(
        "configmaps", "ConfigMap", {}, "/metadata/managedFields", owners(800), (201, 200)
    ),
    "variables of a pod": Patched(
        "pods",
        "Pod",
        _CONTAINERS,
        "/spec/containers/0/env",
        [{"name": f"V{number}", "value": "x"} for number in range(60_000)],
        (413, 422),
    ),
    "tolerations of a pod": Patched(
        "pods",
        "Pod",
        _CONTAINERS,
        "/spec/tolerations",
        [{"key": f"k{number}", "operator": "Exists"} for number in range(30_000)],
        (201, 200),
    ),
    "ports of a Service": Patched(
        "services",
        "Service",
        _PORTS,
        "/spec/ports",
        [{"name": f"p{number}", "port": number} for number in range(1, 40_000)],
        (413, 413),
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", ["create", "update", "apply"])
@pytest.mark.parametrize("patched", PATCHED.values(), ids=PATCHED)
def test_what_webhooks_add_does_not_hold_the_loop(
    api: Api, namespace: str, webhook: PatchingWebhook, patched: Patched, verb: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/{patched.resource}"
    sent = {"apiVersion": "v1", "kind": patched.kind, "metadata": {"name": "a"}}
    if patched.spec:
        sent["spec"] = patched.spec
    if verb == "update":
        api.post(path, sent).ok()
    webhook.operations = [{"op": "add", "path": patched.path, "value": patched.value}]
    register(api, namespace, webhook, patched.resource)
    with longest_turn(api) as turn:
        match verb:
            case "create":
                answer = api.post(path, sent)
            case "update":
                answer = api.put(f"{path}/a", sent)
            case _:
                answer = api.apply(f"{path}/a?fieldManager=m", sent)
    assert answer.status == patched.statuses[verb == "update"], answer.body[:300]
    assert turn.thread_cpu_s <= TURN_S


@pytest.mark.parametrize("asked_for", ["v1", "v2"])
def test_what_webhooks_add_in_another_version_does_not_hold_the_loop(
    api: Api, namespace: str, webhook: PatchingWebhook, asked_for: str
) -> None:
    """In v1 of HorizontalPodAutoscalers an annotation has the metrics, which is no version to work on."""
    metric = {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 50}}
    annotation = orjson.dumps([metric] * 20_000).decode()
    value = {"autoscaling.alpha.kubernetes.io/metrics": annotation}
    webhook.operations = [{"op": "add", "path": "/metadata/annotations", "value": value}]
    register(api, namespace, webhook, "horizontalpodautoscalers", "autoscaling")
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    with longest_turn(api) as turn:
        answer = api.post(
            f"/apis/autoscaling/{asked_for}/namespaces/{namespace}/horizontalpodautoscalers?dryRun=All",
            {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}},
        )
    assert answer.status == 201, answer.body[:300]
    assert turn.thread_cpu_s <= TURN_S


@pytest.mark.parametrize(("count", "status"), [(1, 201), (100_000, 422)])
def test_what_webhooks_add_to_bindings(
    api: Api, namespace: str, webhook: PatchingWebhook, count: int, status: int
) -> None:
    """The pod gets it, if it may have so much."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post(pods, {"metadata": {"name": "a"}, "spec": _CONTAINERS}).ok()
    webhook.operations = [{"op": "add", "path": "/metadata/annotations", "value": members(count)}]
    register(api, namespace, webhook, "pods/binding")
    with longest_turn(api) as turn:
        answer = api.post(f"{pods}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "node"}})
    assert answer.status == status, answer.body[:300]
    assert api.get(f"{pods}/a").ok()["metadata"].get("annotations", {}) == (members(1) if count == 1 else {})
    assert turn.thread_cpu_s <= TURN_S


# A few kilobytes of a definition, and what has so many items without them.
ZEROS: Final = [0] * 5_000
FIVES: Final[list[Any]] = [{}] * 5
ITEMS: Final = 250


def items_with(**properties: Any) -> dict[str, Any]:
    items = {"type": "array", "items": {"type": "object", "properties": properties}}
    return {"type": "object", "properties": {"items": items}}


def zeros() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "integer"}, "default": ZEROS}


def fives(levels: int) -> dict[str, Any]:
    """Lists of five objects that have such lists by their defaults, too."""
    inner = {"leaf": {"type": "string", "default": "x"}} if levels == 1 else {"inner": fives(levels - 1)}
    return {"type": "array", "items": {"type": "object", "properties": inner}, "default": FIVES}


DEFAULTED: Final = {
    "a long default": items_with(values=zeros()),
    "defaults in defaults": items_with(values=fives(4)),
    "items that are null": {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "array", "items": {"type": "integer"}, "default": ZEROS},
            }
        },
    },
}


def sent_items(name: str) -> list[Any]:
    return [None if name == "items that are null" else {}] * ITEMS


@pytest.mark.parametrize("name", DEFAULTED)
def test_defaults_do_not_hold_the_loop(api: Api, namespace: str, name: str) -> None:
    """Rows E14, E15. What they make of a body of a kilobyte cannot be stored, or can just be."""
    widgets = define(api, definition(new_group(), version(schema=DEFAULTED[name])))
    path = widgets.objects(namespace)
    first = widgets.create("first", namespace).ok()
    with longest_turn(api) as turn:
        assert widgets.create("a", namespace, items=sent_items(name)).status == 413
        assert api.put(f"{path}/first", {**first, "items": sent_items(name)}).status == 413
        for body, media_type in (
            ({"items": sent_items(name)}, MERGE_PATCH),
            (widgets.body("first", items=sent_items(name)), APPLY),
        ):
            answer = api.patch(f"{path}/first?fieldManager=m", body, media_type)
            assert answer.status == 413, answer.body[:300]
    assert turn.thread_cpu_s <= TURN_S


def test_defaults_of_what_webhooks_add_do_not_hold_the_loop(
    api: Api, namespace: str, webhook: PatchingWebhook
) -> None:
    widgets = define(api, definition(new_group(), version(schema=DEFAULTED["a long default"])))
    widgets.create("first", namespace).ok()
    webhook.operations = [{"op": "add", "path": "/items", "value": [{}] * ITEMS}]
    register(api, namespace, webhook, "widgets", widgets.group)
    with longest_turn(api) as turn:
        assert widgets.create("a", namespace).status == 413
    assert turn.thread_cpu_s <= TURN_S


def test_defaults_of_what_is_stored_do_not_hold_the_loop(api: Api, namespace: str) -> None:
    """Objects that were stored before a field had a default get it whenever they are read."""
    own = {"type": "array", "items": {"type": "integer"}}
    widgets: Defined = define(api, definition(new_group(), version(schema=items_with(values=own))))
    for number in range(3):
        widgets.create(f"a{number}", namespace, items=[{}] * 150).ok()
    schema = items_with(values=zeros())
    changed = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]
    api.patch(widgets.path, changed, "json-patch").ok()
    path = widgets.objects(namespace)

    def is_default() -> bool:
        (item, *_) = api.get(f"{path}/a0").ok()["items"]
        return bool(item.get("values"))

    with longest_turn(api) as turn:
        until(is_default, bool, "the new schema")
        assert len(api.get(path).ok()["items"]) == 3
    assert turn.thread_cpu_s <= TURN_S


def widgets(api: Api) -> Defined:
    """A type whose objects may have anything in their spec, and have a scale."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return define(api, definition(new_group(), version(schema=schema, subresources={"scale": scale})))


@pytest.mark.parametrize("reinvocation", ["Never", "IfNeeded"])
def test_an_object_that_a_webhook_nests_too_deeply_is_refused(
    api: Api, namespace: str, webhook: PatchingWebhook, reinvocation: str
) -> None:
    half: Any = {}
    for _ in range(150):
        half = {"a": half}
    defined = widgets(api)
    webhook.operations = [
        {"op": "add", "path": path, "value": half} for path in ("/spec", f"/spec{'/a' * 150}")
    ]
    register(api, namespace, webhook, "widgets", defined.group, reinvocationPolicy=reinvocation)
    answer = defined.create("a", namespace, spec={})
    assert (answer.status, answer.json["message"]) == (400, "the object is nested too deeply to be stored")


def test_large_objects_are_read_beside_the_loop_for_their_scales(api: Api, namespace: str) -> None:
    """A scale is small. What it is read of is not."""
    defined = widgets(api)
    for name, count in (("small", 1), ("large", 100_000)):
        defined.create(name, namespace, spec={"replicas": 1, "members": [""] * count}).ok()
    small, large = (
        pieces_offloaded(api, partial(api.get, f"{defined.objects(namespace)}/{each}/scale"))
        for each in ("small", "large")
    )
    assert large == small + 1


def test_bindings_with_many_labels_do_not_hold_the_loop(api: Api, namespace: str) -> None:
    """A pod gets them."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.post(path, {"metadata": {"name": "a"}, "spec": _CONTAINERS}).ok()
    binding = {"metadata": {"name": "a", "labels": members(80_000)}, "target": {"kind": "Node", "name": "n"}}
    with longest_turn(api) as turn:
        api.post(f"{path}/a/binding", binding).ok()
    assert len(api.get(f"{path}/a").ok()["metadata"]["labels"]) == 80_000
    assert turn.thread_cpu_s <= TURN_S
