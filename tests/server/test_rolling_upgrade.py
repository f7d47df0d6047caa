"""Drill: two replicas under load are replaced by ones of another release, and back.

The steps are those of docs/operating/upgrade.md.

Clients do what client libraries do: they repeat a request on another connection when one breaks, or when the
server asks for it (429, 503, 504), and continue watches where they ended.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import ssl
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.support.api import Api
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import WITHIN_S, eventually
from tests.support.resuming_watches import ResumingWatches
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.etcd, pytest.mark.slow]  # Six servers start and four stop, one after the other.

OLD, NEW = "1.34", "1.36"
CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
# 1.36 stores them as v1 once it is alone, and 1.34 as v1beta2.
CLAIMS: Final = "/apis/resource.k8s.io/v1beta2/namespaces/default/resourceclaims"
CLAIM_SPEC: Final = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}
FLAGS: Final = (
    "--runtime-config=api/beta=true",
    "--shutdown-delay-duration=1s",
    "--shutdown-watch-termination-grace-period=1s",
)
WRITERS: Final = 4
WATCHES: Final = 10  # of each collection
PAUSE_S: Final = 0.02
RETRIED: Final = frozenset({429, 503, 504})
# The replica that the first attempt asks is gone, the other one breaks a connection that it had kept.
ATTEMPTS_MAX: Final = 4


class Writer(threading.Thread):
    """Creates objects and counts in one of them, until it is stopped.

    written: the paths of objects whose creation was acknowledged. counted: the last acknowledged count.
    repeated: how many requests were sent again. failures: of requests that no repetition has helped.
    """

    def __init__(self, number: int, servers: Sequence[ServerProcess]) -> None:
        super().__init__(name=f"writer-{number}")
        self._number, self._servers = number, servers
        self._turns = itertools.count(number)
        self._tls = ssl.create_default_context(cafile=servers[0].ca_path)
        self._connection: http.client.HTTPSConnection | None = None
        self.is_stopped = threading.Event()
        self.written: list[str] = []
        self.counted = self.repeated = self.requests = 0
        self.longest_s = 0.0
        self.failures: list[str] = []

    @property
    def counter(self) -> str:
        return f"{CONFIGMAPS}/counter-{self._number}"

    def run(self) -> None:
        self._write("POST", CONFIGMAPS, {"metadata": {"name": self.counter.rpartition("/")[2]}})
        for number in itertools.count(1):
            if self.is_stopped.wait(PAUSE_S):
                break
            name = f"w{self._number}-{number}"
            path, more = (CONFIGMAPS, {}) if number % 2 else (CLAIMS, {"spec": CLAIM_SPEC})
            if self._write("POST", path, {"metadata": {"name": name}, **more}):
                self.written.append(f"{path}/{name}")
            if self._write("PATCH", self.counter, {"data": {"n": str(number)}}):
                self.counted = number
        self._close()

    def _write(self, method: str, path: str, body: Any) -> bool:
        """Send a write until it has succeeded. Returns False if it has failed."""
        began = time.monotonic()
        self.requests += 1
        outcome = ""
        for attempt in range(ATTEMPTS_MAX):
            self.repeated += attempt > 0
            try:
                status = self._send(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                outcome = f"{type(error).__name__}: {error}"
                self._close()
                continue
            # Nobody else uses the name: an attempt whose answer was lost has created it.
            if status < 300 or (status == 409 and method == "POST" and attempt):
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                return True
            outcome = str(status)
            if status not in RETRIED:
                break
            self._close()
        self.failures.append(f"{method} {path}: {outcome}")
        return False

    def _send(self, method: str, path: str, body: Any) -> int:
        if self._connection is None:
            where = urlsplit(self._servers[next(self._turns) % len(self._servers)].url)
            assert where.hostname is not None
            self._connection = http.client.HTTPSConnection(
                where.hostname, where.port, context=self._tls, timeout=WITHIN_S
            )
        media_type = "application/json" if method == "POST" else "application/merge-patch+json"
        headers = {"Authorization": "Bearer admin-token", "Content-Type": media_type}
        self._connection.request(method, path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


async def replace_by(servers: Sequence[ServerProcess], flags: tuple[str, ...]) -> None:
    """Stop each replica, and start one of another release at its address, as the page describes."""
    for server in servers:
        assert await asyncio.to_thread(server.stop) == 0
        server.flags = flags
        await asyncio.to_thread(server.start)


async def test_replicas_are_upgraded_and_downgraded_under_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No request fails that is repeated, no write is lost, and no watch misses an event."""
    with wheel_etcd(tmp_path) as etcd:

        def flags(release: str) -> tuple[str, ...]:
            return (f"--etcd-servers={etcd.url}", f"--emulated-version={release}", *FLAGS)

        servers = [ServerProcess(tmp_path / name, *flags(OLD)).start() for name in ("a", "b")]
        with servers[0], servers[1], Api(servers[0]) as api:
            versions = [api.get(path).ok()["metadata"]["resourceVersion"] for path in (CONFIGMAPS, CLAIMS)]
            writers = [Writer(number, servers) for number in range(WRITERS)]
            async with (
                ResumingWatches(servers, CONFIGMAPS, versions[0], WATCHES) as of_configmaps,
                ResumingWatches(servers, CLAIMS, versions[1], WATCHES) as of_claims,
            ):
                began = time.monotonic()
                for writer in writers:
                    writer.start()
                try:
                    await replace_by(servers, flags(NEW))
                    await replace_by(servers, flags(OLD))
                finally:
                    for writer in writers:
                        writer.is_stopped.set()
                    for writer in writers:
                        await asyncio.to_thread(writer.join)
                took_s = time.monotonic() - began
                written = {path for writer in writers for path in writer.written}
                names = {path.rpartition("/")[2]: path for path in written}
                watched = {CONFIGMAPS: of_configmaps, CLAIMS: of_claims}
                await eventually(
                    lambda: all(
                        watched[path.rpartition("/")[0]].seen[name] >= WATCHES for name, path in names.items()
                    )
                )
            stored = {}
            for path in (CONFIGMAPS, CLAIMS):
                for item in api.get(path).ok()["items"]:
                    stored[f"{path}/{item['metadata']['name']}"] = item
            report = (
                f"{sum(writer.requests for writer in writers)} writes in {took_s:.0f} s: "
                f"{sum(writer.repeated for writer in writers)} repeated, "
                f"{sum(len(writer.failures) for writer in writers)} failed, "
                f"{len(written - stored.keys())} lost; "
                f"the longest took {max(writer.longest_s for writer in writers):.2f} s. "
                f"{2 * WATCHES} watches: {sum(each.failed.total() for each in watched.values())} could not "
                "continue"
            )
            with capsys.disabled():
                print(f"\n{report}")
            assert [failure for writer in writers for failure in writer.failures] == []
            assert written - stored.keys() == set()
            assert len(written) > 100
            for writer in writers:
                assert int(stored[writer.counter]["data"]["n"]) >= writer.counted > 0
            for each in watched.values():
                assert not each.failed
                # Neither missed nor seen twice.
                assert {name: count for name, count in each.seen.items() if count != WATCHES} == {}
