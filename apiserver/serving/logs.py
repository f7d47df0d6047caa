"""What goes to stderr: a line of text, or of JSON, for each record."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson


class JsonFormatter(logging.Formatter):
    """One JSON object to a line, with the keys that Kubernetes' components use."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _encodable(record.getMessage()),
        }
        if record.exc_info:
            entry["err"] = _encodable(self.formatException(record.exc_info))
        return orjson.dumps(entry).decode()


def _encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode("utf-8", "backslashreplace").decode()


def configure(*, as_json: bool, verbosity: int) -> None:
    """Send records of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if as_json
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbosity >= 4 else logging.INFO)
    # Libraries speak up only when something is wrong, or when everything is wanted.
    for library in ("aiohttp", "asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.DEBUG if verbosity >= 6 else logging.WARNING)
