"""`apiserver history`: the parser of its subcommands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.cli.history import blame, changes, diff, listing, purge, undo
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser, run_subcommand

_ABOUT: Final = """
Shows what has changed, and undoes changes, on a server that runs with --history.

`apiserver history KIND NAME` is short for `apiserver history list KIND NAME`.
"""
FAILED: Final = 1
_SUBCOMMANDS: Final = {
    "list": listing,
    "changes": changes,
    "diff": diff,
    "undo": undo,
    "blame": blame,
    "purge": purge,
}


def run(arguments: Sequence[str]) -> int:
    """Run the subcommand that the arguments after `history` name. Returns its exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    is_short = bool(arguments) and arguments[0] not in (*_SUBCOMMANDS, "-h", "--help")
    return run_subcommand(parser(), ["list", *arguments] if is_short else arguments)


def parser() -> IntermixedParser:
    parser = described_parser("history", _ABOUT)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for subcommand in _SUBCOMMANDS.values():
        subcommand.add_parser(commands)
    return parser
