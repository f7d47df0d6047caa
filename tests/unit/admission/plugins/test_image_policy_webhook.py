"""What another server is asked about images, and what is remembered of its answers."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
import pytest

from apiserver.admission.chain import AdmissionAttributes, Operation
from apiserver.admission.configuration.image_policy import ImagePolicy
from apiserver.admission.plugins.image_policy_webhook import ANSWERS_MAX, ImagePolicyWebhook
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Forbidden
from apiserver.meta.vocabulary import GroupResource, UserInfo
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials, PemText
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.review_server import ATTEMPTS_MAX
from tests.support.in_process import TABLE

PODS: Final = TABLE.find("", "v1", "pods")
ALLOWED: Final = {"kind": "ImageReview", "status": {"allowed": True}}
DENIED: Final = {"kind": "ImageReview", "status": {"allowed": False, "reason": "not signed"}}


class Server:
    """The other server, and this one's clock. answers: one after the other, the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.reviews: list[Any] = []
        self.clients: list[ClientConfig] = []
        self.shown: list[HostCredentials] = []
        self.pauses_s: list[float] = []
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)

    def caller_with(self, credentials: HostCredentials) -> Server:
        self.shown.append(credentials)
        return self

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        self.clients.append(client)
        self.reviews.append(orjson.loads(body))
        answer = self._answers[min(len(self.reviews), len(self._answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def plugin(server: Server, **changed: Any) -> ImagePolicyWebhook:
    given: dict[str, Any] = {
        "cluster": KubeconfigCluster("https://images.example.com/review", PemText(text=b"ca"), "other.name"),
        "credentials": ClientCredentials(token="t"),
        "allow_ttl_s": 100,
        "deny_ttl_s": 10,
        "backoff_s": 1.0,
        "allows_by_default": False,
        **changed,
    }
    return ImagePolicyWebhook(ImagePolicy(**given), server.caller_with, Brand(), server.clock, server.sleep)


def pod(*images: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "annotations": {k.replace("__", "/"): v for k, v in annotations.items()}},
        "spec": {
            "containers": [{"image": image} for image in images],
            "initContainers": [{"image": "first"}],
            "ephemeralContainers": [{"image": "debugger"}],
        },
    }


def attributes(subresource: str = "") -> AdmissionAttributes:
    assert PODS is not None
    return AdmissionAttributes(Operation.CREATE, PODS, "n", "p", UserInfo("u"), Offload(), subresource)


async def passes(plugin: ImagePolicyWebhook, document: Any, subresource: str = "") -> str:
    """Returns why not; empty if it does."""
    try:
        await plugin.validate(attributes(subresource), document, None)
    except Forbidden as refusal:
        return str(refusal).partition(" is forbidden: ")[2]
    return ""


async def test_what_is_asked() -> None:
    server = Server(ALLOWED)
    document = pod("a", "b", **{"x.image-policy.k8s.io__ticket": "1", "other": "2"})
    assert await passes(plugin(server), document) == ""
    assert server.reviews == [
        {
            "apiVersion": "imagepolicy.k8s.io/v1alpha1",
            "kind": "ImageReview",
            "spec": {
                "containers": [{"image": "a"}, {"image": "b"}, {"image": "first"}],
                "annotations": {"x.image-policy.k8s.io/ticket": "1"},
                "namespace": "n",
            },
        }
    ]
    assert server.clients == [ClientConfig("https://images.example.com/review", "Y2E=", "other.name")]
    (shown,) = server.shown
    assert shown.of("images.example.com:443").token == "t"


async def test_a_debugger_is_asked_about_alone() -> None:
    server = Server(ALLOWED)
    assert await passes(plugin(server), pod("a"), "ephemeralcontainers") == ""
    assert server.reviews[0]["spec"] == {"containers": [{"image": "debugger"}], "namespace": "n"}


REFUSALS: Final[dict[str, tuple[Any, str]]] = {
    "with a reason": (DENIED, "image policy webhook backend denied one or more images: not signed"),
    "without": ({"status": {"allowed": False}}, "one or more images rejected by webhook backend"),
    "by default": ({"status": {}}, "one or more images rejected by webhook backend"),
    "no answer": (CallFailed("no route"), "no route"),
    "an answer without status": ({}, "the response is not an ImageReview with a status"),
    "another kind": ({**ALLOWED, "kind": "Pod"}, "the response is not an ImageReview with a status"),
    "no object": ([], "the response is not an ImageReview with a status"),
    "a wrong type": ({"status": {"allowed": "yes"}}, "the response is not an ImageReview with a status"),
}


@pytest.mark.parametrize(("answer", "why"), REFUSALS.values(), ids=REFUSALS)
async def test_what_refuses_a_pod(answer: Any, why: str) -> None:
    assert await passes(plugin(Server(answer)), pod("a")) == why


@pytest.mark.parametrize("answer", [CallFailed("no route"), {}])
async def test_pods_may_pass_if_nobody_can_be_asked(answer: Any) -> None:
    document = pod("a", other="2")
    assert await passes(plugin(Server(answer), allows_by_default=True), document) == ""
    failed_open = {"alpha.image-policy.k8s.io/failed-open": "true"}
    assert document["metadata"]["annotations"] == {"other": "2", **failed_open}, "as in Kubernetes"
    assert await passes(plugin(Server(DENIED), allows_by_default=True), pod("a")) != ""


@pytest.mark.parametrize(("answer", "ttl_s"), [(ALLOWED, 100), (DENIED, 10)])
async def test_answers_are_remembered_for_a_while(answer: Any, ttl_s: float) -> None:
    server = Server(answer)
    asking = plugin(server)
    for now, asked in ((0.0, 1), (ttl_s - 0.1, 1), (ttl_s + 0.1, 2)):
        server.now = now
        await passes(asking, pod("a"))
        assert len(server.reviews) == asked
    await passes(asking, pod("b"))
    assert len(server.reviews) == 3, "about others it is asked at once"


async def test_failures_and_disabled_caches_are_not_remembered() -> None:
    server = Server(CallFailed("no route"), ALLOWED)
    asking = plugin(server, allow_ttl_s=0)
    assert [await passes(asking, pod("a")) for _ in range(3)] == ["no route", "", ""]
    assert len(server.reviews) == 3


async def test_there_is_a_bound_on_what_is_remembered() -> None:
    server = Server(ALLOWED)
    asking = plugin(server)
    for number in range(ANSWERS_MAX + 1):
        await passes(asking, pod(str(number)))
    await passes(asking, pod(str(ANSWERS_MAX)))
    assert len(server.reviews) == ANSWERS_MAX + 1
    await passes(asking, pod("0"))
    assert len(server.reviews) == ANSWERS_MAX + 2


async def test_what_may_pass_by_itself_is_tried_again_later_and_later() -> None:
    transient = CallFailed("overloaded", is_transient=True)
    server = Server(transient, transient, ALLOWED)
    assert await passes(plugin(server), pod("a")) == ""
    first, second = server.pauses_s
    assert 1 <= first <= 1.2
    assert 1.5 <= second <= 1.8


async def test_not_for_ever() -> None:
    server = Server(CallFailed("overloaded", is_transient=True))
    assert await passes(plugin(server), pod("a")) == "overloaded"
    assert len(server.reviews) == ATTEMPTS_MAX
    assert len(server.pauses_s) == ATTEMPTS_MAX - 1


@pytest.mark.parametrize(("left_s", "attempts"), [(90.0, 1), (140.0, 2)])
async def test_it_is_not_tried_again_when_the_client_has_given_up(left_s: float, attempts: int) -> None:
    """The second attempt is 100 to 120 s after the first, and the third 150 to 180 s after that."""
    server = Server(CallFailed("overloaded", is_transient=True))
    given = attributes()._replace(deadline=asyncio.get_running_loop().time() + left_s)
    with pytest.raises(Forbidden, match="overloaded"):
        await plugin(server, backoff_s=100.0).validate(given, pod("a"), None)
    assert len(server.reviews) == attempts


def test_what_it_handles() -> None:
    asking, pods = plugin(Server(ALLOWED)), GroupResource("", "pods")
    assert asking.handles(pods, "", Operation.UPDATE)
    assert asking.handles(pods, "ephemeralcontainers", Operation.UPDATE)
    assert not asking.handles(pods, "status", Operation.UPDATE)
    assert not asking.handles(pods, "", Operation.DELETE)
    assert not asking.handles(GroupResource("apps", "deployments"), "", Operation.CREATE)


@pytest.mark.parametrize(("default", "decision"), [(True, "allowed"), (False, "refused")])
async def test_an_outage_is_logged_once_with_what_becomes_of_pods(
    caplog: pytest.LogCaptureFixture, default: bool, decision: str
) -> None:
    asked = plugin(Server(CallFailed("refused"), CallFailed("refused"), ALLOWED), allows_by_default=default)
    for image in "abc":
        await passes(asked, pod(image))
    first, last = caplog.messages
    assert first == f"cannot check images; the pod is {decision}: refused"
    assert last.startswith("the image policy webhook responds again, ")
