"""DELETE of one object, or of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Final

from aiohttp import hdrs

from apiserver.admission.chain import AdmissionChain, Operation
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.bodies import BodyParser, MalformedBody, is_large, read_body
from apiserver.endpoints.responses import send_status
from apiserver.errors import BadRequest, NotFound, details_of
from apiserver.handlers.create import write_of
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.get import send_object
from apiserver.handlers.list import send_list
from apiserver.meta.options import DeleteOptions, ListOptions
from apiserver.registry import offload
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.schema.compile import TypeMismatch, Walk
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document
from apiserver.wire.protobuf import MessageDecoder

# Objects of a collection that are deleted at the same time.
WORKERS: Final = 16


def delete_handler(
    registry: Registry,
    encoders: Encoders,
    options_reader: DeleteOptionsReader,
    lifecycle: NamespaceLifecycle,
    admission: AdmissionChain,
) -> Handler:
    """Rows G01-G10. Answers with the object if it is still there, else mostly with a Status (G04)."""

    async def delete(call: Call) -> None:
        resource, info = call.resource, call.info
        assert resource is not None
        encoder = encoders.of(call)
        options = await options_reader.read(call)
        lifecycle.check_delete(resource, info.name)
        if resource.strategy.delete_warning and not options.propagation:
            call.warnings.append(resource.strategy.delete_warning)
        asked = admission.of(write_of(call, Operation.DELETE, info.name, is_dry_run=options.dry_run))
        deleted = await registry.delete(
            resource, info.namespace, info.name, options, admit=asked.validate if asked else None
        )
        if not deleted.is_removed or resource.strategy.returns_deleted:
            await send_object(call, encoder, deleted.found)
            return
        await send_status(call, _success_status(resource, info.name, deleted.uid))

    return delete


def delete_collection_handler(
    registry: Registry,
    encoders: Encoders,
    options_reader: DeleteOptionsReader,
    brand: Brand,
    admission: AdmissionChain,
) -> Handler:
    """Row G16: delete each object that a list would show, and answer with that list."""

    async def delete_collection(call: Call) -> None:
        resource, namespace = call.resource, call.info.namespace
        assert resource is not None
        encoder = encoders.of(call)
        listed = ListOptions.for_list(call.query, resource.known_fields, brand.meta_group)
        options = await options_reader.read(call)
        found = await registry.list(resource, namespace, listed)
        names = iter([each.key.rpartition("/")[2] for each in found.objects])

        async def work() -> None:
            for name in names:
                asked = admission.of(write_of(call, Operation.DELETE, name, is_dry_run=options.dry_run))
                admit = asked.validate if asked else None
                try:
                    await registry.delete(resource, namespace, name, options, admit=admit)
                except NotFound:
                    continue  # Somebody else was faster.

        await _all(work() for _ in range(min(WORKERS, len(found.objects))))
        await send_list(call, encoder, found)

    return delete_collection


async def _all(workers: Iterable[Coroutine[None, None, None]]) -> None:
    """Run until all are done, or the first fails; then raise what it raised."""
    tasks = [asyncio.ensure_future(worker) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class DeleteOptionsReader:
    """Gets DeleteOptions from the body if there is one, else from the query (row G09)."""

    def __init__(
        self, brand: Brand, schema: Schema, deviations: Deviations, *, has_cbor: bool = False
    ) -> None:
        """schema: of DeleteOptions."""
        self._allows_empty_dry_run = deviations.empty_dry_run
        self._brand = brand
        self._check = Walk(schema)
        self._from_protobuf = MessageDecoder(schema)
        self._parser = BodyParser(brand, has_cbor=has_cbor)

    async def read(self, call: Call) -> DeleteOptions:
        """Raises BadRequest, UnsupportedMediaType, Invalid."""
        body = await read_body(call)
        if body:
            content_type = call.request.headers.get(hdrs.CONTENT_TYPE, "")
            document = await offload.run(is_large(body, content_type), self._decode, body, content_type)
            options = DeleteOptions.from_body(
                document, self._brand.meta_group, allows_empty_dry_run=self._allows_empty_dry_run
            )
        else:
            options = DeleteOptions.from_query(
                call.query, self._brand.meta_group, allows_empty_dry_run=self._allows_empty_dry_run
            )
        call.warnings += options.warnings
        return options

    def _decode(self, body: bytes, content_type: str) -> Document:
        try:
            document = self._parser.parse(body, content_type, self._from_protobuf).document
        except MalformedBody as error:
            raise BadRequest(str(error)) from None
        if not isinstance(document, dict):
            raise BadRequest("couldn't get version/kind; json parse error: the body is not an object")
        if (document.get("kind") or "DeleteOptions") != "DeleteOptions":
            kind, version = document["kind"], document.get("apiVersion", "")
            raise BadRequest(f'no kind "{kind}" is registered for version "{version}"')
        try:
            self._check(document)
        except TypeMismatch as mismatch:
            raise BadRequest(str(mismatch)) from None
        return document


def _success_status(resource: ServedResource, name: str, uid: str) -> Document:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details_of(resource.group_resource, name, uid),
    }
