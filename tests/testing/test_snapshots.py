"""Snapshots, forks and resets of servers for tests."""

from __future__ import annotations

import asyncio
import gc
import http.client
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
import psutil
import pytest
import yaml

from apiserver.load.tracked_objects import tracked_count
from apiserver.storage.embedded import EmbeddedStore
from apiserver.testing import (
    Answer,
    ApiServer,
    Match,
    NotInThisProcess,
    ServerStopped,
    Snapshot,
    SnapshotMismatch,
)
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import until
from tests.support.kms_plugin import KmsPlugin
from tests.support.objects import pod

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS: Final = "/apis/example.com/v1/namespaces/default/widgets"


def definition(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def create(server: ApiServer, name: str, **data: str) -> dict[str, Any]:
    code, answer = server.request("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": data})
    assert code == 201, answer
    created: dict[str, Any] = answer
    return created


def listing(server: ApiServer, **query: str) -> dict[str, Any]:
    code, answer = server.request("GET", CONFIG_MAPS, query=query)
    assert code == 200, answer
    found: dict[str, Any] = answer
    return found


def names(server: ApiServer, **query: str) -> set[str]:
    """The names of the config maps, without the one that every namespace has."""
    return {item["metadata"]["name"] for item in listing(server, **query)["items"]} - {"kube-root-ca.crt"}


@pytest.fixture(scope="module")
def original() -> Iterator[ApiServer]:
    """A server with a definition, and config maps `a` and `b`. Tests do not write to it."""
    with ApiServer() as server:
        assert server.request("POST", DEFINITIONS, definition(size={"type": "integer"}))[0] == 201
        create(server, "a", of="original")
        create(server, "b")
        yield server


@pytest.fixture(scope="module")
def snapshot(original: ApiServer) -> Snapshot:
    return original.snapshot()


@pytest.fixture
def fork(original: ApiServer, snapshot: Snapshot) -> Iterator[ApiServer]:
    with original.fork(snapshot) as server:
        yield server


# ---- forks


def test_a_fork_has_the_same_objects(original: ApiServer, fork: ApiServer) -> None:
    assert fork.url != original.url
    assert fork.request("GET", f"{CONFIG_MAPS}/a") == original.request("GET", f"{CONFIG_MAPS}/a")


def test_a_fork_is_independent(original: ApiServer, fork: ApiServer) -> None:
    create(fork, "c")
    assert fork.request("DELETE", f"{CONFIG_MAPS}/a")[0] == 200
    assert (names(original), names(fork)) == ({"a", "b"}, {"b", "c"})


def test_two_forks_of_one_snapshot(original: ApiServer, snapshot: Snapshot, fork: ApiServer) -> None:
    create(fork, "c")
    with original.fork(snapshot) as other:
        create(other, "d")
        assert (names(fork), names(other)) == ({"a", "b", "c"}, {"a", "b", "d"})


POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
POLICY_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
SERVICES: Final = "/api/v1/namespaces/default/services"
SERVICE_CIDRS: Final = "/apis/networking.k8s.io/v1/servicecidrs"
CLUSTER_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def define_gadgets(server: ApiServer) -> None:
    gadgets = definition(size={"type": "integer"})
    gadgets["metadata"]["name"] = "gadgets.example.com"
    gadgets["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    server.load(gadgets)


def has_gadgets(server: ApiServer) -> bool:
    return server.request("GET", "/apis/example.com/v1/namespaces/default/gadgets")[0] == 200


def refuse_config_maps(server: ApiServer) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    matched = {"resourceRules": [rule]}
    spec = {"matchConstraints": matched, "validations": [{"expression": "object.metadata.name != 'no'"}]}
    assert server.request("POST", POLICIES, {"metadata": {"name": "no"}, "spec": spec})[0] == 201
    binding = {"policyName": "no", "validationActions": ["Deny"]}
    assert server.request("POST", POLICY_BINDINGS, {"metadata": {"name": "no"}, "spec": binding})[0] == 201
    until(lambda: refuses_config_maps(server))


def refuses_config_maps(server: ApiServer) -> bool:
    tried = server.request("POST", CONFIG_MAPS, {"metadata": {"name": "no"}}, query={"dryRun": "All"})
    return tried[0] == 422


def service(name: str, ip: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}}


