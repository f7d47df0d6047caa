"""`apiserver snapshot save|restore|status`: backups of either store."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from apiserver.cli.command_line import Config, UsageError, parse
from storage.embedded import snapshot as embedded
from storage.snapshot_file import SnapshotError, SnapshotFile

_SAVE: Final = """
Writes the whole store to FILE, beside a running server or without one, as it is at one moment: every write
that was answered before is in it. FILE holds every Secret; only its owner may read it. It appears when it is
whole, checked and on the disk; what had its name before is replaced then.

The store is found by the server's own flags: the embedded one in --data-dir, or etcd if --etcd-servers is
given, through its Snapshot call. The latter holds all of the cluster, whatever the prefix, and is what
etcdctl and etcdutl make and take.
"""
_RESTORE: Final = """
Makes the embedded store of --data-dir from FILE. There must be none: stop the server and move the directory
`store` away first. Certificates and the rest of the data directory stay as they are.

resourceVersions go on rising over a restore: the new store's are ahead of all that may have been given out
since FILE was made, and all older ones are gone, so that clients that held one (a watch, a continued list)
are told 410 Expired and list again. Leases begin their time again.

An etcd snapshot is not restored here; the command that does it is told.
"""
_STATUS: Final = """
Reads all of FILE, compares it with its checksum, and shows what is in it.
"""
# 15 digits: thousands of restores fit in etcd's 63 bits.
_BUMP_DIGITS: Final = 15
_STORE_FLAGS: Final = ("config", "data_dir", "etcd_servers", "etcd_cafile", "etcd_certfile", "etcd_keyfile")


def run(arguments: Sequence[str]) -> None:
    """Do what the arguments behind `snapshot` ask for, and print what came of it.

    Raises UsageError, StorageError; exits for --help.
    """
    given = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = given.command
    command(given)


def _save(given: argparse.Namespace) -> None:
    config = _config(given)
    if config.etcd_servers:
        sealed = asyncio.run(_save_etcd(config, given.file))
        held = "etcd snapshot"
    else:
        found = embedded.save(config.data_dir / "store", given.file)
        sealed = found.file
        held = f"revision {found.revision}, {found.keys} keys"
    print(f"saved {given.file}: {held}, {sealed.size_bytes} bytes, sha256 {sealed.sha256}")


async def _save_etcd(config: Config, path: Path) -> SnapshotFile:
    from storage.etcd import EtcdClient, Tls, snapshot

    pem = [_read_optional(path) for path in (config.etcd_cafile, config.etcd_certfile, config.etcd_keyfile)]
    client = EtcdClient(config.etcd_servers, Tls(*pem))
    try:
        return await snapshot.save(client, path)
    finally:
        await client.close()


def _restore(given: argparse.Namespace) -> None:
    bump = given.bump_revision
    if _is_etcd(given.file):
        from storage.etcd.snapshot import restore_command

        etcd_dir = given.data_dir or "ETCD-DATA-DIR"
        command = restore_command(given.file, etcd_dir, bump_revision=bump)
        raise SnapshotError(
            f"{given.file} is an etcd snapshot; restore it, for each member, with: {command} "
            "(of etcd 3.5.10, 3.6 or later), then start the servers with --etcd-servers"
        )
    directory = _config(given).data_dir / "store"
    revision = embedded.restore(given.file, directory, bump_revision=bump)
    print(f"restored {directory}: revision {revision}, from {given.file}")


def _status(given: argparse.Namespace) -> None:
    shown: dict[str, Any]
    if _is_etcd(given.file):
        from storage.etcd import snapshot

        sealed = snapshot.status(given.file)
        shown = {"format": "etcd", "totalSize": sealed.size_bytes, "sha256": sealed.sha256}
    else:
        found = embedded.status(given.file)
        shown = {
            "format": "embedded",
            "revision": found.revision,
            "compactedRevision": found.compacted,
            "totalKey": found.keys,
            "totalSize": found.file.size_bytes,
            "sha256": found.file.sha256,
        }
    if given.output == "json":
        print(orjson.dumps(shown).decode())
        return
    for name, value in shown.items():
        print(f"{_TITLES[name]:<11}{value}")
    if shown["format"] == "etcd":
        print(f"Revision and keys: etcdutl snapshot status {given.file}")


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
    """Raises SnapshotError for what is neither kind of snapshot."""
    # The package of the etcd store brings gRPC along, which takes a tenth of a second.
    if embedded.is_snapshot(path):
        return False
    from storage.etcd import snapshot

    if not snapshot.is_snapshot(path):
        raise SnapshotError(f"{path} is no snapshot, neither of the embedded store nor of etcd")
    return True


def _config(given: argparse.Namespace) -> Config:
    """The server's own reading of its flags, and of its file. Raises UsageError."""
    values = {name: getattr(given, name, None) for name in _STORE_FLAGS}
    return parse(
        [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]
    )


def _read_optional(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {error.strerror or error}") from error


# ---- the command line


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(f"{self.prog.removeprefix('apiserver ')}: {message}")


def _parser() -> _Parser:
    parser = _Parser(prog="apiserver snapshot", description="Backups of the store.", allow_abbrev=False)
    commands = parser.add_subparsers(metavar="save|restore|status", required=True)
    data_dir = f"where the embedded store is kept (default {Config().data_dir})"

    save = _command(commands, "save", _SAVE, _save)
    save.add_argument("--data-dir", metavar="DIR", help=data_dir)
    save.add_argument("--etcd-servers", metavar="URLS", help="the etcd cluster, as http://HOST:PORT,...")
    save.add_argument("--etcd-cafile", metavar="FILE", help="the CA of its certificates")
    save.add_argument("--etcd-certfile", metavar="FILE", help="our certificate for it")
    save.add_argument("--etcd-keyfile", metavar="FILE", help="and its key")
    save.add_argument("--config", metavar="FILE", help="the server's YAML file, which may hold these flags")

    restore = _command(commands, "restore", _RESTORE, _restore)
    restore.add_argument("--data-dir", metavar="DIR", help=data_dir)
    restore.add_argument(
        "--bump-revision",
        type=_bump,
        default=embedded.BUMP_REVISION,
        metavar="N",
        help="how far resourceVersions go ahead of the snapshot's; more than the writes since it was made "
        "(default %(default)s). 0 keeps them, and the history: only for a copy that no client of the "
        "original will see",
    )

    status = _command(commands, "status", _STATUS, _status)
    status.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default text)")
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    text: str,
    command: Callable[[argparse.Namespace], None],
) -> _Parser:
    parser = commands.add_parser(
        name,
        help=text.strip().partition(".")[0],
        description=text,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=40, width=110
        ),
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.set_defaults(command=command)
    return parser


def _bump(text: str) -> int:
    if not re.fullmatch(rf"[0-9]{{1,{_BUMP_DIGITS}}}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on, of {_BUMP_DIGITS} digits at most")
    return int(text)
