"""The provider that asks a KMS plugin for keys: when it asks, what it stores, and what it does without.

Source: k8s.io/apiserver, pkg/storage/value/encrypt/envelope/kmsv2 and pkg/server/options/encryptionconfig.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from apiserver.storage.encryption import kms_pb2 as pb
from apiserver.storage.encryption.chains import CannotEncrypt, DecryptedValue, KeyNeeded
from apiserver.storage.encryption.ciphers import AesGcm, Undecryptable
from apiserver.storage.encryption.kms import (
    HEALTHY_S,
    KEY_ID_BYTES_MAX,
    READ_AGAIN_S,
    REFUSED_S,
    UNHEALTHY_S,
    UNREACHABLE_S,
    WRITE_KEY_S,
    KmsProvider,
    KmsUnhealthy,
)
from apiserver.storage.encryption.kms_client import EncryptedKey, KmsClient, PluginFailed, PluginStatus
from tests.support.kms_plugin import STATE, handlers

WHERE: Final = b"/registry/core/secrets/default/a"
UNREACHABLE: Final = PluginFailed("Unavailable", "no plugin", is_unreachable=True)
REFUSED: Final = PluginFailed("NotFound", "no such key", is_unreachable=False)


class FakePlugin:
    """A plugin in memory: what it seals is the key with the name of its own. fails: what its calls raise."""

    def __init__(self) -> None:
        self.found = PluginStatus("v2", "ok", "key-1")
        self.seals_with = ""  # another key than the status says
        self.annotations = {"a.example.com": b"1"}
        self.fails: dict[str, PluginFailed] = {}
        self.calls: Counter[str] = Counter()
        self.answers = asyncio.Event()
        self.answers.set()

    def _called(self, method: str) -> None:
        self.calls[method] += 1
        if method in self.fails:
            raise self.fails[method]

    async def status(self) -> PluginStatus:
        self._called("status")
        await self.answers.wait()
        return self.found

    async def encrypt(self, plaintext: bytes, uid: str) -> EncryptedKey:
        self._called("encrypt")
        key_id = self.seals_with or self.found.key_id
        return EncryptedKey(key_id.encode() + b":" + plaintext, key_id, self.annotations)

    async def decrypt(self, sealed: EncryptedKey, uid: str) -> bytes:
        self._called("decrypt")
        await asyncio.sleep(0)
        await self.answers.wait()
        return sealed.ciphertext.partition(b":")[2]

    async def close(self) -> None:
        self.calls["close"] += 1


class Uses:
    """Counts what a provider tells of its keys."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, ...]] = Counter()

    def key_used(self, direction: str, provider: str, key_id: str) -> None:
        self.seen[direction, key_id] += 1

    def key_reported(self, provider: str, key_id: str) -> None:
        self.seen["reported", key_id] += 1

    def key_id_invalid(self, provider: str, code: str) -> None:
        self.seen["invalid", code] += 1

    def key_fetched(self) -> None:
        self.seen["fetched",] += 1

    def data_key_made(self, duration_s: float) -> None:
        self.seen["made",] += 1


class Setting:
    """A provider over a plugin, and a clock for both its times. wall_ahead_s: how far one is set forward."""

    def __init__(self, plugin: FakePlugin | None = None) -> None:
        self.plugin = plugin or FakePlugin()
        self.uses = Uses()
        self.now = 1_000.0
        self.wall_ahead_s = 0.0
        self.changes = 0
        self.provider = self.another()

    def another(self) -> KmsProvider:
        """A provider of another server, or after a restart, over the same plugin."""

        def changed() -> None:
            self.changes += 1

        return KmsProvider(
            "plugin",
            self.plugin,
            self.uses,
            changed,
            monotonic=lambda: self.now,
            wall=lambda: self.now + self.wall_ahead_s,
        )

    async def primed(self) -> KmsProvider:
        await self.provider.probe()
        return self.provider


