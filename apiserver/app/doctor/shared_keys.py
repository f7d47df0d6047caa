"""Checks that the replicas on one etcd have the same keys: of service accounts, CAs and encryption."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.app.doctor.configured_files import generated
from apiserver.app.doctor.etcd_probe import store_of
from apiserver.app.doctor.report import Finding, error, note, ok, warning
from apiserver.app.doctor.running_server import ANSWER_WITHIN_S, COMMAND
from apiserver.app.doctor.units import count
from apiserver.app.encryption import EncryptionAtRest
from apiserver.app.serving.cluster_identity import UnusableStoredIdentity, identity_key, read_identity
from apiserver.app.serving.pki import ClusterIdentity
from apiserver.auth.authn.service_account_keys import UnusableKey, key_id, read_private_key, read_public_keys
from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.config import Config
from apiserver.cli.server_options import ServerOptions
from apiserver.controllers.authentication_info import FRONT_PROXY_CAS, NAME, NAMESPACE
from apiserver.controllers.replicas import Replica, decode_record, disagreement, records_folder
from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificates
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease
from apiserver.metrics.encryption import EncryptionMetrics
from apiserver.storage.errors import StorageError
from apiserver.storage.interface import ENCRYPTED_PREFIX, Storage
from apiserver.storage.keys import prefix_range

_SAME_ENCRYPTION: Final = "Start all replicas with the same --encryption-provider-config and the same keys."


class SharedKeys(NamedTuple):
    """What the replicas on an etcd share, and what this configuration has.

    exists: whether there is an identity in the store. problem: why it cannot be read; empty if it can be.
    is_encrypted: how it is stored. encrypts: whether this configuration would encrypt it.
    differing: the files of the data directory that belong to another cluster.
    own: the signing key and all keys of service accounts of this configuration, by ID; empty if unknown.
    issuers, release: those of this configuration. replicas: the servers that run.
    front_proxy_is_published: whether the CA for front proxies of this configuration is in the ConfigMap that
        extension API servers read; None if that is not known.
    """

    exists: bool = False
    problem: str = ""
    is_encrypted: bool = False
    encrypts: bool = False
    differing: Sequence[Path] = ()
    own: Sequence[str] = ()
    issuers: Sequence[str] = ()
    replicas: Sequence[Replica] = ()
    front_proxy_is_published: bool | None = None
    release: EmulatedRelease = DEFAULT_RELEASE


async def gather(config: Config, options: ServerOptions | None) -> SharedKeys:
    """Reads the shared identity, and the records of the replicas. Raises OSError, ValueError, StorageError.

    options: name the running server; None if it is not to be asked.
    """
    prefix = config.storage.etcd_prefix
    async with store_of(config) as store:
        page = await store.list(prefix_range(records_folder(prefix)))
        stored = (await store.get(identity_key(prefix))).stored
        facts = SharedKeys(
            exists=stored is not None,
            is_encrypted=stored is not None and stored.value.startswith(ENCRYPTED_PREFIX),
            encrypts=config.storage.encryption is not None,
            issuers=config.authentication.service_account_issuer,
            replicas=[
                found for each in page.items if (found := decode_record(each.key, each.value)) is not None
            ],
        )
        identity = None
        try:
            identity = await _identity(config, store)
        except (UnusableStoredIdentity, StorageError) as failure:
            facts = facts._replace(problem=str(failure))
    return facts._replace(
        own=await asyncio.to_thread(own_keys, config, identity),
        release=config.release,
        differing=() if identity is None else await asyncio.to_thread(_differing, config, identity),
        front_proxy_is_published=None
        if options is None
        else await asyncio.to_thread(_is_published, config, identity, options),
    )


async def _identity(config: Config, store: Storage) -> ClusterIdentity | None:
    """Returns the identity, decrypted by the providers of this configuration.

    Raises UnusableStoredIdentity, StorageError.
    """
    encryption = await EncryptionAtRest.start(config, EncryptionMetrics(platform.node()))
    if encryption is None:
        return await read_identity(store, config.storage.etcd_prefix)
    try:
        return await read_identity(encryption.in_front_of(store), config.storage.etcd_prefix)
    finally:
        await encryption.close()


def own_keys(config: Config, identity: ClusterIdentity | None) -> Sequence[str]:
    """Returns the IDs of the signing key and of all keys; none if a server would generate them.

    There are none, either, if the files cannot be used: the check of the configuration reports that.
    """
    options = config.authentication
    try:
        if (path := options.service_account_signing_key_file) is not None:
            signing = read_private_key(read_bounded(path))
        elif identity is not None:
            signing = read_private_key(identity.service_account_key)
        else:
            return ()
        keys = [signing.public_key()]
        for each in options.service_account_key_file:
            keys += read_public_keys(read_bounded(each))
    except (OSError, UnusableKey):
        return ()
    return [*dict.fromkeys(map(key_id, keys))]


def _differing(config: Config, identity: ClusterIdentity) -> Sequence[Path]:
    """Returns the files of the data directory that a server with this identity replaces at its start."""
    paths = generated(config)
    wanted = {
        paths.ca_cert: identity.ca_cert,
        paths.front_proxy_ca_cert: identity.front_proxy_ca_cert,
        paths.service_account_key: identity.service_account_key,
    }
    return [path for path, content in wanted.items() if path.exists() and read_bounded(path) != content]


def _is_published(config: Config, identity: ClusterIdentity | None, options: ServerOptions) -> bool | None:
    """Returns whether the CA of front proxies is published; None if that cannot be read."""
    path = config.authentication.requestheader_client_ca_file
    try:
        own = read_bounded(path) if path is not None else identity.front_proxy_ca_cert if identity else b""
        with closing(ApiClient(options, COMMAND, ANSWER_WITHIN_S)) as client:
            data = client.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}").get("data") or {}
        published = parse_pem_certificates(str(data.get(FRONT_PROXY_CAS) or "").encode())
        return all(each in published for each in parse_pem_certificates(own))
    except (OSError, RequestFailed, *UNREADABLE):
        return None


def examine(facts: SharedKeys) -> Iterator[Finding]:
    if facts.problem:
        yield error(facts.problem, _SAME_ENCRYPTION)
    elif not facts.exists:
        yield ok("etcd has no shared keys yet; the first server that starts writes these keys")
    elif facts.encrypts and not facts.is_encrypted:
        yield note(
            "the keys that replicas share are not encrypted in etcd",
            "Do nothing. A server with this --encryption-provider-config encrypts the keys within a minute.",
        )
    reasons = {reason for each in facts.replicas if (reason := _disagreement(facts, each))}
    for reason in sorted(reasons):
        yield error(
            reason[0].upper() + reason[1:], "On this replica, correct the flags that the message names."
        )
    if facts.differing:
        files = ", ".join(path.name for path in facts.differing)
        yield note(
            f"{files} in {facts.differing[0].parent} belong to a different cluster than the keys in etcd",
            "Check --etcd-servers and --data-dir. At its start, the server keeps the files as *.replaced.",
        )
    if facts.front_proxy_is_published is False:
        yield warning(
            f"the CA of front proxies is not in the ConfigMap {NAMESPACE}/{NAME} of the running server",
            "Set the same --requestheader-client-ca-file on all replicas, or on none.",
        )
    if facts.exists and not facts.problem and not reasons:
        names = f": {', '.join(sorted(map(str, facts.replicas)))}" if facts.replicas else ""
        running = count(len(facts.replicas), "running replica")
        yield ok(f"{running} and this configuration share keys{names}")


def _disagreement(facts: SharedKeys, other: Replica) -> str:
    """Returns why a server of this configuration cannot run beside another one; empty if it can.

    Serving certificates are not compared: those of this configuration may not exist yet.
    """
    if not facts.own:
        return ""
    own = replace(
        other,
        issuer=facts.issuers[0],
        issuers=tuple(facts.issuers),
        signing_key=facts.own[0],
        keys=tuple(facts.own),
        release=facts.release,
    )
    return disagreement(own, other)
