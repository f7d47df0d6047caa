"""The table of commands that simulated containers answer."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.testkit.simulation.commands import COMMANDS_MAX, Command, find, read_commands, script_of
from apiserver.testkit.simulation.field_values import InvalidStage

# A command of the table, what is run, and whether it is meant.
MEANT: Final[dict[str, tuple[Any, list[str], bool]]] = {
    "the same words": (["psql", "-c", "SELECT 1"], ["psql", "-c", "SELECT 1"], True),
    "other words": (["psql", "-c", "SELECT 1"], ["psql", "-c", "SELECT 2"], False),
    "words have no patterns": (["ls", "*"], ["ls", "x"], False),
    "a text": ("uptime -p", ["uptime", "-p"], True),
    "a text with more words": ("uptime", ["uptime", "-p"], False),
    "a pattern": ("tar cf - *", ["tar", "cf", "-", "/tmp/a"], True),
    "anything": ("*", ["anything"], True),
    "marks that are no pattern": ("if [ -s /x ]; then cat /x; fi", ["if", "s"], False),
    "a script": ("uptime | wc -l", ["sh", "-c", "uptime | wc -l"], True),
    "a script of another shell": ("uptime | wc -l", ["/bin/bash", "-ec", " uptime | wc -l\n"], True),
    "with its shell": ("sh -c 'uptime | wc -l'", ["/bin/sh", "-c", "uptime | wc -l"], True),
    "a program with its folder": ("uptime", ["/usr/bin/uptime"], True),
    "a folder that is said": ("/opt/run", ["/opt/run"], True),
    "a folder that is another": ("run", ["/opt/run"], False),
    "a mark that never ends": ("it's", ["it's"], True),
}


@pytest.mark.parametrize(("command", "words", "is_meant"), MEANT.values(), ids=MEANT)
def test_which_commands_are_meant(command: Any, words: list[str], is_meant: bool) -> None:
    (listed,) = read_commands([{"command": command}])
    assert find([listed], words) is (listed if is_meant else None)


def test_the_first_one_counts() -> None:
    commands = read_commands([{"command": "a", "exitCode": 1}, {"command": "*", "exitCode": 2}])
    assert [found.exit_code for words in (["a"], ["b"]) if (found := find(commands, words))] == [1, 2]


def test_all_fields() -> None:
    said = {
        "command": ["a"],
        "stdout": "out",
        "stderr": "é",
        "exitCode": 7,
        "duration": "500ms",
        "readsStdin": True,
    }
    assert read_commands([said]) == (Command(("a",), (), b"out", "é".encode(), 7, 0.5, True),)


def test_output_that_is_no_text() -> None:
    (found,) = read_commands([{"command": "a", "stdoutBase64": "H4sA/w=="}])
    assert found.stdout == b"\x1f\x8b\x00\xff"


BAD_TABLES: Final[dict[str, tuple[Any, str]]] = {
    "no list": ({}, "must be a list of commands"),
    "nothing": ([], "must be a list of commands"),
    "too many": ([{"command": "a"}] * (COMMANDS_MAX + 1), "must have at most 200 items"),
    "no mapping": (["uptime"], "[0]: must be a mapping"),
    "no command": ([{"stdout": "a"}], "[0]: must have a command"),
    "an unknown field": (
        [{"command": "a", "output": "b"}],
        "[0].output: unknown field; known fields are command,",
    ),
    "no words": ([{"command": []}], "[0].command: must be a string or a list of strings"),
    "an empty string": ([{"command": " "}], "[0].command: must be a string or a list of strings"),
    "words that are not strings": ([{"command": [1]}], "[0].command: must be a string or a list of strings"),
    "a long one": ([{"command": "a" * 5_000}], "[0].command: must be a string or a list of strings"),
    "an exit code": (
        [{"command": "a"}, {"command": "b", "exitCode": 256}],
        "[1].exitCode: must be an integer",
    ),
    "a long output": ([{"command": "a", "stdout": "b" * 300_000}], "[0].stdout: must be a string of"),
    "no base64": ([{"command": "a", "stdoutBase64": "?"}], "[0].stdoutBase64: must be base64"),
    "two outputs": (
        [{"command": "a", "stdout": "", "stdoutBase64": ""}],
        "[0].stdoutBase64: cannot be given together with stdout",
    ),
}


@pytest.mark.parametrize(("table", "problem"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_tables(table: Any, problem: str) -> None:
    with pytest.raises(InvalidStage) as refused:
        read_commands(table)
    assert str(refused.value).startswith(problem)


SCRIPTS: Final[dict[str, tuple[list[str], str | None]]] = {
    "of a shell": (["sh", "-c", "a"], "a"),
    "with other options": (["/bin/bash", "-lec", "a", "name"], "a"),
    "of no shell": (["python", "-c", "a"], None),
    "none": (["sh", "a"], None),
    "forgotten": (["sh", "-c"], None),
}


@pytest.mark.parametrize(("words", "script"), SCRIPTS.values(), ids=SCRIPTS)
def test_scripts(words: list[str], script: str | None) -> None:
    assert script_of(words) == script
