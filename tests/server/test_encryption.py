"""Encryption at rest, as who runs a server sees it: what is on the disk, rotation, loss of keys, plugins."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.support import forked_server
from tests.support.api import Api, until_status
from tests.support.definitions import define, definition
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.eventually import WITHIN_S, until
from tests.support.kms_plugin import KmsPlugin
from tests.support.metrics import metric
from tests.support.server_process import ServerProcess

SECRETS: Final = "/api/v1/namespaces/default/secrets"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
GROUP: Final = "secret.example.com"
OPTION: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
GATE: Final = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true"
# What must not be found anywhere, in the forms in which it might be.
PLAIN: Final = "the-secret-that-nobody-may-read"
ENCODED: Final = base64.b64encode(PLAIN.encode()).decode()


def key(name: str) -> dict[str, str]:
    return {"name": name, "secret": base64.b64encode(name.encode().ljust(32, b"-")).decode()}


def aesgcm(*names: str) -> dict[str, Any]:
    return {"aesgcm": {"keys": [key(name) for name in names]}}


def kms(plugin: KmsPlugin) -> dict[str, Any]:
    return {"kms": {"apiVersion": "v2", "name": "plugin", "endpoint": plugin.endpoint, "timeout": "1s"}}


class Configuration:
    """The file, written as an operator should: the new one moved over the old one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.flags = (f"--encryption-provider-config={path}", "--encryption-provider-config-automatic-reload")

    def write(self, *providers: dict[str, Any]) -> None:
        rule = {"resources": ["secrets", f"*.{GROUP}"], "providers": [*providers]}
        kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({**kind, "resources": [rule]}))
        new.replace(self.path)


@dataclass
class Running:
    """A server that encrypts, with automatic reload."""

    server: ServerProcess
    api: Api
    configuration: Configuration

    def reload(self, *providers: dict[str, Any]) -> None:
        """Write another configuration, and wait until the server has it."""
        name = "apiserver_encryption_config_controller_automatic_reloads_total"
        before = metric(self.api, name, status="success")
        self.configuration.write(*providers)
        until(lambda: metric(self.api, name, status="success") > before, what="the configuration is reloaded")

    def restart(self) -> None:
        self.api.close()
        self.server.stop()
        self.server.start()
        self.api = Api(self.server)


@contextlib.contextmanager
def running(directory: Path, *providers: dict[str, Any], flags: tuple[str, ...] = ()) -> Iterator[Running]:
    directory.mkdir(exist_ok=True)
    configuration = Configuration(directory / "encryption.json")
    configuration.write(*providers)
    with ServerProcess(directory / "data", *configuration.flags, *flags) as server:
        found = Running(server, Api(server), configuration)
        try:
            yield found
        finally:
            found.api.close()


def secret(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "stringData": {"password": PLAIN}}


def listens(server: ServerProcess) -> bool:
    url = urlsplit(server.url)
    try:
        socket.create_connection((url.hostname, url.port)).close()
    except OSError:
        return False
    return True


def on_disk(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def touch(api: Api, path: str) -> str:
    """Write an object as it is. Returns its version."""
    version: str = api.put(path, api.get(path).ok()).ok()["metadata"]["resourceVersion"]
    return version


def printed(encrypted: Running, *arguments: str) -> str:
    """What a command prints that works on the data directory of a server."""
    end = forked_server.run([*arguments, f"--data-dir={encrypted.server.data_dir}"], WITHIN_S)
    assert (end.returncode, end.stderr) == (0, "")
    return end.stdout


def rewrite(encrypted: Running, *arguments: str) -> str:
    """Rewrite by the command. Returns what it prints."""
    return printed(encrypted, "storage", "rewrite", *arguments)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("encrypted"), aesgcm("one"), flags=(GATE,)) as found:
        yield found


def test_no_secret_is_on_the_disk_or_in_a_snapshot(encrypted: Running, tmp_path: Path) -> None:
    api, store = encrypted.api, encrypted.server.data_dir / "store"
    define(api, definition(GROUP)).create("custom", spec={"a": PLAIN}).ok()
    api.post(SECRETS, secret("hidden")).ok()
    api.post(CONFIG_MAPS, {"metadata": {"name": "shown"}, "data": {"k": "what-everybody-may-read"}}).ok()
    assert api.get(f"{SECRETS}/hidden").ok()["data"] == {"password": ENCODED}
    backup = tmp_path / "backup.db"
    printed(encrypted, "snapshot", "save", str(backup))
    for content in (on_disk(store), backup.read_bytes()):
        assert b"what-everybody-may-read" in content
        assert b"k8s:enc:aesgcm:v1:one:" in content
        assert PLAIN.encode() not in content
        assert ENCODED.encode() not in content


