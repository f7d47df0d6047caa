"""`apiserver snapshot save|restore|status`: backs up and restores the store."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.cli.flag_sections.serving import ServingOptions
from apiserver.cli.intermixed_parser import IntermixedParser
from apiserver.cli.printing import print_json, print_lines
from apiserver.storage.embedded import snapshot as embedded
from apiserver.storage.snapshot_file import SnapshotError, SnapshotFile

_SAVE: Final = """
Writes a consistent snapshot of the whole store to FILE. The server may be running; every write that was
acknowledged before the command began is in FILE. FILE contains every Secret, and only its owner can read
it. It appears when it is complete, verified and synced to disk. An existing file is kept, unless --force is
given.

The flags are the server's: --data-dir names the embedded store, and --etcd-servers names etcd. A snapshot
of etcd contains the whole etcd cluster, whatever the prefix, and the keys that servers share, in the format
of etcdctl and etcdutl.
"""
_RESTORE: Final = """
Creates the embedded store in --data-dir from FILE. There must be no store there: stop the server and move
the directory `store` away first. Certificates and the rest of the data directory stay as they are.

resourceVersions keep rising: the new store begins after all that the server may have handed out since FILE
was written, and older ones are compacted. So clients that use one (a watch, a paginated list) get 410
Expired and list again. Leases start anew.

