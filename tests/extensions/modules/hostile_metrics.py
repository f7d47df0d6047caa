"""Metrics whose functions return and do what they must not. Only workers import it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.extensions import Extension, invocation
from apiserver.extensions.metric_declarations import samples_of


def _unchecked_samples(returned: Any, labels: Any) -> Any:
    """Lets the server see what functions return: it must not rely on the check in the worker."""
    if isinstance(returned, dict) and "samples" in returned:
        return returned["samples"]
    return samples_of(returned, labels)


vars(invocation)["samples_of"] = _unchecked_samples

app = Extension("hostile-metrics", timeout_s=0.3)


def fails() -> Any:
    raise KeyError("orders")


WITHOUT_LABELS: Final[Mapping[str, Callable[[], Any]]] = {
    "none": lambda: None,
    "text": lambda: "7",
    "bool": lambda: True,
    "nan": lambda: float("nan"),
    "infinite": lambda: float("inf"),
    "large": lambda: 1 << 70,
    "mapping": lambda: {"a": 7},
    "fails": fails,
    "late": lambda: time.sleep(60),
    "leaves": lambda: os._exit(3),
    "raw_text": lambda: {"samples": "7"},
    "raw_null": lambda: {"samples": [[[], None]]},
    "raw_bool": lambda: {"samples": [[[], True]]},
    "raw_labels": lambda: {"samples": [[["a"], 7]]},
    "raw_many": lambda: {"samples": [[[], 7]] * 1_001},
}
WITH_LABEL: Final[Mapping[str, Callable[[], Any]]] = {
    "label_number": lambda: 7,
    "label_key": lambda: {7: 7},
    "label_pair": lambda: {("a", "b"): 7},
    "label_many": lambda: {str(number): 7 for number in range(1_001)},
    "label_raw_number": lambda: {"samples": [[[7], 7]]},
    "label_raw_long": lambda: {"samples": [[["a" * 257], 7]]},
}
for _name, _function in WITHOUT_LABELS.items():
    app.metric(f"hostile_{_name}")(_function)
for _name, _function in WITH_LABEL.items():
    app.metric(f"hostile_{_name}", labels=["fruit"])(_function)
app.metric("hostile_negative", kind="counter")(lambda: -1)


@app.metric("hostile_sound")
def sound() -> int:
    return 7
