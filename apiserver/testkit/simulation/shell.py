"""The shell of simulated containers, which runs sequences of commands and no other syntax. Pure.

It understands `;`, `&&`, `||`, quotes, variables, `exit`, and outputs that go to each other or to /dev/null.
A script with anything else, such as a pipe or a loop, is rejected as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from apiserver.testkit.simulation.commands import SHELLS, Command, find, program_name, script_of
from apiserver.testkit.simulation.programs import (
    INTERRUPTED,
    LINE_BYTES_MAX,
    NOT_FOUND,
    STDERR,
    STDOUT,
    LineTooLong,
    Output,
    Pause,
    Program,
    ProgramEnvironment,
    ProgramInterrupted,
    Stdin,
    Step,
    listed_program,
    literal_program,
)

_PROMPT: Final = b"/ # "
# Scripts that run scripts.
_DEPTH_MAX: Final = 5
# A script is looked through before it runs, each command in the whole table.
SCRIPT_LENGTH_MAX: Final = LINE_BYTES_MAX
COMMANDS_MAX: Final = 100
# The same of all scripts in a script together: variables may have scripts that run each other many times.
ALL_COMMANDS_MAX: Final = 500
# What the variables of a command may have, as a kernel bounds its arguments.
EXPANDED_LENGTH_MAX: Final = 128 * 1024
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*|\?)\}")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_RESERVED: Final = frozenset(
    {"if", "for", "while", "until", "case", "function", "select", "time", "exec", "cd"}
)
_REDIRECTION: Final = re.compile(r"([12]?)(?:>&([12])|>>?[ \t]*/dev/null)(?=[\s;&|]|$)")
_CONNECTOR: Final = re.compile(r"&&|\|\||;|\n")
_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)+")
# Unquoted: what a shell does with it is more than these commands in a row.
_UNKNOWN: Final = frozenset("|&()<>`*?[~{}!")
_OPTIONS_OF_SHELLS: Final = re.compile(r"-[eil]+|--login")
_STATUS: Final = "?"
_SYNTAX_ERROR: Final = 2
_SHOWN_LENGTH_MAX: Final = 200


class NotUnderstood(Exception):
    """A script is more than a sequence of commands, or has an unknown command."""


class WordPart(NamedTuple):
    """A part of a word: a text, or the variable `name`."""

    text: str = ""
    name: str = ""
    is_quoted: bool = False


Word: TypeAlias = tuple[WordPart, ...]


class SimpleCommand(NamedTuple):
    """A simple command of a script. connector: the operator before it. text: the original text.

    streams: the redirected outputs; None for /dev/null.
    """

    connector: str
    words: tuple[Word, ...]
    streams: Mapping[int, int | None]
    text: str


def start(words: Sequence[str], environment: ProgramEnvironment, stdin: Stdin) -> Program | None:
    """Returns the program of a command; None if it is neither in the table nor understood."""
    try:
        return _Shell(environment, stdin).start(words)
    except NotUnderstood:
        return None


class _Shell:
    """Starts commands in one environment, with one input."""

    def __init__(self, environment: ProgramEnvironment, stdin: Stdin) -> None:
        self._environment = environment
        self._stdin = stdin
        # How many commands may still be looked through before the next one runs.
        self._left = ALL_COMMANDS_MAX

    def start(self, words: Sequence[str], depth: int = 0) -> Program:
        """Returns the program of a command. depth: that of nested scripts. Raises NotUnderstood."""
        if (listed := self._listed(words)) is not None:
            return listed_program(listed, self._stdin)
        if program_name(words[0]) not in SHELLS:
            literal = literal_program(words, self._environment, self._stdin)
            if literal is None:
                raise NotUnderstood
            return literal
        script = script_of(words)
        if script is None:
            if not all(map(_OPTIONS_OF_SHELLS.fullmatch, words[1:])):
                raise NotUnderstood
            return self._typed()
        if depth == _DEPTH_MAX:
            raise NotUnderstood
        commands = parse(script)
        self._left -= len(commands)
        if self._left < 0:
            raise NotUnderstood
        for each in commands:
            self._require_understood(each, depth + 1)
        return self._script(commands, stops="e" in words[1], depth=depth + 1)

    def _listed(self, words: Sequence[str], text: str = "") -> Command | None:
        return find(self._environment.commands, words, text)

    def _require_understood(self, command: SimpleCommand, depth: int) -> None:
        words = self._expanded(command.words, 0)
        if words[:1] != ["exit"]:
            self._program(command, words, depth).close()

    def _program(self, command: SimpleCommand, words: Sequence[str], depth: int) -> Program:
        """Returns the program of a simple command."""
        if not words:
            raise NotUnderstood
        listed = self._listed(words, command.text)
        found = self.start(words, depth) if listed is None else listed_program(listed, self._stdin)
        return _redirected(found, command.streams) if command.streams else found

    def _script(self, commands: Sequence[SimpleCommand], *, stops: bool, depth: int) -> Program:
        status, _ = yield from self._run(commands, 0, stops=stops, depth=depth)
        return status

    def _run(
        self, commands: Sequence[SimpleCommand], status: int, *, stops: bool = False, depth: int = 1
    ) -> Generator[Step, bytes, tuple[int, bool]]:
        """Runs a sequence of commands; returns the last exit code, and whether the shell exits.

        status: the previous exit code. stops: whether to stop at the first unchecked failure.
        Only here may a command be unknown, as its words may contain the previous exit code.
        """
        for number, each in enumerate(commands):
            if (each.connector == "&&" and status) or (each.connector == "||" and not status):
                continue
            yield Pause(0.0)
            self._left = ALL_COMMANDS_MAX
            try:
                words = self._expanded(each.words, status)
                if words[:1] == ["exit"]:
                    return _exit_code(words, status), True
                program = self._program(each, words, depth)
            except NotUnderstood:
                program = _redirected(_not_found(each.text), each.streams)
            status = yield from program
            is_asked = number + 1 < len(commands) and commands[number + 1].connector in ("&&", "||")
            if status and stops and not is_asked:
                return status, True
        return status, False

    def _typed(self) -> Program:
        """Runs the lines that are typed, or that a client sends."""
        status, is_over = 0, False
        while not is_over:
            try:
                if self._environment.is_terminal:
                    yield Output(STDOUT, _PROMPT)
                line = yield from self._stdin.read_line()
                if not line:
                    break
                status, is_over = yield from self._line(line.decode("utf-8", "surrogateescape"), status)
            except ProgramInterrupted:
                status = INTERRUPTED
                yield Output(STDOUT, b"\n")
            except LineTooLong:
                yield Output(STDERR, b"sh: the line is too long\n")
                return _SYNTAX_ERROR
        return status

    def _line(self, line: str, status: int) -> Generator[Step, bytes, tuple[int, bool]]:
        if line.strip() and (listed := self._listed((line.strip(),), line)) is not None:
            return (yield from listed_program(listed, self._stdin)), False
        try:
            commands = parse(line)
        except NotUnderstood:
            return (yield from _not_found(line.strip())), False
        return (yield from self._run(commands, status))

    def _expanded(self, words: Sequence[Word], status: int) -> list[str]:
        """Returns words with variables expanded; unquoted values are split at blanks.

        Raises NotUnderstood if they are too long.
        """
        expanded: list[str] = []
        length = 0
        for word in words:
            fields = [""]
            is_empty = True
            for piece in word:
                if not piece.name:
                    fields[-1] += piece.text
                    is_empty &= not (piece.text or piece.is_quoted)
                    continue
                is_status = piece.name == _STATUS
                value = str(status) if is_status else self._environment.variables.get(piece.name, "")
                length += len(value)
                if length > EXPANDED_LENGTH_MAX:
                    raise NotUnderstood
                if piece.is_quoted:
                    fields[-1] += value
                    is_empty = False
                elif value.split():
                    first, *others = value.split()
                    fields[-1] += first
                    fields += others
                    is_empty = False
            if not is_empty:
                expanded += fields
        return expanded


def _not_found(text: str) -> Program:
    """Returns the program that reports an unknown command."""
    shown = text[:_SHOWN_LENGTH_MAX]
    yield Output(STDERR, f"sh: {shown}: not found\n".encode("utf-8", "surrogateescape"))
    return NOT_FOUND


def _redirected(program: Program, streams: Mapping[int, int | None]) -> Program:
    """Runs a program whose outputs are redirected."""
    received = b""
    try:
        step = next(program)
        while True:
            if isinstance(step, Output):
                stream = streams.get(step.stream, step.stream)
                received = b"" if stream is None else (yield Output(stream, step.data))
            else:
                received = yield step
            step = program.send(received)
    except StopIteration as end:
        return int(end.value)


def _exit_code(words: Sequence[str], status: int) -> int:
    if len(words) == 1:
        return status
    digits = words[1]
    return int(digits) & 0xFF if digits.isascii() and digits.isdigit() and len(digits) < 10 else _SYNTAX_ERROR


# ---- syntax


def parse(script: str) -> list[SimpleCommand]:
    """Returns the commands of a script. Raises NotUnderstood."""
    if len(script) > SCRIPT_LENGTH_MAX:
        raise NotUnderstood
    return _Parser(script).commands()


class _Parser:
    def __init__(self, script: str) -> None:
        self._script = script
        self._at = 0

    def commands(self) -> list[SimpleCommand]:
        found: list[SimpleCommand] = []
        connector = ";"
        while True:
            command = self._command(connector)
            if command is not None:
                found.append(command)
                if len(found) > COMMANDS_MAX:
                    raise NotUnderstood
            elif connector in ("&&", "||"):
                # What comes after them may be on the next line.
                if self._is_at_end() or self._script[self._at] != "\n":
                    raise NotUnderstood
                self._at += 1
                continue
            if self._is_at_end():
                return found
            match = _CONNECTOR.match(self._script, self._at)
            if match is None or (command is None and match[0] != "\n"):
                raise NotUnderstood
            connector = ";" if match[0] == "\n" else match[0]
            self._at = match.end()

    def _is_at_end(self) -> bool:
        return self._at >= len(self._script)

    def _command(self, connector: str) -> SimpleCommand | None:
        """Returns the command that begins here, up to its end; None if there is none."""
        words: list[Word] = []
        streams: dict[int, int | None] = {}
        self._skip_blanks()
        begin = self._at
        while not self._is_at_end() and not _CONNECTOR.match(self._script, self._at):
            if (redirection := _REDIRECTION.match(self._script, self._at)) is not None:
                source, target = int(redirection[1] or STDOUT), redirection[2]
                streams[source] = None if target is None else streams.get(int(target), int(target))
                self._at = redirection.end()
            else:
                words.append(self._word(is_first=not words))
            self._skip_blanks()
        if not words:
            if streams:
                raise NotUnderstood
            return None
        return SimpleCommand(connector, tuple(words), streams, self._script[begin : self._at].strip())

    def _skip_blanks(self) -> None:
        if (blanks := _BLANKS.match(self._script, self._at)) is not None:
            self._at = blanks.end()
        if self._script.startswith("#", self._at):
            end = self._script.find("\n", self._at)
            self._at = len(self._script) if end < 0 else end

    def _word(self, *, is_first: bool) -> Word:
        pieces: list[WordPart] = []
        begin = self._at
        while not self._is_at_end():
            letter = self._script[self._at]
            if letter in " \t\n;" or self._script.startswith(("&&", "||"), self._at):
                break
            if letter in _UNKNOWN:
                raise NotUnderstood
            pieces += self._piece(letter)
        if is_first:
            written = self._script[begin : self._at]
            if written in _RESERVED or _ASSIGNMENT.match(written):
                raise NotUnderstood
        return tuple(pieces)

    def _piece(self, letter: str) -> list[WordPart]:
        if letter == "'":
            return [WordPart(self._up_to("'"), is_quoted=True)]
        if letter == '"':
            return self._quoted()
        if letter == "$":
            return [self._variable(is_quoted=False)]
        if letter == "\\":
            if self._at + 1 >= len(self._script):
                raise NotUnderstood
            self._at += 2
            escaped = self._script[self._at - 1]
            return [] if escaped == "\n" else [WordPart(escaped, is_quoted=True)]
        self._at += 1
        return [WordPart(letter)]

    def _up_to(self, mark: str) -> str:
        end = self._script.find(mark, self._at + 1)
        if end < 0:
            raise NotUnderstood
        text, self._at = self._script[self._at + 1 : end], end + 1
        return text

    def _quoted(self) -> list[WordPart]:
        """Returns the parts between double quotes."""
        pieces = [WordPart(is_quoted=True)]
        self._at += 1
        while not self._is_at_end():
            letter = self._script[self._at]
            if letter == '"':
                self._at += 1
                return pieces
            if letter == "`":
                raise NotUnderstood
            if letter == "$":
                pieces.append(self._variable(is_quoted=True))
                continue
            if letter == "\\" and self._script[self._at + 1 : self._at + 2] in tuple('$`"\\\n'):
                self._at += 1
                letter = self._script[self._at].replace("\n", "")
            pieces.append(WordPart(letter, is_quoted=True))
            self._at += 1
        raise NotUnderstood

    def _variable(self, *, is_quoted: bool) -> WordPart:
        self._at += 1
        if self._script.startswith(_STATUS, self._at):
            self._at += 1
            return WordPart(name=_STATUS, is_quoted=is_quoted)
        if (named := _NAME.match(self._script, self._at)) is not None:
            self._at = named.end()
            return WordPart(name=named[0], is_quoted=is_quoted)
        if (braced := _BRACED.match(self._script, self._at)) is not None:
            self._at = braced.end()
            return WordPart(name=braced[1], is_quoted=is_quoted)
        if self._script[self._at : self._at + 1] in tuple("({`'\"*@#$!-0123456789"):
            raise NotUnderstood
        return WordPart("$", is_quoted=is_quoted)
