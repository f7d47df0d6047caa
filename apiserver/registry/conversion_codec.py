"""From documents to the form in which a resource keeps its objects, and back to what clients see of it.

Where that is a custom resource's conversion, it may take I/O; no other does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from apiserver.errors import BadRequest
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, TooDeep, encode, with_revision
from apiserver.vocabulary import Document

CONVERTED_AT_ONCE: Final = 50


async def value_of(resource: ServedResource, document: Document) -> bytes:
    """What is stored for a document. Raises BadRequest, and what a conversion raises."""
    try:
        if resource.keeping is not None:
            document = await resource.keeping.to_stored(document)
        return encode(document, resource.stored_head)
    except TooDeep:
        raise BadRequest("the object is nested too deeply to be stored") from None


def stored(resource: ServedResource, key: str, value: bytes, revision: int | None) -> StoredObject:
    """The object in a value of `value_of`. revision: None if it is not stored, and has none."""
    metadata_on = value[len(resource.stored_head) :]
    tail = metadata_on if revision is None else with_revision(metadata_on, revision)
    return StoredObject(key, resource.stored_head, tail)


async def shown(resource: ServedResource, found: StoredObject) -> StoredObject:
    """A stored object as clients of the resource see it."""
    view = resource.view_at_hand(found)
    return view if view is not None else (await resource.shown([found]))[0]


async def all_shown(resource: ServedResource, objects: list[StoredObject]) -> list[StoredObject]:
    """Stored objects as clients of the resource see them; others get their turns meanwhile."""
    if resource.keeping is not None:
        return await resource.keeping.show(objects)
    if resource.conversion is not None:
        return await _views(resource, objects)
    return objects


async def _views(resource: ServedResource, objects: Sequence[StoredObject]) -> list[StoredObject]:
    views = []
    for start in range(0, len(objects), CONVERTED_AT_ONCE):
        views += [resource.view(each) for each in objects[start : start + CONVERTED_AT_ONCE]]
        await asyncio.sleep(0)
    return views
