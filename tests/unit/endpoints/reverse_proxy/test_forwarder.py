"""How many requests are forwarded at the same time, whose they are, and which are not forwarded."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

import pytest
from aiohttp import web

from apiserver.endpoints.connection import Server
from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder
from apiserver.endpoints.reverse_proxy.headers import NO_OTHERS
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.meta.errors import BadRequest, TooManyRequests
from apiserver.meta.vocabulary import UserInfo
from tests.support.eventually import WITHIN_S
from tests.unit.endpoints.connections import connected
from tests.unit.endpoints.handlers.calls import call


def test_no_user_takes_all_places() -> None:
    forwarder = Forwarder(BackendConnector(), NO_OTHERS, forwarded_max=10)
    alice, joe = (call("GET", "/api/v1/namespaces/ns/pods/p/proxy/x") for _ in range(2))
    joe.set_user(UserInfo("joe"))
    with ExitStack() as places:
        for _ in range(8):
            places.enter_context(forwarder.place(alice))
        with pytest.raises(TooManyRequests):
            places.enter_context(forwarder.place(alice))
        places.enter_context(forwarder.place(joe))
    with forwarder.place(alice):
        pass


PATH: Final = "/api/v1/namespaces/ns/pods/p/proxy/x"
NO_UTF_8: Final = {"a request": b"", "an upgrade": b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"}


@pytest.mark.parametrize("given", NO_UTF_8.values(), ids=NO_UTF_8)
async def test_who_asks_is_told_as_text_only(given: bytes) -> None:
    """A backend might read other bytes as the name of another user than the one that was authorized."""
    forwarder = Forwarder(BackendConnector(), NO_OTHERS)
    target = ProxyTarget(ProxyBackend("192.0.2.1", 80), "/x", headers=[("X-Remote-User", "alice\udcff")])

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        asked = call("GET", PATH)
        asked.request = request
        with pytest.raises(BadRequest) as refused:
            await forwarder.forward(asked, target)
        return web.Response(text=str(refused.value))

    async with connected(Server(handle)) as (reader, writer):
        writer.write(b"GET %b HTTP/1.0\r\n%b\r\n" % (PATH.encode(), given))
        answer = await asyncio.wait_for(reader.read(), WITHIN_S)
    assert answer.endswith(b"the header X-Remote-User cannot be forwarded: the value is not UTF-8")
