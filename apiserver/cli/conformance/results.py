"""The results of conversations, and their counts by area."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from apiserver.cli.conformance.conversations import area_of


class Outcome(StrEnum):
    """How a conversation ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(NamedTuple):
    """The result of one conversation.

    details: why it was skipped; how the answers differ from the recorded ones. If the conversation passed,
    they differ in texts of messages alone. seconds: how long it took.
    """

    name: str
    outcome: Outcome
    details: tuple[str, ...] = ()
    seconds: float = 0.0


class Counts(NamedTuple):
    """How many conversations passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


class Summary(NamedTuple):
    """The results of a run, in the order of their names.

    server: the URL. version: what the endpoint says it is; may be empty. notes: for the reader.
    """

    server: str
    version: str
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()

    def with_outcome(self, outcome: Outcome) -> list[Result]:
        return [each for each in self.results if each.outcome is outcome]


def counts_of(results: Iterable[Result]) -> Counts:
    found = Counter(each.outcome for each in results)
    return Counts(*(found[outcome] for outcome in Outcome))


def counts_by_area(results: Iterable[Result]) -> dict[str, Counts]:
    """Returns the counts of each area, in the order of their names."""
    areas: dict[str, list[Result]] = {}
    for each in results:
        areas.setdefault(area_of(each.name), []).append(each)
    return {area: counts_of(areas[area]) for area in sorted(areas)}
