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
        "The previous release, such as 1.35: also serve the metrics that the emulated release hides and the"
        " next release removes. No other value is allowed.",
    ),
    Flag(
        "--disabled-metrics",
        "strings",
        flag_values.metric_names,
        "The names of metrics that are not served.",
        repeats=True,
    ),
    Flag(
        "--allow-metric-labels",
        "stringToString",
        flag_values.metric_labels,
        "The values that labels of metrics can have, as metric,label='v1,v2'. All other values become "
        "'unexpected'.",
        repeats=True,
        is_list=False,
    ),
    Flag(
        "--allow-metric-labels-manifest",
        "string",
        Path,
        "A YAML file that maps metric,label to values. --allow-metric-labels overrides it.",
    ),
)
