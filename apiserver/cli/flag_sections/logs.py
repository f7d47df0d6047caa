"""The flags of the server's own log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag


@dataclass(frozen=True, slots=True, repr=False)
class LoggingOptions:
    """The options of logs."""

    verbosity: int = 0
    logging_format: str = "text"


FLAGS: Final[Sequence[Flag]] = (
    Flag(
        "--v",
        "int",
        flag_values.count,
        "Number for the log level verbosity. 4 and above logs debug messages, 6 and above also those of "
        "libraries.",
        field="verbosity",
        alias="-v",
    ),
    Flag(
        "--logging-format",
        "string",
        str,
        'Sets the log format. Permitted formats: "json", "text".',
        choices=("text", "json"),
    ),
    Flag(
        "--flag-deprecation-warnings",
        "bool",
        flag_values.boolean,
        "Warn of deprecated flags.",
        default="true",
        needs_value=False,
    ),
)
