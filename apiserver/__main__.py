"""The program `apiserver`: parses the command line, serves until SIGTERM, then drains."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from apiserver import __version__
from apiserver.cli.command_line import KUBE_APISERVER, parse
from apiserver.cli.config import Config
from apiserver.cli.flags import UsageError
from apiserver.cli.printing import print_error
from apiserver.cli.subcommand import run_subcommand
from apiserver.clock import SYSTEM_CLOCK, Clock
from apiserver.load.collection_pause import lasting_imports
from apiserver.load.process_memory import Allocator
from apiserver.releases.emulation import EmulatedRelease
from apiserver.serving import exit_codes, logs
from apiserver.serving.event_loops import loop_factory

if TYPE_CHECKING:
    from apiserver.workers.worker import SupervisorClient

log = logging.getLogger(__name__)

# Requests create few reference cycles; collecting every 700 allocations, Python's default, costs 10 % of CPU.
# But everybody waits while all that is new is looked at: 50,000 objects, the first two together, take 30 ms.
GC_THRESHOLDS: Final = (10_000, 5, 400)


def main(
    arguments: Sequence[str] | None = None, clock: Clock = SYSTEM_CLOCK, drain_s: float | None = None
) -> int:
    """Returns the exit code. clock, drain_s: of a server, as for `run`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None and Path(sys.argv[0]).name == KUBE_APISERVER:
        given.insert(0, KUBE_APISERVER)
    release = EmulatedRelease()
    if given[:1] == ["version"]:
        return _print(f"apiserver {__version__}, serves Kubernetes {release}")
    if given in (["--version"], [KUBE_APISERVER, "--version"]):
        return _print(f"Kubernetes {release.git_version}")
    try:
        if given and (subcommand := _SUBCOMMANDS.get(given[0])) is not None:
            command, failed = subcommand
            return run_subcommand(partial(command, given[1:]), failed)
        config = parse(given)
    except (SystemExit, OSError) as end:  # It has printed the help, or could not.
        return run_subcommand(partial(_raise, end), exit_codes.FAILURE)
    except UsageError as error:
        print_error(error)
        return exit_codes.USAGE
    return run(config, clock=clock, drain_s=drain_s)


def _print(line: str) -> int:
    """Print a line, and return the exit code."""

    def print_it() -> int:
        print(line)
        return 0

    return run_subcommand(print_it, exit_codes.FAILURE)


def _raise(error: BaseException) -> NoReturn:
    raise error


def announce_ready(url: str, kubeconfig: Path) -> None:
    """Print the only line on stdout; scripts wait for it."""
    print(f"ready {url} kubeconfig={kubeconfig.resolve()}", flush=True)


def run(
    config: Config,
    announce: Callable[[str, Path], None] = announce_ready,
    clock: Clock = SYSTEM_CLOCK,
    drain_s: float | None = None,
) -> int:
    """Serve until a signal ends it, and return the exit code.

    announce: called in the event loop when the server is ready, with its URL and the kubeconfig.
    clock: that it goes by, if it is a single process.
    drain_s: how long requests under way may take then, if it is a single process; by default as long as
        requests may.
    """
    logs.configure(as_json=config.logging_format == "json", verbosity=config.verbosity)
    for warning in config.warnings:
        log.warning("%s", warning)
    gc.set_threshold(*GC_THRESHOLDS)
    Allocator().tune()
    _raise_open_files_limit()
    # Imported late, so that --help and usage errors are fast.
    with lasting_imports():
        from apiserver.serving.listening import CannotStart

    try:
        if config.workers > 1:
            from apiserver.workers.supervisor import supervise

            return supervise(config, announce, loop_factory, _serve_as_worker)
        with asyncio.Runner(loop_factory=clock.new_event_loop or loop_factory()) as runner:
            return runner.run(_serve(config, announce, clock, drain_s))
    except CannotStart as error:
        print_error(error)
        return exit_codes.FAILURE


def _raise_open_files_limit() -> None:
    """Raise the soft limit of open files to the hard one, as Go does: each connection is a file."""
    try:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ImportError, OSError, ValueError) as error:  # not on Windows; macOS may refuse "unlimited"
        log.debug("the limit of open files cannot be raised: %s", error)