@pytest.mark.slow
def test_keys_rotate_under_load_without_a_failed_request(encrypted: Running) -> None:
    """In the order that Kubernetes documents: second, first, and when all is rewritten, alone."""
    api = encrypted.api
    for name in ("rotated", "stale"):
        api.post(SECRETS, secret(name)).ok()
    failures: list[str] = []
    stop = threading.Event()

    def load(number: int) -> None:
        with Api(encrypted.server) as client:
            count = 0
            while not stop.is_set():
                count += 1
                name = f"load-{number}-{count}"
                answers = [
                    client.post(SECRETS, secret(name)),
                    client.get(f"{SECRETS}/{name}"),
                    client.get(SECRETS + "?limit=10"),
                    client.delete(f"{SECRETS}/{name}"),
                ]
                failures.extend(answer.body.decode() for answer in answers if answer.status >= 300)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        version = api.get(f"{SECRETS}/rotated").ok()["metadata"]["resourceVersion"]
        encrypted.reload(aesgcm("one", "two"))
        assert touch(api, f"{SECRETS}/rotated") == version, "nothing is stale, so nothing is written"
        encrypted.reload(aesgcm("two", "one"))
        rewritten = touch(api, f"{SECRETS}/rotated")
        assert rewritten != version, "what another key wrote is stale"
        assert touch(api, f"{SECRETS}/rotated") == rewritten
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert not rewrite(encrypted, "secrets", "--rate=1000").startswith("secrets: 0 rewritten")
    everything = rewrite(encrypted)
    assert "secrets: 0 rewritten" in everything
    assert "configmaps: 0 rewritten" in everything
    encrypted.reload(aesgcm("two"))
    assert api.get(f"{SECRETS}/stale").ok()["data"] == {"password": ENCODED}
    operations = "apiserver_storage_transformation_operations_total"
    for prefix in ("one:", "two:", "k8s:enc:aesgcm:v1:"):
        for direction in ("to_storage", "from_storage"):
            labels = {"transformation_type": direction, "transformer_prefix": prefix, "status": "OK"}
            assert metric(encrypted.api, operations, **labels) > 0


def test_a_configuration_that_is_wrong_changes_nothing(encrypted: Running) -> None:
    failed = "apiserver_encryption_config_controller_automatic_reloads_total"
    before = metric(encrypted.api, failed, status="failure")
    encrypted.configuration.write({"aesgcm": {"keys": [{"name": "short", "secret": "c2hvcnQ="}]}})
    until(lambda: metric(encrypted.api, failed, status="failure") > before, what="the file is refused")
    encrypted.api.post(SECRETS, secret("still-encrypted")).ok()
    assert b"c2hvcnQ" not in encrypted.server.stderr.encode()
    assert encrypted.api.get("/readyz").status == 200


def test_a_lost_key(encrypted: Running) -> None:
    """Rows G12, G15: the server starts; who reads such an object is told; it can be repaired, or removed."""
    api = encrypted.api
    encrypted.reload(aesgcm("two", "one"))
    api.post(SECRETS, secret("readable")).ok()
    encrypted.reload(aesgcm("lost"))
    api.post(SECRETS, secret("unreadable")).ok()
    for name in ("removed", "saved"):
        api.post(SECRETS, secret(name)).ok()
    encrypted.reload(aesgcm("two", "one"))
    assert api.get(f"{SECRETS}/unreadable").ok()["data"] == {"password": ENCODED}, "the cache still has it"
    touch(api, f"{SECRETS}/saved")
    encrypted.restart()
    api = encrypted.api
    answer = api.get(f"{SECRETS}/unreadable")
    assert (answer.status, answer.reason) == (500, "StorageReadError")
    where = "StorageError: corrupt object, Code: 7, Key: /registry/core/secrets/default/unreadable"
    why = (
        "data from the storage is not transformable revision=0: "
        "no matching key was found for the provided AES transformer"
    )
    assert where in answer.message
    assert why in answer.message
    named = [field for _, field in api.get(SECRETS).causes]
    assert named == [f"/registry/core/secrets/default/{name}" for name in ("removed", "unreadable")]
    for name in ("readable", "saved"):
        assert api.get(f"{SECRETS}/{name}").ok()["data"] == {"password": ENCODED}
    assert api.put(f"{SECRETS}/unreadable", secret("unreadable")).status == 500
    api.delete(f"{SECRETS}/removed", {OPTION: True}).ok()
    # The key is found again.
    encrypted.reload(aesgcm("two", "one", "lost"))
    until_status(200, lambda: api.get(SECRETS), "what could be decrypted again is read again")
    assert api.get(f"{SECRETS}/unreadable").ok()["data"] == {"password": ENCODED}
    assert api.get(f"{SECRETS}/removed").status == 404


