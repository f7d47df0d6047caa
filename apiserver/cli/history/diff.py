"""`apiserver history diff`: what has changed in an object between two moments."""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from apiserver.cli.argument_parser import UsageError, add_output_option
from apiserver.cli.history.moments import server_moment
from apiserver.cli.history.object_client import add_object_arguments, object_client
from apiserver.cli.printing import print_json, print_lines, print_warning

COMMAND: Final = "history diff"
_ABOUT: Final = """
Shows what has changed in an object between two moments, as a unified diff of its YAML.

A moment is a resource version as `apiserver history list` shows it, or `@now`, or a time such as
`@2026-11-28T10:00:00Z`, or a time before now such as `@-30m`, `@-2h` or `@-7d`. The diff does not include
`metadata.resourceVersion` and `metadata.managedFields`.

With -o json, the command prints the server's response, which also contains the changes as a JSON merge patch.
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "diff", description=_ABOUT, help="Show what has changed in an object between two moments."
    )
    add_object_arguments(parser)
    parser.add_argument("before", metavar="FROM", help="The first moment.")
    parser.add_argument("after", metavar="TO", nargs="?", default="@now", help="The second. (default @now)")
    add_output_option(parser, "yaml", "json")
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Print the difference. Returns the exit code. Raises UsageError, RequestFailed."""
    now_s = time.time()
    moments = {"from": server_moment(given.before, now_s), "to": server_moment(given.after, now_s)}
    if moments["from"] == moments["to"]:
        raise UsageError(f"{COMMAND}: {given.before} and {given.after} are the same moment")
    with object_client(given, COMMAND) as client:
        answer = client.difference(moments)
    if given.output == "json":
        print_json(answer)
    elif answer["yamlDiff"]:
        print_lines(answer["yamlDiff"].removesuffix("\n"))
    if answer.get("thinned") is True:
        print_warning("the diff does not contain the status, which the history does not know any more")
    return 0
