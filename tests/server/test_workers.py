"""`--workers N`: several processes on one port that are one server to clients."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import signal
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil
import pytest
import yaml

from apiserver.app.serving import pki
from apiserver.cli import deprecations
from apiserver.metrics.declarations import known_metrics
from tests.support.api import Api, WatchEvents
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.eventually import until
from tests.support.metrics import metric, metrics_of
from tests.support.objects import pod
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
# A metric of the supervisor, too.
DISABLED: Final = "process_open_fds"
_numbers: Final = itertools.count(1)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdProcess) -> Iterator[ServerProcess]:
    """Two workers that nobody may kill."""
    # The workers must agree on the port, too, if the kernel chooses it.
    flags = ("--secure-port=0", f"--disabled-metrics={DISABLED}")
    with two_workers(tmp_path_factory.mktemp("workers"), etcd, *flags) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path, etcd: EtcdProcess) -> Iterator[ServerProcess]:
    """Two workers of the test's own."""
    with two_workers(tmp_path, etcd) as server:
        yield server


def two_workers(directory: Path, etcd: EtcdProcess, *flags: str) -> ServerProcess:
    """Not started yet."""
    prefix = f"--etcd-prefix=/test-{next(_numbers)}"
    return ServerProcess(directory / "data", f"--etcd-servers={etcd.url}", prefix, "--workers=2", *flags)


def workers(server: ServerProcess) -> list[psutil.Process]:
    return psutil.Process(server.pid).children()


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def await_status(api: Api, path: str, status: int) -> None:
    until(lambda: api.get(path).status == status, what=f"{status} from {path}")


def await_back(server: ServerProcess, times: int = 1) -> None:
    what = f"workers came back {times} times"
    until(lambda: server.stderr.count(" is ready again") == times, what=what)


