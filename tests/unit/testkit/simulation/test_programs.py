"""Commands that simulated containers understand literally."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.testkit.simulation.programs import INTERRUPT, End, run

ROOT: Final = b"bin\ndev\netc\nhome\nlib\nproc\nroot\nrun\nsys\ntmp\nusr\nvar\n"
LITERALS: Final = {
    "echo": (["echo", "a", "b  c"], End(0, b"a b  c\n")),
    "echo of nothing": (["echo"], End(0, b"\n")),
    "echo without an end": (["/bin/echo", "-n", "a"], End(0, b"a")),
    "echo with escapes": (["echo", "-e", r"a\tb\\n\x"], End(0, b"a\tb\\n\\x\n")),
    "echo without escapes": (["echo", r"a\tb"], End(0, b"a\\tb\n")),
    "echo of an option that it has not": (["echo", "-x"], End(0, b"-x\n")),
    "echo of what is no UTF-8": (["echo", "\udcff"], End(0, b"\xff\n")),
    "cat of a file": (
        ["cat", "/etc/x"],
        End(1, b"", b"cat: can't open '/etc/x': No such file or directory\n"),
    ),
    "ls": (["ls"], End(0, ROOT)),
    "ls of the root": (["ls", "-1", "/"], End(0, ROOT)),
    "ls of a directory": (["ls", "/tmp/"], End(0)),
    "ls of several": (["ls", "/tmp", "/etc"], End(0, b"/tmp:\n/etc:\n")),
    "ls of a file": (["ls", "/tmp/a"], End(1, b"", b"ls: /tmp/a: No such file or directory\n")),
    "date": (["date"], End(0, b"Tue Nov 14 22:13:20 UTC 2023\n")),
    "date in a format": (
        ["date", "-u", "+%F %T.%N %s%%"],
        End(0, b"2023-11-14 22:13:20.500000000 1700000000%\n"),
    ),
    "env": (["env"], End(0, b"HOME=/root\nBLANKS=a  b\nEMPTY=\nLONG=%b\n" % (b"x" * 1_000))),
    "sleep": (["sleep", "1.5", "2m"], End(0, slept_s=121.5)),
    "sleep for ever": (["sleep", "infinity"], End(0, slept_s=315_360_000.0)),
    "sleep for no time": (["sleep", "soon"], End(1, b"", b"sleep: invalid number 'soon'\n")),
    "sleep without a time": (["sleep"], End(1, b"", b"sleep: missing operand\n")),
    "true": (["true"], End(0)),
    "false": (["/bin/false"], End(1)),
}


@pytest.mark.parametrize(("words", "end"), LITERALS.values(), ids=LITERALS)
def test_what_is_understood(words: list[str], end: End) -> None:
    assert run(words) == end


UNKNOWN: Final = {
    "another command": ["uptime"],
    "no command": [""],
    "another folder": ["/opt/echo", "a"],
    "options of cat": ["cat", "-n"],
    "options of ls": ["ls", "-la"],
    "options of date": ["date", "-d", "yesterday"],
    "a format of date": ["date", "+%Q"],
    "an environment for a command": ["env", "A=1", "echo"],
}


@pytest.mark.parametrize("words", UNKNOWN.values(), ids=UNKNOWN)
def test_nothing_else_is_understood(words: list[str]) -> None:
    assert run(words) is None


INPUTS: Final = {
    "to its end": (["cat"], [b"a", b"b\n"], End(0, b"ab\n")),
    "as a file": (["cat", "-", "-"], [b"a"], End(0, b"a")),
    "which nobody reads": (["echo", "a"], [b"b"], End(0, b"a\n")),
    "interrupted": (["cat"], [b"a", INTERRUPT, b"b"], End(130, b"a")),
    "interrupted while nothing is read": (["sleep", "9"], [INTERRUPT], End(130, slept_s=9.0)),
}


@pytest.mark.parametrize(("words", "inputs", "end"), INPUTS.values(), ids=INPUTS)
def test_input(words: list[str], inputs: list[bytes], end: End) -> None:
    assert run(words, inputs) == end


LISTED: Final = {
    "its outputs": ({"stdout": "out", "stderr": "err", "exitCode": 3}, [b"in"], End(3, b"out", b"err")),
    "for a while": ({"stdout": "out", "duration": "2s"}, [], End(0, b"out", slept_s=2.0)),
    "after its input": ({"stdout": "out", "readsStdin": True}, [b"a", b"b"], End(0, b"out")),
    "interrupted in its input": ({"stdout": "out", "readsStdin": True}, [b"a", INTERRUPT], End(130)),
}


@pytest.mark.parametrize(("said", "inputs", "end"), LISTED.values(), ids=LISTED)
def test_commands_of_the_table(said: dict[str, object], inputs: list[bytes], end: End) -> None:
    assert run(["a"], inputs, commands=[{"command": "a", **said}]) == end


def test_the_table_counts_before_what_is_understood() -> None:
    assert run(["date"], commands=[{"command": "date", "stdout": "today\n"}]) == End(0, b"today\n")