def take_address(server: ApiServer) -> None:
    assert server.request("POST", SERVICES, service("taken", "10.0.0.77"))[0] == 201


def address_is_taken(server: ApiServer) -> bool:
    asked = service("other", "10.0.0.77")
    return server.request("POST", SERVICES, asked, query={"dryRun": "All"})[0] == 422


def add_network(server: ApiServer) -> None:
    spec = {"cidrs": ["10.99.0.0/24"]}
    assert server.request("POST", SERVICE_CIDRS, {"metadata": {"name": "more"}, "spec": spec})[0] == 201
    until(lambda: has_network(server))


def has_network(server: ApiServer) -> bool:
    asked = service("other", "10.99.0.7")
    return server.request("POST", SERVICES, asked, query={"dryRun": "All"})[0] == 201


def let_everybody_read(server: ApiServer) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    role = {"metadata": {"name": "system:basic-user"}, "rules": rules}
    assert server.request("PUT", f"{CLUSTER_ROLES}/system:basic-user", role)[0] == 200
    until(lambda: everybody_reads(server))


def everybody_reads(server: ApiServer) -> bool:
    as_ann = {"Impersonate-User": "ann", "Impersonate-Group": "system:authenticated"}
    return server.request("GET", CONFIG_MAPS, headers=as_ann)[0] == 200


def fail_requests(server: ApiServer) -> None:
    server.faults.inject(Answer(503), Match(resource="secrets"))


def requests_fail(server: ApiServer) -> bool:
    # The faults are for clients, not for the methods of `ApiServer`.
    headers = {"User-Agent": "a client"}
    return server.request("GET", "/api/v1/secrets", headers=headers)[0] == 503


def put_clock_forward(server: ApiServer) -> None:
    server.clock.advance(hours=1)


def clock_is_ahead(server: ApiServer) -> bool:
    _, made = server.request("POST", CONFIG_MAPS, {"metadata": {"name": "now"}}, query={"dryRun": "All"})
    created = datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    return created - datetime.now(UTC) > timedelta(minutes=30)


# What is done to a fork, and whether a server shows it.
CHANGES: Final[dict[str, tuple[Callable[[ApiServer], None], Callable[[ApiServer], bool]]]] = {
    "a definition": (define_gadgets, has_gadgets),
    "a policy": (refuse_config_maps, refuses_config_maps),
    "an address of a Service": (take_address, address_is_taken),
    "a network of Services": (add_network, has_network),
    "a default role": (let_everybody_read, everybody_reads),
    "a fault": (fail_requests, requests_fail),
    "the clock": (put_clock_forward, clock_is_ahead),
}


@pytest.mark.parametrize(("change", "shows"), CHANGES.values(), ids=CHANGES)
def test_what_happens_to_a_fork_is_nothing_to_others(
    original: ApiServer,
    snapshot: Snapshot,
    change: Callable[[ApiServer], None],
    shows: Callable[[ApiServer], bool],
) -> None:
    with original.fork(snapshot) as before, original.fork(snapshot) as changed:
        change(changed)
        with original.fork(snapshot) as after:
            servers = {"original": original, "before": before, "changed": changed, "after": after}
            assert [name for name, server in servers.items() if shows(server)] == ["changed"]


def await_controllers(server: ApiServer) -> None:
    """Those of a server that begins with a copy begin when it is ready."""
    queue = 'workqueue_depth{name="garbage_collector_attempt_to_delete"}'
    connection = server.connect()

    def scrape() -> str:
        connection.request("GET", "/metrics", headers=server.admin_headers)
        return connection.getresponse().read().decode()

    until(lambda: queue in scrape())
    connection.close()


