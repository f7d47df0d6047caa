"""Chooses, of several transformers, the one that writes a value and the one that reads it, by a prefix of the
stored value.

    k8s:enc:aesgcm:v1:key1:...
    └── provider ────┘└key┘

The first of a chain writes; the first that can read it reads. Providers are a chain, and so are the keys of
each. Source: k8s.io/apiserver, pkg/storage/value/transformer.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final, NamedTuple, Protocol

from apiserver.storage.encryption.ciphers import Cipher, Undecryptable
from apiserver.storage.interface import ENCRYPTED_PREFIX, READ_ENCRYPTED


class DecryptedValue(NamedTuple):
    """A decrypted value. is_stale: whether it would now be stored in another form."""

    value: bytes
    is_stale: bool


class KeyNeeded(Exception):
    """A value can be decrypted after its key has been fetched.

    provider: the one that has the key. fetch: gets the key, and does not raise.
    """

    def __init__(self, provider: str, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the key has not been fetched yet")
        self.provider, self.fetch = provider, fetch


class CannotEncrypt(Exception):
    """A value cannot be encrypted now. code: as for `Undecryptable`."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class Transformer(Protocol):
    """Encrypts values for the store, and decrypts them. context: as for `Cipher`."""

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        """Returns the bytes to store for a value. Raises CannotEncrypt."""
        ...

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        """Returns the value of stored bytes. Raises Undecryptable, KeyNeeded."""
        ...


class TransformationObserver(Protocol):
    """Counts transformations.

    direction: to_storage or from_storage. prefix: that of the transformer. began: the time by perf_counter.
        code: `OK`, or the name of the failure.
    """

    def __call__(self, direction: str, prefix: str, began: float, code: str) -> None: ...


TO_STORAGE: Final = "to_storage"
FROM_STORAGE: Final = "from_storage"
OK: Final = "OK"


class CipherTransformer:
    """Encrypts and decrypts values with a cipher; they are never stale."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        return self._cipher.encrypt(value, context)

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        return DecryptedValue(self._cipher.decrypt(data, context), False)


class IdentityTransformer:
    """Stores values unencrypted."""

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        return value

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        if data.startswith(ENCRYPTED_PREFIX):
            raise Undecryptable(READ_ENCRYPTED)
        return DecryptedValue(data, False)


class PrefixedTransformer(NamedTuple):
    """A transformer, with the prefix of the values it stores; empty if they have none."""

    prefix: bytes
    transformer: Transformer


class TransformerChain:
    """Encrypts with the first of several transformers, and decrypts with the one that has the value's prefix.

    unmatched: the error for a value that none of them can have written.
    """

    def __init__(
        self, members: Sequence[PrefixedTransformer], unmatched: str, observe: TransformationObserver
    ) -> None:
        self._members = [(each.prefix, each.transformer, each.prefix.decode()) for each in members]
        self._unmatched = unmatched
        self._observe = observe

    @property
    def encrypts(self) -> bool:
        """Whether the transformer encrypts values, rather than storing them unchanged."""
        return not isinstance(self._members[0][1], IdentityTransformer)

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        prefix, transformer, name = self._members[0]
        began = perf_counter()
        try:
            data = transformer.encrypt(value, context)
        except CannotEncrypt as error:
            self._observe(TO_STORAGE, name, began, error.code)
            raise
        self._observe(TO_STORAGE, name, began, OK)
        return prefix + data

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        began = perf_counter()
        errors: list[Undecryptable] = []
        for index, (prefix, transformer, name) in enumerate(self._members):
            if not data.startswith(prefix):
                continue
            try:
                value, is_stale = transformer.decrypt(data[len(prefix) :], context)
            except Undecryptable as error:
                # A transformer that stores values unencrypted does not read encrypted ones; a later one may.
                if prefix:
                    self._observe(FROM_STORAGE, name, began, error.code)
                    errors.append(error)
                continue
            self._observe(FROM_STORAGE, name or "identity", began, OK)
            return DecryptedValue(value, is_stale or index > 0)
        if errors:
            raise _all_of(errors)
        unmatched = Undecryptable(self._unmatched)
        self._observe(FROM_STORAGE, "unknown", began, unmatched.code)
        raise unmatched


def _all_of(errors: Sequence[Undecryptable]) -> Undecryptable:
    """Returns one error for several, which contains each text once."""
    if len(errors) == 1:
        return errors[0]
    texts = list(dict.fromkeys(map(str, errors)))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Undecryptable(
        message, code=errors[0].code, is_temporary=any(error.is_temporary for error in errors)
    )
