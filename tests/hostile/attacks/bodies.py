"""Bodies that never end, and bodies that cost more than they weigh."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.hostile.attack import WITH_CBOR, Attacker, Session, Stage, attack
from tests.hostile.connection import head
from tests.hostile.site import ATTACKED, CONFIG_MAPS, NOBODY, WRITER, config_map
from tests.support.audit import METADATA, audit_flags
from tests.support.protobuf_writer import envelope, field

# More than there are slots for writes.
SILENT: Final = 203
BODY_BYTES: Final = 3 * 1024 * 1024
JSON: Final = {"Content-Type": "application/json"}
# What everybody may post who has a token.
FOR_EVERYBODY: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
PODS: Final = f"/api/v1/namespaces/{ATTACKED}/pods"
AT_ONCE: Final = 4
OWNERS: Final = 9_000


def _announcing(user: str, length: int, path: str = CONFIG_MAPS) -> bytes:
    return head("POST", path, user, {**JSON, "Content-Length": str(length)})


# ---- that never end


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


# ---- that cost more than they weigh


async def _post_again_and_again(
    attacker: Attacker, body: bytes, media_type: str = "application/json", path: str = CONFIG_MAPS
) -> None:
    await attacker.forever(
        attacker.times(AT_ONCE), WRITER, lambda session: session.ask("POST", path, body, type=media_type)
    )


@attack("6 interpreter's lock")
async def bodies_of_empty_objects(attacker: Attacker) -> None:
    """Four bodies of 3 MB that hold nothing but a million empty objects, again and again."""
    filler = b"{}," * ((BODY_BYTES - 200) // 3)
    await _post_again_and_again(attacker, b'{"metadata":{"name":"a"},"x":[' + filler + b"{}]}")


@attack("6 interpreter's lock")
async def bodies_of_known_empty_objects(attacker: Attacker) -> None:
    """The same in a field that the schema knows, so that a million errors are found."""
    filler = b"{}," * ((BODY_BYTES - 200) // 3)
    await _post_again_and_again(
        attacker, b'{"metadata":{"name":"a"},"spec":{"containers":[' + filler + b"{}]}}", path=PODS
    )


@attack("6 interpreter's lock")
async def json_of_long_numbers(attacker: Attacker) -> None:
    """Four bodies that are one number of three million digits."""
    await _post_again_and_again(attacker, b'{"metadata":{"name":"a"},"x":' + b"9" * (BODY_BYTES - 200) + b"}")


@attack("6 interpreter's lock")
async def deeply_nested_bodies(attacker: Attacker) -> None:
    """Four bodies of a million brackets, in JSON."""
    half = (BODY_BYTES - 200) // 2
    await _post_again_and_again(attacker, b'{"metadata":{"name":"a"},"x":' + b"[" * half + b"]" * half + b"}")


@attack("6 interpreter's lock")
async def yaml_alias_bombs(attacker: Attacker) -> None:
    """Four YAML bodies whose aliases would expand to a billion values."""
    lines = ["metadata: {name: a}", "a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines.extend(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))
    await _post_again_and_again(attacker, "\n".join(lines).encode(), "application/yaml")


@attack("6 interpreter's lock")
async def large_yaml(attacker: Attacker) -> None:
    """Four YAML bodies of 3 MB with 300,000 keys."""
    keys = "".join(f"  k{n}: v\n" for n in range(250_000))
    await _post_again_and_again(
        attacker, f"metadata: {{name: a}}\ndata:\n{keys}".encode(), "application/yaml"
    )


@attack("6 interpreter's lock", flags=WITH_CBOR)
async def cbor_of_empty_maps(attacker: Attacker) -> None:
    """Four CBOR bodies of 3 MB that hold three million empty maps, a byte each."""
    count = BODY_BYTES - 200
    body = (
        b"\xd9\xd9\xf7\xa2\x48metadata\xa1\x44name\x41a\x41x\x9a" + struct.pack(">I", count) + b"\xa0" * count
    )
    await _post_again_and_again(attacker, body, "application/cbor")


@attack("6 interpreter's lock", flags=WITH_CBOR)
async def nested_cbor(attacker: Attacker) -> None:
    """Four CBOR bodies of three million nested arrays."""
    body = b"\xd9\xd9\xf7\xa1\x41x" + b"\x81" * (BODY_BYTES - 200) + b"\xa0"
    await _post_again_and_again(attacker, body, "application/cbor")


@attack("6 interpreter's lock")
async def protobuf_of_empty_messages(attacker: Attacker) -> None:
    """Four protobuf bodies of 3 MB that are a pod with 1.5 million empty containers."""
    containers = field(2, b"") * ((BODY_BYTES - 200) // 2)
    body = envelope(field(1, field(1, "a")) + field(2, containers), kind="Pod")
    await _post_again_and_again(attacker, body, "application/vnd.kubernetes.protobuf", PODS)


# ---- patches


async def _patched(stage: Stage) -> None:
    await stage.make(
        (CONFIG_MAPS, config_map("patched", {"k": "v"})),
        (CONFIG_MAPS, config_map("large", {f"k{number}": "v" for number in range(40_000)})),
    )


async def _patch(attacker: Attacker, name: str, patch: object, media_type: str) -> None:
    path = f"{CONFIG_MAPS}/{name}"
    await attacker.forever(
        attacker.times(AT_ONCE), WRITER, lambda session: session.ask("PATCH", path, patch, type=media_type)
    )


JSON_PATCH: Final = "application/json-patch+json"


@attack("5 turns of the loop", prepare=_patched)
async def patches_that_double_values(attacker: Attacker) -> None:
    """JSON patches of 11 KB whose copies make many values of few bytes."""
    operations: list[object] = [{"op": "add", "path": "/x", "value": [[]]}]
    operations.extend({"op": "copy", "from": "/x", "path": "/x/-"} for _ in range(18))
    operations.extend({"op": "copy", "from": "/x", "path": f"/y{n}"} for n in range(180))
    await _patch(attacker, "patched", operations, JSON_PATCH)


@attack("5 turns of the loop", prepare=_patched)
async def patches_that_test(attacker: Attacker) -> None:
    """JSON patches of 10,000 tests of an object of 40,000 keys, the last of which fails."""
    tests: list[object] = [{"op": "test", "path": f"/data/k{n}", "value": "v"} for n in range(9_999)]
    await _patch(attacker, "large", [*tests, {"op": "test", "path": "/x", "value": 1}], JSON_PATCH)


@attack("5 turns of the loop", prepare=_patched)
async def patches_that_compare(attacker: Attacker) -> None:
    """JSON patches that copy an object of 40,000 keys once, and compare it with the copy 9,000 times."""
    value = {f"k{number}": "v" for number in range(40_000)}
    test = {"op": "test", "path": "/data", "value": value}
    few: list[object] = [
        {"op": "remove", "path": "/data/k1"},
        {"op": "add", "path": "/data/k1", "value": "v"},
    ]
    await _patch(attacker, "large", [test, *few * 4_999], JSON_PATCH)


@attack("5 turns of the loop", prepare=_patched)
async def strategic_patches_of_many_lists(attacker: Attacker) -> None:
    """Strategic merge patches with 60,000 owner references, each of which is merged by its key."""
    owners = [{"uid": f"u{n}"} for n in range(60_000)]
    await _patch(
        attacker,
        "patched",
        {"metadata": {"ownerReferences": owners}},
        "application/strategic-merge-patch+json",
    )


# ---- apply


@attack("5 turns of the loop", prepare=_patched)
async def many_managers(attacker: Attacker) -> None:
    """Server-side applies to one object, each by a manager of its own."""
    numbers = itertools.count()

    async def one(_: int) -> None:
        session = attacker.session(WRITER)
        while True:
            number = next(numbers)
            path = f"{CONFIG_MAPS}/patched?fieldManager=m{number}&force=true"
            body = config_map("patched", {f"k{number}": "v", "shared": str(number)})
            await session.ask("PATCH", path, body, type="application/apply-patch+yaml")

    await attacker.at_once(attacker.times(AT_ONCE), one)


@attack("5 turns of the loop", prepare=_patched)
async def large_applies(attacker: Attacker) -> None:
    """Four server-side applies of 30,000 keys to one object, which force each other's fields."""
    body = config_map("patched", {f"k{number}": "v" for number in range(30_000)})
    numbers = itertools.count()

    async def one(_: int) -> None:
        session = attacker.session(WRITER)
        while True:
            number = next(numbers)
            path = f"{CONFIG_MAPS}/patched?fieldManager=m{number % 8}&force=true"
            changed = {**body, "data": {**body["data"], "k0": str(number)}}
            await session.ask("PATCH", path, changed, type="application/apply-patch+yaml")

    await attacker.at_once(attacker.times(AT_ONCE), one)


