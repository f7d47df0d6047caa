"""The shell of simulated containers: commands in a row."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.testkit.simulation.programs import LINE_BYTES_MAX
from apiserver.testkit.simulation.shell import COMMANDS_MAX, SCRIPT_LENGTH_MAX
from tests.unit.testkit.simulation.programs import INTERRUPT, End, run

SCRIPTS: Final = {
    "an exit code": ("echo a; exit 3; echo b", End(3, b"a\n")),
    "an exit code of what was before": ("false; exit", End(1)),
    "a large exit code": ("exit 257", End(1)),
    "no exit code": ("exit now", End(2)),
    "lines": ("echo a\n\n  echo b\n", End(0, b"a\nb\n")),
    "nothing": ("", End(0)),
    "a comment": ("echo a#b # c; echo d\necho e", End(0, b"a#b\ne\n")),
    "and": ("true && echo a && false && echo b", End(1, b"a\n")),
    "or": ("false || echo a || echo b", End(0, b"a\n")),
    "and, on the next line": ("true &&\n echo a", End(0, b"a\n")),
    "the last exit code": ("false; echo $?; echo ${?}", End(0, b"1\n0\n")),
    "quotes": ("""echo 'a  $HOME' "b  $HOME" c\\ \\$d""", End(0, b"a  $HOME b  /root c $d\n")),
    "escapes between quotes": (r'''echo "a\"\$\n"''', End(0, b'a"$\\n\n')),
    "a variable falls apart": ('echo $BLANKS; echo "$BLANKS"', End(0, b"a b\na  b\n")),
    "a variable within a word": ("echo a${HOME}b$HOME.", End(0, b"a/rootb/root.\n")),
    "a variable that there is not": ('echo a $NOTHING "$NOTHING" b', End(0, b"a  b\n")),
    "a sign that is no variable": ("echo a$ $", End(0, b"a$ $\n")),
    "to the other output": ("echo a >&2; echo b 1>&2", End(0, b"", b"a\nb\n")),
    "to nowhere": ("echo a >/dev/null; cat /x 2> /dev/null || echo b", End(0, b"b\n")),
    "both to nowhere": ("cat /x >/dev/null 2>&1; echo $?", End(0, b"1\n")),
    "an order of outputs": (
        "cat /x 2>&1 >/dev/null",
        End(1, b"cat: can't open '/x': No such file or directory\n"),
    ),
    "time": ("sleep 1; sleep 2", End(0, slept_s=3.0)),
    "a script in a script": ("sh -c 'echo a; exit 4' || echo $?", End(0, b"a\n4\n")),
    "a shell without input": ("sh; echo $?", End(0, b"0\n")),
}


@pytest.mark.parametrize(("script", "end"), SCRIPTS.values(), ids=SCRIPTS)
def test_scripts(script: str, end: End) -> None:
    assert run(["/bin/sh", "-c", script]) == end


STOPPING: Final = {
    "at a failure": ("false; echo a", End(1)),
    "not where it is asked about": ("false || echo a; true && echo b", End(0, b"a\nb\n")),
    "at the last of those": ("true && false; echo a", End(1)),
}


@pytest.mark.parametrize(("script", "end"), STOPPING.values(), ids=STOPPING)
def test_a_shell_that_stops_at_failures(script: str, end: End) -> None:
    assert run(["sh", "-ec", script]) == end


NOT_UNDERSTOOD: Final = {
    "a pipe": "echo a | cat",
    "in the background": "sleep 1 & echo a",
    "a loop": "for i in 1 2; do echo $i; done",
    "a condition": "if true; then echo a; fi",
    "a test": "[ -s /x ] && echo a",
    "a command within": "echo $(date)",
    "a command within, as of old": "echo `date`",
    "a command within quotes": 'echo "$(date)"',
    "arithmetic": "echo $((1 + 1))",
    "an assignment": "A=1; echo $A",
    "a parameter": "echo $1",
    "a default": "echo ${A:-b}",
    "a file": "echo a > /tmp/a",
    "an input": "cat < /tmp/a",
    "a pattern of files": "echo *",
    "a home": "ls ~",
    "a group": "{ echo a; }",
    "a subshell": "(echo a)",
    "a quote without an end": "echo 'a",
    "two quotes without an end": 'echo "a',
    "an escape of nothing": "echo \\",
    "nothing between": "echo a;; echo b",
    "nothing after and": "echo a &&",
    "nothing before and": "&& echo a",
    "only an output": ">/dev/null",
    "a command that nobody knows": "echo a; uptime",
    "a name from a variable": "$NOTHING",
    "scripts without end": 'sh -c "sh -c \\"sh -c \'sh -c sh\'\\"" ; $HOME',
}


@pytest.mark.parametrize("script", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_a_script_with_anything_else_is_not_understood(script: str) -> None:
    """It is refused before its first command runs."""
    assert run(["sh", "-c", script]) is None


def test_scripts_in_scripts_have_an_end() -> None:
    script = "true"
    for _ in range(10):
        script = "sh -c '" + script.replace("'", "'\\''") + "'"
    assert run(["sh", "-c", script]) is None


TOO_LARGE: Final = {
    "commands": "true;" * (COMMANDS_MAX + 1),
    "letters": "echo " + "a" * SCRIPT_LENGTH_MAX,
    "values": 'echo "' + "$LONG" * 200 + '"',
}


@pytest.mark.parametrize("script", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_script_that_is_too_large_is_not_understood(script: str) -> None:
    assert run(["sh", "-c", script]) is None


def test_scripts_that_run_each_other_many_times_are_not_understood() -> None:
    variables = {"A": 'sh -c "$B";' * COMMANDS_MAX, "B": 'sh -c "$C";' * COMMANDS_MAX, "C": "true"}
    assert run(["sh", "-c", 'sh -c "$A"'], variables=variables) is None
    assert run(["sh", "-c", 'sh -c "$C";' * COMMANDS_MAX], variables=variables) == End(0)


def test_options_that_a_shell_has_not() -> None:
    assert run(["sh", "/script"]) is None
    assert run(["sh", "-x", "-c", "true"]) is None


TABLE: Final = (
    {"command": "uptime", "stdout": "up\n", "exitCode": 2},
    {"command": "if [ -s /x ]; then cat /x; fi", "stdout": "{}"},
    {"command": "kill *", "exitCode": 1},
    {"command": "report 0"},
)
IN_SCRIPTS: Final = {
    "one of several": ("uptime; echo $?", End(0, b"up\n2\n")),
    "the whole": ("if [ -s /x ]; then cat /x; fi", End(0, b"{}")),
    "of what the shell does not understand": ("kill -2 $(pgrep sh)", End(1)),
    "not known with this exit code": (
        "report $?; false; report $?; echo $?; false; report $? 2>/dev/null",
        End(127, b"127\n", b"sh: report $?: not found\n"),
    ),
}


@pytest.mark.parametrize(("script", "end"), IN_SCRIPTS.values(), ids=IN_SCRIPTS)
def test_commands_of_the_table_in_scripts(script: str, end: End) -> None:
    assert run(["sh", "-c", script], commands=TABLE) == end


TYPED: Final = {
    "lines": ([b"echo a\necho b >&2\n"], End(0, b"a\n", b"b\n")),
    "lines in pieces": ([b"ec", b"ho a", b"\n"], End(0, b"a\n")),
    "a line without an end": ([b"echo a"], End(0, b"a\n")),
    "an exit": ([b"exit 3\n", b"echo a\n"], End(3)),
    "an exit code from line to line": ([b"false\n", b"echo $?\n"], End(0, b"1\n")),
    "the last exit code": ([b"false\n"], End(1)),
    "what is not understood": (
        [b"nothing\n", b"a | b\n", b"echo $?\n"],
        End(0, b"127\n", b"sh: nothing: not found\nsh: a | b: not found\n"),
    ),
    "what comes before that": ([b"echo a; nothing\n"], End(127, b"a\n", b"sh: nothing: not found\n")),
    "what comes after that": ([b"nothing; echo a\n"], End(0, b"a\n", b"sh: nothing: not found\n")),
    "a line of the table": ([b"if [ -s /x ]; then cat /x; fi\n", b"uptime\n", b"exit\n"], End(2, b"{}up\n")),
    "input of a command": ([b"cat\nb\n", b"c\n"], End(0, b"b\nc\n")),
    "empty lines": ([b"\n \n"], End(0)),
    "a line that is too long": ([b"x" * (LINE_BYTES_MAX + 1)], End(2, b"", b"sh: the line is too long\n")),
}


@pytest.mark.parametrize(("inputs", "end"), TYPED.values(), ids=TYPED)
def test_what_is_typed(inputs: list[bytes], end: End) -> None:
    assert run(["sh"], inputs, commands=TABLE) == end


def test_a_terminal_has_prompts() -> None:
    """The end of the input ends what runs, and at a prompt the shell."""
    typed = [b"cat\n", b"a\n", b"", b"sleep 9\n", INTERRUPT, b"echo $?\n", INTERRUPT, b""]
    shown = b"/ # a\n/ # \n/ # 130\n/ # \n/ # "
    assert run(["bash", "-l"], typed, is_terminal=True) == End(130, shown, slept_s=9.0)
