"""Admission webhooks: what they may do to a write, and what they cannot do to the server. Spec: admission.

The recorded conversations (`webhooks/*`, `admission/*`) say what they are asked and how they are answered.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from aiohttp import web

from tests.hostile.support import longest_turn
from tests.support.api import APPLY, Api, until_status
from tests.support.definitions import OPEN_SPEC, define, define_two_versions, definition, new_group, version
from tests.support.eventually import WITHIN_S, until
from tests.support.fixtures import server_with
from tests.support.objects import config_map, config_maps, named
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Reply, Review, WebhookServer

GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
REVIEW: Final = "admission.k8s.io/v1"
NOWHERE: Final = {"url": "https://127.0.0.1:1/"}
Answering = Callable[[str, Review], Awaitable[Reply]]


def answer(review: Review, *, allowed: bool = True, patch: Any = None, **response: Any) -> Review:
    if patch is not None:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    response |= {"uid": review["request"]["uid"], "allowed": allowed}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def adds(path: str, value: Any) -> Answering:
    async def answering(_: str, review: Review) -> Reply:
        return answer(review, patch=[{"op": "add", "path": path, "value": value}])

    return answering


async def denies(_: str, review: Review) -> Reply:
    return answer(review, allowed=False, status={"message": "no"})


async def hangs(_: str, review: Review) -> Reply:
    await asyncio.sleep(10 * WITHIN_S)
    return answer(review)


class Webhook(WebhookServer):
    """A webhook that allows everything, until a test says what else. asked: paths and reviews."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.replying: Answering = self._allow
        self.asked: list[tuple[str, Review]] = []

    async def _allow(self, path: str, review: Review) -> Reply:
        return answer(review)

    async def answer(self, path: str, review: Review) -> Reply:
        self.asked.append((path, review))
        return await self.replying(path, review)

    def reset(self) -> None:
        self.replying = self._allow
        self.asked.clear()

    def hook(self, namespace: str, name: str = "a.example.com", **fields: Any) -> dict[str, Any]:
        """Returns a webhook of a configuration that is asked about ConfigMaps of a namespace."""
        return {
            "name": name,
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}/{name}", "caBundle": self.ca_bundle},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }


server = server_with()


@pytest.fixture(scope="module")
def served_webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with Webhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


@pytest.fixture
def webhook(served_webhook: Webhook) -> Webhook:
    served_webhook.reset()
    return served_webhook


def configure(api: Api, namespace: str, *hooks: dict[str, Any], kind: str = "Validating") -> str:
    """Create a configuration of webhooks. Returns its path. It goes with its namespace's name."""
    collection = f"{GROUP}/{kind.lower()}webhookconfigurations"
    body = {"metadata": {"name": f"w-{namespace}"}, "webhooks": list(hooks)}
    api.post(collection, body).ok()
    return f"{collection}/w-{namespace}"


def test_a_request_that_fails_for_a_webhook_is_logged(
    api: Api, server: ServerProcess, webhook: Webhook, namespace: str
) -> None:
    """With who made it, and its audit ID."""
    configure(api, namespace, webhook.hook(namespace, clientConfig=NOWHERE))
    failed = api.post(config_maps(namespace), config_map(), headers={"User-Agent": "shop/1"})
    assert failed.status == 500
    [line] = until(
        lambda: [
            each for each in server.stderr.splitlines() if f"POST {config_maps(namespace)} failed: " in each
        ],
        lambda found: len(found) == 1,
        "logged",
    )
    assert "failed calling webhook" in line
    assert line.endswith(f'; user "admin", user agent "shop/1" auditID="{failed.headers["audit-id"]}"')


def test_a_webhook_that_is_down_is_logged_once_and_when_it_responds_again(
    api: Api, server: ServerProcess, webhook: Webhook, namespace: str
) -> None:
    """Not with each write that is allowed meanwhile. It refuses connections, is silent, and responds."""
    name = f"{namespace}.example.com"
    ignored = webhook.hook(namespace, name, failurePolicy="Ignore", timeoutSeconds=1)
    path = configure(api, namespace, {**ignored, "clientConfig": NOWHERE})

    def create(names: str) -> None:
        for each in names:
            api.post(config_maps(namespace), {"metadata": {"name": each}}).ok()

    create("abc")
    webhook.replying = hangs
    api.patch(path, {"webhooks": [ignored]}).ok()
    create("d")
    webhook.reset()
    create("ef")
    first, last = until(
        lambda: [each for each in server.stderr.splitlines() if f'webhook "{name}"' in each],
        lambda found: len(found) >= 2,
        "logged",
    )
    assert "the request is allowed because failurePolicy is Ignore" in first
    assert f'webhook "{name}" responds again, ' in last
    assert " (similar messages omitted: 3)" in last