def clients_of(process: psutil.Process) -> set[int]:
    """The ports that a process' connections come from."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return {c.raddr.port for c in process.net_connections("tcp") if c.status == "ESTABLISHED"}
    return set()


@contextmanager
def each_worker(server: ServerProcess) -> Iterator[Mapping[int, Api]]:
    """A connection to each worker, by the number of its process."""
    found: dict[int, Api] = {}
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            before = {process.pid: clients_of(process) for process in workers(server)}
            api = stack.enter_context(Api(server))
            api.get("/version").ok()
            for process in workers(server):
                if clients_of(process) - before.get(process.pid, set()):
                    found.setdefault(process.pid, api)
            if len(found) == 2:
                yield found
                return
    raise AssertionError("64 connections, and all to one worker")


@contextmanager
def watch_at(worker: psutil.Process, api: Api, path: str) -> Iterator[WatchEvents]:
    """A watch that one worker answers."""
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            before = clients_of(worker)
            events = stack.enter_context(api.watch(path))
            if clients_of(worker) - before:
                yield events
                return
    raise AssertionError("64 watches, and none where it should be")


def await_metric(api: Api, name: str, value: float, **labels: str) -> None:
    """A worker that has too much to do to answer the one that is asked counts as it did before."""
    until(lambda: metric(api, name, **labels), lambda seen: seen == value, name)


def with_slow(cases: Mapping[str, tuple[object, ...]], *slow: str) -> list[object]:
    """Parameters for all cases. slow: those that take the same way as others, and are slow tests."""
    return [
        pytest.param(*case, id=name, marks=[pytest.mark.slow] if name in slow else [])
        for name, case in cases.items()
    ]


# ---- one server to clients


def test_all_workers_serve_one_address(shared: ServerProcess) -> None:
    """`--secure-port 0`: the ready line, the kubeconfig and all workers agree on one free port."""
    kubeconfig = yaml.safe_load(shared.kubeconfig.read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == shared.url
    with each_worker(shared) as apis:
        assert len(apis) == 2
        assert all(api.get("/readyz").status == 200 for api in apis.values())


def test_a_write_to_one_worker_is_read_from_the_others(shared: ServerProcess) -> None:
    """Row K01: a read without a resourceVersion is never older than an answered write."""
    with each_worker(shared) as apis:
        one, two = apis.values()
        for number in range(20):
            made = one.post(CONFIGMAPS, {"metadata": {"name": f"read-{number}"}}).ok()
            assert two.get(f"{CONFIGMAPS}/read-{number}").ok() == made
            names = [item["metadata"]["name"] for item in two.get(CONFIGMAPS).ok()["items"]]
            assert f"read-{number}" in names
            one, two = two, one


def test_watches_on_all_workers_see_the_same_events(shared: ServerProcess) -> None:
    with contextlib.ExitStack() as stack, Api(shared) as api:
        before = [clients_of(process) for process in workers(shared)]
        start = api.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"]
        path = f"{CONFIGMAPS}?watch=1&resourceVersion={start}"
        watches = [stack.enter_context(api.watch(path)) for _ in range(32)]
        for process, ports in zip(workers(shared), before, strict=True):
            assert len(clients_of(process) - ports) >= 4
        api.post(CONFIGMAPS, {"metadata": {"name": "watched"}}).ok()
        api.delete(f"{CONFIGMAPS}/watched").ok()
        for watch in watches:
            assert watch.take(2) == [("ADDED", "watched"), ("DELETED", "watched")]


def test_workers_share_no_random_numbers(shared: ServerProcess) -> None:
    """What was random before the fork would be the same on both sides of it."""
    with each_worker(shared) as apis:
        answers = [
            api.post(CONFIGMAPS, {"metadata": {"generateName": "random-"}})
            for _ in range(5)
            for api in apis.values()
        ]
    made = [answer.ok()["metadata"] for answer in answers]
    assert len({each["uid"] for each in made}) == 10
    assert len({each["name"] for each in made}) == 10
    # A process has a part of its own in these, and a count.
    assert len({answer.headers["audit-id"][:24] for answer in answers}) == 2


# ---- metrics


def test_every_worker_reports_the_counters_of_all(shared: ServerProcess) -> None:
    posts = {"verb": "POST", "resource": "secrets"}
    with each_worker(shared) as apis:
        for number, api in enumerate(apis.values()):
            for n in range(3):
                api.post(
                    "/api/v1/namespaces/default/secrets", {"metadata": {"name": f"counted-{number}-{n}"}}
                ).ok()
        for api in apis.values():
            await_metric(api, "apiserver_request_total", 6, **posts)
            await_metric(api, "apiserver_request_duration_seconds_count", 6, **posts)
            await_metric(api, "apiserver_workers", 2)
            # All workers have the same objects: they are not added up.
            await_metric(api, "apiserver_storage_objects", 6, resource="secrets")


def test_all_workers_take_up_a_renewed_certificate(shared: ServerProcess) -> None:
    serving = shared.ca_path.with_name("apiserver.crt")
    serving.unlink()
    assert pki.renew(shared.ca_path.parent, ["127.0.0.1"])
    with Api(shared) as api:
        reloads = re.compile(r'^apiserver_tls_file_reloads_total{status="success"} 2$', re.MULTILINE)
        until(lambda: reloads.search(metrics_of(api)), what="both workers have read it")
    address = urlsplit(shared.url)
    for _ in range(8):
        shown = ssl.get_server_certificate((str(address.hostname), address.port or 0))
        assert shown == serving.read_text()


def test_a_worker_that_hangs_keeps_its_last_metrics(server: ServerProcess) -> None:
    """Its counters must not seem to fall. /readyz speaks of the worker that was asked only."""
    with each_worker(server) as apis:
        (hanging, theirs), (_, ours) = apis.items()
        for _ in range(3):
            theirs.get("/api/v1/pods").ok()
        await_metric(ours, "apiserver_request_total", 3, resource="pods")
        psutil.Process(hanging).suspend()
        try:
            assert ours.get("/readyz").status == 200
            ours.get("/api/v1/pods").ok()
            assert metric(ours, "apiserver_request_total", resource="pods") == 4
        finally:
            psutil.Process(hanging).resume()
        await_metric(theirs, "apiserver_request_total", 4, resource="pods")


# ---- a worker dies


def test_a_worker_that_dies_is_replaced_while_others_serve(server: ServerProcess) -> None:
    """kill -9: what others do goes on, new connections are taken, counters do not fall."""
    with each_worker(server) as apis:
        (victim, theirs), (survivor, ours) = apis.items()
        theirs.post(CONFIGMAPS, {"metadata": {"name": "left-behind"}}).ok()
        start = ours.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"]
        counted = metric(ours, "apiserver_request_total")
        path = f"{CONFIGMAPS}?watch=1&resourceVersion={start}"
        with watch_at(psutil.Process(survivor), ours, path) as events:
            process = psutil.Process(victim)
            process.kill()
            until(lambda: not is_alive(process), what="the worker is dead")
            for _ in range(20):
                with Api(server) as stranger:
                    assert stranger.get(f"{CONFIGMAPS}/left-behind").status == 200
            ours.post(CONFIGMAPS, {"metadata": {"name": "meanwhile"}}).ok()
            assert events.take(1) == [("ADDED", "meanwhile")]
            assert metric(ours, "apiserver_request_total") >= counted + 20
        await_back(server)
        assert metric(ours, "apiserver_worker_restarts_total") == 1
        assert metric(ours, "apiserver_workers") == 2
    with each_worker(server) as apis:
        assert survivor in apis
        for api in apis.values():
            assert api.get(f"{CONFIGMAPS}/meanwhile").status == 200
    assert server.stop() == 0
    assert f"process {victim}) ended by SIGKILL" in server.stderr


@pytest.mark.slow
def test_a_worker_that_keeps_dying_is_restarted_with_back_off(server: ServerProcess) -> None:
    (_, second) = workers(server)
    for times in range(1, 4):
        (victim,) = [process for process in workers(server) if process != second]
        victim.kill()
        await_back(server, times)
    waits = [float(text) for text in re.findall(r"restarting the worker in ([\d.]+) s", server.stderr)]
    assert waits == [0.5, 1.0, 2.0]
    assert is_alive(second)


@pytest.mark.slow
def test_a_new_worker_gets_no_connections_before_it_is_ready(tmp_path: Path) -> None:
    """Without etcd it cannot fill its cache, while others serve from theirs."""
    with wheel_etcd(tmp_path) as etcd, two_workers(tmp_path, etcd) as server:
        (survivor, victim) = workers(server)
        with Api(server) as api:
            api.post(CONFIGMAPS, {"metadata": {"name": "kept"}}).ok()
        for_all = f"{CONFIGMAPS}/kept?resourceVersion=0"
        with each_worker(server) as apis:
            for api in apis.values():
                await_status(api, for_all, 200)
        etcd.kill()
        victim.kill()
        until(lambda: set(workers(server)) - {survivor, victim}, what="another process")
        end = time.monotonic() + 1.5  # It has no way to say how far it is.
        while time.monotonic() < end:
            with Api(server) as api:
                assert api.get(for_all).status == 200
        assert " is ready again" not in server.stderr
        etcd.start()
        await_back(server)
        with each_worker(server) as apis:
            assert len(apis) == 2
        assert server.stop() == 0


# ---- ending

BY_WHOM: Final = {
    "SIGTERM to the supervisor": (signal.SIGTERM, False),
    "SIGTERM to all, as from an init system": (signal.SIGTERM, True),
    "SIGINT to all, as from a terminal": (signal.SIGINT, True),
}


@pytest.mark.parametrize(("number", "to_all"), with_slow(BY_WHOM, *list(BY_WHOM)[1:]))
def test_graceful_shutdown(tmp_path: Path, etcd: EtcdProcess, number: signal.Signals, to_all: bool) -> None:
    """readyz of each fails while requests are taken, watches end with an end of stream; exit code 0."""
    # Both are asked within the delay, on a machine that may have much else to do.
    server = two_workers(tmp_path, etcd, "--shutdown-delay-duration=8s")
    with server, each_worker(server) as apis, contextlib.ExitStack() as stack:
        processes = workers(server)
        watches = [stack.enter_context(api.watch(f"{CONFIGMAPS}?watch=1")) for api in apis.values()]
        for process in [*processes] if to_all else []:
            process.send_signal(number)
        server.send_signal(number)
        for api in apis.values():
            await_status(api, "/readyz", 500)
            assert api.post(CONFIGMAPS, {"metadata": {"generateName": "during-"}}).status == 201
        for watch in watches:
            # http.client would raise IncompleteRead on a mere close.
            assert len([event for event in watch if event["type"] == "ADDED"]) >= 2
        assert server.wait() == 0
        assert not any(map(is_alive, processes))


@pytest.mark.slow
def test_the_second_signal_ends_it_at_once(tmp_path: Path, etcd: EtcdProcess) -> None:
    with two_workers(tmp_path, etcd, "--shutdown-delay-duration=60s") as server:
        processes = workers(server)
        with Api(server) as api:
            server.send_signal(signal.SIGTERM)
            await_status(api, "/readyz", 500)
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 128 + signal.SIGTERM
        assert not any(map(is_alive, processes))


def test_a_worker_that_gets_sigterm_ends_gracefully_and_is_replaced(server: ServerProcess) -> None:
    """One after the other, workers can be renewed."""
    with each_worker(server) as apis:
        (chosen, api), _ = apis.items()
        process = psutil.Process(chosen)
        process.terminate()
        until(lambda: not is_alive(process), what="the worker is gone")
        api.close()
        assert "Traceback" not in server.stderr
    await_back(server)
    assert f"process {chosen}) ended with exit code 0" in server.stderr


@pytest.mark.slow
def test_no_worker_outlives_its_supervisor(server: ServerProcess) -> None:
    """kill -9. No worker holds open what tells another of it, so that one that hangs keeps no other."""
    workers(server)[0].kill()
    await_back(server)
    first, second = processes = workers(server)
    second.suspend()
    server.send_signal(signal.SIGKILL)
    try:
        until(lambda: not is_alive(first), what="the first is gone")
        second.resume()
        until(lambda: not is_alive(second), what="the second is gone")
    finally:
        for process in filter(is_alive, processes):
            process.kill()
    server.wait()
    server.start()  # nobody has the port
    assert server.stop() == 0


# ---- what stops it from starting


def broken_tokens(directory: Path) -> str:
    (directory / "broken.csv").write_text("only-a-token\n")
    return f"--token-auth-file={directory / 'broken.csv'}"


def broken_certificate(directory: Path) -> str:
    (directory / "broken.crt").write_text("no certificate")
    return f"--tls-cert-file={directory / 'broken.crt'}"


BROKEN: Final[dict[str, tuple[list[Callable[[Path], str]], str]]] = {
    "a token file that is none": ([broken_tokens], "broken.csv"),
    "a certificate that is none": (
        [broken_certificate, lambda directory: f"--tls-private-key-file={directory / 'broken.crt'}"],
        "certificate",
    ),
    "an address that is not ours": ([lambda _: "--bind-address=192.0.2.1"], "192.0.2.1"),
    "a name of nobody": ([lambda _: "--bind-address=nobody.invalid"], "nobody.invalid"),
}


@pytest.mark.parametrize(
    ("flags", "message"), with_slow(BROKEN, "a certificate that is none", "a name of nobody")
)
def test_a_worker_that_cannot_start_is_reported_in_one_line(
    tmp_path: Path, etcd: EtcdProcess, flags: list[Callable[[Path], str]], message: str
) -> None:
    """The reason is printed once, however many workers have it."""
    end = two_workers(tmp_path, etcd, *(flag(tmp_path) for flag in flags)).refusal()
    # An old etcd is logged.
    lines = [line for line in end.stderr.splitlines() if "apiserver.storage.etcd" not in line]
    assert (end.code, len(lines)) == (1, 1), end.stderr
    assert lines[0].startswith("apiserver: ")
    assert message in lines[0]


def test_a_port_of_other_workers_is_busy(shared: ServerProcess, tmp_path: Path, etcd: EtcdProcess) -> None:
    """SO_REUSEPORT would let two servers of one user share a port by mistake."""
    port = shared.url.rsplit(":", 1)[1]
    end = two_workers(tmp_path, etcd, f"--secure-port={port}").refusal()
    assert (end.code, end.stderr) == (
        1,
        f"apiserver: cannot listen on 127.0.0.1:{port}: Address already in use\n",
    )


def test_without_etcd_it_is_live_and_not_ready(tmp_path: Path) -> None:
    """As one process is: it listens, so that a probe of /livez does not restart it."""
    etcd = wheel_etcd(tmp_path)
    server = two_workers(tmp_path, etcd, "--bind-address=127.0.0.1")
    server.start(awaits_ready=False)
    try:
        until(lambda: server.kubeconfig.exists(), what="the port is told")
        server.url = yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]

        def answers() -> bool:
            with contextlib.suppress(OSError), Api(server) as api:
                return api.get("/livez/ping").status == 200 and api.get("/readyz").status == 500
            return False

        until(answers, what="it listens")
        etcd.start()
        server.await_ready()
        assert server.stop() == 0
    finally:
        server.kill()
        etcd.kill()


def test_each_worker_answers_for_simulated_nodes(tmp_path: Path, etcd: EtcdProcess) -> None:
    """What flags for tests add is added to each; one of them runs the controllers."""
    pods = "/api/v1/namespaces/default/pods"
    with two_workers(tmp_path, etcd, "--simulate-nodes=1") as server, each_worker(server) as apis:
        first, second = apis.values()
        first.post(pods, pod()).ok()
        until(lambda: second.get(f"{pods}/p").ok()["status"]["phase"] == "Running", what="the pod runs")
        for api in (first, second):
            await_status(api, f"{pods}/p/log", 200)


def test_calls_of_deprecated_versions_are_told_of_all_workers(shared: ServerProcess) -> None:
    """Row S07: whichever worker a client happened to reach."""
    path = "/api/v1/namespaces/default/endpoints"
    count = 20
    for _ in range(count):
        with Api(shared) as api:
            api.get(path, headers={"User-Agent": "of-workers"}).ok()
    printed = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(printed, write_through=True)):
        assert deprecations.run([f"--kubeconfig={shared.kubeconfig}", "-o", "json"]) == deprecations.DONE
        told = json.loads(printed.getvalue())["requests"]
    assert [row["count"] for row in told if row["userAgent"] == "of-workers"] == [count]


def test_help_texts_tell_the_stability_of_all_metrics(shared: ServerProcess) -> None:
    """Of those that the supervisor has, too. What is disabled is told by none of the processes."""
    with Api(shared) as api:
        exposition = metrics_of(api)
    helps = {line for line in exposition.splitlines() if "# HELP " in line}
    served = [metric for name, metric in known_metrics().items() if name != DISABLED]
    assert helps == {metric.head(36).partition("\n")[0] for metric in served}
