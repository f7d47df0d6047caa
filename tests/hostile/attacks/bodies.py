"""Bodies that never end, and bodies that cost more than they weigh."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.hostile.attack import Attacker, Session, Stage, attack
from tests.hostile.connection import head
from tests.hostile.site import CONFIG_MAPS, NOBODY, WRITER, config_map

# More than there are slots for writes.
SILENT: Final = 203
BODY_BYTES: Final = 3 * 1024 * 1024
JSON: Final = {"Content-Type": "application/json"}


# What everybody may post who has a token.
FOR_EVERYBODY: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _announcing(user: str, length: int, path: str = CONFIG_MAPS) -> bytes:
    return head("POST", path, user, {**JSON, "Content-Length": str(length)})


@attack("1 slots")
async def silent_bodies(attacker: Attacker) -> None:
    """203 requests of a user without roles announce a body and never send it."""
    await attacker.hold(attacker.times(SILENT), _announcing(NOBODY, 100, FOR_EVERYBODY), user_reads=True)


@attack("1 slots")
async def silent_bodies_with_rights(attacker: Attacker) -> None:
    """203 requests that may write announce a body and never send it."""
    await attacker.hold(attacker.times(SILENT), _announcing(WRITER, 100), user_reads=True)


@attack("1 slots")
async def trickled_bodies(attacker: Attacker) -> None:
    """203 requests that may write send a byte of their body each second."""

    async def one(_: int) -> None:
        connection = await attacker.connect()
        await connection.send(_announcing(WRITER, 1_000))
        attacker.answers["held"] += 1
        while True:
            await connection.send(b" ")
            await asyncio.sleep(1.0)

    await attacker.at_once(attacker.times(SILENT), one)


@attack("4 bodies in flight")
async def unfinished_bodies(attacker: Attacker) -> None:
    """200 bodies of 3 MiB are sent up to their last byte, which never comes."""
    part = b" " * 65_536

    async def one(_: int) -> None:
        connection = await attacker.connect()
        await connection.send(_announcing(WRITER, BODY_BYTES))
        for sent in range(0, BODY_BYTES, len(part)):
            await connection.send(part[: BODY_BYTES - 1 - sent])
        attacker.answers["held"] += 1
        status, _body = await connection.answer()
        attacker.answers[str(status)] += 1

    await attacker.at_once(attacker.times(200), one)


@attack("6 interpreter's lock")
async def bodies_of_empty_objects(attacker: Attacker) -> None:
    """Four bodies of 3 MB that hold nothing but a million empty objects, again and again."""
    filler = b"{}," * ((BODY_BYTES - 200) // 3)
    body = b'{"metadata":{"name":"a"},"x":[' + filler + b"{}]}"
    await attacker.forever(attacker.times(4), WRITER, lambda session: session.ask("POST", CONFIG_MAPS, body))


async def _patched(stage: Stage) -> None:
    await stage.make((CONFIG_MAPS, config_map("patched", {"k": "v"})))


@attack("5 turns of the loop", prepare=_patched)
async def patches_that_double_values(attacker: Attacker) -> None:
    """JSON patches of 11 KB whose copies make many values of few bytes."""
    operations = [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/x", "value": [[]]},
    ]
    operations.extend({"op": "copy", "from": "/x", "path": "/x/-"} for _ in range(18))
    operations.extend({"op": "copy", "from": "/x", "path": f"/y{n}"} for n in range(180))

    async def patch(session: Session) -> None:
        await session.ask("PATCH", f"{CONFIG_MAPS}/patched", operations, type="application/json-patch+json")

    await attacker.forever(attacker.times(1), WRITER, patch)
