"""Requests to a real server in this process: bytes as they are, whole requests, and frames of a WebSocket.

The connections are plain ones, of socket pairs: TLS is not what is fuzzed. An input fails if an answer is
500, or if anything is logged as an error.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import re
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Final

import orjson

from apiserver.app.secure_serving import SecureServing
from apiserver.app.server import App
from apiserver.app.serving.serving_tls import ServingTls
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.console.watches.client_messages import BrokenProtocol, Subscribe, read_message
from apiserver.console.watches.watch_requests import PassedHeaders, watch_request
from apiserver.endpoints.connection import Connection, Server
from apiserver.endpoints.request_info import parse_request
from apiserver.meta.errors import BadRequest, NotAcceptable
from tests.fuzz.target import fuzzer
from tests.support.server_process import TOKENS

# Nothing is sent for so long after the last answer, unless something takes its time.
_QUIET_S: Final = 0.01
# How long the answer to a request may take to begin. A watch, or a body that never ends, has none.
_PATIENCE_S: Final = 0.2
_ANSWER_BYTES_MAX: Final = 1 << 20
_START: Final = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n")


class _PlainServing(SecureServing):
    """Listens nowhere. server: makes the connections."""

    server: Server | None = None

    def listen(self, server: Server, tls: ServingTls) -> None:
        self.server = server


class _PlainApp(App):
    """A server that listens nowhere."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.serving = self._serving = _PlainServing(config, None)


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


