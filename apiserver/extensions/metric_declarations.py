"""The declarations of metrics whose values functions return, and what these may return."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.extensions.errors import InvalidExtension

# How many series a metric can have, so that no metric fills the memory of Prometheus.
SERIES_MAX: Final = 1_000
LABELS_MAX: Final = 10
HELP_LENGTH_MAX: Final = 1_000
_KINDS: Final = ("gauge", "counter")
# Source: https://prometheus.io/docs/concepts/data_model/. Colons are for recording rules.
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def metric_options(name: str, text: str, kind: str, labels: Sequence[str]) -> Mapping[str, Any]:
    """Returns the options of a function for a metric. text: its help. Raises InvalidExtension."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidExtension(f"metric: the name {name!r} must consist of letters, digits and underscores")
    if kind not in _KINDS:
        raise InvalidExtension(f'metric {name}: kind={kind!r} must be "gauge" or "counter"')
    if not isinstance(text, str) or not text.isprintable() or len(text) > HELP_LENGTH_MAX:
        raise InvalidExtension(
            f"metric {name}: help must be one line of at most {HELP_LENGTH_MAX} characters"
        )
    if isinstance(labels, str) or len(labels) > LABELS_MAX or len(set(labels)) < len(labels):
        raise InvalidExtension(
            f"metric {name}: labels must be a list of at most {LABELS_MAX} different names"
        )
    for each in labels:
        if not isinstance(each, str) or not _NAME.fullmatch(each) or each.startswith("__"):
            raise InvalidExtension(
                f"metric {name}: the label {each!r} must consist of letters, digits and underscores"
            )
    return {"metric": name, "help": text, "type": kind, "labels": list(labels)}


def samples_of(returned: Any, labels: Sequence[str]) -> list[Any]:
    """Returns what a function has returned, as label values and numbers. Raises TypeError.

    returned: a number for a metric without labels; otherwise a mapping of numbers by label value, or by a
        tuple of label values if there are several labels.
    """
    if not labels:
        return [[[], _number(returned)]]
    if not isinstance(returned, Mapping):
        raise TypeError(f"must return a mapping of label values to numbers, not {type(returned).__name__}")
    if len(returned) > SERIES_MAX:
        raise TypeError(f"must return at most {SERIES_MAX} numbers, not {len(returned)}")
    return [[_label_values(key, labels), _number(value)] for key, value in returned.items()]


def _label_values(key: Any, labels: Sequence[str]) -> list[str]:
    values = [key] if len(labels) == 1 and isinstance(key, str) else key
    if not isinstance(values, tuple | list) or len(values) != len(labels):
        raise TypeError(f"must return a mapping by values of {', '.join(labels)}; a key is {key!r:.100}")
    for each in values:
        if not isinstance(each, str):
            raise TypeError(f"must return a mapping by texts; a key is {key!r:.100}")
    return list(values)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"must return numbers, not {type(value).__name__}")
    if value != value or value in (float("inf"), float("-inf")):  # JSON cannot express them.
        raise TypeError(f"must return finite numbers, not {value!r}")
    return value
