"""Implements `apiserver faults`, which injects faults into a running server."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from apiserver.cli.api_client import ApiClient, RequestFailed, segment
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printing import print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.meta.vocabulary import Document
from apiserver.testkit.faults import InvalidFault
from apiserver.testkit.faults.documents import EFFECTS, key_of, parse
from apiserver.testkit.faults.effects import MOMENTS, text_of

_ABOUT: Final = f"""
Injects faults into a running server, to test its clients. The server must run with
--enable-fault-injection, and the kubeconfig's user must be a member of system:masters.

  apiserver faults add Answer --code 503 --resource configmaps --times 2
  apiserver faults add EndWatch --resource pods
  apiserver faults list
  apiserver faults clear 1
  apiserver faults clear
  apiserver faults compact

`add` adds a fault and prints its id. `list` prints the faults. `clear` removes the faults with the given ids,
or all of them. `compact` compacts the history of all resources, so that watches of older revisions expire.

Effects: {", ".join(EFFECTS)}.

The exit code is 1 if the server refuses the request or does not answer.
"""
PATH: Final = "/debug/faults"
DONE, FAILED = 0, 1
# Fields of matches, and of effects, for which there are options.
_MATCH: Final = {
    "verb": "The verb, for example get, list or watch. Texts may contain `*` for any characters.",
    "resource": "The resource, for example pods.",
    "subresource": "The subresource, for example status.",
    "group": "The API group.",
    "namespace": "The namespace.",
    "name": "The name of the object.",
    "user": "The name of the user.",
    "user_agent": "The header User-Agent.",
    "nth": "Only the request with this number among those that match.",
    "every": "Every N-th request that matches.",
}
_EFFECT: Final = (
    *("code", "reason", "message", "retry_after_s", "after_write"),
    *("seconds", "moment", "silently", "after_events"),
)


def run(arguments: Sequence[str]) -> int:
    """Runs `faults` with its arguments, and returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    given = parser().parse_args(arguments)
    if given.command != "add":
        for name in (*_MATCH, *_EFFECT, "times"):
            if getattr(given, name) not in (None, False):
                raise UsageError(f"faults: --{name.removesuffix('_s').replace('_', '-')} is for add")
    if given.command in ("list", "compact") and given.arguments:
        raise UsageError(f"faults: {given.command} takes no arguments")
    if given.command == "clear" and "" in given.arguments:  # As of a variable that is not set.
        raise UsageError("faults: an id must not be empty")
    document = _document(given) if given.command == "add" else None
    client = ApiClient(ServerOptions.of(given), "faults")
    try:
        _act(client, given, document)
    except RequestFailed as error:
        if error.status == HTTPStatus.NOT_FOUND and not (given.command == "clear" and given.arguments):
            raise RequestFailed(
                f"the server has no {PATH}: it does not run with --enable-fault-injection", error.status
            ) from None
        raise
    finally:
        client.close()
    return DONE


def _act(client: ApiClient, given: argparse.Namespace, document: Document | None) -> None:
    """Carry out the command."""
    match given.command:
        case "add":
            print_lines(_told(client.post(PATH, document), "id"))
        case "compact":
            print_lines(_told(client.post(f"{PATH}/compact", {}), "resourceVersion"))
        case "clear" if given.arguments:
            for name in given.arguments:
                client.delete(f"{PATH}/{segment(name)}")
        case "clear":
            client.delete(PATH)
        case _:
            answer = client.get(PATH)
            lines = list(_lines(answer))
            if given.output == "json":
                print_json(answer)
            else:
                for line in lines:
                    print_lines(line)


def _lines(answer: Document) -> Iterator[str]:
    """Yields a line for each fault. Raises RequestFailed."""
    try:
        for fault in answer["faults"]:
            asked = parse({name: value for name, value in fault.items() if name not in ("id", "hits")})
            times = "" if asked.times is None else f" of {asked.times}"
            match = text_of(asked.match)
            yield f"{fault['id']:>4}  {text_of(asked.effect)}  {match}  hits: {fault['hits']}{times}"
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _not_understood() from None


def _not_understood() -> RequestFailed:
    return RequestFailed(f"the server's answer to {PATH} cannot be understood")


def _told(answer: Document, field: str) -> str:
    """Returns a field of a response. Raises RequestFailed."""
    if not isinstance(answer.get(field), str):
        raise _not_understood()
    return str(answer[field])


def _document(given: argparse.Namespace) -> Document:
    """Returns the fault to add. Raises UsageError."""
    if len(given.arguments) != 1:
        raise UsageError(f"faults: add needs one effect: {', '.join(EFFECTS)}")
    document: dict[str, Any] = {
        "match": _said(given, _MATCH),
        "effect": {"type": given.arguments[0], **_said(given, _EFFECT)},
    }
    if given.times is not None:
        document["times"] = given.times
    try:
        parse(document)
    except InvalidFault as error:
        raise UsageError(f"faults: {error}") from None
    return document


def _said(given: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    said = ((key_of(name), getattr(given, name)) for name in names)
    return {key: value for key, value in said if value is not None and value is not False}


def parser() -> IntermixedParser:
    parser = described_parser("faults", _ABOUT)
    commands = ("add", "list", "clear", "compact")
    parser.add_argument("command", choices=commands, metavar="|".join(commands), help="What to do.")
    parser.add_argument(
        "arguments", nargs="*", metavar="EFFECT|ID", help="The effect of `add`, or the ids of `clear`."
    )
    add_server_options(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="The output format of `list`. (default text)",
    )
    parser.add_argument(
        "--times",
        type=int,
        metavar="N",
        help="How many requests get the fault; by default all, until `clear`.",
    )
    match = parser.add_argument_group("Flags that select requests")
    for name, described in _MATCH.items():
        kind = int if name in ("nth", "every") else str
        match.add_argument(
            f"--{name.replace('_', '-')}", type=kind, metavar="N" if kind is int else "TEXT", help=described
        )
    effect = parser.add_argument_group("Flags of effects")
    effect.add_argument("--code", type=int, metavar="N", help="Answer: the status code, from 400 to 599.")
    effect.add_argument("--reason", metavar="TEXT", help="Answer: the reason of the Status.")
    effect.add_argument("--message", metavar="TEXT", help="Answer: the message of the Status.")
    effect.add_argument(
        "--retry-after",
        type=int,
        metavar="SECONDS",
        dest="retry_after_s",
        help="Answer: the header Retry-After.",
    )
    effect.add_argument(
        "--after-write", action="store_true", help="Answer: carry out the request before answering."
    )
    effect.add_argument("--moment", choices=MOMENTS, help="CutConnection: when to cut the connection.")
    effect.add_argument("--silently", action="store_true", help="EndWatch: end without 410 Expired.")
    effect.add_argument(
        "--after-events", type=int, metavar="N", help="EndWatch: the number of events to send before the end."
    )
    effect.add_argument(
        "--seconds",
        type=float,
        metavar="SECONDS",
        help="The length of a Delay, or the time for which events are held or connections are refused.",
    )
    return parser
