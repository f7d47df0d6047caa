"""What clients have sent to a server for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from apiserver.testing import ApiServer, NotInThisProcess, RecordedRequest, User

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
AS_ALICE: Final = {"Authorization": "Bearer alice-token", "User-Agent": "client/1"}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(tokens={"alice-token": User("alice", ("system:masters",))}) as server:
        yield server


def send(server: ApiServer, method: str, path: str, body: Any = None, **query: str) -> RecordedRequest:
    """Send a request as a client, and return its record."""
    server.request(method, path, body, query=query, headers=AS_ALICE)
    return server.requests()[-1]


def test_a_request(server: ApiServer) -> None:
    sent = send(server, "PUT", f"{CONFIG_MAPS}/a/status", {"data": {"password": "secret"}}, pretty="secret")
    assert (sent.method, sent.path, sent.verb) == ("PUT", f"{CONFIG_MAPS}/a/status", "update")
    assert (sent.resource, sent.namespace, sent.name) == ("configmaps/status", "default", "a")
    assert (sent.user, sent.user_agent, sent.code) == ("alice", "client/1", 404)
    assert "secret" not in repr(sent)


REQUESTS: Final[dict[str, tuple[str, str, dict[str, str], tuple[str, str, int]]]] = {
    "a list": ("GET", CONFIG_MAPS, {}, ("list", "configmaps", 200)),
    "a watch": ("GET", CONFIG_MAPS, {"watch": "1", "timeoutSeconds": "1"}, ("watch", "configmaps", 200)),
    "of a group": ("GET", "/apis/apps/v1/deployments", {}, ("list", "deployments.apps", 200)),
    "of no resource": ("GET", "/version", {}, ("get", "", 200)),
    "what there is not": ("GET", "/nothing", {}, ("get", "", 404)),
    "a dry run": ("DELETE", f"{CONFIG_MAPS}/none", {"dryRun": "All"}, ("delete", "configmaps", 404)),
}


@pytest.mark.parametrize(("method", "path", "query", "recorded"), REQUESTS.values(), ids=REQUESTS)
def test_verbs_resources_and_codes(
    server: ApiServer, method: str, path: str, query: dict[str, str], recorded: tuple[str, str, int]
) -> None:
    sent = send(server, method, path, **query)
    assert (sent.verb, sent.resource, sent.code) == recorded


def test_one_whose_sender_is_not_known(server: ApiServer) -> None:
    server.request("GET", CONFIG_MAPS, headers={"Authorization": "Bearer no-token", "User-Agent": "client/2"})
    sent = server.requests()[-1]
    assert (sent.user, sent.code) == ("", 401)
    assert str(sent) == f"nobody (client/2): GET {CONFIG_MAPS} 401"


def test_warnings(server: ApiServer) -> None:
    sent = send(server, "POST", f"{CONFIG_MAPS}", {"metadata": {"name": "w"}, "unknown": 1})
    assert sent.code == 201
    assert sent.warnings == ('unknown field "unknown"',)


def test_some_of_them(server: ApiServer) -> None:
    send(server, "GET", "/api/v1/nodes")
    assert {each.path for each in server.requests(verb="list", resource="nodes", user="alice")} == {
        "/api/v1/nodes"
    }
    assert server.requests(user="nobody") == []


def test_what_tests_ask_is_left_out(server: ApiServer) -> None:
    before = len(server.requests())
    server.request("GET", "/version")
    server.wait_for("ConfigMap", "kube-root-ca.crt", "default")
    assert len(server.requests()) == before
    assert server.requests(includes_own=True, verb="get")[-1].path in ("/version", "/apis")


def test_a_fork_has_a_history_of_its_own(server: ApiServer) -> None:
    send(server, "GET", "/version")
    with server.fork() as fork:
        assert fork.requests() == []
        send(fork, "GET", "/version")
        snapshot = fork.snapshot()
        fork.reset(snapshot)
        assert len(fork.requests()) == 1


def test_those_to_a_child_process_are_not_known() -> None:
    with pytest.raises(NotInThisProcess, match="requests"):
        ApiServer(in_process=False).requests()
