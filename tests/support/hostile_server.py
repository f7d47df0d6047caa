"""A server that answers each request with whatever bytes a test wants, or with none."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.support.etcd_process import TlsFiles

# Answers a request on a connection.
Answer = Callable[[socket.socket, bytes], object]


def head(status: str, *fields: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()


def content(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    return head(status, f"Content-Length: {len(body)}", *fields) + body


def sending(data: bytes) -> Answer:
    return lambda connection, _: connection.sendall(data)


def hang(connection: socket.socket, _: bytes) -> None:
    while connection.recv(65_536):
        pass


def trickle(connection: socket.socket, _: bytes) -> None:
    connection.sendall(head("200 OK", "Content-Length: 1000"))
    while True:
        connection.sendall(b" ")
        time.sleep(0.02)


def flood(connection: socket.socket, _: bytes) -> None:
    connection.sendall(head("200 OK", "Connection: close"))
    while True:
        connection.sendall(b"x" * 1_000_000)


@contextmanager
def server(answer: Answer, files: TlsFiles | None = None) -> Iterator[str]:
    """A server that answers every request so, by HTTPS if it has a certificate; yields its URL."""
    context = None
    if files is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), ExitStack() as stack:
                connection = self.request
                if context is not None:
                    connection = stack.enter_context(context.wrap_socket(connection, server_side=True))
                received = b""
                while b"\r\n\r\n" not in received:
                    received += connection.recv(65_536) or b"\r\n\r\n"
                answer(connection, received)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):  # Else the answer could be lost.
                    pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        listening.block_on_close = False
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            scheme = "http" if files is None else "https"
            yield f"{scheme}://127.0.0.1:{listening.server_address[1]}"
        finally:
            listening.shutdown()
            thread.join()
