"""What clients do not take: when it is dropped, and whose is dropped first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from apiserver.load.unread_answers import (
    CONNECTION_BYTES,
    HESITANT_S,
    RATE_MIN,
    SLOW_AFTER_S,
    STALLED_S,
    UnreadAnswers,
)
from apiserver.meta.vocabulary import UserInfo

ALL_MAX: Final = 10_000_000
USER_MAX: Final = 4_000_000


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time a test lets pass."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def run_until_now(self) -> None:
        """Run what is due."""
        self.call_soon(self.stop)
        self.run_forever()


class Transport(asyncio.WriteTransport):
    def __init__(self, waiting: int) -> None:
        super().__init__()
        self.waiting, self.in_kernel, self.is_aborted = waiting, 0, False

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self.waiting + self.in_kernel if name == "unsent" else default

    def abort(self) -> None:
        self.is_aborted = True


class Client:
    def __init__(self, user: str, waiting: int) -> None:
        self.asker: UserInfo | None = UserInfo(user)
        self.held_bytes, self.is_shared, self.hesitated = 0, False, 0
        self.may_stall = False
        self.transport = Transport(waiting)

    def on_hesitation(self) -> None:
        self.hesitated += 1

    @property
    def is_dropped(self) -> bool:
        return self.transport.is_aborted


class Site:
    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.unread = UnreadAnswers(loop, all_bytes_max=ALL_MAX, user_bytes_max=USER_MAX, clock=loop.time)
        self.clients: list[Client] = []

    def add(
        self, user: str = "jane", waiting: int = 100_000, *, held_bytes: int = 0, is_shared: bool = False
    ) -> Client:
        client = Client(user, waiting)
        client.held_bytes, client.is_shared = held_bytes, is_shared
        self.clients.append(client)
        self.unread.add(client, client.transport)
        return client

    def pass_s(self, seconds: float, taking: dict[Client, int] | None = None) -> None:
        """Let time pass. taking: how many bytes clients take in each second."""
        ends_at = self.loop.now + seconds
        while self.loop.now < ends_at:
            self.loop.now += 0.5
            for client, rate in (taking or {}).items():
                client.transport.waiting = max(0, client.transport.waiting - rate // 2)
            self.loop.run_until_now()
            for client in self.clients:
                if client.is_dropped:
                    self.unread.discard(client)


@pytest.fixture
def site() -> Iterator[Site]:
    loop = Loop()
    yield Site(loop)
    loop.close()


def test_an_answer_of_which_nothing_is_taken_is_dropped(site: Site) -> None:
    client = site.add()
    site.pass_s(STALLED_S - 1)
    assert not client.is_dropped
    site.pass_s(2)
    assert client.is_dropped
    assert site.unread.held_bytes == 0


def test_whatever_is_taken_resets_the_clock(site: Site) -> None:
    client = site.add(waiting=3_000_000)
    for _ in range(20):
        site.pass_s(STALLED_S - 2)
        client.transport.waiting -= 100_000
    site.pass_s(1)
    assert not client.is_dropped


def test_what_leaves_the_kernel_is_taken(site: Site) -> None:
    client = site.add()
    client.transport.in_kernel = 1_000_000
    for _ in range(3):
        site.pass_s(STALLED_S - 2)
        client.transport.in_kernel -= 200_000
    site.pass_s(1)
    assert not client.is_dropped


def test_what_another_server_sends_may_wait(site: Site) -> None:
    """As long as there is not too much of it: who looks at logs may look for minutes."""
    reader = site.add()
    reader.may_stall = True
    site.pass_s(10 * STALLED_S)
    assert not reader.is_dropped
    for _ in range(10):
        site.add(waiting=USER_MAX // 2).may_stall = True
    site.pass_s(HESITANT_S + 2)
    assert site.unread.held_bytes <= USER_MAX


RATES: Final = {
    "a byte a second": (2, True),
    "a little slower than the least": (RATE_MIN * 4 // 5, True),
    "a little faster than the least": (RATE_MIN * 6 // 5, False),
    "a phone with a bad line": (10_000, False),
}


@pytest.mark.parametrize(("rate", "is_dropped"), RATES.values(), ids=RATES)
def test_long_answers_go_on_at_a_rate(site: Site, rate: int, is_dropped: bool) -> None:
    client = site.add(waiting=3 * 1024 * 1024)
    site.pass_s(SLOW_AFTER_S - 1, taking={client: rate})
    assert not client.is_dropped
    site.pass_s(60, taking={client: rate})
    assert client.is_dropped == is_dropped


def test_a_client_that_hesitates_is_told_of(site: Site) -> None:
    slow, fast = site.add(), site.add()
    site.pass_s(HESITANT_S + 2, taking={fast: 10_000})
    assert slow.hesitated
    assert not fast.hesitated


def test_what_one_user_has_too_much_of_is_dropped_if_it_is_stalled(site: Site) -> None:
    others = [site.add("joe", 1_000_000) for _ in range(3)]
    moving = site.add("jane", 2_000_000)
    small, large, larger = (site.add("jane", size) for size in (200_000, 1_000_000, 1_200_000))
    site.pass_s(HESITANT_S + 1.5, taking={moving: 20_000})
    assert larger.is_dropped
    assert not any(each.is_dropped for each in (*others, moving, small, large))


def test_too_much_of_all_is_dropped_at_once(site: Site) -> None:
    """Of the user who has too much, the largest first; nobody else loses anything."""
    others = [site.add(f"user-{n}", 1_000_000) for n in range(3)]
    greedy = [site.add("greedy", size) for size in (1_000_000, 1_100_000, 1_200_000) * 3]
    assert site.unread.held_bytes <= ALL_MAX
    assert not any(each.is_dropped for each in others)
    assert any(each.is_dropped for each in greedy)
    assert {each.transport.waiting for each in greedy[:3] if each.is_dropped} <= {1_100_000, 1_200_000}


def test_what_clients_share_counts_nothing(site: Site) -> None:
    for _ in range(100):
        site.add(waiting=1_000_000, is_shared=True)
    assert site.unread.held_bytes == 100 * CONNECTION_BYTES


def test_what_is_held_beside_counts(site: Site) -> None:
    site.add(waiting=1000, held_bytes=300_000)
    assert site.unread.held_bytes == CONNECTION_BYTES + 301_000


def test_service_accounts_of_a_namespace_share_a_bound(site: Site) -> None:
    clients = [site.add(f"system:serviceaccount:x:a{n}", 1_000_000) for n in range(6)]
    site.pass_s(HESITANT_S + 1.5)
    assert 0 < sum(each.is_dropped for each in clients) < 6
