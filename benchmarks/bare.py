"""The least that could do each workload: aiohttp's low-level server over TLS, without routes or checks.

    python -m benchmarks.bare bytes FILE        answers every request with the file's bytes
    python -m benchmarks.bare gzip FILE         the same, compressed each time
    python -m benchmarks.bare put DIR|ETCD_URL  parses a body, puts it into the store and sends it back
    python -m benchmarks.bare fan-out           sends the body of each POST as a chunk to all open GETs
    python -m benchmarks.bare webhook DIR       allows what admission reviews ask; its CA is DIR/ca.crt

Prints its port once it listens.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import sys
import tempfile
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import uvloop
from aiohttp import web

from apiserver.app.serving import pki
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.interface import Storage

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def send_bytes(body: bytes) -> Handler:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    return handle


def send_compressed(body: bytes) -> Handler:
    """Compresses as the server does, at level 1."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        compressed = zlib.compress(body, 1, wbits=31)
        headers = {"Content-Encoding": "gzip"}
        return web.Response(body=compressed, content_type="application/json", headers=headers)

    return handle


async def open_store(where: str) -> Storage:
    if where.startswith("http"):
        return EtcdStore(EtcdClient([where]), prefix="/bare")
    return await EmbeddedStore.open(Path(where))


def parse_and_put(store: Storage) -> Handler:
    counter = itertools.count()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        orjson.loads(body)
        await store.create(f"/bare/{next(counter):09}", body)
        return web.Response(body=body, content_type="application/json")

    return handle


def fan_out() -> Handler:
    transports: list[asyncio.Transport] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            stream = web.StreamResponse()
            stream.enable_chunked_encoding()
            await stream.prepare(request)
            assert request.transport is not None
            transports.append(request.transport)
            await asyncio.Event().wait()
        body = await request.read()
        orjson.loads(body)
        chunk = b"%x\r\n%b\r\n" % (len(body), body)
        for transport in transports:
            transport.write(chunk)
        return web.Response(body=body, content_type="application/json")

    return handle


def allow() -> Handler:
    """A mutating webhook would allow it, too, with the same answer."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        review = orjson.loads(await request.read())
        answer = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": {"uid": review["request"]["uid"], "allowed": True},
        }
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    return handle


async def main(kind: str, arguments: list[str]) -> None:
    match kind:
        case "bytes":
            handler = send_bytes(Path(arguments[0]).read_bytes())
        case "gzip":
            handler = send_compressed(Path(arguments[0]).read_bytes())
        case "put":
            handler = parse_and_put(await open_store(arguments[0]))
        case "webhook":
            handler = allow()
        case _:
            handler = fan_out()
    with tempfile.TemporaryDirectory() as directory:
        kept = arguments[0] if kind == "webhook" else directory
        certificates = pki.ensure(Path(kept), ["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.serving_cert, certificates.serving_key)
    listener = await asyncio.get_running_loop().create_server(
        web.Server(handler, access_log=None), "127.0.0.1", 0, ssl=context, backlog=1024
    )
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2:]))
