"""Ciphers of single values: their layouts are Kubernetes', and what was tampered with is not decrypted."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, GCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.padding import PKCS7

from apiserver.storage.encryption.ciphers import (
    AesCbc,
    AesGcm,
    Cipher,
    DerivedKeyAesGcm,
    Secretbox,
    Undecryptable,
)

KEY: Final = bytes(range(32))
WHERE: Final = b"/registry/core/secrets/default/a"
VALUES: Final = {"empty": b"", "a block": b"x" * 16, "text": b'{"data":{"k":"v"}}', "large": b"y" * 1_000_000}
CIPHERS: Final[dict[str, Callable[[], Cipher]]] = {
    "aescbc": lambda: AesCbc(KEY),
    "aesgcm": lambda: AesGcm(KEY),
    "secretbox": lambda: Secretbox(KEY),
    "derived": lambda: DerivedKeyAesGcm(KEY),
}


@pytest.mark.parametrize("cipher", CIPHERS.values(), ids=CIPHERS)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_comes_back_and_no_two_are_encrypted_alike(
    cipher: Callable[[], Cipher], value: bytes
) -> None:
    data = cipher().encrypt(value, WHERE)
    assert cipher().decrypt(data, WHERE) == value
    assert cipher().encrypt(value, WHERE) != data
    if value:
        assert value not in data


def test_the_layouts_are_those_of_kubernetes() -> None:
    """Each value is decrypted by other means."""
    value = b"a value of some length"
    data = AesGcm(KEY).encrypt(value, WHERE)
    decryptor = BlockCipher(AES(KEY), GCM(data[:12], data[-16:])).decryptor()
    decryptor.authenticate_additional_data(WHERE)
    assert decryptor.update(data[12:-16]) + decryptor.finalize() == value

    data = AesCbc(KEY).encrypt(value, WHERE)
    decrypted = BlockCipher(AES(KEY), CBC(data[:16])).decryptor().update(data[16:])
    unpadder = PKCS7(128).unpadder()
    assert unpadder.update(decrypted) + unpadder.finalize() == value

    data = DerivedKeyAesGcm(KEY).encrypt(value, WHERE)
    key = HKDFExpand(SHA256(), 32, data[:32]).derive(KEY)
    assert AesGcm(key).decrypt(data[32:], WHERE) == value


@pytest.mark.parametrize("cipher", [AesGcm(KEY), DerivedKeyAesGcm(KEY)], ids=["aesgcm", "derived"])
def test_a_value_that_was_moved_is_not_decrypted(cipher: Cipher) -> None:
    data = cipher.encrypt(b"secret", WHERE)
    with pytest.raises(Undecryptable, match="message authentication failed"):
        cipher.decrypt(data, WHERE + b"b")


AUTHENTICATED: Final = ("aesgcm", "secretbox", "derived")


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_changed_value_is_not_decrypted(name: str) -> None:
    cipher = CIPHERS[name]()
    data = cipher.encrypt(b"secret", WHERE)
    for index in (0, len(data) // 2, len(data) - 1):
        changed = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
        with pytest.raises(Undecryptable):
            cipher.decrypt(changed, WHERE)


def unpadded(last: bytes) -> bytes:
    """What an encryptor without padding makes of one block that ends so."""
    block = last.rjust(16, b"x")
    return bytes(16) + BlockCipher(AES(KEY), CBC(bytes(16))).encryptor().update(block)


MALFORMED: Final = {
    "aesgcm, nothing": ("aesgcm", b"", "shorter than the required size"),
    "aesgcm, no tag": ("aesgcm", bytes(13), "message authentication failed"),
    "aescbc, nothing": ("aescbc", bytes(15), "shorter than the required size"),
    "aescbc, no block": ("aescbc", bytes(16), r"invalid PKCS7 data \(empty or not padded\)"),
    "aescbc, half a block": ("aescbc", bytes(24), "not a multiple of the block size"),
    "aescbc, no padding": ("aescbc", unpadded(b"\0"), r"invalid PKCS7 data \(empty or not padded\)"),
    "aescbc, more padding than data": ("aescbc", unpadded(b"\x11"), "invalid PKCS7 data"),
    "aescbc, uneven padding": ("aescbc", unpadded(b"\2"), "invalid padding on input"),
    "secretbox, short": ("secretbox", bytes(39), "shorter than the required size"),
    "secretbox, noise": ("secretbox", bytes(64), "output array was not large enough for encryption"),
    "derived, short": ("derived", bytes(31), "shorter than the required size"),
    "derived, nothing behind": ("derived", bytes(32), "shorter than the required size"),
}


@pytest.mark.parametrize(("name", "data", "why"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_encrypted_value(name: str, data: bytes, why: str) -> None:
    with pytest.raises(Undecryptable, match=why):
        CIPHERS[name]().decrypt(data, WHERE)


def test_a_seed_has_a_length() -> None:
    with pytest.raises(Undecryptable, match="invalid seed length 31 used for key generation"):
        DerivedKeyAesGcm(KEY[:31])


def test_a_seed_of_any_length_takes_little_memory() -> None:
    """A KMS plugin chooses it, and keys are remembered by their number."""
    tracemalloc.start()
    try:
        cipher = DerivedKeyAesGcm(bytes(KEY * 100_000))
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()
    value = b"a value of some length"
    data = cipher.encrypt(value, WHERE)
    key = HKDFExpand(SHA256(), 32, data[:32]).derive(KEY * 100_000)
    assert AesGcm(key).decrypt(data[32:], WHERE) == value
