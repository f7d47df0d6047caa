import json
import socket
import threading
import time

import httpx
import pytest
import uvicorn
from dashboard import UNREAD_MAX, Deployments, create_app

from apiserver.testing import EndWatch, Match

pytestmark = pytest.mark.apiserver(flags=["--simulate-nodes=1", "--simulate-workloads"])
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WITHIN_S = 60


@pytest.fixture
def browser(kubernetes_asyncio_configuration):
    """Runs the dashboard in a thread, and yields an HTTP client for it."""
    app = create_app(kubernetes_asyncio_configuration)
    server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        with httpx.Client(
            base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=WITHIN_S
        ) as client:
            yield client
        server.should_exit = True
        thread.join()


@pytest.fixture
def events(browser):
    with browser.stream("GET", "/events") as response:
        yield events_in(response)


def events_in(response):
    """Yields the name and the data of each event in a stream."""
    ends_at = time.monotonic() + WITHIN_S
    for line in response.iter_lines():
        assert time.monotonic() < ends_at, "the event did not arrive"
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def deployment(name="web", replicas=2):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            },
        },
    }


def until(events, wanted, **fields):
    """Reads events until a wanted event has these fields."""
    return next(data for event, data in events if event == wanted and fields.items() <= data.items())


def names_shown(events, names):
    """Yields the names on the page after each event."""
    for event, data in events:
        match event:
            case "all":
                names = {each["name"] for each in data}
            case "deleted":
                names = names - {data["name"]}
            case _:
                names = names | {data["name"]}
        yield names


def test_the_page_is_there(browser):
    assert 'new EventSource("events")' in browser.get("/").text


def test_a_rollout_is_shown_as_it_happens(kube, events):
    kube.load(deployment())
    until(events, "added", name="web", desired=2, ready=0)
    until(events, "modified", name="web", ready=2)


def test_a_deletion_is_shown(kube, events):
    kube.load(deployment())
    until(events, "added", name="web")
    kube.request("DELETE", f"{DEPLOYMENTS}/web")
    until(events, "deleted", name="web")


def test_a_browser_that_comes_later_gets_all(kube, browser, events):
    kube.load(deployment())
    until(events, "added", name="web")
    with browser.stream("GET", "/events") as response:
        name, (web,) = next(events_in(response))
        assert (name, web["name"]) == ("all", "web")


def test_a_change_that_no_watch_delivers(kube, events):
    """The watch and its first retry end with 410. The dashboard needs a new list to recover."""
    kube.load(deployment("first"))
    until(events, "added", name="first")
    kube.faults.inject(EndWatch(), Match(group="apps", resource="deployments"), times=2)
    kube.request("DELETE", f"{DEPLOYMENTS}/first")
    kube.compact()
    kube.load(deployment("second"))
    assert any(names == {"second"} for names in names_shown(events, {"first"}))


def test_a_browser_that_does_not_read_gets_all_again():
    deployments = Deployments()
    metadata = {"uid": "1", "namespace": "default", "name": "web"}
    with deployments.follow() as queue:
        for replicas in range(UNREAD_MAX):
            deployments.apply("MODIFIED", {"metadata": metadata, "spec": {"replicas": replicas}})
        event = queue.get_nowait()
        assert (event.event, event.data[0]["desired"]) == ("all", UNREAD_MAX - 1)
        assert queue.empty()
