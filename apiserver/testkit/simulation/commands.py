"""The commands of simulated containers, from a table in a stage or an annotation. Pure.

    commands:
    - command: uptime                  # a string in which * matches any characters
      stdout: "up 3 days\\n"
    - command: [psql, -c, SELECT 1]    # or a list of words, as they are
      stderr: "no server\\n"
      exitCode: 2
      duration: 500ms                  # how long it runs after its output
    - command: "tar *xmf - *"
      readsStdin: true                 # it runs until its input ends

A string matches the words of a command, joined by spaces. It also matches the script of `sh -c`, each command
in a script, and a line that is typed into a shell.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.testkit.faults.matches import is_like
from apiserver.testkit.simulation.field_values import InvalidStage, duration_s, truth, whole
from apiserver.testkit.simulation.field_values import text as text_of

COMMANDS_MAX: Final = 200
COMMAND_LENGTH_MAX: Final = 4_096
# All annotations of an object together have no more.
OUTPUT_LENGTH_MAX: Final = 256 * 1024
EXIT_CODE_MAX: Final = 255
SHELLS: Final = frozenset({"sh", "ash", "bash", "dash"})
# Where programs are that are called by their names alone.
_FOLDERS: Final = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
_SCRIPT_OPTION: Final = re.compile(r"-[eil]*c")


class Command(NamedTuple):
    """A command, and the response of a container to it.

    words: the exact words; empty if it is a text. patterns: that text, and its form after a shell's parsing.
    """

    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    duration_s: float = 0.0
    reads_stdin: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The key that distinguishes the command from others."""
        return self.words or self.patterns[:1]


def program_name(word: str) -> str:
    """Returns the name of a program: `sh` for `/bin/sh`."""
    folder = next((each for each in _FOLDERS if word.startswith(each)), "")
    return word.removeprefix(folder)


def script_of(words: Sequence[str]) -> str | None:
    """Returns the script of a command like `sh -c SCRIPT`; None for other commands."""
    if len(words) < 3 or program_name(words[0]) not in SHELLS or not _SCRIPT_OPTION.fullmatch(words[1]):
        return None
    return words[2]


def find(commands: Iterable[Command], words: Sequence[str], text: str = "") -> Command | None:
    """Returns the first command that matches; None if there is none.

    text: the original text of the words, if they are from a script.
    """
    named = (program_name(words[0]), *words[1:])
    texts = {" ".join(words), " ".join(named), text.strip(), (script_of(words) or "").strip()} - {""}
    for each in commands:
        if each.words in (tuple(words), named) if each.words else _is_any_like(texts, each.patterns):
            return each
    return None


def _is_any_like(texts: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(is_like(text, pattern) for text in texts for pattern in patterns)


# ---- reading


def read_commands(value: object) -> tuple[Command, ...]:
    """Returns a table of commands. Raises InvalidStage."""
    if not isinstance(value, list) or not value:
        raise InvalidStage((), "must be a list of commands")
    if len(value) > COMMANDS_MAX:
        raise InvalidStage((), f"must have at most {COMMANDS_MAX} items")
    found = []
    for number, each in enumerate(value):
        try:
            found.append(_command(each))
        except InvalidStage as error:
            raise error.below((number,)) from None
    return tuple(found)


def _command(value: object) -> Command:
    if not isinstance(value, dict):
        raise InvalidStage((), "must be a mapping")
    if "command" not in value:
        raise InvalidStage((), "must have a command")
    fields: dict[str, Any] = {}
    for name, content in value.items():
        if name not in _FIELDS:
            raise InvalidStage((f"{name!s:.100}",), f"unknown field; known fields are {', '.join(_FIELDS)}")
        target, read = _FIELDS[name]
        try:
            if target in fields:
                raise InvalidStage((), "cannot be given together with stdout")
            fields[target] = read(content)
        except InvalidStage as error:
            raise error.below((name,)) from None
    words, patterns = fields.pop("command")
    return Command(words, patterns, **fields)


def _words(value: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the words and the patterns of a command, one of which is empty."""
    problem = f"must be a string or a list of strings, with 1 to {COMMAND_LENGTH_MAX} characters"
    listed: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in listed):
        raise InvalidStage((), problem)
    if not 0 < sum(map(len, listed)) <= COMMAND_LENGTH_MAX or (listed and not listed[0].strip()):
        raise InvalidStage((), problem)
    if isinstance(value, list):
        return tuple(listed), ()
    text = listed[0].strip()
    patterns = [text]
    with contextlib.suppress(ValueError):  # It contains a quotation mark.
        patterns += {" ".join(shlex.split(text))} - {text}
    return (), tuple(patterns)


def _output(value: object) -> bytes:
    return text_of(OUTPUT_LENGTH_MAX)(value).encode("utf-8", "surrogatepass")


def _bytes(value: object) -> bytes:
    try:
        return base64.b64decode(text_of(OUTPUT_LENGTH_MAX)(value), validate=True)
    except binascii.Error:
        raise InvalidStage((), "must be base64") from None


_FIELDS: Final[Mapping[str, tuple[str, Any]]] = {
    "command": ("command", _words),
    "stdout": ("stdout", _output),
    "stdoutBase64": ("stdout", _bytes),
    "stderr": ("stderr", _output),
    "exitCode": ("exit_code", whole(0, EXIT_CODE_MAX)),
    "duration": ("duration_s", duration_s),
    "readsStdin": ("reads_stdin", truth),
}
