"""Snapshots of an etcd cluster, in the form that etcd's own tools make and read.

Only saving is done here. A restore makes a new cluster of new members, each on its own machine, and is done
with etcd's tools: `restore_command` returns the command. The file holds the keys of all prefixes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from apiserver.storage.etcd.client import EtcdClient
from apiserver.storage.snapshot_file import (
    SnapshotError,
    SnapshotFile,
    atomic_replacement,
    first_bytes,
    verify_checksum,
)

# etcd's database is a bbolt file: behind the 16 bytes that head its first page comes this number, in the
# byte order of the machine. Source: bbolt, internal/common/meta.go.
_MAGIC_AT: Final = 16
_MAGIC: Final = 0xED0CDAED


def is_snapshot(path: Path) -> bool:
    """Whether the file looks like a snapshot of etcd. Raises SnapshotError if it cannot be read."""
    magic = first_bytes(path, _MAGIC_AT + 4)[_MAGIC_AT:]
    return magic in (_MAGIC.to_bytes(4, "little"), _MAGIC.to_bytes(4, "big"))


async def save(client: EtcdClient, path: Path) -> SnapshotFile:
    """Write the database of one member to the file `path`, replacing an existing file.

    It contains every write that was answered before. Raises SnapshotError, StorageUnavailable.
    """
    with atomic_replacement(path) as part:
        with _writing(part) as file:
            async with aclosing(client.snapshot()) as blobs:
                async for blob in blobs:
                    file.write(blob)
        saved = verify_checksum(part, description="the data from etcd")
        if not is_snapshot(part):
            raise SnapshotError("the data from etcd is not a snapshot")
        return saved


def status(path: Path) -> SnapshotFile:
    """Compare a snapshot with its checksum. Raises SnapshotError."""
    return verify_checksum(path)


class Member(NamedTuple):
    """A member of an etcd cluster. peer_url: where the other members reach it."""

    name: str
    peer_url: str


def restore_command(
    path: Path,
    data_dir: str,
    *,
    bump_revision: int,
    member: Member | None = None,
    cluster: Sequence[Member] = (),
    token: str = "",
) -> str:
    """Returns the command that makes a member's directory from a snapshot, with revisions that keep rising.

    member, cluster, token: which member of which new cluster; without them, the only one.
    """
    words = ["etcdutl", "snapshot", "restore", str(path)]
    if member is not None:
        words += [
            *("--name", member.name),
            *("--initial-cluster", ",".join(f"{each.name}={each.peer_url}" for each in cluster)),
            *("--initial-cluster-token", token),
            *("--initial-advertise-peer-urls", member.peer_url),
        ]
    if bump_revision:
        # etcdutl refuses each of the two flags without the other.
        words += ["--bump-revision", str(bump_revision), "--mark-compacted"]
    return shlex.join([*words, "--data-dir", data_dir])


def _writing(part: Path) -> BinaryIO:
    return part.open("wb")
