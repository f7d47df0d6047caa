"""The flags of the server's own log and of traces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag, flags_of, option
from apiserver.cli.flag_values import COUNT, PATH, TEXT
from apiserver.cli.tracing_configuration import TracingConfiguration


@dataclass(frozen=True, slots=True, repr=False)
class LoggingOptions:
    """The options of logs and traces."""

    verbosity: int = option(
        0,
        COUNT,
        "The log verbosity level. At level 3 and above, the server logs each request. At level 4 and above, "
        "the server also logs debug messages. At level 6 and above, the server also logs debug messages from "
        "libraries.",
        name="--v",
        alias="-v",
    )
    logging_format: str = option(
        "text",
        TEXT,
        'The log format. Permitted formats: "json", "text". With "json", all lines on stdout and stderr '
        "are JSON objects.",
        choices=("text", "json"),
    )
    tracing_config_file: Path | None = option(
        None,
        PATH,
        "A file that contains a TracingConfiguration. The file specifies the sampling rate (requests per "
        "million) and the OpenTelemetry collector to which the server sends spans. This flag requires the "
        "package's 'tracing' extra.",
    )
    # What is in that file.
    tracing: TracingConfiguration | None = None
    flag_deprecation_warnings: ClassVar[Flag] = Flag(
        "--flag-deprecation-warnings",
        "bool",
        flag_values.boolean,
        "If true, the server logs a warning for each deprecated flag that you set.",
        default="true",
        needs_value=False,
    )


FLAGS: Final = flags_of(LoggingOptions)
