"""Connections within limits, and what TLS does with bytes that the client does not take."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import psutil
import pytest

from apiserver.app.serving import pki
from apiserver.app.serving.listener import (
    ACCEPTED_PER_TURN,
    ADVANCING_MAX,
    HANDSHAKE_TURN_S,
    IDLE_SEARCH_S,
    ConnectionLimits,
    Listener,
    client_of,
)
from apiserver.app.serving.tls_record_flood import RecordRead
from apiserver.app.serving.tls_transport import READS_PER_ROUND, TURN_BYTES
from tests.support.eventually import WITHIN_S, eventually
from tests.support.rounds import Rounds, some_rounds

UNLIMITED: Final = ConnectionLimits()
Client: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Served(asyncio.Protocol):
    """A connection, as the server sees it. It is idle unless it is `busy`."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: object = None
        self.received = b""
        self.has_ended = self.is_lost = self.is_busy = self.is_paused = False
        self.used_at = 0.0
        self.sender = ""
        self.on_data: Callable[[Served], None] = lambda _: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.peer = transport, transport.get_extra_info("peername")

    def data_received(self, data: bytes) -> None:
        if data == b"fail":
            raise RuntimeError("as asked")
        self.received += data
        self.on_data(self)
        self.used_at = asyncio.get_running_loop().time()

    def eof_received(self) -> None:
        self.has_ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def pause_writing(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_writing(self) -> None:
        assert self.is_paused
        self.is_paused = False


class Watched(ssl.SSLSocket):
    """Tells which of its calls that take records were noted while they were made."""

    taking: ClassVar[RecordRead]
    noted: ClassVar[set[str]]

    def _note(self, call: str) -> None:
        under_way = self.taking.under_way
        if under_way is not None and under_way[0] is self:
            self.noted.add(call)

    def do_handshake(self, block: bool = False) -> None:
        self._note("do_handshake")
        super().do_handshake(block)

    def read(self, *arguments: Any) -> Any:
        self._note("read")
        return super().read(*arguments)

    def unwrap(self) -> socket.socket:
        self._note("unwrap")
        return super().unwrap()


class Site:
    """A listener, its connections, and clients of it."""

    def __init__(self, directory: Path) -> None:
        self.certificates = pki.ensure(directory, ["127.0.0.1"])
        self.served: list[Served] = []
        self.port = 0
        self.fails_next = False
        self.looks = 0  # at whether a connection is idle
        self.taking = RecordRead()
        self.socket_class: type[ssl.SSLSocket] = ssl.SSLSocket
        self._writers: list[asyncio.StreamWriter] = []

    def __call__(self) -> Served:
        if self.fails_next:
            self.fails_next = False
            raise RuntimeError("as asked")
        self.served.append(Served())
        return self.served[-1]

    def idle_since(self, protocol: asyncio.BaseProtocol) -> float | None:
        assert isinstance(protocol, Served)
        self.looks += 1
        return None if protocol.is_busy else protocol.used_at

    def sender_of(self, protocol: asyncio.BaseProtocol) -> str:
        assert isinstance(protocol, Served)
        return protocol.sender

    @asynccontextmanager
    async def listening(
        self, limits: ConnectionLimits = UNLIMITED, **options: float
    ) -> AsyncIterator[Listener]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates.serving_cert, self.certificates.serving_key)
        context.sslsocket_class = self.socket_class
        bound = socket.create_server(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        listener = Listener(context, self, limits, self.taking, **options)  # type: ignore[arg-type]
        listener.listen([bound])
        try:
            async with asyncio.timeout(WITHIN_S):
                yield listener
        finally:
            for writer in self._writers:
                writer.transport.abort()
            listener.close()
            for each in self.served:
                if each.transport is not None:
                    each.transport.abort()

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificates.ca_cert)

    async def connect(self) -> Client:
        """Connect, and wait until the server serves the connection."""
        reader, writer = await self.connect_plain(self.trust())
        own = writer.get_extra_info("sockname")
        await eventually(lambda: any(each.peer == own for each in self.served))
        return reader, writer

    async def connect_plain(self, context: ssl.SSLContext | None = None) -> Client:
        client = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        self._writers.append(client[1])
        return client

    async def use(self, client: Client, text: bytes) -> None:
        """Send something, and wait until it has arrived."""
        client[1].write(text)
        await eventually(lambda: any(each.received.endswith(text) for each in self.served))

    @property
    def open(self) -> list[Served]:
        return [each for each in self.served if not each.is_lost]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


