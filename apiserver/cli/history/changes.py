"""`apiserver history changes`: what has changed lately, and who changed it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Final

from apiserver.cli.api_client import ApiClient
from apiserver.cli.argument_parser import UsageError, add_output_option
from apiserver.cli.history.changes_client import (
    Gap,
    ListedChange,
    add_period_arguments,
    listed_changes,
    period_query,
)
from apiserver.cli.history.listing import shown_fields, shown_time
from apiserver.cli.history.object_client import PAGE, ObjectName
from apiserver.cli.printing import aligned, print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options

COMMAND: Final = "history changes"
_ABOUT: Final = """
Shows what has changed lately: the users who made changes, and for each of them the objects, the number of
changes, the time of the last one, the verbs of the requests, and the changed fields. The last changes come
first. If the history has gaps, the command prints them below the table.

With -o json, the command prints each change as the server returns it, and `"more": true` if there are more
changes than --limit. The user needs permission to use the
get verb on the path /history. The server shows the changes of objects that the user may list and whose
history subresource the user may get.
"""
CHANGES_READ: Final = 1_000
# What memory can hold; for all, the server is asked without a limit.
CHANGES_MAX: Final = 100_000
_HEADS: Final = ("USER", "NAMESPACE", "OBJECT", "CHANGES", "LAST", "VERBS", "CHANGED")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "changes", description=_ABOUT, help="Show what has changed lately, and who changed it."
    )
    add_period_arguments(parser, " The default is the begin of the history.")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        default="",
        help="Only changes of objects in this namespace. The default is all objects.",
    )
    parser.add_argument("--by", metavar="USER", help="Only changes that this user made.")
    parser.add_argument(
        "--limit",
        type=int,
        default=CHANGES_READ,
        metavar="int",
        help=f"The number of changes to read. 0 reads all changes. (default {CHANGES_READ})",
    )
    add_output_option(parser, "table", "json")
    add_server_options(parser)
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Print the changes. Returns the exit code. Raises UsageError, RequestFailed."""
    if given.limit < 0:
        raise UsageError(f"{COMMAND}: --limit must not be negative")
    if given.limit > CHANGES_MAX:
        raise UsageError(f"{COMMAND}: --limit must be at most {CHANGES_MAX}; 0 reads all changes")
    query = period_query(given, COMMAND)
    with closing(ApiClient(ServerOptions.of(given), COMMAND)) as client:
        page_size = min(given.limit + 1, PAGE) if given.limit else PAGE
        found = [*islice(listed_changes(client, query, page_size), given.limit + 1 if given.limit else None)]
    has_more = bool(given.limit) and len(found) > given.limit
    if has_more:
        found.pop()
    if given.output == "json":
        documents = [each.document if isinstance(each, Gap) else each.version.document for each in found]
        print_json({"changes": documents, **({"more": True} if has_more else {})})
        return 0
    changes = [each for each in found if isinstance(each, ListedChange)]
    if changes:
        print_lines("\n".join(_table(changes)))
    for gap in (each for each in found if isinstance(each, Gap)):
        print_lines(f"... changes after revision {gap.since}, up to {gap.until}, are not recorded")
    if has_more:
        print_lines("... more changes; --limit shows them")
    return 0


def _table(changes: Iterable[ListedChange]) -> Iterator[str]:
    groups: dict[str, dict[ObjectName, list[ListedChange]]] = {}
    for each in changes:
        groups.setdefault(each.version.user, {}).setdefault(each.target, []).append(each)
    rows = [_row(user, target, made) for user, objects in groups.items() for target, made in objects.items()]
    return aligned([_HEADS, *rows])


def _row(user: str, target: ObjectName, made: Sequence[ListedChange]) -> tuple[str, ...]:
    versions = [each.version for each in made]
    fields = dict.fromkeys(field for each in versions for field in each.changed)
    return (
        user or "-",
        target.namespace or "-",
        target.title,
        str(len(made)),
        shown_time(versions[0].time),
        ", ".join(dict.fromkeys(each.verb for each in versions)),
        "deleted" if versions[0].is_deleted else shown_fields([*fields]),
    )
