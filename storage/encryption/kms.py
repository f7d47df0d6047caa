"""Encrypts by a KMS plugin (API v2), which gets few keys to decrypt, and never values.

A seed is made here and encrypted by the plugin; each value has a key derived from the seed, and the encrypted
seed stored beside it. So a plugin is called when the server starts, when the plugin's own key changes, and
when a value is read that was written with another seed: by another server, or before a restart.

Sources: k8s.io/apiserver, pkg/storage/value/encrypt/envelope/kmsv2 and
pkg/server/options/encryptionconfig/config.go.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from google.protobuf.message import DecodeError

from apiserver.storage.encryption import kms_pb2 as pb
from apiserver.storage.encryption.chains import (
    FROM_STORAGE,
    TO_STORAGE,
    CannotEncrypt,
    DecryptedValue,
    KeyNeeded,
)
from apiserver.storage.encryption.ciphers import (
    NOT_FROM_A_CALL,
    SEED_BYTES,
    AesGcm,
    Cipher,
    DerivedKeyAesGcm,
    Undecryptable,
)
from apiserver.storage.encryption.kms_client import (
    DETAIL_LENGTH_MAX,
    EncryptedKey,
    KmsPlugin,
    PluginFailed,
    PluginStatus,
)

log = logging.getLogger(__name__)

_V = TypeVar("_V")

# How often a plugin is asked for its status, and how often when it is not well.
POLL_S: Final = 60.0
POLL_UNHEALTHY_S: Final = 10.0
# So long values are still encrypted with a key after the plugin has confirmed it.
WRITE_KEY_S: Final = 180.0
# How long health checks are answered with the last result.
HEALTHY_S: Final = 20.0
UNHEALTHY_S: Final = 3.0
# How long a plugin that does not respond is not asked for other keys, and one that refuses a key not for it.
UNREACHABLE_S: Final = 3.0
REFUSED_S: Final = 10.0
# How often values whose keys a plugin refuses are tried again: it may have been mended.
READ_AGAIN_S: Final = 300.0
ANNOTATIONS_BYTES_MAX: Final = 32 * 1024
KEY_ID_BYTES_MAX: Final = 1024
SEALED_BYTES_MAX: Final = 1024
# Some hundred bytes each, at most 6 KiB: 1 KiB of ciphertext, an ID of so many bytes whose characters may
# take four each, and digests of what may be longer. There is one for each start of a server and each key of
# the plugin.
KEYS_MAX: Final = 10_000
REFUSALS_MAX: Final = 1_000
VERSIONS: Final = ("v2", "v2beta1")
_SEED: Final = pb.HKDF_SHA256_XNONCE_AES_GCM_SEED
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


class KmsUnhealthy(Exception):
    """A KMS plugin is not healthy; the message is for the log and for probes."""


class KmsObserver(Protocol):
    """Counts uses of a KMS plugin's keys. key_id: that of the plugin's own key. code: the error."""

    def key_used(self, direction: str, provider: str, key_id: str) -> None: ...

    def key_reported(self, provider: str, key_id: str) -> None: ...

    def key_id_invalid(self, provider: str, code: str) -> None: ...

    def key_fetched(self) -> None: ...

    def data_key_made(self, duration_s: float) -> None: ...


class _WriteKey(NamedTuple):
    """The key that values are currently encrypted with. expires_at: by the monotonic clock."""

    cipher: Cipher
    sealed: EncryptedKey
    expires_at: float


# The last part is a digest of the annotations, which may be longer than all else.
_CacheKey = tuple[int, bytes, str, bytes]


class KmsProvider:
    """The transformer of one KMS plugin; see `chains.Transformer`.

    on_change: called when more values can be decrypted than before. wall: seconds since 1970.
    """

    def __init__(
        self,
        name: str,
        plugin: KmsPlugin,
        observer: KmsObserver,
        on_change: Callable[[], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._plugin = plugin
        self._observer = observer
        self._on_change = on_change
        self._monotonic, self._wall = monotonic, wall
        self.first_probe = asyncio.Event()  # set when the plugin was asked once
        self._version = ""
        self._write_key: _WriteKey | None = None
        self._failure = "the plugin has not been called yet"
        self._keys: dict[_CacheKey, Cipher] = {}
        self._fetching: dict[_CacheKey, asyncio.Task[None]] = {}
        # Keys that the plugin refuses, and why it is not asked for others; each until then.
        self._refusals: dict[_CacheKey, tuple[Undecryptable, float]] = {}
        self._unreachable: tuple[Undecryptable, float] | None = None
        # What became of keys that were asked for since values were last read again: no answer, or a refusal.
        self._was_unreachable = self._has_refused = False
        self._read_again_at = -READ_AGAIN_S
        self._probing = asyncio.Lock()
        self._checked: tuple[KmsUnhealthy | None, float] | None = None
        self._check: asyncio.Task[str] | None = None

    # ---- values

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        key = self._write_key
        if key is None:
            why = f'the KMS plugin "{self.name}" has not provided a key: {self._failure}'
            raise CannotEncrypt(why, code=NOT_FROM_A_CALL)
        if (late_s := self._monotonic() - key.expires_at) > 0:
            now = self._wall()
            why = (
                f'encryptedDEKSource with keyID hash "{_hash(key.sealed.key_id)}" expired at '
                f"{_time(now - late_s)} (current time is {_time(now)})"
            )
            raise CannotEncrypt(why, code=NOT_FROM_A_CALL)
        sealed = key.sealed
        data = pb.EncryptedObject(
            encrypted_data=key.cipher.encrypt(value, context),
            key_id=sealed.key_id,
            encrypted_dek_source=sealed.ciphertext,
            annotations=sealed.annotations,
            encrypted_dek_source_type=_SEED,
        )
        self._observer.key_used(TO_STORAGE, self.name, sealed.key_id)
        return data.SerializeToString()

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        found = _parsed(data)
        sealed = EncryptedKey(found.encrypted_dek_source, found.key_id, dict(found.annotations))
        source_type = found.encrypted_dek_source_type
        cache_key = _cache_key(source_type, sealed)
        cipher = self._keys.get(cache_key)
        if cipher is None:
            self._raise_failure(cache_key)
            raise KeyNeeded(self.name, partial(self._fetch, cache_key, sealed, source_type == _SEED))
        self._observer.key_used(FROM_STORAGE, self.name, sealed.key_id)
        value = cipher.decrypt(found.encrypted_data, context)
        current = self._write_key
        is_stale = current is not None and (sealed.key_id != current.sealed.key_id or source_type != _SEED)
        return DecryptedValue(value, is_stale)

    # ---- keys

    def _raise_failure(self, cache_key: _CacheKey) -> None:
        """Raise the known failure if a key must not be requested now."""
        for failed in (self._refusals.get(cache_key), self._unreachable):
            if failed is not None and self._monotonic() < failed[1]:
                raise Undecryptable(str(failed[0]), code=failed[0].code, is_temporary=failed[0].is_temporary)

    async def _fetch(self, cache_key: _CacheKey, sealed: EncryptedKey, is_seed: bool) -> None:
        """Have the plugin decrypt a key, once for all values that wait for it; does not raise."""
        task = self._fetching.get(cache_key)
        if task is None:
            task = asyncio.create_task(self._fetch_now(cache_key, sealed, is_seed))
            self._fetching[cache_key] = task
            task.add_done_callback(lambda _: self._fetching.pop(cache_key, None))
        # Callers that wait are not cancelled with the task: a watch cache would mistake that for its own
        # cancellation.
        await asyncio.wait((task,))

    async def _fetch_now(self, cache_key: _CacheKey, sealed: EncryptedKey, is_seed: bool) -> None:
        self._observer.key_fetched()
        try:
            key = await self._plugin.decrypt(sealed, str(uuid4()))
            self._keep(cache_key, DerivedKeyAesGcm(key) if is_seed else AesGcm(key))
            self._refusals.pop(cache_key, None)
            return
        except PluginFailed as error:
            failure = Undecryptable(
                f"failed to decrypt DEK, error: {error}", code=error.code, is_temporary=error.is_unreachable
            )
            if error.is_unreachable:
                self._unreachable = (failure, self._monotonic() + UNREACHABLE_S)
                self._was_unreachable = True
        except Undecryptable as error:
            failure = error
        except ValueError:
            failure = Undecryptable("the decrypted DEK is not an AES key")
        self._has_refused = True
        log.warning("the KMS plugin %s did not decrypt a key: %s", self.name, failure)
        _bounded_put(self._refusals, cache_key, (failure, self._monotonic() + REFUSED_S), REFUSALS_MAX)

    def _keep(self, cache_key: _CacheKey, cipher: Cipher) -> None:
        _bounded_put(self._keys, cache_key, cipher, KEYS_MAX)

    # ---- health, and the plugin's own key

    async def run(self) -> None:
        """Poll the status of the plugin until cancelled, so that the write key does not expire."""
        while True:  # noqa: ASYNC110  a plugin has no event
            await asyncio.sleep(POLL_S if await self.is_healthy() else POLL_UNHEALTHY_S)

    async def is_healthy(self) -> bool:
        """Checks the health of the plugin, and logs problems."""
        try:
            await self.probe()
        except KmsUnhealthy as error:
            log.warning("%s", error)
            return False
        finally:
            self.first_probe.set()
        return True

    async def check(self) -> None:
        """Checks that the plugin is healthy, by a result that may be a moment old. Raises KmsUnhealthy.

        A caller that stops waiting for a slow plugin does not end the probe: the next caller gets its result.
        """
        checked = self._checked
        if checked is not None:
            error, at = checked
            if self._monotonic() - at < (UNHEALTHY_S if error else HEALTHY_S):
                if error is not None:
                    raise KmsUnhealthy(str(error))
                return
        task = self._check
        if task is None or task.done():
            task = self._check = asyncio.create_task(self._reason())
        await asyncio.wait((task,))
        closed = f"the KMS plugin {self.name} is no longer in use"
        if reason := closed if task.cancelled() else task.result():
            raise KmsUnhealthy(reason)

    async def _reason(self) -> str:
        """Returns why the plugin is unhealthy; empty if it is healthy."""
        try:
            await self.probe()
        except KmsUnhealthy as error:
            return str(error)
        return ""

    async def probe(self) -> None:
        """Check the plugin's status and key, and get a new write key if that key has changed.

        Raises KmsUnhealthy.
        """
        async with self._probing:
            try:
                await self._probe()
            except KmsUnhealthy as error:
                self._failure = str(error)
                self._checked = (error, self._monotonic())
                raise
            self._checked = (None, self._monotonic())

    async def _probe(self) -> None:
        try:
            status = await self._plugin.status()
        except PluginFailed as error:
            section = "failed to perform status section of the healthz check for KMS Provider"
            raise KmsUnhealthy(f"{section} {self.name}, error: {error}") from None
        errors = [*self._complaints(status)]
        if status.key_id and len(status.key_id.encode()) <= KEY_ID_BYTES_MAX:
            self._observer.key_reported(self.name, status.key_id)
            if why := await self._confirm_or_rotate(status.key_id):
                errors.append(why)
        self._have_read_again(is_well=not errors)
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise KmsUnhealthy(f"kmsv2 Provider {self.name} is not healthy, error: {text}")

    def _have_read_again(self, *, is_well: bool) -> None:
        """Have undecryptable values read again, since the plugin responds.

        A plugin may report that it is unhealthy, and still decrypt; then they are tried less often.
        """
        self._unreachable = None
        now = self._monotonic()
        since_s = now - self._read_again_at
        if (self._was_unreachable and (is_well or since_s >= POLL_S)) or (
            self._has_refused and since_s >= READ_AGAIN_S
        ):
            self._was_unreachable = self._has_refused = False
            self._read_again_at = now
            self._refusals.clear()
            self._on_change()

    def _complaints(self, status: PluginStatus) -> list[str]:
        """Returns the errors in a status."""
        errors = []
        if status.healthz != "ok":
            errors.append(f"got unexpected healthz status: {status.healthz[:DETAIL_LENGTH_MAX]}")
        if status.version not in VERSIONS:
            errors.append(
                f"expected KMSv2 API version {VERSIONS[0]}, got {status.version[:DETAIL_LENGTH_MAX]}"
            )
        else:
            self._version = self._version or status.version
            if status.version != self._version:
                errors.append(
                    "KMSv2 API version should not change after the initial status response version "
                    f"{self._version}, got {status.version}"
                )
        if why := _key_id_error(status.key_id):
            self._observer.key_id_invalid(self.name, "too_long" if status.key_id else "empty")
            errors.append(f'got invalid KMSv2 KeyID hash "{_hash(status.key_id)}": {why}')
        return errors

    async def _confirm_or_rotate(self, key_id: str) -> str:
        """Confirm the write key, or get a new one; returns why that failed."""
        # The time begins before the plugin is called.
        expires_at = self._monotonic() + WRITE_KEY_S
        current = self._write_key
        if current is not None and current.sealed.key_id == key_id:
            self._write_key = _WriteKey(current.cipher, current.sealed, expires_at)
            return ""
        uid, began = str(uuid4()), self._monotonic()
        seed = os.urandom(SEED_BYTES)
        self._observer.data_key_made(self._monotonic() - began)
        why, answered = "", ""
        try:
            sealed = await self._plugin.encrypt(seed, uid)
            answered = sealed.key_id
            why = _sealed_error(sealed)
        except PluginFailed as error:
            why = f"failed to encrypt DEK, error: {error}"
        if not why and answered == key_id:
            self._write_key = _WriteKey(DerivedKeyAesGcm(seed), sealed, expires_at)
            self._keep(_cache_key(_SEED, sealed), self._write_key.cipher)
            log.info(
                "the KMS plugin %s uses key %s; values are encrypted with a new seed",
                self.name,
                _hash(key_id),
            )
            return ""
        return (
            f'failed to rotate DEK uid="{uid}", errGen={why or "<nil>"}, statusKeyIDHash="{_hash(key_id)}", '
            f'encryptKeyIDHash="{_hash(answered)}", '
            f'stateKeyIDHash="{_hash(current.sealed.key_id if current is not None else "")}"'
        )

    async def close(self) -> None:
        tasks = [*self._fetching.values(), *([self._check] if self._check is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._plugin.close()


def _bounded_put(mapping: dict[_CacheKey, _V], key: _CacheKey, value: _V, limit: int) -> None:
    """Add to a mapping, and evict the oldest entries beyond the limit."""
    mapping[key] = value
    if len(mapping) > limit:
        mapping.pop(next(iter(mapping)), None)


def _cache_key(source_type: int, sealed: EncryptedKey) -> _CacheKey:
    annotations = sealed.annotations
    digest = hashlib.sha256(repr(sorted(annotations.items())).encode()).digest() if annotations else b""
    return source_type, sealed.ciphertext, sealed.key_id, digest


def _parsed(data: bytes) -> pb.EncryptedObject:
    """Returns a parsed encrypted value."""
    try:
        found = pb.EncryptedObject.FromString(data)
    except DecodeError:
        raise Undecryptable("proto: cannot parse the stored data") from None
    source_type = found.encrypted_dek_source_type
    if source_type not in (pb.AES_GCM_KEY, _SEED):
        raise Undecryptable(f"unknown encryptedDEKSourceType: {source_type}")
    if not found.encrypted_data:
        raise Undecryptable("encrypted data is empty")
    if why := _sealed_error(EncryptedKey(found.encrypted_dek_source, found.key_id, found.annotations)):
        raise Undecryptable(why)
    return found


def _sealed_error(sealed: EncryptedKey) -> str:
    """Returns the error in an encrypted key."""
    failed = "failed to validate encrypted DEK source"
    if not sealed.ciphertext:
        return f"{failed}: encrypted DEK source is empty"
    if (size := len(sealed.ciphertext)) > SEALED_BYTES_MAX:
        why = f"encrypted DEK source is {size} bytes, which exceeds the max size of {SEALED_BYTES_MAX}"
        return f"{failed}: {why}"
    if why := _key_id_error(sealed.key_id):
        return f"failed to validate key id: {why}"
    if why := _annotations_error(sealed.annotations):
        return f"failed to validate annotations: {why}"
    return ""


def _key_id_error(key_id: str) -> str:
    if not key_id:
        return "keyID is empty"
    if (size := len(key_id.encode())) > KEY_ID_BYTES_MAX:
        return f"keyID is {size} bytes, which exceeds the max size of {KEY_ID_BYTES_MAX}"
    return ""


def _annotations_error(annotations: Mapping[str, bytes]) -> str:
    total = sum(len(key.encode()) + len(value) for key, value in annotations.items())
    if total > ANNOTATIONS_BYTES_MAX:
        return f"total size of annotations is {total}, which exceeds the max size of {ANNOTATIONS_BYTES_MAX}"
    for key in annotations:
        if not _DOMAIN.fullmatch(key):
            shown = key[:KEY_ID_BYTES_MAX]
            why = "should be a domain with at least two segments separated by dots"
            return f'annotations: Invalid value: "{shown}": {why}'
    return ""


def _hash(key_id: str) -> str:
    return f"sha256:{hashlib.sha256(key_id.encode()).hexdigest()}" if key_id else ""


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