LIMITS: Final = {"of all": ConnectionLimits(total=3), "of one client": ConnectionLimits(per_client=3)}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
async def test_the_connection_that_is_idle_for_longest_makes_room(
    site: Site, limits: ConnectionLimits
) -> None:
    async with site.listening(limits):
        clients = [await site.connect() for _ in range(3)]
        for number in (1, 0, 2):
            await site.use(clients[number], b"<%d>" % number)
        site.served[1].is_busy = True
        clients.append(await site.connect())
        assert await clients[0][0].read() == b""
        assert [each.received for each in site.open] == [b"<1>", b"<2>", b""]


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
async def test_where_none_is_idle_a_connection_is_refused_before_tls(
    site: Site, limits: ConnectionLimits
) -> None:
    async with site.listening(limits):
        clients = [await site.connect() for _ in range(3)]
        for each in site.served:
            each.is_busy = True
        reader, _ = await site.connect_plain()
        assert await reader.read() == b""
        # One that ends leaves its place to another.
        clients[0][1].close()
        await eventually(lambda: len(site.open) == 2)
        await site.connect()
        assert len(site.open) == 3


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
async def test_not_all_connections_are_looked_at_for_each_that_is_refused(
    site: Site, limits: ConnectionLimits
) -> None:
    async with site.listening(limits):
        for _ in range(3):
            await site.connect()
        for each in site.served:
            each.is_busy = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(50):
            reader, _ = await site.connect_plain()
            assert await reader.read() == b""
        searches = 1 + (loop.time() - began) / IDLE_SEARCH_S
        assert 3 <= site.looks <= 3 * (searches + 1)


async def test_a_handshake_has_a_time(site: Site) -> None:
    async with site.listening(handshake_timeout_s=0.2):
        silent, _ = await site.connect_plain()
        slow, writer = await site.connect_plain()
        writer.write(b"\x16\x03\x01")
        ended = asyncio.gather(silent.read(), slow.read(), return_exceptions=True)
        assert all(each == b"" or isinstance(each, ConnectionError) for each in await ended)
        assert not site.served


async def test_the_oldest_handshake_makes_room(site: Site) -> None:
    async with site.listening(handshakes_max=2):
        readers = [(await site.connect_plain())[0] for _ in range(3)]
        assert await readers[0].read() == b""
        assert len(await asyncio.gather(site.connect(), site.connect())) == 2
        assert len(site.served) == 2


HANDSHAKE_STEP_S: Final = 10 * HANDSHAKE_TURN_S


class SlowSteps(ssl.SSLSocket):
    """Each step of a handshake takes longer than a turn."""

    def do_handshake(self, block: bool = False) -> None:
        time.sleep(HANDSHAKE_STEP_S)
        super().do_handshake(block)


async def test_the_time_of_a_handshake_is_what_its_client_takes(site: Site) -> None:
    """Clients that come together are served all the same, when their turns here take longer than that."""
    site.socket_class = SlowSteps
    async with site.listening(handshake_timeout_s=HANDSHAKE_STEP_S * 20) as listener:
        await asyncio.gather(*(site.connect_plain(site.trust()) for _ in range(100)))
        await eventually(lambda: len(site.open) == 100)
        assert (listener.failed_total, listener.waiting_handshakes) == (0, 0)


