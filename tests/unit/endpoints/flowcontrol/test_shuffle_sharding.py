"""Hands of queues: all cards differ, each comes up, and few flows share all of theirs."""

from __future__ import annotations

from collections import Counter

import pytest

from apiserver.endpoints.flowcontrol.flow_control import deal, flow_hash


@pytest.mark.parametrize(("queues", "hand_size"), [(1, 1), (4, 4), (64, 6), (128, 6), (10_000_000, 2)])
def test_a_hand_has_so_many_different_queues(queues: int, hand_size: int) -> None:
    for number in range(200):
        hand = deal(flow_hash("schema", f"user-{number}"), queues, hand_size)
        assert len(set(hand)) == hand_size
        assert all(0 <= card < queues for card in hand)


def test_each_queue_is_dealt_about_as_often() -> None:
    dealt = Counter(card for number in range(4_000) for card in deal(flow_hash("s", f"u{number}"), 64, 6))
    assert len(dealt) == 64
    assert max(dealt.values()) < 2 * min(dealt.values())


def test_a_greedy_flow_does_not_fill_the_hands_of_others() -> None:
    greedy = {*deal(flow_hash("s", "greedy"), 128, 6)}
    covered = sum(greedy.issuperset(deal(flow_hash("s", f"u{number}"), 128, 6)) for number in range(10_000))
    assert covered == 0


def test_flows_of_different_schemas_differ() -> None:
    assert len({flow_hash(schema, name) for schema in ("a", "b") for name in ("", "a", "\udce9")}) == 6


# As kube-apiserver deals them.
DEALT = {(0, 3, 3): (0, 1, 2), (5, 3, 2): (2, 1), (128 * 127 - 1, 128, 2): (127, 126)}


@pytest.mark.parametrize(("arguments", "hand"), DEALT.items())
def test_dealing(arguments: tuple[int, int, int], hand: tuple[int, ...]) -> None:
    assert deal(*arguments) == hand
