"""`python -m tests.support.dead_dns ARGUMENTS`: apiserver with a DNS server that never responds.

/etc/hosts and /etc/resolv.conf are replaced in a mount namespace of its own, which ends with the process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# In /etc/hosts there: an address of this machine.
NAME: Final = "etcd.example.com"
# Nothing else on this machine responds to it.
_SERVER: Final = ("127.0.53.7", 53)
_DIRECTORY: Final = "DEAD_DNS_DIRECTORY"
_HOSTS: Final = f"127.0.0.1 localhost {NAME}\n"
_RESOLVER: Final = f"nameserver {_SERVER[0]}\n"
_MOUNT: Final = 'mount --bind "$0/hosts" /etc/hosts && mount --bind "$0/resolv.conf" /etc/resolv.conf'
_ISOLATED: Final = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{_MOUNT} && exec "$@"')


class NotPossibleHere(Exception):
    """This process may not do what it takes; the message says what."""


@contextmanager
def dead_dns(directory: Path) -> Iterator[Mapping[str, str]]:
    """The DNS server. Yields the environment that this module needs. Raises NotPossibleHere."""
    (directory / "hosts").write_text(_HOSTS)
    (directory / "resolv.conf").write_text(_RESOLVER)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        # Tests that run at the same time share it, as nobody reads from it.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            server.bind(_SERVER)
            done = subprocess.run([*_ISOLATED, directory, "true"], capture_output=True)
        except OSError as error:
            raise NotPossibleHere(f"a DNS server in a mount namespace: {error}") from None
        if done.returncode != 0:
            raise NotPossibleHere(f"a mount namespace: {done.stderr.decode()}")
        yield {_DIRECTORY: str(directory)}


if __name__ == "__main__":
    os.environ.pop("GRPC_DNS_RESOLVER", None)  # As a test may have imported gRPC's library in this process.
    command = [*_ISOLATED, os.environ[_DIRECTORY], sys.executable, "-m", "apiserver", *sys.argv[1:]]
    os.execvp(command[0], command)
