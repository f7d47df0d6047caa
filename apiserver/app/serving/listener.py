"""Accepts connections, within limits and with TLS.

A connection that is refused costs no more than to accept and to close it; one on which nothing comes costs no
memory for TLS. When there is no room for another, the connection that has been idle for longest is closed: a
client that opens thousands of idle connections displaces its own before those that others use.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import itertools
import logging
import resource
import select
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple, Protocol

from apiserver.app.serving.listening import BACKLOG, Sockets
from apiserver.app.serving.tls_record_flood import RecordRead
from apiserver.app.serving.tls_transport import TlsTransport, TransportGroup
from apiserver.load.fair_queue import TurnQueue

log = logging.getLogger(__name__)

# How long clients may have the server wait: one on a slow line needs a few round trips.
HANDSHAKE_TIMEOUT_S: Final = 10.0
# Beyond this many handshakes that wait for their clients the oldest is dropped: a client that continues soon
# leaves this set.
HANDSHAKES_MAX: Final = 1_000
_HANDSHAKE_POLL_S: Final = 1.0
# A handshake that has waited longer for its client makes room before connections that are idle.
HANDSHAKE_LATE_S: Final = 1.0
# How long the loop works on handshakes before others have their turn. A signature takes longer, so there is
# one a turn: with five, 300 clients that came at the same moment delayed others by a third of a second.
HANDSHAKE_TURN_S: Final = 0.000_5
# Connections that are accepted before what is connected has its turn.
ACCEPTED_PER_TURN: Final = 16
# While so many handshakes wait for their turns here, further connections wait in the kernel. Hundreds that
# advance together would all take as long as the last.
ADVANCING_MAX: Final = 32
# The record with the alert that a server sends to whom it refuses a handshake (RFC 8446, 6.2).
_HANDSHAKE_FAILURE: Final = bytes((21, 3, 3, 0, 2, 2, 40))
_HELLO_BYTES: Final = 16 * 1024
# How long accepting pauses when there are no files, or no memory, for a connection.
ACCEPT_RETRY_S: Final = 0.1
_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# Files that the process opens beside connections: the store's, those of webhooks and of workers.
RESERVED_FILES: Final = 256
# At the limit one in so many connections makes room at a time: finding the oldest takes a while.
_ROOM_PART: Final = 100
# What waits in the kernel for a client, beyond what is on its way to it.
UNSENT_KERNEL_BYTES: Final = 128 * 1024
# Of Linux; Python has a name for it since 3.12.
_TCP_NOTSENT_LOWAT: Final = 25
# How long it is remembered that none was idle: looking at all of them takes a millisecond or more.
IDLE_SEARCH_S: Final = 0.1
# Refusals are logged so often.
_LOG_EVERY_S: Final = 30.0


class ConnectionServer(Protocol):
    """Serves the connections that a listener accepts."""

    def __call__(self) -> asyncio.Protocol:
        """Returns the protocol of a new connection."""
        ...

    def idle_since(self, protocol: asyncio.BaseProtocol) -> float | None:
        """Returns when a connection began to wait for a request, by the loop's clock.

        None while it has a request, or a response that its client is still reading.
        """
        ...

    def sender_of(self, protocol: asyncio.BaseProtocol) -> str:
        """Returns the user of the last request on a connection; "" if unknown."""
        ...


class ConnectionLimits(NamedTuple):
    """The limits on connections that are open at once; 0 means no limit.

    total: for all clients. per_client: for one IPv4 address, or one IPv6 network of 64 bits.
    """

    total: int = 0
    per_client: int = 0

    def within_open_files(self) -> ConnectionLimits:
        """Returns these limits, lowered to the number of files that this process may open."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return self
        room = max(1, files - RESERVED_FILES)
        return ConnectionLimits(min(self.total or room, room), self.per_client)


