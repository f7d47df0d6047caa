"""`apiserver doctor`, as administrators use it: before a start, beside a server, and in outages."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from apiserver.__main__ import main
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.client import EtcdClient
from tests.support.api import Api
from tests.support.authority import Authority
from tests.support.etcd_process import EtcdCluster, EtcdProcess, wheel_etcd
from tests.support.etcd_stores import binary
from tests.support.ports import free_port
from tests.support.server_process import ServerProcess

# So that the limit of open files of any machine is enough.
FEW: Final = "--max-connections=50"
# The etcd of some machines has known faults, and a busy one is slow.
_OF_MACHINE: Final = re.compile(r" runs etcd | took \d+ ms")


class Report(NamedTuple):
    """What the command has printed as JSON, and its exit code."""

    code: int
    severity: str
    findings: list[dict[str, str]]

    def of(self, check: str, severity: str = "") -> list[str]:
        """The messages of a check, all or those of one severity."""
        return [
            each["message"]
            for each in self.findings
            if each["check"] == check and severity in ("", each["severity"])
        ]

    @property
    def problems(self) -> list[tuple[str, str]]:
        """The checks and messages of warnings and errors, but for those that depend on the machine."""
        return [
            (each["check"], each["message"])
            for each in self.findings
            if each["severity"] in ("warning", "error") and not _OF_MACHINE.search(each["message"])
        ]


def command(*arguments: object) -> tuple[int, str]:
    """Returns the exit code, and what the command has printed."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(["doctor", *map(str, arguments)])
    errors.seek(0)
    assert errors.read() == ""
    output.seek(0)
    return code, output.read()


def doctor(*arguments: object) -> Report:
    code, text = command("-o", "json", *arguments)
    document: dict[str, Any] = json.loads(text)
    return Report(code, document["severity"], document["findings"])


def store_flags(etcd: EtcdProcess) -> list[str]:
    return [f"--etcd-servers={etcd.url}", f"--secure-port={free_port()}"]


# ---- before a start


def test_a_first_start_has_no_problems(tmp_path: Path) -> None:
    report = doctor(f"--data-dir={tmp_path / 'data'}", f"--secure-port={free_port()}", FEW)
    assert (report.code, report.problems) == (0, [])
    assert report.of("embedded store", "ok")[-1].endswith("the server creates the store when it starts")
    assert not (tmp_path / "data").exists()


def test_the_text_ends_with_a_summary(tmp_path: Path) -> None:
    code, text = command(f"--data-dir={tmp_path}", "--tls-min-version=x")
    assert code == 2
    assert text.startswith("configuration\n  error    argument --tls-min-version: invalid choice: 'x'")
    assert text.splitlines()[-1] == "1 check: 1 error"


def test_flags_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "flags.yaml"
    file.write_text(
        f"data-dir: {tmp_path / 'data'}\nsecure-port: {free_port()}\nmax-connections: 999999999\n"
    )
    report = doctor("--config", file)
    assert report.code == 1
    assert [check for check, _ in report.problems] == ["open files"]


def test_files_that_hang_end_in_findings(tmp_path: Path) -> None:
    data_dir, pipe = tmp_path / "data", tmp_path / "pipe"
    data_dir.mkdir()
    os.mkfifo(pipe)
    os.mkfifo(data_dir / "admin.kubeconfig")
    (data_dir / "admin.kubeconfig").chmod(0o604)
    (_, named) = doctor("--config", pipe).problems[0]
    assert named == f"cannot read {pipe}: is a named pipe, not a file"
    report = doctor(f"--data-dir={data_dir}", f"--secure-port={free_port()}", FEW)
    assert report.problems == [
        (
            "secret files",
            f"{data_dir / 'admin.kubeconfig'} (the data directory) has mode 0604: all users can read it",
        )
    ]
    reader, writer = os.pipe()  # as `--config <(sleep 1h)` passes it
    try:
        hanging = doctor(f"--config=/dev/fd/{reader}")
    finally:
        os.close(writer)  # which ends the thread that reads
    assert hanging.problems == [
        (
            "configuration",
            "the flags and their files cannot be read: a file does not respond",
        )
    ]


def test_secrets_and_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    files = authority.issue("serving")
    files.key.chmod(0o644)
    report = doctor(
        f"--data-dir={tmp_path / 'data'}",
        f"--secure-port={free_port()}",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        FEW,
    )
    assert report.problems == [
        ("secret files", f"{files.key} (--tls-private-key-file) has mode 0644: all users can read it")
    ]


