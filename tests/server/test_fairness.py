"""API Priority and Fairness on a real server: who waits, who is refused, and who is not. Row Q05."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api, until_status
from tests.support.conversion_webhook import ConversionWebhook, answer_to
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import WITHIN_S, until
from tests.support.raw import raw_connection
from tests.support.rbac import bind
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Review

GROUP: Final = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS: Final = f"{GROUP}/flowschemas"
LEVELS: Final = f"{GROUP}/prioritylevelconfigurations"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
DUMPS: Final = "/debug/api_priority_and_fairness"
# Waits for a state that is far away, and has its seat meanwhile.
FUTURE: Final = f"{CONFIG_MAPS}?resourceVersion=999999999"
# By the share of one of 246.
SEATS: Final = 3


def schema(name: str, level: str) -> dict[str, Any]:
    """A schema for all that a user of this name does."""
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    subject = {"kind": "User", "user": {"name": name}}
    return {
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": 500,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [subject], "resourceRules": [rule]}],
        },
    }


def level(name: str, response: dict[str, Any], shares: int = 1) -> dict[str, Any]:
    limited = {"nominalConcurrencyShares": shares, "borrowingLimitPercent": 0, "limitResponse": response}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


QUEUES: Final[dict[str, Any]] = {
    "type": "Queue",
    "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 2},
}
# User and level of the same name.
USERS: Final[dict[str, dict[str, Any]]] = {"queued": QUEUES, "refused": {"type": "Reject"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as server, Api(server) as admin:
        bind(admin, "u", "cluster-admin", *USERS)
        for name, response in USERS.items():
            admin.post(LEVELS, level(name, response)).ok()
            admin.post(SCHEMAS, schema(name, name)).ok()
        for name in USERS:
            uid = admin.get(f"{LEVELS}/{name}").ok()["metadata"]["uid"]
            until(partial(is_at, admin, name, uid))
        yield server


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        until(lambda: in_use(api) == dict.fromkeys(USERS, (0, 0)))
        yield api


def as_user(admin: Api, name: str, path: str = CONFIG_MAPS) -> Answer:
    return admin.get(path, headers={"Impersonate-User": name})


def level_of(answer: Answer) -> str:
    return answer.headers["x-kubernetes-pf-prioritylevel-uid"]


def is_at(admin: Api, name: str, level_uid: str) -> bool:
    """Whether the requests of a user have reached a level."""
    return level_of(as_user(admin, name)) == level_uid


def in_use(admin: Api) -> dict[str, tuple[int, int]]:
    """How many requests of each of our levels wait, and are executed."""
    table = admin.get(f"{DUMPS}/dump_priority_levels").body.decode().splitlines()[1:]
    rows = [[cell.strip() for cell in line.split(",")] for line in table]
    return {row[0]: (int(row[4]), int(row[5])) for row in rows if row[0] in USERS}


Begin = Callable[[str, Sequence[str]], list[ssl.SSLSocket]]
Fill = Callable[[str, int], list[ssl.SSLSocket]]


@pytest.fixture
def begin(server: ServerProcess) -> Iterator[Begin]:
    """Sends requests of a user for some paths, each on a connection of its own."""
    with ExitStack() as stack:

        def send(name: str, paths: Sequence[str]) -> list[ssl.SSLSocket]:
            connections = [stack.enter_context(raw_connection(server)) for _ in paths]
            for connection, path in zip(connections, paths, strict=True):
                connection.sendall(
                    f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
                    f"Impersonate-User: {name}\r\n\r\n".encode()
                )
            return connections

        yield send


@pytest.fixture
def fill(begin: Begin) -> Fill:
    """Sends requests of a user that have their seats for seconds."""
    return lambda name, count: begin(name, [FUTURE] * count)


def rejected(admin: Api, name: str) -> dict[str, int]:
    """How many requests of a user have been refused, by reason."""
    lines = admin.get("/metrics").body.decode().splitlines()
    metric = f'apiserver_flowcontrol_rejected_requests_total{{flow_schema="{name}",priority_level="{name}",'
    found = (line.removeprefix(metric) for line in lines if line.startswith(metric))
    return {line.split('"')[1]: int(line.split()[-1]) for line in found}


def assert_refused(answer: Answer, level_uid: str) -> None:
    assert (answer.status, answer.reason, level_of(answer)) == (429, "TooManyRequests", level_uid)
    assert int(answer.headers["retry-after"]) >= 1


def test_a_level_with_queues(admin: Api, fill: Fill) -> None:
    """Those that find no seat wait; the queue has an end, and so has the wait; who goes is forgotten."""
    uid = admin.get(f"{LEVELS}/queued").ok()["metadata"]["uid"]
    begun = fill("queued", SEATS)
    until(lambda: in_use(admin)["queued"] == (0, SEATS))
    assert_refused(as_user(admin, "queued", f"{CONFIG_MAPS}?timeout=400ms"), uid)
    assert rejected(admin, "queued") == {"time-out": 1}
    waiting = fill("queued", 2)
    until(lambda: in_use(admin)["queued"] == (2, SEATS))
    assert_refused(as_user(admin, "queued"), uid)
    assert rejected(admin, "queued") == {"time-out": 1, "queue-full": 1}
    details = admin.get(f"{DUMPS}/dump_requests?includeRequestDetails=1").body.decode()
    assert sum(line.startswith("queued, ") for line in details.splitlines()) == SEATS + 2
    assert "/namespaces/default/configmaps" in details
    waiting.pop().close()
    until(lambda: in_use(admin)["queued"] == (1, SEATS))
    assert rejected(admin, "queued")["cancelled"] == 1
    for connection in begun:
        assert connection.recv(100).startswith(b"HTTP/1.1 504 ")
    until(lambda: in_use(admin)["queued"] == (0, 1))
    assert as_user(admin, "queued").status == 200


def test_a_level_without_queues(admin: Api, fill: Fill) -> None:
    """Watches have their seats only until they have begun, and forwarded requests have none."""
    uid = admin.get(f"{LEVELS}/refused").ok()["metadata"]["uid"]
    before = rejected(admin, "refused").get("concurrency-limit", 0)
    with ExitStack() as stack:
        caller = {"Impersonate-User": "refused"}
        for _ in range(SEATS + 2):
            events = stack.enter_context(admin.watch(f"{CONFIG_MAPS}?watch=1", **caller))
            assert events.status == 200
        fill("refused", SEATS)
        until(lambda: in_use(admin)["refused"] == (0, SEATS))
        assert_refused(as_user(admin, "refused"), uid)
        assert_refused(admin.post(CONFIG_MAPS, {"metadata": {"generateName": "a"}}, headers=caller), uid)
        assert as_user(admin, "refused", "/readyz").status == 200
        assert as_user(admin, "queued").status == 200
        assert admin.get(CONFIG_MAPS).status == 200
    assert rejected(admin, "refused") == {"concurrency-limit": before + 2}


def test_what_a_webhook_converts(admin: Api, begin: Begin, tmp_path: Path) -> None:
    """Requests for one object wait for it without seats; lists, which may keep much, have their seats."""
    converting = threading.Event()

    async def held(review: Review) -> Review | bytes:
        await asyncio.to_thread(converting.wait, WITHIN_S)
        return answer_to(review)

    with ConversionWebhook(tmp_path) as webhook:
        versions = (version("v1"), version("v2", storage=False))
        defined = define(admin, definition(new_group(), *versions, conversion=webhook.conversion()))
        objects = defined.objects(version="v2")
        names = [f"a{number}" for number in range(SEATS + 1)]
        for name in names:
            defined.create(name).ok()
        webhook.asked.clear()
        webhook.converting = held
        reads = begin("refused", [f"{objects}/{name}" for name in names])
        until(lambda: len(webhook.asked) == len(names))
        assert in_use(admin)["refused"] == (0, 0)
        lists = begin("refused", [f"{objects}?limit={number + 1}" for number in range(SEATS)])
        until(lambda: in_use(admin)["refused"] == (0, SEATS))
        assert as_user(admin, "refused").status == 429
        converting.set()
        for connection in (*reads, *lists):
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        admin.delete(defined.path).ok()


def test_a_level_without_shares_that_rejects_serves_nobody(admin: Api) -> None:
    """docs/reference/differences.md: kube-apiserver serves one request at a time."""
    bind(admin, "closed", "cluster-admin", "closed")
    until_status(200, lambda: as_user(admin, "closed"))
    uid = admin.post(LEVELS, level("closed", {"type": "Reject"}, shares=0)).ok()["metadata"]["uid"]
    admin.post(SCHEMAS, schema("closed", "closed")).ok()
    until(lambda: is_at(admin, "closed", uid))
    assert_refused(as_user(admin, "closed"), uid)


def test_dumps_are_for_administrators(admin: Api) -> None:
    for name in ("dump_priority_levels", "dump_queues", "dump_requests"):
        assert as_user(admin, "somebody", f"{DUMPS}/{name}").status == 403
        answer = admin.get(f"{DUMPS}/{name}")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.body.startswith(b"PriorityLevelName, ")


def test_a_schema_tells_whether_its_level_exists(admin: Api) -> None:
    """And is used only while it does."""
    before = level_of(as_user(admin, "dangling"))
    admin.post(SCHEMAS, schema("dangling", "nowhere")).ok()

    def condition() -> tuple[str, str]:
        conditions = admin.get(f"{SCHEMAS}/dangling").ok().get("status", {}).get("conditions", [])
        return next(((each["status"], each["reason"]) for each in conditions), ("", ""))

    until(lambda: condition() == ("True", "NotFound"))
    assert level_of(as_user(admin, "dangling")) == before
    uid = admin.post(LEVELS, level("nowhere", QUEUES)).ok()["metadata"]["uid"]
    until(lambda: condition() == ("False", "Found"))
    assert level_of(as_user(admin, "dangling")) == uid
    admin.delete(f"{LEVELS}/nowhere").ok()
    until(lambda: condition() == ("True", "NotFound"))
    assert level_of(as_user(admin, "dangling")) == before


def test_a_status_that_somebody_spoils_is_put_right(admin: Api) -> None:
    path = f"{SCHEMAS}/probes"
    spoilt = [{"type": "Dangling", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    admin.patch(f"{path}/status", {"status": {"conditions": spoilt}}).ok()
    until(lambda: json.loads(admin.get(path).body)["status"]["conditions"][0]["status"] == "False")
