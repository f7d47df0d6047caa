"""`apiserver faults`: what goes wrong on a running server, on purpose."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from apiserver.cli.api_client import ApiClient, RequestFailed, segment
from apiserver.cli.flags import UsageError
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printing import print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.meta.vocabulary import Document
from apiserver.testkit.faults import InvalidFault
from apiserver.testkit.faults.documents import EFFECTS, parse
from apiserver.testkit.faults.effects import MOMENTS, text_of

_ABOUT: Final = f"""
Injects faults into a running server, to test its clients: which requests have one, what it is, and how often.
The server has to run with --enable-fault-injection, and the kubeconfig's user must be a member of
system:masters.

    apiserver faults add Answer --code 503 --verb update --resource configmaps --times 2
    apiserver faults add EndWatch --resource pods
    apiserver faults list
    apiserver faults clear 1
    apiserver faults clear
    apiserver faults compact

Effects: {", ".join(EFFECTS)}.
`add` prints the fault's id. `clear` without ids clears all. `compact` has the server forget all history.
In texts of a match `*` stands for any characters.

The exit code is 1 if the server refuses, or cannot be asked.
"""
PATH: Final = "/debug/faults"
DONE, FAILED = 0, 1
# Options and the fields that they are of, in the documents of faults.
_MATCH: Final = {
    "verb": "verb",
    "resource": "resource",
    "subresource": "subresource",
    "group": "group",
    "namespace": "namespace",
    "name": "name",
    "user": "user",
    "user_agent": "userAgent",
    "nth": "nth",
    "every": "every",
}
_EFFECT: Final = {
    "code": "code",
    "reason": "reason",
    "message": "message",
    "retry_after": "retryAfterSeconds",
    "after_write": "afterWrite",
    "seconds": "seconds",
    "moment": "moment",
    "silently": "silently",
    "after_events": "afterEvents",
}


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments after `faults` ask for. Returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    given = _parser().parse_args(arguments)
    if given.command != "add":
        for name in (*_MATCH, *_EFFECT, "times"):
            if getattr(given, name) not in (None, False):
                raise UsageError(f"faults: --{name.replace('_', '-')} is for add")
    if given.command in ("list", "compact") and given.arguments:
        raise UsageError(f"faults: {given.command} takes no arguments")
    if given.command == "clear" and "" in given.arguments:  # As of a variable that is not set.
        raise UsageError("faults: an id must not be empty")
    document = _document(given) if given.command == "add" else None
    client = ApiClient(ServerOptions.of(given))
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
    """Raises RequestFailed."""
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
    return RequestFailed(f"the server's answer to {PATH} is none that is understood")


def _told(answer: Document, field: str) -> str:
    """Returns a field of an answer. Raises RequestFailed."""
    if not isinstance(answer.get(field), str):
        raise _not_understood()
    return str(answer[field])


def _document(given: argparse.Namespace) -> Document:
    """Returns the fault that is to be added. Raises UsageError."""
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


def _said(given: argparse.Namespace, names: dict[str, str]) -> dict[str, Any]:
    said = ((key, getattr(given, name)) for name, key in names.items())
    return {key: value for key, value in said if value is not None and value is not False}


def _parser() -> IntermixedParser:
    parser = described_parser("faults", _ABOUT)
    parser.add_argument("command", choices=("add", "list", "clear", "compact"))
    parser.add_argument("arguments", nargs="*", metavar="EFFECT or ID")
    add_server_options(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="of list")
    parser.add_argument("--times", type=int, metavar="N", help="how often; by default until it is cleared")
    match = parser.add_argument_group("which requests")
    for name in _MATCH:
        kind = int if name in ("nth", "every") else str
        match.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=name.upper())
    effect = parser.add_argument_group("the effect")
    effect.add_argument("--code", type=int, help="of an Answer: 400 to 599")
    effect.add_argument("--reason", help="of an Answer")
    effect.add_argument("--message", help="of an Answer")
    effect.add_argument("--retry-after", type=int, metavar="SECONDS", help="of an Answer")
    effect.add_argument("--after-write", action="store_true", help="an Answer when all has been done")
    effect.add_argument("--moment", choices=MOMENTS, help="of a CutConnection")
    effect.add_argument("--silently", action="store_true", help="EndWatch without 410")
    effect.add_argument("--after-events", type=int, metavar="N", help="the watch has these before its end")
    effect.add_argument("--seconds", type=float, help="of a Delay, or how long something is held or refused")
    return parser
