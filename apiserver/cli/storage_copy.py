"""`apiserver storage copy`: copies a store to another one that no server uses."""

from __future__ import annotations

import argparse
import asyncio
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from apiserver.cli.argument_parser import UsageError, add_output_option, path
from apiserver.cli.flag_values import ETCD_TRANSPORTS, bump_revision, prefix, urls
from apiserver.cli.printing import print_json, print_lines, print_warning
from apiserver.golang.urls import redacted_urls
from apiserver.storage import prefix_owner
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.snapshot import BUMP_REVISION
from apiserver.storage.embedded.source import EmbeddedSource
from apiserver.storage.errors import RevisionOutOfReach
from apiserver.storage.interface import Put
from apiserver.storage.keys import prefix_range
from apiserver.storage.store_copy import (
    CopyError,
    CopyPlan,
    CopyProgress,
    CopyResult,
    CopySource,
    CopyTarget,
    Translate,
    copy_store,
)

if TYPE_CHECKING:
    from apiserver.storage.etcd import EtcdStore

COPY: Final = "copy"
SUMMARY: Final = "Copy one store to another, for example from the embedded store to etcd."
_DESCRIPTION: Final = """
Copies all keys from one store to another, for example from the embedded store to etcd. Before you run the
command, stop all servers that use either store. The command cannot detect a running kube-apiserver that has
--endpoint-reconciler-type=none. --from and --to accept a data directory (--data-dir) or etcd server URLs.
--from also accepts a snapshot of the embedded store.

resourceVersions never decrease: each copied object gets a higher resourceVersion than any that the source has
used. If the source is a snapshot, --bump-revision adds a number to resourceVersions, because servers may have
written to the store after the snapshot was saved. If a client's watch or paginated list uses a
resourceVersion from before the copy, the client gets a 410 Expired error and must list again. In the copy,
leases keep their remaining time. To raise etcd's revision, the command makes one small write for each
revision. The command compacts the history of the entire etcd cluster.

If the source contains objects that a kube-apiserver stored, the command converts the built-in objects to this
server's format. The command does not change custom resources.

After the copy, the command compares both stores. If the command is interrupted, run the same command again
without --force. The second run continues the copy, or starts over if the source has changed. Until the copy
is complete, this server refuses to start with the store in --to. However, a kube-apiserver does not detect an
unfinished copy, and starts with the incomplete store.
"""
PROGRESS_S: Final = 2.0
_SIDES: Final = ("from", "to")
_PROBE_TTL_S: Final = 60
# The values of --objects-of.
_KUBE: Final = "kube-apiserver"
_OWN: Final = "apiserver"


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the description and the flags of the command."""
    parser.description = _DESCRIPTION
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="STORE",
        help="The store to copy from: a data directory, a snapshot, or a comma-separated list of etcd "
        "servers (scheme://ip:port).",
    )
    parser.add_argument(
        "--to",
        dest="target",
        required=True,
        metavar="STORE",
        help="The store to copy to: a data directory, or a comma-separated list of etcd servers.",
    )
    for side in _SIDES:
        parser.add_argument(
            f"--{side}-prefix",
            type=prefix,
            default="/registry",
            metavar="PREFIX",
            help=f"The --etcd-prefix of the servers that use the store in --{side}. (default /registry)",
        )
        for name, text in (
            ("cafile", "The file that contains the CA certificates used to verify the etcd servers"),
            ("certfile", "The file that contains the client certificate for connections to the etcd servers"),
            (
                "keyfile",
                "The file that contains the private key for connections to the etcd servers",
            ),
        ):
            parser.add_argument(
                f"--{side}-etcd-{name}", type=path, metavar="FILE", help=f"{text} in --{side}."
            )
    parser.add_argument(
        "--etcd-transport",
        choices=ETCD_TRANSPORTS,
        default=ETCD_TRANSPORTS[0],
        help="The client library for connections to etcd, as for the server. (default %(default)s)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="Before copying, delete all keys below --to-prefix in the --to store, including those of an "
        "unfinished copy.",
    )
    parser.add_argument(
        "--allow-running-source",
        action="store_true",
        help="Allow a server to use the etcd store in --from during the copy. The copy does not contain "
        "changes that the server makes after the copying of keys starts. The running server's clients must "
        "not use the copied store.",
    )
    parser.add_argument(
        "--bump-revision",
        type=bump_revision,
        metavar="N",
        help="The number to add to resourceVersions. The number must exceed the number of writes since the "
        f"snapshot in --from was saved. (default {BUMP_REVISION} for a snapshot, 0 for other stores)",
    )
    parser.add_argument(
        "--objects-of",
        choices=(_KUBE, _OWN),
        help="The server whose built-in objects the command copies. The flag is required if both a "
        "kube-apiserver and this server (with --adopt) stored objects below --from-prefix. The command "
        "always copies custom resources.",
    )
    add_output_option(parser, "text", "json")


def run(given: argparse.Namespace) -> None:
    """Copy, and print the result. Raises UsageError, StorageError."""
    source, target = _Side.of(given, "from", given.source), _Side.of(given, "to", given.target)
    progress = _ProgressLines()
    try:
        result, is_import = asyncio.run(_run(given, source, target, progress))
    except KeyboardInterrupt:
        if progress.has_marker:
            print_warning(
                "the copy is not complete: run the same command again, without --force, to continue it"
            )
        raise
    if given.output == "json":
        fields = {
            "from": source.name,
            "to": target.name,
            "sourceRevision": result.source_revision,
            "revision": result.revision,
            "keys": result.keys,
            "leasedKeys": result.leased_keys,
            "expiredKeys": result.expired,
            "sha256": result.sha256,
            "continued": result.is_continued,
            "imported": is_import,
            "skipped": result.skipped,
        }
        print_json(fields, is_indented=False)
        return
    print_lines(
        f"copied {source.name} to {target.name}: {result.keys} keys, revision {result.source_revision} to "
        f"{result.revision}, verified, sha256 {result.sha256}"
    )


class _Side(NamedTuple):
    """A store that the command line names.

    urls: of etcd; empty for the embedded store. tls: the paths of the CA, the certificate and the key.
    transport: see --etcd-transport.
    name: for users, and for a copy that continues.
    """

    path: Path
    urls: Sequence[str]
    prefix: str
    tls: Sequence[Path | None]
    transport: str
    name: str

    @classmethod
    def of(cls, given: argparse.Namespace, side: str, text: str) -> Self:
        """Returns what the flags of a side name. Raises UsageError."""
        values = vars(given)
        tls = [values[f"{side}_etcd_{name}"] for name in ("cafile", "certfile", "keyfile")]
        keys_prefix, transport = values[f"{side}_prefix"], given.etcd_transport
        if "://" not in text:
            if any(tls):
                raise UsageError(f"storage copy: --{side} {text} is not etcd, so it cannot have certificates")
            return cls(Path(text), (), keys_prefix, tls, transport, str(Path(text).absolute()))
        try:
            found = urls(text)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise UsageError(f"storage copy: --{side}: {error}") from None
        return cls(Path(), found, keys_prefix, tls, transport, redacted_urls(",".join(sorted(found))))

    def open_etcd(self) -> EtcdStore:
        """Returns the store of etcd. Raises CopyError."""
        # It takes time to import.
        from apiserver.storage.etcd import EtcdClient, EtcdStore, Tls

        try:
            client = EtcdClient(self.urls, Tls(*self.tls), transport=self.transport)
            return EtcdStore(client, prefix=self.prefix)
        except (OSError, ValueError) as error:
            raise CopyError(str(error)) from None


async def _run(
    given: argparse.Namespace, source: _Side, target: _Side, progress: _ProgressLines
) -> tuple[CopyResult, bool]:
    """Copy. Returns the result, and whether the source is a kube-apiserver's."""
    async with AsyncExitStack() as stack:
        opened = await _open_source(source, stack)
        goal = await _open_target(target, stack)
        if source.urls and target.urls:
            await _require_apart(source, target, opened, goal)
        translate = await _translate(given, opened, source, target)
        plan = CopyPlan(
            f"{source.name} {source.prefix}",
            source.prefix,
            target.prefix,
            translate,
            replaces=given.force,
            allows_running_source=given.allow_running_source,
            bump_revision=_bump(given.bump_revision, source),
        )
        try:
            result = await copy_store(opened, goal, plan, progress)
        except RevisionOutOfReach as error:
            if not _is_snapshot(source):
                raise
            raise CopyError(
                f"{error}; or set --bump-revision to more than the number of writes since the snapshot"
            ) from None
        for kind, count in sorted(result.skipped.items()):
            print_warning(f"not copied, because this server does not have this kind: {kind} ({count})")
        if given.allow_running_source:
            print_warning(
                "clients of the running source must not use the copy: the copy may not detect newer "
                "resourceVersions"
            )
        if result.is_continued:
            print_warning("continued an interrupted copy")
        if not target.urls and source.urls and not (target.path / "pki" / "ca.crt").exists():
            print_warning(
                f"{target.path} has no certificates: the server will create a new CA and service account key"
            )
        return result, translate is not None and given.objects_of != _OWN