def test_a_webhook_whose_patches_cannot_be_used_is_logged_once_and_never_as_responding(
    api: Api, server: ServerProcess, webhook: Webhook, namespace: str
) -> None:
    async def replying(_: str, review: Review) -> Reply:
        return answer(review, patch={"no": "list"})

    webhook.replying = replying
    name = f"{namespace}.example.com"
    configure(api, namespace, webhook.hook(namespace, name, failurePolicy="Ignore"), kind="Mutating")
    for each in "abc":
        api.post(config_maps(namespace), {"metadata": {"name": each}}).ok()
    webhook.reset()
    api.post(config_maps(namespace), config_map("d")).ok()
    first, last = until(
        lambda: [each for each in server.stderr.splitlines() if f'webhook "{name}"' in each],
        lambda found: len(found) >= 2,
        "logged",
    )
    assert "the request is allowed because failurePolicy is Ignore" in first
    assert f'webhook "{name}" responds again, ' in last
    assert " (similar messages omitted: 2)" in last


@pytest.mark.parametrize("media_type", ["application/json", "application/vnd.kubernetes.protobuf"])
def test_a_refusal_that_is_no_status(api: Api, webhook: Webhook, namespace: str, media_type: str) -> None:
    """It is the webhook's failure, in every form that the client may have asked for."""

    async def replying(_: str, review: Review) -> Reply:
        return answer(review, allowed=False, status={"details": {"causes": [1]}})

    webhook.replying = replying
    configure(api, namespace, webhook.hook(namespace))
    refused = api.post(config_maps(namespace), config_map(), headers={"Accept": media_type})
    assert refused.status == 500
    assert b"failed calling webhook" in refused.body
    ignored = webhook.hook(namespace, failurePolicy="Ignore")
    api.patch(f"{GROUP}/validatingwebhookconfigurations/w-{namespace}", {"webhooks": [ignored]}).ok()
    api.post(config_maps(namespace), config_map(), headers={"Accept": media_type})
    api.get(f"{config_maps(namespace)}/a").ok()


# ---- match conditions

# Conditions, and whether the webhook is asked about a write to a namespace, and about one to the cluster.
NAMESPACES: Final[dict[str, tuple[str, bool, bool]]] = {
    "its labels": ("namespaceObject == null || namespaceObject.metadata.labels['team'] == 'a'", True, True),
    "labels that it has not": (
        "namespaceObject != null && namespaceObject.metadata.labels.?team.orValue('') == 'b'",
        False,
        False,
    ),
    "what belongs to the cluster has none": ("namespaceObject == null", False, True),
    "neither have Namespaces": ("request.kind.kind != 'Namespace' || namespaceObject == null", True, True),
}


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
@pytest.mark.parametrize(("condition", "namespaced", "of_cluster"), NAMESPACES.values(), ids=NAMESPACES)
def test_match_conditions_see_the_namespace(
    api: Api, webhook: Webhook, namespace: str, kind: str, condition: str, namespaced: bool, of_cluster: bool
) -> None:
    """docs/reference/differences.md: kube-apiserver has them see none, of webhooks and of policies."""
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"team": "a"}}}).ok()
    rules = [
        {
            "apiGroups": ["", "rbac.authorization.k8s.io"],
            "apiVersions": ["v1"],
            "operations": ["*"],
            "resources": ["configmaps", "clusterroles"],
        }
    ]
    hook = webhook.hook(
        namespace,
        rules=rules,
        objectSelector={"matchLabels": {"of": namespace}},
        matchConditions=[{"name": "c", "expression": condition}],
    )
    configured = configure(api, namespace, hook, kind=kind)
    labels = {"labels": {"of": namespace}, "generateName": "a-"}
    try:
        api.post(f"{config_maps(namespace)}?dryRun=All", {"metadata": labels}).ok()
        assert bool(webhook.asked) is namespaced
        webhook.asked.clear()
        api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", {"metadata": labels}).ok()
        assert bool(webhook.asked) is of_cluster
    finally:
        api.delete(configured).ok()


def test_a_condition_that_fails_tells_the_name_that_was_made(
    api: Api, webhook: Webhook, namespace: str
) -> None:
    failing = [{"name": "c", "expression": "namespaceObject.metadata.labels['none'] == ''"}]
    configure(api, namespace, webhook.hook(namespace, matchConditions=failing))
    refused = api.post(config_maps(namespace), {"metadata": {"generateName": "a-"}})
    assert refused.status == 403
    assert refused.message.startswith('configmaps "a-')
    assert refused.message.endswith("resulted in error: no such key: none")


# ---- what takes effect when


