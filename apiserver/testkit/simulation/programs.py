"""Programs of simulated containers, as generators of their output, pauses and input. Pure.

A program is a generator of steps, so that it can run in a session of `exec`, with real time and input, or all
at once to compute the log so far. Its runner performs each step, and sends in the read data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from apiserver.testkit.simulation.commands import Command, program_name
from apiserver.testkit.simulation.field_values import DURATION_S_MAX

STDOUT: Final = 1
STDERR: Final = 2
# Of SIGINT.
INTERRUPTED: Final = 130
NOT_FOUND: Final = 127
# What a shell is typed at a time: it is read a letter at a time.
LINE_BYTES_MAX: Final = 16 * 1024
# The directories of a container that has nothing else.
_ROOT: Final = ("bin", "dev", "etc", "home", "lib", "proc", "root", "run", "sys", "tmp", "usr", "var")
# The last second that a date can have.
_LAST_S: Final = 253_402_300_799.0
_SLEEP_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DATE: Final = "%a %b %e %H:%M:%S UTC %Y"


def _formatted(directive: str) -> Callable[[datetime], str]:
    return lambda now: now.strftime(directive)


_DATE_FORMATS: Final[Mapping[str, Callable[[datetime], str]]] = {
    **{letter: _formatted(f"%{letter}") for letter in "YmdHMSyjaAbBIp"},
    "e": lambda now: f"{now.day:2}",
    "F": lambda now: now.strftime("%Y-%m-%d"),
    "T": lambda now: now.strftime("%H:%M:%S"),
    "R": lambda now: now.strftime("%H:%M"),
    "s": lambda now: str(int(now.timestamp())),
    "N": lambda now: f"{now.microsecond:06}000",
    "z": lambda _: "+0000",
    "Z": lambda _: "UTC",
    "%": lambda _: "%",
}
_ECHO_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "\\": "\\"}


class Output(NamedTuple):
    """Writes data. stream: STDOUT or STDERR."""

    stream: int
    data: bytes


class Pause(NamedTuple):
    """Nothing happens for a while; a pause of no time lets other tasks run during long computations."""

    seconds: float


class ReadInput(NamedTuple):
    """Reads input: received data, or nothing at the end of the input."""


Step: TypeAlias = Output | Pause | ReadInput
# Returns the exit code.
Program: TypeAlias = Generator[Step, bytes, int]


class ProgramInterrupted(Exception):
    """^C was typed; raised in the program that runs."""


class LineTooLong(Exception):
    """A line that is typed into a shell has more than LINE_BYTES_MAX bytes."""


class ProgramEnvironment(NamedTuple):
    """The environment of a program.

    variables: those of its environment. commands: the table of its container. clock: seconds since 1970.
    is_terminal: whether it has a terminal, with prompts, where more input may follow an end of the input.
    """

    variables: Mapping[str, str]
    commands: Sequence[Command]
    clock: Callable[[], float]
    is_terminal: bool = False


class Stdin:
    """The input of a program, and of the programs that it starts, which share it."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self._rest = b""
        self._has_ended = False
        self._is_terminal = is_terminal

    def read(self) -> Generator[Step, bytes, bytes]:
        """Returns received data; nothing at the end."""
        if not self._rest:
            yield from self._more()
        data, self._rest = self._rest, b""
        return data

    def read_line(self) -> Generator[Step, bytes, bytes]:
        """Returns a line with its end; the last one may have none, and is empty at the end of the input.

        Raises LineTooLong.
        """
        looked_at = 0
        while (end := self._rest.find(b"\n", looked_at)) < 0:
            looked_at = len(self._rest)
            if looked_at > LINE_BYTES_MAX:
                raise LineTooLong
            if not (yield from self._more()):
                end = looked_at
                break
        line, self._rest = self._rest[: end + 1], self._rest[end + 1 :]
        return line

    def _more(self) -> Generator[Step, bytes, bool]:
        """Returns whether more data has arrived."""
        if self._has_ended:
            return False
        data = yield ReadInput()
        self._rest += data
        self._has_ended = not (data or self._is_terminal)
        return bool(data)


# (arguments, environment, input): None for arguments that are not understood.
Literal: TypeAlias = Callable[[Sequence[str], ProgramEnvironment, Stdin], Program | None]


def literal_program(words: Sequence[str], environment: ProgramEnvironment, stdin: Stdin) -> Program | None:
    """Returns the program of a command that is interpreted literally; None for other commands."""
    literal = LITERALS.get(program_name(words[0]))
    return None if literal is None else literal(words[1:], environment, stdin)


def listed_program(command: Command, stdin: Stdin) -> Program:
    """Runs a command of the table."""
    if command.reads_stdin:
        while (yield from stdin.read()):
            pass
    for stream, data in ((STDOUT, command.stdout), (STDERR, command.stderr)):
        if data:
            yield Output(stream, data)
    if command.duration_s:
        yield Pause(command.duration_s)
    return command.exit_code


