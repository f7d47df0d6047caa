"""One exposition from those of several workers.

A scrape reaches any one of them, and the numbers of that one alone would jump from scrape to scrape. What is
counted is added up, and stays when a worker dies, as far as a scrape has seen it: a sum that falls would look
like a restart to Prometheus, and all that is left of it like a burst of work. States are added up, too, where
each worker has its part (requests under way, memory); where all see the same, one is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

# Of these gauges each worker's value is about the same thing. The others' are added up.
_SHARED_GAUGES: Final[dict[str, Callable[[float, float], float]]] = {
    "apiserver_storage_objects": max,
    "apiserver_watch_cache_resource_version": min,  # the worker that lags most
    "process_start_time_seconds": min,
    "python_info": max,
    "watch_cache_capacity": max,
}
_COUNTED: Final = ("counter", "histogram")


@dataclass(slots=True)
class Family:
    """All samples of one name. head: its HELP and TYPE lines. samples: by name and labels, as in the text."""

    head: str
    kind: str
    samples: dict[str, float] = field(default_factory=dict)


def parse(text: bytes) -> dict[str, Family]:
    """The families of an exposition as prometheus-client makes it: each has HELP, TYPE, then its samples."""
    families: dict[str, Family] = {}
    head, family = "", Family("", "")
    for line in text.decode().splitlines():
        if line.startswith("# HELP "):
            head = line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            family = families[name] = Family(f"{head}\n{line}\n", kind)
        else:
            # What labels hold may have spaces, the value has none.
            key, _, value = line.rpartition(" ")
            family.samples[key] = float(value)
    return families


def counted(families: dict[str, Family]) -> dict[str, Family]:
    """What stays true when the process is gone."""
    return {name: family for name, family in families.items() if family.kind in _COUNTED}


def combined(sources: Iterable[dict[str, Family]]) -> dict[str, Family]:
    """The families of all, in the order in which they are first met."""
    result: dict[str, Family] = {}
    for source in sources:
        for name, family in source.items():
            into = result.get(name)
            if into is None:
                into = result[name] = Family(family.head, family.kind)
            choose = _SHARED_GAUGES.get(name, float.__add__)
            for key, value in family.samples.items():
                known = into.samples.get(key)
                into.samples[key] = value if known is None else choose(known, value)
    return result


def exposition(families: dict[str, Family]) -> bytes:
    parts = []
    for family in families.values():
        parts.append(family.head)
        parts += (f"{key} {_number(value)}\n" for key, value in family.samples.items())
    return "".join(parts).encode()


def _number(value: float) -> str:
    """Whole numbers without a fraction, as kube-apiserver writes them."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value!r}"
