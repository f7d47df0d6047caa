"""`apiserver deprecations`: who still calls APIs that go away, on a running server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

from apiserver.cli.api_client import USER_AGENT_PREFIX, ApiClient, RequestFailed
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.flag_values import WORKERS_MAX
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printable_text import printable
from apiserver.cli.printing import print_error, print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.meta.vocabulary import Document
from apiserver.releases.deprecated_calls import removal_order
from apiserver.releases.emulation import MAJOR

_ABOUT: Final = """
Lists who still calls deprecated versions of APIs: the user and the program, how often and when last, the
release that removes the version, and what to use instead. The command asks a running server (GET
/debug/deprecations), as the kubeconfig's user or with the given credentials. A server counts from its
start. Each replica counts its own requests; the counts of the workers of a server are added up. Calls of
apiserver's own commands are left out.

The exit code is 0; with --fail-in, 1 if an API that was called is removed in that release or before; 2 if
the server does not answer.
"""
DONE, GOES_AWAY, FAILED = 0, 1, 2
PATH: Final = "/debug/deprecations"
# How often a server with workers is asked, for each of them, until all have answered.
ASKED_PER_WORKER: Final = 40
_HEADS: Final = ("REMOVED IN", "API", "USE INSTEAD", "USER", "USER AGENT", "CALLS", "LAST SEEN")
_COLUMN_WIDTH_MAX: Final = 60
_RELEASE: Final = re.compile(rf"v?{MAJOR}\.(\d{{1,4}})")


def run(arguments: Sequence[str]) -> int:
    """Print the list that the arguments after `deprecations` ask for. Returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    given = parser().parse_args(arguments)
    fail_in = None if given.fail_in is None else _release(given.fail_in)
    answer = _asked(ServerOptions.of(given))
    rows = answer["requests"]
    if given.output == "json":
        print_json(answer)
    else:
        print_lines(_table(answer, rows))
    if fail_in is None:
        return DONE
    gone = {_api(row) for row in rows if _is_gone(row, fail_in)}
    for name in sorted(gone):
        print_error(f"{name} is called, and removed in Kubernetes {given.fail_in}")
    return GOES_AWAY if gone else DONE


def _asked(options: ServerOptions) -> Document:
    """Returns what the server tells, of all its workers together. Raises RequestFailed."""
    first = _asked_once(options)
    workers = _workers(first)
    answers = {first.get("worker"): first}
    # Each connection leads to any one of them.
    for _ in range(ASKED_PER_WORKER * (workers - 1)):
        if len(answers) >= workers:
            break
        answer = _asked_once(options)
        answers[answer.get("worker")] = answer
    if len(answers) < workers:
        raise RequestFailed(f"only {len(answers)} of {workers} workers have answered")
    try:
        return _together(list(answers.values()))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _not_understood() from None


def _workers(answer: Document) -> int:
    """Returns how many processes serve the port, one if the server does not say. Raises RequestFailed."""
    workers = answer.get("workers", 1)
    if type(workers) is not int or not 1 <= workers <= WORKERS_MAX:
        raise _not_understood(f"workers: {_shortened(str(workers))} is not a number from 1 to {WORKERS_MAX}")
    return workers


def _not_understood(why: str = "") -> RequestFailed:
    told = f": {why}" if why else ""
    return RequestFailed(f"the server's answer to {PATH} is none that is understood{told}")


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


def _asked_once(options: ServerOptions) -> Document:
    """Ask one process of the server. Raises RequestFailed."""
    client = ApiClient(options, "deprecations")
    try:
        answer: Document = client.get(PATH)
    except RequestFailed as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise RequestFailed(f"the server has no {PATH}", error.status) from None
        raise
    finally:
        client.close()
    if not isinstance(answer.get("requests"), list) or not isinstance(answer.get("worker", ""), str):
        raise _not_understood()
    return answer


def parser() -> IntermixedParser:
    parser = described_parser("deprecations", _ABOUT)
    parser.add_argument(
        "--fail-in",
        metavar="RELEASE",
        help="Exit with 1 if an API that was called is removed in this release or before; for example 1.38.",
    )
    add_server_options(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="The output format. (default table)",
    )
    return parser


def _release(text: str) -> tuple[int, ...]:
    """Parse a release. Raises UsageError."""
    found = _RELEASE.fullmatch(text)
    if found is None:
        raise UsageError(f"deprecations: --fail-in: {text!r} is not a release as {MAJOR}.38")
    return MAJOR, int(found[1])


def _is_gone(row: Document, release: tuple[int, ...]) -> bool:
    removed = str(row.get("removedRelease") or "")
    return bool(_RELEASE.fullmatch(removed)) and removal_order(removed) <= release


def _api(row: Document) -> str:
    """Returns what is called, as `v1 endpoints` or `apps/v1beta1 deployments`."""
    group = row.get("group")
    return f"{f'{group}/' if group else ''}{row.get('version')} {row.get('resource')}"


def _table(answer: Document, rows: Sequence[Document]) -> str:
    since = f"Kubernetes {answer.get('release')}, since {answer.get('since')}"
    if not rows:
        return f"No calls of deprecated APIs. ({since})"
    cells = [
        _HEADS,
        *(
            (
                str(row.get("removedRelease") or "-"),
                _api(row),
                str(row.get("replacement") or "-"),
                str(row.get("user")),
                str(row.get("userAgent") or "-"),
                str(row.get("count")),
                str(row.get("lastSeen")),
            )
            for row in rows
        ),
    ]
    return "\n".join([*_aligned(cells), "", printable(since)])


def _aligned(rows: Iterable[Sequence[str]]) -> Iterable[str]:
    shown = [[_shortened(printable(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _shortened(cell: str) -> str:
    return cell if len(cell) <= _COLUMN_WIDTH_MAX else f"{cell[: _COLUMN_WIDTH_MAX - 3]}..."
