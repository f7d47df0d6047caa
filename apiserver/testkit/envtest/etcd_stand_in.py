"""A stand-in for the program `etcd`, which answers health checks and stores nothing.

It accepts etcd's flags, and uses `--listen-client-urls` and `--data-dir`. An interpreter runs this file by
its path, without site-packages: it imports only the necessary modules, so that it answers in a hundredth of a
second.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

# How a server knows it, in the header `Server` of its answers.
NAME = "apiserver-etcd-stand-in"
DEFAULT_URL = "http://localhost:2379"
BACKLOG = 128
# A client that does not send its request by then is not waited for.
REQUEST_WITHIN_S = 1.0
REQUEST_BYTES_MAX = 8192
USAGE_CODE = 2
HEALTH = {
    "/health": ("application/json", '{"health":"true","reason":""}'),
    "/livez": ("text/plain", "ok\n"),
    "/readyz": ("text/plain", "ok\n"),
}
HELP = """\
Usage: etcd [flags]

A stand-in for etcd, which only responds to health checks and stores nothing. To use a real etcd instead, run
`apiserver envtest-assets --etcd real`. This program also accepts all other flags of etcd.

  --listen-client-urls 'http://localhost:2379'
    A comma-separated list of the URLs to listen on. The scheme must be http.
  --data-dir ''
    A directory, which is created if it does not exist.
  --advertise-client-urls, --listen-peer-urls, --initial-advertise-peer-urls, --initial-cluster, --wal-dir
    Have no effect.
  --unsafe-no-fsync
    Has no effect.
"""


class NotSupported(ValueError):
    """The etcd stand-in does not support its arguments; the message is one line."""


def parse(arguments: list[str]) -> dict[str, str]:
    """Returns the flags, without their hyphens, in all forms that Go's flag package reads."""
    flags: dict[str, str] = {}
    remaining = iter(arguments)
    name = ""
    for argument in remaining:
        if argument.startswith("-"):
            name, _, value = argument.lstrip("-").partition("=")
            flags[name] = value
        elif name:
            flags[name], name = argument, ""
    return flags


def parse_url(url: str) -> tuple[str, int]:
    """Returns host and port. Raises NotSupported."""
    scheme, separator, authority = url.partition("://")
    host, colon, port = authority.rstrip("/").rpartition(":")
    if not (separator and colon and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise NotSupported(f"--listen-client-urls: {url} is not a URL with a port")
    if scheme != "http":
        raise NotSupported(
            f"--listen-client-urls: {url}: the stand-in for etcd supports only http; "
            "for a real etcd, run apiserver envtest-assets --etcd real"
        )
    return host.strip("[]"), int(port)


def listen(host: str, port: int) -> list[socket.socket]:
    """Returns a socket for each address of a host. Raises OSError."""
    listening: list[socket.socket] = []
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        each = socket.socket(family, kind, protocol)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            each.bind(address)
        except OSError:
            each.close()
            # A machine without IPv6 may still have a name for its loopback address.
            if family == socket.AF_INET6 and listening:
                continue
            raise
        each.listen(BACKLOG)
        # A client may have gone before it is accepted.
        each.setblocking(False)
        listening.append(each)
    return listening


def answer(connection: socket.socket) -> None:
    """Read one request, and respond to it. Raises OSError."""
    ends_at = time.monotonic() + REQUEST_WITHIN_S
    request = b""
    while b"\r\n\r\n" not in request and len(request) <= REQUEST_BYTES_MAX:
        # A timeout of 0 would be one of a socket that does not wait at all.
        connection.settimeout(max(ends_at - time.monotonic(), 0.001))
        received = connection.recv(REQUEST_BYTES_MAX)
        if not received:
            return
        request += received
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
    kind, body = HEALTH.get(path, ("text/plain", f"{NAME} has only {', '.join(HEALTH)}\n"))
    head = (
        f"HTTP/1.1 {'200 OK' if path in HEALTH else '404 Not Found'}\r\nServer: {NAME}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    connection.sendall((head if method == b"HEAD" else head + body).encode())


def serve(listening: list[socket.socket]) -> None:
    """Serve requests one after another, until a signal ends the process."""
    while True:
        ready, _, _ = select.select(listening, [], [])
        for each in ready:
            try:
                connection, _ = each.accept()
                with connection:
                    answer(connection)
            except OSError:
                continue  # The client has gone, or never said anything.


def main(arguments: list[str]) -> int:
    flags = parse(arguments)
    if flags.keys() & {"help", "h"}:
        print(HELP, end="")
        return 0
    if "version" in flags:
        print(f"{NAME}: a stand-in for etcd in tests")
        return 0
    urls = (flags.get("listen-client-urls") or DEFAULT_URL).split(",")
    try:
        listening = [each for url in urls for each in listen(*parse_url(url))]
        if flags.get("data-dir"):
            os.umask(0o077)  # for those above it, too
            os.makedirs(flags["data-dir"], exist_ok=True)
    except (NotSupported, OSError) as error:
        print(f"etcd: {error}", file=sys.stderr)
        return USAGE_CODE if isinstance(error, NotSupported) else 1
    # An interpreter would write a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for url in urls:
        # Source of the words: etcd, embed/serve.go, until 3.5. Before 0.9 envtest waits for them.
        authority = url.partition("://")[2].rstrip("/")
        print(f"serving insecure client requests on {authority}, by {NAME}", file=sys.stderr, flush=True)
    serve(listening)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
