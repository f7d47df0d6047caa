"""Texts that lead to this machine, or to somebody who takes them for it, and a listener that notices."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from apiserver.meta.vocabulary import IPNetwork

LOOPBACK: Final[tuple[IPNetwork, ...]] = (
    ipaddress.IPv4Network("127.0.0.0/8"),
    ipaddress.IPv6Network("::1/128"),
)
# Addresses that mean what is denied by `LOOPBACK`, as Python's `ipaddress` reads them.
ADDRESSES: Final = (
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.254",
    "0.0.0.0",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "::0001",
    "0::1",
    "::0.0.0.1",
    "::1%lo",
    "::1%1",
    "::",
    "::0",
    "0::0",
    "0:0:0:0:0:0:0:0",
    "::0.0.0.0",
    "::%lo",
    "::ffff:127.0.0.1",
    "::FFFF:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:7f00:0001",
    "0:0:0:0:0:ffff:127.0.0.1",
    "::ffff:127.255.0.1",
    "::ffff:127.0.0.1%lo",
    "::ffff:0.0.0.0",
    "::ffff:0:0",
    "0:0:0:0:0:ffff:0:0",
    "::ffff:0.0.0.0%lo",
    "::127.0.0.1",
    "::7f00:1",
    "::ffff:0:127.0.0.1",
    "::ffff:0:7f00:1",
    "::ffff:0:0:0",
    "64:ff9b::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::",
    "64:ff9b::0.0.0.0",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2002:7f00:1::1",
    "2002::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
)
# Texts that C libraries take for such addresses, or that a URL makes them of.
OTHERS: Final = (
    "0",
    "00",
    "0.0",
    "0.0.0",
    "00.0.0.0",
    "000.000.000.000",
    "0x0",
    "0X00000000",
    "0x0.0x0",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7F.1",
    "0X7f.0x0.0X0.0x1",
    "0177.0.0.1",
    "0177.0.0.01",
    "127.0.0.01",
    "127.000.000.001",
    "127.0x0.0.1",
    "127.0.0.1.",
    "\uff11\uff12\uff17.0.0.1",
    "127\u30020\u30020\u30021",
    "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "::ffff:0177.0.0.1",
    "[::1]",
    "[::]",
    "[::ffff:0:0]",
    "127.0.0.1%lo",
    "127.0.0.1:80",
    "x@127.0.0.1",
    "127.0.0.1/x",
    "127.0.0.1#x",
    "127.0.0.1\\x",
    " 127.0.0.1",
    "127.0.0.1\t",
    "%31%32%37.0.0.1",
    "",
)
SPELLINGS: Final = (*ADDRESSES, *OTHERS)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[object]]]:
    """A port of all addresses of this machine, and a list of those who have connected to it."""
    connected: list[object] = []

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer.get_extra_info("sockname"))
        writer.close()

    if socket.has_dualstack_ipv6():
        everywhere = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        everywhere = socket.create_server(("", 0))
    async with await asyncio.start_server(close, sock=everywhere):
        yield everywhere.getsockname()[1], connected
