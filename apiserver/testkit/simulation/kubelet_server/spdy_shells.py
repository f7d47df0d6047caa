"""Sessions of `exec` and `attach` over SPDY: a stream for each of the program's, and one for its end.

Source: k8s.io/cri-streaming, pkg/streaming/remotecommand/httpstream.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.kubelet_server.sessions import status_bytes
from apiserver.testkit.simulation.kubelet_server.spdy import SpdySession, SpdyStream
from apiserver.testkit.simulation.programs import STDERR, STDOUT

PROTOCOLS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
# A client has opened its streams by then.
STREAMS_WITHIN_S: Final = 30.0
_OUTPUTS: Final = {STDOUT: "stdout", STDERR: "stderr"}
_WITH_RESIZE: Final = PROTOCOLS[:2]


class SpdyShell:
    """The streams of an `exec` or `attach` session over SPDY, by type."""

    def __init__(self, session: SpdySession, streams: Mapping[str, SpdyStream], *, has_status: bool) -> None:
        self._session, self._streams = session, streams
        self._has_status = has_status

    @classmethod
    @asynccontextmanager
    async def open(
        cls, session: SpdySession, protocol: str, wanted: Sequence[str], *, tty: bool
    ) -> AsyncIterator[Self]:
        """Waits for the streams that a client opens. wanted: their types. Raises TimeoutError."""
        expected = {*wanted, "error"} | ({"resize"} if tty and protocol in _WITH_RESIZE else set())
        streams: dict[str, SpdyStream] = {}
        async with asyncio.timeout(STREAMS_WITHIN_S):
            while expected - streams.keys():
                stream = await session.opened.get()
                kind = stream.headers.get("streamtype", "")
                if kind in expected and kind not in streams:
                    streams[kind] = stream
                else:
                    await stream.reset()
        resizing = [asyncio.create_task(_drop(each)) for kind, each in streams.items() if kind == "resize"]
        try:
            yield cls(session, streams, has_status=protocol == PROTOCOLS[0])
        finally:
            for task in resizing:
                task.cancel()

    async def read(self) -> bytes:
        stdin = self._streams.get("stdin")
        if stdin is None:
            await asyncio.Event().wait()
        assert stdin is not None
        return await stdin.read()

    async def write(self, stream: int, data: bytes) -> None:
        found = self._streams.get(_OUTPUTS[stream])
        if found is not None:
            await found.write(data)

    async def finish(self, status: Document) -> None:
        told = status_bytes(status, is_json=self._has_status)
        if told:
            await self._streams["error"].write(told)
        for each in self._streams.values():
            await each.close()
        await self._session.go_away()


async def _drop(stream: SpdyStream) -> None:
    """Reads and discards data that is not needed, as the size of a terminal."""
    while await stream.read():
        pass
