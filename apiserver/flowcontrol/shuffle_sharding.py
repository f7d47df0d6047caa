"""Which queues of a level a flow may use: a hand of them, dealt from the flow's hash.

Two flows seldom have the same hand, and hardly ever share all of it: one that fills its queues leaves most of
the others some that are empty. Source: k8s.io/apiserver, pkg/util/shufflesharding.
"""

from __future__ import annotations

import hashlib
from typing import Final

_HASH_BYTES: Final = 8


def flow_hash(schema: str, flow: str) -> int:
    """Returns the same number for a flow on every server. flow: what distinguishes it within its schema."""
    digest = hashlib.sha256(f"{schema}\0{flow}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:_HASH_BYTES], "little")


def deal(hashed: int, queues: int, hand_size: int) -> tuple[int, ...]:
    """Returns `hand_size` different numbers below `queues`, as a dealer takes cards from a deck."""
    hand: list[int] = []
    for dealt in range(hand_size):
        hashed, card = divmod(hashed, queues - dealt)
        # It is the number of a card among those that are left.
        for taken in sorted(hand):
            if card >= taken:
                card += 1
        hand.append(card)
    return tuple(hand)
