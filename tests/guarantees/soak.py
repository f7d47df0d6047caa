"""`python -m tests.guarantees.soak [--minutes N]`: churn on one server, and what grows meanwhile.

Definitions come and go, objects are written through a webhook and deleted, namespaces are deleted with what
is in them, watches end and resume. Each minute it prints memory, open files, asyncio tasks, threads, and the
latency of a GET and of a create. At the end it compares the last fifth of the samples with the first fifth
after the warm-up.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from tests.support.api import Api
from tests.support.definitions import define, definition
from tests.support.etcd_process import wheel_etcd
from tests.support.objects import config_map, config_maps
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Review, WebhookServer

NAMESPACE: Final = "soak"
WATCHES: Final = 60
WATCH_S_MAX: Final = 10.0
WRITERS: Final = 3
# Between two requests of one client: a machine that is full shows nothing but that.
PAUSE_S: Final = 0.02
PROBES: Final = 100
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# The part of the time in which caches fill and the heap takes its shape.
WARM_UP: Final = 0.2
# By which factor memory, and by how many files, tasks and threads, may then grow.
MEMORY_GROWTH_MAX: Final = 1.1
COUNT_GROWTH_MAX: Final = 10


class Sample(NamedTuple):
    """What one minute has shown. Latencies: the medians and 99th percentiles, in milliseconds."""

    memory_mb: float
    files: int
    tasks: int
    threads: int
    get_ms: float
    get_p99_ms: float
    create_ms: float
    create_p99_ms: float


class Client(NamedTuple):
    """What one client does again and again. pause_s: between two times, in seconds."""

    name: str
    work: Callable[[Api, random.Random], None]
    pause_s: float = PAUSE_S


class Allowing(WebhookServer):
    """A webhook that allows everything."""

    async def answer(self, path: str, review: Review) -> Review:
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


class Churn:
    """Clients in threads of another process, so that latencies are those of the server.

    done, failures: after the end, how often each kind did its work, and what failed.
    """

    def __init__(self, server: ServerProcess, clients: Sequence[Client]) -> None:
        context = multiprocessing.get_context("fork")
        self._is_over, self._results = context.Event(), context.SimpleQueue()
        self._process = context.Process(target=self._run, args=(server, clients), daemon=True)
        self.done: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.done, self.failures = self._results.get()
        self._process.join()

    def _run(self, server: ServerProcess, clients: Sequence[Client]) -> None:
        threads = [threading.Thread(target=self._work, args=(server, *each)) for each in enumerate(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._results.put((self.done, self.failures))

    def _work(self, server: ServerProcess, number: int, client: Client) -> None:
        rng = random.Random(number)
        while not self._is_over.wait(client.pause_s):
            try:
                with Api(server) as api:
                    while not self._is_over.wait(client.pause_s):
                        client.work(api, rng)
                        self.done[client.name] += 1
            except (AssertionError, OSError, HTTPException) as error:
                self.failures[f"{client.name}: {type(error).__name__}: {error}"[:200]] += 1


def write(api: Api, rng: random.Random) -> None:
    """An object's life, through the webhook."""
    path, name = config_maps(NAMESPACE), f"o-{rng.randrange(10**9)}"
    created = api.post(path, config_map(name, text="x" * rng.randrange(2_000))).ok()
    api.put(f"{path}/{name}", {**created, "data": {"text": "y"}}).ok()
    manager = f"manager-{rng.randrange(20)}"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {manager: "z"}}
    api.apply(f"{path}/{name}?fieldManager={manager}&force=true", applied).ok()
    api.get(f"{path}?limit=10&labelSelector=a%3D{rng.randrange(100)}").ok()
    api.delete(f"{path}/{name}").ok()


def watch(api: Api, rng: random.Random) -> None:
    """A watch from now, which ends after some seconds or with its client."""
    version = api.get(f"{config_maps(NAMESPACE)}?limit=1").ok()["metadata"]["resourceVersion"]
    seconds = 1 + rng.randrange(int(WATCH_S_MAX) - 1)
    path = f"{config_maps(NAMESPACE)}?watch=true&resourceVersion={version}&timeoutSeconds={seconds}"
    with api.watch(path) as events:
        events.take(rng.randrange(100)) if rng.random() < 0.5 else list(events)