async def read(provider: KmsProvider, data: bytes) -> DecryptedValue:
    """As the store reads."""
    try:
        return provider.decrypt(data, WHERE)
    except KeyNeeded as needed:
        await needed.fetch()
        return provider.decrypt(data, WHERE)


@pytest.fixture
def setting() -> Setting:
    return Setting()


async def test_what_is_stored(setting: Setting) -> None:
    """An EncryptedObject of kube-apiserver's, which anybody decrypts who has the seed."""
    provider = await setting.primed()
    found = pb.EncryptedObject.FromString(provider.encrypt(b"value", WHERE))
    assert (found.key_id, dict(found.annotations)) == ("key-1", {"a.example.com": b"1"})
    assert found.encrypted_dek_source_type == pb.HKDF_SHA256_XNONCE_AES_GCM_SEED
    assert len(found.encrypted_dek_source) == len("key-1:") + 32
    assert len(found.encrypted_data) == 32 + 12 + len("value") + 16


async def test_a_plugin_is_asked_for_keys_and_not_for_values(setting: Setting) -> None:
    provider = await setting.primed()
    stored = [provider.encrypt(b"%d" % number, WHERE) for number in range(10)]
    assert [provider.decrypt(data, WHERE) for data in stored] == [(b"%d" % n, False) for n in range(10)]
    assert setting.plugin.calls == {"status": 1, "encrypt": 1}
    restarted = setting.another()
    await asyncio.gather(*(read(restarted, data) for data in stored))
    assert setting.plugin.calls["decrypt"] == 1
    assert setting.uses.seen["from_storage", "key-1"] == 20
    assert setting.uses.seen["to_storage", "key-1"] == 10
    assert setting.uses.seen["fetched",] == 1


async def test_a_value_of_one_key_without_a_seed_is_read_and_is_stale(setting: Setting) -> None:
    """As kube-apiserver before 1.29 has written it."""
    provider = await setting.primed()
    found = pb.EncryptedObject(
        encrypted_data=AesGcm(bytes(32)).encrypt(b"value", WHERE),
        key_id="key-1",
        encrypted_dek_source=b"key-1:" + bytes(32),
        encrypted_dek_source_type=pb.AES_GCM_KEY,
    )
    assert await read(provider, found.SerializeToString()) == (b"value", True)


async def test_the_key_rotates_when_the_status_says_so(setting: Setting) -> None:
    provider = await setting.primed()
    old = provider.encrypt(b"value", WHERE)
    assert provider.decrypt(old, WHERE) == (b"value", False)
    setting.plugin.found = PluginStatus("v2", "ok", "key-2")
    await provider.probe()
    assert provider.decrypt(old, WHERE) == (b"value", True)
    assert pb.EncryptedObject.FromString(provider.encrypt(b"value", WHERE)).key_id == "key-2"
    await provider.probe()
    assert setting.plugin.calls["encrypt"] == 2, "no new key while the plugin's stays"


async def test_no_rotation_to_another_key_than_the_status_says(setting: Setting) -> None:
    provider = await setting.primed()
    setting.plugin.found = PluginStatus("v2", "ok", "key-2")
    setting.plugin.seals_with = "key-3"
    with pytest.raises(KmsUnhealthy, match="failed to rotate DEK"):
        await provider.probe()
    assert pb.EncryptedObject.FromString(provider.encrypt(b"value", WHERE)).key_id == "key-1"


async def test_without_a_key_nothing_is_written_and_the_reason_is_told(setting: Setting) -> None:
    setting.plugin.fails["status"] = UNREACHABLE
    assert not await setting.provider.is_healthy()
    with pytest.raises(CannotEncrypt) as raised:
        setting.provider.encrypt(b"value", WHERE)
    assert str(raised.value).startswith(
        'the KMS plugin "plugin" has not provided a key: failed to perform status'
    )
    assert "rpc error: code = Unavailable desc = no plugin" in str(raised.value)


