"""Reports the state of the server to the service manager that started it: systemd's `Type=notify`.

The protocol is one datagram a report, to the socket that NOTIFY_SOCKET names. A server that systemd has not
started reports nothing. There is no RELOADING: the server reads changed files by itself while it serves.
Source: sd_notify(3) and sd_watchdog_enabled(3).
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Final

log = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
# The manager reads its socket soon. The event loop waits no longer than this for one that is full.
_SEND_TIMEOUT_S: Final = 0.1


class ServiceManager:
    """The service manager of this process.

    watchdog_s: the time after which it kills a process that has not reported that it is alive; 0 if it does
        not watch this process.
    """

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        self._address, self.watchdog_s = address, watchdog_s

    @classmethod
    def take_from(cls, environment: MutableMapping[str, str], pid: int) -> ServiceManager:
        """Returns the manager that an environment names, and removes it there: child processes have none."""
        address, period_us, watched = (
            environment.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        )
        is_watched = bool(address) and period_us.isdecimal() and watched in ("", str(pid))
        return cls(address, int(period_us) / 1e6 if is_watched else 0.0)

    def notify(self, *states: str) -> None:
        """Report states, each as NAME=VALUE. A failure is logged."""
        if not self._address:
            return
        # A name that begins with @ is in Linux' abstract namespace.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_SEND_TIMEOUT_S)
                sender.sendto("\n".join(states).encode(), address)
        except OSError as error:
            log.warning("cannot report %s to the service manager: %s", states[0], error.strerror or error)

    def feed_watchdog(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report from the event loop that it turns, at twice the rate that the manager asks for."""
        if self.watchdog_s:
            show_stacks_of_stuck_process()
            self._feed(loop)

    def _feed(self, loop: asyncio.AbstractEventLoop) -> None:
        self.notify(ALIVE)
        loop.call_later(self.watchdog_s / 2, self._feed, loop)


def show_stacks_of_stuck_process() -> None:
    """Write the stacks of all threads to stderr when SIGABRT, a watchdog's signal, ends this process."""
    try:
        faulthandler.enable()
    except (OSError, RuntimeError, ValueError) as error:  # stderr is closed, or no file
        log.debug("cannot show stacks: %s", error)


def own_service_manager() -> ServiceManager:
    return ServiceManager.take_from(os.environ, os.getpid())
