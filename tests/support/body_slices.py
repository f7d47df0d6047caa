"""The slices of bodies that are made while they are sent."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.endpoints.representation import Slice, WorkAhead


def sent_slices(slices: Iterable[Slice]) -> list[bytes]:
    """Returns those that are sent."""
    return [each for each in slices if not isinstance(each, WorkAhead)]


def sent(slices: Iterable[Slice]) -> bytes:
    return b"".join(sent_slices(slices))