@pytest.mark.slow
def test_a_plugin_that_comes_and_goes(tmp_path: Path) -> None:
    """It is needed at the start, and not for what has been read; its loss is told by probes and errors."""
    plugin = KmsPlugin(tmp_path / "kms")
    with contextlib.ExitStack() as stack:
        stack.callback(plugin.kill)
        plugin.start()
        found = stack.enter_context(running(tmp_path, kms(plugin), {"identity": {}}, flags=(GATE,)))
        found.api.post(SECRETS, secret("a")).ok()
        assert b"k8s:enc:kms:v2:plugin:" in on_disk(found.server.data_dir / "store")
        assert ENCODED.encode() not in on_disk(found.server.data_dir / "store")
        assert found.api.get("/readyz/kms-providers").status == 200
        found.restart()
        assert found.api.get(f"{SECRETS}/a").ok()["data"] == {"password": ENCODED}
        decrypted = {"method_name": "/v2.KeyManagementService/Decrypt", "grpc_status_code": "OK"}
        calls = "apiserver_envelope_encryption_kms_operations_latency_seconds_count"
        assert metric(found.api, calls, **decrypted) == 1

        plugin.configure(delay_s=30)
        assert found.api.get(f"{SECRETS}/a").status == 200
        found.api.post(SECRETS, secret("slow")).ok()
        plugin.kill()
        plugin.configure()
        assert found.api.get(f"{SECRETS}/a").status == 200
        found.api.post(SECRETS, secret("b")).ok()  # The key that is here is good for three minutes.
        assert found.api.get("/livez").status == 200

        found.api.close()
        found.server.stop()
        found.server.start(awaits_ready=False)
        until(lambda: listens(found.server), what="the server listens")
        with Api(found.server) as api:
            until_status(500, lambda: api.get(f"{SECRETS}/a"), "the store is read")
            assert "failed to decrypt DEK, error: rpc error: code = " in api.get(f"{SECRETS}/a").message
            refused = api.post(SECRETS, secret("c"))
            assert (refused.status, refused.reason) == (500, "InternalError")
            assert (
                'the KMS plugin "plugin" has not provided a key: failed to perform status' in refused.message
            )
            kept = api.delete(f"{SECRETS}/a", {OPTION: True})
            assert (kept.status, kept.reason) == (500, "StorageReadError"), "it is not corrupt"
            assert api.get("/readyz/kms-providers").status == 500
            # What runs once after the start counts for it until it is done.
            until_status(200, lambda: api.get("/livez"), "alive without the plugin")
            assert api.get(CONFIG_MAPS).status == 200
        plugin.start()
        found.server.await_ready()
        found.api = Api(found.server)
        until_status(200, lambda: found.api.get(SECRETS), "what could not be decrypted is read again")
        assert found.api.get(f"{SECRETS}/b").ok()["data"] == {"password": ENCODED}

        # A new key of the plugin, by a reload: the values before are stale, and readable.
        plugin.configure(key_id="key-2")
        version = found.api.get(f"{SECRETS}/a").ok()["metadata"]["resourceVersion"]
        found.reload(kms(plugin))
        assert touch(found.api, f"{SECRETS}/a") != version
        plugin.configure(key_id="key-2", lost=["key-1"])
        found.restart()
        assert found.api.get(f"{SECRETS}/a").ok()["data"] == {"password": ENCODED}
        lost = found.api.get(f"{SECRETS}/b")
        assert (
            "failed to decrypt DEK, error: rpc error: code = NotFound desc = the key is lost" in lost.message
        )
        for name in ("b", "slow"):
            found.api.delete(f"{SECRETS}/{name}", {OPTION: True}).ok()
        assert [each["metadata"]["name"] for each in found.api.get(SECRETS).ok()["items"]] == ["a"]