def test_a_configuration_counts_from_the_next_write_on(api: Api, webhook: Webhook, namespace: str) -> None:
    webhook.replying = denies
    path = config_maps(namespace)
    api.post(path, config_map("before")).ok()
    configured = configure(api, namespace, webhook.hook(namespace))
    assert api.post(path, config_map()).status == 400
    changed = api.get(configured).ok()
    changed["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]
    api.put(configured, changed).ok()
    assert api.post(path, config_map()).status == 201
    assert api.delete(f"{path}/a").status == 400
    api.delete(configured).ok()
    assert api.delete(f"{path}/a").status == 200


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_deletions_are_asked_about(api: Api, webhook: Webhook, namespace: str, kind: str) -> None:
    """Webhooks of both kinds are: one that may change objects may refuse that they go, too."""
    path = config_maps(namespace)
    api.post(path, config_map()).ok()
    api.post(path, config_map("b")).ok()
    webhook.replying = denies
    configure(api, namespace, webhook.hook(namespace), kind=kind)
    # A collection of one: the others of a larger one might be asked about when it has been refused.
    collection = f"{path}?fieldSelector=metadata.name%3Db"
    assert (api.delete(f"{path}/a").status, api.delete(collection).status) == (400, 400)
    request = webhook.asked[0][1]["request"]
    assert (request["operation"], request["name"], request["object"]) == ("DELETE", "a", None)
    assert request["oldObject"]["metadata"]["name"] == "a"
    webhook.reset()
    assert (api.delete(f"{path}/a").status, api.delete(collection).status) == (200, 200)
    assert [each["request"].get("name") for _, each in webhook.asked] == ["a", None]


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "what lists have": (
        {"resourceVersion": "5", "continue": "c", "remainingItemCount": 0, "selfLink": "/x"},
        {"selfLink": "/x", "resourceVersion": "5", "continue": "c", "remainingItemCount": 0},
    ),
    "what is empty": ({"resourceVersion": "", "continue": None}, {}),
    "what objects have": ({"name": "a", "labels": {"a": "b"}}, {}),
}


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize(("sent", "told"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_has_this_of_the_metadata_of_the_webhooks_status(
    api: Api, webhook: Webhook, namespace: str, kind: str, sent: dict[str, Any], told: dict[str, Any]
) -> None:
    async def replying(_: str, review: Review) -> Reply:
        return answer(review, allowed=False, status={"metadata": sent, "message": "no"})

    webhook.replying = replying
    configure(api, namespace, webhook.hook(namespace), kind=kind)
    refused = api.post(config_maps(namespace), config_map())
    assert (refused.status, refused.json["metadata"]) == (400, told)


def test_a_deletion_cannot_be_changed(api: Api, webhook: Webhook, namespace: str) -> None:
    path = config_maps(namespace)
    api.post(path, config_map()).ok()
    webhook.replying = adds("/metadata/labels", {"x": "y"})
    configure(api, namespace, webhook.hook(namespace), kind="Mutating")
    refused = api.delete(f"{path}/a")
    assert refused.status == 500
    assert "attempted to modify the object, which is not supported for this operation" in refused.message


@pytest.mark.etcd
def test_every_replica_asks(replicas: tuple[Api, Api], webhook: Webhook) -> None:
    here, there = replicas
    webhook.replying = denies
    configured = configure(here, "default", webhook.hook("default"))
    path = f"{config_maps('default')}?dryRun=All"
    until_status(400, lambda: there.post(path, config_map()))
    here.delete(configured).ok()
    until_status(201, lambda: there.post(path, config_map()))


def test_what_no_webhook_names_is_not_held_up(api: Api, webhook: Webhook, namespace: str) -> None:
    webhook.replying = hangs
    configure(api, namespace, webhook.hook(namespace))
    api.post(f"/api/v1/namespaces/{namespace}/secrets", named("a")).ok()
    api.get(config_maps(namespace)).ok()
    assert webhook.asked == []


def test_a_webhook_may_ask_the_server_meanwhile(
    api: Api, server: ServerProcess, webhook: Webhook, namespace: str
) -> None:
    path = config_maps(namespace)

    def from_a_thread() -> None:
        with Api(server) as inner:
            inner.post(f"/api/v1/namespaces/{namespace}/secrets", named("from-webhook")).ok()
            inner.get(path).ok()

    async def replying(_: str, review: Review) -> Reply:
        await asyncio.to_thread(from_a_thread)
        return answer(review)

    webhook.replying = replying
    configure(api, namespace, webhook.hook(namespace))
    api.post(path, config_map()).ok()


def test_dry_runs_are_told_and_leave_nothing(api: Api, webhook: Webhook, namespace: str) -> None:
    webhook.replying = adds("/data/added", "1")
    path = config_maps(namespace)
    configure(api, namespace, webhook.hook(namespace), kind="Mutating")
    assert api.post(f"{path}?dryRun=All", config_map(k="v")).ok()["data"] == {"k": "v", "added": "1"}
    assert api.get(f"{path}/a").status == 404
    assert [review["request"]["dryRun"] for _, review in webhook.asked] == [True]


def test_an_update_that_races_another_asks_about_the_object_that_is_replaced(
    api: Api, webhook: Webhook, namespace: str
) -> None:
    path = config_maps(namespace)
    api.post(path, config_map(k="0")).ok()
    configure(api, namespace, webhook.hook(namespace))

    def overtake() -> None:
        with Api(api.server) as other:
            other.patch(f"{path}/a", {"data": {"k": "2"}}).ok()

    async def replying(_: str, review: Review) -> Reply:
        if len(webhook.asked) == 1:
            await asyncio.to_thread(overtake)
        return answer(review)

    webhook.replying = replying
    api.patch(f"{path}/a", {"data": {"k": "1"}}).ok()
    assert [
        (review["request"]["oldObject"]["data"]["k"], review["request"]["object"]["data"]["k"])
        for _, review in webhook.asked
    ] == [("0", "1"), ("0", "2"), ("2", "1")]


# ---- what a webhook may not do


def replies(reply: Reply) -> Answering:
    async def answering(_: str, review: Review) -> Reply:
        return reply

    return answering


async def trickles(_: str, review: Review) -> Reply:
    async def body() -> Any:
        while True:
            yield b" "
            await asyncio.sleep(0.05)

    return web.Response(body=body(), content_type="application/json")


def redirects(status: int, location: str) -> Answering:
    async def answer(_: str, review: Review) -> Reply:
        return web.Response(status=status, headers={"Location": location})

    return answer


FAILURES: dict[str, tuple[Answering, str]] = {
    "hangs": (hangs, "context deadline exceeded"),
    "trickles": (trickles, "context deadline exceeded"),
    "100 MB": (replies(b" " * 100_000_000), "longer than 3145728 bytes"),
    "redirects": (redirects(302, "https://127.0.0.1:1/"), "responded with the status code 302"),
    "redirects to where TLS is not": (
        redirects(307, "http://127.0.0.1:1/"),
        'Post "http://127.0.0.1:1/": unsupported protocol scheme "http"',
    ),
    "redirects to where clouds hand out credentials": (
        redirects(308, "https://169.254.169.254/latest"),
        "dial tcp 169.254.169.254: address is denied by --webhook-deny-cidrs",
    ),
    "redirects to itself": (redirects(307, "?"), "stopped after "),
    "nested deeply": (replies(b"[" * 100_000), "json parse error"),
    "no object": (replies(b"[]"), "not an object"),
    "other uid": (
        replies({"apiVersion": REVIEW, "kind": "AdmissionReview", "response": {"uid": "x"}}),
        'expected response.uid="',
    ),
    "other kind": (
        lambda _, review: _as(review, kind="Pod"),
        f"expected webhook response of {REVIEW}, Kind=AdmissionReview, got {REVIEW}, Kind=Pod",
    ),
    "response is a list": (
        replies({"apiVersion": REVIEW, "kind": "AdmissionReview", "response": []}),
        "response is not an object",
    ),
    "allowed is a text": (lambda _, review: _as(review, response={"allowed": "yes"}), "not a boolean"),
    "warnings are numbers": (
        lambda _, review: _as(review, response={"allowed": True, "warnings": [1]}),
        "not a list of strings",
    ),
}


async def _as(review: Review, response: Any = None, **fields: Any) -> Reply:
    made = answer(review)
    if response is not None:
        made["response"] = {"uid": review["request"]["uid"], **response}
    return {**made, **fields}


@pytest.mark.parametrize(("replying", "text"), FAILURES.values(), ids=FAILURES)
def test_a_webhook_that_fails(
    api: Api, webhook: Webhook, namespace: str, replying: Answering, text: str
) -> None:
    """It refuses the write with an error that says why; or, if it may be ignored, the write passes."""
    webhook.replying = replying
    path = config_maps(namespace)
    hook = webhook.hook(namespace, timeoutSeconds=1 if "deadline" in text else 30)
    configured = configure(api, namespace, hook)
    refused = api.post(path, config_map())
    assert (refused.status, refused.json["reason"]) == (500, "InternalError")
    assert 'failed calling webhook "a.example.com": ' in refused.json["message"]
    assert text in refused.json["message"]
    assert api.get(f"{path}/a").status == 404
    current = api.get(configured).ok()
    current["webhooks"][0]["failurePolicy"] = "Ignore"
    api.put(configured, current).ok()
    api.post(path, config_map()).ok()


async def denies_the_25th(_: str, review: Review) -> Reply:
    return answer(review, allowed=review["request"]["oldObject"]["metadata"]["name"] != "o25")


def test_a_deletecollection_ends_at_the_object_that_a_webhook_denies(
    api: Api, webhook: Webhook, namespace: str
) -> None:
    """What comes before it is gone, and about what comes after it nobody is asked."""
    path, names = config_maps(namespace), [f"o{number:02}" for number in range(40)]
    for name in names:
        api.post(path, config_map(name)).ok()
    webhook.replying = denies_the_25th
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
    configure(api, namespace, webhook.hook(namespace, rules=[rule]))
    assert api.delete(path).status == 400
    left = [each["metadata"]["name"] for each in api.get(path).ok()["items"]]
    assert left == names[25:]
    asked = [review["request"]["oldObject"]["metadata"]["name"] for _, review in webhook.asked]
    assert asked == names[:26]


TIMED_OUT_FORMS: dict[str, str] = {
    "nothing": "application/json",
    "application/yaml": "application/yaml",
    "application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf",
}


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize(("accept", "media_type"), TIMED_OUT_FORMS.items(), ids=TIMED_OUT_FORMS)
def test_a_request_that_times_out_at_a_webhook_is_answered_as_the_client_accepts(
    api: Api, webhook: Webhook, namespace: str, kind: str, accept: str, media_type: str
) -> None:
    """Row P04. docs/reference/differences.md: kube-apiserver calls its JSON text."""
    webhook.replying = hangs
    configure(api, namespace, webhook.hook(namespace, timeoutSeconds=30), kind=kind)
    headers = {} if accept == "nothing" else {"Accept": accept}
    answer = api.post(f"{config_maps(namespace)}?timeout=500ms", config_map(), headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (504, media_type)
    assert b"request did not complete within the allotted timeout" in answer.body


CLIENTS: dict[str, tuple[dict[str, Any], str]] = {
    "nobody listens": ({"url": "https://127.0.0.1:1/x"}, "Post "),
    "no certificate that is trusted": ({"caBundle": ""}, "tls: failed to verify certificate: "),
    "a bundle that is none": (
        {"caBundle": base64.b64encode(b"x").decode()},
        "unable to load root certificates",
    ),
    "a port that does not exist": ({"url": "https://127.0.0.1:99999/x"}, "Post "),
    "a name that does not exist": ({"url": "https://nowhere.invalid/x"}, "Post "),
}


@pytest.mark.parametrize(("client", "text"), CLIENTS.values(), ids=CLIENTS)
def test_a_webhook_that_cannot_be_reached(
    api: Api, webhook: Webhook, namespace: str, client: dict[str, Any], text: str
) -> None:
    hook = webhook.hook(namespace)
    hook["clientConfig"] |= client
    configure(api, namespace, hook)
    refused = api.post(config_maps(namespace), config_map())
    assert refused.status == 500
    assert text in refused.json["message"]


PATCHES: dict[str, tuple[Any, int, str]] = {
    "another kind": ([{"op": "replace", "path": "/kind", "value": "Secret"}], 500, "another kind"),
    "another version": ([{"op": "replace", "path": "/apiVersion", "value": "v2"}], 500, "another kind"),
    "another namespace": (
        [{"op": "add", "path": "/metadata/namespace", "value": "default"}],
        400,
        "namespace",
    ),
    "a wrong type": ([{"op": "add", "path": "/data", "value": 1}], 500, ""),
    "no metadata": ([{"op": "remove", "path": "/metadata"}], 422, "metadata.name"),
    "metadata that is a list": ([{"op": "replace", "path": "/metadata", "value": []}], 500, ""),
    "no document": ([{"op": "replace", "path": "", "value": 1}], 500, ""),
    "a name that is none": (
        [{"op": "replace", "path": "/metadata/name", "value": "A/B"}],
        422,
        "metadata.name",
    ),
    "an operation that is none": ([{"op": "steal", "path": "/data"}], 500, ""),
    "a list of numbers": ([1], 500, "undecodable patch"),
    "too many operations": ([{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001, 500, ""),
    "copies that double values": (
        [{"op": "add", "path": "/data", "value": [[]]}]
        + [{"op": "copy", "from": "/data", "path": "/data/-"}] * 200,
        500,
        "copies have more than 100000 values",
    ),
    "copies that double": (
        [{"op": "add", "path": "/data", "value": {"k": "x" * 1000}}]
        + [{"op": "copy", "from": "", "path": f"/data/{n}"} for n in range(60)],
        500,
        "",
    ),
}


@pytest.mark.parametrize(("patch", "status", "text"), PATCHES.values(), ids=PATCHES)
def test_a_patch_that_breaks_the_object(
    api: Api, webhook: Webhook, namespace: str, patch: Any, status: int, text: str
) -> None:
    async def replying(_: str, review: Review) -> Reply:
        return answer(review, patch=patch)

    webhook.replying = replying
    configure(api, namespace, webhook.hook(namespace), kind="Mutating")
    refused = api.post(config_maps(namespace), config_map(k="v"))
    assert refused.status == status
    assert text in refused.json["message"]
    assert api.get(f"{config_maps(namespace)}/a").status == 404


def test_an_update_keeps_its_identity(api: Api, webhook: Webhook, namespace: str) -> None:
    """A webhook cannot give an object another name or uid, nor let it skip a version."""
    path = config_maps(namespace)
    made = api.post(path, config_map(k="v")).ok()
    configure(api, namespace, webhook.hook(namespace), kind="Mutating")
    for field, value, status in (("name", "b", 422), ("uid", "b", 422), ("resourceVersion", "1", 409)):
        webhook.replying = adds(f"/metadata/{field}", value)
        assert api.patch(f"{path}/a", {"data": {"k": field}}).status == status
    assert api.get(f"{path}/a").ok() == made


def test_webhooks_that_change_the_object_in_turns_are_asked_twice_at_most(
    api: Api, webhook: Webhook, namespace: str
) -> None:
    count = 0

    async def replying(_: str, review: Review) -> Reply:
        nonlocal count
        count += 1
        return answer(review, patch=[{"op": "add", "path": "/data/count", "value": f"{count}"}])

    webhook.replying = replying
    hooks = [webhook.hook(namespace, f"{name}.example.com", reinvocationPolicy="IfNeeded") for name in "abc"]
    configure(api, namespace, *hooks, kind="Mutating")
    api.post(config_maps(namespace), config_map(k="v")).ok()
    paths = [path.partition("?")[0] for path, _ in webhook.asked]
    assert paths[:3] == ["/a.example.com", "/b.example.com", "/c.example.com"]
    assert len(paths) <= 6


def test_webhooks_and_policies_that_undo_each_other_end(api: Api, webhook: Webhook, namespace: str) -> None:
    """Each has a second turn after a change of the other, and then no more."""
    group, name = "/apis/admissionregistration.k8s.io/v1", f"counts-{namespace}"
    seen: list[str] = []

    async def replying(_: str, review: Review) -> Reply:
        seen.append(review["request"]["object"]["data"]["last"])
        patch = [{"op": "replace", "path": "/data/last", "value": "webhook"}]
        return answer(review, patch=patch)

    webhook.replying = replying
    configure(api, namespace, webhook.hook(namespace, reinvocationPolicy="IfNeeded"), kind="Mutating")
    expression = (
        'Object{data: {"last": "policy", "turns": object.data.turns + "p", '
        '"saw": object.data.saw + object.data.last + " "}}'
    )
    spec = {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        "reinvocationPolicy": "IfNeeded",
    }
    meta = {"metadata": {"name": name}}
    api.post(f"{group}/mutatingadmissionpolicies", {**meta, "spec": spec}).ok()
    api.post(f"{group}/mutatingadmissionpolicybindings", {**meta, "spec": {"policyName": name}}).ok()
    made = api.post(config_maps(namespace), config_map(last="client", turns="", saw="")).ok()
    assert made["data"] == {"last": "webhook", "turns": "pp", "saw": "client webhook "}
    assert seen == ["policy", "policy"]


def test_a_webhook_cannot_keep_itself(api: Api, webhook: Webhook, namespace: str) -> None:
    webhook.replying = denies
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    hook = webhook.hook(namespace, rules=[rule], namespaceSelector={})
    configured = configure(api, namespace, hook)
    try:
        assert api.post(config_maps(namespace), config_map()).status == 400
    finally:
        api.delete(configured).ok()
    api.post(config_maps(namespace), config_map()).ok()


def test_a_thousand_webhooks_that_are_not_concerned(api: Api, webhook: Webhook, namespace: str) -> None:
    hooks = [
        webhook.hook(namespace, f"h{n}.example.com", objectSelector={"matchLabels": {"n": f"{n}"}})
        for n in range(1_000)
    ]
    configure(api, namespace, *hooks)
    path = config_maps(namespace)
    api.post(path, config_map("first")).ok()
    began = time.perf_counter()
    api.post(path, config_map("labelled") | {"metadata": {"name": "n", "labels": {"n": "7"}}}).ok()
    assert time.perf_counter() - began < WITHIN_S
    assert [each.partition("?")[0] for each, _ in webhook.asked] == ["/h7.example.com"]


# ---- versions of custom resources


def test_custom_resources_in_the_version_of_the_rule(api: Api, webhook: Webhook, namespace: str) -> None:
    webhook.replying = adds("/spec/added", "yes")
    defined = define_two_versions(api, OPEN_SPEC)
    configure(api, namespace, webhook.hook(namespace, rules=[defined.create_rule]), kind="Mutating")
    made = defined.create("a", namespace, "v2", spec={"k": "v"}).ok()
    assert (made["apiVersion"], made["spec"]) == (f"{defined.group}/v2", {"k": "v", "added": "yes"})
    [(_, review)] = webhook.asked
    request = review["request"]
    assert request["object"]["apiVersion"] == f"{defined.group}/v1"
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")


def test_large_objects_that_a_webhook_changes_hold_up_nobody(
    api: Api, webhook: Webhook, namespace: str
) -> None:
    """Each of its fields has an owner, of which a webhook might have made anything."""
    webhook.replying = adds("/metadata/labels", {"x": "y"})
    configure(api, namespace, webhook.hook(namespace), kind="Mutating")
    values = {f"k{number:06d}": "" for number in range(180_000)}
    with longest_turn(api) as turn:
        # It is too large to be stored, which is known only at the end.
        assert api.post(config_maps(namespace), config_map(**values)).status == 413
    assert len(webhook.asked) == 1
    assert turn.thread_cpu_s <= 0.05


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_large_objects_that_webhooks_see_in_another_version_hold_up_nobody(
    api: Api, webhook: Webhook, namespace: str, kind: str
) -> None:
    values = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": values}}
    defined = define_two_versions(api, schema)
    webhook.replying = adds("/metadata/labels", {"x": "y"}) if kind == "Mutating" else webhook.replying
    configure(api, namespace, webhook.hook(namespace, rules=[defined.create_rule]), kind=kind)
    spec = {f"k{number:06d}": "" for number in range(180_000)}
    with longest_turn(api) as turn:
        # It is too large to be stored, which is known only at the end.
        assert defined.create("a", namespace, "v2", spec=spec).status == 413
    assert len(webhook.asked) == 1
    assert turn.thread_cpu_s <= 0.05


def test_thousands_of_webhooks_that_do_not_match_hold_up_nobody(
    api: Api, webhook: Webhook, namespace: str
) -> None:
    """To find that out takes some 6 µs for each."""
    collection = f"{GROUP}/validatingwebhookconfigurations"
    names = [f"many-{number}" for number in range(6)]
    elsewhere = {"matchLabels": {"no": "such"}}
    hooks = [
        webhook.hook(namespace, f"h{number}.example.com", namespaceSelector=elsewhere, clientConfig=NOWHERE)
        for number in range(1_500)
    ]
    try:
        for name in names:
            api.post(collection, {"metadata": {"name": name}, "webhooks": hooks}).ok()
        api.post(config_maps(namespace), config_map("first")).ok()
        with longest_turn(api) as turn:
            api.post(config_maps(namespace), config_map("second")).ok()
        assert turn.thread_cpu_s <= 0.05
    finally:
        for name in names:
            api.delete(f"{collection}/{name}")


# ---- scale

# How a scale is written, and the object before.
SCALES: Final[dict[str, tuple[str, dict[str, int]]]] = {
    "put": ("json", {"nodes": 1}),
    "merge patch": ("merge", {"nodes": 1}),
    "apply": (APPLY, {"nodes": 1}),
    "put where there was none": ("json", {}),
    "apply where there was none": (APPLY, {}),
}


def scalable(api: Api, namespace: str, **fields: Any) -> tuple[dict[str, Any], str]:
    """Returns a rule about scales of a new type, whose replicas are its nodes, and the path of an object."""
    number = {"type": "object", "properties": {"nodes": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": number, "status": number}}
    paths = {"specReplicasPath": ".spec.nodes", "statusReplicasPath": ".status.nodes"}
    subresources = {"scale": paths, "status": {}}
    defined = define(api, definition(new_group(), version("v1", schema=schema, subresources=subresources)))
    defined.create("a", namespace, **fields).ok()
    resources = ["widgets/scale"]
    rule = {"apiGroups": [defined.group], "apiVersions": ["*"], "operations": ["*"], "resources": resources}
    return rule, f"{defined.objects(namespace)}/a"


@pytest.mark.parametrize(("media_type", "spec"), SCALES.values(), ids=SCALES)
def test_a_webhook_sees_the_scale(
    api: Api, webhook: Webhook, namespace: str, media_type: str, spec: dict[str, int]
) -> None:
    """However it is written; what a webhook changes of it is set in the object."""
    rule, path = scalable(api, namespace, spec=spec)
    webhook.replying = adds("/spec/replicas", 5)
    configure(api, namespace, webhook.hook(namespace, rules=[rule]), kind="Mutating")
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"replicas": 3},
    }
    method = "PUT" if media_type == "json" else "PATCH"
    query = "?fieldManager=m&force=true" if media_type == APPLY else ""
    written = api.send(method, f"{path}/scale{query}", scale, type=media_type).ok()
    assert written["spec"] == {"replicas": 5}
    assert api.get(path).ok()["spec"] == {"nodes": 5}
    [(_, review)] = webhook.asked
    request = review["request"]
    kinds = request["kind"]["kind"], request["object"]["kind"], request["oldObject"]["kind"]
    assert kinds == ("Scale", "Scale", "Scale")
    replicas = request["object"]["spec"]["replicas"], request["oldObject"]["spec"].get("replicas", 0)
    assert replicas == (3, spec.get("nodes", 0))


def test_a_scale_has_no_labels(api: Api, webhook: Webhook, namespace: str) -> None:
    """Those of its object do not count for the objectSelector, as in Kubernetes."""
    rule, path = scalable(api, namespace, spec={"nodes": 1})
    api.patch(path, {"metadata": {"labels": {"x": "y"}}}).ok()
    selector = {"matchLabels": {"x": "y"}}
    configure(api, namespace, webhook.hook(namespace, rules=[rule], objectSelector=selector))
    api.patch(f"{path}/scale", {"spec": {"replicas": 2}}).ok()
    assert webhook.asked == []


# ---- Services


def test_a_service_is_found_by_its_endpoint_slices(api: Api, webhook: Webhook, namespace: str) -> None:
    """The name that its certificate must have is the Service's; the port is the one behind the Service."""
    services, slices = (
        "/api/v1/namespaces/default/services",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    )
    name = f"hook-{namespace}"
    api.post(
        services,
        {"metadata": {"name": name}, "spec": {"ports": [{"name": "h", "port": 8443}], "clusterIP": "None"}},
    ).ok()
    api.post(
        slices,
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            # Addresses of this machine are refused in EndpointSlices.
            "endpoints": [],
            "ports": [{"name": "h", "port": webhook.port}],
        },
    ).ok()
    hook = webhook.hook(namespace)
    hook["clientConfig"] = {
        "service": {"namespace": "default", "name": name, "port": 8443, "path": "/s"},
        "caBundle": webhook.ca_bundle,
    }
    configure(api, namespace, hook)
    path = config_maps(namespace)
    refused = api.post(path, config_map())
    assert f'no endpoints available for service "{name}"' in refused.json["message"]
    api.delete(f"{services}/{name}").ok()
    refused = api.post(path, config_map())
    assert f'service "{name}" not found' in refused.json["message"]


def test_a_service_of_an_external_name(api: Api, webhook: Webhook, namespace: str) -> None:
    """Its certificate must have the name of the Service, whatever host it leads to."""
    name = f"ext-{namespace}"
    body = {"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    api.post("/api/v1/namespaces/default/services", body).ok()
    hook = webhook.hook(namespace)
    hook["clientConfig"] = {
        "service": {"namespace": "default", "name": name, "port": webhook.port},
        "caBundle": webhook.ca_bundle,
    }
    configure(api, namespace, hook)
    api.post(config_maps(namespace), config_map()).ok()
    assert len(webhook.asked) == 1


def test_webhooks_are_shown_credentials(tmp_path: Path, webhook: Webhook) -> None:
    """Those of the kubeconfig in the configuration of their plugin, by host."""
    (tmp_path / "token").write_text("from-a-file")
    users = [
        {"name": f"127.0.0.1:{webhook.port}", "user": {"tokenFile": "token"}},
        {"name": "*", "user": {"token": "for-others"}},
    ]
    (tmp_path / "kubeconfig").write_text(json.dumps({"kind": "Config", "users": users}))
    group = "apiserver.config.k8s.io/v1"
    configured = {
        "apiVersion": group,
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(tmp_path / "kubeconfig"),
    }
    plugins = [{"name": "ValidatingAdmissionWebhook", "configuration": configured}]
    whole = {"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}
    (tmp_path / "admission.json").write_text(json.dumps(whole))
    flag = f"--admission-control-config-file={tmp_path / 'admission.json'}"
    with ServerProcess(tmp_path / "data", flag) as server, Api(server) as api:
        for kind, shown in (("Mutating", None), ("Validating", "Bearer from-a-file")):
            path = configure(api, "default", webhook.hook("default"), kind=kind)
            api.get(path).ok()
            api.post(config_maps("default"), config_map(kind.lower())).ok()
            assert webhook.headers.get("Authorization") == shown
            api.delete(path).ok()


def test_an_object_in_another_version_is_neither_pruned_nor_defaulted(
    api: Api, webhook: Webhook, namespace: str
) -> None:
    """The new and the old object of a write in v2, as a webhook is asked about them that knows v1."""

    def schema(**fields: Any) -> dict[str, Any]:
        spec = {"type": "object", "properties": {"a": {"type": "string"}, **fields}}
        return {"type": "object", "properties": {"spec": spec}}

    stored = version("v1", schema=schema(stored={"type": "string", "default": "S"}))
    sent = version("v2", schema=schema(sent={"type": "string", "default": "D"}), storage=False)
    defined = define(api, definition(new_group(), stored, sent))
    defined.create("a", namespace, "v2", spec={"a": "x", "sent": "7"}).ok()
    rule = {
        "apiGroups": [defined.group],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["widgets"],
    }
    configure(api, namespace, webhook.hook(namespace, rules=[rule], matchPolicy="Equivalent"))
    path = f"{defined.objects(namespace, 'v2')}/a"
    until(lambda: api.patch(path, {"spec": {"a": "y"}}).ok() and webhook.asked)
    request = webhook.asked[0][1]["request"]
    assert request["kind"]["version"] == "v1"
    assert request["object"]["spec"] == {"a": "y", "sent": "D"}, "as the patched object was decoded"
    assert request["oldObject"]["spec"]["a"] in ("x", "y")
    assert request["oldObject"]["spec"].keys() == {"a"}
    assert request["object"]["metadata"]["resourceVersion"]