def _is_snapshot(side: _Side) -> bool:
    return not side.urls and side.path.is_file()


def _bump(given: int | None, source: _Side) -> int:
    """Returns how many revisions clients may have seen above the source's."""
    if given is None:
        return BUMP_REVISION if _is_snapshot(source) else 0
    return given


async def _open_source(side: _Side, stack: AsyncExitStack) -> CopySource:
    store: EtcdStore | EmbeddedSource
    if side.urls:
        store = side.open_etcd()
    elif _is_snapshot(side):
        store = await asyncio.to_thread(EmbeddedSource.of_snapshot, side.path)
    else:
        store = EmbeddedSource.of_directory(side.path / "store")
    stack.push_async_callback(store.close)
    return store


async def _open_target(side: _Side, stack: AsyncExitStack) -> CopyTarget:
    store: EtcdStore | EmbeddedStore = (
        side.open_etcd() if side.urls else await EmbeddedStore.open(side.path / "store")
    )
    stack.push_async_callback(store.close)
    return store


async def _require_apart(source: _Side, target: _Side, opened: CopySource, goal: CopyTarget) -> None:
    """Check that neither prefix contains the other one in the same etcd. Raises CopyError, StorageError.

    Different etcds have the same cluster ID if their peers have the same URLs. So this writes a key to the
    target, and looks for it in the source.
    """
    one, other = f"{source.prefix}/", f"{target.prefix}/"
    if not (one.startswith(other) or other.startswith(one)):
        return
    key = f"{prefix_owner.marker_key(max(source.prefix, target.prefix, key=len))}/{secrets.token_hex(8)}"
    lease = await goal.grant_lease(_PROBE_TTL_S)
    try:
        await goal.transact((), [Put(key, b"", lease)])
        is_same = bool((await opened.list(prefix_range(key), limit=1)).items)
    finally:
        await goal.revoke_lease(lease)
    if is_same:
        raise CopyError(
            f"--from and --to are the same etcd, and the prefixes {source.prefix} and {target.prefix} overlap"
        )