async def test_a_key_that_the_plugin_does_not_confirm_expires(setting: Setting) -> None:
    provider = await setting.primed()
    data = provider.encrypt(b"value", WHERE)
    setting.plugin.fails["status"] = UNREACHABLE
    setting.now += WRITE_KEY_S
    assert not await provider.is_healthy()
    provider.encrypt(b"value", WHERE)
    setting.now += 1
    with pytest.raises(CannotEncrypt, match=r"keyID hash .+ expired at 1970-"):
        provider.encrypt(b"value", WHERE)
    assert provider.decrypt(data, WHERE) == (b"value", False)
    setting.plugin.fails.clear()
    await provider.probe()
    provider.encrypt(b"value", WHERE)


async def test_a_key_does_not_expire_because_the_time_of_day_is_set(setting: Setting) -> None:
    provider = await setting.primed()
    setting.wall_ahead_s = 86_400
    provider.encrypt(b"value", WHERE)
    setting.wall_ahead_s = -86_400
    setting.now += WRITE_KEY_S + 1
    with pytest.raises(
        CannotEncrypt, match=r"at 1969-12-31T00:19:40Z \(current time is 1969-12-31T00:19:41Z"
    ):
        provider.encrypt(b"value", WHERE)


async def test_a_plugin_that_does_not_respond_is_not_asked_for_every_value(setting: Setting) -> None:
    """And what it could not decrypt is tried again when it is well."""
    data = (await setting.primed()).encrypt(b"value", WHERE)
    restarted = setting.another()
    setting.plugin.fails["decrypt"] = UNREACHABLE
    for _ in range(5):
        with pytest.raises(Undecryptable) as raised:
            await read(restarted, data)
        assert raised.value.is_temporary
        assert raised.value.code == "Unavailable"
    assert setting.plugin.calls["decrypt"] == 1
    setting.now += UNREACHABLE_S + REFUSED_S
    with pytest.raises(Undecryptable):
        await read(restarted, data)
    assert setting.plugin.calls["decrypt"] == 2
    setting.plugin.fails.clear()
    assert setting.changes == 0
    await restarted.probe()
    assert setting.changes == 1
    assert await read(restarted, data) == (b"value", False)


async def test_a_key_that_the_plugin_refuses_is_corrupt(setting: Setting) -> None:
    data = (await setting.primed()).encrypt(b"value", WHERE)
    restarted = setting.another()
    setting.plugin.fails["decrypt"] = REFUSED
    for _ in range(5):
        with pytest.raises(Undecryptable) as raised:
            await read(restarted, data)
    assert str(raised.value) == "failed to decrypt DEK, error: rpc error: code = NotFound desc = no such key"
    assert not raised.value.is_temporary
    assert setting.plugin.calls["decrypt"] == 1
    await restarted.probe()
    assert setting.changes == 1
    with pytest.raises(Undecryptable):
        await read(restarted, data)
    await restarted.probe()
    assert setting.changes == 1, "all that is refused is not read again with every probe"
    setting.now += READ_AGAIN_S
    await restarted.probe()
    assert setting.changes == 2


async def test_a_plugin_that_is_not_well_but_responds_again_is_asked_for_keys(setting: Setting) -> None:
    """It may say for long that it is not well, as of a late rotation, and decrypt all the same."""
    data = (await setting.primed()).encrypt(b"value", WHERE)
    restarted = setting.another()
    setting.plugin.fails["decrypt"] = setting.plugin.fails["status"] = UNREACHABLE
    with pytest.raises(Undecryptable):
        await read(restarted, data)
    assert not await restarted.is_healthy()
    assert setting.changes == 0
    setting.plugin.fails.clear()
    setting.plugin.found = PluginStatus("v2", "the key is to be rotated", "key-1")
    assert not await restarted.is_healthy()
    assert setting.changes == 1
    assert await read(restarted, data) == (b"value", False)


