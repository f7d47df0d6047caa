"""The flags of the server's own log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag, flags_of, option
from apiserver.cli.flag_values import COUNT, TEXT


@dataclass(frozen=True, slots=True, repr=False)
class LoggingOptions:
    """The options of logs."""

    verbosity: int = option(
        0,
        COUNT,
        "Number for the log level verbosity. 4 and above log debug messages, 6 and above also those of "
        "libraries.",
        name="--v",
        alias="-v",
    )
    logging_format: str = option(
        "text",
        TEXT,
        'Sets the log format. Permitted formats: "json", "text". With "json", all lines on stdout and '
        "stderr are JSON objects.",
        choices=("text", "json"),
    )
    flag_deprecation_warnings: ClassVar[Flag] = Flag(
        "--flag-deprecation-warnings",
        "bool",
        flag_values.boolean,
        "Log a warning for each deprecated flag.",
        default="true",
        needs_value=False,
    )


FLAGS: Final = flags_of(LoggingOptions)
