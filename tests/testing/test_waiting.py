"""Assertions that wait for what a server should come to hold, or should not."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from apiserver.testing import ApiServer, CutConnection, Match, NotInTime, NotQuiet, ServerStopped, UnknownKind
from apiserver.testing.waiting import _lines, _opened
from apiserver.testkit.faults.matches import OWN_USER_AGENT as USER_AGENT
from tests.support.eventually import until

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
# Longer than anything takes here; it is not waited for.
LONG_S: Final = 60.0
# What is done while nothing may be written is done within this time also on a busy machine.
MEANWHILE_S: Final = 4.0


def put(server: ApiServer, name: str, **data: str) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    server.load(document)


def beside(act: Any, *arguments: Any, **options: Any) -> threading.Thread:
    thread = threading.Thread(target=act, args=arguments, kwargs=options)
    thread.start()
    return thread


@contextlib.contextmanager
def repeating(act: Callable[[int], object]) -> Iterator[None]:
    """Does something again and again in a thread, each time with the next number, until the block ends."""
    is_over = threading.Event()

    def repeat() -> None:
        numbers = itertools.count()
        while not is_over.wait(0.01):
            act(next(numbers))

    thread = beside(repeat)
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_what_is_there_is_not_waited_for(server: ApiServer) -> None:
    put(server, "a", x="1")
    found = server.wait_for("ConfigMap", "a", "default")
    assert (found["kind"], found["data"]) == ("ConfigMap", {"x": "1"})


CONFIG_MAP: Final = ("kube-root-ca.crt", "default", "v1", "ConfigMap")
CLUSTER_ROLE: Final = ("cluster-admin", "", "rbac.authorization.k8s.io/v1", "ClusterRole")
# How a kind is named, and an object of it: its name, namespace, apiVersion and kind.
KINDS: Final = {
    **dict.fromkeys(("ConfigMap", "configmaps", "configmap", "v1/ConfigMap"), CONFIG_MAP),
    "ClusterRole": CLUSTER_ROLE,
    "clusterroles.rbac.authorization.k8s.io": CLUSTER_ROLE,
    "rbac.authorization.k8s.io/v1/ClusterRole": CLUSTER_ROLE,
}


@pytest.mark.parametrize(("named", "found"), KINDS.items(), ids=KINDS)
def test_kinds(server: ApiServer, named: str, found: tuple[str, str, str, str]) -> None:
    name, namespace, *kind = found
    document = server.wait_for(named, name, namespace)
    assert [document["apiVersion"], document["kind"]] == kind


def test_a_kind_that_is_not_served(server: ApiServer) -> None:
    with pytest.raises(UnknownKind, match="does not serve the kind 'Gizmo'; it serves APIService, "):
        server.wait_for("Gizmo", "a")


def test_what_comes_later(server: ApiServer) -> None:
    creating = beside(put, server, "a", x="1")
    assert server.wait_for("ConfigMap", "a", "default", timeout_s=LONG_S)["data"] == {"x": "1"}
    creating.join()
    changing = beside(put, server, "a", x="2")
    server.wait_for("ConfigMap", "a", "default", until=lambda it: it["data"]["x"] == "2", timeout_s=LONG_S)
    changing.join()


def test_what_goes(server: ApiServer) -> None:
    put(server, "a")
    deleting = beside(server.request, "DELETE", f"{CONFIG_MAPS}/a")
    server.wait_until_gone("ConfigMap", "a", "default", timeout_s=LONG_S)
    deleting.join()


def test_a_failure_tells_of_the_last_changes(server: ApiServer) -> None:
    put(server, "a", x="1")
    seen = 0

    def is_so(found: dict[str, Any]) -> bool:
        nonlocal seen
        seen += 1
        if seen == 1:
            put(server, "a", x="2")  # while it is watched
        return False

    with pytest.raises(NotInTime) as raised:
        server.wait_for("ConfigMap", "a", "default", until=is_so, timeout_s=1)
    message = str(raised.value)
    assert "ConfigMap default/a does not meet the condition after 1 s" in message
    assert 'by apiserver-testing: data.x: "1" -> "2"' in message


@pytest.mark.parametrize(
    "missing", [{}, {"items": []}, {"items": [{}]}], ids=["a field", "an item", "a field of an item"]
)
def test_what_is_not_there_yet_is_waited_for(server: ApiServer, missing: dict[str, Any]) -> None:
    """A status often comes after its object, and its conditions after the status."""

    def is_ready(found: dict[str, Any]) -> bool:
        items = json.loads(found["data"]["x"])
        return bool(items["items"][0]["ready"])

    put(server, "a", x=json.dumps(missing))
    with pytest.raises(
        NotInTime, match=r"does not meet the condition \((KeyError|IndexError): .*\) after 0\.1 s"
    ):
        server.wait_for("ConfigMap", "a", "default", until=is_ready, timeout_s=0.1)
    changing = beside(put, server, "a", x=json.dumps({"items": [{"ready": True}]}))
    server.wait_for("ConfigMap", "a", "default", until=is_ready, timeout_s=LONG_S)
    changing.join()


def test_what_else_it_raises_is_raised(server: ApiServer) -> None:
    put(server, "a", x="1")
    with pytest.raises(TypeError):
        server.wait_for("ConfigMap", "a", "default", until=lambda it: it["data"]["x"] > 1)


def test_a_failure_says_that_there_was_nothing(server: ApiServer) -> None:
    with pytest.raises(NotInTime, match="the object did not exist"):
        server.wait_for("ConfigMap", "none", "default", timeout_s=0.1)


def test_nothing_is_written(server: ApiServer) -> None:
    server.wait_for("ConfigMap", "kube-root-ca.crt", "default")
    server.assert_quiet("ConfigMap", "Pod", namespace="default", seconds=0.2)


def test_an_object_whose_name_has_what_selectors_have(server: ApiServer) -> None:
    name = "a,metadata.name=b\\c"
    server.load(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    )
    assert server.wait_for("ClusterRole", name)["metadata"]["name"] == name


def test_a_watch_that_is_read_late_tells_what_has_come(server: ApiServer) -> None:
    """As the last of many that `assert_quiet` reads one after another."""
    with _opened(server, CONFIG_MAPS, {"resourceVersion": "0"}, LONG_S, LONG_S) as (connection, response):
        put(server, "a")
        names = []
        while "a" not in names:
            events = _lines(connection, response, time.monotonic() - LONG_S)
            names += [event["object"]["metadata"]["name"] for event in events]


def test_what_is_written_is_told(server: ApiServer) -> None:
    """Of several kinds, while they are watched one after another."""
    with repeating(lambda number: put(server, f"a-{number}")), pytest.raises(NotQuiet) as raised:
        server.assert_quiet("Pod", "ConfigMap", namespace="default", seconds=MEANWHILE_S)
    assert "ADDED ConfigMap default/a-" in str(raised.value)
    assert "by apiserver-testing" in str(raised.value)


def test_who_has_written_is_told_where_the_object_does_not_say_it(server: ApiServer) -> None:
    """As of one that was deleted: its last manager is another's, or that has none at all."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    code, account = server.request("GET", path)
    assert (code, account["metadata"].get("managedFields")) == (200, None)
    headers = {"Content-Type": "application/merge-patch+json"}

    def write(number: int) -> None:
        server.request("PATCH", path, {"metadata": {"labels": {"a": str(number)}}}, headers=headers)
        put(server, f"a-{number}")
        server.request("DELETE", f"{CONFIG_MAPS}/a-{number}")

    with repeating(write):
        with pytest.raises(NotQuiet) as raised:
            server.assert_quiet("ServiceAccount", namespace="default", seconds=MEANWHILE_S)
        assert "MODIFIED ServiceAccount default/default by admin" in str(raised.value)
        with pytest.raises(NotQuiet) as raised:
            server.assert_quiet("ConfigMap", namespace="default", seconds=MEANWHILE_S)
    assert re.search(r"DELETED ConfigMap default/a-\d+ by admin$", str(raised.value), re.MULTILINE)


