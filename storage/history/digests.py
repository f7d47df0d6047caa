"""Digests of what must not be kept, with a secret key: without it, nobody can find short texts by trying."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from pathlib import Path
from typing import Final

from apiserver.storage.keys import encoded
from apiserver.storage.private_directories import make_directory, replace_file

log = logging.getLogger(__name__)

DIGEST_BYTES: Final = 16
_SECRET_BYTES: Final = 32
# How long to wait for a process that has just begun: it makes the key as soon as it has the lock.
_WAITS_MAX: Final = 500
_WAIT_S: Final = 0.01


# No key, and no prefix of one.
_NO_KEY: Final = "check"


class KeyDigests:
    """Makes digests of keys, and of prefixes of keys that end with a slash. secret: of the digests.

    check: is kept with digests, and shows that they were made with the same secret.
    """

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.check = self(_NO_KEY)

    def __call__(self, key: str) -> bytes:
        return hashlib.blake2b(encoded(key), digest_size=DIGEST_BYTES, key=self.secret).digest()


def key_digests(directory: Path | None, *, waits: bool = False) -> KeyDigests:
    """Returns the digests of the history in a directory, which has their key since the first time.

    directory: None for a key that lasts as long as the process. waits: for another process, to make the key.
    Raises OSError.
    """
    if directory is None:
        return KeyDigests(os.urandom(_SECRET_BYTES))
    path = directory / "digest.key"
    secret = b""
    for _ in range(_WAITS_MAX if waits else 1):
        with contextlib.suppress(FileNotFoundError):
            if len(secret := path.read_bytes()) == _SECRET_BYTES:
                return KeyDigests(secret)
        if waits:
            time.sleep(_WAIT_S)
    if waits:
        raise OSError(f"{path} is missing")
    if secret:
        log.error("%s is damaged, and is made again", path)
    make_directory(directory)
    replace_file(path, secret := os.urandom(_SECRET_BYTES))
    return KeyDigests(secret)
