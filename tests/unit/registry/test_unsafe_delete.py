"""What could not be decrypted, and can be by now, is not deleted as corrupt. Row G13."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.errors import Invalid, NotFound, StorageReadError
from apiserver.registry.delete_path import DeleteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.encryption.configuration import (
    EncryptionConfiguration,
    EncryptionKey,
    KeysConfiguration,
    ResourceConfiguration,
)
from apiserver.storage.encryption.encryption import Chains, Encryption, build_chains
from apiserver.storage.encryption.store import EncryptedStorage
from tests.support.in_process import PREFIX, resource, server

SECRETS: Final = resource("secrets", "")
REQUEST: Final = DeleteRequest(SECRETS, "default", "a")
VALUE: Final = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"default"}}'


def chains(*names: str) -> Chains:
    keys = KeysConfiguration(
        "aesgcm", tuple(EncryptionKey(name, name.encode().ljust(32, b"-")) for name in names)
    )
    configuration = EncryptionConfiguration((ResourceConfiguration((("", "secrets"),), (keys,)),), "")
    return build_chains(configuration, {}, lambda *_: None)


async def test_g13_a_key_that_was_found_again(store: EmbeddedStore) -> None:
    """The cache has it as damaged until it has read everything again."""
    encryption = Encryption(PREFIX, chains("lost"))
    encrypted = EncryptedStorage(store, encryption)
    await encrypted.create(f"{PREFIX}/core/secrets/default/a", VALUE)
    encryption.replace(chains("other"))
    async with server(encrypted) as registry:
        encryption.replace(chains("other", "lost"))
        with pytest.raises(StorageReadError):
            await registry.get(SECRETS, "default", "a")
        with pytest.raises(Invalid, match="is exclusively used to delete corrupt"):
            await registry.delete_unreadable(REQUEST)
        encryption.replace(chains("other"))
        await registry.delete_unreadable(REQUEST)
        with pytest.raises(NotFound):
            await registry.get(SECRETS, "default", "a")
    encrypted.stop()
