"""`apiserver.testing.ApiServer`: a real server inside of tests."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import kubernetes.client
import kubernetes.config
import kubernetes.watch
import psutil
import pytest
import yaml

from apiserver.testing import ApiServer, Delay, Match, RequestFailed, ServerDidNotStart, ServerStopped, User
from apiserver.testing.runners import ServerChild, ServerThread
from tests.support.eventually import until
from tests.support.servers_left import left_by_servers

NAMESPACES: Final = "/api/v1/namespaces"


def who_is(kubeconfig: Path) -> dict[str, Any]:
    """What the server says about whose kubeconfig it is."""
    new_client: Any = kubernetes.config.new_client_from_config
    body: Any = {}
    with new_client(str(kubeconfig)) as client:
        review = kubernetes.client.AuthenticationV1Api(client).create_self_subject_review(body)
        info: dict[str, Any] = client.sanitize_for_serialization(review)["status"]["userInfo"]
        return info


def names(server: ApiServer, path: str) -> list[str]:
    code, answer = server.request("GET", path)
    assert code == 200, answer
    return [item["metadata"]["name"] for item in answer["items"]]


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(tokens={"alice-token": User("alice", ("dev",), "uid-alice")}) as server:
        yield server


# ---- what it offers


def test_it_is_ready_when_it_has_started(server: ApiServer) -> None:
    assert server.request("GET", "/readyz") == (200, "ok")
    assert "default" in names(server, NAMESPACES)


def test_it_has_all_that_a_server_has_from_the_start(server: ApiServer) -> None:
    assert "cluster-admin" in names(server, "/apis/rbac.authorization.k8s.io/v1/clusterroles")


def test_the_kubeconfig_is_the_administrators(server: ApiServer) -> None:
    assert "system:masters" in who_is(server.kubeconfig)["groups"]
    assert server.kubeconfig_dict["clusters"][0]["cluster"]["server"] == server.url


def test_kubeconfigs_have_one_context(server: ApiServer) -> None:
    """So `kubectl --context apiserver` works with all of them."""
    for path, namespace in (
        (server.user("bob"), {}),
        (server.service_account("default", "robot"), {"namespace": "default"}),
    ):
        config = yaml.safe_load(path.read_bytes())
        context = {"cluster": "apiserver", "user": "apiserver", **namespace}
        assert config["contexts"] == [{"name": "apiserver", "context": context}]
        assert config["current-context"] == "apiserver"
        assert [each["name"] for each in config["clusters"] + config["users"]] == ["apiserver"] * 2


def test_the_groups_of_a_user_are_a_list(server: ApiServer) -> None:
    with pytest.raises(TypeError, match="the groups of alice must be a list, not 'dev'"):
        server.user("alice", groups="dev")


def test_a_user_has_a_certificate(server: ApiServer) -> None:
    info = who_is(server.user("bob", groups=["dev", "ops"]))
    assert (info["username"], {"dev", "ops"} <= {*info["groups"]}) == ("bob", True)


NAMES: Final[dict[str, tuple[str, int]]] = {
    "none": ("", 0),
    "long": ("a" * 65, 65),
    "long in UTF-8": ("é" * 40, 80),
}


@pytest.mark.parametrize(("name", "size"), NAMES.values(), ids=NAMES)
def test_a_name_that_is_too_long_for_a_certificate(server: ApiServer, name: str, size: int) -> None:
    assert who_is(server.user("é" * 32))["username"] == "é" * 32
    with pytest.raises(ValueError, match="64") as raised:
        server.user(name)
    assert str(raised.value) == (
        f"the name of a user must have 1 to 64 bytes, not {size}, because it is the common name of a "
        "certificate (RFC 5280, ub-common-name)"
    )


def test_a_service_account_is_created_and_has_a_token(server: ApiServer) -> None:
    for _ in range(2):
        info = who_is(server.service_account("default", "builder"))
        assert info["username"] == "system:serviceaccount:default:builder"


def test_a_service_account_of_no_namespace(server: ApiServer) -> None:
    with pytest.raises(RequestFailed, match=r"service account nowhere/builder: 404 namespaces .* not found"):
        server.service_account("nowhere", "builder")


def test_static_tokens(server: ApiServer) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    code, answer = server.request(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        review,
        headers={"Authorization": "Bearer alice-token"},
    )
    assert (code, answer["status"]["userInfo"]["username"]) == (201, "alice")


def test_requests_have_a_query_and_say_what_went_wrong(server: ApiServer) -> None:
    code, answer = server.request("GET", NAMESPACES, query={"limit": "many"})
    assert (code, answer["reason"]) == (400, "BadRequest")
    code, answer = server.request("GET", NAMESPACES, query={"fieldSelector": "metadata.name=default"})
    assert [item["metadata"]["name"] for item in answer["items"]] == ["default"]


@pytest.mark.parametrize("in_process", [True, False], ids=["in a thread", "in a child process"])
def test_options(tmp_path: Path, in_process: bool) -> None:
    flags = ["--emulated-version=1.34"]
    with ApiServer(
        flags=flags, in_process=in_process, feature_gates={"ListFromCacheSnapshot": False}
    ) as server:
        _, version = server.request("GET", "/version")
        assert version["gitVersion"].startswith("v1.34.")
        assert who_is(server.user("bob"))["username"] == "bob"


def servers() -> list[object]:
    """The threads and child processes in which servers run."""
    threads = [thread for thread in threading.enumerate() if thread.name == "apiserver"]
    return [*threads, *psutil.Process().children()]


def test_the_events_of_a_watch_are_a_text(server: ApiServer) -> None:
    """Each is a line; what is one document is read."""
    query = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": "0"}
    code, events = server.request("GET", NAMESPACES, query=query)
    assert code == 200
    assert len(events.splitlines()) >= 4


@pytest.mark.parametrize(("in_process", "rounds"), [(True, 1), (True, 2), (True, 20), (False, 20)])
async def test_a_task_that_is_cancelled_while_it_starts_one(in_process: bool, rounds: int) -> None:
    """rounds: of the event loop, before it is cancelled."""
    made, running = directories(), servers()

    async def use() -> None:
        async with ApiServer(in_process=in_process):
            pytest.fail("it was not cancelled")

    task = asyncio.create_task(use())
    for _ in range(rounds):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert servers() == running
    assert directories() <= made


async def test_a_task_that_is_cancelled_again_while_it_stops_one() -> None:
    server, started, running = ApiServer(), asyncio.Event(), servers()

    async def use() -> None:
        async with server:
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await started.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert servers() == running


@pytest.mark.parametrize("in_process", [True, False], ids=["in a thread", "in a child process"])
def test_ctrl_c_while_it_stops(in_process: bool) -> None:
    """A request that is under way has it wait for a moment."""
    made, running = directories(), servers()
    server = ApiServer(in_process=in_process).start()
    server.faults.inject(Delay(60), Match(user_agent="apiserver-testing", resource="pods"))
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(server.request, "GET", "/api/v1/pods")
        until(lambda: server.faults.list()[0].hits, what="the request")
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            with pytest.raises(KeyboardInterrupt):
                server.stop()
        finally:
            signal.signal(signal.SIGALRM, previous)
        assert asking.exception() is not None
    assert servers() == running
    assert directories() <= made


async def test_in_an_event_loop() -> None:
    async with ApiServer() as server:
        code, _ = await asyncio.to_thread(server.request, "GET", "/version")
        assert code == 200


def test_several_at_the_same_time() -> None:
    """They share what is immutable, and nothing that a client can change."""
    with ThreadPoolExecutor(3) as threads:
        servers = list(threads.map(lambda _: ApiServer().start(), range(3)))
        try:
            for number, server in enumerate(servers):
                code, _ = server.request("POST", NAMESPACES, {"metadata": {"name": f"of-{number}"}})
                assert code == 201
            found = [{*names(server, NAMESPACES)} for server in servers]
            assert [{name for name in each if name.startswith("of-")} for each in found] == [
                {"of-0"},
                {"of-1"},
                {"of-2"},
            ]
        finally:
            list(threads.map(ApiServer.stop, servers))


def test_a_store_on_disk_outlives_its_server(tmp_path: Path) -> None:
    with ApiServer(data_dir=tmp_path / "data") as server:
        assert server.request("POST", NAMESPACES, {"metadata": {"name": "kept"}})[0] == 201
    with ApiServer(data_dir=tmp_path / "data") as server:
        assert "kept" in names(server, NAMESPACES)


# ---- what it leaves alone; what it leaves behind: test_nothing_is_left


def directories() -> set[str]:
    """Those of the servers of this process."""
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"apiserver-{os.getpid()}-*")}


SETTINGS: Final[dict[str, Callable[[], object]]] = {
    "signal handlers": lambda: [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)],
    "the garbage collector": lambda: (gc.get_threshold(), gc.isenabled()),
    "the switch interval": sys.getswitchinterval,
    "the limit of open files": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    "logging": lambda: (logging.getLogger().handlers[:], logging.getLogger().level),
    "loggers": lambda: [logging.getLogger(name).level for name in ("apiserver", "aiohttp", "asyncio")],
    "the file mode mask": lambda: (mask := os.umask(0o077), os.umask(mask))[0],
    "the working directory": os.getcwd,
    "the environment": lambda: dict(os.environ),
    "callbacks of the garbage collector": lambda: len(gc.callbacks),
}


def test_the_process_stays_as_it_was() -> None:
    frozen = gc.get_freeze_count()
    before = {name: read() for name, read in SETTINGS.items()}
    with ApiServer() as server:
        server.request("GET", NAMESPACES)
        during = {name: read() for name, read in SETTINGS.items()}
    after = {name: read() for name, read in SETTINGS.items()}
    assert during == before
    assert after == before
    assert gc.get_freeze_count() <= frozen


ASKED: Final[dict[str, Callable[[ApiServer], object]]] = {
    "the URL": lambda server: server.url,
    "the kubeconfig": lambda server: server.kubeconfig_dict,
    "a request": lambda server: server.request("GET", "/version"),
    "a user": lambda server: server.user("bob"),
    "a second start": lambda server: server.start(),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_what_a_stopped_server_is_asked(ask: Callable[[ApiServer], object]) -> None:
    with ApiServer() as server:
        pass
    with pytest.raises(ServerStopped):
        ask(server)


BAD: Final[dict[str, tuple[list[str], str]]] = {
    "an unknown flag": (["--no-such-flag=1"], "unknown flag: --no-such-flag"),
    "a flag with an impossible value": (["--etcd-prefix="], "the prefix must not be empty"),
    "a file that is not there": (["--audit-policy-file=/nowhere"], "/nowhere"),
    "an address that is not this machine's": (["--bind-address=192.0.2.1"], "cannot listen on 192.0.2.1"),
}


@pytest.mark.parametrize("in_process", [True, False], ids=["in a thread", "in a child process"])
@pytest.mark.parametrize(("flags", "reason"), BAD.values(), ids=BAD)
def test_a_server_that_cannot_start_says_why(flags: list[str], reason: str, in_process: bool) -> None:
    made = directories()
    with pytest.raises(ServerDidNotStart) as raised:
        ApiServer(flags=flags, in_process=in_process).start()
    assert reason in raised.value.reason
    assert directories() <= made


@pytest.mark.parametrize("in_process", [True, False], ids=["in a thread", "in a child process"])
def test_a_server_whose_etcd_is_not_there_says_so_at_once(in_process: bool) -> None:
    """The server waits for it, as it has to in production; here it is not even begun."""
    made = directories()
    flags = ["--etcd-servers=http://127.0.0.1:1"]
    with pytest.raises(ServerDidNotStart) as raised:
        ApiServer(flags=flags, in_process=in_process).start()
    assert raised.value.reason == "etcd does not respond: http://127.0.0.1:1 (Connection refused)"
    assert directories() <= made


def test_a_child_process_that_cannot_start_says_nothing_else(tmp_path: Path) -> None:
    """Not what it has logged, as the warning of faults that users of `ApiServer` have not asked for."""
    (tmp_path / "file").touch()
    with pytest.raises(ServerDidNotStart) as raised:
        ApiServer(data_dir=tmp_path / "file", in_process=False).start()
    assert raised.value.reason == f"cannot use the data directory {tmp_path}/file/store: Not a directory"


def test_several_processes_need_processes() -> None:
    with pytest.raises(ServerDidNotStart, match="in_process=False"):
        ApiServer(flags=["--workers=2", "--etcd-servers=http://127.0.0.1:1"]).start()


def test_texts_that_are_no_lists() -> None:
    """Their letters would be flags, and groups."""
    with pytest.raises(TypeError, match="flags must be a list, not '--simulate-nodes=2'"):
        ApiServer(flags="--simulate-nodes=2")
    groups: Any = "dev"
    with pytest.raises(TypeError, match="the groups of ci must be a tuple, not 'dev'"):
        User("ci", groups)


def test_help_is_for_the_command_line() -> None:
    """It would end the process of the tests."""
    with pytest.raises(ValueError, match="--help cannot be set in flags; use `apiserver --help`"):
        ApiServer(flags=["--help"])


def test_a_directory_may_be_a_text(tmp_path: Path) -> None:
    with ApiServer(data_dir=str(tmp_path)) as server:
        assert server.kubeconfig == tmp_path / "admin.kubeconfig"


def test_flags_that_tests_set_otherwise() -> None:
    with pytest.raises(ValueError, match="--data-dir cannot be set in flags; use data_dir"):
        ApiServer(flags=["--data-dir=/tmp"])


PROGRAM: Final = """
import os, signal
from apiserver.testing import ApiServer
server = ApiServer(in_process=False).start()
print(server._runner._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_process_ends_when_its_parent_is_killed() -> None:
    end = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, check=False)
    assert end.returncode == -signal.SIGKILL
    try:
        psutil.Process(int(end.stdout)).wait(60)
    except psutil.NoSuchProcess:
        return


