"""When the reconcile functions of extensions are called, with what, and what becomes of their results."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import pytest

from apiserver.extensions import Extension, controller_reference
from apiserver.testing import ApiServer
from tests.support.definitions import DEFINITIONS, definition, version
from tests.support.eventually import WITHIN_S, until
from tests.support.objects import config_map

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
WIDGETS: Final = "/apis/example.com/v1/namespaces/default/widgets"
# No controller puts other objects into namespaces.
FLAGS: Final = ("--controllers=namespace-controller",)
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
RECONCILED: Final = {"namespace": "default"}
_NUMBERS: Final = itertools.count()


class Calls:
    """An extension with one reconcile function, and its calls for objects in the namespace `default`.

    result: returns what the function returns, or raises what it raises, for the name of an object.
    """

    def __init__(
        self, resource: str = "configmaps", result: Callable[[str], Any] = lambda _: None, **options: Any
    ) -> None:
        self.app = Extension("shop")
        self.objects: list[dict[str, Any]] = []

        @self.app.reconcile(resource, **options)
        def place(found: dict[str, Any]) -> Any:
            if found["metadata"].get("namespace", "default") != "default":
                return None
            self.objects.append(found)
            return result(found["metadata"]["name"])

    @property
    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.objects]

    def wait_for(self, count: int) -> None:
        until(lambda: len(self.objects), lambda found: found >= count, f"{count} calls")


@contextmanager
def serving(*apps: Extension, flags: tuple[str, ...] = FLAGS) -> Iterator[ApiServer]:
    with ApiServer(extensions=apps, flags=flags) as server:
        yield server


def create(server: ApiServer, path: str, document: Any) -> dict[str, Any]:
    code, answer = server.request("POST", path, document)
    assert code == 201, answer
    found: dict[str, Any] = answer
    return found


def change(server: ApiServer, path: str, patch: Any) -> None:
    code, answer = server.request("PATCH", path, patch, headers=MERGE)
    assert code == 200, answer


def settled(server: ApiServer, calls: Calls) -> list[str]:
    """Returns the names of all calls so far: those that precede that of a new object."""
    name = f"last-{next(_NUMBERS)}"
    create(server, CONFIG_MAPS, config_map(name))
    until(lambda: name in calls.names)
    return [each for each in calls.names if not each.startswith("last-")]


# ---- for which objects


def test_objects_that_exist_at_the_start_are_reconciled() -> None:
    calls = Calls("namespaces")
    with serving(calls.app):
        until(lambda: {"default", "kube-system", "kube-public"} <= set(calls.names))


def test_an_object_is_reconciled_when_it_is_created_and_when_it_changes() -> None:
    calls = Calls()
    with serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map(k="1"))
        calls.wait_for(1)
        change(server, f"{CONFIG_MAPS}/a", {"data": {"k": "2"}})
        calls.wait_for(2)
        assert [each["data"]["k"] for each in calls.objects] == ["1", "2"]
        _, stored = server.request("GET", f"{CONFIG_MAPS}/a")
        assert calls.objects[-1] == stored


def test_an_object_is_reconciled_as_it_is_then() -> None:
    """It changes again and again while the function runs: that is one more call, with the last state."""
    is_changed = threading.Event()
    calls = Calls(result=lambda _: is_changed.wait(WITHIN_S) and None)
    with serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map(n="0"))
        calls.wait_for(1)
        for number in range(1, 6):
            change(server, f"{CONFIG_MAPS}/a", {"data": {"n": str(number)}})
        is_changed.set()
        calls.wait_for(2)
        assert [each["data"]["n"] for each in calls.objects] == ["0", "5"]


def test_an_object_whose_deletion_has_begun_is_reconciled_and_one_that_is_gone_is_not() -> None:
    calls = Calls()
    with serving(calls.app) as server:
        kept = config_map("kept")
        kept["metadata"]["finalizers"] = ["example.com/shop"]
        create(server, CONFIG_MAPS, kept)
        create(server, CONFIG_MAPS, config_map("gone"))
        calls.wait_for(2)
        calls.objects.clear()
        for name in ("gone", "kept"):
            server.request("DELETE", f"{CONFIG_MAPS}/{name}")
        calls.wait_for(1)
        assert "deletionTimestamp" in calls.objects[0]["metadata"]
        change(server, f"{CONFIG_MAPS}/kept", {"metadata": {"finalizers": None}})
        assert settled(server, calls) == ["kept"]


def test_an_owner_is_reconciled_when_what_it_owns_changes() -> None:
    calls = Calls(owns=["secrets"])
    with serving(calls.app) as server:
        owner = create(server, CONFIG_MAPS, config_map("owner"))
        calls.wait_for(1)
        owned = {"metadata": {"name": "s", "ownerReferences": [controller_reference(owner)]}}
        create(server, SECRETS, owned)
        calls.wait_for(2)
        change(server, f"{SECRETS}/s", {"stringData": {"k": "v"}})
        calls.wait_for(3)
        server.request("DELETE", f"{SECRETS}/s")
        calls.wait_for(4)
        assert settled(server, calls) == ["owner"] * 4


def test_an_object_that_goes_to_another_owner_concerns_both() -> None:
    calls = Calls(owns="secrets")
    with serving(calls.app) as server:
        first, second = (create(server, CONFIG_MAPS, config_map(name)) for name in ("one", "two"))
        owned = {"metadata": {"name": "s", "ownerReferences": [controller_reference(first)]}}
        create(server, SECRETS, owned)
        settled(server, calls)
        calls.objects.clear()
        change(server, f"{SECRETS}/s", {"metadata": {"ownerReferences": [controller_reference(second)]}})
        assert sorted(settled(server, calls)) == ["one", "two"]


def _not_controlling(owner: dict[str, Any]) -> dict[str, Any]:
    return {**controller_reference(owner), "controller": False}


def _of_another_kind(owner: dict[str, Any]) -> dict[str, Any]:
    return {**controller_reference(owner), "kind": "Pod"}


def _of_another_group(owner: dict[str, Any]) -> dict[str, Any]:
    return {**controller_reference(owner), "apiVersion": "example.com/v1"}


@pytest.mark.parametrize("reference", [_not_controlling, _of_another_kind, _of_another_group])
def test_other_owners_are_not_concerned(reference: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    calls = Calls(owns=["secrets"])
    with serving(calls.app) as server:
        owner = create(server, CONFIG_MAPS, config_map("owner"))
        calls.wait_for(1)
        create(server, SECRETS, {"metadata": {"name": "s", "ownerReferences": [reference(owner)]}})
        assert settled(server, calls) == ["owner"]


# ---- definitions


def test_a_type_may_be_defined_later_and_removed_and_defined_again() -> None:
    calls = Calls("widgets.example.com")
    with serving(calls.app) as server:
        for number in (1, 2):
            create(server, DEFINITIONS, definition("example.com"))
            until(lambda: server.request("GET", WIDGETS)[0] == 200)
            create(
                server, WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", **_named(f"w{number}")}
            )
            calls.wait_for(number)
            server.request("DELETE", f"{DEFINITIONS}/widgets.example.com")
            until(lambda: server.request("GET", f"{DEFINITIONS}/widgets.example.com")[0] == 404)
        assert calls.names == ["w1", "w2"]


def test_owned_types_may_be_defined_later() -> None:
    calls = Calls(owns=["widgets.example.com"])
    with serving(calls.app) as server:
        owner = create(server, CONFIG_MAPS, config_map("owner"))
        calls.wait_for(1)
        create(server, DEFINITIONS, definition("example.com"))
        until(lambda: server.request("GET", WIDGETS)[0] == 200)
        reference = {"ownerReferences": [controller_reference(owner)]}
        create(
            server,
            WIDGETS,
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", **reference}},
        )
        calls.wait_for(2)


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("resource", "expected"),
    {"widgets.example.com": "v2", "widgets.v1.example.com": "v1", "widgets.v2.example.com": "v2"}.items(),
)
def test_objects_have_the_version_that_is_named_or_the_preferred_one(resource: str, expected: str) -> None:
    calls = Calls(resource)
    with serving(calls.app) as server:
        create(server, DEFINITIONS, definition("example.com", version("v2", storage=False), version("v1")))
        until(lambda: server.request("GET", WIDGETS)[0] == 200)
        create(server, WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", **_named("w")})
        calls.wait_for(1)
        assert calls.objects[0]["apiVersion"] == f"example.com/{expected}"


def test_a_type_that_is_never_defined_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls("nothing.example.com")
    with caplog.at_level(logging.INFO), serving(calls.app) as server:
        create(server, DEFINITIONS, definition("example.com"))
        until(lambda: server.request("GET", WIDGETS)[0] == 200)
    told = [each for each in caplog.messages if "nothing.example.com" in each]
    assert told == ["extension-shop-place: the server does not serve nothing.example.com yet"]


# ---- results


@pytest.mark.parametrize("after", [3600, 3600.0, timedelta(hours=1)])
def test_a_number_of_seconds_calls_it_again_after_that_time(after: Any) -> None:
    calls = Calls(result=lambda name: after if name == "a" else None)
    with serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map())
        calls.wait_for(1)
        server.clock.advance(minutes=59)
        assert settled(server, calls) == ["a"]
        server.clock.advance(minutes=1)
        calls.wait_for(3)
        assert settled(server, calls) == ["a", "a"]


def test_an_object_that_is_gone_is_not_waited_for() -> None:
    calls = Calls(result=lambda name: 60 if name == "a" else None)
    with serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map())
        calls.wait_for(1)
        server.request("DELETE", f"{CONFIG_MAPS}/a")
        settled(server, calls)
        create(server, CONFIG_MAPS, config_map())
        calls.wait_for(3)
        server.clock.advance(minutes=1)
        calls.wait_for(4)
        assert settled(server, calls) == ["a", "a", "a"]


def test_no_delay_is_a_short_one() -> None:
    """A function that always returns 0 does not take all the time of the server."""
    calls = Calls(result=lambda name: 0 if name == "a" else None)
    with serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map())
        calls.wait_for(1)
        began, count = time.monotonic(), len(calls.objects)
        calls.wait_for(count + 4)
        assert time.monotonic() - began > 0.3


def test_a_failure_is_logged_in_one_line_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    numbers = itertools.count()

    def result(_: str) -> None:
        if next(numbers) < 2:
            raise RuntimeError("out of stock")

    calls = Calls(result=result)
    with caplog.at_level(logging.WARNING), serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map())
        calls.wait_for(3)
    told = [each.splitlines() for each in caplog.messages if "out of stock" in each]
    assert [each[0].partition(": extension")[0] for each in told] == [
        "extension-shop-place: cannot reconcile default/a, retrying in 0.05 s",
        "extension-shop-place: cannot reconcile default/a, retrying in 0.1 s",
    ]
    assert ': extension "shop": place (test_reconcilers.py:' in told[0][0]
    assert told[0][0].endswith("RuntimeError: out of stock")
    assert told[0][1] == "Traceback (most recent call last):"


def test_a_server_stops_while_a_function_runs() -> None:
    released = threading.Event()
    calls = Calls(result=lambda _: released.wait(10.0) and None)
    with serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map())
        calls.wait_for(1)
        began = time.monotonic()
    assert time.monotonic() - began < 5.0
    released.set()


def test_an_object_that_fails_does_not_hold_up_others() -> None:
    def result(name: str) -> None:
        if name == "fails":
            raise RuntimeError("out of stock")

    calls = Calls(result=result)
    with serving(calls.app) as server:
        for name in ("fails", "a", "b"):
            create(server, CONFIG_MAPS, config_map(name))
        until(lambda: {"a", "b"} <= set(calls.names))
        until(lambda: calls.names.count("fails") >= 2)


def test_a_result_of_another_type_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(result=lambda name: "soon" if name == "a" else None)
    with caplog.at_level(logging.WARNING), serving(calls.app) as server:
        create(server, CONFIG_MAPS, config_map())
        calls.wait_for(2)
    assert any("must return None or a number of seconds, not 'soon'" in each for each in caplog.messages)


# ---- concurrency


class Overlaps:
    """An extension whose async function notes which objects it reconciles at once, until it is released."""

    def __init__(self, workers: int) -> None:
        self.app = Extension("shop")
        self.running: list[str] = []
        self.most: list[list[str]] = []
        self.is_released = False

        @self.app.reconcile("configmaps", workers=workers)
        async def place(found: dict[str, Any]) -> None:
            self.running.append(found["metadata"]["name"])
            self.most.append(list(self.running))
            while not self.is_released:
                await asyncio.sleep(0.01)
            self.running.remove(found["metadata"]["name"])


@pytest.mark.parametrize("workers", [1, 3])
def test_as_many_objects_are_reconciled_at_once_as_workers_and_none_twice(workers: int) -> None:
    overlaps = Overlaps(workers)
    with serving(overlaps.app) as server:
        for name in "abcdef":
            create(server, CONFIG_MAPS, config_map(name))
        for name in "abcdef":
            change(server, f"{CONFIG_MAPS}/{name}", {"data": {"k": "v"}})
        until(lambda: len(overlaps.running) >= workers)
        overlaps.is_released = True
        until(lambda: {each for names in overlaps.most for each in names} >= set("abcdef"))
    assert max(map(len, overlaps.most)) == workers
    assert all(len(names) == len(set(names)) for names in overlaps.most)


def test_functions_do_not_hold_up_each_other() -> None:
    """One waits for an hour; the other is called."""
    calls = Calls()

    @calls.app.reconcile("configmaps")
    async def waits(found: dict[str, Any], api: Any) -> None:
        await asyncio.sleep(3600)

    with serving(calls.app) as server:
        for number in range(3):
            create(server, CONFIG_MAPS, config_map(f"a{number}"))
        until(lambda: {"a0", "a1", "a2"} <= set(calls.names))


def test_a_function_may_reconcile_several_resources() -> None:
    app, kinds = Extension("shop"), set()

    @app.reconcile("configmaps")
    @app.reconcile("namespaces")
    def place(found: dict[str, Any]) -> None:
        kinds.add(found["kind"])

    with serving(app) as server:
        create(server, CONFIG_MAPS, config_map())
        until(lambda: kinds == {"ConfigMap", "Namespace"})


# ---- the client


def test_functions_act_as_the_extension() -> None:
    app, reviews = Extension("shop"), []

    @app.reconcile("configmaps")
    async def place(found: dict[str, Any], api: Any) -> None:
        reviews.append(await api.create("selfsubjectreviews", {}))
        if found["metadata"]["namespace"] == "default":
            secret = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": "v"}}
            await api.apply("secrets", secret)

    with serving(app) as server:
        create(server, CONFIG_MAPS, config_map())
        until(lambda: server.request("GET", f"{SECRETS}/s")[0] == 200)
        _, secret = server.request("GET", f"{SECRETS}/s")
    user = reviews[0]["status"]["userInfo"]
    assert user["username"] == "system:extension:shop"
    assert user["groups"] == ["system:masters", "system:extensions", "system:authenticated"]
    [fields] = secret["metadata"]["managedFields"]
    assert (fields["manager"], fields["operation"]) == ("extension-shop", "Apply")
