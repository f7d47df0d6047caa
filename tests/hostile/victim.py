"""`python -m tests.hostile.victim SITE`: what a well-behaved client notices of an attack.

Three users do their work ten times a second each: one reads an object, one writes one, one renews a lease. It
measures from the first line of its input to the end of its input, and then prints `Experience` for each.

A delay counts from when the request was due. So a server that answers nothing for a second delays ten
requests, not only the one that was under way.
"""

from __future__ import annotations

import gc
import http.client
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.hostile.site import VICTIM_ADDRESS, VICTIM_USERS, VICTIMS, Site, config_map, tls_context, token

PERIOD_S: Final = 0.1
# Longer than any server may take; who waits so long counts as refused.
GIVE_UP_S: Final = 30.0


@dataclass
class Experience:
    """What one user got: the delay of each request, and how those ended that did not succeed."""

    delays_ms: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def _get(number: int) -> tuple[str, str, Any]:
    return "GET", f"/api/v1/namespaces/{VICTIMS}/configmaps/victim", None


def _write(number: int) -> tuple[str, str, Any]:
    path = f"/api/v1/namespaces/{VICTIMS}/configmaps/victim"
    return "PUT", path, config_map("victim", {"n": str(number)})


def _renew(number: int) -> tuple[str, str, Any]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{VICTIMS}/leases/victim"
    renewed = f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}.000000Z"
    return "PATCH", path, {"spec": {"renewTime": renewed}}


WORK: Final[dict[str, Callable[[int], tuple[str, str, Any]]]] = {
    "get": _get,
    "write": _write,
    "lease": _renew,
}


class Client:
    """A client of the standard library, with one connection, from an address of its own."""

    def __init__(self, site: Site, user: str, address: str) -> None:
        self._site, self._user, self._address, self._tls = site, user, address, tls_context()
        self._connection: http.client.HTTPSConnection | None = None

    def ask(self, method: str, path: str, body: Any = None) -> str:
        """Returns what went wrong, or nothing."""
        headers = {"Authorization": f"Bearer {token(self._user)}"} if self._user else {}
        if body is not None:
            patches = method == "PATCH"
            headers["Content-Type"] = f"application/{'merge-patch+json' if patches else 'json'}"
        try:
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(
                    self._site.host,
                    self._site.port,
                    timeout=GIVE_UP_S,
                    context=self._tls,
                    source_address=(self._address, 0),
                )
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return type(error).__name__
        return "" if response.status < 300 else str(response.status)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _work(client: Client, make: Callable[[int], tuple[str, str, Any]], ended: threading.Event) -> Experience:
    found = Experience()
    began = time.perf_counter()
    number = 0
    while not ended.wait(max(0.0, began + number * PERIOD_S - time.perf_counter())):
        due = began + number * PERIOD_S
        problem = client.ask(*make(number))
        found.delays_ms.append((time.perf_counter() - due) * 1_000)
        if problem:
            found.refusals.append(problem)
        number += 1
    # Those that were due while the last one was under way.
    now = time.perf_counter()
    found.delays_ms.extend(
        (now - due) * 1_000 for n in range(number, 100_000) if (due := began + n * PERIOD_S) < now
    )
    return found


def main() -> None:
    site = Site.of_argument(sys.argv[1])
    sys.setswitchinterval(0.0005)
    clients = {
        name: Client(site, user, VICTIM_ADDRESS) for name, user in zip(WORK, VICTIM_USERS, strict=True)
    }
    for name, client in clients.items():
        problem = client.ask(*WORK[name](0))
        if problem:
            sys.exit(f"the victim's {name} does not even work without an attack: {problem}")
    print("ready", flush=True)
    sys.stdin.readline()
    gc.disable()
    ended = threading.Event()
    found: dict[str, Experience] = {}

    def measure(name: str) -> None:
        found[name] = _work(clients[name], WORK[name], ended)

    threads = [threading.Thread(target=measure, args=(name,)) for name in WORK]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps({name: asdict(experience) for name, experience in found.items()}), flush=True)


if __name__ == "__main__":
    main()
