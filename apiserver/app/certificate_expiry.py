"""Notes when certificates expire that other parts of the server read by themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.serving_tls import UnusableTls, expires_at
from apiserver.app.serving.watched_files import WatchedFiles, read_file
from apiserver.cli.config import Config

log = logging.getLogger(__name__)

# The client of etcd reads its files for each connection, and the other parts read theirs at the start.
_OPTIONS: Final = ("etcd_cafile", "etcd_certfile", "oidc_ca_file", "cluster_signing_cert_file")


class NotedCertificates(NamedTuple):
    """The certificates in these files. expirations: when they expire, in seconds since 1970, by flag."""

    watched: Sequence[WatchedFiles]
    expirations: Mapping[str, float]


def note_certificates(config: Config) -> NotedCertificates:
    """Read the files, and watch them. Raises CannotStart."""
    paths: dict[str, Path] = {
        f"--{option.replace('_', '-')}": path
        for option in _OPTIONS
        if (path := config.option(option)) is not None
    }
    expirations: dict[str, float] = {}
    return NotedCertificates([_watched(flag, path, expirations) for flag, path in paths.items()], expirations)


def _watched(flag: str, path: Path, expirations: dict[str, float]) -> WatchedFiles:
    """Note when the certificates in a file expire, and return what notes it again. Raises CannotStart."""

    async def apply(contents: Sequence[bytes]) -> None:
        expirations[flag] = await asyncio.to_thread(expires_at, flag, contents[0])

    try:
        content = read_file(path)
    except OSError as error:
        raise CannotStart(str(error)) from None
    try:
        expirations[flag] = expires_at(flag, content)
    except UnusableTls as error:  # What uses the file says whether that matters.
        log.warning("it is not known when a certificate expires: %s", error)
    return WatchedFiles(f"expiry of {flag}", [path], [content], apply)