class Listener:
    """Accepts connections on listening sockets, and serves them until it is closed.

    context: of TLS; when it is replaced, handshakes that begin later have the new one.
    server: makes the protocols of connections, which outlive the listener.
    limits: lowered to the number of files that the process may open.
    refused_total: the number of connections refused for lack of room.
    failed_total: the number of handshakes that failed, or waited too long for their clients.
    taking: records the calls that read TLS records from clients.
    refuses_handshake: asked of each handshake whether it is refused; None: none is.
    poll_s: how often handshakes are looked at, to find those that wait for their clients.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        server: ConnectionServer,
        limits: ConnectionLimits,
        taking: RecordRead,
        *,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
        handshakes_max: int = HANDSHAKES_MAX,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.context = context
        self._server, self.limits, self.taking = server, limits, taking
        self._handshake_timeout_s, self._handshakes_max = handshake_timeout_s, handshakes_max
        self.poll_s = min(_HANDSHAKE_POLL_S, handshake_timeout_s / 10)
        self._group = TransportGroup(self._loop, self._closed, self._sender_of, taking)
        self.refuses_handshake: Callable[[], bool] | None = None
        self._sockets: list[socket.socket] = []
        self._open: dict[TlsTransport, str] = {}  # by whom
        self._handshakes: dict[_Handshake, None] = {}  # oldest first
        self.waiting_handshakes = 0  # for their clients
        # The others: something has come of them.
        self.advancing = TurnQueue(HANDSHAKE_TURN_S, _Handshake.go_on, self._handshake_failed)
        self._by_client: Counter[str] = Counter()
        # When none was idle: of a client's connections, or of all (None).
        self._none_idle_at: dict[str | None, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.refused_total = self.failed_total = 0
        self._logged_at = -_LOG_EVERY_S

    def listen(self, sockets: Sockets) -> None:
        """Accept connections on sockets, which are closed with the listener. Raises OSError."""
        for bound in sockets:
            bound.setblocking(False)
            bound.listen(BACKLOG)
            self._sockets.append(bound)
            self._loop.add_reader(bound.fileno(), self._accept_some, bound)

    def close(self) -> None:
        """Accept no more, and drop handshakes under way."""
        for bound in self._sockets:
            if bound.fileno() >= 0:
                self._loop.remove_reader(bound.fileno())
                bound.close()
        self._sockets.clear()
        for handshake in list(self._handshakes):
            handshake.drop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def forget_connections(self) -> None:
        """Stop waiting for clients to close their connections, because the event loop ends."""
        for lingering in list(self._group.lingering):
            lingering.close()

    @property
    def open_count(self) -> int:
        """The number of open connections, including those whose handshake is not finished."""
        return len(self._open) + len(self._handshakes)

    # ---- accepting

    def _accept_some(self, bound: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            if len(self.advancing) >= ADVANCING_MAX:
                return  # The event loop calls again in its next iteration.
            try:
                connection, peer = bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # It is gone already.
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._wait_for_room(bound, error)
                return
            self._admit(connection, peer)

    def _wait_for_room(self, bound: socket.socket, error: OSError) -> None:
        """Free connections or files that are exhausted, and pause accepting for a moment."""
        self._log_refusal(f"cannot accept connections, retrying: {error.strerror}")
        self._make_room(ACCEPTED_PER_TURN)
        self._loop.remove_reader(bound.fileno())
        self._loop.call_later(ACCEPT_RETRY_S, self._accept_again, bound)

    def _accept_again(self, bound: socket.socket) -> None:
        if bound in self._sockets:
            self._loop.add_reader(bound.fileno(), self._accept_some, bound)

    def _admit(self, connection: socket.socket, peer: object) -> None:
        client = client_of(peer)
        if not self._has_room_for(client):
            self.refused_total += 1
            self._log_refusal(
                f"too many connections: {self.refused_total} refused, most recently from {client}"
            )
            connection.close()
            return
        connection.setblocking(False)
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if sys.platform == "linux":
                connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, UNSENT_KERNEL_BYTES)
        self._by_client[client] += 1
        self._handshakes[_Handshake(self, connection, peer, client)] = None
        if self._timer is None:
            self._timer = self._loop.call_later(self.poll_s, self._drop_late_handshakes)

    def _has_room_for(self, client: str) -> bool:
        """Whether a client may open another connection, once idle ones are closed."""
        total, per_client = self.limits.total, self.limits.per_client
        is_full = per_client and self._by_client[client] >= per_client
        if is_full and not self._close_idle(1 + per_client // _ROOM_PART, client):
            return False
        if self.waiting_handshakes >= self._handshakes_max:
            self._drop_oldest(1)
        if total and self.open_count >= total:
            return self._make_room(1 + total // _ROOM_PART)
        return True

    def _make_room(self, count: int) -> bool:
        """Close some of the connections that are of least use. Returns False if all are in use."""
        return (
            self._drop_oldest(count, HANDSHAKE_LATE_S) or self._close_idle(count) or self._drop_oldest(count)
        )

    def _close_idle(self, count: int, client: str | None = None) -> bool:
        """Close the connections that have been idle for longest. Returns False if none is idle.

        client: the owner of the connections; None for all clients.
        """
        now = monotonic()
        if now - self._none_idle_at.get(client, -IDLE_SEARCH_S) < IDLE_SEARCH_S:
            return False
        idle = sorted(self._idle(client), key=lambda found: found[0])
        if not idle:
            self._none_idle_at[client] = now
        for _, transport in idle[:count]:
            transport.retire()
        return bool(idle)

    def _drop_oldest(self, count: int, waited_s: float = 0.0) -> bool:
        """Drop the oldest handshakes that wait for their clients. Returns False if there are none.

        waited_s: for at least how long they have waited.
        """
        late = (each for each in self._handshakes if each.waited_s >= waited_s and _waiting([each]))
        oldest = list(itertools.islice(late, count))
        for handshake in oldest:
            handshake.drop()
        return bool(oldest)

    def _idle(self, client: str | None) -> Iterator[tuple[float, TlsTransport]]:
        for transport, whose in self._open.items():
            if client is not None and whose != client:
                continue
            since = self._server.idle_since(transport.get_protocol())
            if since is not None:
                yield since, transport

    def _log_refusal(self, text: str) -> None:
        now = monotonic()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning("%s", text)

    # ---- handshakes

    def _drop_late_handshakes(self) -> None:
        waiting = _waiting(self._handshakes)
        for handshake in waiting:
            handshake.polls += 1
        late = [each for each in waiting if each.waited_s >= self._handshake_timeout_s]
        for handshake in late:
            handshake.drop()
        if late:
            self.failed_total += len(late)
            self._log_refusal(
                f"TLS handshakes timed out after {self._handshake_timeout_s:.3g} s: {len(late)} dropped, "
                f"most recently from {late[-1].client}"
            )
        self._timer = None
        if self._handshakes:
            self._timer = self._loop.call_later(self.poll_s, self._drop_late_handshakes)

    def _handshake_failed(self, handshake: _Handshake) -> None:
        log.exception("cannot serve a connection")
        self.failed_total += 1
        handshake.drop()

    def secured(self, plain: socket.socket) -> ssl.SSLSocket:
        return self.context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)

    def forget(self, handshake: _Handshake) -> None:
        if handshake in self._handshakes:
            del self._handshakes[handshake]
            self._leave(handshake.client)

    def serve(self, handshake: _Handshake, tls: ssl.SSLSocket) -> None:
        """Serve the connection of a finished handshake."""
        transport = TlsTransport(self._group, tls, self._server(), handshake.peer)
        del self._handshakes[handshake]
        self._open[transport] = handshake.client
        transport.start()

    def _sender_of(self, transport: TlsTransport) -> str:
        """Returns the user of a connection, or the client's address while no user is known."""
        return self._server.sender_of(transport.get_protocol()) or self._open.get(transport, "")

    def _closed(self, transport: TlsTransport) -> None:
        self._leave(self._open.pop(transport))

    def _leave(self, client: str) -> None:
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]
            self._none_idle_at.pop(client, None)


