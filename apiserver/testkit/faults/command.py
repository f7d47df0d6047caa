"""Implements `apiserver faults`, which injects faults into a running server."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from apiserver.cli.api_client import ApiClient, RequestFailed, segment
from apiserver.cli.argument_parser import UsageError, add_output_option
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printing import print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.meta.vocabulary import Document
from apiserver.testkit.faults import InvalidFault
from apiserver.testkit.faults.documents import EFFECTS, key_of, parse
from apiserver.testkit.faults.effects import MOMENTS, text_of

_ABOUT: Final = f"""
Injects faults into a running server to test clients. The server must run with --enable-fault-injection, and
the user in the kubeconfig must be a member of the system:masters group.

  apiserver faults add Answer --code 503 --resource configmaps --times 2
  apiserver faults add EndWatch --resource pods
  apiserver faults list
  apiserver faults clear 1
  apiserver faults clear
  apiserver faults compact

`add` adds a fault and prints its ID. `list` prints all faults. `clear` removes the faults with the given IDs,
or all faults if you do not pass an ID. `compact` removes the history of all resources, so that watches that
start from a removed revision expire.

Possible effects: {", ".join(EFFECTS)}.

The exit code is 1 if the server refuses the request or does not respond.
"""
PATH: Final = "/debug/faults"
DONE, FAILED = 0, 1
# Fields of matches, and of effects, for which there are options.
_MATCH: Final = {
    "verb": "The verb, for example get, list or watch. In all TEXT flags in this group except "
    "--verb, `*` matches any characters.",
    "resource": "The resource, for example pods.",
    "subresource": "The subresource, for example status.",
    "group": "The API group, for example apps.",
    "namespace": "The namespace.",
    "name": "The name of an object.",
    "user": "The name of a user.",
    "user_agent": "The value of the User-Agent header.",
    "nth": "Affect only the Nth request that matches the other flags.",
    "every": "Affect every Nth request that matches the other flags.",
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
                raise UsageError(
                    f"faults: --{name.removesuffix('_s').replace('_', '-')} is only valid for add"
                )
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
                f"the server has no {PATH}: start it with --enable-fault-injection", error.status
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
    return RequestFailed(f"the server's response to {PATH} is not valid")


def _told(answer: Document, field: str) -> str:
    """Returns a field of a response. Raises RequestFailed."""
    if not isinstance(answer.get(field), str):
        raise _not_understood()
    return str(answer[field])


def _document(given: argparse.Namespace) -> Document:
    """Returns the fault to add. Raises UsageError."""
    if len(given.arguments) != 1:
        raise UsageError(f"faults: add requires one effect: {', '.join(EFFECTS)}")
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
    parser.add_argument(
        "command", choices=commands, metavar="|".join(commands), help="The action to perform."
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        default=[],
        metavar="EFFECT|ID",
        help="For `add`, the effect of the fault. For `clear`, the IDs of the faults to remove.",
    )
    add_server_options(parser)
    add_output_option(parser, "text", "json", what="output format of `list`")
    parser.add_argument(
        "--times",
        type=int,
        metavar="N",
        help="The number of requests that the fault affects. By default, the fault affects all matching "
        "requests until you clear it.",
    )
    match = parser.add_argument_group("Flags that select requests")
    for name, described in _MATCH.items():
        kind = int if name in ("nth", "every") else str
        match.add_argument(
            f"--{name.replace('_', '-')}", type=kind, metavar="N" if kind is int else "TEXT", help=described
        )
    effect = parser.add_argument_group("Flags that configure effects")
    effect.add_argument(
        "--code",
        type=int,
        metavar="N",
        help="For the Answer effect, the status code of the response, from 400 to 599.",
    )
    effect.add_argument(
        "--reason", metavar="TEXT", help="For the Answer effect, the reason in the Status object."
    )
    effect.add_argument(
        "--message", metavar="TEXT", help="For the Answer effect, the message in the Status object."
    )
    effect.add_argument(
        "--retry-after",
        type=int,
        metavar="SECONDS",
        dest="retry_after_s",
        help="For the Answer effect, the value of the Retry-After header.",
    )
    effect.add_argument(
        "--after-write",
        action="store_true",
        help="For the Answer effect, carry out the request before sending the response.",
    )
    effect.add_argument(
        "--moment",
        choices=MOMENTS,
        help="For the CutConnection effect, when the server closes the connection.",
    )
    effect.add_argument(
        "--silently",
        action="store_true",
        help="For the EndWatch effect, end the watch without sending a 410 Expired event.",
    )
    effect.add_argument(
        "--after-events",
        type=int,
        metavar="N",
        help="For the EndWatch and CutConnection effects, the number of events that the server sends before "
        "it ends the watch.",
    )
    effect.add_argument(
        "--seconds",
        type=float,
        metavar="SECONDS",
        help="For the Delay effect, the length of the delay. For the HoldEvents, HoldBookmarks, NotReady "
        "and RefuseTLS effects, the duration of the fault.",
    )
    return parser
