"""Encrypts what the history keeps of values, as the values themselves are encrypted."""

from __future__ import annotations

from apiserver.storage.encryption.chains import DecryptedValue
from apiserver.storage.encryption.ciphers import Undecryptable
from apiserver.storage.encryption.encryption import Encryption
from apiserver.storage.history.deltas import InvalidDelta
from apiserver.storage.interface import ENCRYPTED_PREFIX
from apiserver.storage.keys import encoded


class HistoryCipher:
    """A `Cipher` of the history with the providers of a server's encryption at rest.

    All methods raise KeyNeeded, too, and `encrypt` and `renewed` raise CannotEncrypt.
    """

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    def encrypt(self, key: str, data: bytes) -> bytes:
        chain = self._encryption.chain_of(key)
        return data if chain is None or not chain.encrypts else chain.encrypt(data, _context(key))

    def decrypt(self, key: str, data: bytes) -> bytes:
        if not data.startswith(ENCRYPTED_PREFIX):
            return data
        return self._decrypted(key, data).value

    def renewed(self, key: str, data: bytes) -> bytes | None:
        if data.startswith(ENCRYPTED_PREFIX):
            value, is_stale = self._decrypted(key, data)
            return self.encrypt(key, value) if is_stale else None
        found = self.encrypt(key, data)
        return None if found is data else found

    def _decrypted(self, key: str, data: bytes) -> DecryptedValue:
        chain = self._encryption.chain_of(key)
        if chain is None:
            raise InvalidDelta("the encryption of the resource is not configured any more")
        try:
            return chain.decrypt(data, _context(key))
        except Undecryptable as error:
            if error.is_temporary:
                raise OSError(str(error)) from None
            raise InvalidDelta(str(error)) from None


def _context(key: str) -> bytes:
    """Returns the additional data of a value: nobody can pass it off as an object."""
    return b"history:" + encoded(key)
