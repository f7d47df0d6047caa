"""Certificates and CAs are replaced while the server runs, and no request fails."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from tests.support.authority import Authority
from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import ServerProcess

ROTATIONS: Final = 2
CLIENTS: Final = 4


@dataclass
class Site:
    """A server with files that a test may change."""

    directory: Path
    serving: Authority
    clients: Authority
    server: ServerProcess

    def context(self, authority: Authority | None = None, name: str = "carol") -> ssl.SSLContext:
        """How a client connects. authority: whose certificate it shows."""
        context = ssl.create_default_context(cafile=self.serving.ca)
        if authority is not None:
            files = authority.issue(name)
            context.load_cert_chain(files.certificate, files.key)
        return context

    def connect(self, context: ssl.SSLContext, host: str = "127.0.0.1") -> http.client.HTTPSConnection:
        port = urlsplit(self.server.url).port
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=WITHIN_S)
        connection.connect()
        return connection

    def shown(self, server_name: str = "127.0.0.1") -> int:
        """The serial number of the certificate that a new client is shown."""
        address = urlsplit(self.server.url)
        assert address.port is not None
        context = self.context()
        context.check_hostname = False
        with (
            socket.create_connection(("127.0.0.1", address.port), WITHIN_S) as plain,
            context.wrap_socket(plain, server_hostname=server_name) as tls,
        ):
            found = x509.load_der_x509_certificate(tls.getpeercert(True) or b"")
        return found.serial_number


def serial(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("rotation")
    serving, clients = Authority(directory / "serving"), Authority(directory / "clients")
    default, named = serving.issue("default"), serving.issue("named", "*.named.example")
    server = ServerProcess(
        directory / "data",
        f"--tls-cert-file={default.certificate}",
        f"--tls-private-key-file={default.key}",
        f"--tls-sni-cert-key={named.certificate},{named.key}",
        f"--client-ca-file={clients.ca}",
    )
    with server.start():
        yield Site(directory, serving, clients, server)


@dataclass
class Load:
    """Clients that ask all the time, on one connection and on new ones."""

    site: Site
    errors: list[str] = field(default_factory=list)
    answers: int = 0

    def __enter__(self) -> Load:
        self._is_over = threading.Event()
        contexts = [self.site.context(self.site.clients, f"client-{number}") for number in range(CLIENTS)]
        self._threads = [threading.Thread(target=self._ask, args=(context,)) for context in contexts]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, context: ssl.SSLContext) -> None:
        try:
            with closing(self.site.connect(context)) as kept:
                while not self._is_over.is_set():
                    with closing(self.site.connect(context)) as new:
                        for connection in (kept, new):
                            code = status(connection)
                            self.answers += 1
                            if code != 200:
                                self.errors.append(f"{code}")
        except (OSError, http.client.HTTPException) as error:
            self.errors.append(repr(error))


@pytest.mark.slow
def test_serving_certificates_rotate_under_load(site: Site) -> None:
    with Load(site) as load:
        for _ in range(ROTATIONS):
            before = load.answers
            default, named = site.serving.issue("default"), site.serving.issue("named", "*.named.example")
            wanted = serial(default.certificate)
            until(site.shown, lambda found, wanted=wanted: found == wanted, "the new certificate")  # type: ignore[misc]
            wanted = serial(named.certificate)
            until(
                lambda: site.shown("a.named.example"),
                lambda found, wanted=wanted: found == wanted,  # type: ignore[misc]
                "the new certificate for a name",
            )
            until(lambda: load.answers, lambda count, before=before: count > before, "requests")  # type: ignore[misc]
    assert load.errors == []


def status(connection: http.client.HTTPSConnection, path: str = "/version") -> int:
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def test_client_cas_are_replaced(site: Site) -> None:
    """What a CA has signed that is not trusted any more proves nothing, on old connections either."""
    path = site.clients.ca
    before, other = path.read_bytes(), Authority(site.directory / "others")
    old, new = site.context(site.clients), site.context(other)

    def admitted(context: ssl.SSLContext) -> bool:
        """Whether a new connection with a certificate can be used."""
        with contextlib.suppress(ssl.SSLError, ConnectionError), closing(site.connect(context)) as connection:
            return status(connection) == 200
        return False

    with closing(site.connect(old)) as connection:
        assert status(connection) == 200
        assert not admitted(new)
        path.write_bytes(other.ca.read_bytes())
        assert until(lambda: status(connection), lambda code: code != 200) == 401
        assert admitted(new)
        assert not admitted(old)
        path.write_bytes(before)
        assert until(lambda: status(connection), lambda code: code != 401) == 200