def sealed(name: str, value: bytes, where: str) -> bytes:
    """What kube-apiserver stores for a value under a key of AES-GCM."""
    nonce = os.urandom(12)
    aead = AESGCM(base64.b64decode(key(name)["secret"]))
    return f"k8s:enc:aesgcm:v1:{name}:".encode() + nonce + aead.encrypt(nonce, value, where.encode())


def stored_identity(etcd: EtcdProcess) -> bytes:
    return etcd.ctl("get", "/registry/-/identity", "--print-value-only")


@pytest.mark.etcd
def test_what_replicas_share_is_encrypted_as_secrets_are(tmp_path: Path) -> None:
    """With it anybody could be an administrator, and read all Secrets."""
    etcd = wheel_etcd(tmp_path).start()
    flag = f"--etcd-servers={etcd.url}"
    with contextlib.ExitStack() as stack:
        stack.callback(etcd.kill)
        with running(tmp_path / "a", aesgcm("one"), flags=(flag,)) as found:
            known = found.server.ca_path.read_bytes()
            assert stored_identity(etcd).startswith(b"k8s:enc:aesgcm:v1:one:")
            found.reload(aesgcm("two", "one"))
            until(
                lambda: stored_identity(etcd).startswith(b"k8s:enc:aesgcm:v1:two:"),
                what="it is encrypted anew",
            )
            assert b"PRIVATE KEY" not in etcd.ctl("get", "", "--prefix")
            found.configuration.write(aesgcm("two"))
            found.restart()
            assert found.server.ca_path.read_bytes() == known
            found.server.stop()
        end = ServerProcess(tmp_path / "b", flag).refusal()
        assert end.code != 0
        assert "the value is encrypted, but --encryption-provider-config is not set" in end.stderr


@pytest.mark.slow
@pytest.mark.etcd
def test_replicas_rotate_one_after_the_other(tmp_path: Path) -> None:
    """A replica without a key reads what it wrote as corrupt until it has it; in the right order none is."""
    etcd = wheel_etcd(tmp_path).start()
    flags = (f"--etcd-servers={etcd.url}",)
    with contextlib.ExitStack() as stack:
        stack.callback(etcd.kill)
        first, second = (
            stack.enter_context(running(tmp_path / name, aesgcm("one"), flags=flags)) for name in "ab"
        )
        define(first.api, definition(GROUP)).create("own").ok()
        first.api.post(SECRETS, secret("a")).ok()
        for names in (("one", "two"), ("two", "one"), ("two",)):
            for each in (first, second):
                each.reload(aesgcm(*names))
                each.api.post(SECRETS, {**secret(""), "metadata": {"generateName": "s-"}}).ok()
                assert [other.api.get(SECRETS).status for other in (first, second)] == [200, 200]
            rewrite(first, "secrets")
        second.api.post(SECRETS, secret("b")).ok()
        assert first.api.get(f"{SECRETS}/b").ok()["data"] == {"password": ENCODED}

        # What both share is encrypted with the key of now, too.
        assert stored_identity(etcd).startswith(b"k8s:enc:aesgcm:v1:two:")

        # Another order: one replica writes with a key that the other does not have yet.
        first.reload(aesgcm("three", "two"))
        first.api.post(SECRETS, secret("early")).ok()
        assert second.api.get(f"{SECRETS}/early").reason == "StorageReadError"
        assert second.api.get(f"{SECRETS}/a").status == 200
        second.reload(aesgcm("three", "two"))
        until_status(200, lambda: second.api.get(SECRETS), "it is read again")
        assert second.api.get(f"{SECRETS}/early").ok()["data"] == {"password": ENCODED}

        # What another server has written at a place that is the same: fields in the order of their names.
        where = f"/registry/{GROUP}/widgets/default/foreign"
        metadata = {"name": "foreign", "namespace": "default", "uid": "5d6c7a2e-0000-4000-8000-000000000000"}
        document = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, "spec": {"a": PLAIN}}
        etcd.put(where, sealed("two", json.dumps(document, separators=(",", ":")).encode(), where))
        path = f"/apis/{GROUP}/v1/namespaces/default/widgets/foreign"
        until_status(200, lambda: first.api.get(path), "it is read")
        assert first.api.get(path).ok()["spec"] == {"a": PLAIN}