def put_in_two_namespaces(server: ApiServer) -> None:
    server.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    put(server, "a")
    metadata = {"name": "a", "namespace": "other"}
    server.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "1"}})


def test_without_a_namespace_any_object_of_the_name_will_do(server: ApiServer) -> None:
    put_in_two_namespaces(server)
    found = server.wait_for("ConfigMap", "a", until=lambda it: it["data"]["x"] == "1", timeout_s=LONG_S)
    assert found["metadata"]["namespace"] == "other"


def test_without_a_namespace_all_objects_of_the_name_must_be_gone(server: ApiServer) -> None:
    put_in_two_namespaces(server)
    deleting = beside(server.request, "DELETE", "/api/v1/namespaces/other/configmaps/a")
    with pytest.raises(NotInTime, match="ConfigMap a still exists"):
        server.wait_until_gone("ConfigMap", "a", timeout_s=0.5)
    deleting.join()
    server.request("DELETE", f"{CONFIG_MAPS}/a")
    server.wait_until_gone("ConfigMap", "a", timeout_s=LONG_S)


def test_a_server_that_is_reset_is_waited_for(server: ApiServer) -> None:
    """Its connections end, at whatever moment of an assertion that is."""
    before = server.snapshot()
    with ThreadPoolExecutor(1) as thread:
        for number in range(20):
            waiting = thread.submit(server.wait_for, "ConfigMap", "a", "default", timeout_s=LONG_S)
            futures.wait([waiting], number % 10 * 0.004)
            server.reset(before)
            put(server, "a")
            assert waiting.exception() is None
            server.reset(before)


