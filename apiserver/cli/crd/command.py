"""`apiserver crd`: the parser of its subcommands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.cli.crd import check, diff, generate
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser, run_subcommand

_ABOUT: Final = "Checks, compares and generates CustomResourceDefinitions, without a server."


def run(arguments: Sequence[str]) -> int:
    """Run the subcommand that the arguments after `crd` name. Returns its exit code.

    Raises UsageError; exits for --help.
    """
    return run_subcommand(parser(), arguments)


def parser() -> IntermixedParser:
    parser = described_parser("crd", _ABOUT)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for subcommand in (check, diff, generate):
        subcommand.add_parser(commands)
    return parser