async def _make_with_owners(attacker: Attacker, *kinds: tuple[str, str]) -> None:
    owners = [
        {
            "apiVersion": api_version,
            "kind": kind,
            "name": f"o{n}",
            "uid": f"{n:08}-0000-4000-8000-000000000000",
        }
        for n, (api_version, kind) in zip(range(OWNERS), itertools.cycle(kinds), strict=False)
    ]
    numbers = itertools.count()

    async def make(session: Session) -> None:
        await session.ask("POST", CONFIG_MAPS, config_map(f"c{next(numbers)}", ownerReferences=owners))

    await attacker.forever(attacker.times(20), WRITER, make)


@attack("5 turns of the loop")
async def objects_with_many_owners(attacker: Attacker) -> None:
    """20 objects at a time with 9,000 owners each are made, none of which exists."""
    await _make_with_owners(attacker, ("v1", "ConfigMap"))


@attack("5 turns of the loop")
async def objects_with_owners_of_unknown_kinds(attacker: Attacker) -> None:
    """20 objects at a time with 9,000 owners each are made, every one of another kind that is not served."""
    await _make_with_owners(attacker, *((f"g{n}.example.com/v1", f"K{n}") for n in range(OWNERS)))


def _audited(directory: Path, stack: ExitStack) -> tuple[str, ...]:
    """Have what is sent and answered recorded, in batches."""
    bodies = METADATA.replace("Metadata", "RequestResponse")
    return (*audit_flags(directory, bodies), "--audit-log-mode=batch")


@attack("7 memory", before=_audited)
async def large_objects_that_are_recorded(attacker: Attacker) -> None:
    """Eight clients write objects of 900 KB, which the audit log has whole, twice."""
    data = {"k": base64.b64encode(os.urandom(675_000)).decode()}

    async def one(number: int) -> None:
        session, name = attacker.session(WRITER), f"c{number}"
        while True:
            status, _ = await session.ask("PUT", f"{CONFIG_MAPS}/{name}", config_map(name, data))
            if status == 404:
                await session.ask("POST", CONFIG_MAPS, config_map(name, data))

    await attacker.at_once(attacker.times(8), one)
