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
        "The previous release, as 1.35: also serve the metrics that the emulated release hides, and the next "
        "one does not have any more. No other value is allowed.",
    ),
    Flag(
        "--disabled-metrics",
        "strings",
        flag_values.metric_names,
        "Metrics that are not served, by their names, also if they are hidden and shown.",
        repeats=True,
    ),
    Flag(
        "--allow-metric-labels",
        "stringToString",
        flag_values.metric_labels,
        "Values that labels of metrics may have, as metric,label='v1,v2'; all others are told as "
        "'unexpected'.",
        repeats=True,
        is_list=False,
    ),
    Flag(
        "--allow-metric-labels-manifest",
        "string",
        Path,
        "A YAML file that maps metric,label to values, as --allow-metric-labels, which overrides it.",
    ),
)
