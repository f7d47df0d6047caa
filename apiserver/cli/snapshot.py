"""`apiserver snapshot save|restore|status`: backs up and restores the store."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apiserver.cli.argument_parser import UsageError, add_output_option, path
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.cli.flag_sections.serving import ServingOptions
from apiserver.cli.flag_values import ETCD_TRANSPORTS, bump_revision
from apiserver.cli.intermixed_parser import IntermixedParser
from apiserver.cli.printing import print_json, print_lines
from apiserver.storage.embedded import snapshot as embedded
from apiserver.storage.snapshot_file import SnapshotError, SnapshotFile

if TYPE_CHECKING:
    from apiserver.storage.etcd.snapshot import Member

_SAVE: Final = """
Writes a consistent snapshot of the whole store to FILE. You do not need to stop the server. FILE contains
every write that the server acknowledged before the command started. Because FILE contains all Secrets, only
its owner can read it. FILE appears only after the snapshot is complete, verified and synced to disk. To
replace an existing file, set --force.

As with the server, --data-dir selects the embedded store, and --etcd-servers selects etcd. An etcd snapshot
has the format that etcdctl and etcdutl use. Regardless of --etcd-prefix, an etcd snapshot contains the whole
etcd cluster, including the private keys that server replicas share.
"""
_RESTORE: Final = """
Creates the embedded store in --data-dir from FILE. Before you run the command, stop the server, and move the
`store` directory out of --data-dir. The command does not change certificates or other files in --data-dir.

The new store's first resourceVersion is higher than any that the server may have used since FILE was written.
The command compacts the history before this resourceVersion. If a client's watch or paginated list uses a
resourceVersion from before the restore, the client gets a 410 Expired error and must list again. In the new
store, leases restart with their full duration.

To restore an etcd snapshot, run etcdutl on each etcd member. If you set --initial-cluster, `apiserver
snapshot restore` prints the etcdutl commands to run.
"""
_STATUS: Final = """
Verifies the checksum of FILE, and prints a summary of the snapshot.
"""
_STORE_FLAGS: Final = (
    "config",
    "data_dir",
    "etcd_servers",
    "etcd_cafile",
    "etcd_certfile",
    "etcd_keyfile",
    "etcd_transport",
)


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
        raise SnapshotError(f"{given.file} already exists; use --force to replace it")
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
        _print_restore_commands(given)
        return
    if given.initial_cluster or given.initial_cluster_token:
        raise UsageError(
            f"snapshot restore: {given.file} is not an etcd snapshot, so --initial-cluster cannot be set"
        )
    directory = _config(given).serving.data_dir / "store"
    revision = embedded.restore(given.file, directory, bump_revision=bump)
    print_lines(f"restored {directory}: revision {revision}, from {given.file}")


def _print_restore_commands(given: argparse.Namespace) -> None:
    """Print the command for each member of a new etcd cluster. Raises SnapshotError."""
    from apiserver.storage.etcd.snapshot import restore_command, status

    data_dir, bump = given.data_dir or "ETCD-DATA-DIR", given.bump_revision
    sha256 = status(given.file).sha256
    if not given.initial_cluster:
        command = restore_command(given.file, data_dir, bump_revision=bump)
        raise SnapshotError(
            f"{given.file} is an etcd snapshot; restore it with: {command} (etcd 3.5.10, 3.6 or later); "
            "for several members, --initial-cluster NAME=PEER-URL,... prints the command for each member"
        )
    token = given.initial_cluster_token or f"restored-{sha256[:8]}"
    for member in given.initial_cluster:
        command = restore_command(
            given.file,
            data_dir,
            bump_revision=bump,
            member=member,
            cluster=given.initial_cluster,
            token=token,
        )
        print_lines(f"# On {member.name}:\n{command}")


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
    # It takes time to import.
    if embedded.is_snapshot(path):
        return False
    from apiserver.storage.etcd import snapshot

    if not snapshot.is_snapshot(path):
        raise SnapshotError(f"{path} is not a snapshot of the embedded store or of etcd")
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
        description="Backs up and restores the store. The server can be running while you save a snapshot.",
    )
    commands = parser.add_subparsers(metavar="save|restore|status", required=True)
    data_dir = f"The directory of the embedded store. (default {ServingOptions().data_dir})"

    save = _command(commands, "save", "Write a snapshot of the store to FILE.", _SAVE, _save)
    save.add_argument("--data-dir", metavar="DIR", help=data_dir)
    save.add_argument(
        "--etcd-servers", metavar="URLS", help="A comma-separated list of etcd servers (scheme://ip:port)."
    )
    save.add_argument(
        "--etcd-cafile",
        metavar="FILE",
        help="The file that contains the CA certificates used to verify the etcd servers.",
    )
    save.add_argument(
        "--etcd-certfile",
        metavar="FILE",
        help="The file that contains the client certificate for connections to etcd.",
    )
    save.add_argument(
        "--etcd-keyfile",
        metavar="FILE",
        help="The file that contains the private key for the certificate in --etcd-certfile.",
    )
    save.add_argument(
        "--etcd-transport",
        choices=ETCD_TRANSPORTS,
        help="The client library for connections to etcd, as for the server.",
    )
    save.add_argument("--config", metavar="FILE", help="The YAML file that contains the server's flags.")
    save.add_argument("--force", action="store_true", help="Replace FILE if it exists.")

    restore = _command(commands, "restore", "Create the embedded store from FILE.", _RESTORE, _restore)
    restore.add_argument("--data-dir", metavar="DIR", help=data_dir)
    restore.add_argument(
        "--bump-revision",
        type=bump_revision,
        default=embedded.BUMP_REVISION,
        metavar="N",
        help="The number to add to resourceVersions. The number must exceed the number of writes since the "
        "snapshot was saved. 0 keeps the resourceVersions and the history. Use 0 only for a copy that "
        "clients of the original server will never use. (default %(default)s)",
    )

    restore.add_argument(
        "--initial-cluster",
        type=_members,
        default=(),
        metavar="MEMBERS",
        help="A comma-separated list of the members of a new etcd cluster, each in the form NAME=PEER-URL. "
        "The command prints the etcdutl command to run on each member.",
    )
    restore.add_argument(
        "--initial-cluster-token",
        default="",
        metavar="TOKEN",
        help="The token of the new etcd cluster. (default derived from the snapshot)",
    )

    status = _command(
        commands, "status", "Verify FILE, and print a summary of the snapshot.", _STATUS, _status
    )
    add_output_option(status, "text", "json")
    return parser


def _command(
    commands: argparse._SubParsersAction[IntermixedParser],
    name: str,
    summary: str,
    text: str,
    command: Callable[[argparse.Namespace], None],
) -> IntermixedParser:
    parser = commands.add_parser(name, help=summary, description=text)
    parser.add_argument("file", type=path, metavar="FILE", help="The snapshot file.")
    parser.set_defaults(command=command)
    return parser


def _members(text: str) -> tuple[Member, ...]:
    from apiserver.storage.etcd.snapshot import Member

    members = []
    for item in text.split(","):
        name, _, peer_url = item.partition("=")
        if not name or not re.fullmatch(r"https?://[^\s/,=]+:[0-9]+", peer_url):
            raise argparse.ArgumentTypeError(f"{item!r} is not of the form NAME=http://HOST:PORT")
        members.append(Member(name, peer_url))
    if len({each.name for each in members}) < len(members):
        raise argparse.ArgumentTypeError(f"{text!r} names a member twice")
    return tuple(members)
