"""Connections that cost more to keep than to open, and requests that are none."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Final

from tests.hostile.attack import Attacker, Session, attack
from tests.hostile.connection import head
from tests.hostile.site import ATTACKED, CONFIG_MAPS, NOBODY, WRITER

# Long enough to open thousands of connections on a busy machine.
OPENING_S: Final = 25.0


@attack("8 connections", processes=2, seconds_min=OPENING_S)
async def idle_connections(attacker: Attacker) -> None:
    """5,000 connections are opened and left idle."""
    await attacker.hold(attacker.times(2_500), b"")


@attack("8 connections")
async def half_open_handshakes(attacker: Attacker) -> None:
    """1,000 connections send the first bytes of a TLS handshake, and no more."""

    async def one(_: int) -> None:
        connection = await attacker.connect(plain=True)
        await connection.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        attacker.answers["held"] += 1
        await connection.reader.read()
        attacker.answers["closed"] += 1

    await attacker.at_once(attacker.times(1_000), one)


@attack("8 connections")
async def garbage_instead_of_handshakes(attacker: Attacker) -> None:
    """50 connections at a time send 64 KB of noise where TLS should begin."""
    noise = os.urandom(65_536)

    async def one(_: int) -> None:
        while True:
            connection = await attacker.connect(plain=True)
            try:
                await connection.send(noise)
                await connection.reader.read()
            except OSError:
                pass
            attacker.answers["closed"] += 1
            connection.close()

    await attacker.at_once(attacker.times(50), one)


@attack("8 connections")
async def connections_that_come_and_go(attacker: Attacker) -> None:
    """20 clients connect, ask for nothing, and close, as fast as they can."""

    async def one(_: int) -> None:
        while True:
            connection = await attacker.connect()
            attacker.answers["opened"] += 1
            connection.close()

    await attacker.at_once(attacker.times(20), one)


@attack("8 connections", seconds_min=OPENING_S / 2)
async def headers_without_end(attacker: Attacker) -> None:
    """1,000 connections send a header line a second, and never the last one."""

    async def one(_: int) -> None:
        connection = await attacker.connect()
        await connection.send(b"GET /api/v1/namespaces HTTP/1.1\r\nHost: server\r\n")
        attacker.answers["held"] += 1
        for number in itertools.count():
            await asyncio.sleep(1.0)
            await connection.send(f"X-{number}: y\r\n".encode())

    await attacker.at_once(attacker.times(1_000), one)


@attack("8 connections")
async def large_headers(attacker: Attacker) -> None:
    """50 clients send requests with 60 KB of headers, different each time."""
    numbers = itertools.count()

    async def ask(session: Session) -> None:
        headers = {f"X-{n}": f"{next(numbers)}" + "y" * 1_000 for n in range(58)}
        await session.ask("GET", "/version", headers=headers)

    await attacker.forever(attacker.times(50), NOBODY, ask)


@attack("8 connections")
async def headers_that_are_too_large(attacker: Attacker) -> None:
    """50 clients send a megabyte of headers."""
    data = b"GET /version HTTP/1.1\r\nHost: server\r\n" + b"X-A: " + b"y" * 1_000_000 + b"\r\n\r\n"
    await attacker.forever(attacker.times(50), NOBODY, lambda session: session.send(data))


@attack("8 connections")
async def pipelined_requests(attacker: Attacker) -> None:
    """20 connections send a thousand requests at a time without waiting, and read the answers."""
    data = head("GET", f"{CONFIG_MAPS}/none", WRITER) * 1_000

    async def one(_: int) -> None:
        while True:
            connection = await attacker.connect()
            await connection.send(data)
            for _answer in range(1_000):
                status, _body = await connection.answer()
                attacker.answers[str(status)] += 1
            connection.close()

    await attacker.at_once(attacker.times(20), one)


@attack("8 connections")
async def upgrades(attacker: Attacker) -> None:
    """100 clients ask for shells in pods that do not exist, over WebSockets and SPDY."""
    protocols = itertools.cycle(
        (
            {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"},
            {
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
                "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
            },
        )
    )
    path = f"/api/v1/namespaces/{ATTACKED}/pods/none/exec?command=sh&stdin=true&tty=true"

    async def ask(session: Session) -> None:
        await session.ask("GET", path, headers={"Connection": "Upgrade", **next(protocols)})

    await attacker.forever(attacker.times(100), WRITER, ask)
