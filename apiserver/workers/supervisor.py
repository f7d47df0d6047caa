"""`--workers N`: several server processes on one port, each with its own watch cache, as replicas are.

The supervisor decides once what all have in common (port, certificates, kubeconfig), forks the workers, and
from then on only looks after them: it serves nobody, and has neither threads nor an event loop.

Why fork: a worker shares the libraries' memory with the others until it writes to it, is ready sooner than a
fresh interpreter, and has exactly the configuration of the first ones, whatever has become of the file since.
Measured, idle: 19 MB of its own against 42 MB. What makes fork dangerous is avoided: it happens in a process
of one thread, before there is any event loop, gRPC channel or TLS context. On Linux libraries are imported
before it; modules of ours that serve are not, because some draw randomness when they are imported, which no
two processes may share. Elsewhere nothing is imported that the supervisor does not need: the frameworks of
macOS do not take well to a fork.

How the port is shared: on Linux each worker has a socket of its own with SO_REUSEPORT, and the kernel spreads
new connections over those that listen; a worker that dies gets no more of them at once. The supervisor's
socket never listens: it keeps the port for the next worker. It is bound while the port is nobody's, so that
two servers cannot share one by mistake. Elsewhere SO_REUSEPORT does not spread connections; there all workers
accept from one socket that they inherit.

A worker that dies after the `ready` line is started again, after a time that grows as long as it keeps dying;
it listens once its cache is filled. One that cannot start before that line ends everything.

Signals: workers ignore SIGINT, which a terminal sends to all of them, and a second SIGTERM, which comes where
an init system sends it to all processes. The supervisor tells them to stop over the line that it has to each
(`apiserver.workers.worker`), and kills them at the second signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apiserver.cli.config import Config
from apiserver.serving import listening
from apiserver.serving.listening import CannotStart
from apiserver.workers import metrics
from apiserver.workers.metrics import Family
from apiserver.workers.worker import Kind, SupervisorClient, message, take_messages

log = logging.getLogger(__name__)

EXIT_FAILURE: Final = 1
EXIT_SIGNALLED: Final = 128  # and the signal's number, as shells have it
RESTART_FIRST_S: Final = 0.5
RESTART_MAX_S: Final = 30.0
# One that has lived for so long begins again with the shortest wait.
STEADY_S: Final = 60.0
# A worker that has not told its metrics by then is shown as it was at the scrape before.
SCRAPE_WITHIN_S: Final = 1.0
BACKLOG: Final = 1024
_SPREADS_BY_PORT: Final = sys.platform == "linux"
_LIBRARIES: Final = (
    "aiohttp.web",
    "cbor2",
    "cryptography.x509",
    "google.protobuf.descriptor_pool",
    "grpc.aio",
    "jsonpatch",
    "orjson",
    "sortedcontainers",
    "ssl",
    "uvloop",
)
_READ_BYTES: Final = 262_144
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

# Called in the worker.
LoopFactory: TypeAlias = Callable[[], Callable[[], asyncio.AbstractEventLoop] | None]


def supervise(config: Config, on_ready: Callable[[str, Path], None], loop_factory: LoopFactory) -> int:
    """Run `config.workers` workers until SIGTERM or SIGINT; the exit code.

    on_ready: called once, with URL and kubeconfig, when all are ready. Raises CannotStart.
    """
    if _SPREADS_BY_PORT:
        for library in _LIBRARIES:
            with contextlib.suppress(ImportError):  # uvloop need not be there
                importlib.import_module(library)
    certificates = listening.make_certificates(config)
    reserved = listening.bind(config, config.secure_port, reuse_port=False)
    port = reserved[0].getsockname()[1]
    if _SPREADS_BY_PORT:
        listening.allow_port_reuse(reserved)
    else:
        for bound in reserved:
            bound.listen(BACKLOG)
    listening.write_kubeconfig(config, port, certificates)
    gc.collect()
    gc.freeze()  # looking through the objects that are shared would write to them
    where = listening.url(config, port), listening.kubeconfig_path(config)
    supervisor = _Supervisor(config, port, reserved, lambda: on_ready(*where), loop_factory)
    try:
        return supervisor.run()
    finally:
        supervisor.kill_all()


class WorkerSlot:
    """One place among the workers, and the process that has it now.

    restarts: of this place. starts_at: when the next process is to be forked, if there is none.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.line: socket.socket | None = None
        self.received, self.unsent = bytearray(), bytearray()
        self.is_line_open = self.is_connected = self.is_ready = False
        self.scrapes_owed = 0
        self.metrics: dict[str, Family] = {}
        self.restarts = 0
        self.started_at = self.starts_at = 0.0
        self.wait_s = RESTART_FIRST_S

    def began(self, pid: int, line: socket.socket, now: float) -> None:
        self.pid, self.line, self.started_at = pid, line, now

    def ended(self, now: float) -> None:
        """Wait before the next process, longer each time unless this one was steady."""
        if now - self.started_at > STEADY_S:
            self.wait_s = RESTART_FIRST_S
        self.starts_at = now + self.wait_s
        self.wait_s = min(self.wait_s * 2, RESTART_MAX_S)
        self.line, self.scrapes_owed = None, 0
        self.is_line_open = self.is_connected = self.is_ready = False
        self.metrics = {}
        self.received.clear()
        self.unsent.clear()


