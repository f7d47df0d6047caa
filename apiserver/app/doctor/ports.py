"""Checks that the server can listen, and finds the process that uses the port already."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from apiserver.app.doctor import configured_files
from apiserver.app.doctor.report import Finding, error, note, ok
from apiserver.app.serving import listening
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.config import Config
from apiserver.cli.limited_connection import port_of
from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate, parse_pem_certificates
from apiserver.webhooks.tls import unverified_context

# TCP_LISTEN of the Linux kernel, as /proc/net/tcp has it.
_LISTEN: Final = "0A"
# A handshake on the same machine takes milliseconds.
HANDSHAKE_WITHIN_S: Final = 2.0


class Listener(Enum):
    """Who listens on a port."""

    THIS_SERVER = auto()
    ANOTHER_PROGRAM = auto()
    UNKNOWN = auto()


class Port(NamedTuple):
    """The port of the server. problem: why it cannot be used now; empty if it can be.

    owner: the process that listens on it, if it is known. listener: who that is.
    """

    address: str
    port: int
    problem: str = ""
    owner: str = ""
    listener: Listener = Listener.ANOTHER_PROGRAM


def gather(config: Config) -> Port:
    """Binds the port for a moment, without listening. If it is in use, asks who listens."""
    address, port = config.serving.bind_address, config.serving.secure_port
    try:
        for bound in listening.bind(config, port, reuse_port=False):
            bound.close()
    except listening.PortInUse as failure:
        return Port(address, port, str(failure), _process(port), listener(config))
    except listening.CannotStart as failure:
        return Port(address, port, str(failure))
    return Port(address, port)


def examine(facts: Port) -> Iterator[Finding]:
    where = f"{facts.address}:{facts.port}"
    if not facts.problem:
        yield ok(f"{where} is free" if facts.port else "the server chooses a free port when it starts")
    elif facts.listener is Listener.THIS_SERVER:
        yield ok(f"the server listens on {where}")
    elif facts.listener is Listener.UNKNOWN:
        yield note(
            f"{where} is in use{f' by process {facts.owner}' if facts.owner else ''}",
            "Do nothing if this process is the server itself. Otherwise, set --secure-port or "
            "--bind-address.",
        )
    else:
        owner = f"; process {facts.owner} listens on the port" if facts.owner else ""
        yield error(
            f"{facts.problem}{owner}",
            "Stop the other process, or set --secure-port or --bind-address.",
        )


# ---- who listens


def listener(config: Config) -> Listener:
    """Returns who listens, by the certificate of the server and those of the configuration.

    No URL decides this: that of a kubeconfig may lead to a load balancer or another machine.
    """
    url = listening.url(config, config.serving.secure_port)
    try:
        found = _served_certificate(urlsplit(url).hostname or "", port_of(url))
    except (ConnectionRefusedError, ssl.SSLError) as failure:
        # A server with too many connections closes new ones, also during the handshake.
        is_closed = isinstance(failure, ssl.SSLEOFError)
        return Listener.UNKNOWN if is_closed else Listener.ANOTHER_PROGRAM
    except OSError:
        return Listener.UNKNOWN
    try:
        return _compared(config, parse_certificate(found))
    except (OSError, *UNREADABLE):  # The certificates of the configuration cannot be read.
        return Listener.UNKNOWN


def _served_certificate(host: str, port: int) -> bytes:
    with (
        socket.create_connection((host, port), HANDSHAKE_WITHIN_S) as connection,
        unverified_context().wrap_socket(connection) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def _compared(config: Config, served: x509.Certificate) -> Listener:
    """Returns who serves with a certificate. Raises OSError, UNREADABLE.

    The configured file may be newer than the certificate in use, and replicas have similar certificates.
    """
    is_similar = False
    for path in (config.serving.tls_cert_file, configured_files.generated(config).serving_cert):
        if path is None or not path.exists():
            continue
        own = parse_pem_certificates(read_bounded(path))[0]
        if own == served:
            return Listener.THIS_SERVER
        is_similar = is_similar or (own.subject, own.issuer) == (served.subject, served.issuer)
    return Listener.UNKNOWN if is_similar else Listener.ANOTHER_PROGRAM


def _process(port: int, proc: Path = Path("/proc")) -> str:
    """Returns the process that listens on a port, as `1234 (nginx)`; empty if unknown.

    Its arguments are not shown, because they may contain secrets. Root alone can see other users' processes.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening_sockets(port, proc)}
    if not sockets:
        return ""
    for process in proc.glob("[0-9]*"):
        with suppress(OSError):  # It has ended, or is another user's.
            for file in (process / "fd").iterdir():
                if os.readlink(file) in sockets:
                    name = (process / "comm").read_text(errors="replace").rstrip("\n")
                    return f"{process.name} ({name})"
    return ""


def _listening_sockets(port: int, proc: Path) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (proc / "self" / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
