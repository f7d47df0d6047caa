"""Prints what subcommands tell. Texts of servers and files come as they are, and command no terminal.

Names may have any character but `/` and `%`, and the server that is asked may be anybody's.
"""

from __future__ import annotations

import sys
from typing import Any

import orjson

from apiserver.cli.printable_text import printable, printable_json, printable_lines


def print_lines(text: str) -> None:
    """Print a text and a line break, at once. Its own line breaks stay."""
    print(printable_lines(text), flush=True)


def print_error(text: object) -> None:
    """Print what went wrong on stderr, in one line that says who tells it."""
    line = " ".join(each.strip() for each in str(text).splitlines())
    print(f"apiserver: {printable(line)}", file=sys.stderr, flush=True)


def print_warning(text: str) -> None:
    """Print what is no result on stderr, in one line."""
    print(printable(text), file=sys.stderr, flush=True)


def print_json(document: Any, *, is_indented: bool = True) -> None:
    """Print a document as JSON, which means the same to who parses it."""
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if is_indented else 0)
    sys.stdout.buffer.write(printable_json(orjson.dumps(document, option=option).decode()).encode())
