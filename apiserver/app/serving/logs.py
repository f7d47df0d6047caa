"""Logs to stderr, each record as a line of text or of JSON."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from apiserver.cli.printable_text import printable, printable_json
from apiserver.golang.quoting import go_quote
from apiserver.storage.errors import OutcomeUnknown, StorageUnavailable
from apiserver.tracing.request_trace import current

log = logging.getLogger("apiserver")

# Longer messages hold what a client made, as a list of a thousand fields that are not known. What collects
# the lines of containers cuts them at 16 KiB.
MESSAGE_CHARACTERS_MAX: Final = 8 * 1024
# A traceback ends with the text of the error, which may hold what a client made, too: its middle is left out.
TRACEBACK_CHARACTERS_MAX: Final = 16 * 1024
# Each task that needs the store logs its failures while the store does not respond.
OUTAGE_RECORD_INTERVAL_S: Final = 1.0
# After this time without such a record, the next one is about another outage.
SAME_OUTAGE_S: Final = 60.0
# The logger of `endpoints.request_log` for all requests.
REQUESTS: Final = "apiserver.http"
# The server sets the log levels of these libraries separately.
LIBRARIES: Final = ("aiohttp", "asyncio", "grpc", "opentelemetry")
# Errors that cause each other.
_CAUSES_MAX: Final = 5


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
        record.message = printable(_shortened(record.message)) + _audit_id_suffix()
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
        if (trace := current()) is not None:
            more["auditID"] = trace.audit_id
        if record.exc_info:
            more["err"] = _without_middle(self.formatException(record.exc_info))
        return json_line(
            record.created, record.levelname.lower(), record.name, _shortened(record.getMessage()), more
        )


class OutageFilter(logging.Filter):
    """Passes one record a second of those about calls that the store did not carry out, but all errors.

    The next record of the same outage says how many were omitted.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed_at = -math.inf
        self._omitted = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR or not _is_about_outage(record):
            return True
        passed_s = abs(record.created - self._passed_at)
        if passed_s < OUTAGE_RECORD_INTERVAL_S:
            self._omitted += 1
            return False
        self._passed_at = record.created
        if passed_s > SAME_OUTAGE_S:
            self._omitted = 0
        if self._omitted:
            record.msg = f"{record.getMessage()} (similar messages omitted: {self._omitted})"
            record.args, self._omitted = None, 0
        return True


def _is_about_outage(record: logging.LogRecord) -> bool:
    named = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
    errors: list[object] = [*named, record.exc_info[1] if record.exc_info else None]
    for _ in range(_CAUSES_MAX):
        if any(isinstance(each, (StorageUnavailable, OutcomeUnknown)) for each in errors):
            return True
        errors = [each.__cause__ for each in errors if isinstance(each, BaseException)]
    return False


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


def _audit_id_suffix() -> str:
    """Returns the audit ID of the request during which something is logged; empty outside of requests."""
    trace = current()
    return "" if trace is None else f" auditID={printable(go_quote(trace.audit_id))}"


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
    handler.addFilter(OutageFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_verbosity(verbosity)


def silence_grpc() -> None:
    """Keep gRPC's C core from writing lines of text, unless the environment sets what it writes.

    It reads the environment when it is imported. The server logs the errors of its calls.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def set_verbosity(verbosity: int) -> None:
    """Log as much as a value of --v asks for, from now on."""
    logging.getLogger().setLevel(logging.DEBUG if verbosity >= 4 else logging.INFO)
    logging.getLogger(REQUESTS).setLevel(logging.INFO if verbosity >= 3 else logging.WARNING)
    # Libraries log only warnings, unless everything is wanted.
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(logging.DEBUG if verbosity >= 6 else logging.WARNING)
