"""A kubelet that runs nothing: logs, shells and ports that a test can tell apart. It serves from a thread.

It speaks SPDY, and WebSocket with the protocol v4, as kubelets of 1.34 do.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.testkit.simulation.kubelet_server.spdy import SpdySession, SpdyStream
from tests.support.server_thread import ServerThread

# How long a connection that is closed waits for the other side.
SHUTDOWN_S: Final = 1.0
_WEBSOCKET: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SUCCESS: Final = json.dumps({"metadata": {}, "status": "Success"}).encode()
_EXITED: Final = json.dumps(
    {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
    }
).encode()
_V4: Final = "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR = range(4)


@dataclass(frozen=True)
class Asked:
    """A request that the kubelet has had.

    certificate: its client's common name, if it has shown one. serial: the number of that certificate.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    certificate: str
    serial: str = ""


class FakeKubelet(ServerThread):
    """answers: what other answers than 200 it gives, by path: status and body.

    breaks_off: it hangs up as soon as a connection has been upgraded.
    """

    def __init__(self, directory: Path, client_ca: Path | None = None) -> None:
        """client_ca: who has signed the certificates of its clients; its own authority if it is None."""
        super().__init__(directory)
        self._client_ca = client_ca or self.pki.ca_cert
        self.asked: list[Asked] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.breaks_off = False
        self.more_log: asyncio.Event | None = None
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    def go_on(self) -> None:
        """Let a log that is followed have its second line."""
        assert self.more_log is not None
        self.call(self.more_log.set)

    async def open(self) -> None:
        self.more_log = asyncio.Event()
        context = self.tls_context(self._client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", 0, ssl=context, ssl_shutdown_timeout=SHUTDOWN_S
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            if not writer.is_closing():  # Python 3.11.2 cannot abort what it has closed.
                writer.transport.abort()
        # Those that were closed wait for the other side to say so, too.
        ending = (writer.wait_closed() for writer in self._writers)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * SHUTDOWN_S):
                await asyncio.gather(*ending, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.rstrip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            shown = writer.get_extra_info("peercert") or {}
            names = [value for rdn in shown.get("subject", ()) for key, value in rdn if key == "commonName"]
            asked = Asked(method, target, headers, "".join(names), shown.get("serialNumber", ""))
            self.asked.append(asked)
            path = target.partition("?")[0]
            if path in self.answers:
                await self._answer(writer, *self.answers[path])
            elif headers.get("upgrade", "").startswith("SPDY"):
                await self._spdy(reader, writer, target, headers)
            elif "upgrade" in headers:
                await self._websocket(reader, writer, headers)
            else:
                await self._log(writer, target)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The other side has hung up.
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        location = "Location: /elsewhere\r\n" if 300 <= status < 400 else ""
        writer.write(f"HTTP/1.1 {status} S\r\n{location}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async def _log(self, writer: asyncio.StreamWriter, target: str) -> None:
        assert self.more_log is not None
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nline1\n\r\n")
        await writer.drain()
        if "follow=true" in target:
            await self.more_log.wait()
            self.more_log.clear()
        writer.write(b"6\r\nline2\n\r\n0\r\n\r\n")
        await writer.drain()

    # ---- SPDY

    async def _spdy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target: str,
        headers: Mapping[str, str],
    ) -> None:
        is_forward = target.startswith("/portForward/")
        protocol = "portforward.k8s.io" if is_forward else _V4
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {protocol}\r\n\r\n".encode()
        )
        if self.breaks_off:
            return

        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        session = SpdySession(reader, write)
        serving = asyncio.create_task(self._forward(session) if is_forward else self._run(session, target))
        await session.run()
        serving.cancel()

    async def _run(self, session: SpdySession, target: str) -> None:
        """Run a command that says so, and then echoes its input if it has any."""
        expected = {"error"}
        for parameter, name in {"input": "stdin", "output": "stdout", "error": "stderr"}.items():
            expected |= {name} if f"{parameter}=1" in target else set()
        streams: dict[str, SpdyStream] = {}
        while expected - streams.keys():
            stream = await session.opened.get()
            streams[stream.headers["streamtype"]] = stream
        await streams["stdout"].write(b"ran\n")
        if "stdin" in streams:
            while data := await streams["stdin"].read():
                await streams["stdout"].write(data)
        await streams["error"].write(_EXITED if "command=fail" in target else _SUCCESS)
        for stream in streams.values():
            await stream.close()

    async def _forward(self, session: SpdySession) -> None:
        """Answer each connection with its port, and what it sends."""
        while True:
            stream = await session.opened.get()
            if stream.headers["streamtype"] == "error":
                await stream.close()
                continue
            port = stream.headers["port"].encode()
            data = await stream.read()
            await stream.write(b"%b:%b" % (port, data))
            await stream.close()

    # ---- WebSocket

    async def _websocket(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: Mapping[str, str]
    ) -> None:
        offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",")]
        if _V4 not in offered:
            await self._answer(writer, 403, b"")
            return
        digest = hashlib.sha1(f"{headers['sec-websocket-key']}{_WEBSOCKET}".encode()).digest()
        accept = base64.b64encode(digest).decode()
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {_V4}\r\n\r\n".encode()
        )
        for channel, data in ((_STDOUT, b"ran\n"), (_ERROR, _SUCCESS)):
            writer.write(bytes((0x82, len(data) + 1, channel)) + data)
        writer.write(b"\x88\x02\x03\xe8")
        await writer.drain()
        await reader.read(1)
