"""Simulated pods answer `exec` and `attach` over WebSocket and SPDY.

Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming; k8s.io/client-go, tools/remotecommand and
tools/portforward.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import pytest
import websocket

from apiserver.endpoints.reverse_proxy.spdy import SpdyClient
from apiserver.testing import ApiServer
from tests.support.eventually import until
from tests.testing.simulated import PODS, run_pod, simulating
from tests.testing.streams import (
    CLOSE,
    COMMANDS,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    SUCCESS,
    V4,
    V5,
    exit_code,
    followed,
    shell,
    status_of,
)

original = simulating()


# The protocol that is offered, and what a success and a failure are told as on the channel for errors.
SHELL_PROTOCOLS: Final = {
    "the fifth": (V5, "Success", "ExitCode"),
    "the fourth": (V4, "Success", "ExitCode"),
    "the fourth, as text": ("v4.base64.channel.k8s.io", "Success", "ExitCode"),
    "the first": ("channel.k8s.io", "", "non-zero exit code: exit status 7"),
    "the first, as text": ("base64.channel.k8s.io", "", "non-zero exit code: exit status 7"),
    "none": ("", "", "non-zero exit code: exit status 7"),
}


@pytest.mark.parametrize(("protocol", "success", "failure"), SHELL_PROTOCOLS.values(), ids=SHELL_PROTOCOLS)
def test_commands(server: ApiServer, protocol: str, success: str, failure: str) -> None:
    run_pod(server, {"commands": COMMANDS})
    with shell(server, "uptime", streams="stdout,stderr", protocol=protocol) as found:
        assert found.protocol == protocol
        ended = found.rest()
        assert ended.pop(STDOUT) == b"up 3 days\n"
        assert success in ended.pop(ERROR, b"").decode()
        assert ended == {}
    with shell(server, "fail", "x", streams="stdout,stderr", protocol=protocol) as found:
        ended = found.rest()
        assert (ended[STDOUT], ended[STDERR]) == (b"out", b"err")
        assert failure in ended[ERROR].decode()
    with shell(server, "fail", "x", streams="stderr", protocol=protocol) as found:
        assert found.rest().keys() == {STDERR, ERROR}


EXITS: Final = {
    "a command": (["uptime"], 0),
    "a failure": (["fail", "now"], 7),
    "a script": (["sh", "-c", "echo a; exit 3"], 3),
    "true": (["true"], 0),
    "false": (["false"], 1),
}


@pytest.mark.parametrize("protocol", [V4, V5])
def test_exit_codes(server: ApiServer, protocol: str) -> None:
    run_pod(server, {"commands": COMMANDS})
    found = {}
    for name, (words, _) in EXITS.items():
        with shell(server, *words, streams="stdout", protocol=protocol) as session:
            found[name] = exit_code(session.rest()[ERROR])
    assert found == {name: code for name, (_, code) in EXITS.items()}


def test_input_and_its_end(server: ApiServer) -> None:
    """The fifth protocol can tell the end of the input."""
    run_pod(server)
    large = bytes(range(256)) * 2_000
    with shell(server, "cat", protocol=V5) as found:
        for data in (b"hello", large):
            found.send(STDIN, data)
            assert found.read(len(data)) == data
        found.send(CLOSE, bytes((STDIN,)))
        assert status_of(found.rest()[ERROR]) == SUCCESS


@pytest.mark.parametrize("protocol", [V4, V5, "v4.base64.channel.k8s.io"])
def test_a_shell_that_is_typed_into(server: ApiServer, protocol: str) -> None:
    run_pod(server)
    with shell(server, "/bin/sh", protocol=protocol) as found:
        found.send(STDIN, b"echo one\n")
        assert found.read(4) == b"one\n"
        found.send(STDIN, b"echo two >&2\n")
        assert found.read(4, STDERR) == b"two\n"
        found.send(STDIN, b"exit 4\n")
        assert exit_code(found.rest()[ERROR]) == 4


@pytest.mark.parametrize("protocol", [V4, V5])
def test_a_terminal(server: ApiServer, protocol: str) -> None:
    run_pod(server)
    with shell(server, "sh", streams="stdin,stdout,tty", protocol=protocol) as found:
        found.send(RESIZE, b'{"Width": 80, "Height": 24}')
        assert found.read(4) == b"/ # "
        for keys, shown in {
            b"echo a\r": b"echo a\r\na\r\n/ # ",
            b"cat\r": b"cat\r\n",
            b"b\r": b"b\r\nb\r\n",
            b"\x04": b"/ # ",
            b"sleep 9999\r": b"sleep 9999\r\n",
            b"\x03": b"^C\r\n/ # ",
            b"echo $?\r": b"echo $?\r\n130\r\n/ # ",
        }.items():
            found.send(STDIN, keys)
            assert found.read(len(shown)) == shown
        found.send(STDIN, b"exit\r")
        assert exit_code(found.rest()[ERROR]) == 0


def test_a_command_sleeps_by_the_servers_clock(server: ApiServer) -> None:
    run_pod(server)
    command = "echo a; date +%s; sleep 5000; date +%s"
    with shell(server, "sh", "-c", command, streams="stdout") as found, ThreadPoolExecutor(1) as threads:
        assert found.read(2) == b"a\n"
        rest = threads.submit(found.rest)
        # It may begin to sleep only after the clock was advanced.
        until(lambda: server.clock.advance(hours=1), lambda _: bool(wait([rest], timeout=0.1).done))
        began, ended = map(int, rest.result()[STDOUT].split())
        assert ended - began >= 5_000


@pytest.mark.parametrize("protocol", [V4, V5])
def test_a_command_ends_with_its_container(server: ApiServer, protocol: str) -> None:
    run_pod(server)
    with shell(server, "sh", "-c", "echo a; sleep 9999", streams="stdout", protocol=protocol) as found:
        assert found.read(2) == b"a\n"
        assert server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
        assert exit_code(found.rest()[ERROR]) == 137


def test_input_that_nobody_reads_is_bounded(server: ApiServer) -> None:
    """A client that sends on and on is not read on; when it leaves, the session ends."""
    run_pod(server)
    sent = 0
    with shell(server, "sleep", "9999") as found:
        found.settimeout(1.0)
        with contextlib.suppress(websocket.WebSocketTimeoutException, TimeoutError):
            while sent < 100 * 1024 * 1024:
                found.send(STDIN, bytes(512 * 1024))
                sent += 512 * 1024
    assert sent < 50 * 1024 * 1024


def test_what_a_client_is_attached_to(server: ApiServer) -> None:
    containers = [
        {"name": "c", "image": "i", "stdin": True, "command": ["cat"]},
        {"name": "d", "image": "i", "command": ["serve"]},
        {"name": "e", "image": "i"},
        {"name": "f", "image": "i", "stdin": True},
    ]
    commands = [{"command": "serve", "stdout": "served\n", "exitCode": 5}]
    run_pod(
        server, {"commands": commands, "log.e": "one\ntwo\n", "log-interval.e": "1h"}, containers=containers
    )
    with shell(server, query="&container=c", protocol=V5) as found:
        found.send(STDIN, b"a")
        assert found.read(1) == b"a"
        found.send(CLOSE, bytes((STDIN,)))
        assert exit_code(found.rest()[ERROR]) == 0
    with shell(server, query="&container=d") as found:
        ended = found.rest()
        assert (ended[STDOUT], exit_code(ended[ERROR])) == (b"served\n", 5)
    with shell(server, query="&container=f") as found:
        found.send(STDIN, b"echo shell; exit\n")
        assert found.rest()[STDOUT] == b"shell\n"
    with shell(server, query="&container=e", streams="stdout") as found:
        assert found.receive() == (STDOUT, b"")
        server.clock.advance(hours=1)
        assert found.read(4) == b"two\n"
        assert server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
        assert status_of(found.rest()[ERROR]) == SUCCESS


@asynccontextmanager
async def spdy(
    server: ApiServer, below: str, protocols: Sequence[str]
) -> AsyncIterator[tuple[SpdyClient, str]]:
    """A connection that is upgraded to SPDY, and the protocol that the server has chosen."""
    where = urlsplit(server.url)
    context = ssl.create_default_context(cafile=server.ca)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=context)
    lines = [
        f"POST {PODS}/p/{below} HTTP/1.1",
        f"Host: {where.netloc}",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
    ]
    lines += [f"X-Stream-Protocol-Version: {each}" for each in protocols]
    lines += [f"{name}: {value}" for name, value in server.admin_headers.items()]
    try:
        writer.write("\r\n".join((*lines, "", "")).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 101 "), head
        chosen = [
            line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith("x-stream")
        ]
        yield SpdyClient(reader, writer), "".join(chosen)
    finally:
        writer.close()
        with contextlib.suppress(OSError):  # The server may be faster.
            await writer.wait_closed()


SPDY_PROTOCOLS: Final = {
    "the newest of both": (("v5.channel.k8s.io", V4, "v3.channel.k8s.io"), V4, "ExitCode"),
    "the third": (("v3.channel.k8s.io",), "v3.channel.k8s.io", "exit status 7"),
    "the second": (("v2.channel.k8s.io", "channel.k8s.io"), "v2.channel.k8s.io", "exit status 7"),
    "none": ((), "channel.k8s.io", "exit status 7"),
}


@pytest.mark.parametrize(("offered", "chosen", "told"), SPDY_PROTOCOLS.values(), ids=SPDY_PROTOCOLS)
async def test_commands_over_spdy(server: ApiServer, offered: Sequence[str], chosen: str, told: str) -> None:
    await asyncio.to_thread(run_pod, server, {"commands": COMMANDS})
    below = "exec?command=fail&command=x&stdout=true&stderr=true"
    async with spdy(server, below, offered) as (client, protocol):
        assert protocol == chosen
        names = {await client.open({"streamType": name}): name for name in ("error", "stdout", "stderr")}
        received = dict.fromkeys(names.values(), b"")
        ended = set()
        async for number, data, is_last in client.arrivals():
            received[names[number]] += data
            ended |= {names[number]} if is_last else set()
        assert ended == received.keys()
        assert (received["stdout"], received["stderr"]) == (b"out", b"err")
        assert told in received["error"].decode()


async def test_a_terminal_over_spdy(server: ApiServer) -> None:
    await asyncio.to_thread(run_pod, server)
    async with spdy(server, "exec?command=cat&stdin=true&stdout=true&tty=true", [V4]) as (client, _):
        numbers = {
            name: await client.open({"streamtype": name}) for name in ("error", "stdin", "stdout", "resize")
        }
        await client.send(numbers["resize"], b'{"Width":80,"Height":24}\n')
        await client.send(numbers["stdin"], b"a\r\x04")
        received: dict[int, bytes] = {}
        async for number, data, _ in client.arrivals():
            received[number] = received.get(number, b"") + data
        assert received[numbers["stdout"]] == b"a\r\na\r\n"
        assert status_of(received[numbers["error"]]) == SUCCESS


async def test_a_client_without_a_terminal_attaches_to_a_container_with_one(server: ApiServer) -> None:
    container = {"name": "c", "image": "i", "stdin": True, "tty": True, "command": ["cat"]}
    await asyncio.to_thread(run_pod, server, None, containers=[container])
    async with spdy(server, "attach?stdin=true&stdout=true", [V4]) as (client, _):
        numbers = {name: await client.open({"streamtype": name}) for name in ("error", "stdin", "stdout")}
        await client.send(numbers["stdin"], b"a\r\x04")
        received = b""
        async for number, data, _ in client.arrivals():
            received += data if number == numbers["stdout"] else b""
        assert received == b"a\r\na\r\n"


def test_sessions_do_not_hold_up_a_server_that_stops(original: ApiServer) -> None:
    with original.fork() as server:
        run_pod(server, {"log": "one\n"})
        with shell(server, "sleep", "9999") as session, followed(server) as response:
            assert session.receive() == (STDOUT, b"")
            assert response.readline() == b"one\n"
            server.stop()
            with pytest.raises(http.client.IncompleteRead):
                response.read()
            with contextlib.suppress(OSError, websocket.WebSocketConnectionClosedException):
                assert session.receive()[0] == -1
