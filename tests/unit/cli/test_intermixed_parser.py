"""Subcommands take options before, between and after their positional arguments."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import Any, Final

import pytest

from apiserver.cli import audit, auth_explain, snapshot, storage
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.intermixed_parser import IntermixedParser


def parser() -> IntermixedParser:
    parser = IntermixedParser(prog="apiserver tool", allow_abbrev=False)
    explain = parser.add_subparsers(required=True).add_parser("explain", allow_abbrev=False)
    explain.add_argument("verb")
    explain.add_argument("resource")
    explain.add_argument("name", nargs="?", default="")
    explain.add_argument("--as", dest="user", default="")
    explain.add_argument("-n", dest="namespace", default="")
    explain.add_argument("-A", dest="everywhere", action="store_true")
    return parser


TAKEN: Final[dict[str, dict[str, Any]]] = {
    "get pods": {},
    "get pods web": {"name": "web"},
    "get pods --as alice web": {"user": "alice", "name": "web"},
    "get --as=alice pods web": {"user": "alice", "name": "web"},
    "--as alice get -n b pods -A web": {"user": "alice", "namespace": "b", "everywhere": True, "name": "web"},
    "get -nb pods web": {"namespace": "b", "name": "web"},
    "get -An b pods web": {"everywhere": True, "namespace": "b", "name": "web"},
    "get -Anb pods web": {"everywhere": True, "namespace": "b", "name": "web"},
    "get pods web --as alice": {"user": "alice", "name": "web"},
    "get pods -": {"name": "-"},
    "get pods --as -": {"user": "-"},
    "get pods --as -1": {"user": "-1"},
    "get pods '--as=a b'": {"user": "a b"},
    "get pods -- -1": {"name": "-1"},
    "get pods -- --as": {"name": "--as"},
    "-- get pods -A": {"name": "-A"},
    "-n b -- get pods -A": {"namespace": "b", "name": "-A"},
}
REFUSED: Final = {
    "get": "tool explain: the following arguments are required: resource",
    "get -n b": "tool explain: the following arguments are required: resource",
    "get pods web other": "tool explain: unexpected argument 'other'",
    "get pods --bogus web": "tool explain: unknown flag: --bogus",
    "get pods -Z web": "tool explain: unknown flag: -Z",
    "get pods -1": "tool explain: unknown flag: -1",
    "get pods '-a b'": "tool explain: unknown flag: -a b",
    "get pods '--namepsace=a b'": "tool explain: unknown flag: --namepsace",
    "get pods --as": "tool explain: argument --as: expected one argument",
    "get pods --as -- web": "tool explain: argument --as: expected one argument",
    "get pods --as -A": "tool explain: argument --as: expected one argument",
}


@pytest.mark.parametrize(("line", "others"), TAKEN.items(), ids=TAKEN)
def test_options_stand_anywhere(line: str, others: dict[str, Any]) -> None:
    defaults = {"verb": "get", "resource": "pods", "name": "", "user": "", "namespace": ""}
    expected = Namespace(**{**defaults, "everywhere": False, **others})
    assert parser().parse_args(["explain", *shlex.split(line)]) == expected


@pytest.mark.parametrize(("line", "message"), REFUSED.items(), ids=REFUSED)
def test_what_is_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parser().parse_args(["explain", *shlex.split(line)])
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("module", "in_order", "mixed"),
    [
        (auth_explain, "explain get pods web --as alice", "explain get pods --as alice web"),
        (storage, "rewrite secrets configmaps --rate 5", "rewrite secrets --rate 5 configmaps"),
        (audit, "summary a.log b.log --top 5", "summary a.log --top 5 b.log"),
        (snapshot, "restore a.db --data-dir there", "restore --data-dir there a.db"),
    ],
    ids=lambda value: value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else None,
)
def test_all_subcommands_do(module: Any, in_order: str, mixed: str) -> None:
    assert module.parser().parse_args(mixed.split()) == module.parser().parse_args(in_order.split())
