"""The flags of metrics: which are served, and with which values of labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag

FLAGS: Final[Sequence[Flag]] = (
    Flag(
        "--show-hidden-metrics-for-version",
        "string",
        flag_values.release,
        "The release before the emulated release, such as 1.35. No other value is allowed. If this flag is "
        "set, the server serves the metrics that the emulated release hides. The release after the emulated "
        "one removes these metrics.",
    ),
    Flag(
        "--disabled-metrics",
        "strings",
        flag_values.metric_names,
        "A comma-separated list of metrics that the server does not serve.",
        repeats=True,
    ),
    Flag(
        "--allow-metric-labels",
        "stringToString",
        flag_values.metric_labels,
        "The allowed values of a metric label, in the format metric,label='v1,v2'. The server replaces all "
        "other values of the label with 'unexpected'.",
        repeats=True,
        is_list=False,
    ),
    Flag(
        "--allow-metric-labels-manifest",
        "string",
        Path,
        "A YAML file that maps each metric,label pair to its allowed values. --allow-metric-labels takes "
        "precedence over this file.",
    ),
)
