"""Handles PUT of one object, or of a subresource of it."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.handlers.audit_bodies import record_object
from apiserver.endpoints.handlers.create import Creator
from apiserver.endpoints.handlers.decoding import Decoder, require_name
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.write_requests import WriteRequests, as_new, proposed_object_of
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.endpoints.responses import send_object
from apiserver.meta.errors import Conflict, NotFound
from apiserver.registry.object_access import ObjectAccess
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject


def update_handler(
    registry: ObjectAccess,
    encoders: Encoders,
    decoder: Decoder,
    requests: WriteRequests,
    creator: Creator,
    authorization: AuthorizationChain,
) -> Handler:
    """Returns a handler that replaces an object, or creates an absent one where its type allows that.

    Rows A03, I07, L01, L02.
    """

    async def update(call: ApiCall) -> None:
        resource, info = call.resource, call.info
        encoder = encoders.for_call(call)
        options = requests.options(call, "UpdateOptions")
        body = await read_body(call)
        # Decoded first: a malformed body is refused even if there is no such object.
        decoded = await decoder.decode_offloaded(
            call.offload, body, resource, info.namespace, options.field_validation
        )
        call.warnings += decoded.warnings
        if call.audit is not None:
            await record_object(call, call.audit, body, decoded.document)
        require_name(decoded.document, info.name)
        decoded_once = [decoded]

        def object_of_body() -> ProposedObject:
            # Attempts change their document: the first takes the one that is decoded, others decode again.
            document, _, emptied = (
                decoded_once.pop()
                if decoded_once
                else decoder.decode(body, resource, info.namespace, options.field_validation)
            )
            return proposed_object_of(document, (), emptied)

        def transform(current: StoredObject) -> ProposedObject:
            return object_of_body()

        request = requests.update(call, options, body.size, checks_uid=True)
        try:
            updated = await registry.update(request, transform)
        except NotFound:
            if not resource.strategy.allows_create_on_update or info.subresource:
                raise
        else:
            call.warnings += updated.warnings
            await send_object(call, encoder, updated.found)
            return
        await authorization.require(authorizer_attributes(call, "create"))
        proposed = as_new(await call.offload.run_begun(body.size, object_of_body))
        if uid := proposed.document["metadata"].get("uid"):
            raise Conflict(
                resource.group_resource,
                info.name,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: ",
            )
        call.info = replace(info, verb="create")  # for metrics
        created = await creator.create(call, proposed, options, body.size)
        await send_object(call, encoder, created, HTTPStatus.CREATED)

    return update
