"""The notes of transactions in etcd, such as who wrote: each is the value of a small key.

The key is written by the transaction itself, as the first of its writes, so etcd delivers both together. A
few keys are used in turn, by all replicas: compaction deletes the notes with the other values of their time.
"""

from __future__ import annotations

import itertools
from typing import Final

from apiserver.storage.interface import Put
from apiserver.storage.keys import INTERNAL_GROUP, encoded

# So many keys are used in turn: one alone would have all the versions that etcd keeps.
SLOTS: Final = 64


class NoteKeys:
    """The keys of notes. folder: what they begin with, in bytes."""

    def __init__(self, prefix: str) -> None:
        """prefix: of all keys."""
        self._folder = f"{prefix}/{INTERNAL_GROUP}/notes/"
        self.folder = encoded(self._folder)
        self._slots = itertools.cycle(range(SLOTS))

    def put(self, note: bytes) -> Put:
        """Returns the write of the next key."""
        return Put(f"{self._folder}{next(self._slots)}", note)
