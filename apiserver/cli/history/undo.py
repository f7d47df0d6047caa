"""`apiserver history undo`: takes a change of an object back, or all changes that a user has made lately."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Final

from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.history.changes_client import Gap, add_period_arguments, listed_changes, period_query
from apiserver.cli.history.object_client import (
    ObjectClient,
    ObjectName,
    add_object_arguments,
    object_client,
)
from apiserver.cli.history.object_undo import DRY_RUN, CannotUndo, NothingToUndo, Undo
from apiserver.cli.printing import print_error, print_line
from apiserver.cli.server_options import ServerOptions

COMMAND: Final = "history undo"
_ABOUT: Final = """
Undoes one change of an object: the fields that the change has set get the values that they had before it. By
default, this is the last change, except changes of the object's status.

If one of these fields has been changed again since, the command prints who changed it, and changes nothing.
The command creates an object again if the change has deleted it, with a new UID. It deletes an object that
the change has created, unless the object has been changed since.

With --by and --since instead of an object, the command undoes all changes that a user has made since then, as
`apiserver history changes` shows them: object by object, the newest first. If a change cannot be undone, it
prints why, and continues with the others. The exit code is 1 if a change could not be undone, or if changes
since then are not recorded.

The command sends ordinary requests, with the credentials in the kubeconfig or in the connection flags. The
server refuses the write if the object changes in the meantime. The history does not contain the values and
annotations of Secrets, so changes of them cannot be undone.
"""
DONE, FAILED = 0, 1
# Of one user: nobody looks through more in a dry run.
CHANGES_MAX: Final = 10_000


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "undo", description=_ABOUT, help="Undo a change of an object, or the changes of a user."
    )
    add_object_arguments(parser, is_optional=True)
    parser.add_argument(
        "--change",
        type=int,
        metavar="REVISION",
        help="The change to undo: the REVISION that `apiserver history list` shows.",
    )
    parser.add_argument("--by", metavar="USER", help="Undo all changes that this user made since --since.")
    add_period_arguments(parser, " Required with --by.")
    parser.add_argument(
        "--dry-run",
        choices=("none", "server"),
        default="none",
        help="With `server`, the server checks the requests, but does not store the results. (default none)",
    )
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Undo the change, or the changes of a user. Returns the exit code. Raises UsageError, RequestFailed."""
    query = DRY_RUN if given.dry_run == "server" else {}
    if given.by is not None:
        return _undo_by_user(given, query)
    if given.kind is None or given.name is None:
        raise UsageError(f"{COMMAND}: KIND and NAME, or --by, are required")
    if given.since is not None or given.until is not None:
        raise UsageError(f"{COMMAND}: --since and --until require --by")
    with object_client(given, COMMAND) as client:
        try:
            for line in Undo(client, query).lines(given.change):
                print_line(line)
        except CannotUndo as error:
            print_error(error)
            return FAILED
    return DONE


def _undo_by_user(given: argparse.Namespace, query: Mapping[str, str]) -> int:
    """Undo what a user has changed. query: of the writes. Returns the exit code.

    Raises UsageError, RequestFailed.
    """
    if given.kind is not None or given.change is not None:
        raise UsageError(f"{COMMAND}: --by takes neither KIND and NAME nor --change")
    if not given.by or given.since is None:
        raise UsageError(f"{COMMAND}: --by requires a name, and --since")
    wanted = period_query(given, COMMAND)
    with closing(ApiClient(ServerOptions.of(given), COMMAND)) as client:
        entries = [*islice(listed_changes(client, wanted), CHANGES_MAX + 1)]
        if len(entries) > CHANGES_MAX:
            raise RequestFailed(f"{given.by} has made more than {CHANGES_MAX} changes since then")
        changes: dict[ObjectName, list[int]] = {}
        refused = undone = 0
        for entry in entries:
            if isinstance(entry, Gap):
                refused += 1
                print_error(f"changes after revision {entry.since}, up to {entry.until}, are not recorded")
            else:
                changes.setdefault(entry.target, []).append(entry.version.revision)
        for target, revisions in changes.items():
            outcome = _undo_changes(client, target, revisions, query)
            undone, refused = undone + outcome.count(True), refused + outcome.count(False)
    note = " (server dry run)" if query else ""
    print_line(f"undone {undone} of {sum(map(len, changes.values()))} changes by {given.by}{note}")
    return FAILED if refused else DONE


def _undo_changes(
    client: ApiClient, target: ObjectName, revisions: Sequence[int], query: Mapping[str, str]
) -> Sequence[bool | None]:
    """Undo changes of one object. Returns for each whether that was possible; None if nothing was left of it.

    Raises RequestFailed if the server cannot be reached.
    """
    asking = ObjectClient(client, target)
    if target.namespace:
        asking.title = f"{target.title} in {target.namespace}"
    undo, outcome = Undo(asking, query), list[bool | None]()
    for revision in revisions:
        try:
            for line in undo.lines(revision):
                print_line(line)
        except NothingToUndo as nothing:
            print_line(str(nothing))
            outcome.append(None)
        except CannotUndo as error:
            print_error(error)
            outcome.append(False)
        except RequestFailed as failed:
            if not failed.status:
                raise
            print_error(f"cannot undo change {revision} of {asking.title}: {failed}")
            outcome.append(False)
        else:
            outcome.append(True)
    return outcome
