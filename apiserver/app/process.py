"""Runs the process of a server: its limits, its signals, and its workers, if it has several."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from apiserver import __version__
from apiserver.app.serving import exit_codes, logs, service_manager
from apiserver.app.serving.service_manager import ServiceManager, own_service_manager
from apiserver.app.serving.shutdown import Shutdown
from apiserver.cli import flag_values
from apiserver.cli.config import Config
from apiserver.cli.flag_texts import changed_flag_texts
from apiserver.cli.printable_text import printable_lines
from apiserver.cli.printing import print_error, write_output
from apiserver.load.collection_pause import lasting_imports
from apiserver.load.process_memory import Allocator
from apiserver.registry.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from apiserver.app.hooks import Hooks
    from apiserver.app.host_process import HostProcess
    from apiserver.app.server import App
    from apiserver.app.serving.server_keys import MakeServerKeys
    from apiserver.app.workers.worker import SupervisorClient

log = logging.getLogger(__name__)

# Requests create few reference cycles; collecting every 700 allocations, Python's default, costs 10 % of CPU.
# But everybody waits while all that is new is looked at: 50,000 objects, the first two together, take 30 ms.
GC_THRESHOLDS: Final = (10_000, 5, 400)

# Environment variables that are set while libraries are imported.
_WHILE_IMPORTING: Final = {
    # The file of the CA certificates that OpenSSL trusts by default. aiohttp makes two TLS contexts when it
    # is imported, which would take a twentieth of the start and 1.5 MB. None of the server's clients uses
    # them: each gets a separate one.
    "SSL_CERT_FILE": os.devnull,
    # aiohttp's lists of hooks, which no request uses, are a module in C++, whose library takes 1 MB.
    "FROZENLIST_NO_EXTENSIONS": "1",
}

# Called in each process that serves, with the clock of its server.
MakeHooks: TypeAlias = Callable[[Clock], "Hooks"]


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns the factory of uvloop's event loop; None, for asyncio's own, where uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def announce_ready(config: Config, url: str, kubeconfig: Path) -> None:
    """Print the ready line, which is the only line on stdout and which scripts wait for.

    A summary follows on stderr if that is a terminal, and is logged otherwise.
    """
    path = str(kubeconfig.resolve())
    as_json = config.logs.logging_format == "json"
    if as_json:
        line = logs.json_line(time.time(), "info", log.name, "ready", {"url": url, "kubeconfig": path})
    else:
        line = f"ready {url} kubeconfig={path}"
    try:
        if sys.stdout is not None:
            # The path as the file system has it, whatever the encoding of the output is.
            write_output(os.fsencode(f"{line}\n"))
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        # The server works even if nobody reads the line. ValueError: stdout is closed.
        log.warning("cannot write the ready line to stdout: %s", getattr(error, "strerror", None) or error)
    if not as_json and sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty():
        print(startup_summary(config, url, path), file=sys.stderr, flush=True)
    else:
        log.info("%s", started_message(config, url))


def started_message(config: Config, url: str) -> str:
    """Returns the log message of a start: versions, store, and the flags that differ from their defaults."""
    flags = [f"--{name}={text}" for name, text in changed_flag_texts(config).items()]
    return (
        f"apiserver {__version__} serves Kubernetes {config.release} at {url}; store: {_store_of(config)}; "
        f"flags: {', '.join(flags) or 'defaults'}"
    )


def startup_summary(config: Config, url: str, kubeconfig: str) -> str:
    """Returns the start-up summary for a user at a terminal."""
    rows = {
        "Store": _store_of(config),
        "Data directory": str(config.serving.data_dir.resolve()),
        "URL": url,
        "To use kubectl": f"export KUBECONFIG={shlex.quote(kubeconfig)}",
    }
    head = f"apiserver {__version__}, serves Kubernetes {config.release}"
    return printable_lines("\n".join([head, *(f"  {f'{name}:':<16}{text}" for name, text in rows.items())]))


def _store_of(config: Config) -> str:
    if config.storage.etcd_servers:
        return config.storage.etcd_name
    if config.storage.storage_backend == flag_values.MEMORY:
        return "in memory (objects are lost when the server stops)"
    return f"embedded, in {config.serving.data_dir.resolve() / 'store'}"


@contextmanager
def lean_libraries() -> Iterator[None]:
    """Let libraries that are imported within it neither read nor load what the server does not use."""
    before = {name: os.environ.get(name) for name in _WHILE_IMPORTING}
    os.environ.update(_WHILE_IMPORTING)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run(
    config: Config,
    announce: Callable[[str, Path], None] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    drain_s: float | None = None,
    make_hooks: MakeHooks | None = None,
) -> int:
    """Serve until a signal ends the process, and return the exit code.

    announce: called in the event loop when the server is ready, with its URL and the kubeconfig; by default
        prints them.
    clock: the server's clock, if it is a single process.
    drain_s: how long requests under way may take after the signal, if it is a single process; by default as
        long as the request timeout.
    """
    announce, manager = announce or partial(announce_ready, config), own_service_manager()
    logs.configure(as_json=config.logs.logging_format == "json", verbosity=config.logs.verbosity)
    if config.logs.logging_format == "json":
        logs.silence_grpc()
    for warning in config.warnings:
        log.warning("%s", warning)
    gc.set_threshold(*GC_THRESHOLDS)
    Allocator().tune()
    _raise_open_files_limit()
    # Imported late, so that --help and usage errors are fast.
    with lasting_imports():
        from apiserver.app.serving.listening import CannotStart

    try:
        if config.serving.workers > 1:
            from apiserver.app.history_directory import reserved_history
            from apiserver.app.workers.supervisor import supervise

            serve = partial(_serve_as_worker, make_hooks)
            with reserved_history(config):
                return supervise(config, announce, loop_factory, serve, manager)
        with lasting_imports():
            from apiserver.app.serving.key_process import key_process
        with (
            key_process(config) as make_keys,
            asyncio.Runner(loop_factory=clock.new_event_loop or loop_factory()) as runner,
        ):
            make_host = partial(_host, clock, make_hooks, make_keys)
            return runner.run(_serve(config, announce, drain_s, make_host, manager))
    except CannotStart as error:
        if config.logs.logging_format == "json":
            log.error("%s", error)
        else:
            print_error(error)
        return exit_codes.FAILURE


def _raise_open_files_limit() -> None:
    """Raise the soft limit of open files to the hard one, as Go does: each connection is a file."""
    try:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ImportError, OSError, ValueError) as error:  # not on Windows; macOS may refuse "unlimited"
        log.debug("cannot raise the limit of open files: %s", error)


def _host(clock: Clock, make_hooks: MakeHooks | None, make_keys: MakeServerKeys) -> HostProcess:
    from apiserver.app.host_process import HostProcess

    if make_hooks is None:
        return HostProcess(clock=clock, make_keys=make_keys)
    return HostProcess(clock=clock, hooks=make_hooks(clock), make_keys=make_keys)


def _reload_on_hangup(app: App, config: Config) -> None:
    """Reload extensions on SIGHUP. Without extensions, the signal ends the process, as by default."""
    if config.api.extension:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, app.reload)


async def _serve_as_worker(make_hooks: MakeHooks | None, config: Config, client: SupervisorClient) -> int:
    """Serve until the supervisor says to stop. Returns the exit code."""
    from apiserver.app.server import App
    from apiserver.app.serving.listening import CannotStart
    from apiserver.app.serving.server_keys import make_server_keys
    from apiserver.app.workers.messages import MessageKind

    app = App(config, client, host=_host(SYSTEM_CLOCK, make_hooks, make_server_keys))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.stop)
    _reload_on_hangup(app, config)
    receiving = asyncio.create_task(client.receive(await client.connect(), app.stop), name="supervisor")
    try:
        await app.run(lambda *_: client.send(MessageKind.READY))
    except CannotStart as error:
        client.send(MessageKind.CANNOT_START, str(error).encode())
        return exit_codes.FAILURE
    finally:
        receiving.cancel()
        await client.close()
    return 0


async def _serve(
    config: Config,
    announce: Callable[[str, Path], None],
    drain_s: float | None,
    make_host: Callable[[], HostProcess],
    manager: ServiceManager,
) -> int:
    with lasting_imports(), lean_libraries():
        from apiserver.app.server import App

        host = make_host()
    app = App(config, host=host)
    loop = asyncio.get_running_loop()
    shutdown: Shutdown | None = None

    def on_signal(number: int) -> None:
        # The first signal starts the graceful shutdown, the second ends the process at once. The default
        # action of a signal would do nothing to the first process of a container.
        nonlocal shutdown
        if shutdown is not None:
            os._exit(exit_codes.SIGNALLED + number)
        shutdown = Shutdown(number)
        manager.notify(service_manager.STOPPING)
        app.stop(drain_s)

    def on_ready(url: str, kubeconfig: Path) -> None:
        announce(url, kubeconfig)
        manager.notify(service_manager.READY, f"STATUS=Serving {url}")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    _reload_on_hangup(app, config)
    manager.feed_watchdog(loop)
    await app.run(on_ready)
    log.info("%s", shutdown or "stopped")
    return 0
