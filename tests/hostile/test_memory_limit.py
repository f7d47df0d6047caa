"""A server that is short of memory refuses the largest work, and does all else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.support.api import Answer, Api, until_status
from tests.support.eventually import until
from tests.support.metrics import metric, metrics_of
from tests.support.rbac import bind
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
# More than is sent as a whole when memory is short.
OBJECTS: Final = 60
# What the kit of attacks demands.
RETURNED: Final = 1.2


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that has far more than its limit."""
    data = tmp_path_factory.mktemp("short") / "data"
    with ServerProcess(data) as server, Api(server) as api:
        for number in range(OBJECTS):
            api.post(CONFIGMAPS, {"metadata": {"name": f"c{number}"}}).ok()
        server.stop()
    with ServerProcess(data, "--memory-limit=1Mi") as server, Api(server) as api:
        bind(api, "alice", "cluster-admin", "alice")
        with api.as_caller("alice-token") as alice:
            until_status(200, lambda: alice.get(f"{CONFIGMAPS}/c0"), "alice may")
        until(lambda: metric(api, "apiserver_memory_pressure") == 2, what="the pressure is known")
        yield server


def config_map(name: str, size: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "v" * size}}


# Method, path below the ConfigMaps or a path of its own, body -> whether alice and an administrator get it.
REQUESTS: Final[dict[str, tuple[str, str, Any, tuple[bool, bool]]]] = {
    "health": ("GET", "/readyz", None, (True, True)),
    "metrics": ("GET", "/metrics", None, (True, True)),
    "discovery": ("GET", "/api/v1", None, (True, True)),
    "get": ("GET", f"{CONFIGMAPS}/c1", None, (True, True)),
    "a small update": ("PUT", f"{CONFIGMAPS}/c1", config_map("c1", 100), (True, True)),
    "a body of 100 KB": ("PUT", f"{CONFIGMAPS}/c1", config_map("c1", 100_000), (False, True)),
    "a body of 1 MB": ("PUT", f"{CONFIGMAPS}/c1", config_map("c1", 900_000), (False, False)),
    "a list": ("GET", CONFIGMAPS, None, (False, False)),
    "a list of what is cached": ("GET", f"{CONFIGMAPS}?resourceVersion=0&limit=10", None, (False, False)),
    "a page": ("GET", f"{CONFIGMAPS}?limit=50", None, (True, True)),
    "a list of few objects": ("GET", "/api/v1/nodes", None, (True, True)),
    "a watch": ("GET", "/api/v1/nodes?watch=1&timeoutSeconds=1&resourceVersion=1", None, (False, True)),
    "a watch with initial events": ("GET", f"{CONFIGMAPS}?watch=1&timeoutSeconds=1", None, (False, False)),
    "a deletion of all": ("DELETE", CONFIGMAPS, None, (False, False)),
}


@pytest.mark.parametrize(("method", "path", "body", "done"), REQUESTS.values(), ids=REQUESTS)
def test_what_is_refused(
    short: ServerProcess, method: str, path: str, body: Any, done: tuple[bool, bool]
) -> None:
    answers: list[Answer] = []
    for token in ("alice-token", "admin-token"):
        api = Api(short, token)
        answers.append(api.send(method, path, body))
        api.close()
    assert [answer.status != 429 for answer in answers] == list(done), [each.body[:200] for each in answers]
    for answer in answers:
        if answer.status == 429:
            assert answer.headers["retry-after"] == "5"
            assert answer.reason == "TooManyRequests"
            assert "short of memory" in answer.message
        else:
            assert answer.status < 300


def test_refusals_are_counted(short: ServerProcess) -> None:
    api = Api(short)
    assert api.get(CONFIGMAPS).status == 429
    text = metrics_of(api)
    api.close()
    assert 'apiserver_memory_refused_requests_total{kind="list"}' in text
    assert "apiserver_memory_limit_bytes 1048576" in text


def resident(server: ServerProcess) -> int:
    return int(psutil.Process(server.pid).memory_info().rss)


@pytest.mark.slow
def test_memory_comes_back(tmp_path: Path) -> None:
    """After a burst of large bodies, to what it was after a few of them."""
    with ServerProcess(tmp_path / "data") as server:
        large = json.dumps(
            {"metadata": {"name": "a"}, "data": {f"k{number}": "v" * 20 for number in range(20_000)}}
        ).encode()

        def send(count: int) -> None:
            api = Api(server)
            for _ in range(count):
                answer = until(
                    lambda: api.post(f"{CONFIGMAPS}?dryRun=All", large),
                    lambda each: each.status != 429,
                    "there is room for it",
                )
                assert answer.status == 201, answer.body
            api.close()

        send(3)
        before = resident(server)
        threads = [threading.Thread(target=send, args=(3,)) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: resident(server), lambda now: now <= RETURNED * before, "memory has come back")
