"""`apiserver completion`: scripts that let a shell complete commands, flags and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from apiserver.cli.argument_parser import path
from apiserver.cli.commands import COMMANDS, SERVE, SERVERS
from apiserver.cli.flag_values import PATH
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser

SHELLS: Final = ("bash", "zsh", "fish")
_ABOUT: Final = """
Prints a completion script for apiserver commands and flags. To load the script in each new shell, run the
following command for your shell:

  bash   echo 'source <(apiserver completion bash)' >> ~/.bashrc
  zsh    apiserver completion zsh > "${fpath[1]}/_apiserver"
  fish   apiserver completion fish > ~/.config/fish/completions/apiserver.fish
"""
# What options call their values if these are paths.
_FILES: Final = frozenset({"FILE", "PATH"})
_PATHS: Final = (path, PATH.parse)
_DIRECTORIES: Final = frozenset({"DIR"})


def run(arguments: Sequence[str]) -> int:
    """Print the script. Returns the exit code. Raises UsageError; exits for --help."""
    # Only this command needs it.
    import shtab

    shell = parser().parse_args(arguments).shell
    print(shtab.complete(whole_parser(), shell))
    return 0


def parser() -> IntermixedParser:
    built = described_parser("completion", _ABOUT)
    built.add_argument(
        "shell", metavar="|".join(SHELLS), choices=SHELLS, help="The shell for which to print the script."
    )
    return built


def whole_parser() -> argparse.ArgumentParser:
    """Returns a parser with all commands, for those who read its options rather than parse with it."""
    whole = argparse.ArgumentParser(
        prog="apiserver", parents=[COMMANDS[SERVE].build_parser()], add_help=False, conflict_handler="resolve"
    )
    commands = whole.add_subparsers(metavar="COMMAND")
    for name, command in COMMANDS.items():
        own = command.build_parser()
        if name not in SERVERS:  # All share the parser of these, which stays as it is.
            _describe_briefly(own, command.summary)
        # Subparsers are made by name, but these exist already.
        commands.add_parser(name, help=command.summary, add_help=False)
        commands.choices[name] = own
    _complete_paths(whole)
    return whole


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {each.dest: each.help or "" for each in action._choices_actions}
            for name, subparser in action.choices.items():
                yield summaries[name], subparser


def _describe_briefly(parser: argparse.ArgumentParser, summary: str) -> None:
    """Replace the descriptions of a parser and those of its commands, which shells show beside names."""
    parser.description = summary
    for each, subparser in _subparsers(parser):
        _describe_briefly(subparser, each)


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    """Have values that are paths be completed as such, in a parser and in those of its commands."""
    import shtab

    for _, subparser in _subparsers(parser):
        _complete_paths(subparser)
    for action in parser._actions:
        if action.type in _PATHS or action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in _DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
