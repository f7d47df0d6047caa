"""Prints a line for each result: the workload, its speed, the bare limit, and the cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_ROW: Final = "{:<58} {:>14} {:>14} {:>7} {:>8} {:>12}  {}"


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one workload.

    server, bare: in `unit`; bare is 0 if there is no limit to compare with.
    target: the lowest allowed `server / bare`, or with `is_bound` the highest allowed `server`.
    cpu_us: the server process's CPU time per request (or per delivery), microseconds; 0 if not measured.
    note: explains the figures; printed on lines of its own.
    """

    work: str
    unit: str
    server: float
    bare: float = 0.0
    target: float = 0.0
    is_bound: bool = False
    cpu_us: float = 0.0
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.server / self.bare if self.bare else 0.0

    @property
    def is_met(self) -> bool:
        if not self.target:
            return True
        return self.server <= self.target if self.is_bound else self.ratio >= self.target


def heading() -> str:
    return _ROW.format("work", "server", "bare limit", "ratio", "target", "CPU/request", "").rstrip()


def line(result: Result) -> str:
    target = ""
    if result.target:
        target = f"<={result.target:g}" if result.is_bound else f">={result.target:g}"
    row = _ROW.format(
        result.work,
        f"{_number(result.server)} {result.unit}",
        f"{_number(result.bare)} {result.unit}" if result.bare else "",
        f"{result.ratio:.2f}" if result.bare else "",
        target,
        f"{result.cpu_us:,.0f} us" if result.cpu_us else "",
        "" if result.is_met else "MISSED",
    ).rstrip()
    return "\n".join([row, *(f"    | {text}" for text in result.note.splitlines())])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
