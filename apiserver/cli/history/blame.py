"""`apiserver history blame`: the author of each line of an object."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from apiserver.cli.api_client import RequestFailed
from apiserver.cli.argument_parser import UsageError, add_output_option
from apiserver.cli.history.line_authors import Entry, blamed
from apiserver.cli.history.listing import shown_time
from apiserver.cli.history.object_client import (
    ListedVersion,
    ObjectClient,
    add_object_arguments,
    object_client,
)
from apiserver.cli.printing import aligned, print_json, print_lines
from apiserver.meta.vocabulary import Document

COMMAND: Final = "history blame"
_ABOUT: Final = """
Shows the YAML of an object, and the author of each line: the version that has given the field this value, its
time, its user and its field manager. Lines from before the history begins have no user.

The command reads one version of the object after another, until it knows the authors of all lines.
"""
VERSIONS_READ: Final = 200
_HEADS: Final = ("REVISION", "TIME", "USER", "MANAGER")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "blame", description=_ABOUT, help="Show the author of each line of an object."
    )
    add_object_arguments(parser)
    parser.add_argument(
        "--limit",
        type=int,
        default=VERSIONS_READ,
        metavar="int",
        help="The number of versions to read. Lines that are older than these versions have no user. "
        f"(default {VERSIONS_READ})",
    )
    add_output_option(parser, "table", "json")
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Print the lines. Returns the exit code. Raises UsageError, RequestFailed."""
    if given.limit < 1:
        raise UsageError(f"{COMMAND}: --limit must be at least 1")
    with object_client(given, COMMAND) as client:
        versions = client.all_versions()
        found = [
            (line, None if _is_unknown(entry, maker) else maker)
            for entry, maker in blamed(_states(client, versions, given.limit))
            for line in entry.lines
        ]
    if not found:
        raise RequestFailed(f"{client.title} does not exist now", HTTPStatus.NOT_FOUND)
    if given.output == "json":
        print_json({"lines": [{"text": line, **_document(maker)} for line, maker in found]})
        return 0
    authors = [*aligned([_HEADS, *(_cells(maker) for _, maker in found)])]
    width = max(map(len, authors))
    texts = ["YAML", *(line for line, _ in found)]
    print_lines("\n".join(f"{each.ljust(width)}   {text}" for each, text in zip(authors, texts, strict=True)))
    return 0


def _states(
    client: ObjectClient, versions: Iterator[ListedVersion], limit: int
) -> Iterator[tuple[ListedVersion | None, Document | None]]:
    """Yields versions with the object in each, as far as the history has them.

    After the last one comes None, as the maker of what is older, unless the last one has created the object.
    """
    document: Document | None = None
    for count, version in enumerate(versions):
        if count == limit:
            yield None, document
            return
        try:
            document = client.at(version.revision)
        except RequestFailed as failed:
            if failed.status != HTTPStatus.GONE:
                raise
            # Older than the history. It may be the object as it is now.
            yield None, client.live() if not count else document
            return
        yield version if version.is_recorded else None, document


def _is_unknown(entry: Entry, maker: ListedVersion | None) -> bool:
    """Whether a line of the status may be of a version that the history has dropped."""
    return maker is not None and bool(maker.document.get("thinned")) and entry.path[:1] == ("status",)


def _document(maker: ListedVersion | None) -> Document:
    return {} if maker is None else maker.document


def _cells(maker: ListedVersion | None) -> tuple[str, ...]:
    if maker is None:
        return ("-",) * len(_HEADS)
    return str(maker.revision), shown_time(maker.time), maker.user or "-", maker.manager or "-"
