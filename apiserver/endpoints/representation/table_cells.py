"""Encodes the cells of table rows, and finds out how long they stay valid.

Most cells change only with their object. Ages change by themselves: the columns get a clock that records how
they use it, which reveals the cells that show an age, and its start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from apiserver.meta.table import Column, duration
from apiserver.meta.vocabulary import Document


@dataclass(slots=True)
class EncodedCells:
    """The cells of a row, encoded as JSON.

    before, after: the cells on either side of the age, if there is one. since: when that age begins.
    until: when any cell but the age may change.
    text: all cells, valid from `text_since` until before `text_until`.
    """

    before: bytes
    since: float | None
    after: bytes
    until: float
    text: bytes = b""
    text_since: float = math.inf
    text_until: float = -math.inf

    def at(self, now: float) -> bytes:
        if not self.text_since <= now < self.text_until:
            self.text_since, self.text_until = now, self.until
            if self.since is None:
                self.text = self.before
            else:
                self.text = self.before + _age(int(now - self.since)) + self.after
                self.text_until = min(self.until, age_changes_at(self.since, now))
        return self.text


@lru_cache(maxsize=8192)
def _age(seconds: int) -> bytes:
    return orjson.dumps(duration(seconds))


class _TracedTime(float):
    """A time for columns that records what they subtract from it, and whether they use it otherwise."""

    __slots__ = ("is_inspected", "since")

    def __init__(self, now: float) -> None:
        self.since: list[float] = []
        self.is_inspected = False

    def __sub__(self, then: float, /) -> float:
        self.since.append(float(then))
        return float.__sub__(self, then)


def _inspecting(name: str) -> Any:
    """Returns the method of float, made to record that it was called."""
    operation = getattr(float, name)

    def method(self: _TracedTime, *others: Any) -> Any:
        self.is_inspected = True
        return operation(self, *others)

    return method


for _name in ("rsub", "add", "radd", "mul", "truediv", "mod", "lt", "le", "gt", "ge", "int", "float"):
    setattr(_TracedTime, f"__{_name}__", _inspecting(f"__{_name}__"))


def encode_cells(columns: Sequence[Column], document: Document, now: float) -> EncodedCells:
    """Encodes the cells of an object's row, and finds out how long they stay valid."""
    cells: list[Any] = []
    age_at, since, until = -1, None, math.inf
    moment = _TracedTime(now)
    for index, column in enumerate(columns):
        cell = column.cell(document, moment)
        cells.append(cell)
        if not (moment.is_inspected or moment.since):
            continue
        if moment.is_inspected:
            until = now
        elif age_at < 0 and len(moment.since) == 1 and cell == duration(now - moment.since[0]):
            age_at, since = index, moment.since[0]
        else:
            until = min(until, *(age_changes_at(then, now) for then in moment.since))
        moment = _TracedTime(now)
    if since is None:
        return EncodedCells(_joined_json(cells), None, b"", until)
    before, after = _joined_json(cells[:age_at]), _joined_json(cells[age_at + 1 :])
    return EncodedCells(before and before + b",", since, after and b"," + after, until)


def _joined_json(cells: Sequence[Any]) -> bytes:
    """Encodes the cells as a JSON array without its brackets."""
    return orjson.dumps(cells)[1:-1]


def age_changes_at(then: float, now: float) -> float:
    """Returns the first moment at which the age since `then` is shown differently from now."""
    seconds = math.floor(now - then)
    # The smallest unit that ages of this length show.
    unit = 1 if seconds < 600 else 60 if seconds < 8 * 3600 else 3600 if seconds < 192 * 3600 else 86400
    return then + (seconds // unit + 1) * unit
