"""`exec`, `attach` and `portforward` need the verb create, whatever the method of a request.

Source: k8s.io/kubernetes, pkg/registry/core/pod/rest (release 1.35): WebSockets begin with a GET, for which
roles of readers often have the verb get.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api, until_status
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

PODS: Final = "/api/v1/namespaces/default/pods"
STREAMS: Final = ("exec?command=sh&stdout=1", "attach?stdout=1", "portforward?ports=80")
WEBSOCKET: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
}
SPDY: Final = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
UPGRADES: Final[dict[str, dict[str, str]]] = {"none": {}, "WebSocket": WEBSOCKET, "SPDY": SPDY}
# What comes of a request that is let through, as the pod is on no node.
PASSED: Final = (400, "pod p does not have a host assigned")


def prepare(api: Api) -> None:
    """Creates a pod, and users whose names are the verbs that they have on all below it."""
    containers = [{"name": "c", "image": "i"}]
    api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}}).ok()
    resources = " ".join(f"pods/{each.partition('?')[0]}" for each in (*STREAMS, "log"))
    for name in ("get", "create", "get-create"):
        grant(api, "default", name, rule(name.replace("-", " "), resources))
    until_status(400, lambda: ask(api, "get-create", "POST", STREAMS[0]))


def ask(api: Api, user: str, method: str, below: str, headers: dict[str, str] | None = None) -> Answer:
    sent = {"Impersonate-User": user, **(headers or {})}
    return api.send(method, f"{PODS}/p/{below}", headers=sent)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    path = tmp_path_factory.mktemp("streams")
    with ServerProcess(path, "--authorization-mode=RBAC") as server, Api(server) as api:
        prepare(api)
        yield api


# Who asks by which method, and what the refusal says after the pod; None where it is let through.
NO_MORE: Final = "is forbidden: "
CALLERS: Final[dict[str, tuple[str, str, str | None]]] = {
    "a reader, by GET": ("get", "GET", NO_MORE),
    "a reader, by POST": ("get", "POST", "cannot create resource"),
    "a creator, by GET": ("create", "GET", "cannot get resource"),
    "a creator, by POST": ("create", "POST", None),
    "who may do both, by GET": ("get-create", "GET", None),
    "who may do both, by POST": ("get-create", "POST", None),
}


@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("below", STREAMS)
@pytest.mark.parametrize(("user", "method", "refusal"), CALLERS.values(), ids=CALLERS)
def test_what_runs_in_pods_is_reached_by_those_who_may_create(
    api: Api, user: str, method: str, below: str, upgrade: dict[str, Any], refusal: str | None
) -> None:
    answer = ask(api, user, method, below, upgrade)
    if refusal is None:
        assert (answer.status, answer.message) == PASSED
        return
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message.startswith('pods "p" is forbidden: ')
    assert refusal in answer.message
    assert answer.message.endswith(NO_MORE) is (refusal is NO_MORE)


def test_logs_need_no_more_than_get(api: Api) -> None:
    assert ask(api, "get", "GET", "log").status == 204
    assert ask(api, "create", "GET", "log").status == 403


def test_who_may_not_learn_whether_there_is_a_pod(api: Api) -> None:
    headers = {"Impersonate-User": "get"}
    refused = api.send("GET", f"{PODS}/absent/{STREAMS[0]}", headers=headers)
    assert (refused.status, refused.message) == (403, 'pods "absent" is forbidden: ')


OFF: Final = {
    "the gate is off": "--feature-gates=AuthorizePodWebsocketUpgradeCreatePermission=false",
    "the release is older": "--emulated-version=1.34",
}


@pytest.mark.parametrize("flag", OFF.values(), ids=OFF)
def test_without_the_gate_the_verb_of_the_method_is_enough(
    tmp_path_factory: pytest.TempPathFactory, flag: str
) -> None:
    path = tmp_path_factory.mktemp("streams")
    with ServerProcess(path, flag, "--authorization-mode=RBAC") as server, Api(server) as api:
        prepare(api)
        for below in STREAMS:
            answer = ask(api, "get", "GET", below)
            assert (answer.status, answer.message) == PASSED