async def test_a_handshake_that_its_client_has_continued_is_not_late(site: Site) -> None:
    """After a pause of the whole process, what has arrived meanwhile is read before anything is dropped."""
    async with site.listening(handshake_timeout_s=0.2) as listener:
        plain = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", site.port))
        await eventually(lambda: listener.waiting_handshakes == 1)
        context, begins = site.trust(), threading.Event()

        def shake_hands() -> None:
            begins.wait(WITHIN_S)
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                tls.sendall(b"hello")
                assert tls.recv(1) == b""

        client = asyncio.create_task(asyncio.to_thread(shake_hands))
        begins.set()
        time.sleep(0.5)
        await eventually(lambda: [each.received for each in site.open] == [b"hello"])
        assert listener.failed_total == 0
        transport = site.open[0].transport
        assert transport is not None
        transport.close()
        await client


async def test_a_late_handshake_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async with site.listening(handshake_timeout_s=0.1) as listener:
        reader, _ = await site.connect_plain()
        assert await reader.read() == b""
        assert listener.failed_total == 1
    expected = "TLS handshakes timed out after 0.1 s: 1 dropped, most recently from 127.0.0.1"
    assert [record.message for record in caplog.records] == [expected]


async def test_of_many_handshakes_some_advance_while_others_wait_in_the_kernel(site: Site) -> None:
    """So the first of many clients is served soon, not when all of them nearly are."""
    longest = 0
    site.socket_class = SlowSteps

    async def observe(listener: Listener) -> None:
        nonlocal longest
        while True:
            longest = max(longest, len(listener.advancing))
            await asyncio.sleep(0)

    async with site.listening() as listener:
        # All have sent what begins a handshake before the first is accepted.
        hello = client_hello(site.trust())
        clients = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(5 * ADVANCING_MAX)]
        for client in clients:
            client.sendall(hello)
        observing = asyncio.create_task(observe(listener))
        await eventually(lambda: listener.waiting_handshakes == len(clients))
        observing.cancel()
        for client in clients:
            client.close()
    # One turn's are not known to be ready when the next turn accepts.
    assert ADVANCING_MAX <= longest <= ADVANCING_MAX + 2 * ACCEPTED_PER_TURN