def _said(text: str, stream: int = STDOUT, code: int = 0) -> Program:
    if text:
        yield Output(stream, text.encode("utf-8", "surrogateescape"))
    return code


def _echo(arguments: Sequence[str], _: ProgramEnvironment, __: Stdin) -> Program | None:
    flags = set()
    while arguments and arguments[0] in ("-n", "-e", "-ne", "-en", "-E"):
        flags |= set(arguments[0])
        arguments = arguments[1:]
    text = " ".join(arguments)
    if "e" in flags:
        text = _unescaped(text)
    return _said(text if "n" in flags else f"{text}\n")


def _unescaped(text: str) -> str:
    first, *rest = text.split("\\")
    pieces, rest_of = [first], iter(rest)
    for piece in rest_of:
        if not piece:  # Two in a row: what follows is as it is.
            pieces += ["\\", next(rest_of, "")]
        else:
            pieces.append(_ECHO_ESCAPES.get(piece[0], f"\\{piece[0]}") + piece[1:])
    return "".join(pieces)


def _cat(arguments: Sequence[str], _: ProgramEnvironment, stdin: Stdin) -> Program | None:
    if any(each.startswith("-") and each != "-" for each in arguments):
        return None

    def copy() -> Program:
        code = 0
        for each in arguments or ("-",):
            if each != "-":
                yield Output(STDERR, f"cat: can't open '{each}': No such file or directory\n".encode())
                code = 1
                continue
            while data := (yield from stdin.read()):
                yield Output(STDOUT, data)
        return code

    return copy()


def _ls(arguments: Sequence[str], _: ProgramEnvironment, __: Stdin) -> Program | None:
    if any(each.startswith("-") and each != "-1" for each in arguments):
        return None

    def listed() -> Program:
        paths, code = [each for each in arguments if each != "-1"] or ["/"], 0
        for path in paths:
            name = path.strip("/")
            if name in ("", "."):
                content = "".join(f"{each}\n" for each in _ROOT)
                yield Output(STDOUT, (f"{path}:\n{content}" if len(paths) > 1 else content).encode())
            elif name not in _ROOT:
                yield Output(STDERR, f"ls: {path}: No such file or directory\n".encode())
                code = 1
            elif len(paths) > 1:
                yield Output(STDOUT, f"{path}:\n".encode())
        return code

    return listed()


def _date(arguments: Sequence[str], environment: ProgramEnvironment, _: Stdin) -> Program | None:
    formats = [each for each in arguments if each not in ("-u", "--utc")]
    if len(formats) > 1 or any(not each.startswith("+") for each in formats):
        return None
    wanted = formats[0][1:] if formats else _DATE
    first, *rest = _directives(wanted)
    if any(each[:1] not in _DATE_FORMATS for each in rest):
        return None

    def told() -> Program:
        now = datetime.fromtimestamp(min(environment.clock(), _LAST_S), UTC)
        text = first + "".join(_DATE_FORMATS[each[0]](now) + each[1:] for each in rest)
        yield Output(STDOUT, f"{text}\n".encode())
        return 0

    return told()


def _directives(text: str) -> Iterator[str]:
    """Yields the text before the first directive, then each directive with the text after it."""
    first, *rest = text.split("%")
    yield first
    pieces = iter(rest)
    for each in pieces:
        yield each or f"%{next(pieces, '')}"


def _env(arguments: Sequence[str], environment: ProgramEnvironment, _: Stdin) -> Program | None:
    if arguments:
        return None
    return _said("".join(f"{name}={value}\n" for name, value in environment.variables.items()))


def _sleep(arguments: Sequence[str], _: ProgramEnvironment, __: Stdin) -> Program | None:
    total = 0.0
    for each in arguments:
        seconds = _seconds(each)
        if seconds is None:
            return _said(f"sleep: invalid number '{each}'\n", STDERR, 1)
        total += seconds
    if not arguments:
        return _said("sleep: missing operand\n", STDERR, 1)

    def wait() -> Program:
        yield Pause(min(total, DURATION_S_MAX))
        return 0

    return wait()


def _seconds(text: str) -> float | None:
    if text in ("infinity", "inf"):
        return DURATION_S_MAX
    unit = _SLEEP_UNITS.get(text[-1:], 1.0)
    digits = text[:-1] if text[-1:] in _SLEEP_UNITS else text
    if not (digits.isascii() and digits.replace(".", "", 1).isdigit() and len(digits) <= 20):
        return None
    return float(digits) * unit


LITERALS: Final[Mapping[str, Literal]] = {
    "echo": _echo,
    "cat": _cat,
    "ls": _ls,
    "date": _date,
    "env": _env,
    "sleep": _sleep,
    "true": lambda *_: _said(""),
    ":": lambda *_: _said(""),
    "false": lambda *_: _said("", code=1),
}
