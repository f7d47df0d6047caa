"""`apiserver history list`: which versions an object has had, and who made them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from apiserver.cli.argument_parser import UsageError, add_output_option
from apiserver.cli.history.object_client import ListedVersion, add_object_arguments, object_client
from apiserver.cli.printing import aligned, print_json, print_lines

COMMAND: Final = "history list"
_ABOUT: Final = """
Lists the versions of an object, the newest first. For each version, the table shows the time of the change,
the user and the field manager that made it, the verb of the request, and the fields that it has changed. A
version from before the history begins has no author.

With -o json, the command prints the versions as the server returns them, and `"more": true` if there are more
versions than --limit. The user needs permission to use the
get verb on the object and on its history subresource.
"""
VERSIONS_SHOWN: Final = 20
# What a terminal can still show; -o json has all that the server lists.
FIELDS_SHOWN: Final = 5
_HEADS: Final = ("REVISION", "TIME", "USER", "MANAGER", "VERB", "CHANGED")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("list", description=_ABOUT, help="List the versions of an object.")
    add_object_arguments(parser)
    parser.add_argument(
        "--limit",
        type=int,
        default=VERSIONS_SHOWN,
        metavar="int",
        help=f"The number of versions to show. 0 shows all versions. (default {VERSIONS_SHOWN})",
    )
    add_output_option(parser, "table", "json")
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Print the versions. Returns the exit code. Raises UsageError, RequestFailed."""
    if given.limit < 0:
        raise UsageError(f"{COMMAND}: --limit must not be negative")
    with object_client(given, COMMAND) as client:
        versions, has_more = (
            client.versions(given.limit) if given.limit else ([*client.all_versions()], False)
        )
    if given.output == "json":
        documents = [each.document for each in versions]
        print_json({"versions": documents, **({"more": True} if has_more else {})})
        return 0
    print_lines("\n".join(_table(versions)))
    if has_more:
        print_lines("... more versions; --limit shows them")
    return 0


def _table(versions: Sequence[ListedVersion]) -> Iterator[str]:
    rows = [
        (
            str(each.revision),
            shown_time(each.time) or "-",
            each.user or "-",
            each.manager or "-",
            each.verb or "-",
            _changed(each),
        )
        for each in versions
    ]
    return aligned([_HEADS, *rows])


def shown_time(time: str) -> str:
    """Returns a time without its fraction: `2026-11-28T10:00:00.123000Z` -> `2026-11-28T10:00:00Z`."""
    seconds, point, _ = time.partition(".")
    return f"{seconds}Z" if point else time


def _changed(version: ListedVersion) -> str:
    if version.is_deleted:
        return "deleted"
    if version.document.get("lost") is True:
        return "content lost"
    if version.document.get("purged") is True:
        return "purged"
    if not version.is_recorded:
        return "not recorded"
    thinned = version.document.get("thinned")
    before = f" (after {thinned} dropped status changes)" if isinstance(thinned, int) else ""
    return shown_fields(version.changed) + before


def shown_fields(fields: Sequence[str]) -> str:
    """Returns the first fields, and how many more there are."""
    more = len(fields) - FIELDS_SHOWN
    return ", ".join([*fields[:FIELDS_SHOWN], *([f"{more} more"] if more > 0 else [])]) or "-"