def client_hello(context: ssl.SSLContext) -> bytes:
    """Returns what a client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


async def test_what_is_no_tls_is_dropped(site: Site) -> None:
    async with site.listening():
        reader, writer = await site.connect_plain()
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        assert not site.served
        await site.connect()


SENT_BEFORE_RESET: Final = {"nothing": b"", "a byte": b"\x16", "a head": b"\x16\x03\x01\x02\x00\x01"}


@pytest.mark.parametrize("sent", SENT_BEFORE_RESET.values(), ids=SENT_BEFORE_RESET)
async def test_clients_that_are_gone_before_tls_hold_up_nobody(site: Site, sent: bytes) -> None:
    async with site.listening():
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", site.port)) as gone:
                gone.send(sent)
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await site.connect()
        assert len(site.served) == 1


async def test_a_connection_that_cannot_be_served_holds_up_nobody(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    async with site.listening(ConnectionLimits(total=1)):
        site.fails_next = True
        reader, _ = await site.connect_plain(site.trust())
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        assert "cannot serve a connection" in caplog.text
        await site.connect()


CLIENTS: Final = {
    "IPv4": (("10.1.2.3", 4), "10.1.2.3"),
    "IPv4 on a socket of IPv6": (("::ffff:10.1.2.3", 4, 0, 0), "10.1.2.3"),
    "IPv6": (("2001:db8:1:2:3::4", 4, 0, 0), "2001:db8:1:2::/64"),
    "IPv6 of a link": (("fe80::1%eth0", 4, 0, 2), "fe80::/64"),
}


@pytest.mark.parametrize(("peer", "client"), CLIENTS.values(), ids=CLIENTS)
def test_who_is_one_client(peer: object, client: str) -> None:
    assert client_of(peer) == client


def test_limits_leave_files_for_others() -> None:
    assert 0 < ConnectionLimits().within_open_files().total < 1 << 40
    assert ConnectionLimits(total=3).within_open_files().total == 3


# ---- the transport


SIZES: Final[dict[str, Callable[[random.Random], int]]] = {
    "small": lambda chosen: chosen.randrange(1, 400),
    "around a record": lambda chosen: chosen.choice((16_383, 16_384, 16_385, 32_768)),
    "large": lambda chosen: chosen.randrange(100_000, 3_000_000),
    "all": lambda chosen: int(10 ** chosen.uniform(0, 6)),
}


@pytest.mark.parametrize("size_of", SIZES.values(), ids=SIZES)
async def test_what_is_written_arrives_whole_and_in_order(
    site: Site, size_of: Callable[[random.Random], int]
) -> None:
    """Also what waits for the client while more is written, and what waits when the connection is closed."""
    chosen = random.Random(1)
    async with site.listening():
        reader, _ = await site.connect()
        served = site.served[0]
        assert served.transport is not None
        written: list[bytes] = []
        while sum(map(len, written)) < 8_000_000 and len(written) < 3_000:
            written.append(chosen.randbytes(size_of(chosen)))
            served.transport.write(written[-1])
        assert served.is_paused == bool(served.transport.get_write_buffer_size())
        served.transport.close()
        assert await reader.read() == b"".join(written)
        assert served.is_lost


async def test_writing_is_paused_while_anything_waits(site: Site) -> None:
    async with site.listening():
        reader, _ = await site.connect()
        served = site.served[0]
        assert served.transport is not None
        served.transport.write(b"x" * 64_000_000)
        assert served.is_paused
        waiting = served.transport.get_write_buffer_size()
        assert 0 < waiting <= 64_000_000
        assert len(await reader.readexactly(64_000_000)) == 64_000_000
        await eventually(lambda: not served.is_paused)
        assert not served.transport.get_write_buffer_size()


async def test_bytes_that_wait_are_not_copied(site: Site) -> None:
    """Thousands of clients that do not read the same document cost no more than one of them."""
    document = bytes(50_000_000)
    async with site.listening():
        clients = [await site.connect() for _ in range(40)]
        before = _resident_bytes()
        for served in site.served:
            assert served.transport is not None
            served.transport.write(document)
            assert served.transport.get_write_buffer_size() > len(document) / 2
        assert _resident_bytes() - before < 50_000_000
        assert len(clients) == 40


def _resident_bytes() -> int:
    return psutil.Process().memory_info().rss


async def test_long_bodies_arrive_whole(site: Site) -> None:
    body = random.Random(2).randbytes(3_000_000)
    async with site.listening():
        _, writer = await site.connect()
        for at in range(0, len(body), 700_000):
            writer.write(body[at : at + 700_000])
        served = site.served[0]
        await eventually(lambda: len(served.received) == len(body))
        assert served.received == body
        assert len(body) > TURN_BYTES
        writer.close()
        await eventually(lambda: served.is_lost)


async def test_reading_pauses(site: Site) -> None:
    async with site.listening():
        client = await site.connect()
        served = site.served[0]
        assert served.transport is not None
        served.transport.pause_reading()
        client[1].write(b"later")
        await client[1].drain()
        await asyncio.sleep(0)
        assert not served.received
        served.transport.resume_reading()
        await eventually(lambda: served.received == b"later")


class Reads:
    """Which connections have read, in order, and in which rounds of the loop."""

    def __init__(self) -> None:
        self._rounds = Rounds()
        self.made: list[tuple[int, Served]] = []

    def note(self, served: Served) -> None:
        self.made.append((self._rounds.number, served))

    def close(self) -> None:
        self._rounds.close()


async def _all_send(site: Site, clients: list[Client], text: bytes) -> None:
    """Have all clients send at the same moment: nothing is read before the last has."""
    for _, writer in clients:
        writer.write(text)
    await eventually(lambda: all(each.received.endswith(text) for each in site.served))


async def test_few_of_many_clients_read_in_one_round(site: Site) -> None:
    """What hundreds send at the same moment is not one turn of the loop. Nothing is lost, or read twice."""
    async with site.listening():
        clients = [await site.connect() for _ in range(4 * READS_PER_ROUND)]
        reads = Reads()
        for served in site.served:
            served.on_data = reads.note
        await _all_send(site, clients, b"first")
        await _all_send(site, clients, b"again")
        reads.close()
        assert max(Counter(number for number, _ in reads.made).values()) <= READS_PER_ROUND
        assert [each for each in site.served if each.received != b"firstagain"] == []


async def test_a_sender_with_many_connections_waits_for_itself(site: Site) -> None:
    """Whoever has one connection is read in the next round but one, however many another has."""
    async with site.listening():
        clients = [await site.connect() for _ in range(4 * READS_PER_ROUND)]
        reads = Reads()
        for number, served in enumerate(site.served):
            served.on_data = reads.note
            served.sender = "many" if number < len(clients) - 1 else "one"
        await _all_send(site, clients, b"now")
        reads.close()
        order = [served.sender for _, served in reads.made]
        assert len(order) == len(clients)
        assert order.index("one") <= 2 * READS_PER_ROUND


@pytest.mark.parametrize("is_resumed", [True, False])
async def test_who_stops_reading_meanwhile_is_not_read(site: Site, is_resumed: bool) -> None:
    async with site.listening():
        clients = [await site.connect() for _ in range(2 * READS_PER_ROUND)]

        def stop_others(reader: Served) -> None:
            for served in site.served:
                if served is not reader and served.transport is not None and not served.received:
                    served.transport.pause_reading()
                    if is_resumed:
                        served.transport.resume_reading()

        for served in site.served:
            served.on_data = stop_others
        for _, writer in clients:
            writer.write(b"now")
        if is_resumed:
            await eventually(lambda: all(each.received == b"now" for each in site.served))
        else:
            await eventually(lambda: any(each.received for each in site.served))
            await some_rounds()
            assert sum(bool(each.received) for each in site.served) == 1
            for served in site.served:
                assert served.transport is not None
                served.on_data = lambda _: None
                served.transport.resume_reading()
            await eventually(lambda: all(each.received == b"now" for each in site.served))


async def test_aborting_drops_what_waits(site: Site) -> None:
    async with site.listening():
        reader, _ = await site.connect()
        served = site.served[0]
        assert served.transport is not None
        served.transport.write(b"x" * 64_000_000)
        served.transport.abort()
        await eventually(lambda: served.is_lost)
        with contextlib.suppress(ConnectionError):
            assert len(await reader.read()) < 64_000_000


async def test_an_answer_arrives_although_its_client_still_sends(site: Site) -> None:
    """A socket that is closed with unread data would be reset, and the answer lost."""
    async with site.listening():
        reader, writer = await site.connect()
        served = site.served[0]
        assert served.transport is not None
        served.transport.pause_reading()
        writer.write(b"x" * 100_000)
        await writer.drain()
        served.transport.write(b"too long")
        served.transport.close()
        assert await reader.read() == b"too long"


async def test_a_loop_that_ends_waits_for_no_client_to_close_its_connection(site: Site) -> None:
    async with site.listening() as listener:
        reader, _ = await site.connect()
        transport = site.served[0].transport
        assert transport is not None
        kept = transport.get_extra_info("socket").fileno()
        transport.write(b"the last answer")
        transport.close()
        assert await reader.read() == b"the last answer"
        os.fstat(kept)
        listener.forget_connections()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(kept)


async def test_a_protocol_that_fails_loses_its_connection(site: Site) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with site.listening():
        reader, writer = await site.connect()
        writer.write(b"fail")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        await eventually(lambda: site.served[0].is_lost)


async def test_calls_that_take_records_are_noted(site: Site) -> None:
    """So that one with which a client keeps OpenSSL busy can be ended."""

    class OfTest(Watched):
        taking, noted = site.taking, set()

    site.socket_class = OfTest
    async with site.listening():
        client = await site.connect()
        await site.use(client, b"a")
        assert OfTest.noted == {"do_handshake", "read"}
        client[1].close()
        await eventually(lambda: not site.open)
        await eventually(lambda: "unwrap" in OfTest.noted)
        assert site.taking.under_way is None