class _InProcessServer:
    """A server whose event loop runs only while it is asked something."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, self._directory, ignore_errors=True)
        tokens = self._directory / "tokens.csv"
        tokens.write_text(TOKENS)
        tokens.chmod(0o600)
        self._config = parse(
            [
                *(f"--data-dir={self._directory / 'data'}", "--secure-port=0", f"--token-auth-file={tokens}"),
                *("--controllers=namespace-controller", "--disable-admission-plugins=ServiceAccount"),
                "--feature-gates=CBORServingAndStorage=true",
            ]
        )
        self._errors = _Errors()
        logging.getLogger().addHandler(self._errors)
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(self._start())

    async def _start(self) -> Server:
        ready = asyncio.Event()
        app = _PlainApp(self._config)
        self._running = asyncio.create_task(app.run(lambda url, kubeconfig: ready.set()))
        await ready.wait()
        assert app.serving.server is not None
        return app.serving.server

    def exchange(self, data: bytes) -> bytes:
        """Returns what the server answers. Raises AssertionError if it was not prepared for this."""
        self._errors.texts.clear()
        answer = self._loop.run_until_complete(self._exchange(data))
        assert not self._errors.texts, self._errors.texts[0]
        assert not answer or _START.match(answer), answer[:200]
        return answer

    async def _exchange(self, data: bytes) -> bytes:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours:
            transport, protocol = await self._loop.connect_accepted_socket(self._server, theirs)
            assert isinstance(protocol, Connection)
            sending = asyncio.create_task(self._loop.sock_sendall(ours, data))
            answer = await self._answer(ours, protocol)
            sending.cancel()
            transport.abort()
        await asyncio.wait([sending])
        return answer

    async def _answer(self, ours: socket.socket, protocol: Connection) -> bytes:
        answer = b""
        quiet_s = 0.0
        receiving = asyncio.create_task(self._loop.sock_recv(ours, 65_536))
        while len(answer) < _ANSWER_BYTES_MAX:
            # A task that is cancelled might have received something.
            await asyncio.wait([receiving], timeout=_QUIET_S)
            if not receiving.done():
                quiet_s += _QUIET_S
                if not protocol.is_answering or quiet_s >= _PATIENCE_S:
                    break
                continue
            part = b"" if isinstance(receiving.exception(), ConnectionError) else receiving.result()
            if not part:
                break
            answer += part
            quiet_s = 0.0
            receiving = asyncio.create_task(self._loop.sock_recv(ours, 65_536))
        receiving.cancel()
        await asyncio.wait([receiving])
        return answer


@functools.cache
def _server() -> _InProcessServer:
    return _InProcessServer()


_TOKEN: Final = b"Authorization: Bearer admin-token\r\n"
_CONFIG_MAP: Final = orjson.dumps({"metadata": {"generateName": "a-"}, "data": {"k": "v"}})
_MAPS: Final = b"/api/v1/namespaces/default/configmaps"


@fuzzer(
    b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b'POST %b HTTP/1.1\r\nHost: a\r\n%bTransfer-Encoding: chunked\r\n\r\n5\r\n{"met\r\n0;x=y\r\nA: b\r\n\r\n'
    % (_MAPS, _TOKEN),
    b"POST %b HTTP/1.1\r\nHost: a\r\n%bContent-Length: %d\r\nExpect: 100-continue\r\n\r\n%b"
    % (_MAPS, _TOKEN, len(_CONFIG_MAP), _CONFIG_MAP),
    b"GET / HTTP/1.0\n\n",
    b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdefGET "
    b"/livez HTTP/1.1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    words=b"Content-Length: Transfer-Encoding: chunked Connection: close keep-alive Upgrade: Expect: "
    b"100-continue Host: GET HEAD "
    b"HTTP/1.1 HTTP/1.0 \r\n\r\n Authorization: Accept-Encoding: gzip",
)
def framing(data: bytes) -> None:
    """Bytes on a connection, as they are."""
    answer = _server().exchange(data)
    assert b" 500 " in data or b"HTTP/1.1 500" not in answer, answer


@fuzzer(
    b"POST %b\n\n%b" % (_MAPS, _CONFIG_MAP),
    b"GET %b?labelSelector=a%%3Db&limit=1\nAccept: application/json;as=Table;v=v1;g=meta.k8s.io" % _MAPS,
    b"PATCH %b/a?fieldManager=m&force=1\nContent-Type: "
    b"application/apply-patch+yaml\n\napiVersion: v1\nkind: ConfigMap" % _MAPS,
    b"PATCH /api/v1/namespaces/default\nContent-Type: "
    b'application/json-patch+json\n\n[{"op":"add","path":"/metadata/labels/a","value":"b"}]',
    b"PATCH /api/v1/namespaces/default\nContent-Type: "
    b'application/strategic-merge-patch+json\n\n{"metadata":{"$patch":"merge"}}',
    b"DELETE "
    b'%b/a?propagationPolicy=Orphan\n\n{"kind":"DeleteOptions","apiVersion":"v1","precondit'
    b'ions":{"uid":"u"}}' % _MAPS,
    b"GET /api/v1/namespaces/default?pretty=1\nAccept: application/yaml\nAccept-Encoding: "
    b'gzip\nIf-None-Match: "a"',
    b"GET /openapi/v3/api/v1?hash=x\nAccept: application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    b"GET "
    b"/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true\nImp"
    b"ersonate-User: a",
    b"POST "
    b'/apis/authorization.k8s.io/v1/subjectaccessreviews\n\n{"spec":{"user":"a","resourceAt'
    b'tributes":{"verb":"get"}}}',
    b'POST /apis/authentication.k8s.io/v1/tokenreviews\n\n{"spec":{"token":"a.b.c","audiences":["x"]}}',
    b"PUT /api/v1/namespaces/default/services/a/status\nContent-Type: "
    b"application/yaml\n\nmetadata: {name: a}\nspec: {ports: [{port: 1}]}",
    b"GET /apis\nAccept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    b"DELETE /api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Da&dryRun=All",
    words=b"GET POST PUT PATCH DELETE OPTIONS HEAD /api/v1 /apis/apps/v1 /namespaces/default /pods "
    b"/services /deployments /status "
    b"/scale /log /exec /eviction /binding /token Accept: Content-Type: Origin: "
    b"Impersonate-User: Audit-Id: Range: If-Match: "
    b"application/yaml application/cbor application/vnd.kubernetes.protobuf metadata name spec "
    b"kind apiVersion uid",
)
def requests(data: bytes) -> None:
    """A request of an administrator: method and target, headers, an empty line, the body."""
    head, _, body = data.partition(b"\n\n")
    line, *headers = head.split(b"\n")
    lines = [
        line + b" HTTP/1.1",
        b"Host: a",
        b"Connection: close",
        *headers,
        b"Content-Length: %d" % len(body),
    ]
    framing.run(b"\r\n".join(lines) + b"\r\n" + _TOKEN + b"\r\n" + body)


_HANDSHAKE: Final = (
    b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%b"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" % _TOKEN
)


@fuzzer(
    b"\r\n\x81\x85\0\0\0\0hello\x89\x80\0\0\0\0",
    b"\r\n\x88\x82\1\2\3\4\x02\xea",
    b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n\x8a\xfe\0\x7e\0\0\0\0",
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n\xc1\x87\0\0\0\0\xf2\x48\xcd\xc9\xc9\x07\0",
    words=b"Sec-WebSocket-Protocol: Sec-WebSocket-Extensions: Origin: "
    b"base64url.bearer.authorization.k8s.io.YWJj",
)
def websocket_frames(data: bytes) -> None:
    """The rest of a handshake, and frames."""
    framing.run(_HANDSHAKE + data)


_PASSED: Final = PassedHeaders.of([(b"Host", b"a"), (b"User-Agent", b"tab"), (b"Cookie", b"a=b")])


@fuzzer(
    b'{"subscribe":{"id":1,"path":"/api/v1/namespaces?watch=1"}}',
    b'{"subscribe":{"id":2,"path":"/apis/apps/v1/watch/deployments?a=%0d","accept":"application/json;as=Table"}}',
    b'{"unsubscribe":{"id":1}}',
    b'{"token":"a"}',
    words=b'{"subscribe": "id": "path": "accept": {"unsubscribe": {"token": /api/v1/pods?watch=1 '
    b"application/json, */* \\r\\n HTTP/1.1 %0d%0a",
)
def messages_about_watches(data: bytes) -> None:
    """Messages of a client with many watches on one WebSocket: a subscription is one request for a watch."""
    try:
        message = read_message(data.decode("utf-8", "replace"))
        if not isinstance(message, Subscribe):
            return
        request = watch_request(message, _PASSED, "Bearer a")
    except (BrokenProtocol, BadRequest, NotAcceptable):
        return
    first, *headers = request.removesuffix(b"\r\n\r\n").splitlines()
    method, target, version = first.split(b" ")
    assert (method, version) == (b"GET", b"HTTP/1.1")
    names = [name.partition(b":")[0] for name in headers]
    assert names == [b"Host", b"User-Agent", b"Accept", b"Authorization", b"Connection"]
    info, _ = parse_request("GET", target.decode(), follows_item_watch=True, serves_past=True)
    assert info.verb == "watch"
