"""The page of `apiserver --help`: the commands, and the flags that most users need.

`--help-all` prints the rest. The page needs shorter texts than the declarations of the flags
have, and importing those takes 0.3 s; a test compares flags and defaults with them.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from apiserver.cli.argument_parser import Parser, filled, help_width
from apiserver.cli.commands import COMMANDS, HELP

_ABOUT: Final = """
apiserver serves the Kubernetes API, on an embedded store or etcd.
"""
_MORE: Final = """
'apiserver COMMAND --help' describes a command.
"""
FLAGS: Final = (
    ("--config FILE", "A YAML file that contains flags."),
    ("--data-dir DIR", "The directory for the store, keys and kubeconfig (default apiserver-data)."),
    ("--bind-address IP", "The IP address to listen on (default 127.0.0.1)."),
    ("--secure-port PORT", "The HTTPS port. 0 picks a free port (default 6443)."),
    ("--storage-backend NAME", "The store: etcd3, embedded or memory (default etcd3 or embedded)."),
    ("--etcd-servers URLS", "Etcd servers to use instead of the embedded store."),
    ("--token-auth-file FILE", "A file that contains users' bearer tokens."),
    ("--emulated-version 1.NN", "The Kubernetes release to serve (default 1.36)."),
    ("--logging-format NAME", "The log format: text or json (default text)."),
    ("-v, --v LEVEL", "The log verbosity. 4 adds debug logs (default 0)."),
)
GENERAL_FLAGS: Final = (
    ("-h, --help", "Print this page."),
    ("--help-all", "Print all flags of the server."),
    ("--version", "Print the version."),
)


def help_page(width: int | None = None) -> str:
    """Returns the page. width: by default that of the terminal."""
    width = width or help_width()
    parts = [
        filled(_ABOUT, width),
        "Usage:\n  apiserver [COMMAND] [flags]",
        _section("Commands", ((name, each.summary) for name, each in COMMANDS.items()), width),
        _section("Flags of the server", FLAGS, width),
        _section("General flags", GENERAL_FLAGS, width),
        filled(_MORE, width),
    ]
    return "\n\n".join(parts) + "\n"


def _section(title: str, rows: Iterable[tuple[str, str]], width: int) -> str:
    return "\n".join([f"{title}:", *_lines(list(rows), width)])


def _lines(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Yields rows of two columns; on a narrow terminal the second is below the first."""
    column = max(len(name) for name, _ in rows) + 4
    if column > width // 2:
        for name, text in rows:
            yield f"  {name}"
            yield textwrap.fill(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
        return
    for name, text in rows:
        yield textwrap.fill(
            text,
            width,
            initial_indent=f"  {name}".ljust(column),
            subsequent_indent=" " * column,
            break_on_hyphens=False,
        )


def parser() -> argparse.ArgumentParser:
    """Returns the parser of what follows `help`."""
    built = Parser(prog=f"apiserver {HELP}", description=COMMANDS[HELP].summary)
    built.add_argument("command", metavar="COMMAND", nargs="*", choices=list(COMMANDS), help="A command.")
    return built
