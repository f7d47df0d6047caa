"""`apiserver storage copy`, as administrators use it, and starts on prefixes that are not this server's."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.cli.flag_values import ETCD_TRANSPORTS
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.interface import Put
from apiserver.wire.protobuf import MessageEncoder, seal
from tests.server.test_process import CONFIGMAPS, run
from tests.server.test_snapshot_command import assert_gone
from tests.support.api import Api, until_status
from tests.support.etcd_process import EtcdProcess
from tests.support.etcd_stores import binary
from tests.support.eventually import WITHIN_S, until
from tests.support.forked_server import ForkedServer
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    with EtcdProcess(binary(), tmp_path) as process:
        yield process


def copy(*arguments: object) -> dict[str, Any]:
    """What the command prints for scripts when all goes well."""
    end = run("storage", "copy", "-o", "json", *map(str, arguments))
    assert end.returncode == 0, end.stderr
    result: dict[str, Any] = json.loads(end.stdout)
    return result


def refused(*arguments: object, code: int = 1) -> str:
    """The one line that says why not."""
    end = run("storage", "copy", *map(str, arguments))
    assert (end.returncode, end.stdout) == (code, "")
    assert len(end.stderr.splitlines()) == 1, end.stderr
    return end.stderr


@pytest.mark.parametrize("transport", ETCD_TRANSPORTS)
def test_a_server_moves_to_etcd_and_back(tmp_path: Path, own_etcd: EtcdProcess, transport: str) -> None:
    """Objects, tokens and certificates stay; resourceVersions rise; clients list again."""
    one = ServerProcess(tmp_path / "one")
    with one, Api(one) as api:
        api.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
        for number in range(300):
            api.post(CONFIGMAPS, {"metadata": {"name": f"c{number:03}"}, "data": {"k": "v" * number}}).ok()
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = str(api.post(f"{ACCOUNTS}/robot/token", body).ok()["status"]["token"])
        before = api.get(CONFIGMAPS).ok()
        assert "in use by another server" in refused("--from", one.data_dir, "--to", own_etcd.url)
        one.stop()

    by = f"--etcd-transport={transport}"
    moved = copy("--from", one.data_dir, "--to", own_etcd.url, by)
    highest = int(before["metadata"]["resourceVersion"])
    assert moved["revision"] > moved["sourceRevision"] >= highest
    assert moved["keys"] > 300
    on_etcd = ServerProcess(one.data_dir, f"--etcd-servers={own_etcd.url}")
    with on_etcd, Api(on_etcd) as api:
        assert_moved(api, before)
        with Api(on_etcd, token, ca=on_etcd.ca_path) as robot:
            assert robot.get(CONFIGMAPS).reason == "Forbidden"  # known, but may not
        middle = api.get(CONFIGMAPS).ok()
        text = refused("--from", own_etcd.url, "--to", tmp_path / "two")
        assert "a server uses the store in --from: stop it first" in text
        on_etcd.stop()

    (on_etcd.data_dir / "store").rename(tmp_path / "old")
    back = copy("--from", own_etcd.url, "--to", one.data_dir, by)
    assert back["revision"] > int(middle["metadata"]["resourceVersion"])
    again = ServerProcess(one.data_dir)
    with again, Api(again) as api:
        assert_moved(api, middle)
        with Api(again, token, ca=again.ca_path) as robot:
            assert robot.get(CONFIGMAPS).reason == "Forbidden"


def assert_moved(api: Api, before: dict[str, Any]) -> None:
    """A server has what another one had, and no client takes the new history for the old one."""
    old = before["metadata"]["resourceVersion"]
    page = api.get(CONFIGMAPS).ok()

    def objects(page: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**each, "metadata": {**each["metadata"], "resourceVersion": ""}} for each in page["items"]]

    assert objects(page) == objects(before)
    assert min(int(each["metadata"]["resourceVersion"]) for each in page["items"]) > int(old)
    assert_gone(api, old)
    assert api.get(f"{CONFIGMAPS}?resourceVersion={old}&resourceVersionMatch=NotOlderThan").status == 200
    with api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={page['metadata']['resourceVersion']}") as events:
        made = api.post(CONFIGMAPS, {"metadata": {"name": f"after-{old}"}}).ok()
        assert events.take(1) == [("ADDED", f"after-{old}")]
    api.delete(f"{CONFIGMAPS}/{made['metadata']['name']}").ok()


async def put(etcd: EtcdProcess, values: dict[str, bytes]) -> None:
    store = EtcdStore(EtcdClient([etcd.url]), prefix="/registry")
    for key, value in values.items():
        await store.create(key, value)
    await store.close()


def kube(kind: str, document: dict[str, Any]) -> bytes:
    """An object of the core group, as a kube-apiserver stores it."""
    schema = BuiltinSchemas(DEFAULT_RELEASE.version).get(f"io.k8s.api.core.v1.{kind}")
    return seal("v1", kind, MessageEncoder(schema)(document))


KUBE: Final = {
    "/registry/namespaces/default": kube("Namespace", {"metadata": {"name": "default", "uid": "u1"}}),
    "/registry/configmaps/default/x": kube(
        "ConfigMap", {"metadata": {"name": "x", "namespace": "default", "uid": "u2"}, "data": {"k": "v"}}
    ),
    "/registry/ranges/serviceips": seal("v1", "RangeAllocation", b""),
}


async def test_a_start_in_the_prefix_of_a_kube_apiserver(tmp_path: Path, own_etcd: EtcdProcess) -> None:
    await put(own_etcd, KUBE)
    server = ServerProcess(tmp_path / "data", f"--etcd-servers={own_etcd.url}")
    end = server.refusal()
    assert end.code == 1
    lines = [each for each in end.stderr.splitlines() if "kube-apiserver" in each]
    assert len(lines) == 1
    assert "a kube-apiserver uses the prefix /registry in etcd at" in lines[0]
    assert "/registry/namespaces/default" in lines[0]
    assert "--adopt" in lines[0]
    assert own_etcd.ctl("get", "/registry/-/", "--prefix") == b""
    # Another prefix needs no flag.
    for flag in ("--etcd-prefix=/other", "--adopt"):
        adopting = ServerProcess(tmp_path / "data", f"--etcd-servers={own_etcd.url}", "--controllers=*", flag)
        with adopting, Api(adopting) as api:
            assert api.get("/api/v1/namespaces/default").status == 200
            assert api.get(f"{CONFIGMAPS}/x").status == 404
            adopting.stop()
    # A prefix that was adopted once needs the flag again: other starts would run all controllers.
    assert "--adopt" in server.refusal().stderr


SHARED: Final = {
    "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com": {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "uid": "u3"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
            "conversion": {"strategy": "None"},
        },
        "status": {
            "acceptedNames": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
            },
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", **reason}
                for kind, reason in {
                    "NamesAccepted": {"reason": "NoConflicts", "message": "no conflicts found"},
                    "Established": {"reason": "InitialNamesAccepted"},
                }.items()
            ],
            "storedVersions": ["v1"],
        },
    },
    # Its owner is a ConfigMap that only the kube-apiserver sees.
    "/registry/example.com/widgets/default/w": {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": "w",
            "namespace": "default",
            "uid": "u4",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u2"}],
        },
    },
    # This server does not serve the version, nor does it see the Service of the other one.
    "/registry/apiregistration.k8s.io/apiservices/v1alpha9.resource.k8s.io": {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": "v1alpha9.resource.k8s.io",
            "uid": "u5",
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "spec": {
            "group": "resource.k8s.io",
            "version": "v1alpha9",
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
        },
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Local"}]},
    },
    "/registry/apiregistration.k8s.io/apiservices/v1.metrics.example.com": {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.metrics.example.com", "uid": "u6"},
        "spec": {
            "group": "metrics.example.com",
            "version": "v1",
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
            "insecureSkipTLSVerify": True,
            "service": {"name": "metrics", "namespace": "kube-system", "port": 443},
        },
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]},
    },
}


async def test_adoption_changes_no_object_of_the_kube_apiserver(
    tmp_path: Path, own_etcd: EtcdProcess
) -> None:
    kept = {**KUBE, **{key: orjson.dumps(document) for key, document in SHARED.items()}}
    await put(own_etcd, kept)
    flags = (f"--etcd-servers={own_etcd.url}", "--adopt", "--leader-elect=false", "--controllers=*")
    server = ServerProcess(tmp_path / "data", *flags)
    with server, Api(server) as api:
        assert until_status(200, lambda: api.get("/apis/example.com/v1/namespaces/default/widgets/w")).ok()
        # The controllers that run have begun; those that are off have no queue.
        name = "resourcequota_primary"
        text = until(
            lambda: api.get("/metrics").body.decode(),
            lambda page: f'workqueue_adds_total{{name="{name}"}}' in page,
        )
        for queue in ("garbage_collector_attempt_to_delete", "namespace", "autoregister"):
            assert f'workqueue_adds_total{{name="{queue}"}}' not in text
        # The extension server cannot be found here.
        until_status(503, lambda: api.get("/apis/metrics.example.com/v1"))
        server.stop()
    line = (
        "--adopt: the garbage collector, the namespace controller, and the registration and conditions of "
        "APIServices are disabled"
    )
    assert line in server.stderr
    for key, value in kept.items():
        assert own_etcd.ctl("get", key, "--print-value-only")[:-1] == value
    names = own_etcd.ctl("get", "/registry/apiregistration.k8s.io/", "--prefix", "--keys-only").split()
    assert len(names) == 2


@pytest.mark.parametrize("name", ["garbagecollector", "namespace-controller"])
def test_adoption_excludes_controllers(tmp_path: Path, name: str) -> None:
    flags = ("--etcd-servers=http://127.0.0.1:1", "--adopt", f"--controllers=*,{name}")
    end = ServerProcess(tmp_path / "data", *flags).refusal()
    assert (end.code, "--controllers: --adopt excludes" in end.stderr) == (2, True)


async def test_objects_of_a_kube_apiserver_are_imported(tmp_path: Path, own_etcd: EtcdProcess) -> None:
    widget = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"default"}}'
    probe = {"/registry/-/doctor/0123": b""}
    await put(own_etcd, {**KUBE, **probe, "/registry/example.com/widgets/default/w": widget})
    same = ("--from", own_etcd.url, "--to", own_etcd.url)
    assert "are the same etcd, and the prefixes /registry and /registry overlap" in refused(*same, "--force")
    result = copy(*same, "--to-prefix=/apiserver")
    assert (result["imported"], result["keys"], result["skipped"]) == (True, 3, {})
    server = ServerProcess(tmp_path / "data", f"--etcd-servers={own_etcd.url}", "--etcd-prefix=/apiserver")
    with server, Api(server) as api:
        found = api.get(f"{CONFIGMAPS}/x").ok()
        assert (found["metadata"]["uid"], found["data"]) == ("u2", {"k": "v"})
        server.stop()
    assert (
        own_etcd.ctl("get", "/apiserver/example.com/widgets/default/w", "--print-value-only").strip()
        == widget
    )


async def test_a_snapshot_is_copied_above_what_its_store_has_used_since(
    tmp_path: Path, own_etcd: EtcdProcess
) -> None:
    server = ServerProcess(tmp_path / "one")
    with server:
        saved = tmp_path / "saved.db"
        assert run("snapshot", "save", str(saved), f"--data-dir={server.data_dir}").returncode == 0
        with Api(server) as api:
            used = api.post(CONFIGMAPS, {"metadata": {"name": "since"}}).ok()["metadata"]["resourceVersion"]
        server.stop()
    result = copy("--from", saved, "--to", tmp_path / "two")
    assert result["revision"] > result["sourceRevision"] + 1_000_000_000
    again = ServerProcess(tmp_path / "two")
    with again, Api(again) as api:
        assert_gone(api, used)
        again.stop()
    to_etcd = ("--from", saved, "--to", own_etcd.url)
    text = refused(*to_etcd)
    assert "etcdutl snapshot restore --bump-revision" in text
    assert "set --bump-revision to more than the number of writes since the snapshot" in text
    assert copy(*to_etcd, "--bump-revision=1000")["revision"] > int(used)


async def test_two_etcds_with_one_cluster_id_are_not_the_same(tmp_path: Path, own_etcd: EtcdProcess) -> None:
    """As after a restore with the URLs of the original."""
    (tmp_path / "other").mkdir()
    other = EtcdProcess(
        own_etcd.binary,
        tmp_path / "other",
        flags=(f"--initial-advertise-peer-urls={own_etcd.peer_url}",),
    )
    other.cluster = own_etcd.cluster
    await put(own_etcd, {"/registry/core/configmaps/default/x": b"{}"})
    with other:
        ids = {
            json.loads(each.ctl("endpoint", "status", "--write-out=json"))[0]["Status"]["header"][
                "cluster_id"
            ]
            for each in (own_etcd, other)
        }
        assert len(ids) == 1
        assert copy("--from", own_etcd.url, "--to", other.url)["keys"] == 1
        # The same etcd by another name.
        inside = ("--from", own_etcd.url, "--to-prefix=/registry/inside")
        text = refused(*inside, "--to", own_etcd.url.replace("127.0.0.1", "localhost"))
        assert "are the same etcd, and the prefixes /registry and /registry/inside overlap" in text
        assert own_etcd.ctl("get", "/registry", "--prefix", "--keys-only").split() == [
            b"/registry/core/configmaps/default/x"
        ]


async def test_a_prefix_of_both_servers_needs_a_choice(tmp_path: Path, own_etcd: EtcdProcess) -> None:
    await put(own_etcd, {**KUBE, **{key: orjson.dumps(document) for key, document in SHARED.items()}})
    own = ServerProcess(tmp_path / "own", f"--etcd-servers={own_etcd.url}", "--adopt", "--controllers=*")
    with own, Api(own) as api:
        api.post(CONFIGMAPS, {"metadata": {"name": "own"}}).ok()
        own.stop()
    both = ("--from", own_etcd.url, "--to")
    text = refused(*both, tmp_path / "refused")
    assert "of a kube-apiserver (/registry/namespaces/default) and of this server (/registry/-/iden" in text
    for choice, name, is_import in (("kube-apiserver", "x", True), ("apiserver", "own", False)):
        result = copy(*both, tmp_path / choice, f"--objects-of={choice}")
        assert (result["imported"], result["skipped"]) == (is_import, {})
        server = ServerProcess(tmp_path / choice)
        with server, Api(server) as api:
            names = [each["metadata"]["name"] for each in api.get(CONFIGMAPS).ok()["items"]]
            assert [each for each in names if each != "kube-root-ca.crt"] == [name]
            assert (
                api.get("/apis/example.com/v1/namespaces/default/widgets/w").ok()["metadata"]["uid"] == "u4"
            )


@pytest.mark.parametrize("backend", ["etcd", "embedded"])
async def test_no_start_on_an_unfinished_copy(tmp_path: Path, own_etcd: EtcdProcess, backend: str) -> None:
    """A copy that was interrupted; here one whose source cannot be read to the end."""
    await put(own_etcd, {**KUBE, "/registry/secrets/default/damaged": b"k8s\0\x12\xff"})
    target = (
        ("--to", own_etcd.url, "--to-prefix=/apiserver") if backend == "etcd" else ("--to", tmp_path / "data")
    )
    end = run("storage", "copy", "--from", own_etcd.url, *map(str, target))
    assert end.returncode == 1
    assert "apiserver: /registry/secrets/default/damaged cannot be read: " in end.stderr
    flags = [f"--etcd-servers={own_etcd.url}", "--etcd-prefix=/apiserver"] if backend == "etcd" else []
    refusal = ServerProcess(tmp_path / "data", *flags).refusal()
    assert refusal.code == 1
    assert "is not complete: run `apiserver storage copy` again" in refusal.stderr


@pytest.mark.parametrize(
    ("phase", "ahead", "is_hinted"), [("raising", 1_000_000, False), ("copying", 0, True)]
)
async def test_an_interrupted_copy_names_the_way_to_continue(
    tmp_path: Path, own_etcd: EtcdProcess, phase: str, ahead: int, is_hinted: bool
) -> None:
    """Once there is something to continue. Before that, --force is still needed."""
    await put(own_etcd, {"/registry/core/configmaps/default/x": b"{}"})
    store = await EmbeddedStore.open(tmp_path / "one/store", durable=False)
    for number in range(0, 20_000, 100):
        await store.transact(
            [], [Put(f"/registry/core/configmaps/a/{number + n}", b"{}") for n in range(100)]
        )
    await store.raise_revision(await store.current_revision() + ahead)
    await store.close()
    arguments = ("storage", "copy", "--force", "--from", str(tmp_path / "one"), "--to", own_etcd.url)
    command = ForkedServer(arguments)
    line = ""
    while not line.startswith(f"{phase} "):
        line = command.stderr.readline()
        assert line
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(WITHIN_S)
    assert command.poll() == 130
    assert ("run the same command again, without --force" in errors) is is_hinted
    assert bool(own_etcd.ctl("get", "/registry/-/copy")) is is_hinted


USAGE: Final = {
    "no target": (["--from=a"], "--to"),
    "etcd's flags for a directory": (
        ["--from=a", "--to=b", "--to-etcd-cafile=ca"],
        "it cannot have certificates",
    ),
    "no URL": (["--from=a", "--to=http://"], "--to: 'http://' is not of the form"),
    "an empty prefix": (["--from=a", "--to=b", "--to-prefix=/"], "must not be empty"),
}


@pytest.mark.parametrize(("arguments", "text"), USAGE.values(), ids=USAGE)
def test_mistakes(arguments: list[str], text: str) -> None:
    assert text in refused(*arguments, code=2)


def test_a_missing_source_leaves_no_target(tmp_path: Path) -> None:
    text = refused("--from", tmp_path / "none", "--to", tmp_path / "new")
    assert f"there is no store in {tmp_path}/none/store" in text
    with contextlib.suppress(FileNotFoundError):
        assert not list((tmp_path / "new").iterdir())
