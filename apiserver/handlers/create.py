"""POST on a collection."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import hdrs

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.call import Call, Handler
from apiserver.handlers.decoding import Decoder
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.get import send_object
from apiserver.meta import object_meta
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document


def create_handler(
    registry: Registry,
    encoders: Encoders,
    decoder: Decoder,
    brand: Brand,
    lifecycle: NamespaceLifecycle,
    deviations: Deviations,
) -> Handler:
    """Rows A09-A16, B01-B14, I05."""

    async def create(call: Call) -> None:
        resource, namespace = call.resource, call.info.namespace
        assert resource is not None
        encoder = encoders.of(call)
        options = WriteOptions.from_query(
            call.query, "CreateOptions", brand.meta_group, takes_bare_dry_run=deviations.bare_dry_run
        )
        call.warnings += options.warnings
        document = decoder.object(
            await read_body(call),
            call.request.headers.get(hdrs.CONTENT_TYPE, ""),
            resource,
            namespace=namespace,
            field_validation=options.field_validation,
            warnings=call.warnings,
        )
        created = await store_new(registry, lifecycle, call, resource, document, options)
        await send_object(call, encoder, created, HTTPStatus.CREATED)

    return create


async def store_new(
    registry: Registry,
    lifecycle: NamespaceLifecycle,
    call: Call,
    resource: ServedResource,
    document: Document,
    options: WriteOptions,
) -> StoredObject:
    """Create the object in a document; also for a PUT of what is absent."""
    namespace = call.info.namespace
    warn_of_duplicate_owners(call, document)
    guard = await lifecycle.check_create(resource, namespace, document["metadata"].get("name", ""))
    return await registry.create(resource, namespace, document, options, guard, warnings=call.warnings)


def warn_of_duplicate_owners(call: Call, document: Document) -> None:
    """Repeated owner references are dropped, and the client is told."""
    if repeated := object_meta.merge_duplicate_owners(document["metadata"]):
        call.warnings.append(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in "
            "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
            f"UID(s) observed: {', '.join(repeated)}"
        )