UNWELL: Final[dict[str, tuple[PluginStatus, str]]] = {
    "not ok": (PluginStatus("v2", "sick", "key-1"), "got unexpected healthz status: sick"),
    "another version": (PluginStatus("v1", "ok", "key-1"), "expected KMSv2 API version v2, got v1"),
    "no key": (PluginStatus("v2", "ok", ""), 'got invalid KMSv2 KeyID hash "": keyID is empty'),
    "a long key": (
        PluginStatus("v2", "ok", "k" * (KEY_ID_BYTES_MAX + 1)),
        "keyID is 1025 bytes, which exceeds the max size of 1024",
    ),
}


@pytest.mark.parametrize(("status", "why"), UNWELL.values(), ids=UNWELL)
async def test_a_plugin_that_is_not_well(setting: Setting, status: PluginStatus, why: str) -> None:
    setting.plugin.found = status
    with pytest.raises(KmsUnhealthy, match="kmsv2 Provider plugin is not healthy, error: ") as raised:
        await setting.provider.probe()
    assert why in str(raised.value)


ANSWERS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a name that is no domain": (
        {"annotations": {"a": b"1"}},
        "should be a domain with at least two segments",
    ),
    "much beside the key": (
        {"annotations": {"a.example.com": bytes(32 * 1024)}},
        "exceeds the max size of 32768",
    ),
    "another key": ({"seals_with": "key-2"}, "failed to rotate DEK"),
}


@pytest.mark.parametrize(("answers", "why"), ANSWERS.values(), ids=ANSWERS)
async def test_an_encrypted_key_is_checked(setting: Setting, answers: dict[str, Any], why: str) -> None:
    vars(setting.plugin).update(answers)
    with pytest.raises(KmsUnhealthy, match=why):
        await setting.provider.probe()


MALFORMED: Final[dict[str, tuple[bytes, str]]] = {
    "no message": (b"\xff", "proto: cannot parse"),
    "nothing": (b"", "encrypted data is empty"),
    "no key": (
        pb.EncryptedObject(encrypted_data=b"1").SerializeToString(),
        "failed to validate encrypted DEK source: encrypted DEK source is empty",
    ),
    "a long key": (
        pb.EncryptedObject(encrypted_data=b"1", encrypted_dek_source=bytes(1025)).SerializeToString(),
        "encrypted DEK source is 1025 bytes, which exceeds the max size of 1024",
    ),
    "no name of a key": (
        pb.EncryptedObject(encrypted_data=b"1", encrypted_dek_source=b"1").SerializeToString(),
        "failed to validate key id: keyID is empty",
    ),
    "an unknown kind of key": (b"\x28\x07\x0a\x011", "unknown encryptedDEKSourceType: 7"),
}


