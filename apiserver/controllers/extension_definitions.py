"""Applies the CustomResourceDefinitions of extensions when the server starts.

Each server does it: an apply that changes nothing writes nothing. A version in which objects may be stored
stays in its definition, even if the extension no longer has it: it is not served then, and keeps its schema.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from apiserver.custom_resources.definitions import is_deleted, versions_of
from apiserver.custom_resources.serving.definition_controller import DefinitionController, NotServed
from apiserver.meta.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Invalid,
    NotFound,
    RequestEntityTooLarge,
)
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.server_apply import ServerApply
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import WriteRequest
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.validation.documents import at
from apiserver.storage.errors import StorageError

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5


class DefinitionRefused(Exception):
    """A definition of an extension is invalid, or cannot be served; the message is one line."""


class ExtensionDefinitions:
    """Applies definitions until all are served.

    wanted: the definitions, with the names of their extensions. resource: that of definitions.
    """

    def __init__(
        self,
        wanted: Sequence[tuple[str, Mapping[str, Any]]],
        resource: ServedResource,
        registry: Registry,
        field_managers: FieldManagers,
        controller: DefinitionController,
    ) -> None:
        self._wanted, self._resource, self._registry = wanted, resource, registry
        self._field_managers, self._controller = field_managers, controller

    async def run(self, on_served: Callable[[], None]) -> None:
        """Apply all definitions. on_served: called once all are served. Raises DefinitionRefused."""
        wanted = [(extension, self._checked(extension, each)) for extension, each in self._wanted]
        _require_different(wanted)
        await self._registry.cache.wait_until_filled()
        for extension, definition in wanted:
            await self._serve(extension, definition)
        on_served()

    def _checked(self, extension: str, definition: Mapping[str, Any]) -> Document:
        """Returns a definition that has only known fields, of the right types. Raises DefinitionRefused."""
        applied: Document = orjson.loads(orjson.dumps(definition))
        checked: Document = orjson.loads(orjson.dumps(definition))  # The check adds defaults.
        try:
            unknown = self._resource.check.checked(checked).unknown
        except TypeMismatch as error:
            raise DefinitionRefused(f"{_shown(extension, applied)}: {error}") from None
        if unknown:
            raise DefinitionRefused(f'{_shown(extension, applied)}: unknown field "{unknown[0]}"')
        if not at(applied, "metadata", "name"):
            raise DefinitionRefused(f"{_shown(extension, applied)}: metadata.name: Required value")
        return applied

    async def _serve(self, extension: str, definition: Document) -> None:
        """Apply a definition, and return once it is served. Raises DefinitionRefused."""
        name, shown = definition["metadata"]["name"], _shown(extension, definition)
        while True:
            try:
                found = await self._apply(extension, name, definition)
                if not is_deleted(found.document()):
                    await self._controller.wait_until_served(name, int(found.resource_version))
                    return
                log.warning("%s is being deleted, and will be created again", shown)
            except NotServed as error:
                raise DefinitionRefused(f"{shown}: {error}") from None
            except NotFound:
                pass  # It has been deleted meanwhile.
            except (ApiError, StorageError) as error:
                if isinstance(error, Invalid | BadRequest | RequestEntityTooLarge):
                    raise DefinitionRefused(f"{shown}: {error}") from None
                log.warning("%s cannot be applied, retrying: %s", shown, error)
            await asyncio.sleep(RETRY_S)

    async def _apply(self, extension: str, name: str, definition: Document) -> StoredObject:
        """Returns the definition as it is stored. Raises ApiError, StorageError."""
        kept: list[str] = []

        def configuration(live: Document | None) -> Document:
            kept[:] = [] if live is None else [each["name"] for each in _stored_only(definition, live)]
            return definition if live is None else with_stored_versions(definition, live)

        apply = ServerApply(self._field_managers, self._resource, f"extension-{extension}", configuration)
        request = WriteRequest(resource=self._resource, namespace="", name=name)
        while True:
            try:
                written = await self._registry.update(request, apply.changed_object)
                break
            except NotFound:
                try:
                    written = await self._registry.create(request, apply.new_object())
                    break
                except AlreadyExists:
                    pass  # Another server was faster.
        if kept:
            log.warning(
                'extension "%s" no longer has the versions %s of %s: they are not served, but stay in the '
                "definition, because objects may be stored in them (status.storedVersions)",
                extension,
                ", ".join(kept),
                name,
            )
        return written.found


def with_stored_versions(definition: Document, live: Document) -> Document:
    """Returns a definition with those versions of the live one in which objects may be stored.

    If a webhook converted the live one, it stays: renaming objects of versions that differ would damage them.
    """
    kept = _stored_only(definition, live)
    if not kept:
        return definition
    spec = {**definition["spec"], "versions": [*versions_of(definition), *kept]}
    if "conversion" not in spec and at(live, "spec", "conversion", "strategy") == "Webhook":
        spec["conversion"] = live["spec"]["conversion"]
    return {**definition, "spec": spec}


def _stored_only(definition: Document, live: Document) -> Sequence[Document]:
    """Returns the versions that only the live definition has, and in which objects may be stored."""
    own = {each.get("name") for each in versions_of(definition)}
    stored = set(at(live, "status", "storedVersions") or ()) - own
    return [
        {**each, "served": False, "storage": False} for each in versions_of(live) if each["name"] in stored
    ]


def _require_different(wanted: Sequence[tuple[str, Document]]) -> None:
    first: dict[str, str] = {}
    for extension, definition in wanted:
        name = definition["metadata"]["name"]
        if name in first:
            raise DefinitionRefused(f'{_shown(extension, definition)}: extension "{first[name]}" has it, too')
        first[name] = extension


def _shown(extension: str, definition: Document) -> str:
    return f'extension "{extension}": CustomResourceDefinition {at(definition, "metadata", "name") or ""}'
