"""Ciphers of single values, in the forms that kube-apiserver stores. They are pure except for random numbers.

Source: k8s.io/apiserver, pkg/storage/value/encrypt/{aes,secretbox}.

Random bytes are OpenSSL's, whose generator is seeded by the system and knows forks. `os.urandom` releases the
interpreter lock for its system call, and a thread that takes it meanwhile holds it for longer than the whole
encryption takes.
"""

from __future__ import annotations

import hashlib
import hmac
from ssl import RAND_bytes
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

GCM_NONCE_BYTES: Final = 12
CBC_BLOCK_BYTES: Final = 16
SECRETBOX_NONCE_BYTES: Final = 24
SECRETBOX_OVERHEAD_BYTES: Final = 16
# What a key is derived by, and the seed that it is derived from.
INFO_BYTES: Final = 32
SEED_BYTES: Final = 32
_HMAC_BLOCK_BYTES: Final = 64  # of SHA-256
_TOO_SHORT: Final = "the stored data was shorter than the required size"
# What the status of a failure is called in metrics that did not come from a call to a plugin.
NOT_FROM_A_CALL: Final = "unknown-non-grpc"


class Undecryptable(Exception):
    """A stored value cannot be decrypted. The message is for clients, and contains no part of the value or
    the key.

    code: the status of the failed call to a plugin, as metrics name it.
    is_temporary: whether it may be possible later, since a plugin did not respond.
    """

    def __init__(self, message: str, *, code: str = NOT_FROM_A_CALL, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.code, self.is_temporary = code, is_temporary


class Cipher(Protocol):
    """Encrypts values with one key.

    context: where the value is stored; authenticating ciphers do not decrypt a value that was moved.
    """

    def encrypt(self, value: bytes, context: bytes) -> bytes: ...

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """Returns the value of encrypted bytes. Raises Undecryptable."""
        ...


class AesGcm:
    """AES-GCM with a random nonce, which comes first in the stored value. One key is good for 2^32 values."""

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        nonce = RAND_bytes(GCM_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, value, context)

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        if len(data) < GCM_NONCE_BYTES:
            raise Undecryptable(_TOO_SHORT)
        try:
            return self._aead.decrypt(data[:GCM_NONCE_BYTES], data[GCM_NONCE_BYTES:], context)
        except InvalidTag:
            raise Undecryptable("cipher: message authentication failed") from None


class AesCbc:
    """AES-CBC with a random initialization vector, which comes first, and PKCS #7 padding.

    It authenticates neither the value nor where it is stored.
    """

    def __init__(self, key: bytes) -> None:
        self._algorithm = AES(key)

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        vector = RAND_bytes(CBC_BLOCK_BYTES)
        padding = CBC_BLOCK_BYTES - len(value) % CBC_BLOCK_BYTES
        encryptor = BlockCipher(self._algorithm, CBC(vector)).encryptor()
        return vector + encryptor.update(value + bytes([padding]) * padding) + encryptor.finalize()

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        if len(data) < CBC_BLOCK_BYTES:
            raise Undecryptable(_TOO_SHORT)
        if len(data) % CBC_BLOCK_BYTES:
            raise Undecryptable("the stored data is not a multiple of the block size")
        decryptor = BlockCipher(self._algorithm, CBC(data[:CBC_BLOCK_BYTES])).decryptor()
        padded = decryptor.update(data[CBC_BLOCK_BYTES:]) + decryptor.finalize()
        padding = padded[-1] if padded else 0
        if not 0 < padding <= len(padded):
            raise Undecryptable("invalid PKCS7 data (empty or not padded)")
        if not padded.endswith(bytes([padding]) * padding):
            raise Undecryptable("invalid padding on input")
        return padded[:-padding]


class Secretbox:
    """XSalsa20 and Poly1305, as in NaCl, with a random nonce, which comes first.

    It authenticates the value, but not where it is stored.
    """

    def __init__(self, key: bytes) -> None:
        # libsodium is loaded where it is used.
        from nacl.secret import SecretBox

        self._box = SecretBox(key)

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        return bytes(self._box.encrypt(value, RAND_bytes(SECRETBOX_NONCE_BYTES)))

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        from nacl.exceptions import CryptoError

        if len(data) < SECRETBOX_NONCE_BYTES + SECRETBOX_OVERHEAD_BYTES:
            raise Undecryptable(_TOO_SHORT)
        try:
            return self._box.decrypt(data)
        except CryptoError:
            raise Undecryptable("output array was not large enough for encryption") from None


class DerivedKeyAesGcm:
    """AES-GCM with a key for each value, derived by HKDF from a seed and random bytes, which come first.

    So one seed is good for any number of values.
    """

    def __init__(self, seed: bytes) -> None:
        """seed: raises Undecryptable if it is too short."""
        if len(seed) < SEED_BYTES:
            raise Undecryptable(f"invalid seed length {len(seed)} used for key generation")
        # HMAC uses the digest of a longer key (RFC 2104), and the length of a KMS plugin's data is not
        # bounded.
        self._seed = seed if len(seed) <= _HMAC_BLOCK_BYTES else hashlib.sha256(seed).digest()

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        info = RAND_bytes(INFO_BYTES)
        return info + self._derived(info).encrypt(value, context)

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        if len(data) < INFO_BYTES:
            raise Undecryptable(_TOO_SHORT)
        return self._derived(data[:INFO_BYTES]).decrypt(data[INFO_BYTES:], context)

    def _derived(self, info: bytes) -> AesGcm:
        # HKDF-Expand (RFC 5869) of as many bytes as the hash has is one step.
        return AesGcm(hmac.digest(self._seed, info + b"\x01", "sha256"))