@pytest.mark.parametrize(("data", "why"), MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_encrypted_object(data: bytes, why: str) -> None:
    with pytest.raises(Undecryptable, match=why):
        (await Setting().primed()).decrypt(data, WHERE)


async def test_health_checks_do_not_ask_each_time(setting: Setting) -> None:
    provider = setting.provider
    for _ in range(3):
        await provider.check()
    assert setting.plugin.calls["status"] == 1
    setting.now += HEALTHY_S
    setting.plugin.fails["status"] = UNREACHABLE
    for _ in range(3):
        with pytest.raises(KmsUnhealthy):
            await provider.check()
    assert setting.plugin.calls["status"] == 2
    setting.now += UNHEALTHY_S
    setting.plugin.fails.clear()
    await provider.check()


async def test_a_slow_plugin_is_found_well_by_the_next_check(setting: Setting) -> None:
    """Probes have a deadline; what one has begun is not lost with it."""
    setting.plugin.answers.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await setting.provider.check()
    setting.plugin.answers.set()
    await setting.provider.check()
    assert setting.plugin.calls["status"] == 1
    await setting.provider.close()


async def test_who_waits_for_a_plugin_that_is_closed_is_not_cancelled(setting: Setting) -> None:
    """A watch cache that is cancelled by nobody would stop, and say nothing."""
    data = (await setting.primed()).encrypt(b"value", WHERE)
    restarted = setting.another()
    setting.plugin.answers.clear()
    with pytest.raises(KeyNeeded) as needed:
        restarted.decrypt(data, WHERE)
    waiting = [asyncio.ensure_future(needed.value.fetch()), asyncio.ensure_future(restarted.check())]
    while not (setting.plugin.calls["decrypt"] and setting.plugin.calls["status"] == 2):
        await asyncio.sleep(0)
    await restarted.close()
    fetched, checked = await asyncio.gather(*waiting, return_exceptions=True)
    assert fetched is None
    assert isinstance(checked, KmsUnhealthy)


# ---- over a socket


Calls = list[tuple[str, str, str]]


@pytest.fixture
def state() -> dict[str, Any]:
    return dict(STATE)


@pytest.fixture
def socket(tmp_path: Path, state: dict[str, Any]) -> Any:
    path = tmp_path / "kms.sock"
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((handlers(lambda: state),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        yield str(path)
        server.stop(0).wait()


def client_of(socket: str, seen: Calls, timeout_s: float = 30.0) -> KmsClient:
    def observe(provider: str, method: str, code: str, duration_s: float) -> None:
        seen.append((provider, method, code))

    return KmsClient("plugin", socket, timeout_s, observe)


async def test_the_calls_of_a_plugin(socket: str, state: dict[str, Any]) -> None:
    seen: Calls = []
    client = client_of(socket, seen)
    assert await client.status() == ("v2", "ok", "key-1")
    sealed = await client.encrypt(b"key", "uid")
    assert await client.decrypt(sealed, "uid") == b"key"
    state["lost"] = ["key-1"]
    with pytest.raises(PluginFailed) as raised:
        await client.decrypt(sealed, "uid")
    assert str(raised.value) == "rpc error: code = NotFound desc = the key is lost"
    assert not raised.value.is_unreachable
    await client.close()
    service = "/v2.KeyManagementService/"
    assert seen == [
        ("plugin", service + "Status", "OK"),
        ("plugin", service + "Encrypt", "OK"),
        ("plugin", service + "Decrypt", "OK"),
        ("plugin", service + "Decrypt", "NotFound"),
    ]


async def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    """Its start is waited for, but not for ever."""
    seen: Calls = []
    client = client_of(str(tmp_path / "kms.sock"), seen, timeout_s=0.05)
    with pytest.raises(PluginFailed) as raised:
        await client.status()
    assert raised.value.is_unreachable
    assert raised.value.code in ("DeadlineExceeded", "Unavailable")
    await client.close()
    with pytest.raises(PluginFailed):
        await client.status()


class AnotherService(grpc.GenericRpcHandler):
    """Answers whatever is called by what is no message."""

    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"\xff\xff")


async def test_an_answer_that_is_no_message_is_a_failed_call(tmp_path: Path) -> None:
    """gRPC gives None for it: what it raised then ended the polling, and the watch cache."""
    seen: Calls = []
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((AnotherService(),))
        server.add_insecure_port(f"unix:{tmp_path}/kms.sock")
        server.start()
        client = client_of(f"{tmp_path}/kms.sock", seen)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "Status": client.status,
            "Encrypt": lambda: client.encrypt(b"key", "uid"),
            "Decrypt": lambda: client.decrypt(EncryptedKey(b"key", "key-1", {}), "uid"),
        }
        for method, call in calls.items():
            with pytest.raises(PluginFailed, match=r"^rpc error: code = Internal desc = ") as raised:
                await call()
            assert not raised.value.is_unreachable
            assert seen.pop() == ("plugin", f"/v2.KeyManagementService/{method}", "Internal")
        await client.close()
        server.stop(0).wait()