def while_it_is_quiet(server: ApiServer, act: Any, *kinds: str) -> BaseException | None:
    """Do something when ConfigMaps are watched, and return what `assert_quiet` raises."""
    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(server.assert_quiet, *kinds, seconds=MEANWHILE_S)
        until(
            lambda: server.requests(verb="watch", resource="configmaps", includes_own=True), what="the watch"
        )
        act()
        return watching.exception()


def test_without_kinds_all_are_watched(server: ApiServer) -> None:
    raised = while_it_is_quiet(server, lambda: put(server, "a"))
    assert isinstance(raised, NotQuiet)
    assert str(raised) == "1 write in 4 s:\n  ADDED ConfigMap default/a by apiserver-testing"
    server.assert_quiet(seconds=0.1, namespace="default")


def test_what_was_written_is_not_known_of_a_server_that_was_reset(server: ApiServer) -> None:
    before = server.snapshot()
    raised = while_it_is_quiet(server, lambda: server.reset(before), "ConfigMap")
    assert isinstance(raised, NotQuiet)
    assert str(raised) == (
        "the writes to configmaps cannot be determined: the server was reset, or its history was compacted"
    )


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_connection_that_ends_while_it_begins_is_made_again(server: ApiServer, verb: str) -> None:
    """As those of a server that is reset then."""
    cut = Match(verb=verb, resource="configmaps", user_agent=USER_AGENT)
    server.faults.inject(CutConnection("before-write"), cut, times=1)
    server.assert_quiet("ConfigMap", seconds=0.05)


def test_a_server_that_is_stopped_is_not_quiet(server: ApiServer) -> None:
    raised = while_it_is_quiet(server, server.stop, "ConfigMap")
    assert isinstance(raised, ServerStopped)


def test_a_watch_whose_time_is_up_goes_on(server: ApiServer) -> None:
    """The clock is put forward meanwhile."""

    def advance() -> None:
        server.clock.advance(hours=1)
        put(server, "a")

    raised = while_it_is_quiet(server, advance, "ConfigMap")
    assert "ADDED ConfigMap default/a" in str(raised)


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_is_refused(server: ApiServer, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"seconds must be more than 0, not {seconds}"):
        server.assert_quiet("ConfigMap", seconds=seconds)
