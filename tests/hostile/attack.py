"""What an attack is, and what attackers are given to write one."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from tests.hostile.connection import Connection, request
from tests.hostile.site import ADMIN, ATTACKER_ADDRESS, PROBE_ADDRESS, Site, tls_context

CONNECTING_MAX: Final = 64
PREPARING_MAX: Final = 8
# What a connection raises that the server closes, whenever it does.
BROKEN: Final = (OSError, ssl.SSLError, EOFError, asyncio.LimitOverrunError, ValueError)
# How long the attacker pauses whose connection was closed; a client that never pauses measures the attacker.
AFTER_BROKEN_S: Final = 0.05


class NotPrepared(Exception):
    """The server refused something that an attack needs."""


class Session:
    """Requests of one user on one connection, which is opened anew after it was closed."""

    def __init__(self, attacker: Attacker, user: str) -> None:
        self._attacker, self.user = attacker, user
        self._connection: Connection | None = None

    async def ask(self, method: str, path: str, body: object = None, **options: object) -> tuple[int, bytes]:
        """Send a request and read its answer: status and body. A connection that broke has status 0."""
        return await self.send(request(method, path, self.user, body, **options))  # type: ignore[arg-type]

    async def send(self, data: bytes) -> tuple[int, bytes]:
        """Send a whole request as bytes and read its answer."""
        try:
            if self._connection is None:
                self._connection = await self._attacker.connect()
            await self._connection.send(data)
            status, body = await self._connection.answer()
        except BROKEN:
            self._attacker.answers["closed"] += 1
            self.close()
            await asyncio.sleep(AFTER_BROKEN_S)
            return 0, b""
        self._attacker.answers[str(status)] += 1
        return status, body

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Attacker:
    """One attacking process.

    number: which of the attack's processes it is. answers: how often each status came, and how many
    connections the server closed.
    """

    def __init__(self, site: Site, number: int, *, address: str = "") -> None:
        self.site, self.number = site, number
        self.answers: Counter[str] = Counter()
        self._address = address or ATTACKER_ADDRESS.format(number + 1)
        self._tls = tls_context()
        self._connecting = asyncio.Semaphore(CONNECTING_MAX)

    def times(self, count: int) -> int:
        """The number of things that is `count` at scale 1."""
        return count * self.site.scale

    async def connect(self, *, small_window: bool = False, plain: bool = False) -> Connection:
        """Open a connection, and do the TLS handshake unless it is to be plain."""
        async with self._connecting:
            return await Connection.open(
                self.site, self._address, None if plain else self._tls, small_window=small_window
            )

    def session(self, user: str) -> Session:
        return Session(self, user)

    async def at_once(self, count: int, work: Callable[[int], Awaitable[None]]) -> None:
        """Run `work` so many times at once, with the numbers from 0, and count those whose connection
        broke."""

        async def one(number: int) -> None:
            try:
                await work(number)
            except BROKEN:
                self.answers["closed"] += 1

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(number))

    async def forever(self, count: int, user: str, work: Callable[[Session], Awaitable[object]]) -> None:
        """Run `work` again and again, in so many sessions of `user` at once."""

        async def one(_: int) -> None:
            session = self.session(user)
            while True:
                await work(session)

        await self.at_once(count, one)

    async def hold(self, count: int, data: bytes, *, user_reads: bool = False) -> None:
        """Open so many connections, send `data` on each, and keep them open without reading.

        user_reads: read what comes, if anything does, instead.
        """

        async def one(_: int) -> None:
            connection = await self.connect(small_window=not user_reads)
            if not user_reads:
                connection.stop_reading()
            await connection.send(data)
            self.answers["held"] += 1
            if user_reads:
                status, _body = await connection.answer()
                self.answers[str(status)] += 1
            await asyncio.Event().wait()

        await self.at_once(count, one)


class Stage:
    """Where an attack is prepared: an administrator's requests, and a stack for what has to be closed."""

    def __init__(self, site: Site, stack: AsyncExitStack) -> None:
        self.site, self.stack = site, stack
        self._admin = Attacker(site, 0, address=PROBE_ADDRESS)

    def times(self, count: int) -> int:
        return self._admin.times(count)

    async def make(self, *requests: tuple[str, object]) -> None:
        """Post documents to paths, one after the other. Raises NotPrepared."""
        await self._post(requests, 1)

    async def make_many(self, requests: Iterable[tuple[str, object]]) -> None:
        """As `make`, but in any order."""
        await self._post(requests, PREPARING_MAX)

    async def _post(self, requests: Iterable[tuple[str, object]], at_once: int) -> None:
        remaining = iter(requests)

        async def post() -> None:
            async with self.admin() as session:
                for path, document in remaining:
                    status, body = await session.ask("POST", path, document)
                    if status != HTTPStatus.CREATED:
                        raise NotPrepared(f"POST {path}: {status} {body[:500]!r}")

        await asyncio.gather(*(post() for _ in range(at_once)))

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Session]:
        session = self._admin.session(ADMIN)
        try:
            yield session
        finally:
            session.close()


# Gets a directory, and a stack for what has to be closed.
Before = Callable[[Path, ExitStack], tuple[str, ...]]
Prepare = Callable[[Stage], Awaitable[None]]
Run = Callable[[Attacker], Coroutine[None, None, None]]


@dataclass(frozen=True)
class Attack:
    """An attack.

    finding: what it is aimed at. processes: how many attack at once. prepare: called before anything is
    measured. run: what each process does until it is cancelled; it may end earlier. seconds_min: how long it
    needs to be in full force. flags: what the server has to be started with. before: starts what has to be
    there before the server, and returns more flags.
    """

    name: str
    finding: str
    run: Run
    prepare: Prepare | None = None
    processes: int = 1
    seconds_min: float = 0.0
    flags: tuple[str, ...] = ()
    before: Before | None = None

    @property
    def description(self) -> str:
        return (self.run.__doc__ or "").strip()


ATTACKS: dict[str, Attack] = {}


WITH_CBOR: Final = ("--feature-gates=CBORServingAndStorage=true",)


def attack(
    finding: str,
    *,
    prepare: Prepare | None = None,
    processes: int = 1,
    seconds_min: float = 0.0,
    flags: tuple[str, ...] = (),
    before: Before | None = None,
) -> Callable[[Run], Run]:
    """Registers a function as an attack, under its name."""

    def register(run: Run) -> Run:
        name = run.__name__.replace("_", " ")
        assert name not in ATTACKS
        ATTACKS[name] = Attack(name, finding, run, prepare, processes, seconds_min, flags, before)
        return run

    return register