class _Handshake:
    """A connection that is accepted, until its TLS handshake is done.

    Nothing of TLS is made before the client has sent something. The timeout counts only the time spent
    waiting for the client, not for turns of the server: with a thousand handshakes at once these take
    seconds, and so does a pause of the whole process.

    awaited: the event of poll that continues it; 0 while it waits for its turn.
    polls: how often the listener has found that the handshake waits for its client.
    """

    __slots__ = ("_listener", "_loop", "_socket", "_tls", "awaited", "client", "peer", "polls")

    def __init__(self, listener: Listener, plain: socket.socket, peer: object, client: str) -> None:
        self._listener, self._socket, self.peer, self.client = listener, plain, peer, client
        self._loop = asyncio.get_running_loop()
        self._tls: ssl.SSLSocket | None = None
        self.awaited = 0
        self.polls = 0
        self._wait_for(select.POLLIN)

    def fileno(self) -> int:
        """Returns the socket's number; it is negative once the handshake is dropped."""
        return self._socket.fileno()

    @property
    def waited_s(self) -> float:
        """The time that the handshake has waited for its client, at least, in seconds."""
        return self._listener.poll_s * max(0, self.polls - 1)

    def _wait_for(self, event: int) -> None:
        """Continue when the socket can be read (POLLIN) or written (POLLOUT)."""
        self.awaited = event
        self._listener.waiting_handshakes += 1
        add = self._loop.add_reader if event == select.POLLIN else self._loop.add_writer
        add(self._socket.fileno(), self._on_ready)

    def _on_ready(self) -> None:
        self._stop_waiting()
        self._listener.advancing.append(self)

    def go_on(self) -> None:
        """Take the next step, which may be the last."""
        if self._socket.fileno() < 0:
            return  # It has been dropped.
        taking, refuses = self._listener.taking, self._listener.refuses_handshake
        if self._tls is None and refuses is not None and refuses():
            self._refuse()
            return
        try:
            if self._tls is None:
                self._socket.getpeername()  # If it is gone already, `wrap_socket` would keep what it takes.
                self._tls = self._socket = self._listener.secured(self._socket)
            taking.under_way = (self._tls,)
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._wait_for(select.POLLIN)
        except ssl.SSLWantWriteError:
            self._wait_for(select.POLLOUT)
        except (OSError, ValueError):  # also of a certificate that no CA has signed, or a wrong protocol
            self._listener.failed_total += 1
            self.drop()
        else:
            taking.under_way = None
            self._listener.serve(self, self._tls)
        finally:
            taking.under_way = None

    def _refuse(self) -> None:
        """Answer the client's first message with a TLS alert."""
        with suppress(OSError):
            self._socket.recv(_HELLO_BYTES)  # else the client may find its connection reset, not the alert
            self._socket.send(_HANDSHAKE_FAILURE)
        self._listener.failed_total += 1
        self.drop()

    def drop(self) -> None:
        self._stop_waiting()
        self._socket.close()
        self._listener.forget(self)

    def _stop_waiting(self) -> None:
        if not self.awaited:
            return
        self.awaited = 0
        self._listener.waiting_handshakes -= 1
        if (fd := self._socket.fileno()) >= 0:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)


def _waiting(handshakes: Iterable[_Handshake]) -> list[_Handshake]:
    """Returns the handshakes that wait for their clients, in the same order, with one system call.

    What a client has sent may have arrived without the event loop's notice, after a long turn.
    """
    poll = select.poll()
    awaiting = [each for each in handshakes if each.awaited]
    for each in awaiting:
        poll.register(each, each.awaited)
    arrived = {fileno for fileno, _ in poll.poll(0)}
    return [each for each in awaiting if each.fileno() not in arrived]


def client_of(peer: object) -> str:
    """Returns the key of a client for limits: its address, or the 64-bit network of an IPv6 address.

    peer: as `socket.accept` returns it. An IPv6 host may use any address of its network.
    """
    match peer:
        case (str(host), int(), int(), int()) if not host.startswith("::ffff:"):
            return str(ipaddress.ip_network((host.partition("%")[0], 64), strict=False))
        case (str(host), int(), *_):
            return host.removeprefix("::ffff:")
    return ""
