"""Tracks when the certificates expire in files that no other part of the server watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.serving_tls import UnusableTls, expires_at
from apiserver.app.serving.watched_files import WatchedFiles, read_file
from apiserver.cli import flag_values
from apiserver.cli.config import Config

log = logging.getLogger(__name__)

_REFUSED: Final = "%s: cannot use the changed files; connections to etcd that begin from now on may fail: %s"
# The client of etcd reads these for each connection, unless it is gRPC's.
_OF_ETCD: Final = ("etcd_cafile", "etcd_certfile")
# What is in these at the start stays in use.
_OTHERS: Final = ("oidc_ca_file", "cluster_signing_cert_file")


class CertificateExpiry(NamedTuple):
    """When certificates in use expire. expirations: in seconds since 1970, by flag."""

    watched: Sequence[WatchedFiles]
    expirations: Mapping[str, float]


def track_expiry(config: Config) -> CertificateExpiry:
    """Read the files, and watch those that are read again. Raises CannotStart."""
    watched: list[WatchedFiles] = []
    expirations: dict[str, float] = {}

    def note(flag: str, content: bytes) -> None:
        try:
            expirations[flag] = expires_at(flag, content)
        except UnusableTls as error:  # What uses the file says whether that matters.
            log.warning("it is not known when a certificate expires: %s", error)

    async def apply(flag: str, contents: Sequence[bytes]) -> None:
        expirations[flag] = await asyncio.to_thread(expires_at, flag, contents[0])

    for option in (*_OF_ETCD, *_OTHERS):
        path: Path | None = config.option(option)
        if path is None:
            continue
        flag = f"--{option.replace('_', '-')}"
        try:
            content = read_file(path)
        except OSError as error:
            raise CannotStart(str(error)) from None
        note(flag, content)
        if option in _OF_ETCD and config.storage.etcd_transport == flag_values.ETCD_TRANSPORTS[0]:
            watched.append(WatchedFiles(flag, [path], [content], partial(apply, flag), message=_REFUSED))
    return CertificateExpiry(watched, expirations)