etcdutl restores a snapshot of etcd; this command prints how.
"""
_STATUS: Final = """
Verifies the checksum of FILE, and shows what it contains.
"""
# With 15 digits thousands of restores fit in etcd's 63 bits.
_BUMP_DIGITS: Final = 15
_STORE_FLAGS: Final = ("config", "data_dir", "etcd_servers", "etcd_cafile", "etcd_certfile", "etcd_keyfile")


def run(arguments: Sequence[str]) -> None:
    """Run the subcommand that the arguments after `snapshot` name, and print the result.

    Raises UsageError, StorageError; exits for --help.
    """
    given = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = given.command
    command(given)


def _save(given: argparse.Namespace) -> None:
    config = _config(given)
    if not given.force and os.path.lexists(given.file):
        raise SnapshotError(f"{given.file} exists; --force replaces it")
    if config.storage.etcd_servers:
        file = asyncio.run(_save_etcd(config, given.file))
        content = "etcd snapshot"
    else:
        found = embedded.save(config.serving.data_dir / "store", given.file)
        file = found.file
        content = f"revision {found.revision}, {found.keys} keys"
    print_lines(f"saved {given.file}: {content}, {file.size_bytes} bytes, sha256 {file.sha256}")


async def _save_etcd(config: Config, path: Path) -> SnapshotFile:
    from apiserver.storage.etcd import EtcdClient, Tls, snapshot

    options = config.storage
    tls = Tls(options.etcd_cafile, options.etcd_certfile, options.etcd_keyfile)
    try:
        client = EtcdClient(options.etcd_servers, tls, transport=options.etcd_transport)
    except (OSError, ValueError) as error:
        raise SnapshotError(str(error)) from None
    try:
        return await snapshot.save(client, path)
    finally:
        await client.close()


def _restore(given: argparse.Namespace) -> None:
    bump = given.bump_revision
    if _is_etcd(given.file):
        from apiserver.storage.etcd.snapshot import restore_command

        etcd_dir = given.data_dir or "ETCD-DATA-DIR"
        command = restore_command(given.file, etcd_dir, bump_revision=bump)
        raise SnapshotError(
            f"{given.file} is an etcd snapshot; restore it on each member with: {command} "
            "(of etcd 3.5.10, 3.6 or later), then start the servers with --etcd-servers"
        )
    directory = _config(given).serving.data_dir / "store"
    revision = embedded.restore(given.file, directory, bump_revision=bump)
    print_lines(f"restored {directory}: revision {revision}, from {given.file}")


def _status(given: argparse.Namespace) -> None:
    fields: dict[str, Any]
    if _is_etcd(given.file):
        from apiserver.storage.etcd import snapshot

        file = snapshot.status(given.file)
        fields = {"format": "etcd", "totalSize": file.size_bytes, "sha256": file.sha256}
    else:
        found = embedded.status(given.file)
        fields = {
            "format": "embedded",
            "revision": found.revision,
            "compactedRevision": found.compacted,
            "totalKey": found.keys,
            "totalSize": found.file.size_bytes,
            "sha256": found.file.sha256,
        }
    if given.output == "json":
        print_json(fields, is_indented=False)
        return
    for name, value in fields.items():
        print_lines(f"{_TITLES[name]:<11}{value}")
    if fields["format"] == "etcd":
        print_lines(f"Revision and keys: etcdutl snapshot status {given.file}")


# The keys of the JSON, which etcdutl has, too, and what stands for them in the text.
_TITLES: Final = {
    "format": "Format",
    "revision": "Revision",
    "compactedRevision": "Compacted",
    "totalKey": "Keys",
    "totalSize": "Bytes",
    "sha256": "SHA-256",
}


def _is_etcd(path: Path) -> bool:
    """Whether a file is a snapshot of etcd, rather than of the embedded store.

    Raises SnapshotError if it is neither.
    """
    # The package of the etcd store imports gRPC, which takes a tenth of a second.
    if embedded.is_snapshot(path):
        return False
    from apiserver.storage.etcd import snapshot

    if not snapshot.is_snapshot(path):
        raise SnapshotError(f"{path} is not a snapshot, neither of the embedded store nor of etcd")
    return True


def _config(given: argparse.Namespace) -> Config:
    """Returns the configuration, as the server itself reads these flags and its file. Raises UsageError."""
    values = {name: getattr(given, name, None) for name in _STORE_FLAGS}
    return parse(
        [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]
    )


# ---- the command line


def parser() -> IntermixedParser:
    parser = IntermixedParser(
        prog="apiserver snapshot",
        description="Backs up and restores the store. The server may be running while a snapshot is saved.",
    )
    commands = parser.add_subparsers(metavar="save|restore|status", required=True)
    data_dir = f"The directory of the embedded store. (default {ServingOptions().data_dir})"

    save = _command(commands, "save", "Write a snapshot of the store to FILE.", _SAVE, _save)
    save.add_argument("--data-dir", metavar="DIR", help=data_dir)
    save.add_argument(
        "--etcd-servers", metavar="URLS", help="List of etcd servers (scheme://ip:port), comma separated."
    )
    save.add_argument(
        "--etcd-cafile",
        metavar="FILE",
        help="SSL Certificate Authority file used to secure etcd communication.",
    )
    save.add_argument(
        "--etcd-certfile", metavar="FILE", help="SSL certification file used to secure etcd communication."
    )
    save.add_argument(
        "--etcd-keyfile", metavar="FILE", help="SSL key file used to secure etcd communication."
    )
    save.add_argument("--config", metavar="FILE", help="The YAML file of the server's flags.")
    save.add_argument("--force", action="store_true", help="Replace FILE if it exists.")

    restore = _command(commands, "restore", "Create the embedded store from FILE.", _RESTORE, _restore)
    restore.add_argument("--data-dir", metavar="DIR", help=data_dir)
    restore.add_argument(
        "--bump-revision",
        type=_bump,
        default=embedded.BUMP_REVISION,
        metavar="N",
        help="How far to move resourceVersions ahead; must exceed the number of writes since the snapshot. "
        "0 keeps them and the history: only for a copy that no client of the original will use. "
        "(default %(default)s)",
    )

    status = _command(commands, "status", "Verify FILE, and show what it contains.", _STATUS, _status)
    status.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="The output format. (default text)"
    )
    return parser


def _command(
    commands: argparse._SubParsersAction[IntermixedParser],
    name: str,
    summary: str,
    text: str,
    command: Callable[[argparse.Namespace], None],
) -> IntermixedParser:
    parser = commands.add_parser(name, help=summary, description=text)
    parser.add_argument("file", type=Path, metavar="FILE", help="The file of the snapshot.")
    parser.set_defaults(command=command)
    return parser


def _bump(text: str) -> int:
    if not re.fullmatch(rf"[0-9]{{1,{_BUMP_DIGITS}}}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a non-negative integer of at most {_BUMP_DIGITS} digits"
        )
    return int(text)
