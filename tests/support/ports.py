"""TCP ports of loopback for servers that tests start."""

from __future__ import annotations

import random
import socket
from typing import Final

# Below the range from which Linux takes ports for outgoing connections: none of those takes one of these.
_FIRST_PORT: Final = 12_000
_LAST_PORT: Final = 31_999
_random: Final = random.SystemRandom()  # hypothesis seeds the other one


def free_port() -> int:
    """Returns a port that nothing listens on, and that no other call returns while this process lives."""
    port, reservation = reserved_port()
    reservation.detach()  # The descriptor is open until the process ends.
    return port


def reserved_port() -> tuple[int, socket.socket]:
    """Returns a port that nothing listens on, and that no other call returns until the socket is closed.

    A server takes its port some time after it was chosen, and takes it again after each restart; in between,
    a port that is only free could go to another test. The reservation is the datagram socket of the same
    number, which no test needs: every process of the machine sees it, and it goes with this one.
    """
    while True:
        port = _random.randint(_FIRST_PORT, _LAST_PORT)
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        return port, reservation
