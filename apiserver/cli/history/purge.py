"""`apiserver history purge`: removes from the history what must be forgotten."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlencode

from apiserver.cli.api_client import ApiClient
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.history.moments import moment_or_ago
from apiserver.cli.history.object_client import add_namespace_option, object_client
from apiserver.cli.named_resources import add_group_domain_option
from apiserver.cli.printing import print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.cli.worker_answers import invalid_response
from apiserver.meta.vocabulary import Document

COMMAND: Final = "history purge"
_ABOUT: Final = """
Removes from the history of a server what must be forgotten: all versions of one object, all versions of a
namespace and the objects in it, or all changes before a moment. They cannot be restored. The objects that
exist stay as they are, and their later changes are recorded.

To purge an object, the user needs permission to use the delete verb on its history subresource. To purge a
namespace, or all changes before a moment, the user needs permission to use the delete verb on the path
/history. Each replica of a server has its own history: purge each of them.
"""
_PATH: Final = "/history"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "purge", description=_ABOUT, help="Remove from the history what must be forgotten."
    )
    parser.add_argument(
        "kind", metavar="KIND", nargs="?", default="", help="A resource name that kubectl accepts."
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="The name of the object.")
    add_namespace_option(parser)
    parser.add_argument(
        "--all-of-namespace",
        metavar="NAMESPACE",
        default="",
        help="Purge this namespace, and the objects that are or were in it.",
    )
    parser.add_argument(
        "--before",
        metavar="MOMENT",
        default="",
        help="Purge all changes before this moment: a time, a time before now such as 24h or 7d, or a "
        "resource version.",
    )
    add_server_options(parser)
    add_group_domain_option(parser)
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Purge. Returns the exit code. Raises UsageError, RequestFailed."""
    is_object = bool(given.kind or given.name)
    if is_object + bool(given.all_of_namespace) + bool(given.before) != 1 or (is_object and not given.name):
        raise UsageError(f"{COMMAND}: give either KIND NAME, --all-of-namespace or --before")
    if given.namespace and not is_object:
        raise UsageError(f"{COMMAND}: -n is only for an object; see --all-of-namespace")
    if is_object:
        with object_client(given, COMMAND) as client:
            answer = client.client.delete(f"{client.path}{_PATH}")
    else:
        query = {"namespace": given.all_of_namespace, "before": _moment(given.before)}
        sent = urlencode({name: value for name, value in query.items() if value})
        with closing(ApiClient(ServerOptions.of(given), COMMAND)) as api:
            answer = api.delete(f"{_PATH}?{sent}")
    changes, objects = _number(answer, "changes"), _number(answer, "objects")
    print_lines(f"purged {_count(changes, 'change')} of {_count(objects, 'object')}")
    return 0


def _moment(text: str) -> str:
    if not text:
        return ""
    moment = moment_or_ago(text, time.time())
    if not moment:
        raise UsageError(f"{COMMAND}: --before must be a moment in the past")
    return moment


def _count(amount: int, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def _number(answer: Document, field: str) -> int:
    """Returns a number of the answer. Raises RequestFailed."""
    value = answer.get(field) if isinstance(answer, dict) else None
    if not isinstance(value, int):
        raise invalid_response(_PATH)
    return value