@pytest.mark.parametrize("is_reset", [False, True], ids=["a fork", "a server that is reset"])
def test_controllers_work(snapshot: Snapshot, fork: ApiServer, is_reset: bool) -> None:
    if is_reset:
        fork.reset(snapshot)
    owner = create(fork, "owner")["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    fork.request("POST", CONFIG_MAPS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    assert names(fork) >= {"owner", "owned"}
    assert fork.request("DELETE", f"{CONFIG_MAPS}/owner")[0] == 200
    fork.wait_until_gone("ConfigMap", "owned", "default")


@pytest.mark.parametrize("is_reset", [False, True], ids=["a fork", "a server that is reset"])
def test_what_was_deleted_stays_deleted(original: ApiServer, snapshot: Snapshot, is_reset: bool) -> None:
    """A server that starts on a store creates what every server has, which would be another state."""
    view = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    with original.fork(snapshot) as server:
        assert server.request("DELETE", view)[0] == 200
        without = server.snapshot()
        if is_reset:
            server.reset(without)
            assert server.request("GET", view)[0] == 404
        with server.fork(without) as fork:
            await_controllers(fork)
            assert fork.request("GET", view)[0] == 404


def test_forks_in_threads_start_and_write_at_once(original: ApiServer, snapshot: Snapshot) -> None:
    """They share what does not depend on a server, as compiled schemas."""

    def use(_: int) -> tuple[int, str]:
        with original.fork(snapshot) as fork:
            code, created = fork.request("POST", "/api/v1/namespaces/default/pods", pod())
            return code, created["spec"]["restartPolicy"]

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(use, range(4))] == [(201, "Always")] * 4


# Objects of the interpreter: each one is memory, and is looked at by the collector of garbage.
TRACKED_MAX: Final = 10_000
# Ten times what it takes on a quiet machine.
FORK_CPU_S_MAX: Final = 0.25


def test_a_fork_is_cheap(original: ApiServer, snapshot: Snapshot) -> None:
    taken_s = []
    for _ in range(5):
        began = time.process_time()
        fork = original.fork(snapshot)
        taken_s.append(time.process_time() - began)
        fork.stop()
    await_controllers(original)  # The first one to ask for metrics imports what writes them, for all.
    gc.collect()
    before = tracked_count()
    with original.fork(snapshot) as fork:
        await_controllers(fork)
        gc.collect()
        tracked = tracked_count() - before
    assert tracked < TRACKED_MAX
    assert min(taken_s) < FORK_CPU_S_MAX


def test_objects_expire_while_a_fork_waits_for_its_keys(tmp_path: Path) -> None:
    """Its store goes on before its cache does."""
    events, secrets = "/api/v1/namespaces/default/events", "/api/v1/namespaces/default/secrets"
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
    with KmsPlugin(tmp_path / "kms") as plugin:
        kms = {"apiVersion": "v2", "name": "plugin", "endpoint": plugin.endpoint}
        encryption = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": [{"kms": kms}]}],
        }
        path = tmp_path / "encryption.yaml"
        path.write_text(yaml.safe_dump(encryption))
        flags = [f"--encryption-provider-config={path}", "--event-ttl=1h"]
        with ApiServer(flags=flags) as server:
            assert server.request("POST", events, event)[0] == 201
            assert server.request("POST", secrets, {"metadata": {"name": "s"}})[0] == 201
            snapshot = server.snapshot()
            server.clock.advance(hours=2)
            plugin.configure(delay_s=0.5)
            with server.fork(snapshot) as fork:
                assert fork.request("GET", f"{secrets}/s")[0] == 200
                assert fork.request("GET", events)[1]["items"] == []
                assert fork.request("POST", events, event)[0] == 201


def test_a_fork_of_a_fork(fork: ApiServer) -> None:
    create(fork, "c")
    with fork.fork() as again:
        create(again, "d")
        assert names(again) == {"a", "b", "c", "d"}
    assert names(fork) == {"a", "b", "c"}


def test_revisions_go_on(original: ApiServer, fork: ApiServer) -> None:
    """A watch that began on the original continues on the fork, and states of before can be read."""
    before = listing(original)["metadata"]["resourceVersion"]
    created = create(fork, "c")
    assert int(created["metadata"]["resourceVersion"]) > int(before)
    code, event = fork.request(
        "GET", CONFIG_MAPS, query={"watch": "1", "resourceVersion": before, "timeoutSeconds": "1"}
    )
    assert (code, event["object"]["metadata"]["name"]) == (200, "c")
    assert names(fork, resourceVersion=before, resourceVersionMatch="Exact") == {"a", "b"}


