"""Custom resources whose versions are converted by the functions of an extension."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.extensions.support import worker_of
from tests.support.api import Answer, Api
from tests.support.eventually import until
from tests.support.metrics import metric
from tests.support.server_process import ServerProcess

FLAG: Final = "--extension=tests.extensions.modules.shop_hostile"
MANY: Final = 700
CONVERSIONS: Final = "apiserver_crd_conversion_webhook_duration_seconds_count"
CALLS: Final = "apiserver_extension_call_duration_seconds_count"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), FLAG).start() as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        until(lambda: "[+]extension-shop ok" in api.get("/readyz?verbose").body.decode())
        yield api


@pytest.fixture
def namespace(api: Api, request: pytest.FixtureRequest) -> str:
    name = f"n{abs(hash(request.node.name))}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    return name


def orders(namespace: str, version: str) -> str:
    return f"/apis/shop.example.com/{version}/namespaces/{namespace}/orders"


def create(api: Api, namespace: str, name: str, version: str = "v1", **spec: Any) -> Answer:
    body = {
        "apiVersion": f"shop.example.com/{version}",
        "kind": "Order",
        "metadata": {"name": name},
        "spec": spec,
    }
    return api.post(orders(namespace, version), body)


def test_an_object_in_each_version_over_the_shortest_path(api: Api, namespace: str) -> None:
    create(api, namespace, "a", "v3", width="5cm").ok()
    specs = {each: api.get(f"{orders(namespace, each)}/a").ok()["spec"] for each in ("v1", "v2", "v3")}
    assert specs == {
        "v1": {"size": 5, "note": ""},
        "v2": {"length": "5cm", "note": ""},
        "v3": {"width": "5cm", "note": ""},
    }


def test_every_verb_in_a_version_that_is_not_stored(api: Api, namespace: str) -> None:
    path = f"{orders(namespace, 'v2')}/a"
    made = create(api, namespace, "a", "v2", length="5cm").ok()
    assert made["spec"]["length"] == "5cm"
    assert api.put(path, {**made, "spec": {"length": "6cm"}}).ok()["spec"]["length"] == "6cm"
    assert api.patch(path, {"spec": {"note": "x"}}).ok()["spec"] == {"length": "6cm", "note": "x"}
    applied = {
        "apiVersion": "shop.example.com/v2",
        "kind": "Order",
        "metadata": {"name": "a"},
        "spec": {"length": "7cm"},
    }
    assert api.apply(f"{path}?fieldManager=m&force=true", applied).ok()["spec"]["length"] == "7cm"
    assert api.get(f"{orders(namespace, 'v1')}/a").ok()["spec"]["size"] == 7
    api.delete(path).ok()
    assert api.get(path).status == 404


def test_watches_show_the_objects_of_their_version(api: Api, namespace: str) -> None:
    create(api, namespace, "before", size=1).ok()
    with api.watch(f"{orders(namespace, 'v3')}?watch=true") as stream:
        assert stream.next()["object"]["spec"]["width"] == "1cm"
        create(api, namespace, "after", size=2).ok()
        api.delete(f"{orders(namespace, 'v1')}/before").ok()
        events = [stream.next(), stream.next()]
        assert [(each["type"], each["object"]["spec"]["width"]) for each in events] == [
            ("ADDED", "2cm"),
            ("DELETED", "1cm"),
        ]


def test_a_long_list_is_converted_in_batches(api: Api, namespace: str) -> None:
    calls = metric(api, CALLS, extension="shop", hook="grow")
    _create_many(api, namespace)
    items = api.get(orders(namespace, "v2")).ok()["items"]
    assert [each["spec"]["length"] for each in items] == [f"{number}cm" for number in range(MANY)]
    assert {each["apiVersion"] for each in items} == {"shop.example.com/v2"}
    assert metric(api, CALLS, extension="shop", hook="grow") - calls < MANY / 10


def test_metadata_is_that_of_the_object_except_for_labels_and_annotations(api: Api, namespace: str) -> None:
    made = create(api, namespace, "a", size=1, note="server fields").ok()
    found = api.get(f"{orders(namespace, 'v2')}/a").ok()
    assert found["metadata"] == {**made["metadata"], "labels": {"by": "shop"}}


FAILURES: Final = {
    "raises": "failed at shop_hostile.py:33: LookupError: no such size (object {namespace}/bad)",
    "text": "must return None or an object, not str (object {namespace}/bad)",
    "kind": "returned an invalid object for {namespace}/bad: invalid kind (expected Order, received Invoice)",
    "version": "invalid groupVersion (expected shop.example.com/v2, received shop.example.com/v7)",
    "name": "returned an invalid object for {namespace}/bad: must have the same name: bad != other",
    "uid": "must have the same UID: ",
    "metadata": "missing metadata in converted object",
    "cycle": "has returned what JSON cannot express",
    "late": "has not returned within 0.5 s",
    "ends": "has ended its worker: it has exited with status 3",
}


@pytest.mark.parametrize("note", FAILURES)
def test_a_conversion_that_fails_fails_its_request_alone(api: Api, namespace: str, note: str) -> None:
    create(api, namespace, "good", size=1).ok()
    create(api, namespace, "bad", size=2, note=note).ok()
    failed = api.get(orders(namespace, "v2"))
    assert failed.status == 503
    assert failed.message.startswith(
        'conversion of shop.example.com/v1, Kind=Order failed: extension "shop": grow (shop_hostile.py:'
    )
    assert FAILURES[note].format(namespace=namespace) in failed.message
    assert len(api.get(orders(namespace, "v1")).ok()["items"]) == 2
    until(lambda: api.get(f"{orders(namespace, 'v2')}/good").status == 200)
    assert metric(api, CONVERSIONS, crd_name="orders.shop.example.com", succeeded="false") > 0


def test_a_write_that_cannot_be_converted_is_not_stored(api: Api, namespace: str) -> None:
    refused = create(api, namespace, "a", "v2", length="long")
    assert refused.status == 503
    assert "shrink (shop_hostile.py:" in refused.message
    assert "ValueError: invalid literal for int() with base 10: 'long' (object " in refused.message
    assert api.get(orders(namespace, "v1")).ok()["items"] == []


def test_other_requests_go_on_while_a_conversion_is_late(
    server: ServerProcess, api: Api, namespace: str
) -> None:
    create(api, namespace, "good", size=1).ok()
    create(api, namespace, "bad", size=2, note="late").ok()
    with ThreadPoolExecutor(1) as beside, Api(server) as other:
        late = beside.submit(other.get, f"{orders(namespace, 'v2')}/bad")
        answers = [api.get(f"{orders(namespace, 'v1')}/good").status for _ in range(50)]
        assert late.result().status == 503
    assert set(answers) == {200}
    until(lambda: api.get(f"{orders(namespace, 'v2')}/good").status == 200)


def test_a_list_after_its_worker_was_killed_is_whole(server: ServerProcess, api: Api, namespace: str) -> None:
    _create_many(api, namespace)
    with ThreadPoolExecutor(1) as beside, Api(server) as other:
        listed = beside.submit(other.get, orders(namespace, "v2"))
        os.kill(worker_of(server), signal.SIGKILL)
        answer = listed.result()
    # The call that was running, if there was one, is not sent again: it may have ended the worker.
    if answer.status != 200:
        assert answer.status == 503
        assert "has ended its worker: it was ended by SIGKILL" in answer.message
    until(lambda: api.get(orders(namespace, "v2")).status == 200)
    items = api.get(orders(namespace, "v2")).ok()["items"]
    assert [each["spec"]["length"] for each in items] == [f"{number}cm" for number in range(MANY)]


def test_a_server_without_the_extension_says_so_and_damages_nothing(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, FLAG).start()
    with Api(server) as api:
        create(api, "default", "a", size=1).ok()
        server.stop()
    server.flags = ()
    with server.start(), Api(server) as api:
        assert api.get(f"{orders('default', 'v1')}/a").ok()["spec"]["size"] == 1
        refused = api.get(f"{orders('default', 'v2')}/a")
        assert refused.status == 503
        assert 'extension "shop" does not run in this server (--extension)' in refused.message


def _create_many(api: Api, namespace: str) -> None:
    for number in range(MANY):
        create(api, namespace, f"o{number:04}", size=number).ok()
