"""Builds the history of a server, if its flags ask for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.app.background import BackgroundTask
from apiserver.app.history_directory import cannot_use, history_directory
from apiserver.cli.config import Config
from apiserver.registry.history.authors import AuthorNotes
from apiserver.registry.history.follower import Follower, RecorderEndpoint, require_short
from apiserver.registry.history.forms import RecordedForms, RecordedValues
from apiserver.registry.history.past import PastReads
from apiserver.registry.history.policy import HistoryPolicy
from apiserver.registry.history.recorder import Recorder
from apiserver.registry.history.thinning import Thinning
from apiserver.registry.history.writes import HistoryWrites, OwnWrites
from apiserver.registry.store import Registry
from apiserver.registry.stored_version_decoder import StoredKinds, StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites as KnownWrites
from apiserver.storage.errors import DataDirectoryError
from apiserver.storage.history.changes import PLAIN, Cipher
from apiserver.storage.history.segment_list import DIRECTORY_LOCK, RECORDER_LOCK
from apiserver.storage.history.undo_log import Limits, UndoLog
from apiserver.storage.interface import Storage

# Of a server that keeps everything in memory.
MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024


class History(NamedTuple):
    """The history of a server.

    recorder: None if another process records the history. access: what reads wait for: the recorder, or what
    follows it. writes: changes it.
    directory: of the history, if other processes read it; else None.
    note: returns the note about the author of a write.
    """

    log: UndoLog
    recorder: Recorder | None
    access: Recorder | Follower
    writes: HistoryWrites
    directory: Path | None
    forms: RecordedForms
    decode: StoredVersionDecoder
    note: Callable[[], bytes]

    def reads(self, registry: Registry, clock: Callable[[], float]) -> PastReads:
        """Returns what reads the history. clock: seconds since 1970."""
        return PastReads(registry, self.log, self.access, self.forms, self.decode, clock)

    def tasks(self, registry: Registry, clock: Callable[[], float]) -> Iterator[BackgroundTask]:
        """Yields what records changes, and drops old versions. clock: seconds since 1970."""
        yield BackgroundTask("history", self.access.run)
        if self.recorder is None:
            return
        past = self.reads(registry, clock)
        if self.directory is not None:
            endpoint = RecorderEndpoint(past, self.writes, self.directory)
            yield BackgroundTask("history-endpoint", endpoint.run)
        if self.forms.policy.thins_any:
            thinning = Thinning(past, self.log, self.recorder, self.forms, clock)
            yield BackgroundTask("history-thinning", thinning.run)


def open_history(
    config: Config, store: Storage, kinds: StoredKinds, cipher: Cipher | None, clock: Callable[[], float]
) -> History:
    """Opens the history. cipher: None if it is not encrypted. clock: seconds since 1970.

    Raises CannotStart.
    """
    storage, prefix = config.storage, config.storage.etcd_prefix
    directory, bytes_max = history_directory(config), storage.history_bytes_max
    if directory is None:
        bytes_max = min(bytes_max, MEMORY_BYTES_MAX)
    # Not those of the cache, as `decode` is used in another thread.
    decode, caught_up = (
        StoredVersionDecoder(known, kinds, prefix=prefix) for known in (RecordedValues(), KnownWrites())
    )
    limits = Limits(bytes_max, storage.history_retention_s)
    policy = HistoryPolicy(storage.history_rules, prefix)
    has_others = config.serving.workers > 1
    try:
        if has_others and directory is not None:
            require_short(directory.absolute())
        # The directory of workers is reserved for all of them.
        lock_name = RECORDER_LOCK if has_others else DIRECTORY_LOCK
        try:
            log = UndoLog(directory, limits, cipher or PLAIN, lock_name=lock_name)
        except DataDirectoryError:
            if not has_others:
                raise
            # Another worker has its lock.
            log = UndoLog(directory, limits, cipher or PLAIN, follows=True)
        forms = RecordedForms(prefix, log.digest.secret, policy)
    except (OSError, DataDirectoryError) as error:
        raise cannot_use(directory, error) from None
    note = AuthorNotes(clock).note
    if log.follows:
        assert directory is not None
        follower = Follower(log, directory)
        return History(log, None, follower, follower, directory, forms, decode, note)
    recorder = Recorder(log, store, caught_up, forms, prefix=prefix, clock=clock)
    writes = OwnWrites(log, recorder, prefix)
    return History(log, recorder, recorder, writes, directory if has_others else None, forms, decode, note)
