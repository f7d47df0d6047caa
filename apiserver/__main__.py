"""The program `apiserver`: parses the command line, serves until SIGTERM, then drains."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  before any import that would fail
    sys.exit(f"apiserver: Python 3.11 or later is required; this is Python {sys.version.split()[0]}")

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from apiserver.app.serving import exit_codes
from apiserver.cli.argument_parser import UsageError, help_hint, hint_for
from apiserver.cli.commands import COMMANDS, HELP, KUBE_APISERVER, SERVERS
from apiserver.cli.help_page import help_page
from apiserver.cli.printing import print_error
from apiserver.cli.subcommand import run_subcommand
from apiserver.cli.version import version_line
from apiserver.meta.releases.emulation import EmulatedRelease

if TYPE_CHECKING:
    from apiserver.app.process import MakeHooks
    from apiserver.cli.config import Config
    from apiserver.registry.clock import Clock


def main(
    arguments: Sequence[str] | None = None, clock: Clock | None = None, drain_s: float | None = None
) -> int:
    """Runs the command line, and returns the exit code. clock, drain_s: passed to `run`."""
    # Also here, as extensions may import gRPC's library before the server does: see `storage.grpc_library`.
    os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
    if arguments is None:
        _end_at_signals()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None and Path(sys.argv[0]).name == KUBE_APISERVER:
        given.insert(0, KUBE_APISERVER)
    try:
        return _run(given, clock, drain_s)
    except UsageError as error:
        _report(error, as_json=_logs_json(given))
        return exit_codes.USAGE
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "apiserver"):
            raise
        print_error(
            f"cannot import {package}, which apiserver requires: {error}; run 'pip install apiserver'"
        )
        return exit_codes.FAILURE


def kubectl_rewind() -> int:
    """The program `kubectl-rewind`, a plugin of kubectl: `kubectl rewind` is `apiserver history`."""
    _end_at_signals()
    return main(["history", *sys.argv[1:]])


def _end_at_signals() -> None:
    """Let SIGINT and SIGTERM end the program without a traceback until a command handles them.

    The default action would do nothing to the first process of a container.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os._exit(exit_codes.SIGNALLED + number))


def _run(given: list[str], clock: Clock | None, drain_s: float | None) -> int:
    """Run what a command line asks for. Returns the exit code. Raises UsageError."""
    command = given[0] if given else ""
    options = given[: given.index("--")] if "--" in given else given
    if "--version" in options:
        own = command != KUBE_APISERVER  # Else scripts compare it with the real one's.
        return _print(version_line() if own else f"Kubernetes {EmulatedRelease().git_version}")
    if command == HELP:
        return _run(_about(given[1:]), clock, drain_s)
    if command and not command.startswith("-") and command not in COMMANDS:
        raise UsageError(f"unknown command {command!r}", hint_for(command, COMMANDS))
    if command in _SUBCOMMANDS:
        run, failed = _SUBCOMMANDS[command]
        return run_subcommand(partial(run, given[1:]), failed)
    if command not in SERVERS and not _HELP_FLAGS.isdisjoint(options) and "--help-all" not in options:
        return _print(help_page().rstrip())
    return _serve(given, clock, drain_s)


def _about(given: list[str]) -> list[str]:
    """Returns the command line that prints the help that `help` is asked for. Raises UsageError."""
    words = [each for each in given if each != HELP and each not in _HELP_FLAGS]
    if words and words[0].startswith("-"):
        raise UsageError(f"{HELP}: unknown flag: {words[0]}", f". {help_hint()}")
    return [*words, "--help"]


_HELP_FLAGS: Final = frozenset({"-h", "--help"})


def _serve(given: list[str], clock: Clock | None, drain_s: float | None) -> int:
    """Run the server. Returns the exit code. Raises UsageError."""
    # Imported here, so that help and versions are fast.
    from apiserver.app.process import run
    from apiserver.cli.command_line import parse
    from apiserver.registry.clock import SYSTEM_CLOCK

    try:
        if given[:1] and given[0] in SERVERS:
            given = ["--help-all" if each in _HELP_FLAGS else each for each in given]
        config = parse(given)
        make_hooks = _hooks_for(config)
    except (SystemExit, OSError) as end:  # It has printed the help, or could not.
        return run_subcommand(partial(_raise, end), exit_codes.FAILURE)
    return run(config, clock=clock or SYSTEM_CLOCK, drain_s=drain_s, make_hooks=make_hooks)


