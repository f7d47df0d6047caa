"""Large objects in every form in which they can be asked for."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import WITH_CBOR, Attacker, Session, Stage, attack
from tests.hostile.site import CONFIG_MAPS, READER, WRITER, config_map

OBJECTS: Final = 24
KEYS: Final = 44_000
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
CBOR: Final = "application/cbor"
TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# The initial events, and then nothing.
WATCH_LIST: Final = (
    "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
    "&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
)


def _data() -> dict[str, str]:
    return {f"k{number}": "" for number in range(KEYS)}


async def _large(stage: Stage) -> None:
    data = _data()
    await stage.make_many((CONFIG_MAPS, config_map(f"c{n}", data)) for n in range(OBJECTS))


async def _list_as(attacker: Attacker, at_once: int, media_type: str, query: str = "") -> None:
    await attacker.forever(
        attacker.times(at_once),
        READER,
        lambda session: session.ask("GET", CONFIG_MAPS + query, headers={"Accept": media_type}),
    )


@attack("5 turns of the loop", prepare=_large)
async def pretty_lists(attacker: Attacker) -> None:
    """A pretty-printed list of 24 objects of 44,000 keys, again and again."""
    await _list_as(attacker, 1, "application/json", "?pretty=true")


@attack("5 turns of the loop", prepare=_large)
async def four_pretty_lists(attacker: Attacker) -> None:
    """Four pretty-printed lists of 24 objects of 44,000 keys at once, again and again."""
    await _list_as(attacker, 4, "application/json", "?pretty=true")


@attack("5 turns of the loop", prepare=_large)
async def four_protobuf_lists(attacker: Attacker) -> None:
    """Four lists of 24 objects of 44,000 keys as protobuf at once, again and again."""
    await _list_as(attacker, 4, PROTOBUF)


@attack("5 turns of the loop", prepare=_large, flags=WITH_CBOR)
async def four_cbor_lists(attacker: Attacker) -> None:
    """Four lists of 24 objects of 44,000 keys as CBOR at once, again and again."""
    await _list_as(attacker, 4, CBOR)


@attack("5 turns of the loop", prepare=_large)
async def four_yaml_lists(attacker: Attacker) -> None:
    """Four lists of 24 objects of 44,000 keys as YAML at once, again and again."""
    await _list_as(attacker, 4, "application/yaml")


@attack("5 turns of the loop", prepare=_large)
async def four_tables_with_objects(attacker: Attacker) -> None:
    """Four Tables of 24 objects of 44,000 keys, with the objects in their rows, again and again."""
    await _list_as(attacker, 4, TABLE, "?includeObject=Object")


@attack("5 turns of the loop", prepare=_large)
async def protobuf_watch_lists(attacker: Attacker) -> None:
    """Four watch-lists of 24 objects of 44,000 keys as protobuf at once, again and again."""
    await _list_as(attacker, 4, PROTOBUF, WATCH_LIST)


@attack("5 turns of the loop", prepare=_large, flags=WITH_CBOR)
async def cbor_watch_lists(attacker: Attacker) -> None:
    """Four watch-lists of 24 objects of 44,000 keys as CBOR at once, again and again."""
    await _list_as(attacker, 4, CBOR, WATCH_LIST)


@attack("5 turns of the loop", prepare=_large)
async def large_objects_deleted_together(attacker: Attacker) -> None:
    """24 objects of 44,000 keys are deleted as a collection, and made again."""
    data = _data()

    async def delete_and_make(session: Session) -> None:
        await session.ask("DELETE", CONFIG_MAPS)
        for number in range(OBJECTS):
            await session.ask("POST", CONFIG_MAPS, config_map(f"c{number}", data))

    await attacker.forever(attacker.times(1), WRITER, delete_and_make)


@attack("5 turns of the loop", prepare=_large)
async def large_objects_deleted_one_by_one(attacker: Attacker) -> None:
    """Objects of 44,000 keys are deleted, with a finalizer and answers in protobuf, and made again."""
    data, headers = _data(), {"Accept": PROTOBUF}

    async def delete_and_make(session: Session) -> None:
        for number in range(OBJECTS):
            name = f"c{number}"
            path = f"{CONFIG_MAPS}/{name}"
            finalized = config_map(name, data, finalizers=["example.com/f"])
            await session.ask("PUT", path, finalized, headers=headers)
            await session.ask("DELETE", path, headers=headers)
            await session.ask("PUT", path, config_map(name, data), headers=headers)
            await session.ask("POST", CONFIG_MAPS, config_map(name, data), headers=headers)

    await attacker.forever(attacker.times(2), WRITER, delete_and_make)


@attack("5 turns of the loop", prepare=_large)
async def first_labels_of_large_objects(attacker: Attacker) -> None:
    """Objects of 44,000 keys change, and are listed by their labels, as Tables and as metadata."""
    data = _data()

    async def change_and_list(session: Session) -> None:
        for number in range(0, OBJECTS, 6):
            for changed in range(number, number + 6):
                labelled = config_map(f"c{changed}", data, labels={"a": "b"})
                await session.ask("PUT", f"{CONFIG_MAPS}/c{changed}", labelled)
            await session.ask("GET", f"{CONFIG_MAPS}?labelSelector=a=c")
            await session.ask("GET", CONFIG_MAPS, headers={"Accept": TABLE})
            await session.ask("GET", CONFIG_MAPS, headers={"Accept": METADATA})

    await attacker.forever(attacker.times(1), WRITER, change_and_list)