def test_an_etcd_that_is_away(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    report = doctor(f"--data-dir={tmp_path}", f"--etcd-servers={url}", f"--secure-port={free_port()}")
    assert report.code == 2
    (problem, unchecked) = report.problems
    assert problem[1].startswith(f"{url} does not respond: UNAVAILABLE: cannot connect: ")
    assert unchecked[0] == "shared keys"
    assert unchecked[1].startswith("this check was not possible: etcd at ")


def test_an_address_where_no_etcd_is(tmp_path: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", SILENT], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        report = doctor(f"--data-dir={tmp_path}", f"--etcd-servers={url}", f"--secure-port={free_port()}")
    finally:
        server.kill()
        server.communicate()
    ((check, message), (unchecked, _)) = report.problems
    assert (check, unchecked) == ("etcd", "shared keys")
    assert message.startswith(f"{url} does not respond: ")
    assert message.endswith(" s")  # That is how long it was waited.
    assert report.code == 2


# Accepts connections, and never answers.
SILENT: Final = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(3600)
"""


# ---- etcd


@pytest.mark.etcd
def test_a_cluster_with_a_member_away(tmp_path: Path) -> None:
    cluster = EtcdCluster(binary(), tmp_path).start()
    urls = ",".join(cluster.urls)
    flags = (f"--data-dir={tmp_path / 'data'}", f"--etcd-servers={urls}", f"--secure-port={free_port()}")
    try:
        healthy = doctor(*flags)
        assert healthy.problems == []
        lines = [each for each in healthy.of("etcd", "ok") if "write" in each and "read" in each]
        assert sum("leader" in each for each in lines) == 1
        assert sum("follower" in each for each in lines) == 2
        followers = [each.partition(": ")[0] for each in lines if "follower" in each]
        by_url = {member.url: member for member in cluster.members}
        by_url[followers[0]].kill()
        degraded = doctor(*flags)
        ((check, message),) = degraded.problems
        assert (check, message.split()[0]) == ("etcd", followers[0])
        assert "does not respond: " in message
        assert degraded.of("etcd", "error") == []
        by_url[followers[1]].kill()
        lost = doctor(*flags)
        assert len([each for each in lost.of("etcd", "error") if "does not respond" in each]) == 2
        assert lost.code == 2
    finally:
        cluster.kill()


@pytest.mark.etcd
async def test_a_write_is_measured_below_no_resource_and_leaves_nothing(tmp_path: Path) -> None:
    with wheel_etcd(tmp_path) as etcd:
        client = EtcdClient([etcd.url])
        try:
            before = (await client.range(pb.RangeRequest(key=b"\0", range_end=b"\0", keys_only=True))).kvs
            report = await asyncio.to_thread(doctor, f"--data-dir={tmp_path / 'data'}", *store_flags(etcd))
            after = await client.range(pb.RangeRequest(key=b"\0", range_end=b"\0", keys_only=True))
        finally:
            await client.close()
    assert report.problems == []
    assert [before, after.kvs] == [[], []]
    assert after.header.revision == 5  # Three writes, and the deletion of their key.


def fill(etcd: EtcdProcess) -> None:
    """Writes until etcd has no space."""
    for n in range(100):
        try:
            etcd.put(f"/x/{n}", b"x" * 100_000)
        except subprocess.CalledProcessError as failure:
            if b"space exceeded" in failure.stderr:
                return
    raise AssertionError("etcd is not full")


@pytest.mark.etcd
def test_a_full_etcd(tmp_path: Path) -> None:
    etcd = EtcdProcess(binary(), tmp_path, flags=("--quota-backend-bytes=200000",))
    with etcd:
        fill(etcd)
        report = doctor(f"--data-dir={tmp_path / 'data'}", *store_flags(etcd))
    assert report.code == 2
    errors = report.of("etcd", "error")
    assert any("member m0 has exceeded its quota" in each for each in errors)
    assert any("failed: " in each and "database space exceeded" in each for each in errors)


# ---- beside a server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("doctor") / "data") as server:
        yield server


def flags_of(server: ServerProcess) -> list[str]:
    return [f"--data-dir={server.data_dir}", f"--secure-port={server.url.rpartition(':')[2]}"]


def test_a_healthy_server_is_found_by_its_data_directory(server: ServerProcess) -> None:
    report = doctor(*flags_of(server), FEW)
    assert (report.code, report.problems) == (0, [])
    checks = list(dict.fromkeys(each["check"] for each in report.findings))
    assert checks == [
        "configuration",
        "secret files",
        "certificates",
        "open files",
        "memory",
        "port",
        "embedded store",
        "server",
        "watch cache",
        "webhooks and APIServices",
        "deprecated APIs",
    ]
    assert f"{server.url} is ready" in report.of("server", "ok")
    assert report.of("port", "ok") == [f"the server listens on {server.url.removeprefix('https://')}"]
    assert f"the clock agrees with the clock of {server.url}" in report.of("server", "ok")
    assert "and the watch cache is at revision" in report.of("watch cache", "ok")[0]


def test_another_server_on_the_port(server: ServerProcess, tmp_path: Path) -> None:
    report = doctor(f"--data-dir={tmp_path}", *flags_of(server)[1:])
    assert report.code == 2
    (problem,) = report.problems
    assert problem[1].startswith(
        f"cannot listen on {server.url.removeprefix('https://')}: Address already in use"
    )
    assert f"process {server.pid} (" in problem[1]


def test_a_webhook_that_is_away(server: ServerProcess, tmp_path: Path) -> None:
    url = f"https://127.0.0.1:{free_port()}/x"
    bundle = base64.b64encode(Authority(tmp_path / "pki").ca.read_bytes()).decode()
    rule = {"apiGroups": ["x"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    hook = {
        "name": "h.example.com",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    with Api(server) as api:
        api.post(path, {"metadata": {"name": "away"}, "webhooks": [hook]}).ok()
        try:
            report = doctor(*flags_of(server))
        finally:
            api.delete(f"{path}/away").ok()
    assert report.code == 2
    ((check, message),) = report.problems
    assert check == "webhooks and APIServices"
    assert message.startswith(
        "webhook h.example.com of validatingwebhookconfigurations/away cannot be reached"
    )


def test_a_deprecated_api_in_use(server: ServerProcess) -> None:
    with Api(server) as api:
        api.get("/api/v1/componentstatuses").ok()
        report = doctor(*flags_of(server))
    (message,) = (each for each in report.of("deprecated APIs") if "componentstatuses" in each)
    assert message.startswith("v1 componentstatuses was called 1 time, by admin (")


def test_a_user_without_rights_gets_notes(server: ServerProcess) -> None:
    report = doctor(
        *flags_of(server),
        f"--server={server.url}",
        f"--certificate-authority={server.ca_path}",
        "--token=alice-token",
    )
    assert report.of("server", "note") == [
        "the metrics cannot be read: /metrics: the server responded with 403"
    ]
    assert len(report.of("webhooks and APIServices", "note")) == 4
    assert report.of("deprecated APIs", "note")[0].startswith("this check was not possible: ")


def test_a_server_that_stopped(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.stop()
        flags = flags_of(server)
        before_a_start = doctor(*flags, FEW)
        report = doctor(*flags, f"--kubeconfig={server.kubeconfig}")
    assert before_a_start.code == 0
    assert report.code == 2
    assert report.of("server", "error") == [f"the request to {server.url} failed: Connection refused"]


@pytest.mark.etcd
def test_replicas_share_keys(tmp_path: Path) -> None:
    with (
        wheel_etcd(tmp_path) as etcd,
        ServerProcess(tmp_path / "one", f"--etcd-servers={etcd.url}") as server,
    ):
        own = doctor(*flags_of(server), f"--etcd-servers={etcd.url}")
        key = Authority(tmp_path / "pki").issue("sa").key
        other = doctor(
            f"--data-dir={tmp_path / 'two'}",
            *store_flags(etcd),
            f"--service-account-signing-key-file={key}",
        )
    assert own.problems == []
    assert own.of("shared keys", "ok")[0].startswith("1 running replica and this configuration share keys: ")
    assert any(
        each.startswith("the last renewal of a Lease in etcd (kube-system/") for each in own.of("etcd", "ok")
    )
    assert "do not accept each other's service account tokens" in other.of("shared keys", "error")[0]
    assert other.code == 2


@pytest.mark.etcd
def test_another_encryption_key(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        secret = base64.b64encode(name.encode().ljust(32)).decode()
        file = tmp_path / f"{name}.yaml"
        file.write_text(ENCRYPTION.replace("SECRET", secret))
        file.chmod(0o600)
        files.append(f"--encryption-provider-config={file}")
    with wheel_etcd(tmp_path) as etcd:
        with ServerProcess(tmp_path / "data", f"--etcd-servers={etcd.url}", files[0]):
            pass
        same, other, none = (
            doctor(f"--data-dir={tmp_path / 'new'}", *store_flags(etcd), *flags)
            for flags in (files[:1], files[1:], ())
        )
    assert same.of("shared keys", "error") == []
    assert "cannot be decrypted" in other.of("shared keys", "error")[0]
    assert "--encryption-provider-config is not set" in none.of("shared keys", "error")[0]


ENCRYPTION: Final = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: key1, secret: SECRET}]}
"""
