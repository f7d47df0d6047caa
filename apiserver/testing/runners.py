"""Runs a server for tests in a thread of this process, or in a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from apiserver.app.host_process import HostProcess
from apiserver.app.server import App
from apiserver.app.serving.listening import CannotStart, bind
from apiserver.cli.config import Config
from apiserver.testing.errors import ServerDidNotStart, ServerStopped
from apiserver.testing.resources import Resource
from apiserver.testing.server_time import ServerTime
from apiserver.testkit.object_history import ObjectHistory, read_history
from apiserver.testkit.state_copies import CopiedState, StateCopy, copy_state

log = logging.getLogger(__name__)

# A start takes a fraction of a second; one that waits for something else, as for etcd, takes longer.
START_S_MAX: Final = 30.0
# How long requests under way may take when a server is stopped: their responses are not needed any more.
DRAIN_S: Final = 0.05
# Enough for another thread to wake up.
HAND_OVER_S: Final = 0.0002
# A child process that does not end by then is killed.
CHILD_ENDS_WITHIN_S: Final = 10.0
# What a stopped server was asked for.
ADVANCE: Final = "clock.advance"
TIMELINE: Final = "timeline"
# The end of a child's log that the error shows if it did not start.
LOG_CHARACTERS_SHOWN: Final = 2_000

# The prefix of the program's messages, which log lines do not have.
_SAID: Final = "apiserver: "

T = TypeVar("T")


class ServerThread:
    """Runs a server once, in a thread with its own event loop.

    time: the time of its clock. state: the objects that it starts with, if not those of its store.
    """

    def __init__(
        self, config: Config, host: HostProcess, time: ServerTime, state: StateCopy | None = None
    ) -> None:
        self._config, self._time = config, time
        initial = None if state is None else CopiedState(state)
        self._host = replace(host, clock=time.clock, initial_state=initial)
        # The state to begin again with, and the future of the caller that waits for it: one at a time.
        self._next: tuple[StateCopy, Future[str]] | None = None
        self._beginning = threading.Lock()
        # A daemon: an exiting interpreter does not wait for servers that were not stopped.
        self._thread = threading.Thread(target=self._run, name="apiserver", daemon=True)
        self._ready: Future[str] = Future()
        self._ended = threading.Event()
        # Held to give the loop something to do, and to have it take no more.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # while it takes calls
        self._is_stopping = False
        self._app: App | None = None
        # Why the server has ended although nobody has stopped it; empty while it runs.
        self.failure = ""

    def start(self) -> str:
        """Start the server, wait until it is ready, and return its URL. Raises ServerDidNotStart."""
        ready = self._ready
        self._thread.start()
        try:
            return ready.result(START_S_MAX)
        except FutureTimeout:
            self.stop()
            raise ServerDidNotStart(f"the server was not ready within {START_S_MAX:.0f} s") from None
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server, and return once all of its parts have ended."""
        with self._lock:
            self._is_stopping = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop_app)
        if self._thread.ident is not None:
            # A `join` that Ctrl-C has interrupted takes the thread for ended from then on, up to Python 3.12.
            self._ended.wait()
            self._thread.join()

    def call(self, make: Callable[[], Coroutine[Any, Any, T]], asked: str) -> T:
        """Run a coroutine on the server's event loop, and return its result.

        asked: the purpose, for errors. Raises ServerStopped.
        """
        coroutine = make()
        with self._lock:
            if self._loop is None:
                coroutine.close()
                raise ServerStopped(asked, self.failure)
            running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return running.result()
        except CancelledError:  # The loop has ended meanwhile.
            raise ServerStopped(asked) from None

    def copy_state(self, asked: str) -> StateCopy:
        """Returns a copy of the state after all answered writes. Raises ServerStopped, CannotBeCopied."""

        async def copy(app: App) -> StateCopy:
            store, core = app.running
            return await copy_state(store, core.registry.cache)

        return self._call_with_app(copy, asked)

    def compact(self, asked: str) -> int:
        """Drop all history up to now, and return the current revision. Raises ServerStopped."""

        async def compact(app: App) -> int:
            _, core = app.running
            return await core.registry.cache.compact()

        return self._call_with_app(compact, asked)

    def object_history(self, resource: Resource, namespace: str, name: str) -> ObjectHistory:
        """Returns the known versions of an object. Raises ServerStopped."""

        async def read(app: App) -> ObjectHistory:
            _, core = app.running
            return await read_history(
                core, (resource.group, resource.version), resource.plural, namespace, name
            )

        return self._call_with_app(read, TIMELINE)

    def _call_with_app(self, ask: Callable[[App], Coroutine[Any, Any, T]], asked: str) -> T:
        """Runs a function with the server's `App`."""
        app = self._app
        if app is None:
            raise ServerStopped(asked)
        return self.call(lambda: ask(app), asked)

    def advance_clock(self, seconds: float) -> None:
        """Advance the server's clock, and return when everything that is due by then has started.

        Raises ServerStopped.
        """
        self.call(lambda: self._time.advance(seconds), ADVANCE)

    def begin_again(self, state: StateCopy, asked: str) -> None:
        """Replaces the server's objects, at the same address. Raises ServerStopped, ServerDidNotStart."""
        ready: Future[str] = Future()

        async def stop() -> None:
            assert self._app is not None
            self._next = state, ready
            self._app.stop(0)

        with self._beginning:
            self.call(stop, asked)
            ready.result(START_S_MAX)

    def _stop_app(self) -> None:
        if self._app is not None:
            self._app.stop(DRAIN_S)

    def _run(self) -> None:
        try:
            self._run_server()
        finally:
            self._ended.set()

    def _run_server(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._time.clock.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                log.exception("the server stopped unexpectedly")
            self._note_failure(error)
            self._fail(ServerDidNotStart(str(error)) if isinstance(error, CannotStart) else error)
        self._fail(ServerDidNotStart("it was stopped before it was ready"))

    def _note_failure(self, error: BaseException) -> None:
        if not self._is_stopping:
            self.failure = repr(error)

    def _fail(self, error: BaseException) -> None:
        """Report an error to the callers that wait for the server to be ready, or to begin again."""
        waiting = [self._ready] if self._next is None else [self._ready, self._next[1]]
        for ready in waiting:
            if not ready.done():
                ready.set_exception(error)

    async def _serve(self) -> None:
        """Serve until stopped. Raises CannotStart."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
        try:
            await self._serve_on_sockets()
        except BaseException as error:
            self._note_failure(error)
            raise
        finally:
            with self._lock:
                self._loop = None
            # The loop calls in order: what it was given before is a task after this, which is cancelled then.
            await asyncio.sleep(0)

    async def _serve_on_sockets(self) -> None:
        """Serve on the same sockets whenever the server begins again."""
        host = self._host
        with contextlib.ExitStack() as stack:
            sockets = [
                stack.enter_context(bound)
                for bound in bind(self._config, self._config.serving.secure_port, reuse_port=False)
            ]
            host = replace(host, sockets=sockets)
            while not self._is_stopping:
                self._app = app = App(self._config, host=host)
                await app.run(_announcing(self._ready))
                if self._next is None or self._is_stopping:
                    return
                (state, self._ready), self._next = self._next, None
                host = replace(host, initial_state=CopiedState(state, after=app.last_revision + 1))


def _announcing(ready: Future[str]) -> Callable[[str, Path], None]:
    def on_ready(url: str, _: Path) -> None:
        ready.set_result(url)
        # The caller that waits for it needs the interpreter's lock, which this thread would hold for
        # milliseconds more.
        time.sleep(HAND_OVER_S)

    return on_ready


class ServerChild:
    """Runs a server as a child process, as `ServerThread` does in a thread.

    log_path: of the file for what it logs. time: that its clock shows.
    """

    def __init__(self, arguments: Sequence[str], log_path: Path, time: ServerTime) -> None:
        self._arguments, self._log_path, self._time = arguments, log_path, time
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        with self._log_path.open("w") as errors:
            self._process = process = subprocess.Popen(  # noqa: S603  no shell
                [sys.executable, "-m", "apiserver.testing.child", *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert process.stdout is not None
        alarm = threading.Timer(START_S_MAX, process.kill)
        alarm.start()
        try:
            line = process.stdout.readline()
        finally:
            alarm.cancel()
            alarm.join()
        if not line.startswith("ready "):
            self.stop()
            raise ServerDidNotStart(self._why() or f"exit code {process.returncode}")
        return line.split()[1]

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.terminate()
            process.wait(CHILD_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # Not before: to the child it would be another signal, which ends it in the middle of its shutdown.
        process.stdin.close()
        process.stdout.close()

    @property
    def failure(self) -> str:
        """Why the server has ended although nobody has stopped it; empty while it runs."""
        process = self._process
        if process is None or process.poll() is None:
            return ""
        return f"exit code {process.returncode}; {self._why()}"

    def advance_clock(self, seconds: float) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{seconds!r}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise ServerStopped(ADVANCE)
        self._time.ahead_s += seconds

    def _why(self) -> str:
        """Returns the program's error when it cannot start, or the end of its log."""
        log = self._log_path.read_text(errors="replace").strip()
        _, said, reason = f"\n{log}".rpartition(f"\n{_SAID}")
        return (reason if said else log)[-LOG_CHARACTERS_SHOWN:]


Runner: TypeAlias = ServerThread | ServerChild
