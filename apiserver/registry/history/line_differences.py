"""Compares the lines of two texts, as `diff --unified` does, in a time that is nearly linear.

The time that `difflib` takes grows with the square of the number of lines, or with its cube, and clients
choose the lines of objects. Here lines are matched as in Bram Cohen's patience diff: those that both texts
contain once, in the longest sequence that has the same order in both, and then the lines between them
likewise.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# How often the lines between matched ones are matched again: each time takes as long as the first one, and
# what is left in objects after this is lines that have nothing in common.
ROUNDS_MAX: Final = 8
_CONTEXT_LINES: Final = 3


class _Part(NamedTuple):
    """The lines of two texts, from `start` up to `end` in each."""

    start: int
    end: int
    other_start: int
    other_end: int


class _Matcher(difflib.SequenceMatcher[str]):
    """Groups matched lines into hunks. It matches lines in its own way."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__(None, before, after, autojunk=False)
        self._texts = before, after

    def get_matching_blocks(self) -> list[difflib.Match]:
        before, after = self._texts
        whole = _Part(0, len(before), 0, len(after))
        pairs = [*_matches(before, after, whole, ROUNDS_MAX), (whole.end, whole.other_end)]
        blocks: list[difflib.Match] = []
        for at, other_at in pairs:
            last = blocks[-1] if blocks else None
            is_end = at == whole.end and other_at == whole.other_end
            if last is not None and not is_end and (last.a + last.size, last.b + last.size) == (at, other_at):
                blocks[-1] = difflib.Match(last.a, last.b, last.size + 1)
            else:
                blocks.append(difflib.Match(at, other_at, 0 if is_end else 1))
        return blocks


def unified(before: Sequence[str], after: Sequence[str], names: tuple[str, str]) -> str:
    """Returns the differences of two texts in the unified format; empty if there are none.

    before, after: lines, each with its line break. names: of the two texts.
    """
    matcher = _Matcher(before, after)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n")
        for what, start, end, other_start, other_end in group:
            if what == "equal":
                lines += [f" {line}" for line in before[start:end]]
                continue
            lines += [f"-{line}" for line in before[start:end]]
            lines += [f"+{line}" for line in after[other_start:other_end]]
    return "".join([f"--- {names[0]}\n+++ {names[1]}\n", *lines]) if lines else ""


def _range(start: int, end: int) -> str:
    """Returns the range of a hunk as `diff` writes it: an empty one names the line before it."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"


def _matches(
    before: Sequence[str], after: Sequence[str], part: _Part, rounds: int
) -> Iterator[tuple[int, int]]:
    """Yields the numbers of the same lines in two texts, in their order."""
    start, end, other_start, other_end = part
    while start < end and other_start < other_end and before[start] == after[other_start]:
        yield start, other_start
        start, other_start = start + 1, other_start + 1
    equal = 0
    while (
        start < end - equal
        and other_start < other_end - equal
        and before[end - equal - 1] == after[other_end - equal - 1]
    ):
        equal += 1
    end, other_end = end - equal, other_end - equal
    if rounds and start < end and other_start < other_end:
        anchors = _anchors(before, after, _Part(start, end, other_start, other_end))
        for anchor in [*anchors, (end, other_end)] if anchors else ():
            yield from _matches(before, after, _Part(start, anchor[0], other_start, anchor[1]), rounds - 1)
            if anchor != (end, other_end):
                yield anchor
            start, other_start = anchor[0] + 1, anchor[1] + 1
    yield from zip(range(end, end + equal), range(other_end, other_end + equal), strict=True)


def _anchors(before: Sequence[str], after: Sequence[str], part: _Part) -> Sequence[tuple[int, int]]:
    """Returns the longest sequence of lines that both parts have once, in the same order."""
    lines = before[part.start : part.end]
    other_lines = after[part.other_start : part.other_end]
    once = {line for line, count in Counter(lines).items() if count == 1}
    once &= {line for line, count in Counter(other_lines).items() if count == 1}
    places = {line: at for at, line in enumerate(other_lines, part.other_start) if line in once}
    pairs = [(at, places[line]) for at, line in enumerate(lines, part.start) if line in once]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Returns the longest sequence of pairs in which the second number increases, too.

    pairs: in the order of their first numbers. Source: https://en.wikipedia.org/wiki/Patience_sorting
    """
    tops: list[int] = []  # the smallest second number that ends a sequence of each length
    ends: list[int] = []  # the pair that it belongs to
    before: list[int] = []  # the pair before each, in its sequence
    for at, (_, number) in enumerate(pairs):
        length = bisect_left(tops, number)
        before.append(ends[length - 1] if length else -1)
        # Replaces one, or appends.
        tops[length : length + 1] = [number]
        ends[length : length + 1] = [at]
    found: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]
