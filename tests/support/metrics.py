"""What a server says of itself at `/metrics`."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.support.api import Api


def metrics_of(api: Api) -> str:
    return api.get("/metrics").body.decode()


def metric(api: Api, name: str, /, **labels: str) -> float:
    """Returns the sum of the samples of this name that have these labels; 0 if there is none."""
    wanted = [re.compile(f'[{{,]{label}="{re.escape(value)}"[,}}]') for label, value in labels.items()]
    lines = [line for line in metrics_of(api).splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(each.search(line) for each in wanted))


def increase(api: Api, act: Callable[[], object], name: str, /, **labels: str) -> float:
    """Returns by how much a metric grows while something is done."""
    before = metric(api, name, **labels)
    act()
    return metric(api, name, **labels) - before
