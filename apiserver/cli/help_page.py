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
apiserver serves the Kubernetes API, on an embedded store or on etcd, without a cluster.
"""
_MORE: Final = """
'apiserver COMMAND --help' describes a command. 'apiserver --help-all' lists all flags of the server.
"""
FLAGS: Final = (
    ("--config FILE", "Read flags from a YAML file."),
    ("--data-dir DIR", "Keep the store, keys and kubeconfig here (default apiserver-data)."),
    ("--bind-address IP", "Listen on this address (default 127.0.0.1)."),
    ("--secure-port PORT", "Serve HTTPS on this port; 0 picks a free one (default 6443)."),
    ("--storage-backend NAME", "Store objects in etcd3, embedded or memory (default etcd3 or embedded)."),
    ("--etcd-servers URLS", "Connect to etcd, instead of using the embedded store."),
    ("--token-auth-file FILE", "Authenticate users by the tokens in this file."),
    ("--emulated-version 1.NN", "Serve the API of another Kubernetes release (default 1.36)."),
    ("--logging-format NAME", "Log as text or json (default text)."),
    ("-v, --v LEVEL", "Log more; 4 and above logs debug messages (default 0)."),
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
        "Usage:\n  apiserver [serve] [flags]\n  apiserver COMMAND [flags]",
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
