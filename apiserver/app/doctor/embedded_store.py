"""Checks the embedded store: its files, the disk that they are on, and their integrity."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.app.doctor import clocks, configured_files
from apiserver.app.doctor.clocks import StoreTime
from apiserver.app.doctor.report import Finding, error, note, ok, warning
from apiserver.app.doctor.units import size
from apiserver.storage.embedded.inspection import StoreFiles, inspect, quick_check
from apiserver.storage.errors import StorageError

# Where locks and fsync may not work as SQLite needs them, and where files do not survive.
_REMOTE: Final = frozenset({"9p", "afs", "ceph", "cifs", "fuse.sshfs", "nfs", "nfs4", "smb3", "smbfs"})
_TEMPORARY: Final = frozenset({"ramfs", "tmpfs"})
_CONTAINER: Final = frozenset({"aufs", "overlay"})
# Compaction, the log and a vacuum need about as much as the log may grow to, some times over.
FREE_BYTES_MIN: Final = 1024**3
FREE_BYTES_CRITICAL: Final = 128 * 1024**2
# Checkpoints keep the log at 16 MiB, and cut it to 64. A longer one means that no checkpoint finishes.
LOG_BYTES_MAX: Final = 512 * 1024**2
# The check reads the whole file, from a disk that a server may use: 100 MB take 0.1 s in memory, and a second
# on a slow disk.
CHECKED_BYTES_MAX: Final = 100 * 1024**2
INTEGRITY_WITHIN_S: Final = 5.0
# As the kernel escapes spaces, tabs, line breaks and backslashes in the names of mount points.
_OCTAL: Final = re.compile(rb"\\([0-3][0-7]{2})")


class EmbeddedFacts(NamedTuple):
    """An embedded store. files: None if there is none yet. problem: why it cannot be read, if it cannot.

    damage: found by the integrity check; empty if there is none, None if the check was not completed.
    is_writable: whether this process can write to the directory, if there is one: the check of the
        configuration examines the data directory.
    free_bytes, file_system: those of the disk; empty or None if they are not known.
    """

    directory: Path
    files: StoreFiles | None = None
    problem: str = ""
    damage: str | None = ""
    is_writable: bool = True
    free_bytes: int | None = None
    file_system: str = ""


async def gather(directory: Path, checked_bytes_max: int = CHECKED_BYTES_MAX) -> EmbeddedFacts:
    facts = await asyncio.to_thread(_disk, directory)
    try:
        facts = facts._replace(files=await asyncio.to_thread(inspect, directory))
        if facts.files is not None:
            facts = facts._replace(damage=await _damage(facts.files, checked_bytes_max))
    except (OSError, StorageError) as failure:
        facts = facts._replace(problem=str(failure))
    return facts


def _disk(directory: Path) -> EmbeddedFacts:
    existing = configured_files.existing(directory)
    facts = EmbeddedFacts(
        directory,
        is_writable=existing != directory or configured_files.is_writable(directory),
        file_system=file_system_of(existing),
    )
    with suppress(OSError):
        disk = os.statvfs(existing)
        facts = facts._replace(free_bytes=disk.f_bavail * disk.f_frsize)
    return facts


async def _damage(files: StoreFiles, checked_bytes_max: int) -> str | None:
    if files.size_bytes > checked_bytes_max:
        return None
    try:
        async with asyncio.timeout(INTEGRITY_WITHIN_S):
            return await asyncio.to_thread(quick_check, files.path, within_s=INTEGRITY_WITHIN_S)
    except TimeoutError:
        return None


def examine(facts: EmbeddedFacts, now: float) -> Iterator[Finding]:
    yield from _examine_disk(facts)
    if facts.problem:
        yield error(
            facts.problem,
            "Check the permissions and the disk. If the file is damaged, move the directory away and "
            "restore a snapshot with apiserver snapshot restore.",
        )
        return
    if facts.files is None:
        yield ok(f"{facts.directory} does not exist yet; the server creates the store when it starts")
        return
    files = facts.files
    yield ok(f"the size of {files.path} is {size(files.size_bytes)}, at revision {files.revision}")
    yield from clocks.examine((), [StoreTime(f"the last write to {files.path}", files.written_at)], now)
    if files.log_bytes > LOG_BYTES_MAX:
        yield warning(
            f"the size of the write-ahead log of {files.path} is {size(files.log_bytes)}",
            "Find the process that keeps the store open (fuser), such as a backup that hangs, and stop the "
            "process.",
        )
    if facts.damage is None:
        yield note(
            f"the integrity of {files.path} was not checked, because the check would take too long",
            "Run apiserver snapshot save. This command checks the copy that it writes.",
        )
    elif facts.damage:
        yield error(
            f"{files.path} is damaged: {facts.damage}",
            "Stop the server, move the directory away and restore a snapshot with apiserver snapshot "
            "restore.",
        )
    else:
        yield ok(f"the integrity check of {files.path} found no damage")


def _examine_disk(facts: EmbeddedFacts) -> Iterator[Finding]:
    where = facts.directory
    if not facts.is_writable:
        yield error(
            f"this user cannot write to {where}",
            "Change the owner of the data directory, or run this command as the user of the server.",
        )
    if facts.file_system in _REMOTE:
        yield warning(
            f"{where} is on a network file system ({facts.file_system})",
            "Move --data-dir to a local disk, or use etcd. Locks and fsync are not reliable on a network "
            "file system.",
        )
    elif facts.file_system in _TEMPORARY:
        yield warning(
            f"{where} is in memory ({facts.file_system}); all objects are lost when the machine restarts",
            "Move --data-dir to a disk.",
        )
    elif facts.file_system in _CONTAINER:
        yield note(
            f"{where} is in the layer of a container ({facts.file_system}); all objects are lost with the "
            "container",
            "Mount a volume at --data-dir.",
        )
    if facts.free_bytes is not None:
        message = f"the disk of {where} has {size(facts.free_bytes)} of free space"
        if facts.free_bytes < FREE_BYTES_MIN:
            make = error if facts.free_bytes < FREE_BYTES_CRITICAL else warning
            yield make(message, "Free up space on the disk. The server rejects writes when the disk is full.")
        else:
            yield ok(message)


def file_system_of(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Returns the type of the file system that a path is on; empty where the system does not report it."""
    best, found = -1, ""
    try:
        lines = mounts.read_bytes().splitlines()
        resolved = path.resolve()
    except OSError:
        return ""
    for line in lines:
        fields = line.split()
        point = Path(os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), fields[4])))
        # Later mounts hide earlier ones at the same point.
        if (point == resolved or point in resolved.parents) and len(point.parts) >= best:
            best, found = len(point.parts), os.fsdecode(fields[fields.index(b"-") + 1])
    return found
