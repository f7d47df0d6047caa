"""Logging to stderr: each record is a line of text or of JSON."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson


class JsonFormatter(logging.Formatter):
    """Formats records as JSON objects with the keys of Kubernetes' components."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _encodable(record.getMessage()),
        }
        if record.exc_info:
            fields["err"] = _encodable(self.formatException(record.exc_info))
        return orjson.dumps(fields).decode()


def _encodable(text: str) -> str:
    """Escapes lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def configure(*, as_json: bool, verbosity: int) -> None:
    """Log to stderr. verbosity: the value of --v."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if as_json
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbosity >= 4 else logging.INFO)
    # Libraries log only warnings, unless everything is wanted.
    for library in ("aiohttp", "asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.DEBUG if verbosity >= 6 else logging.WARNING)
