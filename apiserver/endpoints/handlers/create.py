"""Handles POST on a collection, and creates objects for PUT and apply."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.handlers.audit_bodies import record_object
from apiserver.endpoints.handlers.decoding import Decoder
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.write_requests import WriteRequests, proposed_object_of
from apiserver.endpoints.responses import send_object
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import ApiError
from apiserver.meta.options import WriteOptions
from apiserver.registry.object_access import ObjectAccess
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject


def create_handler(
    encoders: Encoders, decoder: Decoder, requests: WriteRequests, creator: Creator
) -> Handler:
    """Returns a handler that creates the object in a body (rows A09-A16, B01-B14, I05)."""

    async def create(call: ApiCall) -> None:
        resource, namespace = call.resource, call.info.namespace
        encoder = encoders.for_call(call)
        options = requests.options(call, "CreateOptions")
        body = await read_body(call)
        decoded = await decoder.decode_offloaded(
            call.offload, body, resource, namespace, options.field_validation
        )
        call.warnings += decoded.warnings
        if call.audit is not None:
            await record_object(call, call.audit, body, decoded.document)
        propose = partial(proposed_object_of, decoded.document, (), decoded.emptied)
        is_small = body.size is SizeClass.SMALL
        proposed = propose() if is_small else await call.offload.run_begun(body.size, propose)
        created = await creator.create(call, proposed, options, body.size)
        await send_object(call, encoder, created, HTTPStatus.CREATED)

    return create


class Creator:
    """Creates the object of a POST, or of a PUT or an apply if it is absent."""

    def __init__(
        self, registry: ObjectAccess, lifecycle: NamespaceLifecycle, requests: WriteRequests
    ) -> None:
        self._registry = registry
        self._lifecycle = lifecycle
        self._requests = requests

    async def create(
        self, call: ApiCall, proposed: ProposedObject, options: WriteOptions, size: SizeClass
    ) -> StoredObject:
        """Create an object. size: that of the body.

        Raises Invalid, AlreadyExists, and the errors of admission and `lifecycle`.
        """
        name = proposed.document["metadata"].get("name", "")
        try:
            guard = await self._lifecycle.check_create(
                call.resource, call.info.namespace, name, may_provision=not options.dry_run
            )
        except ApiError as refused:
            refused.add_warnings(proposed.warnings)
            raise
        request = self._requests.create(call, name, options, size, guard)
        created = await self._registry.create(request, proposed)
        call.warnings += created.warnings
        return created.found
