"""`apiserver deprecations`: who still calls APIs that go away, on a running server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from apiserver.cli.api_client import USER_AGENT_PREFIX
from apiserver.cli.argument_parser import UsageError, add_output_option
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printable_text import printable
from apiserver.cli.printing import aligned, print_error, print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.cli.worker_answers import ask_workers, invalid_response
from apiserver.meta.releases.deprecated_calls import removal_order
from apiserver.meta.releases.emulation import MAJOR
from apiserver.meta.vocabulary import Document

_ABOUT: Final = """
Lists the clients that still call deprecated API versions. For each client, the list shows the user, the
program, the number of calls and the time of the last call. For each API version, the list shows the release
that removes it, and its replacement. The command sends GET /debug/deprecations to a running server, with the
credentials in the kubeconfig or in the connection flags. The server counts the calls that it has received
since startup. Each replica counts only the calls that it receives. The command adds up the counts of all of a
server's workers, and omits calls from apiserver commands.

The exit code is 0 if the command succeeds, and 2 if the server does not respond. With --fail-in RELEASE, the
exit code is 1 if a client has called an API version that is removed in RELEASE or earlier.
"""
DONE, GOES_AWAY, FAILED = 0, 1, 2
PATH: Final = "/debug/deprecations"
_HEADS: Final = ("REMOVED IN", "API", "USE INSTEAD", "USER", "USER AGENT", "CALLS", "LAST SEEN")
_RELEASE: Final = re.compile(rf"v?{MAJOR}\.(\d{{1,4}})")


def run(arguments: Sequence[str]) -> int:
    """Print the list that the arguments after `deprecations` ask for. Returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    given = parser().parse_args(arguments)
    fail_in = None if given.fail_in is None else _release(given.fail_in)
    answer = ask(ServerOptions.of(given))
    rows = answer["requests"]
    if given.output == "json":
        print_json(answer)
    else:
        print_lines(_table(answer, rows))
    if fail_in is None:
        return DONE
    gone = {api_of(row) for row in rows if _is_gone(row, fail_in)}
    for name in sorted(gone):
        print_error(f"{name} was called, but Kubernetes {given.fail_in} does not have this version")
    return GOES_AWAY if gone else DONE


def ask(options: ServerOptions) -> Document:
    """Returns what the server tells, of all its workers together. Raises RequestFailed."""
    answers = ask_workers(options, "deprecations", PATH, "requests")
    try:
        return _together(answers)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise invalid_response(PATH) from None


def _together(answers: Sequence[Document]) -> Document:
    """Returns the answers of all workers as one. Raises KeyError, TypeError, ValueError if they are none."""
    together: dict[tuple[Any, ...], Document] = {}
    for answer in answers:
        for row in answer["requests"]:
            if str(row["userAgent"]).startswith(USER_AGENT_PREFIX):
                continue  # These commands use what there is; nobody has to change a program.
            key = tuple(value for name, value in row.items() if name not in ("count", "lastSeen"))
            known = together.setdefault(key, {**row, "count": 0})
            known["count"] += row["count"]
            known["lastSeen"] = max(known["lastSeen"], row["lastSeen"])
    since = max(answer["since"] for answer in answers)
    rows = sorted(together.values(), key=_order)
    return {"release": answers[0]["release"], "since": since, "requests": rows}


def _order(row: Document) -> tuple[Any, ...]:
    api = row["group"], row["version"], row["resource"]
    return (removal_order(row["removedRelease"]), api, -row["count"], row["user"], row["userAgent"])


def parser() -> IntermixedParser:
    parser = described_parser("deprecations", _ABOUT)
    parser.add_argument(
        "--fail-in",
        metavar="RELEASE",
        help="A Kubernetes release, for example 1.38. The exit code is 1 if a client has called an API "
        "version that is removed in this release or earlier.",
    )
    add_server_options(parser)
    add_output_option(parser, "table", "json")
    return parser


def _release(text: str) -> tuple[int, ...]:
    """Parse a release. Raises UsageError."""
    found = _RELEASE.fullmatch(text)
    if found is None:
        raise UsageError(f"deprecations: --fail-in: {text!r} is not a release such as {MAJOR}.38")
    return MAJOR, int(found[1])


def _is_gone(row: Document, release: tuple[int, ...]) -> bool:
    removed = str(row.get("removedRelease") or "")
    return bool(_RELEASE.fullmatch(removed)) and removal_order(removed) <= release


def api_of(row: Document) -> str:
    """Returns what is called, as `v1 endpoints` or `apps/v1beta1 deployments`."""
    group = row.get("group")
    return f"{f'{group}/' if group else ''}{row.get('version')} {row.get('resource')}"


def _table(answer: Document, rows: Sequence[Document]) -> str:
    since = f"Kubernetes {answer.get('release')}, since {answer.get('since')}"
    if not rows:
        return f"No calls to deprecated APIs. ({since})"
    cells = [
        _HEADS,
        *(
            (
                str(row.get("removedRelease") or "-"),
                api_of(row),
                str(row.get("replacement") or "-"),
                str(row.get("user")),
                str(row.get("userAgent") or "-"),
                str(row.get("count")),
                str(row.get("lastSeen")),
            )
            for row in rows
        ),
    ]
    return "\n".join([*aligned(cells), "", printable(since)])
