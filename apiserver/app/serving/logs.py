"""Logs to stderr, each record as a line of text or of JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from apiserver.cli.printable_text import printable, printable_json

log = logging.getLogger("apiserver")

# Longer messages hold what a client made, as a list of a thousand fields that are not known. What collects
# the lines of containers cuts them at 16 KiB.
MESSAGE_CHARACTERS_MAX: Final = 8 * 1024
# A traceback ends with the text of the error, which may hold what a client made, too: its middle is left out.
TRACEBACK_CHARACTERS_MAX: Final = 16 * 1024


class TextFormatter(logging.Formatter):
    """Formats records as lines of text.

    A record begins where a line begins, and nothing that a client sends begins one: line breaks and all other
    characters that are not shown as themselves are escaped, so that a client can neither forge records nor
    control the reader's terminal. A traceback follows on separate, indented lines.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        local = datetime.fromtimestamp(record.created, UTC).astimezone()
        return local.isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  what logging calls it
        record.message = printable(_shortened(record.message))
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        lines = _without_middle(super().formatException(ei)).split("\n")
        return "\n".join(f"  {printable(line)}" for line in lines)


class JsonFormatter(logging.Formatter):
    """Formats records as JSON objects with the keys of Kubernetes' components, a line to a record.

    JSON itself escapes line breaks and most control characters; the others are escaped as JSON does it, so
    that a reader of JSON gets the logged text, and a terminal gets no control characters.
    """

    def format(self, record: logging.LogRecord) -> str:
        more = {}
        if record.exc_info:
            more["err"] = _without_middle(self.formatException(record.exc_info))
        return json_line(
            record.created, record.levelname.lower(), record.name, _shortened(record.getMessage()), more
        )


def json_line(created: float, level: str, logger: str, message: str, more: Mapping[str, str]) -> str:
    """Returns a record as JSON. created: seconds since 1970. more: further fields."""
    fields = {
        "ts": datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds"),
        "level": level,
        "logger": logger,
        "msg": message,
        **more,
    }
    return printable_json(orjson.dumps({name: _encodable(text) for name, text in fields.items()}).decode())


def _shortened(text: str) -> str:
    more = len(text) - MESSAGE_CHARACTERS_MAX
    return text if more <= 0 else f"{text[:MESSAGE_CHARACTERS_MAX]}... ({more} more characters)"


def _without_middle(text: str) -> str:
    more, half = len(text) - TRACEBACK_CHARACTERS_MAX, TRACEBACK_CHARACTERS_MAX // 2
    return text if more <= 0 else f"{text[:half]}\n... ({more} more characters)\n{text[-half:]}"


def _encodable(text: str) -> str:
    """Escapes lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def configure(*, as_json: bool, verbosity: int) -> None:
    """Log to stderr. verbosity: the value of --v."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbosity >= 4 else logging.INFO)
    # Libraries log only warnings, unless everything is wanted.
    for library in ("aiohttp", "asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.DEBUG if verbosity >= 6 else logging.WARNING)
