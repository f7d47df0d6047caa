"""`apiserver top`: which clients send the most requests to a running server, and what those requests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from apiserver.cli.argument_parser import UsageError, add_output_option
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printing import aligned, print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.cli.worker_answers import ask_workers, invalid_response
from apiserver.meta.vocabulary import Document

_ABOUT: Final = """
Shows which clients send the most requests to a running server. The numbers in the table cover the last one to
two minutes and include all of the server's workers. Each replica counts only the requests that it receives.

The command sends GET /debug/clients, with the credentials in the kubeconfig or in the connection flags. The
user needs permission to use the get verb on the /debug/clients path.

REQUESTS/S is the number of requests per second. IN FLIGHT is the mean number of requests that the server
handled at the same time. KB/S is the amount of response data that the server sends per second, in kilobytes
(1,000 bytes). IN FLIGHT and KB/S do not include watches. REFUSED is the number of responses with status code
401, 403 or 429. FAILED is the number of responses with a 5xx status code. WATCHES is the number of open
watches. The server attributes impersonated requests to the impersonated user.
"""
DONE, FAILED = 0, 1
PATH: Final = "/debug/clients"
ROWS_SHOWN: Final = 20
_KILOBYTE: Final = 1_000


@dataclass(slots=True)
class _Row:
    """Sums over one group of requests. requests, in_flight, kilobytes: per second."""

    requests: float = 0.0
    in_flight: float = 0.0
    kilobytes: float = 0.0
    refused: int = 0
    failed: int = 0
    watches: int = 0

    def add(self, counts: Document, seconds: float) -> None:
        """Add what one worker has counted in `seconds`.

        Raises KeyError, OverflowError, TypeError, ValueError if the values are not counts.
        """
        self.requests += int(counts["requests"]) / seconds
        self.in_flight += float(counts["seconds"]) / seconds
        self.kilobytes += int(counts["sentBytes"]) / seconds / _KILOBYTE
        self.refused += int(counts["refused"])
        self.failed += int(counts["failed"])
        self.watches += int(counts["watches"])


def _resource(counts: Document) -> str:
    """Returns the resource as `pods/log` or `deployments.apps`; a path outside the API as `/metrics`."""
    group, subresource = counts["group"], counts["subresource"]
    return f"{counts['resource']}{f'.{group}' if group else ''}{f'/{subresource}' if subresource else ''}"


_DIMENSIONS: Final[Mapping[str, Callable[[Document], str]]] = MappingProxyType(
    {
        "user": lambda counts: str(counts["user"]),
        "agent": lambda counts: str(counts["userAgent"]),
        "verb": lambda counts: str(counts["verb"]),
        "resource": _resource,
    }
)
_ORDERS: Final[Mapping[str, Callable[[_Row], float]]] = MappingProxyType(
    {
        "time": lambda row: row.in_flight,
        "requests": lambda row: row.requests,
        "bytes": lambda row: row.kilobytes,
        "refused": lambda row: row.refused,
        "failed": lambda row: row.failed,
        "watches": lambda row: row.watches,
    }
)


def run(arguments: Sequence[str]) -> int:
    """Print the table that the arguments after `top` ask for. Returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    given = parser().parse_args(arguments)
    by = [name.strip() for name in given.by.split(",")]
    if unknown := [name for name in by if name not in _DIMENSIONS]:
        raise UsageError(f"top: --by: {unknown[0]!r} is not one of {', '.join(_DIMENSIONS)}")
    if given.top < 0:
        raise UsageError("top: --top must not be negative")
    answers = ask_workers(ServerOptions.of(given), "top", PATH, "clients")
    order = _ORDERS[given.sort]
    try:
        groups = _grouped(answers, by)
        rows = sorted(groups.items(), key=lambda item: (order(item[1]), item[1].requests), reverse=True)
        shown = rows[: given.top or None]
        lines = list(_table(by, shown, len(rows)))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise invalid_response(PATH) from None
    if given.output == "json":
        print_json({"rows": [_document(by, *each) for each in shown]})
    else:
        print_lines("\n".join(lines))
    return DONE


def _grouped(answers: Sequence[Document], by: Sequence[str]) -> dict[tuple[str, ...], _Row]:
    """Raises KeyError, OverflowError, TypeError, ValueError if answers have no counts."""
    groups: dict[tuple[str, ...], _Row] = {}
    for answer in answers:
        # The periods of workers differ. At the beginning of the first one, rates would be arbitrary.
        seconds = max(float(answer["seconds"]), 1.0)
        for counts in answer["clients"]:
            groups.setdefault(tuple(_DIMENSIONS[name](counts) for name in by), _Row()).add(counts, seconds)
    return groups


def _document(by: Sequence[str], values: Sequence[str], row: _Row) -> dict[str, Any]:
    return {
        **dict(zip(by, values, strict=True)),
        "requestsPerSecond": round(row.requests, 3),
        "inFlight": round(row.in_flight, 6),
        "kilobytesPerSecond": round(row.kilobytes, 3),
        "refused": row.refused,
        "failed": row.failed,
        "watches": row.watches,
    }


def _table(by: Sequence[str], rows: Sequence[tuple[Sequence[str], _Row]], row_count: int) -> Iterator[str]:
    if not rows:
        yield "No requests in the last two minutes."
        return
    heads = ("REQUESTS/S", "IN FLIGHT", "KB/S", "REFUSED", "FAILED", "WATCHES")
    cells = [
        (
            *(value or "-" for value in values),
            f"{row.requests:.1f}",
            f"{row.in_flight:.2f}",
            f"{row.kilobytes:.1f}",
            str(row.refused),
            str(row.failed),
            str(row.watches),
        )
        for values, row in rows
    ]
    yield from aligned([(*(name.upper() for name in by), *heads), *cells])
    if row_count > len(rows):
        yield f"... {row_count - len(rows)} more rows"


def parser() -> IntermixedParser:
    parser = described_parser("top", _ABOUT)
    parser.add_argument(
        "--by",
        default="user,agent,verb,resource",
        metavar="list",
        help=f"A comma-separated list of the fields to group by. Possible fields: {', '.join(_DIMENSIONS)}. "
        "(default user,agent,verb,resource)",
    )
    parser.add_argument(
        "--sort",
        choices=tuple(_ORDERS),
        default="time",
        help="The column to sort by. The value `time` means the IN FLIGHT column, and `bytes` means the "
        "KB/S column. (default time)",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=ROWS_SHOWN,
        metavar="int",
        help=f"The number of rows to show. 0 shows all rows. (default {ROWS_SHOWN})",
    )
    add_server_options(parser)
    add_output_option(parser, "table", "json")
    return parser
