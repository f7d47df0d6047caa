"""Listening sockets, certificates, and the kubeconfig with which clients find the server."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

from apiserver.app.serving.pki_files import FRONT_PROXY_NAME, Pki, admin_kubeconfig, write
from apiserver.app.serving.serving_tls import TlsFiles, TlsOptions
from apiserver.cli.config import Config

# Connections that wait to be accepted, of clients that connect again all at once. The limit of the kernel may
# be lower; usually it is the same.
BACKLOG: Final = 4096
# What the system keeps of what a client sends until it is read. The default grows to megabytes, and all that
# is there is read, decrypted and buffered in one turn of the event loop: of 200 clients that send large
# bodies that took 100 ms and 190 MB, with this 40 ms and 80 MB. A body of 3 MiB from the other side of the
# world takes five seconds with it.
RECEIVE_BUFFER_BYTES: Final = 64 * 1024

# Addresses reserved for documentation (RFC 5737, RFC 3849): they are reached by the default route.
_DOCUMENTATION_HOSTS: Final = {4: (socket.AF_INET, "192.0.2.1"), 6: (socket.AF_INET6, "2001:db8::1")}

Sockets: TypeAlias = Sequence[socket.socket]


class CannotStart(Exception):
    """The server cannot start, for a reason outside of it. The message is one line."""


class PortInUse(CannotStart):
    """Another socket is bound to the port."""


def certificate_names(config: Config) -> list[str]:
    """Returns the names of this server for its certificate, beside those that every server has."""
    options = config.serving
    service_addresses = [str(network[1]) for network in config.services.service_cluster_ip_range]
    given = (options.bind_address, options.advertise_address, options.external_hostname)
    return [*filter(None, given), *service_addresses]


def tls_files(config: Config, certificates: Pki) -> TlsFiles:
    """Returns the files of certificates, keys and CAs for client connections."""
    options = config.serving
    serving = (
        options.tls_cert_file or certificates.serving_cert,
        options.tls_private_key_file or certificates.serving_key,
    )
    return TlsFiles(
        serving=serving,
        named=tuple(((each.certificate, each.key), each.names) for each in options.tls_sni_cert_key),
        client_cas=config.authentication.client_ca_file,
        front_proxy_cas=config.authentication.requestheader_client_ca_file
        or certificates.front_proxy_ca_cert,
        own_ca=certificates.ca_cert,
    )


def tls_options(config: Config, *, checks_times: bool) -> TlsOptions:
    """Returns the TLS options of client connections. checks_times: see `TlsOptions`."""
    options = config.serving
    return TlsOptions(options.tls_min_version, options.tls_cipher_suites, checks_times)


def front_proxy_names(config: Config) -> tuple[str, ...]:
    """Returns the common names that certificates of front proxies may have; empty for any."""
    options = config.authentication
    if options.requestheader_allowed_names or options.requestheader_client_ca_file is not None:
        return options.requestheader_allowed_names
    return (FRONT_PROXY_NAME,)


def front_proxy_certificate(config: Config, certificates: Pki) -> tuple[Path, Path]:
    """Returns the certificate that this server shows to extension servers, and its key."""
    options = config.authentication
    if options.proxy_client_cert_file is not None and options.proxy_client_key_file is not None:
        return options.proxy_client_cert_file, options.proxy_client_key_file
    return certificates.front_proxy_cert, certificates.front_proxy_key


def advertised_address(config: Config) -> str:
    """Returns the address that clients in a cluster use; empty if this machine has none.

    As in kube-apiserver it is --bind-address, unless that is a loopback address or all of them: then it is
    the address from which this machine would reach others.
    """
    if config.serving.advertise_address:
        return config.serving.advertise_address
    try:
        bound = ipaddress.ip_address(config.serving.bind_address)
    except ValueError:
        pass  # a name
    else:
        if not (bound.is_loopback or bound.is_unspecified or bound.is_link_local):
            return str(bound)
    preferred = config.services.service_cluster_ip_range[0].version
    versions = sorted(_DOCUMENTATION_HOSTS, key=lambda version: version != preferred)
    return next(filter(None, map(_outgoing_address, versions)), "")


def authority(config: Config, port: int) -> str:
    """Returns the host and port in URLs of this server, as other programs use them."""
    host = config.serving.external_hostname or advertised_address(config) or config.serving.bind_address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _outgoing_address(version: int) -> str:
    family, target = _DOCUMENTATION_HOSTS[version]
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))  # which sends nothing
            found = ipaddress.ip_address(probe.getsockname()[0])
    except OSError:
        return ""
    return "" if found.is_loopback or found.is_link_local or found.is_unspecified else str(found)


def kubeconfig_path(config: Config) -> Path:
    return config.serving.data_dir / "admin.kubeconfig"


class AdminKubeconfig:
    """The administrator's kubeconfig, as this server writes it. port: the server's."""

    def __init__(self, config: Config, port: int, certificates: Pki) -> None:
        self._config, self._port, self._certificates = config, port, certificates
        self._written = b""

    def write(self, trusted: bytes) -> None:
        """Write the file, unless its content is unchanged. trusted: the CA certificates. Raises OSError."""
        wanted = admin_kubeconfig(url(self._config, self._port), self._certificates, trusted)
        if wanted != self._written:
            # Each start writes it anew: no need to wait for the disk.
            write(kubeconfig_path(self._config), wanted, is_durable=False)
            self._written = wanted

    def write_first(self, trusted: bytes) -> None:
        """Writes the file while the server starts. Raises CannotStart."""
        try:
            self.write(trusted)
        except OSError as error:
            path = kubeconfig_path(self._config)
            raise CannotStart(f"cannot write {path}: {error.strerror or error}") from None


def url(config: Config, port: int) -> str:
    """Returns the URL at which clients on this machine reach the server."""
    host = config.serving.bind_address
    if host in ("0.0.0.0", "::", ""):  # noqa: S104  compared, not bound
        host = "127.0.0.1"
    elif ":" in host:
        host = f"[{host}]"
    return f"https://{host}:{port}"


def bind(config: Config, port: int, *, reuse_port: bool) -> list[socket.socket]:
    """Binds a socket for each address of --bind-address, all on one port; none of them listens yet.

    port: 0 for a free one.
    reuse_port: whether to share the port with sockets that are bound already; otherwise it must be free.
    Raises CannotStart.
    """
    with ExitStack() as stack:
        sockets: list[socket.socket] = []
        try:
            for family, address in _addresses(config.serving.bind_address, port):
                bound = stack.enter_context(socket.socket(family))
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
                if reuse_port:
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                bound.bind((address, port))
                port = bound.getsockname()[1]
                sockets.append(bound)
        except OSError as error:
            raise listen_error(config, error) from None
        stack.pop_all()
    return sockets


def allow_port_reuse(sockets: Sockets) -> None:
    """Let other sockets of the same user share the port of these, which were bound when it was free."""
    for bound in sockets:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def listen_error(config: Config, error: OSError) -> CannotStart:
    """Returns the reason of an error, without the address that asyncio's own text repeats."""
    is_of_names = isinstance(error, socket.gaierror) or not error.errno
    reason = (error.strerror or str(error)) if is_of_names else os.strerror(error.errno or errno.EINVAL)
    failure = PortInUse if error.errno == errno.EADDRINUSE else CannotStart
    return failure(f"cannot listen on {config.serving.bind_address}:{config.serving.secure_port}: {reason}")


def read_optional(path: Path | None) -> bytes | None:
    return path.read_bytes() if path is not None else None


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))
