"""Which failure has which status: the table of errors that every client relies on. Row P03.

410 needs a store that has forgotten something: tests/server/test_resource_versions.py has it for lists (rows
K31, K35, K46), and tests/server/test_watch.py for watches (row M08).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api

CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
APPLIED: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "other"}}


@pytest.fixture
def path(api: Api, namespace: str) -> str:
    """An object `a` whose data somebody has applied; the collection's path."""
    path = CONFIGMAPS.format(namespace)
    api.apply(f"{path}/a?fieldManager=first", APPLIED | {"data": {"k": "v"}}).ok()
    return path


def stale(api: Api, path: str) -> Answer:
    """Writes what was read before somebody else wrote."""
    old: dict[str, Any] = api.get(f"{path}/a").ok()
    api.patch(f"{path}/a", {"metadata": {"labels": {"new": "er"}}}).ok()
    return api.put(f"{path}/a", old | {"data": {}})


def continued_at_a_version(api: Api, path: str) -> Answer:
    api.post(path, {"metadata": {"name": "b"}}).ok()
    token = api.get(f"{path}?limit=1").ok()["metadata"]["continue"]
    return api.get(f"{path}?continue={token}&resourceVersion=7")


FAILURES: Final[dict[str, tuple[Callable[[Api, str], Answer], int, str]]] = {
    "unknown fields under Strict (E08)": (
        lambda api, path: api.post(
            f"{path}?fieldValidation=Strict", {"metadata": {"name": "b"}, "unknown": 1}
        ),
        400,
        "BadRequest",
    ),
    "a version beside a token (K12)": (continued_at_a_version, 400, "BadRequest"),
    "a form that is not served (D17)": (
        lambda api, path: api.get(path, headers={"Accept": "text/html"}),
        406,
        "NotAcceptable",
    ),
    "a stale update (L01)": (stale, 409, "Conflict"),
    "an apply of what another owns (F10)": (
        lambda api, path: api.apply(f"{path}/a?fieldManager=second", APPLIED),
        409,
        "Conflict",
    ),
    "a version of the future (K37)": (
        lambda api, path: api.get(f"{path}?resourceVersion=999999999&resourceVersionMatch=Exact"),
        504,
        "Timeout",
    ),
}


@pytest.mark.parametrize(("fail", "status", "reason"), FAILURES.values(), ids=FAILURES)
def test_the_status_of_a_failure(
    api: Api, path: str, fail: Callable[[Api, str], Answer], status: int, reason: str
) -> None:
    answer = fail(api, path)
    assert (answer.status, answer.json["code"], answer.reason) == (status, status, reason)


def test_the_first_fatal_failure_hides_all_others(api: Api, path: str) -> None:
    """Row E10: neither the unknown field nor the name that is missing is told beside a wrong type."""
    refused = api.post(f"{path}?fieldValidation=Strict", {"metadata": {"labels": 7}, "unknown": 1})
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert "metadata.labels" in refused.message
    assert "unknown" not in refused.message
    assert "metadata.name" not in refused.message