def process_of(server: ApiServer) -> subprocess.Popen[str]:
    runner = server._runner
    assert isinstance(runner, ServerChild)
    assert runner._process is not None
    return runner._process


def test_a_child_process_that_is_stopped_ends_its_shutdown() -> None:
    server = ApiServer(in_process=False).start()
    process = process_of(server)
    server.stop()
    assert process.returncode == 0


def test_a_child_process_that_is_stopped_does_not_wait_for_requests() -> None:
    """One in a thread does not, either. It would be killed in the end, after ten seconds."""
    server = ApiServer(in_process=False).start()
    process = process_of(server)
    server.faults.inject(Delay(60), Match(user_agent="apiserver-testing", resource="pods"))
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(server.request, "GET", "/api/v1/pods")
        until(lambda: server.faults.list()[0].hits, what="the request")
        server.stop()
        assert asking.exception() is not None
    assert process.returncode == 0


def test_a_child_process_that_has_failed_says_so() -> None:
    with ApiServer(in_process=False) as server:
        process_of(server).kill()
        process_of(server).wait()
        with pytest.raises(ServerStopped, match="because it has failed: exit code -9; "):
            server.request("GET", NAMESPACES)


async def leave() -> None:
    """Ends the event loop, as a defect would."""
    asyncio.get_running_loop().call_soon(sys.exit)


def test_a_server_whose_thread_has_failed_says_why() -> None:
    with ApiServer() as server:
        runner = server._runner
        assert isinstance(runner, ServerThread)
        runner.call(leave, "a test")
        until(runner._ended.is_set)
        with pytest.raises(ServerStopped, match="because it has failed: SystemExit"):
            server.request("GET", NAMESPACES)


@pytest.mark.longest
def test_servers_one_after_another_leave_nothing() -> None:
    """But caches, which have bounds: of roles by their bytes, of URLs; the first servers fill them."""
    before, after = left_by_servers(20, 40)
    # Of 115,000, some hundred come and go with the caches.
    assert after.objects - before.objects < 20 * 10
    assert (after.files, after.threads) == (before.files, before.threads)


@pytest.mark.slow
@pytest.mark.longest
def test_hundreds_of_servers_leak_nothing() -> None:
    """What a thousand leave: `make bench ARGS=servers`. Here each may leave as much as one of those."""
    at_10, at_300 = left_by_servers(10, 300)
    assert (at_300.files, at_300.threads) == (at_10.files, at_10.threads)
    assert at_300.memory - at_10.memory < 16 * 1024 * 290, (at_10, at_300)
