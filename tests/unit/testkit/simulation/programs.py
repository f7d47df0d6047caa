"""Runs programs of simulated containers, as a session does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.testkit.simulation import shell
from apiserver.testkit.simulation.commands import read_commands
from apiserver.testkit.simulation.programs import (
    INTERRUPTED,
    STDERR,
    STDOUT,
    Output,
    Pause,
    ProgramEnvironment,
    ProgramInterrupted,
    Stdin,
)

NOW_S: Final = 1_700_000_000.5
VARIABLES: Final = {"HOME": "/root", "BLANKS": "a  b", "EMPTY": "", "LONG": "x" * 1_000}
# Somebody types ^C where this comes as input, or instead of a pause.
INTERRUPT: Final = b"\x03"


class End(NamedTuple):
    """What a program has done. slept_s: how long it has waited."""

    code: int
    stdout: bytes = b""
    stderr: bytes = b""
    slept_s: float = 0.0


def run(
    words: Sequence[str],
    inputs: Iterable[bytes] = (),
    *,
    commands: Sequence[dict[str, Any]] = (),
    is_terminal: bool = False,
    variables: Mapping[str, str] = VARIABLES,
) -> End | None:
    """Runs a command to its end; None if it is not understood. inputs: then its input has ended."""
    table = read_commands(list(commands)) if commands else ()
    environment = ProgramEnvironment(variables, table, lambda: NOW_S, is_terminal)
    program = shell.start(words, environment, Stdin(is_terminal=is_terminal))
    if program is None:
        return None
    left = list(inputs)
    written = {STDOUT: b"", STDERR: b""}
    slept_s = 0.0
    try:
        step = next(program)
        while True:
            received = b""
            match step:
                case Output(stream, data):
                    written[stream] += data
                case Pause(seconds):
                    slept_s += seconds
                    received = left.pop(0) if seconds and left[:1] == [INTERRUPT] else b""
                case _:
                    received = left.pop(0) if left else b""
            step = program.throw(ProgramInterrupted()) if received == INTERRUPT else program.send(received)
    except StopIteration as end:
        code = int(end.value)
    except ProgramInterrupted:
        code = INTERRUPTED
    return End(code, written[STDOUT], written[STDERR], slept_s)
