"""A server for tests over HTTPS, in a thread of its own."""

from __future__ import annotations

import base64
from pathlib import Path

from aiohttp import web

from tests.support.server_thread import ServerThread, end


class HttpsServer(ServerThread):
    """Answers requests by `handle`, on a free port of 127.0.0.1."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "*.default.svc")
        self.port = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raise NotImplementedError

    @property
    def ca_bundle(self) -> str:
        """What trusts it, as a `clientConfig` has it."""
        return base64.b64encode(self.pki.ca_cert.read_bytes()).decode()

    @property
    def serving_certificate(self) -> bytes:
        """The certificate that it presents, in PEM, without that of its authority."""
        return self.pki.serving_cert.read_bytes()

    async def open(self) -> None:
        self._runner = web.ServerRunner(web.Server(self.handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls_context()).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        await end(self._runner)
