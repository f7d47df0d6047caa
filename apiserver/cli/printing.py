"""Prints the output of subcommands. Control characters in texts from servers and files are escaped.

Names may contain any character except `/` and `%`, and the server may be any program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from apiserver.cli.printable_text import printable, printable_json, printable_lines

# A server may send a message of megabytes.
LINE_LENGTH_MAX: Final = 4_000
# Of a table.
CELL_LENGTH_MAX: Final = 57


def print_lines(text: str) -> None:
    """Print a text and a line break, at once. Its own line breaks stay."""
    print(printable_lines(text), flush=True)


def print_line(text: str) -> None:
    """Print a text on one line, at once: its line breaks are escaped, too."""
    print(printable(text), flush=True)


def print_error(text: object) -> None:
    """Print an error on stderr, in one line that begins with `apiserver:`."""
    line = " ".join(each.strip() for each in str(text).splitlines())
    _print_to_stderr(f"apiserver: {printable(_shortened(line))}")


def print_warning(text: str) -> None:
    """Print a warning on stderr, in one line."""
    _print_to_stderr(printable(_shortened(text)))


def print_json(document: Any, *, is_indented: bool = True) -> None:
    """Print a document as JSON, with the same meaning to programs that parse it."""
    import orjson  # Not for the commands that print no JSON.

    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if is_indented else 0)
    try:
        text = orjson.dumps(document, option=option).decode()
    except orjson.JSONEncodeError:  # It refuses lone surrogates.
        layout: dict[str, Any] = {"indent": 2} if is_indented else {"separators": (",", ":")}
        text = f"{json.dumps(document, ensure_ascii=False, **layout)}\n"
    write_output(printable_json(text).encode())


def write_output(data: bytes) -> None:
    """Write bytes to stdout, whatever its encoding is; as text if it takes only text, like `io.StringIO`.

    Raises OSError, and ValueError if stdout is closed.
    """
    if (buffer := getattr(sys.stdout, "buffer", None)) is not None:
        buffer.write(data)
    else:
        sys.stdout.write(data.decode(errors="surrogateescape"))


def flush_output() -> None:
    """Flush stdout and stderr, if there are any; output that cannot be written is lost."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # ValueError: it is closed.
                stream.flush()


def _print_to_stderr(line: str) -> None:
    """Print a line on stderr. If that fails, the exit code remains."""
    if sys.stderr is not None:  # Else `print` would take stdout.
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def _shortened(text: str, length_max: int = LINE_LENGTH_MAX) -> str:
    return text if len(text) <= length_max else f"{text[:length_max]}..."


def aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table."""
    shown = [[_shortened(printable(cell), CELL_LENGTH_MAX) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