def come_and_go(api: Api, rng: random.Random) -> None:
    """A definition, its objects, and their end."""
    defined = define(api, definition(f"g{rng.randrange(10**9)}.example.com"))
    for number in range(20):
        defined.create(f"w-{number}", spec={"size": number}).ok()
    api.get(defined.objects()).ok()
    api.delete(defined.path).ok()


def fill_and_delete(api: Api, rng: random.Random) -> None:
    """A namespace that is deleted with what is in it."""
    name = f"n-{rng.randrange(10**9)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    for number in range(10):
        api.post(config_maps(name), config_map(f"c-{number}")).ok()
    api.delete(f"/api/v1/namespaces/{name}").ok()


def sample(server: ServerProcess, api: Api) -> Sample:
    path = config_maps("default")
    gets = [_timed(lambda: api.get("/api/v1/namespaces/default").ok()) for _ in range(PROBES)]
    creates = []
    for number in range(PROBES):
        creates.append(_timed(lambda: api.post(path, config_map(f"probe-{number}")).ok()))  # noqa: B023
        api.delete(f"{path}/probe-{number}").ok()
    process = Path(f"/proc/{server.pid}")
    tasks = api.get("/debug/pprof/tasks").body.decode()
    return Sample(
        int((process / "statm").read_text().split()[1]) * PAGE_BYTES / 1e6,
        len(list((process / "fd").iterdir())),
        int(tasks.split(maxsplit=2)[1]),
        len(list((process / "task").iterdir())),
        *_percentiles(gets),
        *_percentiles(creates),
    )


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _percentiles(values: list[float]) -> tuple[float, float]:
    values.sort()
    return values[len(values) // 2], values[len(values) * 99 // 100]


def grown(samples: Sequence[Sample]) -> list[str]:
    """Returns what has grown from the first samples to the last."""
    part = max(1, len(samples) // 5)

    def ends(name: str) -> tuple[float, float]:
        values = [getattr(each, name) for each in samples]
        return statistics.median(values[:part]), statistics.median(values[-part:])

    found = []
    before, after = ends("memory_mb")
    if after > before * MEMORY_GROWTH_MAX:
        found.append(f"memory: {before:.1f} to {after:.1f} MB")
    for name in ("files", "tasks", "threads"):
        before, after = ends(name)
        if after > before + COUNT_GROWTH_MAX:
            found.append(f"{name}: {before:.0f} to {after:.0f}")
    return found


def soak(seconds: float, *, on_etcd: bool, interval_s: float = 60.0) -> int:
    """Run it, and print what it sees. Returns the exit code."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        webhook = stack.enter_context(Allowing(directory / "webhook"))
        flags = []
        if on_etcd:
            (directory / "etcd").mkdir()
            flags.append(f"--etcd-servers={stack.enter_context(wheel_etcd(directory / 'etcd')).url}")
        server = stack.enter_context(ServerProcess(directory / "data", *flags, module="apiserver"))
        api = stack.enter_context(Api(server))
        api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).ok()
        api.post(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration(webhook)
        ).ok()
        clients = [Client("lives", write)] * WRITERS + [Client("watches", watch)] * WATCHES
        clients += [Client("definitions", come_and_go, 0.5), Client("namespaces", fill_and_delete, 0.5)]
        samples: list[Sample] = []
        began = time.monotonic()
        print(f"{'minute':>6}", *(f"{name:>13}" for name in Sample._fields))
        with Churn(server, clients) as churn:
            while (passed := time.monotonic() - began) < seconds:
                time.sleep(min(interval_s, seconds - passed))
                samples.append(sample(server, api))
                minutes = (time.monotonic() - began) / 60
                print(f"{minutes:6.1f}", *(f"{value:13.1f}" for value in samples[-1]), flush=True)
        print("done:", dict(churn.done))
        print("failures:", dict(churn.failures))
        problems = grown(samples[int(len(samples) * WARM_UP) :])
        print("grown:", "; ".join(problems) or "nothing")
        return 1 if problems or churn.failures else 0


def configuration(webhook: WebhookServer) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    hook = {
        "name": "soak.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{webhook.port}/", "caBundle": webhook.ca_bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "soak"}, "webhooks": [hook]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--store", choices=("embedded", "etcd"), default="etcd")
    given = parser.parse_args()
    return soak(given.minutes * 60, on_etcd=given.store == "etcd")


if __name__ == "__main__":
    sys.exit(main())
