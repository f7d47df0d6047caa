"""The parser of subcommands, which accepts options before, between and after positional arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from apiserver.cli.argument_parser import Parser


class IntermixedParser(Parser):
    """Takes options anywhere, as kubectl does: `auth explain get pods --as alice web`.

    By itself argparse gives a positional argument that may be left out its default as soon as an option
    follows those before it; and `parse_intermixed_args`, which does not, knows no subcommands and loses a
    leading `--`. So arguments are put in order first. What follows `--` is never an option.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if args is not None:
            args = list(args)
            if not self._has_subcommands():
                args = self._options_first(args)
            elif args and self._is_unknown(args[0]):
                self.refuse(args[:1])
        given, unknown = super().parse_known_args(args, namespace)
        if unknown:  # Here, as the parser of all commands knows neither its name nor its options.
            self.refuse(unknown)
        return given, unknown

    def _has_subcommands(self) -> bool:
        return any(isinstance(action, argparse._SubParsersAction) for action in self._actions)

    def _options_first(self, arguments: list[str]) -> list[str]:
        """Returns the options with their values, `--`, and the positional arguments."""
        options: list[str] = []
        positional: list[str] = []
        remaining = iter(arguments)
        for argument in remaining:
            if argument == "--":
                positional += remaining
            elif argument == "-" or not argument.startswith("-"):
                positional.append(argument)
            elif self._parse_optional(argument) is None:
                # Numbers and what has spaces: argparse would take it for the first positional argument.
                self.refuse([argument])
            elif self._is_unknown(argument) and not {"-h", "--help"} & {*options}:
                self.refuse([argument])  # Else argparse would rather report a missing argument.
            else:
                options.append(argument)
                if self._takes_next(argument):
                    options += [value for value in [next(remaining, None)] if value is not None]
        return [*options, "--", *positional] if positional else options

    def _is_unknown(self, argument: str) -> bool:
        """Tells whether an argument is a flag that the parser does not have. `-nb` is `-n b`."""
        if not argument.startswith("-") or argument in ("-", "--"):
            return False
        name = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
        return name not in self._option_string_actions

    def _takes_next(self, option: str) -> bool:
        """Tells whether the value of an option is the argument after it. Those not known are for argparse."""
        actions = self._option_string_actions
        if option in actions:
            return actions[option].nargs is None
        if option.startswith("--"):
            return False
        # Short options together: the first one that takes a value has all the letters after it.
        for position, letter in enumerate(option[1:], start=2):
            action = actions.get(f"-{letter}")
            if action is None or action.nargs is None:
                return action is not None and position == len(option)
        return False


def described_parser(command: str, about: str) -> IntermixedParser:
    """Returns the parser of a command with a description."""
    return IntermixedParser(prog=f"apiserver {command}", description=about)


def run_subcommand(parser: IntermixedParser, arguments: Sequence[str]) -> int:
    """Run the subcommand that the arguments name, which has set `command`. Returns its exit code.

    Raises what the subcommand raises, and UsageError; exits for --help.
    """
    given = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = given.command
    return command(given)
