"""`apiserver`: flags to Config; run until SIGTERM, then drain."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from apiserver import EMULATED_VERSION, __version__, logs
from apiserver.config import Config, UsageError, parse

log = logging.getLogger(__name__)

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
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
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(config))


def _snapshot(arguments: Sequence[str]) -> int:
    from apiserver import snapshot
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
    # Imported late, so that --help and mistakes are answered at once.
    from apiserver.app import App, CannotStart

    app = App(config)
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        # The first asks to finish, the second not to wait for it.
        app.stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        await app.run(_print_ready)
    except CannotStart as error:
        print(f"apiserver: {error}", file=sys.stderr)
        return EXIT_FAILURE
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
