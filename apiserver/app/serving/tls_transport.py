"""TLS on a client's socket, as an asyncio transport that uses little memory.

asyncio and uvloop put TLS between two buffers in memory, which grow with the longest message of a connection
and never shrink, beside 256 KB for what arrives. Here OpenSSL reads and writes the socket itself. An idle
connection has no buffers at all. Data that the client does not read yet is kept as a reference to bytes that
other connections may share, and encrypted one record at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import ssl
import struct
import termios
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from apiserver.app.serving.tls_record_flood import RecordRead
from apiserver.load.fair_queue import FairQueue

# The most that a record of TLS carries (RFC 8446, 5.1): OpenSSL reads and writes no more at a time.
RECORD_BYTES: Final = 16 * 1024
# Writing more than this is worth two more system calls, which have the kernel gather records.
LONG_BYTES: Final = 2 * RECORD_BYTES
# How much is read from or written to one client before others get their turn. Hundreds may send or take long
# bodies at the same time, and a turn of the loop goes around them all.
TURN_BYTES: Final = 64 * 1024
# How much is written at once of what has just been given: most long answers are done with it.
FIRST_TURN_BYTES: Final = 256 * 1024
# How long what a client still sends is read after the last answer: closing a socket that has unread data
# would destroy answers on their way.
LINGER_S: Final = 2.0
# Clients that are read from before what they have sent is worked on, and others have their turn. Hundreds may
# ask at the same moment, and a round of the loop would take as long as all of their requests together.
READS_PER_ROUND: Final = 32
_DISCARDED_BYTES: Final = 64 * 1024
# Closing a socket with this discards also what waits in the kernel for the client.
_DISCARD_UNSENT: Final = struct.pack("ii", 1, 0)

_TCP_CORK: Final = getattr(socket, "TCP_CORK", None)  # of Linux
_INT: Final = struct.Struct("i")
_WANTS: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TransportGroup:
    """The state that the connections of a listener share: above all the turns in which they read.

    A bounded number of connections reads in each round of the loop. The others read in later rounds, one
    connection of each sender in turn, so that a sender with hundreds of connections delays only itself. With
    few connections this costs nothing: rounds are counted only when turns run out.

    on_closed: called when a connection is closed, or only waits for the client to close it, too.
    sender_of: returns the sender of a connection.
    taking: records the calls that read TLS records from clients.
    reads_left: how many may still read before others have their turn.
    lingering: connections that only wait for their clients to close them, too.
    """

    __slots__ = ("_late", "_sender_of", "lingering", "loop", "on_closed", "reads_left", "taking")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_closed: Callable[[TlsTransport], None],
        sender_of: Callable[[TlsTransport], str],
        taking: RecordRead,
    ) -> None:
        self.loop, self.on_closed, self.taking = loop, on_closed, taking
        self.reads_left = READS_PER_ROUND
        self._sender_of = sender_of
        self.lingering: set[LingeringSocket] = set()
        self._late: FairQueue[TlsTransport] = FairQueue()  # by sender

    def postpone(self, transport: TlsTransport) -> None:
        """Lets a transport read in a later round."""
        self._late.append(self._sender_of(transport), transport)

    def begin_round(self) -> None:
        """Let transports read again, those first that wait for their turn."""
        self.reads_left = READS_PER_ROUND
        while self._late and self.reads_left:
            self._late.popleft().read_late()


class TlsTransport(asyncio.Transport):
    """The transport of a connection whose handshake is done.

    The protocol's writing is paused as long as anything waits for the client, however little: there are no
    other limits to set.
    """

    __slots__ = (
        "_fd",
        "_group",
        "_is_closing",
        "_is_late",
        "_is_lost",
        "_is_reading",
        "_loop",
        "_peer",
        "_protocol",
        "_read",
        "_taking",
        "_tls",
        "_waiting",
        "_waiting_bytes",
        "_write",
    )

    def __init__(
        self, group: TransportGroup, tls: ssl.SSLSocket, protocol: asyncio.Protocol, peer: object
    ) -> None:
        """tls: its handshake is done, and it does not block. peer: the client's address."""
        self._group, self._tls, self._protocol, self._peer = group, tls, protocol, peer
        self._loop, self._taking = group.loop, group.taking
        self._fd = tls.fileno()
        self._read, self._write = tls.read, tls.write
        self._waiting: deque[memoryview] | None = None  # even an empty one takes 700 bytes
        self._waiting_bytes = 0
        self._is_reading = False
        self._is_late = False  # whether it waits for its turn to read
        self._is_closing = False
        self._is_lost = False

    def start(self) -> None:
        """Begin to serve the connection."""
        self._protocol.connection_made(self)
        self.resume_reading()

    # ---- reading

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            if not self._is_late:
                self._loop.add_reader(self._fd, self._on_readable)

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def is_reading(self) -> bool:
        return self._is_reading

    def read_late(self) -> None:
        """Read data that has been waiting for some rounds."""
        self._is_late = False
        if self._is_reading:
            self._loop.add_reader(self._fd, self._on_readable)
            self._on_readable()

    def _on_readable(self) -> None:
        group = self._group
        if not group.reads_left:
            if not self._is_late:
                self._is_late = True
                self._loop.remove_reader(self._fd)  # Otherwise each round would report again that it waits.
                group.postpone(self)
            return
        group.reads_left -= 1
        if not group.reads_left:
            self._loop.call_soon(group.begin_round)
        taking = self._taking
        taking.under_way = (self._tls,)
        try:
            data = self._read(RECORD_BYTES)
            if len(data) == RECORD_BYTES:
                data = self._with_following(data)
        except _WANTS:
            return
        except OSError as error:
            self._lose(error)
            return
        finally:
            taking.under_way = None
        if not data:
            self._protocol.eof_received()
            self._close_after_client()
            return
        try:
            self._protocol.data_received(data)
        except Exception as failure:  # It does not know what it has received: nothing more must follow.
            self._loop.call_exception_handler({"message": "data_received failed", "exception": failure})
            self._lose(failure)

    def _with_following(self, data: bytes) -> bytes:
        """Returns data with the TLS records that follow it, if they have arrived: a long body."""
        records = [data]
        with contextlib.suppress(*_WANTS):
            while len(data) == RECORD_BYTES and len(records) * RECORD_BYTES < TURN_BYTES:
                data = self._read(RECORD_BYTES)
                records.append(data)
        if not data:
            self._loop.call_soon(self._see_end)
        return b"".join(records)

    def _see_end(self) -> None:
        """Read the end of the connection again, which the socket might not report another time."""
        if self._is_reading:
            self._on_readable()

    # ---- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing:
            return
        if self._waiting is not None:
            self._enqueue(self._waiting, memoryview(data))
            return
        if len(data) > LONG_BYTES:
            self._write_waiting(deque(), memoryview(data))
            return
        try:
            written = self._write(data)
        except _WANTS:
            written = 0
        except OSError as error:
            self._lose(error)
            return
        if written < len(data):
            self._write_waiting(deque(), memoryview(data)[written:])

    def _write_waiting(self, waiting: deque[memoryview], data: memoryview) -> None:
        """Write long data, part of which may have to wait."""
        self._enqueue(waiting, data)
        if self._write_all(waiting, FIRST_TURN_BYTES) or self._is_lost:
            return
        self._waiting = waiting
        self._loop.add_writer(self._fd, self._on_writable)
        self._protocol.pause_writing()

    def _enqueue(self, waiting: deque[memoryview], data: memoryview) -> None:
        if data:
            waiting.append(data)
            self._waiting_bytes += len(data)

    def _write_all(self, waiting: deque[memoryview], bytes_max: int = TURN_BYTES) -> bool:
        """Write what the client takes now, up to its share of the turn. Returns True if all was written."""
        written = 0
        is_corked = self._waiting_bytes > LONG_BYTES and self._cork(True)
        try:
            while waiting and written < bytes_max:
                if len(waiting) > 1 and len(waiting[0]) < RECORD_BYTES:
                    _join_small(waiting)
                # After a failure the same bytes have to be given again, or more that begin with them.
                count = self._write(waiting[0])
                written += count
                self._waiting_bytes -= count
                if count == len(waiting[0]):
                    waiting.popleft()
                else:
                    waiting[0] = waiting[0][count:]
        except _WANTS:
            pass
        except OSError as error:
            self._lose(error)
            return False
        if is_corked:
            self._cork(False)
        return not waiting

    def _cork(self, is_corked: bool) -> bool:
        """Have the kernel gather records, or send what it has gathered (TCP_CORK). Returns False if the
        kernel cannot.

        Sending each record alone costs half as much again.
        """
        if _TCP_CORK is None:
            return False
        with contextlib.suppress(OSError):
            self._tls.setsockopt(socket.IPPROTO_TCP, _TCP_CORK, is_corked)
        return True

    def _on_writable(self) -> None:
        assert self._waiting is not None
        if not self._write_all(self._waiting):
            return
        self._waiting = None
        self._loop.remove_writer(self._fd)
        if self._is_closing:
            self._finish()
        else:
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (0, 0)

    def can_write_eof(self) -> bool:
        return False

    # ---- the end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Send all waiting data, then close."""
        if self._is_closing:
            return
        self.pause_reading()
        self._is_closing = True
        if self._waiting is None:
            self._finish()

    def _close_after_client(self) -> None:
        if self._waiting is None:
            self.retire()
        else:
            self.close()

    def abort(self) -> None:
        """Close now, and drop unsent data."""
        self._lose(None)

    def retire(self) -> None:
        """Close now, where nothing is under way in either direction."""
        if not self._is_lost:
            self._forget(None)
            self._unwrap()
            self._tls.close()

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._forget(error)
        with contextlib.suppress(OSError):
            self._tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD_UNSENT)
        self._tls.close()

    def _finish(self) -> None:
        """Shut down the sending side, and wait a little for the client to close, too."""
        if self._is_lost:
            return
        self._forget(None)
        self._unwrap()
        plain = self._tls
        LingeringSocket(self._group, socket.socket(plain.family, plain.type, plain.proto, plain.detach()))

    def _unwrap(self) -> None:
        self._taking.under_way = (self._tls,)
        try:
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()
        finally:
            self._taking.under_way = None

    def _forget(self, error: Exception | None) -> None:
        self.pause_reading()
        self._is_closing = self._is_lost = True
        self._loop.remove_writer(self._fd)
        self._waiting, self._waiting_bytes = None, 0
        self._loop.call_soon(self._protocol.connection_lost, error)
        self._group.on_closed(self)

    # ---- what it is

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        match name:
            case "socket" | "ssl_object":
                return self._tls
            case "peername":
                return self._peer
            case "unsent":
                return self._waiting_bytes + self._unacknowledged_bytes()
            case "sslcontext":
                return self._tls.context
            case "peercert" if not self._is_lost:
                return self._tls.getpeercert()
            case "sockname" if not self._is_lost:
                return self._tls.getsockname()
        return default

    def _unacknowledged_bytes(self) -> int:
        """Returns how many bytes the kernel holds for the client, including those on the way; 0 if
        unknown.
        """
        answer = bytearray(_INT.size)
        try:
            fcntl.ioctl(self._fd, termios.TIOCOUTQ, answer)
        except OSError:
            return 0
        return int(_INT.unpack(answer)[0])

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


def _join_small(waiting: deque[memoryview]) -> None:
    """Join the first waiting pieces into one of about the size of a TLS record."""
    pieces, size = [], 0
    while waiting and size < RECORD_BYTES:
        piece = waiting.popleft()
        pieces.append(piece)
        size += len(piece)
    waiting.appendleft(memoryview(b"".join(pieces)))


class LingeringSocket:
    """A socket that is only read until its client has closed it, too, or the time is up."""

    def __init__(self, group: TransportGroup, plain: socket.socket) -> None:
        self._group, self._loop, self._socket = group, group.loop, plain
        group.lingering.add(self)
        self._timer = self._loop.call_later(LINGER_S, self.close)
        self._loop.add_reader(plain.fileno(), self._discard)
        try:
            plain.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

    def _discard(self) -> None:
        try:
            if self._socket.recv(_DISCARDED_BYTES):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        self._group.lingering.discard(self)
        self._timer.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
