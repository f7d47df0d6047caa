"""/debug/pprof/ and /debug/flags/v, as administrators use them.

Source: k8s.io/apiserver, pkg/server/routes/{profiling,flags}.go.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

PATHS: Final = [f"/debug/pprof/{name}" for name in ("", "profile", "heap", "tasks", "stalls")]
CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("profiles")) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def put_verbosity(api: Api, value: str) -> tuple[int, str]:
    answer = api.put("/debug/flags/v", value.encode(), type="text/plain")
    return answer.status, answer.body.decode()


def test_the_index_lists_the_profiles(api: Api) -> None:
    answer = api.get("/debug/pprof/")
    assert answer.body.decode().splitlines() == PATHS[1:]
    assert api.get("/debug/pprof").body == answer.body
    assert "/debug/pprof/" not in api.get("/").json["paths"]


def test_only_authorized_users_profile(api: Api) -> None:
    with api.as_caller("alice-token") as alice:
        for path in (*PATHS, "/debug/flags/v"):
            assert alice.get(path).status == 403
        denied = alice.put("/debug/flags/v", b"4")
        assert denied.message == 'forbidden: User "alice" cannot put path "/debug/flags/v"'
        monitor = {"Impersonate-User": "m", "Impersonate-Group": "system:monitoring"}
        assert api.get("/debug/pprof/heap", headers=monitor).status == 403


def test_a_role_allows_profiles(api: Api) -> None:
    rule = {"nonResourceURLs": ["/debug/pprof/*"], "verbs": ["get"]}
    named = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "profiler"}}
    api.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles", {**named, "kind": "ClusterRole", "rules": [rule]}
    ).ok()
    binding = {
        **named,
        "kind": "ClusterRoleBinding",
        "subjects": [{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "profiler", "apiGroup": "rbac.authorization.k8s.io"},
    }
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).ok()
    with api.as_caller("alice-token") as alice:
        until(lambda: alice.get("/debug/pprof/heap").status == 200, what="the role is known")
        assert alice.get("/debug/flags/v").status == 403


def test_a_cpu_profile_shows_what_requests_use(api: Api, server: ServerProcess) -> None:
    ended = threading.Event()

    def work() -> None:
        with Api(server) as own:
            while not ended.is_set():
                own.get(CONFIGMAPS).ok()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        answer = api.get("/debug/pprof/profile?seconds=1")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        text = answer.body.decode()
    finally:
        ended.set()
        worker.join()
    stacks = [line.rsplit(" ", 1) for line in text.splitlines()]
    assert sum(int(used) for _, used in stacks) > 0
    assert any(stack.startswith("MainThread;") and "apiserver.endpoints." in stack for stack, _ in stacks)


def is_profiling(api: Api) -> bool:
    """Returns whether the server makes a profile now. HEAD makes none, which would refuse another one."""
    status = api.send("HEAD", "/debug/pprof/profile").status
    assert status in (200, 503)
    return status == 503


def test_one_profile_at_a_time(api: Api, server: ServerProcess) -> None:
    def profile() -> None:
        with Api(server) as own:
            own.get("/debug/pprof/profile?seconds=2")

    profiling = threading.Thread(target=profile)
    profiling.start()
    until(lambda: is_profiling(api), what="a profile is being made")
    assert api.get("/debug/pprof/tasks").status == 503
    assert api.get("/readyz").status == 200
    profiling.join()
    assert api.get("/debug/pprof/tasks").status == 200


def test_a_profile_ends_when_its_client_is_gone(api: Api, server: ServerProcess) -> None:
    where = urlsplit(server.url)
    tls = ssl.create_default_context(cafile=server.ca_path)
    connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=tls)
    connection.request(
        "GET", "/debug/pprof/profile?seconds=60", headers={"Authorization": "Bearer admin-token"}
    )
    until(lambda: is_profiling(api), what="a profile is being made")
    connection.close()
    until(lambda: not is_profiling(api), within_s=30, what="the profile has ended")
    assert api.get("/debug/pprof/heap").status == 200


@pytest.mark.parametrize("seconds", ["0", "61", "-1", "1.5", "x", "9" * 5000])
def test_invalid_durations(api: Api, seconds: str) -> None:
    answer = api.get(f"/debug/pprof/profile?seconds={seconds}")
    assert (answer.status, "must be an integer from 1 to 60" in answer.message) == (400, True)


def test_heap_tasks_and_stalls(api: Api) -> None:
    heap, tasks, stalls = (api.get(path).body.decode() for path in PATHS[2:])
    assert " builtins.dict\n" in heap
    assert "Informer.run at asyncio.locks:Event.wait:" in tasks
    assert stalls.startswith("elapsed ms  thread ms process ms ended ")
    assert api.get("/debug/pprof/goroutine").status == 404
    assert api.post("/debug/pprof/heap", {}).status == 405


@pytest.mark.parametrize("path", PATHS)
def test_head_makes_no_profile(api: Api, path: str) -> None:
    began = time.monotonic()
    answer = api.send("HEAD", path)
    assert (answer.status, answer.body) == (200, b"")
    assert time.monotonic() - began < 30  # The CPU profile of GET takes that long.


def test_the_log_level_of_a_running_server(api: Api, server: ServerProcess) -> None:
    assert put_verbosity(api, "3") == (200, "successfully set klog.logging.verbosity to 3")
    api.get("/api/v1/namespaces/default").ok()
    until(lambda: "GET /api/v1/namespaces/default: 200" in server.stderr, what="requests are logged")
    assert put_verbosity(api, "0")[0] == 200
    until(lambda: 'log level set to --v=0; user "admin"' in server.stderr, what="the change is logged")
    before = server.stderr.count("/api/v1/namespaces/default: 200")
    api.get("/api/v1/namespaces/default").ok()
    assert server.stderr.count("/api/v1/namespaces/default: 200") == before


@pytest.mark.parametrize("value", ["x", "", "1.5", "9" * 5000, "4\n"])
def test_invalid_log_levels(api: Api, value: str) -> None:
    status, text = put_verbosity(api, value)
    assert (status, text.startswith("failed to set klog.logging.verbosity ")) == (400, True)
    assert len(text) < 300


def test_the_log_level_has_only_put(api: Api) -> None:
    answer = api.get("/debug/flags/v")
    assert (answer.status, answer.body) == (406, b"unsupported http method\n")
    assert api.get("/debug/flags/other").status == 404


def test_profiling_off(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--profiling=false") as server, Api(server) as api:
        for path in (*PATHS, "/debug/flags/v"):
            assert api.get(path).status == 404


@pytest.mark.etcd
def test_all_workers_get_the_log_level(tmp_path: Path, etcd: EtcdProcess) -> None:
    flags = (f"--etcd-servers={etcd.url}", "--etcd-prefix=/levels", "--workers=2", "--logging-format=json")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
        put_verbosity(api, "3")

        def loggers() -> set[str]:
            with Api(server) as another:
                another.get("/version").ok()
            lines = (json.loads(line) for line in server.stderr.splitlines() if line.startswith("{"))
            return {line["logger"] for line in lines if "GET /version: 200" in line["msg"]}

        wanted = {"worker-1.apiserver.http", "worker-2.apiserver.http"}
        until(lambda: loggers() == wanted, what="both workers log requests")