def _snapshot(arguments: Sequence[str]) -> int:
    from apiserver.cli import snapshot
    from storage.errors import StorageError

    # SIGTERM raises KeyboardInterrupt, like SIGINT, so that no incomplete file is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        snapshot.run(arguments)
    except StorageError as error:
        print_error(error)
        return exit_codes.FAILURE
    except KeyboardInterrupt:
        print_error("interrupted")
        return exit_codes.FAILURE
    return 0


def _audit(arguments: Sequence[str]) -> int:
    from apiserver.cli import audit

    return audit.run(arguments)


def _storage(command: str, arguments: Sequence[str]) -> int:
    """command: the name by which it was called."""
    from apiserver.cli import storage

    try:
        is_done = storage.run([command, *arguments])
    except storage.RewriteFailed as error:
        print_error(error)
        return exit_codes.FAILURE
    except storage.Interrupted as interrupted:
        for line in storage.resume_hint([command, *arguments], interrupted):
            print_error(line)
        return exit_codes.FAILURE
    return 0 if is_done else exit_codes.FAILURE


def _convert(arguments: Sequence[str]) -> int:
    from apiserver.cli import convert

    return convert.run(arguments)


def _auth(arguments: Sequence[str]) -> int:
    from apiserver.cli import auth_explain
    from apiserver.cli.api_client import RequestFailed

    try:
        return auth_explain.run(arguments)
    except RequestFailed as error:
        print_error(error)
        return auth_explain.FAILED


def _deprecations(arguments: Sequence[str]) -> int:
    from apiserver.cli import deprecations
    from apiserver.cli.api_client import RequestFailed

    try:
        return deprecations.run(arguments)
    except RequestFailed as error:
        print_error(error)
        return deprecations.FAILED


def _envtest_assets(arguments: Sequence[str]) -> int:
    from apiserver.testkit.envtest import assets as envtest_assets

    return envtest_assets.run(arguments)


def _faults(arguments: Sequence[str]) -> int:
    from apiserver.cli.api_client import RequestFailed
    from apiserver.testkit.faults import command as faults

    try:
        return faults.run(arguments)
    except RequestFailed as error:
        print_error(error)
        return faults.FAILED


# What runs each, imported when it does, and its exit code when it fails. Two of them answer by 1.
_SUBCOMMANDS: Final[Mapping[str, tuple[Callable[[Sequence[str]], int], int]]] = {
    "snapshot": (_snapshot, exit_codes.FAILURE),
    "audit": (_audit, exit_codes.FAILURE),
    "storage": (partial(_storage, "storage"), exit_codes.FAILURE),
    "migrate": (partial(_storage, "migrate"), exit_codes.FAILURE),
    "convert": (_convert, exit_codes.FAILURE),
    "auth": (_auth, exit_codes.USAGE),
    "deprecations": (_deprecations, exit_codes.USAGE),
    "envtest-assets": (_envtest_assets, exit_codes.FAILURE),
    "faults": (_faults, exit_codes.FAILURE),
}


async def _serve_as_worker(config: Config, client: SupervisorClient) -> int:
    from apiserver.app.worker import serve_as_worker

    return await serve_as_worker(config, client)


async def _serve(
    config: Config, announce: Callable[[str, Path], None], clock: Clock, drain_s: float | None
) -> int:
    with lasting_imports():
        from apiserver.app import App
        from apiserver.app.host_process import HostProcess

    app = App(config, host=HostProcess(clock=clock))
    loop = asyncio.get_running_loop()
    is_stopping = False

    def on_signal(number: int) -> None:
        # The first signal starts the graceful shutdown, the second ends the process at once. The default
        # action of a signal would do nothing to the first process of a container.
        nonlocal is_stopping
        if is_stopping:
            os._exit(exit_codes.SIGNALLED + number)
        is_stopping = True
        app.stop(drain_s)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await app.run(announce)
    return 0


if __name__ == "__main__":
    sys.exit(main())
