"""`--workers N`: several server processes on one port, each with its own watch cache, as replicas are.

The supervisor reserves the port for all workers, forks them, and from then on only watches over them: it
serves no requests, and has neither threads nor an event loop.

Why fork: a worker shares the libraries' memory with the others until it writes to it, is ready sooner than a
fresh interpreter, and has exactly the configuration of the first ones, even if the file has changed since.
Measured, idle: 19 MB of private memory against 42 MB. What makes fork dangerous is avoided: it happens in a
process of one thread, before there is any event loop, gRPC channel or TLS context. On Linux libraries are
imported before it; our own modules that serve requests are not, because some draw random numbers on import,
which no two processes may share. Elsewhere nothing is imported that the supervisor does not need: macOS'
frameworks do not support a fork.

How the port is shared: on Linux each worker has its own socket with SO_REUSEPORT, and the kernel spreads new
connections over those that listen; a worker that dies gets no more of them at once. The supervisor's socket
never listens: it reserves the port for the next worker. It is bound without SO_REUSEPORT, so that two servers
cannot share a port by mistake. Elsewhere SO_REUSEPORT does not spread connections; there all workers accept
from one socket that they inherit.

A worker that dies after the `ready` line is started again, with a delay that grows while it keeps dying; it
listens once its cache is filled. If a worker cannot start before that line, the whole server exits.

Signals: workers ignore SIGINT, which a terminal sends to all of them, and a second SIGTERM, which comes where
an init system sends it to all processes. The supervisor tells them to stop with a message, and kills them at
the second signal.

Watchdog: where the service manager watches the server, the supervisor watches the workers in the same way. It
ends one that has not reported for as long that its event loop turns, and another process takes its place.
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
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from apiserver.app.serving import exit_codes, listening, logs
from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.service_manager import READY, STOPPING, ServiceManager
from apiserver.app.serving.shutdown import Shutdown
from apiserver.app.workers import metrics
from apiserver.app.workers.channel import Channel
from apiserver.app.workers.messages import MessageKind
from apiserver.app.workers.metrics import MetricFamily
from apiserver.app.workers.scrapes import ScrapeRounds
from apiserver.app.workers.slots import WorkerSlot
from apiserver.app.workers.watchdog import WorkerWatchdog
from apiserver.app.workers.worker import SupervisorClient
from apiserver.cli.config import Config
from apiserver.cli.printing import flush_output
from apiserver.metrics.process import process_families
from apiserver.metrics.registry import MetricRegistry
from apiserver.metrics.series import Family, family, single

log = logging.getLogger(__name__)

_SPREADS_BY_PORT: Final = sys.platform == "linux"
_LIBRARIES: Final = (
    "aiohttp.web",
    "cbor2",
    "cryptography.x509",
    "google.protobuf.descriptor_pool",
    "hpack",
    "jsonpatch",
    "orjson",
    "sortedcontainers",
    "ssl",
    "uvloop",
)
_SIGNAL_BYTES: Final = 4_096
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

# Called in the worker.
LoopFactory: TypeAlias = Callable[[], Callable[[], asyncio.AbstractEventLoop] | None]
ServeWorker: TypeAlias = Callable[[Config, SupervisorClient], Coroutine[None, None, int]]


def supervise(
    config: Config,
    on_ready: Callable[[str, Path], None],
    loop_factory: LoopFactory,
    serve: ServeWorker,
    manager: ServiceManager,
) -> int:
    """Run `config.workers` workers until SIGTERM or SIGINT. Returns the exit code.

    on_ready: called once, with the URL and the path of the kubeconfig, when all workers are ready.
    loop_factory: called in each worker.
    serve: runs in each worker until the supervisor stops it, and returns its exit code.
    manager: gets reports of the state of the whole server.
    Raises CannotStart.
    """
    if _SPREADS_BY_PORT:
        for library in _LIBRARIES:
            with contextlib.suppress(ImportError):  # uvloop is optional
                importlib.import_module(library)
    reserved = listening.bind(config, config.serving.secure_port, reuse_port=False)
    port = reserved[0].getsockname()[1]
    if _SPREADS_BY_PORT:
        listening.allow_port_reuse(reserved)
    else:
        for bound in reserved:
            bound.listen(listening.BACKLOG)
    gc.collect()
    gc.freeze()  # otherwise the collector would write to shared objects, and copy their pages
    url, kubeconfig = listening.url(config, port), listening.kubeconfig_path(config)

    def announce() -> None:
        on_ready(url, kubeconfig)
        manager.notify(READY, f"STATUS=Serving {url} with {config.serving.workers} workers")

    supervisor = _Supervisor(config, reserved, announce, loop_factory, serve, manager)
    try:
        return supervisor.run()
    finally:
        supervisor.kill_all()


class _Supervisor:
    """Starts, watches and stops the workers.

    reserved: the sockets that reserve the port on which all workers listen.
    """

    def __init__(
        self,
        config: Config,
        reserved: list[socket.socket],
        on_ready: Callable[[], None],
        loop_factory: LoopFactory,
        serve: ServeWorker,
        manager: ServiceManager,
    ) -> None:
        self._manager = manager
        self._config, self._reserved = config, reserved
        self._port = reserved[0].getsockname()[1]
        self._on_ready, self._loop_factory, self._serve = on_ready, loop_factory, serve
        self._slots = [WorkerSlot(number) for number in range(1, config.serving.workers + 1)]
        self._is_announced = False
        self._shutdown: Shutdown | None = None
        self._exit_code = 0
        self._selector = selectors.DefaultSelector()
        # Python's signal handler writes the numbers of signals to one end.
        self._signals, self._signal_writer = socket.socketpair()
        self._metrics = MetricRegistry(config.metrics, config.release)
        self._scrapes = ScrapeRounds(self._slots, self._own_metrics, time.monotonic)
        self._watchdog = WorkerWatchdog(manager, self._slots, os.kill)

    def run(self) -> int:
        """Supervise until all workers were asked to stop and have ended. Returns the exit code."""
        self._handle_signals()
        for slot in self._slots:
            self._start(slot)
        while True:
            now = time.monotonic()
            if self._shutdown is None:
                for slot in self._slots:
                    if not slot.pid and slot.starts_at <= now:
                        slot.restarts += 1
                        self._start(slot)
            elif not any(slot.pid for slot in self._slots):
                log.info("%s", self._shutdown)
                return self._exit_code
            self._scrapes.end_if_due(now)
            for key, events in self._selector.select(self._timeout_s(now)):
                if key.data is None:
                    for number in self._signals.recv(_SIGNAL_BYTES):
                        self._on_signal(signal.Signals(number))
                else:
                    self._on_channel_ready(key.data, events)
            # Only now: what the workers sent while the supervisor was busy or stopped has been read.
            self._watchdog.watch(time.monotonic())

    def kill_all(self) -> None:
        """Kills all worker processes."""
        for slot in self._slots:
            if slot.pid:
                os.kill(slot.pid, signal.SIGKILL)
                os.waitpid(slot.pid, 0)
                slot.pid = 0

    def _own_metrics(self) -> Mapping[str, MetricFamily]:
        lines = (line for found in self._families() for line in self._metrics.lines(found))
        return metrics.parse_exposition("".join(lines).encode())

    def _families(self) -> Iterable[Family]:
        yield from process_families()
        yield single("apiserver_workers", sum(slot.is_ready for slot in self._slots))
        restarts = [((str(slot.number),), slot.restarts) for slot in self._slots]
        yield family("apiserver_worker_restarts_total", restarts)

    def _timeout_s(self, now: float) -> float | None:
        """Returns how long to wait for signals and messages, in seconds."""
        times = [at for at in (self._scrapes.deadline, self._watchdog.report_at) if at is not None]
        if self._shutdown is None:
            times += [slot.starts_at for slot in self._slots if not slot.pid]
        return max(0.0, min(times) - now) if times else None

    # ---- processes

    def _start(self, slot: WorkerSlot) -> None:
        sockets = self._reserved
        if _SPREADS_BY_PORT:
            try:
                sockets = listening.bind(self._config, self._port, reuse_port=True)
            except CannotStart as error:
                if not self._is_announced:
                    raise
                log.error("worker %d: %s", slot.number, error)
                slot.started_at = time.monotonic()
                slot.process_ended(slot.started_at)
                return
        ours, theirs = socket.socketpair()
        # A signal that arrives before the child has removed our handlers would be handled twice.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if not pid:
            self._become_worker(slot, ours, theirs, sockets)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()
        if sockets is not self._reserved:
            for bound in sockets:
                bound.close()
        slot.process_started(pid, Channel(ours, self._selector, slot), time.monotonic())

    def _become_worker(
        self, slot: WorkerSlot, ours: socket.socket, theirs: socket.socket, sockets: list[socket.socket]
    ) -> None:
        """Serve as a worker in the child process, and never return."""
        code = exit_codes.FAILURE
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            # A worker learns of the supervisor's death when no process has the other end of its socket open.
            self._selector.close()
            for sibling in self._slots:
                if sibling.channel is not None:
                    sibling.channel.close_in_child()
            for inherited in (ours, self._signals, self._signal_writer):
                inherited.close()
            if sockets is not self._reserved:
                for bound in self._reserved:
                    bound.close()
            _name_log_records(slot.number)
            client = SupervisorClient(
                theirs,
                sockets,
                listens_when_ready=self._is_announced,
                is_silent=slot.number > 1 and not self._is_announced,
                watchdog_s=self._manager.watchdog_s,
            )
            with asyncio.Runner(loop_factory=self._loop_factory()) as runner:
                code = runner.run(self._serve(self._config, client))
        except BaseException:
            traceback.print_exc()
        finally:
            flush_output()
            os._exit(code)

    def _reap(self) -> None:
        for slot in self._slots:
            if slot.pid:
                pid, status = os.waitpid(slot.pid, os.WNOHANG)
                if pid:
                    slot.pid = 0
                    self._on_death(slot, pid, os.waitstatus_to_exitcode(status))

    def _on_death(self, slot: WorkerSlot, pid: int, exit_code: int) -> None:
        assert slot.channel is not None
        self._receive(slot)  # the last messages
        slot.channel.close()
        self._scrapes.keep_counters(slot)
        how = f"by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"with exit code {exit_code}"
        slot.process_ended(time.monotonic())
        if self._shutdown is not None:
            if exit_code:
                log.error("worker %d (process %d) ended %s", slot.number, pid, how)
                self._exit_code = exit_codes.FAILURE
        elif self._is_announced:
            delay_s = slot.starts_at - time.monotonic()
            log.error(
                "worker %d (process %d) ended %s; restarting the worker in %.1f s",
                slot.number,
                pid,
                how,
                delay_s,
            )
        else:
            raise CannotStart(f"worker {slot.number} ended {how} before it was ready")
        self._scrapes.forget(slot)

    # ---- signals

    def _handle_signals(self) -> None:
        self._signals.setblocking(False)
        self._signal_writer.setblocking(False)
        signal.set_wakeup_fd(self._signal_writer.fileno())
        for number in (*_SIGNALS, *([signal.SIGHUP] if self._config.api.extension else ())):
            signal.signal(number, lambda *_: None)  # the number arrives in `_signals`
        self._selector.register(self._signals, selectors.EVENT_READ)

    def _on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGHUP:  # Workers reload their extensions.
            for slot in self._slots:
                if slot.pid:
                    os.kill(slot.pid, number)
        elif self._shutdown is not None:
            self.kill_all()
            os._exit(exit_codes.SIGNALLED + number)
        else:
            self._stop(number)

    def _stop(self, number: signal.Signals) -> None:
        self._shutdown = Shutdown(number)
        self._manager.notify(STOPPING)
        for slot in self._slots:
            if slot.channel is not None:
                slot.channel.send(MessageKind.STOP)

    # ---- messages

    def _on_channel_ready(self, slot: WorkerSlot, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._receive(slot)
        if events & selectors.EVENT_WRITE and slot.channel is not None:
            slot.channel.flush()

    def _receive(self, slot: WorkerSlot) -> None:
        if slot.channel is not None:
            for kind, text in slot.channel.receive():
                self._on_message(slot, kind, text)

    def _on_message(self, slot: WorkerSlot, kind: MessageKind, text: bytes) -> None:
        slot.heard_at = time.monotonic()
        match kind:
            case MessageKind.HELLO:
                slot.is_connected = True
            case MessageKind.READY:
                self._on_worker_ready(slot)
            case MessageKind.CANNOT_START if not self._is_announced:
                raise CannotStart(text.decode())
            case MessageKind.CANNOT_START:
                log.error("worker %d: %s", slot.number, text.decode())
            case MessageKind.GET_ALL_METRICS:
                self._scrapes.request(slot)
            case MessageKind.OWN_METRICS:
                self._scrapes.report(slot, text)
            case MessageKind.SET_VERBOSITY:
                self._set_verbosity(text)
            case MessageKind.ALIVE:
                pass

    def _set_verbosity(self, text: bytes) -> None:
        logs.set_verbosity(int(text))  # Workers that are forked later have it from here.
        for slot in self._slots:
            if slot.channel is not None:
                slot.channel.send(MessageKind.SET_VERBOSITY, text)

    def _on_worker_ready(self, slot: WorkerSlot) -> None:
        slot.is_ready = True
        if self._is_announced:
            log.warning("worker %d is ready again (process %d)", slot.number, slot.pid)
        elif all(each.is_ready for each in self._slots) and self._shutdown is None:
            self._is_announced = True
            self._on_ready()


# ---- in the worker process


def _name_log_records(number: int) -> None:
    """Name the worker in the log records of this process."""

    def rename(record: logging.LogRecord) -> bool:
        record.name = f"worker-{number}.{record.name}"
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(rename)
