"""The parser that the server and its subcommands share: its errors name the command and where to get help.

It imports little, so that `apiserver --help` and `apiserver version` are fast.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

# Longer lines are hard to read.
HELP_WIDTH_MAX: Final = 110
HELP_WIDTH_MIN: Final = 30


class UsageError(ValueError):
    """The command line or the configuration file is not valid; the message is one line.

    hint: continues the message with what was meant, and with where to get help; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def help_hint(command: str = "apiserver") -> str:
    return f"See '{command} --help'"


def hint_for(word: str, known: Iterable[str], command: str = "apiserver") -> str:
    """Returns the hint for a word that is not known: the nearest one that is, and how to get help."""
    # Only mistakes need it.
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    return f"{f'; did you mean {near[0]}?' if near else '.'} {help_hint(command)}"


def nonempty(text: str) -> str:
    """Checks a path. An empty one, as of a variable that is not set, would be the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("the path must not be empty")
    if "\0" in text:  # From a configuration file.
        raise argparse.ArgumentTypeError("the path must not contain a null byte")
    return text


def path(text: str) -> Path:
    return Path(nonempty(text))


def add_output_option(parser: argparse.ArgumentParser, *formats: str, what: str = "output format") -> None:
    """Have a parser take `-o`. formats: the first one is the default. what: what the help calls it."""
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default=formats[0],
        help=f"The {what}. (default {formats[0]})",
    )


def help_width() -> int:
    """Returns the width of help: that of the terminal, within bounds."""
    # As argparse: some terminals break a line that fills them.
    columns = shutil.get_terminal_size((HELP_WIDTH_MAX + 2, 24)).columns - 2
    return min(HELP_WIDTH_MAX, max(columns, HELP_WIDTH_MIN))


def filled(text: str, width: int) -> str:
    """Returns a text whose paragraphs fit a width. Indented lines stay as they are."""
    paragraphs = re.split(r"\n(?:[ \t]*\n)+", textwrap.dedent(text).strip("\n"))
    return "\n\n".join(
        each
        if each.startswith(" ")
        else textwrap.fill(" ".join(each.split()), width, break_on_hyphens=False, break_long_words=False)
        for each in paragraphs
    )


class HelpFormatter(argparse.HelpFormatter):
    """Fits help to the terminal, keeps paragraphs, and breaks no flag or name at its hyphens.

    The usage names the arguments only: the flags are listed below it.

    width: by default that of the terminal.
    """

    def __init__(self, prog: str, width: int | None = None) -> None:
        super().__init__(prog, max_help_position=40, width=width or help_width())

    def _format_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None) -> str:
        text = f"Usage: {usage % {'prog': self._prog} if usage else self._usage_of(actions)}"
        return f"{textwrap.fill(text, self._width, subsequent_indent=' ' * 4, break_on_hyphens=False)}\n\n"

    def _usage_of(self, actions: Iterable[argparse.Action]) -> str:
        words = [self._prog]
        for action in actions:
            if isinstance(action, argparse._SubParsersAction):
                return " ".join([*words, "|".join(action.choices)])  # Each has its own usage.
            if not action.option_strings:
                words.append(self._format_args(action, self._get_default_metavar_for_positional(action)))
        return " ".join([*words, "[flags]"])

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """As of Python 3.13, whose help names the value of an option once."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.indent(filled(text, width - len(indent)), indent)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError where argparse would print the usage and exit.

    Flags cannot be abbreviated.
    """

    def __init__(self, *, add_help: bool = True, **options: Any) -> None:
        defaults = {"formatter_class": HelpFormatter, "allow_abbrev": False}
        super().__init__(**{**defaults, **options}, add_help=False)
        self.color = False  # Python 3.14 would color parts of the help.
        self._positionals.title, self._optionals.title = "Arguments", "Flags"
        if add_help:
            self.add_argument("-h", "--help", action="help", help="Print this help.")

    def add_subparsers(self, **options: Any) -> Any:
        return super().add_subparsers(**{"prog": self.prog, "title": "Commands", **options})

    def error(self, message: str) -> Any:
        command = self.prog.removeprefix("apiserver").strip()
        raise UsageError(f"{command}: {message}" if command else message, f". {help_hint(self.prog)}")

    def refuse(self, unknown: list[str]) -> Any:
        """Raise UsageError for arguments that are not known."""
        word = next(each for each in unknown if each != "--")
        command = self.prog.removeprefix("apiserver").strip()
        if word.startswith("-"):
            name = word.partition("=")[0]
            hint = hint_for(name, self._option_string_actions, self.prog)
            raise UsageError(f"{command}: unknown flag: {name}", hint)
        raise UsageError(f"{command}: unexpected argument {word!r}", f". {help_hint(self.prog)}")

    def print_help(self, file: Any = None) -> None:
        """Print the help. Raises OSError if it cannot be written, of which argparse takes no notice."""
        output = sys.stdout if file is None else file
        if output is not None:
            output.write(self.format_help())
