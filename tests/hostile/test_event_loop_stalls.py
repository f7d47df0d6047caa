"""The measure of hostile tests is itself tested: small requests are no stalls, however many there are."""

from __future__ import annotations

from tests.hostile.support import longest_turn
from tests.support.api import Api


def test_small_requests_are_no_stalls(api: Api, namespace: str) -> None:
    with longest_turn(api) as turn:
        for _ in range(200):
            api.get(f"/api/v1/namespaces/{namespace}/configmaps").ok()
    assert turn.thread_cpu_s <= 0.02
