"""Remembers what was purged, outside of the segments, so that it is not recorded again.

If the newest segment turns out to be damaged, its changes are read from the store again, which may still have
those that were purged.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.storage.history.changes import Change
from apiserver.storage.history.digests import DIGEST_BYTES, KeyDigests
from apiserver.storage.history.purges import PurgedKey
from apiserver.storage.private_directories import replace_file

log = logging.getLogger(__name__)

_NAME: Final = "floors"
# With `KeyDigests.check` after it.
_HEAD: Final = b"floors 2\n"
# Without it.
_OLD_HEAD: Final = b"floors 1\n"
# Of each key: its digest, that of the scope of the purge, and the floor. A checksum follows all of them.
_ENTRY: Final = struct.Struct(f">{DIGEST_BYTES}s{DIGEST_BYTES}sQ")
_CHECKSUM_BYTES: Final = 4


class _Floor(NamedTuple):
    """Changes up to a revision were purged. scope: the digest of the scope of the purge."""

    revision: int
    scope: bytes


class Floors:
    """The floors of the keys that were purged. highest: the largest of them; 0 if there are none."""

    def __init__(self, directory: Path | None, digest: KeyDigests) -> None:
        """directory: None to remember them as long as the process lasts. Raises OSError."""
        self._path = None if directory is None else directory / _NAME
        self._digest = digest
        self._floors: dict[bytes, _Floor] = {}
        if self._path is not None and self._path.exists():
            self._floors = _decoded(self._path, digest)
        self.highest = max((each.revision for each in self._floors.values()), default=0)

    def add(self, keys: Iterable[str], scope: str, revision: int, *, oldest: int) -> None:
        """Remember that keys are purged up to a revision. Raises OSError.

        scope: see `UndoLog.purge`. oldest: changes up to this revision are not recorded again, whatever
        happens.
        """
        found = {key: floor for key, floor in self._floors.items() if floor.revision > oldest}
        scope_digest = self._digest(scope)
        for key in keys:
            found[self._digest(key)] = _Floor(revision, scope_digest)
        if found != self._floors:
            self._write(found)

    def clear(self) -> None:
        """Forget all, as the store is another one. Raises OSError."""
        if self._floors:
            self._write({})

    def split(self, changes: Iterable[Change]) -> tuple[list[Change], Sequence[PurgedKey]]:
        """Returns the changes that may be recorded, and what is to be marked instead of the others."""
        kept: list[Change] = []
        purged: dict[str, PurgedKey] = {}
        for change in changes:
            floor = self._floors.get(self._digest(change.key))
            if floor is None or change.revision > floor.revision:
                kept.append(change)
            else:
                purged[change.key] = PurgedKey(change.key, change.revision, floor.scope)
        return kept, [*purged.values()]

    def _write(self, floors: dict[bytes, _Floor]) -> None:
        if self._path is not None:
            entries = b"".join(_ENTRY.pack(key, *floor[::-1]) for key, floor in floors.items())
            checksum = zlib.crc32(entries).to_bytes(_CHECKSUM_BYTES)
            replace_file(self._path, _HEAD + self._digest.check + entries + checksum)
        self._floors = floors
        self.highest = max((each.revision for each in floors.values()), default=0)


def _decoded(path: Path, digest: KeyDigests) -> dict[bytes, _Floor]:
    """Returns the floors in a file; none if it is damaged, or has digests with another key."""
    content = path.read_bytes()
    heads = (_HEAD + digest.check, _OLD_HEAD)
    head = next((each for each in heads if content.startswith(each)), None)
    entries, checksum = content[len(head or _HEAD) : -_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    is_valid = head is not None and zlib.crc32(entries).to_bytes(_CHECKSUM_BYTES) == checksum
    if not is_valid or len(entries) % _ENTRY.size:
        what = "is damaged" if head or not content.startswith(_HEAD) else "is of another digest.key"
        log.error("%s %s: what was purged may be recorded again, if the store still has it", path, what)
        return {}
    return {key: _Floor(revision, scope) for key, scope, revision in _ENTRY.iter_unpack(entries)}
