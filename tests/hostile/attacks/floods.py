"""Ordinary requests, but too many of them."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
from typing import Final

from tests.hostile.attack import Attacker, Session, Stage, attack
from tests.hostile.site import ATTACKED, BINDINGS, CONFIG_MAPS, CROWD, NOBODY, READER, WRITER, config_map
from tests.support.rbac import binding

MANY_OBJECTS: Final = 50_000


async def _fifty_thousand(stage: Stage) -> None:
    await stage.make_many((CONFIG_MAPS, config_map(f"c{n}", {"k": "v"})) for n in range(MANY_OBJECTS))


@attack("5 turns of the loop", prepare=_fifty_thousand)
async def lists_of_50_000_objects(attacker: Attacker) -> None:
    """Ten clients list 50,000 objects, again and again."""
    await attacker.forever(attacker.times(10), READER, lambda session: session.ask("GET", CONFIG_MAPS))


@attack("5 turns of the loop", prepare=_fifty_thousand)
async def compressed_lists_of_50_000_objects(attacker: Attacker) -> None:
    """Ten clients list 50,000 objects by a selector that they all match, compressed."""

    async def ask(session: Session) -> None:
        path = f"{CONFIG_MAPS}?labelSelector=!no-such-label,x!=y"
        await session.ask("GET", path, headers={"Accept-Encoding": "gzip"})

    await attacker.forever(attacker.times(10), READER, ask)


@attack("5 turns of the loop", prepare=_fifty_thousand)
async def lists_that_find_nothing(attacker: Attacker) -> None:
    """Ten clients look for a label that none of 50,000 objects has, in pages of one."""

    async def ask(session: Session) -> None:
        await session.ask("GET", f"{CONFIG_MAPS}?labelSelector=no-such-label&limit=1")

    await attacker.forever(attacker.times(10), READER, ask)


@attack("1 slots")
async def retries_without_pause(attacker: Attacker) -> None:
    """600 clients write, and try again at once whatever they are told."""
    numbers = itertools.count()

    async def write(session: Session) -> None:
        await session.ask("POST", CONFIG_MAPS, config_map(f"c{next(numbers)}", {"k": "x" * 1_000}))

    await attacker.forever(attacker.times(600), WRITER, write)


@attack("9 tokens")
async def bad_tokens(attacker: Attacker) -> None:
    """100 clients send tokens of 6 KB that look like signed ones, a new one each time."""

    def part(size: int) -> str:
        return base64.urlsafe_b64encode(os.urandom(size)).decode().rstrip("=")

    header = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"a"}').decode().rstrip("=")

    async def ask(session: Session) -> None:
        bad = f"{header}.{part(4_000)}.{part(256)}"
        await session.ask("GET", CONFIG_MAPS, headers={"Authorization": f"Bearer {bad}"})

    await attacker.forever(attacker.times(100), "", ask)


@attack("9 tokens")
async def guessed_logins(attacker: Attacker) -> None:
    """100 clients send login codes of 20 KB to the console that nobody has got, and bodies of many values."""
    own_page = {"Sec-Fetch-Site": "same-origin"}
    values = b'{"token":[' + b"{}," * 10_000 + b"{}]}"

    async def ask(session: Session) -> None:
        guess = base64.urlsafe_b64encode(os.urandom(15_000)).decode()
        await session.ask("POST", "/console/session", {"code": f"console-code.{guess}"}, headers=own_page)
        await session.ask("POST", "/console/session", values, headers=own_page)

    await attacker.forever(attacker.times(100), "", ask)


@attack("11 metrics")
async def labels_of_metrics(attacker: Attacker) -> None:
    """200 users ask for resources, verbs and agents that do not exist, under new names each time."""
    numbers = itertools.count()

    async def one(number: int) -> None:
        session = attacker.session(CROWD[number % len(CROWD)])
        while True:
            name = f"n{next(numbers)}"
            headers = {"User-Agent": f"{name}/1.0"}
            await session.ask("GET", f"/apis/{name}.example.com/v1/{name}?{name}={name}", headers=headers)
            await session.ask(f"X{name.upper()}", f"/api/v1/namespaces/{name}/{name}/{name}", headers=headers)

    await attacker.at_once(attacker.times(100), one)


@attack("1 slots")
async def requests_of_strangers(attacker: Attacker) -> None:
    """200 clients without a token ask for what everybody may see, and for what nobody may."""

    async def ask(session: Session) -> None:
        for path in ("/livez", "/readyz?verbose", "/version", "/api", CONFIG_MAPS):
            await session.ask("GET", path)

    await attacker.forever(attacker.times(200), "", ask)


@attack("5 turns of the loop")
async def access_reviews(attacker: Attacker) -> None:
    """100 clients ask what they may do, one by one and in whole."""
    attributes = {"namespace": ATTACKED, "verb": "get", "resource": "configmaps"}
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

    async def ask(session: Session) -> None:
        await session.ask("POST", review, {"spec": {"resourceAttributes": attributes}})
        await session.ask("POST", rules, {"spec": {"namespace": ATTACKED}})

    await attacker.forever(attacker.times(100), NOBODY, ask)


async def _many_bindings(stage: Stage) -> None:
    await stage.make_many(
        (BINDINGS, binding(f"b{n}", "reader", *(f"u{n}-{m}" for m in range(10)), kind="Role"))
        for n in range(10_000)
    )


@attack("5 turns of the loop", prepare=_many_bindings)
async def role_bindings_that_come_and_go(attacker: Attacker) -> None:
    """There are 10,000 role bindings, and more come and go, so that every request sees other permissions."""
    numbers = itertools.count()

    async def churn(session: Session) -> None:
        name = f"x{next(numbers)}"
        users = (f"{name}-{m}" for m in range(100))
        await session.ask("POST", BINDINGS, binding(name, "writer", *users, kind="Role"))
        await session.ask("DELETE", f"{BINDINGS}/{name}")

    await attacker.forever(attacker.times(20), WRITER, churn)


@attack("7 memory")
async def events_without_end(attacker: Attacker) -> None:
    """50 clients write events of 1 KB, each about another object."""
    numbers = itertools.count()
    path = f"/api/v1/namespaces/{ATTACKED}/events"

    async def write(session: Session) -> None:
        name = f"e{next(numbers)}"
        about = {"kind": "Pod", "namespace": ATTACKED, "name": name}
        await session.ask(
            "POST",
            path,
            {"metadata": {"name": name}, "involvedObject": about, "message": "x" * 1_000, "type": "Normal"},
        )

    await attacker.forever(attacker.times(50), WRITER, write)


@attack("7 memory")
async def large_objects_without_end(attacker: Attacker) -> None:
    """Eight clients replace objects of 1 MB all the time, so that the history fills."""
    filler = base64.b64encode(os.urandom(700_000)).decode()

    async def one(number: int) -> None:
        session, name = attacker.session(WRITER), f"c{number}"
        await session.ask("POST", CONFIG_MAPS, config_map(name))
        for count in itertools.count():
            await session.ask(
                "PUT", f"{CONFIG_MAPS}/{name}", config_map(name, {"k": filler, "n": str(count)})
            )

    await attacker.at_once(attacker.times(8), one)


@attack("9 small holes")
async def continue_tokens(attacker: Attacker) -> None:
    """100 clients send continue tokens, resource versions and selectors that are noise."""

    async def ask(session: Session) -> None:
        noise = base64.urlsafe_b64encode(os.urandom(3_000)).decode()
        await session.ask("GET", f"{CONFIG_MAPS}?limit=1&continue={noise}")
        await session.ask("GET", f"{CONFIG_MAPS}?labelSelector={noise}&fieldSelector={noise}")
        await session.ask("GET", f"{CONFIG_MAPS}?resourceVersion={noise}&resourceVersionMatch=Exact")
        await asyncio.sleep(0)

    await attacker.forever(attacker.times(100), READER, ask)
