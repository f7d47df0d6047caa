"""`apiserver audit summary`: who did what to which objects, by the files of an audit log."""

from __future__ import annotations

import argparse
import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from apiserver.audit.summary import DIMENSIONS, NAMES_TOLD_MAX, Summary, SummaryRow
from apiserver.cli.argument_parser import UsageError, add_output_option, nonempty
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser, run_subcommand
from apiserver.cli.printing import aligned, print_error, print_json, print_lines

_SUMMARY: Final = """
Counts the requests in audit log files. By default, the command groups requests by user, verb and resource.
The files can be compressed with gzip. `-` means standard input. The audit log must be in JSON format.

The command counts each request once, based on its last audit event. To limit memory use, the command combines
all rows after the first 100,000 into one row.

The exit code is 1 if the command cannot read a file completely.
"""
# A longer line is malformed. An event has at most the objects of a request and of an answer.
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
ROWS_TOLD: Final = 50
_GZIP_MAGIC: Final = b"\x1f\x8b"


def run(arguments: Sequence[str]) -> int:
    """Run the subcommand that the arguments after `audit` name, and print the result.

    Returns the exit code: 1 if a file cannot be read as a whole. Raises UsageError; exits for --help.
    """
    return run_subcommand(parser(), arguments)


def parser() -> IntermixedParser:
    parser = described_parser("audit", "Summarizes audit logs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    summary = commands.add_parser("summary", description=_SUMMARY, help="Count the requests in an audit log.")
    summary.add_argument(
        "files",
        type=nonempty,
        nargs="+",
        metavar="FILE",
        help="An audit log file, or - for standard input.",
    )
    summary.add_argument(
        "--by",
        default="user,verb,resource",
        metavar="list",
        help=f"A comma-separated list of the fields to group by. Possible fields: {', '.join(DIMENSIONS)}. "
        "(default user,verb,resource)",
    )
    summary.add_argument(
        "--denied", action="store_true", help="Count only requests that the server rejected with 401 or 403."
    )
    summary.add_argument(
        "--top",
        type=int,
        default=ROWS_TOLD,
        metavar="int",
        help=f"The number of rows to show. 0 shows all rows. (default {ROWS_TOLD})",
    )
    add_output_option(summary, "table", "json")
    summary.set_defaults(command=_summary)
    return parser


def _summary(given: argparse.Namespace) -> int:
    by = [name.strip() for name in given.by.split(",")]
    if unknown := [name for name in by if name not in DIMENSIONS]:
        raise UsageError(f"audit summary: --by: {unknown[0]!r} is not one of {', '.join(DIMENSIONS)}")
    if given.top < 0:
        raise UsageError("audit summary: --top must not be negative")
    summary = Summary(by, denied_only=given.denied)
    exit_code, read = 0, 0
    for name in given.files:
        try:
            for line in _lines(name):
                summary.add_line(line)
            read += 1
        except (OSError, EOFError, zlib.error) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            print_error(f"{name}: {why}")
            exit_code = 1
    if not (read or summary.events or summary.malformed):
        return exit_code  # A table would read as if nobody had done anything.
    if given.output == "json":
        print_json(_document(summary, by, given.top), is_indented=False)
    else:
        print_lines(_table(summary, by, given.top))
    return exit_code


def _lines(name: str) -> Iterator[bytes]:
    """Yields the lines of a file; what is too long comes without its end.

    Raises OSError, EOFError, zlib.error.
    """
    if name == "-":
        if sys.stdin is None:
            raise OSError("there is no standard input")
        yield from _lines_of(sys.stdin.buffer)
        return
    with Path(name).open("rb") as file:
        is_compressed = file.peek(2)[:2] == _GZIP_MAGIC
        if is_compressed:
            with gzip.GzipFile(fileobj=file) as content:
                yield from _lines_of(content)
        else:
            yield from _lines_of(file)


def _lines_of(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    is_rest = False
    while line := file.readline(LINE_BYTES_MAX):
        if not is_rest:
            yield line
        is_rest = not line.endswith(b"\n")


def _document(summary: Summary, by: Sequence[str], top: int) -> dict[str, Any]:
    return {
        "events": summary.events,
        "malformedLines": summary.malformed,
        **_counts(summary.total),
        "from": summary.total.first,
        "to": summary.total.last,
        "rows": [
            {
                **dict(zip(by, values, strict=True)),
                **_counts(row),
                "objects": len(row.names),
                "hasMoreObjects": row.has_more_names,
                "names": sorted(row.names)[:NAMES_TOLD_MAX],
                "from": row.first,
                "to": row.last,
            }
            for values, row in summary.rows(top)
        ],
        "rowCount": summary.row_count,
        "others": _counts(summary.others),
    }


def _counts(row: SummaryRow) -> dict[str, int]:
    return {"requests": row.requests, "denied": row.denied, "failed": row.failed}


def _table(summary: Summary, by: Sequence[str], top: int) -> str:
    rows = [
        (*values, str(row.requests), str(row.denied), str(row.failed), _objects(row))
        for values, row in summary.rows(top)
    ]
    heads = (*(name.upper() for name in by), "REQUESTS", "DENIED", "FAILED", "OBJECTS")
    lines = list(aligned((heads, *rows)))
    hidden = summary.row_count - len(rows)
    if hidden:
        lines.append(f"... {hidden} more rows")
    if summary.others.requests:
        lines.append(f"... {summary.others.requests} more requests without a separate row")
    total = summary.total
    lines.append("")
    lines.append(
        f"{total.requests} requests, {total.denied} denied, {total.failed} failed; "
        f"{summary.events} events, {summary.malformed} malformed lines"
    )
    if total.first:
        lines.append(f"from {total.first} to {total.last}")
    return "\n".join(lines)


def _objects(row: SummaryRow) -> str:
    """Returns the names of the objects, or how many they are."""
    if row.has_more_names or len(row.names) > NAMES_TOLD_MAX:
        return f"{len(row.names)}{'+' if row.has_more_names else ''}"
    return ", ".join(sorted(row.names))
