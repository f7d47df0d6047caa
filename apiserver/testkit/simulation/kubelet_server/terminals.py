"""The line discipline of a terminal: echoes typed keys, and passes lines to the program. Pure.

It works like that of a kernel: a client sends each key, and shows nothing by itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# A line that is longer is not taken further, as by a kernel.
LINE_BYTES_MAX: Final = 4_096

_INTERRUPT, _END, _BACKSPACE, _DELETE, _KILL = 0x03, 0x04, 0x08, 0x7F, 0x15
_RETURN, _NEWLINE, _TAB = 0x0D, 0x0A, 0x09
_RUBBED_OUT: Final = b"\b \b"


class TerminalInput(NamedTuple):
    """The result of typed keys.

    echo: bytes to show. inputs: those that the program reads, in order; an empty one ends its input.
    is_interrupted: whether ^C was typed; the inputs are those after it.
    """

    echo: bytes
    inputs: list[bytes]
    is_interrupted: bool = False


class LineDiscipline:
    def __init__(self) -> None:
        self._line = bytearray()

    def feed(self, keys: bytes) -> TerminalInput:
        echo = bytearray()
        inputs: list[bytes] = []
        is_interrupted = False
        for key in keys:
            if key == _INTERRUPT:
                echo += b"^C"
                self._line.clear()
                inputs.clear()
                is_interrupted = True
            elif key == _END:
                inputs.append(self._take())
            elif key in (_RETURN, _NEWLINE):
                echo += b"\r\n"
                self._line.append(_NEWLINE)
                inputs.append(self._take())
            elif key in (_BACKSPACE, _DELETE):
                echo += self._rub_out(1)
            elif key == _KILL:
                echo += self._rub_out(len(self._line))
            elif (key >= 0x20 or key == _TAB) and len(self._line) < LINE_BYTES_MAX:
                self._line.append(key)
                echo.append(key)
        return TerminalInput(bytes(echo), inputs, is_interrupted)

    def _take(self) -> bytes:
        line = bytes(self._line)
        self._line.clear()
        return line

    def _rub_out(self, count: int) -> bytes:
        echo = b""
        while count and self._line:
            count -= 1
            # The bytes of one letter go together.
            while len(self._line) > 1 and self._line[-1] & 0xC0 == 0x80:
                self._line.pop()
            self._line.pop()
            echo += _RUBBED_OUT
        return echo


def shown(output: bytes) -> bytes:
    """Returns the output of a program as a terminal shows it."""
    return output.replace(b"\n", b"\r\n")
