"""What a person types at a terminal, as a program gets it."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.testkit.simulation.kubelet_server.terminals import (
    LINE_BYTES_MAX,
    LineDiscipline,
    TerminalInput,
    shown,
)

RUBBED: Final = b"\b \b"
KEYS: Final = {
    "a line": (b"ls\r", TerminalInput(b"ls\r\n", [b"ls\n"])),
    "a part of a line": (b"ls", TerminalInput(b"ls", [])),
    "two lines": (b"a\nb\r", TerminalInput(b"a\r\nb\r\n", [b"a\n", b"b\n"])),
    "a letter taken back": (b"ab\x7fc\r", TerminalInput(b"ab" + RUBBED + b"c\r\n", [b"ac\n"])),
    "a letter of several bytes": (
        "aé".encode() + b"\x08\r",
        TerminalInput("aé".encode() + RUBBED + b"\r\n", [b"a\n"]),
    ),
    "nothing to take back": (b"\x7f\r", TerminalInput(b"\r\n", [b"\n"])),
    "the line taken back": (b"ab\x15c\r", TerminalInput(b"ab" + RUBBED * 2 + b"c\r\n", [b"c\n"])),
    "the end": (b"\x04", TerminalInput(b"", [b""])),
    "what is there already": (b"ab\x04", TerminalInput(b"ab", [b"ab"])),
    "an interrupt": (b"a\rb\x03c\r", TerminalInput(b"a\r\nb^Cc\r\n", [b"c\n"], is_interrupted=True)),
    "a tab": (b"a\tb\r", TerminalInput(b"a\tb\r\n", [b"a\tb\n"])),
    "other keys": (b"a\x1b\x01b\r", TerminalInput(b"ab\r\n", [b"ab\n"])),
    "a long line": (
        b"x" * (LINE_BYTES_MAX + 9) + b"\r",
        TerminalInput(b"x" * LINE_BYTES_MAX + b"\r\n", [b"x" * LINE_BYTES_MAX + b"\n"]),
    ),
}


@pytest.mark.parametrize(("keys", "typed"), KEYS.values(), ids=KEYS)
def test_keys(keys: bytes, typed: TerminalInput) -> None:
    assert LineDiscipline().feed(keys) == typed


def test_keys_one_by_one() -> None:
    discipline = LineDiscipline()
    typed = [discipline.feed(bytes((key,))) for key in b"ls\r"]
    assert [each.echo for each in typed] == [b"l", b"s", b"\r\n"]
    assert [each.inputs for each in typed] == [[], [], [b"ls\n"]]


def test_what_a_terminal_is_shown() -> None:
    assert shown(b"a\nb\n") == b"a\r\nb\r\n"