def test_what_definitions_define_is_served_at_once(fork: ApiServer) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert fork.request("POST", WIDGETS, {**widget, "spec": {"size": 1}})[0] == 201


def test_credentials_are_good_for_both(original: ApiServer, fork: ApiServer) -> None:
    assert fork.admin_token == original.admin_token
    account = yaml.safe_load(original.service_account("default", "default").read_text())
    token = account["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert fork.request("GET", "/version", headers=headers)[0] == 200


async def damage(directory: Path, key: str) -> None:
    """Overwrite what a store on disk has at a key with what is no object."""
    store = await EmbeddedStore.open(directory)
    read = await store.get(key)
    assert read.stored is not None
    await store.compare_and_put(key, b"no object", expected=read.stored.mod_revision)
    await store.close()


def test_what_is_damaged_is_so_in_a_fork(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ApiServer(data_dir=data) as server:
        create(server, "a")
        create(server, "b")
    asyncio.run(damage(data / "store", "/registry/core/configmaps/default/a"))
    with ApiServer(data_dir=data) as server, server.fork() as fork:
        for each in (server, fork):
            code, status = each.request("GET", f"{CONFIG_MAPS}/a")
            assert (code, "StorageError: corrupt object" in status["message"]) == (500, True)
            assert each.request("GET", f"{CONFIG_MAPS}/b")[0] == 200
        create(fork, "c")
        assert fork.request("DELETE", f"{CONFIG_MAPS}/b")[0] == 200


def test_a_fork_of_a_server_on_disk_is_in_memory(tmp_path: Path) -> None:
    with ApiServer(data_dir=tmp_path / "data") as server:
        create(server, "a")
        with server.fork() as fork:
            create(fork, "b")
            assert (names(server), names(fork)) == ({"a"}, {"a", "b"})
    with ApiServer(data_dir=tmp_path / "data") as server:
        assert names(server) == {"a"}


def test_a_server_on_disk_goes_on_in_memory_when_it_is_reset(tmp_path: Path) -> None:
    with ApiServer(data_dir=tmp_path / "data") as server:
        before = server.snapshot()
        create(server, "a")
        server.reset(before)
        create(server, "b")
        assert names(server) == {"b"}
    with ApiServer(data_dir=tmp_path / "data") as server:
        assert names(server) == {"a"}


def test_forks_outlive_their_original() -> None:
    server = ApiServer().start()
    create(server, "a")
    with server.fork() as fork:
        server.stop()
        assert names(fork) == {"a"}


# What an event loop does in threads has so many at most; the first server's come when they are needed.
EXECUTOR_THREADS_MAX: Final = min(32, (os.cpu_count() or 1) + 4)


def _threads() -> tuple[int, int]:
    """How many threads there are, those of executors apart."""
    of_executors = [each.name.startswith(("uvloop_", "asyncio_")) for each in threading.enumerate()]
    return of_executors.count(False), of_executors.count(True)


def test_nothing_is_left_of_forks(original: ApiServer, snapshot: Snapshot) -> None:
    with original.fork(snapshot):
        pass
    gc.collect()  # What other tests have left.
    (others, before), opened = _threads(), psutil.Process().num_fds()
    forks = 2 * EXECUTOR_THREADS_MAX
    for _ in range(forks):
        with original.fork(snapshot) as fork:
            names(fork)
    gc.collect()
    left, executors = _threads()
    assert left == others
    assert executors <= before + EXECUTOR_THREADS_MAX
    # Other servers of the process may have opened something meanwhile, but not one of each fork's.
    assert psutil.Process().num_fds() < opened + forks / 2


# ---- resets


def test_a_reset_server_holds_what_the_snapshot_does(fork: ApiServer) -> None:
    before, url, snapshot = fork.request("GET", f"{CONFIG_MAPS}/a"), fork.url, fork.snapshot()
    create(fork, "c")
    assert fork.request("DELETE", f"{CONFIG_MAPS}/b")[0] == 200
    assert fork.request("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}})[0] == 200
    fork.reset(snapshot)
    assert (names(fork), fork.url) == ({"a", "b"}, url)
    assert fork.request("GET", f"{CONFIG_MAPS}/a") == before


def test_what_was_defined_later_is_served_no_more(fork: ApiServer) -> None:
    snapshot = fork.snapshot()
    assert fork.request("DELETE", f"{DEFINITIONS}/widgets.example.com")[0] == 200
    fork.reset(snapshot)
    assert fork.request("GET", WIDGETS)[0] == 200
    changed = stored_with(fork, colour={"type": "string"})
    assert fork.request("PUT", f"{DEFINITIONS}/widgets.example.com", changed)[0] == 200
    fork.reset(snapshot)
    code, answer = fork.request("GET", f"{DEFINITIONS}/widgets.example.com")
    properties = answer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert (code, {*properties["properties"]}) == (200, {"size"})


def stored_with(server: ApiServer, **properties: Any) -> dict[str, Any]:
    """The definition as it is stored, with other properties."""
    _, stored = server.request("GET", f"{DEFINITIONS}/widgets.example.com")
    return {**stored, "spec": definition(**properties)["spec"]}


def test_what_was_before_a_reset_is_gone(original: ApiServer, snapshot: Snapshot, fork: ApiServer) -> None:
    """As after a restore: a revision of before may have been that of other objects."""
    seen = create(fork, "c")["metadata"]["resourceVersion"]
    fork.reset(snapshot)
    _, event = fork.request("GET", CONFIG_MAPS, query={"watch": "1", "resourceVersion": seen})
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    exact = {"resourceVersion": seen, "resourceVersionMatch": "Exact"}
    assert fork.request("GET", CONFIG_MAPS, query=exact)[0] == 410
    assert int(listing(fork)["metadata"]["resourceVersion"]) > int(seen)
    assert int(create(fork, "d")["metadata"]["resourceVersion"]) > int(seen)


def test_watches_end_with_a_reset(snapshot: Snapshot, fork: ApiServer) -> None:
    connection = http.client.HTTPSConnection(
        urlsplit(fork.url).netloc, context=ssl.create_default_context(cafile=fork.ca), timeout=60
    )
    headers = {"Authorization": f"Bearer {fork.admin_token}"}
    connection.request("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=600", headers=headers)
    events = connection.getresponse()
    assert orjson.loads(events.readline())["type"] == "ADDED"
    fork.reset(snapshot)
    assert {orjson.loads(line)["type"] for line in events.read().splitlines()} == {"ADDED"}
    connection.close()


def test_a_server_can_be_reset_to_what_another_one_held(original: ApiServer, snapshot: Snapshot) -> None:
    with ApiServer() as server:
        create(server, "c")
        server.reset(snapshot)
        assert names(server) == {"a", "b"}
        server.reset(snapshot)
        create(server, "d")
        assert names(server) == {"a", "b", "d"}


# ---- what cannot be done


def test_settings_must_be_the_same(snapshot: Snapshot) -> None:
    with ApiServer(flags=["--emulated-version=1.34"]) as server:
        for act in (server.reset, server.fork):
            with pytest.raises(SnapshotMismatch, match="emulated-version"):
                act(snapshot)


ASKED: Final[dict[str, Callable[[ApiServer, Snapshot], object]]] = {
    "a snapshot": lambda server, _: server.snapshot(),
    "a fork": lambda server, _: server.fork(),
    "a fork of a snapshot": lambda server, snapshot: server.fork(snapshot),
    "a reset": lambda server, snapshot: server.reset(snapshot),
}


def test_a_child_process_has_no_snapshots(snapshot: Snapshot) -> None:
    with ApiServer(in_process=False) as server:
        for ask in ASKED.values():
            with pytest.raises(NotInThisProcess, match="in_process=False"):
                ask(server, snapshot)


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_stopped_server(ask: Callable[[ApiServer, Snapshot], object], snapshot: Snapshot) -> None:
    server = ApiServer().start()
    server.stop()
    with pytest.raises(ServerStopped):
        ask(server, snapshot)


@pytest.mark.etcd
def test_what_is_in_etcd_is_not_in_this_process(tmp_path: Path) -> None:
    with wheel_etcd(tmp_path) as etcd, ApiServer(flags=[f"--etcd-servers={etcd.url}"]) as server:
        create(server, "a")
        with pytest.raises(SnapshotMismatch, match="etcd"):
            server.snapshot()
