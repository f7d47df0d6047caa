"""`apiserver`: flags to Config; run until SIGTERM, then drain."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from apiserver import EMULATED_VERSION, __version__
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.cli.flags import UsageError
from apiserver.serving import logs

log = logging.getLogger(__name__)

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_SIGNALLED: Final = 128  # and the signal's number, as shells have it
# Requests make few cycles; looking for them every 700 allocations, as Python does, costs a tenth of all time.
GC_THRESHOLDS: Final = (50_000, 20, 20)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["version"]:
        print(f"apiserver {__version__}, speaks {EMULATED_VERSION[0]}.{EMULATED_VERSION[1]}")
        return 0
    try:
        if given[:1] == ["snapshot"]:
            return _snapshot(given[1:])
        config = parse(given)
    except UsageError as error:
        print(f"apiserver: {error}", file=sys.stderr)
        return EXIT_USAGE
    logs.configure(as_json=config.logging_format == "json", verbosity=config.verbosity)
    for warning in config.warnings:
        log.warning("%s", warning)
    gc.set_threshold(*GC_THRESHOLDS)
    _raise_open_files_limit()
    # Imported late, so that --help and mistakes are answered at once.
    from apiserver.serving.listening import CannotStart

    try:
        if config.workers > 1:
            from apiserver.workers.supervisor import supervise

            return supervise(config, _print_ready, _loop_factory)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(config))
    except CannotStart as error:
        print(f"apiserver: {error}", file=sys.stderr)
        return EXIT_FAILURE


def _raise_open_files_limit() -> None:
    """Each connection is an open file, and what shells give is 1,024. What may be had, Go takes, too."""
    try:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ImportError, OSError, ValueError) as error:  # not on Windows; macOS may refuse "unlimited"
        log.debug("the limit of open files stays as it is: %s", error)


def _snapshot(arguments: Sequence[str]) -> int:
    from apiserver.cli import snapshot
    from storage.errors import StorageError

    # Either signal unwinds, so that no half of a file is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        snapshot.run(arguments)
    except StorageError as error:
        print(f"apiserver: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        print("apiserver: interrupted", file=sys.stderr)
        return EXIT_FAILURE
    return 0


async def _serve(config: Config) -> int:
    from apiserver.app.server import App

    app = App(config)
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def on_signal(number: int) -> None:
        # The first asks to finish, the second not to wait for it. Left to its default, the second would do
        # nothing to the first process of a container.
        if asked:
            os._exit(EXIT_SIGNALLED + number)
        asked.append(number)
        app.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await app.run(_print_ready)
    return 0


def _print_ready(url: str, kubeconfig: Path) -> None:
    """The one line on stdout, for scripts to wait for."""
    print(f"ready {url} kubeconfig={kubeconfig.resolve()}", flush=True)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