class _Supervisor(Collector):
    def __init__(
        self,
        config: Config,
        port: int,
        reserved: list[socket.socket],
        on_ready: Callable[[], None],
        loop_factory: LoopFactory,
    ) -> None:
        self._config, self._port, self._reserved = config, port, reserved
        self._on_ready, self._loop_factory = on_ready, loop_factory
        self._workers = [WorkerSlot(number) for number in range(1, config.workers + 1)]
        self._is_announced = self._is_stopping = False
        self._code = 0
        self._selector = selectors.DefaultSelector()
        self._signals, self._signal_writer = socket.socketpair()
        # /metrics: whom the round under way answers, who asked since, until when it waits for answers.
        self._asking: list[WorkerSlot] = []
        self._scrapes: list[WorkerSlot] = []
        self.end_if_due = 0.0
        self._departed: dict[str, Family] = {}
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def run(self) -> int:
        self._handle_signals()
        for worker in self._workers:
            self._start(worker)
        while True:
            now = time.monotonic()
            if not self._is_stopping:
                for worker in self._workers:
                    if not worker.pid and worker.starts_at <= now:
                        worker.restarts += 1
                        self._start(worker)
            elif not any(worker.pid for worker in self._workers):
                return self._code
            if self._asking and self.end_if_due <= now:
                self._end_round()
            for key, events in self._selector.select(self._until_next(now)):
                if key.data is None:
                    for number in self._signals.recv(_READ_BYTES):
                        self._on_signal(signal.Signals(number))
                else:
                    self._on_channel_ready(key.data, events)

    def kill_all(self) -> None:
        """Leave none behind."""
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
                worker.pid = 0

    def collect(self) -> Iterable[Metric]:
        """What the supervisor knows of its workers."""
        yield GaugeMetricFamily(
            "apiserver_workers",
            "Worker processes that are ready.",
            value=sum(worker.is_ready for worker in self._workers),
        )
        restarts = CounterMetricFamily(
            "apiserver_worker_restarts", "How often a worker that had died was started.", labels=["worker"]
        )
        for worker in self._workers:
            restarts.add_metric([str(worker.number)], worker.restarts)
        yield restarts

    # ---- processes

    def _start(self, worker: WorkerSlot) -> None:
        sockets = self._reserved
        if _SPREADS_BY_PORT:
            try:
                sockets = listening.bind(self._config, self._port, reuse_port=True)
            except CannotStart as error:
                if not self._is_announced:
                    raise
                log.error("worker %d: %s", worker.number, error)
                worker.started_at = time.monotonic()
                worker.ended(worker.started_at)
                return
        ours, theirs = socket.socketpair()
        # A signal that came before the child has let go of our handlers would be heard twice.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if not pid:
            self._become_worker(worker, ours, theirs, sockets)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()
        if sockets is not self._reserved:
            for bound in sockets:
                bound.close()
        ours.setblocking(False)
        worker.began(pid, ours, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, worker)
        worker.is_line_open = True

    def _become_worker(
        self, worker: WorkerSlot, ours: socket.socket, theirs: socket.socket, sockets: list[socket.socket]
    ) -> None:
        """In the child. Never returns."""
        code = EXIT_FAILURE
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            # A worker learns of the supervisor's death when nobody has the other end of its line open.
            self._selector.close()
            for sibling in self._workers:
                if sibling.line is not None:
                    sibling.line.close()
            for inherited in (ours, self._signals, self._signal_writer):
                inherited.close()
            if sockets is not self._reserved:
                for bound in self._reserved:
                    bound.close()
            _name_log_records(worker.number)
            part = SupervisorClient(theirs, sockets, listens_when_ready=self._is_announced)
            with asyncio.Runner(loop_factory=self._loop_factory()) as runner:
                code = runner.run(_serve(self._config, part))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        for worker in self._workers:
            if worker.pid:
                pid, status = os.waitpid(worker.pid, os.WNOHANG)
                if pid:
                    worker.pid = 0
                    self._on_death(worker, pid, os.waitstatus_to_exitcode(status))

    def _on_death(self, worker: WorkerSlot, pid: int, code: int) -> None:
        assert worker.line is not None
        self._receive(worker)  # its last words
        self._end_line(worker)
        worker.line.close()
        self._departed = metrics.combined([self._departed, metrics.counted(worker.metrics)])
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        worker.ended(time.monotonic())
        if self._is_stopping:
            if code:
                log.error("worker %d (process %d) ended %s", worker.number, pid, how)
                self._code = EXIT_FAILURE
        elif self._is_announced:
            wait_s = worker.starts_at - time.monotonic()
            log.error(
                "worker %d (process %d) ended %s; another starts in %.1f s", worker.number, pid, how, wait_s
            )
        else:
            raise CannotStart(f"worker {worker.number} ended {how} before it was ready")
        self._asking = [each for each in self._asking if each is not worker]
        self._scrapes = [each for each in self._scrapes if each is not worker]
        if self._asking:
            self._end_round_if_complete()
        elif self._scrapes:
            self._begin_round()

    # ---- signals

    def _handle_signals(self) -> None:
        self._signals.setblocking(False)
        self._signal_writer.setblocking(False)
        signal.set_wakeup_fd(self._signal_writer.fileno())
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)  # the number arrives in `_signals`
        self._selector.register(self._signals, selectors.EVENT_READ)

    def _on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif self._is_stopping:
            self.kill_all()
            os._exit(EXIT_SIGNALLED + number)
        else:
            self._stop()

    def _stop(self) -> None:
        self._is_stopping = True
        for worker in self._workers:
            if worker.pid:
                self._say(worker, Kind.STOP)

    # ---- lines

    def _on_channel_ready(self, worker: WorkerSlot, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._receive(worker)
        if events & selectors.EVENT_WRITE:
            self._send(worker)

    def _receive(self, worker: WorkerSlot) -> None:
        """Take what there is. A line that ends says no more; the death itself comes as a signal."""
        if worker.line is None or not worker.is_line_open:
            return
        try:
            while data := worker.line.recv(_READ_BYTES):
                worker.received += data
        except BlockingIOError:
            pass
        except ConnectionError:
            self._end_line(worker)
        else:
            self._end_line(worker)
        for kind, text in take_messages(worker.received):
            self._on_message(worker, kind, text)

    def _end_line(self, worker: WorkerSlot) -> None:
        assert worker.line is not None
        if worker.is_line_open:
            self._selector.unregister(worker.line)
        worker.is_line_open = False

    def _on_message(self, worker: WorkerSlot, kind: Kind, text: bytes) -> None:
        match kind:
            case Kind.HELLO:
                worker.is_connected = True
            case Kind.READY:
                self._on_worker_ready(worker)
            case Kind.CANNOT_START if not self._is_announced:
                raise CannotStart(text.decode())
            case Kind.CANNOT_START:
                log.error("worker %d: %s", worker.number, text.decode())
            case Kind.GET_ALL_METRICS:
                self._scrapes.append(worker)
                if not self._asking:
                    self._begin_round()
            case Kind.OWN_METRICS:
                worker.scrapes_owed -= 1
                worker.metrics = metrics.parse(text)
                self._end_round_if_complete()

    def _on_worker_ready(self, worker: WorkerSlot) -> None:
        worker.is_ready = True
        if self._is_announced:
            log.warning("worker %d is back, as process %d", worker.number, worker.pid)
        elif all(each.is_ready for each in self._workers) and not self._is_stopping:
            self._is_announced = True
            self._on_ready()

    def _say(self, worker: WorkerSlot, kind: Kind, text: bytes = b"") -> None:
        worker.unsent += message(kind, text)
        self._send(worker)

    def _send(self, worker: WorkerSlot) -> None:
        """As much as the line takes; the rest when it takes more."""
        if worker.line is None or not worker.is_line_open:
            return
        try:
            del worker.unsent[: worker.line.send(worker.unsent)]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._end_line(worker)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.unsent else 0)
        self._selector.modify(worker.line, events, worker)

    # ---- metrics

    def _begin_round(self) -> None:
        """Ask all for their numbers. Who asks from now on waits for the next round, for numbers from then."""
        self._asking, self._scrapes = self._scrapes, []
        self.end_if_due = time.monotonic() + SCRAPE_WITHIN_S
        for worker in self._workers:
            if worker.is_connected and not worker.scrapes_owed:
                worker.scrapes_owed += 1
                self._say(worker, Kind.GET_OWN_METRICS)
        self._end_round_if_complete()

    def _end_round_if_complete(self) -> None:
        if self._asking and not any(worker.scrapes_owed for worker in self._workers):
            self._end_round()

    def _end_round(self) -> None:
        own = metrics.parse(generate_latest(self._registry))
        sources = [self._departed, *(worker.metrics for worker in self._workers), own]
        text = metrics.exposition(metrics.combined(sources))
        asking, self._asking = self._asking, []
        for worker in asking:
            self._say(worker, Kind.ALL_METRICS, text)
        if self._scrapes:
            self._begin_round()

    def _until_next(self, now: float) -> float | None:
        """How long there is nothing to do but to listen."""
        times = [self.end_if_due] if self._asking else []
        if not self._is_stopping:
            times += [worker.starts_at for worker in self._workers if not worker.pid]
        return max(0.0, min(times) - now) if times else None


# ---- the worker's side


async def _serve(config: Config, part: SupervisorClient) -> int:
    from apiserver.app.server import App

    app = App(config, part)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, app.stop)
    following = asyncio.create_task(part.follow(await part.connect(), app.stop), name="supervisor")
    try:
        await app.run(lambda *_: part.say(Kind.READY))
    except CannotStart as error:
        part.say(Kind.CANNOT_START, str(error).encode())
        return EXIT_FAILURE
    finally:
        following.cancel()
        await part.close()
    return 0


def _name_log_records(number: int) -> None:
    """Records of this process say which worker they are of."""

    def rename(record: logging.LogRecord) -> bool:
        record.name = f"worker-{number}.{record.name}"
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(rename)
