"""The server as a process: start, failures to start, stop, and what survives a kill."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import pty
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from apiserver import __version__
from apiserver.cli.config import Config
from tests.support import forked_server
from tests.support.api import Api
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import WITHIN_S, until
from tests.support.logged_secrets import MARK
from tests.support.raw import raw_connection, read_all
from tests.support.required import missing
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
START_CPU_S_MAX: Final = 4.0
# A server imports 1,300 modules, help 130.
MODULES_OF_HELP_MAX: Final = 160


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line until it ends by itself."""
    return forked_server.run(arguments, WITHIN_S)


def run_interpreter(*arguments: str, through: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run it as users do. through: a program that starts it, with arguments."""
    return subprocess.run(
        [*through, sys.executable, "-m", "apiserver", *arguments],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def status_of(api: Api, path: str) -> int | None:
    """The status of a GET; None while nobody listens."""
    try:
        return api.get(path).status
    except (OSError, http.client.HTTPException):
        api.close()
        return None


def await_status(api: Api, path: str, status: int) -> None:
    until(lambda: status_of(api, path), lambda seen: seen == status, f"{status} from {path}")


# ---- starting


def test_the_first_start_creates_certificates_and_a_kubeconfig(tmp_path: Path) -> None:
    """One line on stdout, a kubeconfig that works, private files that nobody else can read."""
    with ServerProcess(tmp_path / "data", module="apiserver") as server:
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        private = [
            path for path in files if path.suffix == ".key" or path.name in ("admin.kubeconfig", "sa.pub")
        ]
        kubeconfig = yaml.safe_load(server.kubeconfig.read_text())
        assert server.url.startswith("https://127.0.0.1:")
        assert kubeconfig["clusters"][0]["cluster"]["server"] == server.url
        assert len([path for path in private if path.suffix == ".key"]) >= 3
        for path in files:
            if path.suffix == ".key" or path == server.kubeconfig or "store" in path.parts:
                assert path.stat().st_mode & 0o077 == 0, path
        assert server.stop() == 0
    started, stopped = server.stderr.splitlines()
    assert f" INFO apiserver.app.process: apiserver {__version__} serves Kubernetes 1.36 at " in started
    assert re.search(r" INFO apiserver\.app\.process: stopped \d+\.\d s after SIGTERM$", stopped)


def test_a_restart_keeps_certificates_objects_and_rising_versions(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", module="apiserver")
    with server, Api(server) as api:
        made = api.post(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}}).ok()
        kubeconfig = server.kubeconfig.read_text()
        assert server.stop() == 0
        server.start()
        assert server.kubeconfig.read_text() == kubeconfig
        assert api.get(f"{CONFIGMAPS}/a").ok() == made
        later = api.post(CONFIGMAPS, {"metadata": {"name": "b"}}).ok()
        assert int(later["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_a_start_costs_little(tmp_path: Path) -> None:
    """`make bench` measures how long it takes; here only that it has not become something else."""
    with ServerProcess(tmp_path / "data", module="apiserver") as server:
        assert server.cpu_s < START_CPU_S_MAX


# Python's TLS leaves a socket behind if the other side resets it before the first byte: SSLSocket._create.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("backend", ["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
def test_no_acknowledged_write_is_lost_when_killed(tmp_path: Path, backend: str) -> None:
    """After kill -9, every answered write is there with its resourceVersion, and versions go on rising."""
    flags: tuple[str, ...] = ()
    etcd = None
    if backend == "etcd":
        etcd = wheel_etcd(tmp_path).start()
        flags = (f"--etcd-servers={etcd.url}",)
    try:
        server = ServerProcess(tmp_path / "data", *flags)
        with server:
            acknowledged: dict[str, int] = {}
            for round_ in range(3):
                written_before = len(acknowledged)
                writers = [
                    threading.Thread(target=write, args=(server, f"r{round_}w{n}", acknowledged))
                    for n in range(4)
                ]
                for writer in writers:
                    writer.start()
                enough = written_before + 100
                until(lambda enough=enough: len(acknowledged) >= enough, what="a hundred writes")  # type: ignore[misc]
                server.kill()
                for writer in writers:
                    writer.join()
                server.start()
                with Api(server) as api:
                    listed = api.get(CONFIGMAPS).ok()
                    kept = {
                        item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
                        for item in listed["items"]
                    }
                    assert {name: kept.get(name) for name in acknowledged} == acknowledged
                    assert int(listed["metadata"]["resourceVersion"]) >= max(kept.values())
    finally:
        if etcd is not None:
            etcd.stop()


def write(server: ServerProcess, prefix: str, acknowledged: dict[str, int]) -> None:
    """Create objects until the server is gone, and record the resourceVersions that it answered."""
    with Api(server) as api:
        for number in itertools.count():
            name = f"{prefix}-{number}"
            try:
                answer = api.post(CONFIGMAPS, {"metadata": {"name": name}, "data": {"k": "x" * 200}})
            except (OSError, http.client.HTTPException):
                return
            acknowledged[name] = int(answer.ok()["metadata"]["resourceVersion"])


# ---- what stops a server from starting


def test_a_busy_port(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        end = ServerProcess(tmp_path / "data", f"--secure-port={port}").refusal()
    assert end.code == 1
    assert end.stderr == f"apiserver: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_second_server_on_the_same_data(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as first:
        end = ServerProcess(tmp_path / "data").refusal()
        assert end.code == 1
        assert len(end.stderr.splitlines()) == 1
        assert str(tmp_path / "data") in end.stderr
        with Api(first) as api:
            assert api.post(CONFIGMAPS, {"metadata": {"name": "still-here"}}).status == 201


def broken_store(data_dir: Path) -> None:
    for path in (data_dir / "store").rglob("*"):
        if path.is_file() and path.suffix in (".db", ".sqlite", ".sqlite3"):
            path.write_bytes(b"this is no database" * 1000)


def broken_authority(data_dir: Path) -> None:
    (data_dir / "pki" / "ca.crt").write_text("no certificate")


def broken_key_of_the_authority(data_dir: Path) -> None:
    (data_dir / "pki" / "ca.key").write_text("no key")
    (data_dir / "pki" / "apiserver.crt").unlink()


def not_a_directory(data_dir: Path) -> None:
    (data_dir / "pki").rename(data_dir / "pki-moved")
    (data_dir / "pki").write_text("")


BROKEN: Final[dict[str, Callable[[Path], None]]] = {
    "the store is no database": broken_store,
    "the authority is no certificate": broken_authority,
    "the authority's key is none, and needed": broken_key_of_the_authority,
    "a file stands where a directory was": not_a_directory,
}


@pytest.mark.parametrize("break_", BROKEN.values(), ids=BROKEN)
def test_damaged_files_are_reported_in_one_line(tmp_path: Path, break_: Callable[[Path], None]) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.stop()
    break_(tmp_path / "data")
    end = ServerProcess(tmp_path / "data").refusal()
    assert end.code == 1
    assert len(end.stderr.splitlines()) == 1, end.stderr
    assert end.stderr.startswith("apiserver: ")
    assert str(tmp_path) in end.stderr


USAGE: Final = {
    "unknown flag": (["--no-such-flag=1"], "--no-such-flag"),
    "unknown command": (["fly"], "fly"),
    "port out of range": (["--secure-port=70000"], "--secure-port"),
    "port that is no number": (["--secure-port=https"], "--secure-port"),
    "time without unit": (["--request-timeout=60"], "--request-timeout"),
    "no such file": (["--token-auth-file=/no/such/file"], "/no/such/file"),
    "half a key pair": (["--tls-cert-file=/etc/hostname"], "--tls-private-key-file"),
    "etcd without a scheme": (["--etcd-servers=localhost:2379"], "--etcd-servers"),
    "not here yet": (["--encryption-provider-config=/etc/hostname"], "--encryption-provider-config"),
}


@pytest.mark.parametrize(("flags", "message"), USAGE.values(), ids=USAGE)
def test_usage_errors(flags: list[str], message: str) -> None:
    """One line on stderr, and exit code 2."""
    end = run(*flags)
    assert (end.returncode, end.stdout) == (2, "")
    assert len(end.stderr.splitlines()) == 1, end.stderr
    assert message in end.stderr


def test_flags_of_kube_apiserver_without_effect_are_warned_about(tmp_path: Path) -> None:
    flags = ("--kubelet-timeout=5s", "--storage-backend=etcd3")
    plugins = "--enable-admission-plugins=JobValidation,LimitRanger"
    with ServerProcess(tmp_path / "data", *flags, plugins) as server:
        server.stop()
    assert "--kubelet-timeout has no effect" in server.stderr
    assert "--storage-backend=etcd3 has no effect without --etcd-servers" in server.stderr
    assert server.stderr.count("admission plugin JobValidation is not implemented") == 1
    warnings = [line for line in server.stderr.splitlines() if " WARNING " in line]
    assert not [line for line in warnings if "LimitRanger" in line]


@pytest.mark.parametrize(
    ("argument", "shown"), [("--help-all", "--etcd-servers"), ("version", "serves Kubernetes 1.")]
)
def test_help_and_version(argument: str, shown: str) -> None:
    end = run_interpreter(argument)
    assert (end.returncode, end.stderr) == (0, "")
    assert shown in end.stdout


def read_terminal(terminal: int) -> str:
    """Returns what has been written to a terminal, after all programs on it have ended."""
    written = b""
    with suppress(OSError):  # Linux ends a terminal by an error, macOS by no more data.
        while more := os.read(terminal, 65536):
            written += more
    os.close(terminal)
    return written.decode().replace("\r\n", "\n")


def on_terminal(*arguments: str, environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """Start a server whose stderr is a terminal, and stop it. Returns stdout, and what the terminal shows."""
    terminal, its_end = pty.openpty()
    command = [sys.executable, "-m", "apiserver", "--secure-port=0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its_end, env=environment) as process:
        os.close(its_end)
        alarm = threading.Timer(WITHIN_S, process.kill)
        alarm.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        shown = read_terminal(terminal)
        assert process.wait() == 0, shown
        alarm.cancel()
        return os.fsdecode(line + process.stdout.read()), shown


def test_a_terminal_shows_a_summary(tmp_path: Path) -> None:
    """Also in a home directory with spaces and umlauts, and where the locale lacks them."""
    data = tmp_path / "Jörg Müller" / "daten"
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    for environment in (os.environ, ascii_only):
        printed, shown = on_terminal(f"--data-dir={data}", environment=environment)
        url = printed.split()[1]
        assert printed == f"ready {url} kubeconfig={data / 'admin.kubeconfig'}\n"
        if environment is ascii_only:
            shown = shown.replace("\\xf6", "ö").replace("\\xfc", "ü")
        *summary, stopped = shown.splitlines()
        assert summary == [
            f"apiserver {__version__}, serves Kubernetes 1.36",
            f"  Store:          embedded, in {data / 'store'}",
            f"  Data directory: {data}",
            f"  URL:            {url}",
            f"  To use kubectl: export KUBECONFIG='{data / 'admin.kubeconfig'}'",
        ]
        assert re.search(r" INFO apiserver\.app\.process: stopped \d+\.\d s after SIGTERM$", stopped)


def test_with_json_logs_everything_is_json(tmp_path: Path) -> None:
    printed, shown = on_terminal(
        f"--data-dir={tmp_path}", "--storage-backend=memory", "--logging-format=json"
    )
    (ready,) = map(json.loads, printed.splitlines())
    assert (ready["msg"], ready["kubeconfig"]) == ("ready", str(tmp_path / "admin.kubeconfig"))
    assert ready["url"].startswith("https://127.0.0.1:")
    started, stopped = (json.loads(line)["msg"] for line in shown.splitlines())
    assert "; store: in memory (objects are lost when the server stops); flags: " in started
    assert "--storage-backend=memory" in started
    assert re.fullmatch(r"stopped \d+\.\d s after SIGTERM", stopped)


def test_an_old_python_gets_one_line() -> None:
    """Whatever of it a module would need first."""
    old = "import runpy, sys; sys.version_info = (3, 10, 13); sys.version = '3.10.13 (main)'; "
    end = subprocess.run(
        [sys.executable, "-c", f"{old}runpy.run_module('apiserver', run_name='__main__')"],
        capture_output=True,
        text=True,
        check=False,
    )
    line = "apiserver: Python 3.11 or later is required; this is Python 3.10.13\n"
    assert (end.returncode, end.stdout, end.stderr) == (1, "", line)


# ---- how fast commands are that import little

FAST: Final = [["version"], ["--version"], ["--help"], ["help"]]


@pytest.mark.parametrize("arguments", FAST, ids=" ".join)
def test_help_and_versions_import_little(arguments: list[str]) -> None:
    """They take a tenth of a second because of that."""
    listed = "import sys; from apiserver.__main__ import main; main(sys.argv[1:]); print(len(sys.modules))"
    program = [sys.executable, "-c", listed, *arguments]
    end = subprocess.run(program, capture_output=True, text=True, check=True)
    assert int(end.stdout.splitlines()[-1]) < MODULES_OF_HELP_MAX


def test_a_configuration_file_holds_flags(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("logging-format: json\nv: 1\nshutdown-delay-duration: 0s\n")
    with ServerProcess(tmp_path / "data", f"--config={config}", "--kubelet-timeout=5s") as server:
        server.stop()
    lines = [json.loads(line) for line in server.stderr.splitlines()]
    assert any("--kubelet-timeout" in str(line) for line in lines)


def test_tokens_never_reach_the_log(tmp_path: Path) -> None:
    """The most verbose log holds no credentials."""
    with ServerProcess(tmp_path / "data", "--v=10") as server, Api(server) as api:
        api.get("/api/v1/namespaces").ok()
        with Api(server, "wrong-secret-token") as stranger:
            assert stranger.get("/api/v1/namespaces").status == 401
        api.post(
            "/api/v1/namespaces/default/secrets",
            {"metadata": {"name": "s"}, "stringData": {"k": f"hush-hush {MARK}"}},
        )
        server.stop()
    assert not re.search("admin-token|wrong-secret-token|hush-hush", server.stderr)


# ---- ending


def test_graceful_shutdown(tmp_path: Path) -> None:
    """SIGTERM: readyz fails while requests are still served, watches end with a proper end of stream,
    what is under way finishes, and the exit code is 0."""
    server = ServerProcess(tmp_path / "data", "--shutdown-delay-duration=4s", module="apiserver")
    body = json.dumps({"metadata": {"name": "slow"}}).encode()
    head = (
        f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with server, Api(server) as api, api.watch(f"{CONFIGMAPS}?watch=1") as events:
        with raw_connection(server) as unfinished:
            unfinished.sendall(head.encode() + body[:5])
            assert api.get("/readyz").status == 200
            server.send_signal(signal.SIGTERM)
            await_status(api, "/readyz", 500)
            assert "[-]shutdown failed" in api.get("/readyz?verbose").body.decode()
            assert api.get("/livez").status == 200
            made = api.post(CONFIGMAPS, {"metadata": {"name": "during"}})
            assert made.status == 201
            # The stream ends with the last chunk: http.client would raise IncompleteRead on a mere close.
            seen = [event["object"]["metadata"]["name"] for event in events]
            assert "during" in seen
            unfinished.sendall(body[5:])
            answer = read_all(unfinished)
        assert answer.startswith(b"HTTP/1.1 201"), answer
        assert server.wait() == 0
        server.start()
        assert api.get(f"{CONFIGMAPS}/slow").status == 200
        assert api.get(f"{CONFIGMAPS}/during").status == 200


def test_stopping_an_idle_server_is_quick(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", module="apiserver") as server, Api(server) as api:
        api.get("/api/v1/namespaces").ok()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < Config().serving.request_timeout_s / 2, "nothing was under way"


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", "--shutdown-delay-duration=60s", module="apiserver") as server,
        Api(server) as api,
    ):
        server.send_signal(signal.SIGTERM)
        await_status(api, "/readyz", 500)
        server.send_signal(signal.SIGTERM)
        assert server.wait() != 0


# ---- requests that take too long


def test_a_request_times_out(tmp_path: Path) -> None:
    """Row Q05: 504 Timeout if the response has not begun; the deadline covers the body too."""
    server = ServerProcess(tmp_path / "data", "--request-timeout=1s")
    with server, raw_connection(server) as connection:
        connection.sendall(
            f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        status: dict[str, Any] = json.loads(answer.read())
        assert (answer.status, status["reason"], status["code"]) == (504, "Timeout", 504)


# ---- the store is gone


@pytest.mark.etcd
def test_etcd_unreachable_is_not_ready_until_it_is_back(tmp_path: Path) -> None:
    """It listens, is alive, says what is missing, answers 5xx as a Status, and needs no restart."""
    etcd = wheel_etcd(tmp_path)
    flags = (f"--etcd-servers={etcd.url}", "--secure-port=0", "--request-timeout=5s")
    server = ServerProcess(tmp_path / "data", *flags)
    try:
        server.start(awaits_ready=False)
        until(lambda: "cannot reach" in server.stderr, what="it says that etcd does not respond")
        etcd.start()
        server.await_ready()
        # The line about the start names etcd, too, in its flags.
        (line,) = [each for each in server.stderr.splitlines() if "cannot reach" in each]
        assert line.endswith(f": cannot reach etcd at {etcd.url} (Connection refused); retrying")
        assert "event loop" not in server.stderr
        with Api(server) as api:
            api.post(CONFIGMAPS, {"metadata": {"name": "a"}}).ok()
            # A consistent read: from here on the cache has it.
            api.get(f"{CONFIGMAPS}/a").ok()
            etcd.kill()
            await_status(api, "/readyz", 500)
            assert "[-]storage failed" in api.get("/readyz?verbose").body.decode()
            assert api.get("/livez?exclude=storage").status == 200
            answer = api.post(CONFIGMAPS, {"metadata": {"name": "b"}})
            assert (answer.status, answer.json["kind"]) == (503, "Status"), answer.body
            # What the cache holds is still served to those who do not ask for the newest.
            assert api.get(f"{CONFIGMAPS}/a?resourceVersion=0").status == 200
            etcd.start()
            await_status(api, "/readyz", 200)
            assert api.get(f"{CONFIGMAPS}/a").status == 200
            assert api.post(CONFIGMAPS, {"metadata": {"name": "c"}}).status == 201
            assert server.stop() == 0
    finally:
        server.kill()
        etcd.kill()


def test_a_server_gives_up_when_etcd_does_not_respond_in_time(tmp_path: Path) -> None:
    """With --etcd-start-timeout. Neither the log nor the error has credentials."""
    url = "http://me:hush@127.0.0.1:1"
    flags = (f"--etcd-servers={url},http://127.0.0.1:2", "--secure-port=0", "--etcd-start-timeout=1500ms")
    end = run(f"--data-dir={tmp_path}", *flags)
    assert (end.returncode, end.stdout) == (1, "")
    etcd = "etcd at http://CLASSIFIED@127.0.0.1:1, http://127.0.0.1:2"
    warning, error = end.stderr.splitlines()
    assert warning.endswith(f": cannot reach {etcd} (Connection refused); retrying")
    what = f"cannot get the identity of the cluster from {etcd}"
    assert error == f"apiserver: {what} within 1.5s (--etcd-start-timeout)"


def heeding_permissions() -> list[str]:
    """A program that starts others without root's right to write anywhere. Skips if there is none."""
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv") or missing("setpriv", "it comes with util-linux; or do not be root")
    return [program, "--bounding-set=-dac_override,-dac_read_search"]


def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    flags = (f"--data-dir={tmp_path / 'data'}", "--secure-port=0")
    end = run_interpreter(*flags, through=heeding_permissions())
    assert end.returncode == 1
    assert len(end.stderr.splitlines()) == 1


def test_a_client_certificate_of_an_unknown_ca_is_rejected(tmp_path: Path) -> None:
    """Row O01: the TLS handshake fails, before any request."""
    ours, theirs = ServerProcess(tmp_path / "ours"), ServerProcess(tmp_path / "theirs")
    with ours, theirs:
        context = ssl.create_default_context(cafile=ours.ca_path)
        pki = theirs.data_dir / "pki"
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        connection = http.client.HTTPSConnection(
            ours.url.removeprefix("https://"), context=context, timeout=WITHIN_S
        )
        with pytest.raises((ssl.SSLError, ConnectionError)):  # noqa: PT012  TLS 1.3 tells at the first read
            connection.request("GET", "/version")
            connection.getresponse()
        connection.close()
