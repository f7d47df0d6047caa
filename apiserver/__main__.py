"""The program `apiserver`: parses the command line, serves until SIGTERM, then drains."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

from apiserver import __version__
from apiserver.app.process import MakeHooks, run
from apiserver.app.serving import exit_codes
from apiserver.cli.command_line import KUBE_APISERVER, parse
from apiserver.cli.config import Config
from apiserver.cli.flags import UsageError
from apiserver.cli.printing import print_error
from apiserver.cli.subcommand import run_subcommand
from apiserver.registry.clock import SYSTEM_CLOCK, Clock
from apiserver.releases.emulation import EmulatedRelease


def main(
    arguments: Sequence[str] | None = None, clock: Clock = SYSTEM_CLOCK, drain_s: float | None = None
) -> int:
    """Runs the command line, and returns the exit code. clock, drain_s: passed to `run`."""
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
        make_hooks = _hooks_for(config)
    except (SystemExit, OSError) as end:  # It has printed the help, or could not.
        return run_subcommand(partial(_raise, end), exit_codes.FAILURE)
    except UsageError as error:
        print_error(error)
        return exit_codes.USAGE
    return run(config, clock=clock, drain_s=drain_s, make_hooks=make_hooks)


def _print(line: str) -> int:
    """Print a line, and return the exit code."""

    def print_it() -> int:
        print(line)
        return 0

    return run_subcommand(print_it, exit_codes.FAILURE)


def _raise(error: BaseException) -> NoReturn:
    raise error


def _hooks_for(config: Config) -> MakeHooks | None:
    """Returns the factory of the hooks that testing flags ask for. Raises UsageError."""
    if not config.is_for_tests:
        return None
    from apiserver.testkit.flags import hooks_for

    return hooks_for(config)


def _snapshot(arguments: Sequence[str]) -> int:
    from apiserver.cli import snapshot
    from apiserver.storage.errors import StorageError

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


def _run(module: str, arguments: Sequence[str]) -> int:
    code: int = import_module(module).run(arguments)
    return code


def _ask(module: str, arguments: Sequence[str]) -> int:
    """Run a subcommand that sends requests to a server."""
    from apiserver.cli.api_client import RequestFailed

    command = import_module(module)
    try:
        code: int = command.run(arguments)
    except RequestFailed as error:
        print_error(error)
        code = command.FAILED
    return code


def _storage(command: str, arguments: Sequence[str]) -> int:
    """Run a subcommand of `storage`. command: the name that it was called by."""
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


# What runs each, imported when it does, and its exit code when it fails. Two of them answer by 1.
_SUBCOMMANDS: Final[Mapping[str, tuple[Callable[[Sequence[str]], int], int]]] = {
    "snapshot": (_snapshot, exit_codes.FAILURE),
    "audit": (partial(_run, "apiserver.cli.audit"), exit_codes.FAILURE),
    "storage": (partial(_storage, "storage"), exit_codes.FAILURE),
    "migrate": (partial(_storage, "migrate"), exit_codes.FAILURE),
    "convert": (partial(_run, "apiserver.cli.convert"), exit_codes.FAILURE),
    "auth": (partial(_ask, "apiserver.cli.auth_explain"), exit_codes.USAGE),
    "deprecations": (partial(_ask, "apiserver.cli.deprecations"), exit_codes.USAGE),
    "envtest-assets": (partial(_run, "apiserver.testkit.envtest.assets"), exit_codes.FAILURE),
    "faults": (partial(_ask, "apiserver.testkit.faults.command"), exit_codes.FAILURE),
}


if __name__ == "__main__":
    sys.exit(main())
