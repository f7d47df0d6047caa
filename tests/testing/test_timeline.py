"""Who has written an object, when, and what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from apiserver.testing import ApiServer, Change, NotInThisProcess, ServerStopped, UnknownKind, User
from apiserver.testing.timeline import CHANGES_SHOWN, VERSIONS_SHOWN

NAMESPACE: Final = "/api/v1/namespaces/default"
CONFIG_MAPS: Final = f"{NAMESPACE}/configmaps"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
AS_ALICE: Final = {"Authorization": "Bearer alice-token", "User-Agent": "client/1"}


@pytest.fixture(scope="module")
def original() -> Iterator[ApiServer]:
    with ApiServer(tokens={"alice-token": User("alice", ("system:masters",))}) as server:
        yield server


def send(server: ApiServer, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
    headers = {**AS_ALICE, **(MERGE if method == "PATCH" else {})}
    code, answer = server.request(method, path, body, query=query, headers=headers)
    assert code == (201 if method == "POST" else 200), answer
    found: dict[str, Any] = answer
    return found


def test_the_life_of_an_object(server: ApiServer) -> None:
    created = send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "1", "z": "3"}})
    path = f"{CONFIG_MAPS}/a"
    patched = send(server, "PATCH", path, {"data": {"x": "2", "y": "3", "z": None}}, fieldManager="hugo")
    send(server, "PUT", path, patched)  # It changes nothing, and is not written.
    send(server, "DELETE", path)
    timeline = server.timeline("ConfigMap", "a", "default")
    assert timeline.is_complete
    first, second, third = timeline
    assert [each.verb for each in timeline] == ["create", "patch", "delete"]
    assert {(each.user, each.user_agent) for each in timeline} == {("alice", "client/1")}
    assert [each.manager for each in timeline] == ["client", "hugo", ""]
    assert first.resource_version == created["metadata"]["resourceVersion"]
    assert second.resource_version == patched["metadata"]["resourceVersion"]
    assert int(third.resource_version) > int(second.resource_version)
    assert (first.document, second.document, third.document) == (created, patched, None)
    assert set(second.changes) == {
        Change("data.x", "1", "2"),
        Change("data.y", None, "3"),
        Change("data.z", "3", None),
    }
    assert (first.changes, third.changes) == ((), ())
    now = server.clock.now()
    assert all(each.at is not None and now - each.at < timedelta(seconds=60) for each in timeline)
    head, one, two, three = str(timeline).splitlines()
    assert head == "ConfigMap default/a:"
    assert ' create by alice (client/1, field manager client): {"' in one
    assert ' patch by alice (client/1, field manager hugo): data.x: "1" -> "2", ' in two
    assert three.endswith(f" {third.resource_version} delete by alice (client/1): the object was deleted")


def test_an_object_says_which_it_is(server: ApiServer) -> None:
    created = send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    by_object = server.timeline({"apiVersion": "v1", "kind": "ConfigMap", **created})
    assert [each.document for each in by_object] == [created]


def test_an_object_that_says_no_namespace_is_where_it_was_loaded(server: ApiServer) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    server.load(document)
    for timeline in (server.timeline(document), server.timeline("ConfigMap", "a")):
        assert [each.verb for each in timeline] == ["create"]
        assert str(timeline).startswith("ConfigMap default/a:\n")
    assert str(server.timeline("Namespace", "default", "default")).startswith("Namespace default:\n")


NOT_SAID: Final[dict[str, tuple[Any, str]]] = {
    "an item of a list": (
        {"metadata": {"name": "a"}},
        "timeline: the object has no apiVersion: pass its kind, ",
    ),
    "a name that is generated": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}},
        "timeline: the object has no name",
    ),
    "a kind": ("ConfigMap", "timeline: the object has no name"),
}


@pytest.mark.parametrize(("which", "reason"), NOT_SAID.values(), ids=NOT_SAID)
def test_an_object_that_does_not_say_which_it_is(server: ApiServer, which: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        server.timeline(which)


def test_what_the_server_itself_writes(server: ApiServer) -> None:
    send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    server.wait_for("ServiceAccount", "default", "new")
    (created,) = server.timeline("ServiceAccount", "default", "new")
    assert (created.verb, created.user, created.user_agent) == ("create", "system:apiserver", "")
    assert "by system:apiserver (field manager " in str(created)
    assert "serviceaccount" in created.manager


def test_an_object_that_was_made_again(server: ApiServer) -> None:
    for _ in range(2):
        send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
        send(server, "DELETE", f"{CONFIG_MAPS}/a")
    assert [each.verb for each in server.timeline("ConfigMap", "a", "default")] == [
        "create",
        "delete",
        "create",
        "delete",
    ]


def test_what_expires(server: ApiServer) -> None:
    involved = {"kind": "ConfigMap", "namespace": "default", "name": "a"}
    send(server, "POST", f"{NAMESPACE}/events", {"metadata": {"name": "e"}, "involvedObject": involved})
    server.clock.advance(hours=2)
    server.wait_until_gone("Event", "e", "default", timeout_s=60)
    _, expired = server.timeline("Event", "e", "default")
    assert (expired.verb, expired.user) == ("expire", "")
    assert str(expired).endswith(" the lease has expired")


def test_secrets_are_redacted(server: ApiServer) -> None:
    path = f"{NAMESPACE}/secrets"
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "s3cret-1"}
    body = {"metadata": {"name": "a", "annotations": applied}, "stringData": {"password": "s3cret-1"}}
    send(server, "POST", path, body)
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "s3cret-2"}
    change = {
        "metadata": {"annotations": annotations},
        "stringData": {"password": "s3cret-2", "more": "s3cret"},
    }
    send(server, "PATCH", f"{path}/a", change)
    send(server, "PATCH", f"{path}/a", {"data": None})
    timeline = server.timeline("Secret", "a", "default")
    for secret in ("s3cret", "czNjcmV0"):
        assert secret not in str(timeline)
        assert all(secret not in repr(each) for each in timeline)  # which pytest shows
    assert Change("data.password", "(redacted)", "(redacted)") in timeline[1].changes
    assert Change("data.more", None, "(redacted)") in timeline[1].changes
    assert timeline[2].changes == (Change("data", {"password": "(redacted)", "more": "(redacted)"}, None),)


def test_a_failed_wait_does_not_tell_secrets(server: ApiServer) -> None:
    send(server, "POST", f"{NAMESPACE}/secrets", {"metadata": {"name": "a"}, "stringData": {"p": "s3cret"}})
    with pytest.raises(Exception, match="Secret default/a does not meet the condition") as raised:
        server.wait_for("Secret", "a", "default", until=lambda _: False, timeout_s=0.1)
    assert "czNjcmV0" not in str(raised.value)


def test_what_was_before_a_fork_is_known_without_its_writer(server: ApiServer) -> None:
    send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    with server.fork() as fork:
        send(fork, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "2"}})
        before, after = fork.timeline("ConfigMap", "a", "default")
        assert (before.verb, before.user, before.manager) == ("create", "", "client")
        assert before.document is not None
        assert before.at == datetime.fromisoformat(before.document["metadata"]["creationTimestamp"])
        assert (after.verb, after.user) == ("patch", "alice")


def test_what_is_shown_is_bounded(server: ApiServer) -> None:
    data = {f"key-{n:02}": "before" for n in range(CHANGES_SHOWN + 2)}
    send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": data})
    send(server, "PATCH", f"{CONFIG_MAPS}/a", {"data": dict.fromkeys(data, "after")})
    assert str(server.timeline("ConfigMap", "a", "default")).endswith(", and 2 more")
    for number in range(VERSIONS_SHOWN):
        send(server, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"key-00": str(number)}})
    timeline = server.timeline("ConfigMap", "a", "default")
    assert len(timeline) == VERSIONS_SHOWN + 2
    assert len(str(timeline).splitlines()) == VERSIONS_SHOWN + 2
    assert str(timeline).splitlines()[1] == "  ... 2 earlier versions"


def test_custom_resources_and_what_is_of_no_namespace(server: ApiServer) -> None:
    assert [each.verb for each in server.timeline("Namespace", "default")] == ["create"]
    assert str(server.timeline("Namespace", "nowhere")) == "Namespace nowhere:\n  the object did not exist"


def test_who_wrote_what(server: ApiServer) -> None:
    send(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    write = next(each for each in server.writes() if "/registry/core/configmaps/default/a" in each.keys)
    assert write.user == "alice"
    assert str(write).endswith("alice (client/1): create /registry/core/configmaps/default/a")


def test_what_there_is_no_timeline_of(original: ApiServer) -> None:
    with pytest.raises(UnknownKind):
        original.timeline("Nothing", "a")
    with pytest.raises(ServerStopped):
        ApiServer().timeline("ConfigMap", "a")
    with ApiServer(in_process=False) as child, pytest.raises(NotInThisProcess):
        child.timeline("ConfigMap", "a")
