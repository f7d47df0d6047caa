"""Opens many watches and reads them as cheaply as Python can, counting events and their delays.

    python -m benchmarks.watch_clients URL TARGET WATCHERS

Prints `ready` once all watches have begun. For each line on its input, a number of events, it prints a line
of JSON (`Received`) once every watch has received so many more. It ends with its input.

It is a process of its own without an event loop, as it shares two cores with the server that it measures: it
waits for readiness, reads once from the socket, decrypts in memory, and searches for the stamp. All
deliveries on all watches are measured.
"""

from __future__ import annotations

import array
import dataclasses
import json
import resource
import selectors
import socket
import ssl
import sys
import time
from typing import Final

from benchmarks import load

STAMP: Final = b"sent-at:"
_STAMP_END: Final = b";"
_HEAD_END: Final = b"\r\n\r\n"
# At least the size of a TLS record, so that one read leaves nothing in the TLS object.
_RECORD_BYTES: Final = 32 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """What the watches received in one round.

    delays_s: from the stamp in an event until a watch has read it; p50, p99 and max over all deliveries.
    ended_at: when the last event was read, on the clock of the stamps. cpu_s: the CPU time of reading.
    """

    deliveries: int
    ended_at: float
    delays_s: dict[str, float]
    cpu_s: float


def stamp() -> str:
    """Text that marks an event with its time. The clock is the same in all processes of a machine."""
    return f"{STAMP.decode()}{time.perf_counter():.6f};"


class _Watch:
    def __init__(self, url: str, target: str, context: ssl.SSLContext) -> None:
        self.socket = socket.create_connection(load.address(url))
        self._incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, outgoing)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(outgoing.read())
                self._incoming.write(self.socket.recv(_RECORD_BYTES))
        self._tls.write(load.request("GET", target))
        self.socket.sendall(outgoing.read())
        self.has_begun = False
        self.count = 0
        self._rest = b""

    def read(self, buffer: memoryview, delays: array.array[float]) -> None:
        """Read what has arrived. Raises UnexpectedAnswer when the watch has ended."""
        size = self.socket.recv_into(buffer)
        if not size:
            raise load.UnexpectedAnswer(f"a watch was closed after {self.count} events")
        self._incoming.write(buffer[:size])
        try:
            while self._incoming.pending:
                self._take(self._tls.read(_RECORD_BYTES), delays)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come

    def _take(self, data: bytes, delays: array.array[float]) -> None:
        if self._rest:
            data = self._rest + data
        if not self.has_begun:
            if _HEAD_END not in data:
                self._rest = data
                return
            if not data.startswith(b"HTTP/1.1 200"):
                raise load.UnexpectedAnswer(data[:500].decode(errors="replace"))
            self.has_begun = True
        now = time.perf_counter()
        position = data.find(STAMP)
        after = 0
        while position >= 0:
            end = data.find(_STAMP_END, position)
            if end < 0:
                break
            self.count += 1
            delays.append(now - float(data[position + len(STAMP) : end]))
            after = end
            position = data.find(STAMP, end)
        # A stamp may be cut between two reads.
        self._rest = data[position:] if position >= 0 else data[max(after, len(data) - len(STAMP) + 1) :]


def main(url: str, target: str, watchers: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = load.tls_context()
    buffer = memoryview(bytearray(load.READ_BYTES))
    delays = array.array("d")
    with selectors.DefaultSelector() as selector:
        watches = [_Watch(url, target, context) for _ in range(watchers)]
        for watch in watches:
            watch.socket.setblocking(False)
            selector.register(watch.socket, selectors.EVENT_READ, watch)
        while not all(watch.has_begun for watch in watches):
            for key, _ in selector.select():
                key.data.read(buffer, delays)
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        total, asked, cpu_before = 0, 0, 0.0
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    key.data.read(buffer, delays)
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                asked, cpu_before = int(line), time.process_time()
                total += asked
                print("counting", flush=True)
            if asked and len(delays) >= asked * watchers and all(watch.count >= total for watch in watches):
                ended_at, cpu_s = time.perf_counter(), time.process_time() - cpu_before
                found = sorted(delays)
                delays_s = {
                    "p50": found[len(found) // 2],
                    "p99": found[int(len(found) * 0.99)],
                    "max": found[-1],
                }
                done = Received(len(found), ended_at, delays_s, cpu_s)
                print(json.dumps(dataclasses.asdict(done)), flush=True)
                asked = 0
                del delays[:]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