def _logs_json(given: Sequence[str]) -> bool:
    """Whether a command line asks for logs in JSON, itself or in its file. It need not be valid otherwise."""
    if "--logging-format=json" in given or ("--logging-format", "json") in pairwise(given):
        return True
    files = [value for name, value in pairwise(given) if name == "--config"]
    files += [each.removeprefix("--config=") for each in given if each.startswith("--config=")]
    return any(map(_file_logs_json, files))


def _file_logs_json(path: str) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        lines = Path(path).read_text().splitlines()
        return any(re.fullmatch(r"logging-format:\s*[\"']?json[\"']?\s*(#.*)?", line) for line in lines)
    return False


def _report(error: UsageError, *, as_json: bool) -> None:
    line = f"{error}{error.hint}"
    if as_json:
        from apiserver.app.serving import logs

        logs.configure(as_json=True, verbosity=0)
        logs.log.error("%s", line)
    else:
        print_error(line)


def _print(line: str) -> int:
    """Print a text, and return the exit code."""

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

    try:
        snapshot.run(arguments)
    except StorageError as error:
        print_error(error)
        return exit_codes.FAILURE
    return 0


def _run_alone(name: str, arguments: Sequence[str]) -> int:
    """Run a command that prints its errors itself."""
    code: int = import_module(COMMANDS[name].module).run(arguments)
    return code


def _ask(name: str, arguments: Sequence[str]) -> int:
    """Run a command that sends requests to a server."""
    from apiserver.cli.api_client import RequestFailed

    command = import_module(COMMANDS[name].module)
    try:
        code: int = command.run(arguments)
    except RequestFailed as error:
        print_error(error)
        code = command.FAILED
    return code


def _storage(command: str, arguments: Sequence[str]) -> int:
    """Run a subcommand of `storage`. command: the name that it was called by."""
    from apiserver.cli import storage
    from apiserver.cli.rewriter import Interrupted, RewriteFailed
    from apiserver.storage.errors import StorageError

    try:
        is_done = storage.run([command, *arguments])
    except (RewriteFailed, StorageError) as error:
        print_error(error)
        return exit_codes.FAILURE
    except Interrupted as interrupted:
        for line in storage.resume_hint([command, *arguments], interrupted):
            print_error(line)
        return exit_codes.SIGNALLED + interrupted.number
    return 0 if is_done else exit_codes.FAILURE


# What runs each, imported when it does, and its exit code when it fails. Two of them answer by 1.
_SUBCOMMANDS: Final[Mapping[str, tuple[Callable[[Sequence[str]], int], int]]] = {
    "snapshot": (_snapshot, exit_codes.FAILURE),
    "storage": (partial(_storage, "storage"), exit_codes.FAILURE),
    "migrate": (partial(_storage, "migrate"), exit_codes.FAILURE),
    "auth": (partial(_ask, "auth"), exit_codes.USAGE),
    "deprecations": (partial(_ask, "deprecations"), exit_codes.USAGE),
    "console": (partial(_ask, "console"), exit_codes.FAILURE),
    "top": (partial(_ask, "top"), exit_codes.FAILURE),
    "history": (partial(_ask, "history"), exit_codes.FAILURE),
    "conformance": (partial(_run_alone, "conformance"), exit_codes.USAGE),
    "types": (partial(_ask, "types"), exit_codes.FAILURE),
    "doctor": (partial(_run_alone, "doctor"), exit_codes.USAGE),
    "cel": (partial(_run_alone, "cel"), exit_codes.USAGE),
    "faults": (partial(_ask, "faults"), exit_codes.FAILURE),
    **{
        name: (partial(_run_alone, name), exit_codes.FAILURE)
        for name in ("audit", "convert", "crd", "envtest-assets", "extensions", "completion", "version")
    },
}


if __name__ == "__main__":
    sys.exit(main())
