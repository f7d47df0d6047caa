"""PUT of one object, or of a subresource of it."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from aiohttp import hdrs

from apiserver.admission.chain import AdmissionChain, Operation
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.authz.attributes import AuthorizationChain
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.bodies import is_large, read_body
from apiserver.endpoints.middleware import attributes_of
from apiserver.errors import BadRequest, Conflict, NotFound
from apiserver.handlers.create import store_new, warn_of_duplicate_owners, write_of
from apiserver.handlers.decoding import Decoder
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.get import send_object
from apiserver.handlers.ownership import Ownership
from apiserver.meta.options import WriteOptions
from apiserver.registry import offload
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.strategy import UpdateStrategy
from apiserver.vocabulary import Document


def update_handler(
    registry: Registry,
    encoders: Encoders,
    decoder: Decoder,
    brand: Brand,
    lifecycle: NamespaceLifecycle,
    admission: AdmissionChain,
    authorization: AuthorizationChain,
    deviations: Deviations,
    ownership: Ownership,
) -> Handler:
    """Rows A03, I07, L01, L02. An absent object is created where its type allows that."""

    async def update(call: Call) -> None:
        resource, info = call.resource, call.info
        assert resource is not None
        encoder = encoders.of(call)
        options = WriteOptions.from_query(
            call.query, "UpdateOptions", brand.meta_group, allows_empty_dry_run=deviations.empty_dry_run
        )
        call.warnings += options.warnings
        body, content_type = await read_body(call), call.request.headers.get(hdrs.CONTENT_TYPE, "")
        large = is_large(body, content_type)
        if large:
            resource.compile()

        def decode() -> Document:
            document = decoder.object(
                body,
                content_type,
                resource,
                namespace=info.namespace,
                field_validation=options.field_validation,
                warnings=call.warnings,
            )
            require_name(document, info.name)
            warn_of_duplicate_owners(call, document)
            return document

        track = ownership.tracker(call, options)
        first: list[Document] = [await offload.run(large, decode)]  # checked before anything is looked up
        asked = admission.of(write_of(call, Operation.UPDATE, info.name, is_dry_run=options.dry_run))
        try:
            updated = await registry.update(
                resource,
                info.namespace,
                info.name,
                # The first try takes what is decoded already; another needs a document of its own.
                lambda _: first.pop() if first else decode(),
                options,
                strategy=update_rules(resource, info.subresource),
                checks_uid=True,
                user=call.user,
                warnings=call.warnings,
                mutate=asked.mutate if asked else None,
                admit=asked.validate if asked else None,
                track=track,
                is_large=large,
            )
        except NotFound:
            if not resource.strategy.allows_create_on_update or info.subresource:
                raise
            authorization.require(attributes_of(call, "create"))
            document = await offload.run(large, decode)
            if uid := document["metadata"].get("uid"):
                raise Conflict(
                    resource.group_resource,
                    info.name,
                    f"Precondition failed: UID in precondition: {uid}, UID in object meta: ",
                ) from None
            call.info = replace(info, verb="create")  # which is what metrics are to call it
            created = await store_new(
                *(registry, lifecycle, admission, call, resource, document, options),
                track=track,
                is_large=large,
            )
            await send_object(call, encoder, created, HTTPStatus.CREATED)
            return
        await send_object(call, encoder, updated)

    return update


def update_rules(resource: ServedResource, subresource: str) -> UpdateStrategy | None:
    """The rules of the subresource that is written, or None for the object itself."""
    return resource.subresources[subresource].update if subresource else None


def require_name(document: Document, name: str) -> None:
    """The name in the body is the one in the path. Raises BadRequest."""
    found = document["metadata"].get("name")
    if not found:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if found != name:
        raise BadRequest(f"the name of the object ({found}) does not match the name on the URL ({name})")
