"""POST on a collection."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import hdrs

from apiserver.admission.chain import AdmissionChain, Operation, Write
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.bodies import is_large, read_body
from apiserver.handlers.decoding import Decoder
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.get import send_object
from apiserver.handlers.ownership import Ownership
from apiserver.meta import object_meta
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_stages import Track
from apiserver.vocabulary import Document


def create_handler(
    registry: Registry,
    encoders: Encoders,
    decoder: Decoder,
    brand: Brand,
    lifecycle: NamespaceLifecycle,
    admission: AdmissionChain,
    deviations: Deviations,
    ownership: Ownership,
) -> Handler:
    """Rows A09-A16, B01-B14, I05."""

    async def create(call: Call) -> None:
        resource, namespace = call.resource, call.info.namespace
        assert resource is not None
        encoder = encoders.of(call)
        options = WriteOptions.from_query(
            call.query, "CreateOptions", brand.meta_group, allows_empty_dry_run=deviations.empty_dry_run
        )
        call.warnings += options.warnings
        body, content_type = await read_body(call), call.request.headers.get(hdrs.CONTENT_TYPE, "")
        document = await decoder.read(
            body,
            content_type,
            resource,
            namespace=namespace,
            field_validation=options.field_validation,
            warnings=call.warnings,
        )
        created = await store_new(
            registry,
            lifecycle,
            admission,
            call,
            resource,
            document,
            options,
            track=ownership.tracker(call, options),
            is_large=is_large(body, content_type),
        )
        await send_object(call, encoder, created, HTTPStatus.CREATED)

    return create


async def store_new(
    registry: Registry,
    lifecycle: NamespaceLifecycle,
    admission: AdmissionChain,
    call: Call,
    resource: ServedResource,
    document: Document,
    options: WriteOptions,
    *,
    track: Track,
    is_large: bool,
) -> StoredObject:
    """Create the object in a document; also for a PUT of what is absent. is_large: its body was."""
    namespace = call.info.namespace
    warn_of_duplicate_owners(call, document)
    name = document["metadata"].get("name", "")
    guard = await lifecycle.check_create(resource, namespace, name)
    asked = admission.of(write_of(call, Operation.CREATE, name, is_dry_run=options.dry_run))
    return await registry.create(
        resource,
        namespace,
        document,
        options,
        guard,
        user=call.user,
        warnings=call.warnings,
        mutate=asked.mutate if asked else None,
        admit=asked.validate if asked else None,
        track=track,
        is_large=is_large,
    )


def write_of(call: Call, operation: Operation, name: str, *, is_dry_run: bool) -> Write:
    """What a call is about to do, for admission."""
    assert call.resource is not None
    assert call.user is not None
    return Write(
        operation,
        call.resource,
        call.info.namespace if call.resource.is_namespaced else "",
        name,
        call.user,
        call.warnings,
        call.info.subresource,
        is_dry_run,
        call.info.name,
    )


def warn_of_duplicate_owners(call: Call, document: Document) -> None:
    """Repeated owner references are dropped, and the client is told."""
    if repeated := object_meta.remove_duplicate_owners(document["metadata"]):
        call.warnings.append(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in "
            "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
            f"UID(s) observed: {', '.join(repeated)}"
        )
