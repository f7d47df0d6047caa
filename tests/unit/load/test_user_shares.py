"""How users share a pool: nobody takes all of it, and who has nothing gets something."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from apiserver.load.user_shares import SHARE_OF_FREE, SharedPool

CAPACITY: Final = 60
USERS: Final = st.sampled_from("abcd")
AMOUNTS: Final = st.integers(1, CAPACITY + 1)


class SharedPoolMachine(RuleBasedStateMachine):
    """Users take and give back in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = SharedPool(CAPACITY)
        self.given: list[tuple[str, int]] = []

    def held(self, user: str) -> int:
        return sum(amount for holder, amount in self.given if holder == user)

    @rule(user=USERS, amount=AMOUNTS)
    def take(self, user: str, amount: int) -> None:
        free, held = self.pool.free, self.held(user)
        is_given = self.pool.take(user, amount)
        if is_given:
            self.given.append((user, amount))
            assert amount <= free
            assert not held or held + amount <= SHARE_OF_FREE * free
        elif not held:
            assert amount > free, "who has nothing gets what is there"

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        user, amount = self.given.pop(data.draw(st.integers(0, len(self.given) - 1)))
        self.pool.give_back(user, amount)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.pool.free == CAPACITY - sum(amount for _, amount in self.given) >= 0
        assert all(self.pool.held(user) == self.held(user) for user in "abcd")


TestSharedPool = SharedPoolMachine.TestCase


@given(capacity=st.integers(SHARE_OF_FREE + 1, 1000), greedy=st.integers(1, 20))
def test_greedy_users_get_equal_shares_and_leave_some(capacity: int, greedy: int) -> None:
    pool = SharedPool(capacity)
    users = [f"u{number}" for number in range(greedy)]
    takes = Counter[str]()
    while taken := [user for user in users if pool.take(user)]:
        takes.update(taken)
    share = SHARE_OF_FREE * capacity / (1 + SHARE_OF_FREE * greedy)
    assert all(abs(takes[user] - share) <= SHARE_OF_FREE + 1 for user in users if takes[user])
    if capacity > SHARE_OF_FREE * greedy + greedy:
        assert pool.take("newcomer")


def test_one_user_alone_gets_four_fifths() -> None:
    pool = SharedPool(200)
    while pool.take("a"):
        pass
    assert (pool.held("a"), pool.free) == (160, 40)


def test_a_pool_of_one_serves_one_at_a_time() -> None:
    pool = SharedPool(1)
    assert pool.take("a")
    assert not pool.take("a")
    assert not pool.take("b")
    pool.give_back("a")
    assert pool.take("b")


def test_a_pool_without_a_limit() -> None:
    pool = SharedPool(math.inf)
    assert all(pool.take("a") for _ in range(10_000))
    pool.give_back("a", 10_000)
    assert pool.held("a") == 0