async def _translate(
    given: argparse.Namespace, opened: CopySource, source: _Side, target: _Side
) -> Translate | None:
    """Returns what converts the objects of a kube-apiserver, or leaves them out; None if there are none.

    Raises CopyError, StorageError.
    """
    kube_key = await prefix_owner.kube_apiserver_key(opened, source.prefix)
    if kube_key is None:
        return None
    own_key = await prefix_owner.own_key(opened, source.prefix)
    if own_key is not None and given.objects_of is None:
        raise CopyError(
            f"{source.name} has keys both of a kube-apiserver ({kube_key}) and of this server "
            f"({own_key}): choose the built-in objects to copy with --objects-of"
        )
    # It takes time to import.
    from apiserver.catalogue.kube_apiserver_objects import KubeApiserverObjects, own_objects

    if given.objects_of == _OWN:
        return own_objects(source.prefix, target.prefix)
    print_warning(f"{source.name}{source.prefix} belongs to a kube-apiserver: converting the objects")
    return KubeApiserverObjects(source.prefix, target.prefix)


class _ProgressLines:
    """Prints progress on stderr, a line every PROGRESS_S.

    has_marker: whether the target has the copy marker, so that the copy can be continued.
    """

    def __init__(self) -> None:
        self.has_marker = False
        self._printed_at = monotonic()
        self._phase = ""

    def __call__(self, progress: CopyProgress) -> None:
        now = monotonic()
        self.has_marker |= progress.phase != "raising"
        if progress.phase == self._phase and now < self._printed_at + PROGRESS_S:
            return
        self._phase, self._printed_at = progress.phase, now
        of_total = f" of {progress.total}" if progress.total else ""
        unit = "the revision" if progress.phase == "raising" else "keys"
        print_warning(f"{progress.phase} {unit}: {progress.done}{of_total}")
