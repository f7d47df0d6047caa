"""Reads the files that credentials name repeatedly, since tokens and certificates are renewed in place.

Source: k8s.io/client-go, transport/token_source.go and cert_rotation.go.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.webhooks.credentials import ClientCredentials, PemText
from apiserver.webhooks.errors import CallFailed

log = logging.getLogger(__name__)

# How old what is known of a file may be. Kubernetes takes a minute, and five for certificates.
REREAD_S: Final = 10.0
_FILE_BYTES_MAX: Final = 1024 * 1024


class CallCredentials(NamedTuple):
    """The credentials of one call. certificate: with its private key, both in PEM; None for none."""

    headers: Sequence[tuple[str, str]] = ()
    certificate: tuple[bytes, bytes] | None = None


class CredentialFiles:
    """Reads the credentials of calls from files, as many as the configuration names."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds since some time."""
        self._clock = clock
        # What each file had in it, and when it was read.
        self._known: dict[Path, tuple[float, bytes]] = {}

    async def proof(self, credentials: ClientCredentials) -> CallCredentials:
        """Returns the headers and the certificate of a call.

        Raises CallFailed if a file was never readable.
        """
        headers = list(credentials.headers)
        if token := await self._token(credentials):
            headers.append(("Authorization", f"Bearer {token}"))
        elif credentials.basic is not None:
            pair = ":".join(credentials.basic).encode()
            headers.append(("Authorization", f"Basic {base64.b64encode(pair).decode()}"))
        certificate = None
        if credentials.certificate is not None:
            certificate_pem, key = credentials.certificate
            certificate = (await self.pem(certificate_pem), await self.pem(key))
        return CallCredentials(headers, certificate)

    async def pem(self, source: PemText) -> bytes:
        """Returns a PEM text, which is never empty, as an empty one would mean the system's CAs.

        Raises CallFailed.
        """
        if source.path is None:
            return source.text
        content = await self._content(source.path)
        if not content:
            raise CallFailed(f"{source.path} is empty")
        return content

    async def _token(self, credentials: ClientCredentials) -> str:
        """Returns a token."""
        if credentials.token_file is None:
            return credentials.token
        try:
            content = await self._content(credentials.token_file)
        except CallFailed:
            if credentials.token:
                return credentials.token
            raise
        token = content.decode("utf-8", "replace").strip()
        if not token or not token.isprintable():
            raise CallFailed(f"{credentials.token_file} contains no token")
        return token

    async def _content(self, path: Path) -> bytes:
        """Returns the content of a file."""
        now, known = self._clock(), self._known.get(path)
        if known is not None and now - known[0] < REREAD_S:
            return known[1]
        try:
            content = await asyncio.to_thread(_read, path)
        except OSError as error:
            if known is None:
                raise CallFailed(f"cannot read {path}: {error.strerror or error}") from None
            log.warning("cannot read %s again: %s", path, error.strerror or error)
            content = known[1]
        self._known[path] = now, content
        return content


def _read(path: Path) -> bytes:
    """Returns the content of a file."""
    with path.open("rb") as file:
        content = file.read(_FILE_BYTES_MAX + 1)
    if len(content) > _FILE_BYTES_MAX:
        raise OSError(f"the file is longer than {_FILE_BYTES_MAX} bytes")
    return content
