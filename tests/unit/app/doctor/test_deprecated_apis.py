"""Findings about deprecated APIs in use."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.app.doctor.deprecated_apis import examine
from tests.unit.app.doctor.findings import told


def row(
    user: str = "alice", count: int = 3, removed: str = "", resource: str = "endpoints"
) -> dict[str, Any]:
    api = {"group": "", "version": "v1", "resource": resource, "removedRelease": removed}
    return {**api, "user": user, "userAgent": "old/1.0", "count": count}


CALLS: Final[dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]]] = {
    "none": ([], [("OK", "no client has called a deprecated API since noon")]),
    "one, for ever": ([row()], [("NOTE", "v1 endpoints was called 3 times, by alice (old/1.0)")]),
    "one that goes soon": (
        [row(removed="1.37")],
        [
            (
                "WARNING",
                "v1 endpoints was called 3 times, by alice (old/1.0); Kubernetes 1.37 removes it",
            )
        ],
    ),
    "one that goes later": (
        [row(removed="1.40")],
        [("NOTE", "v1 endpoints was called 3 times, by alice (old/1.0); Kubernetes 1.40 removes it")],
    ),
    "many callers": (
        [row(user, 1) for user in "abcde"],
        [("NOTE", "v1 endpoints was called 5 times, by a (old/1.0), b (old/1.0), c (old/1.0) and 2 more")],
    ),
    "two APIs": (
        [row(), row(resource="others", count=1)],
        [
            ("NOTE", "v1 endpoints was called 3 times, by alice (old/1.0)"),
            ("NOTE", "v1 others was called 1 time, by alice (old/1.0)"),
        ],
    ),
}


@pytest.mark.parametrize(("rows", "found"), CALLS.values(), ids=CALLS)
def test_findings(rows: list[dict[str, Any]], found: list[tuple[str, str]]) -> None:
    assert told(examine({"release": "1.36", "since": "noon", "requests": rows})) == found
