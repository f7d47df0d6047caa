"""Handles DELETE of one object, and reads the options of deletions."""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import Operation
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.auth.authz.attributes import Decision
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.bodies import Body, BodyParser, MalformedBody, read_body
from apiserver.endpoints.handlers.audit_bodies import record_object
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.write_requests import WriteRequests
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.endpoints.responses import send_object, send_status
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest, Forbidden, details_of
from apiserver.meta.options import DeleteOptions
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.object_access import ObjectAccess
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.compile import TypeMismatch, compile_schema
from apiserver.schema.structural import Schema
from apiserver.wire.protobuf import MessageDecoder

# The verb that is asked for beside `delete` when an object cannot be read.
UNSAFE_DELETE: Final = "unsafe-delete-ignore-read-errors"


def delete_handler(
    registry: ObjectAccess,
    encoders: Encoders,
    options_reader: DeleteOptionsReader,
    lifecycle: NamespaceLifecycle,
    requests: WriteRequests,
    authorization: AuthorizationChain,
) -> Handler:
    """Returns a handler that deletes an object (rows G01-G10).

    It responds with the object if that still exists, otherwise with a Status for most resources (G04).
    """

    async def delete(call: ApiCall) -> None:
        resource, info = call.resource, call.info
        encoder = encoders.for_call(call)
        options = await options_reader.read(call)
        lifecycle.check_delete(resource, info.name)
        if resource.strategy.delete_warning and not options.propagation:
            call.warnings.append(resource.strategy.delete_warning)
        admission = requests.admission(call, Operation.DELETE, info.name, options)
        request = DeleteRequest(resource, info.namespace, info.name, options, admission, call.user.name)
        if options.ignores_read_error:
            if call.audit is not None:
                call.audit.annotate(call.audit.keys.unsafe_delete, "")
            await _require_may_delete_unread(call, authorization)
            call.warnings += await registry.delete_unreadable(request)
            await send_status(call, _success_status(resource, info.name, ""))
            return
        deleted = await registry.delete(request)
        call.warnings += deleted.warnings
        if not deleted.is_removed or resource.strategy.returns_deleted:
            await send_object(call, encoder, deleted.found)
            return
        await send_status(call, _success_status(resource, info.name, deleted.uid))

    return delete


async def _require_may_delete_unread(call: ApiCall, authorization: AuthorizationChain) -> None:
    """Require that the caller may delete objects that cannot be read (row O07). Row O07.

    Source: k8s.io/apiserver, pkg/endpoints/handlers/delete.go, authorizeUnsafeDelete.
    """
    resource = call.resource
    verdict = await authorization.decide(authorizer_attributes(call, UNSAFE_DELETE))
    if verdict.decision is not Decision.ALLOW:
        why = f'not permitted to do "{UNSAFE_DELETE}", reason: {verdict.reason}'
        raise Forbidden.to_resource(resource.group_resource, call.info.name, why)


class DeleteOptionsReader:
    """Reads DeleteOptions from the body if there is one, otherwise from the query (row G09).

    A body replaces all options of the query, a dry run included, as in Kubernetes.
    """

    def __init__(
        self,
        brand: Brand,
        schema: Schema,
        deviations: Deviations,
        *,
        has_cbor: bool = False,
        allows_unsafe: bool = False,
    ) -> None:
        """schema: of DeleteOptions. allows_unsafe: see `DeleteOptions.from_body`."""
        self._allows_unsafe = allows_unsafe
        self._allows_empty_dry_run = deviations.empty_dry_run
        self._brand = brand
        self._check = compile_schema(schema)
        self._from_protobuf = MessageDecoder(schema)
        self._parser = BodyParser(brand, has_cbor=has_cbor)

    async def read(self, call: ApiCall) -> DeleteOptions:
        """Returns the options of a DELETE. Raises BadRequest, UnsupportedMediaType, Invalid."""
        body = await read_body(call)
        if body.data:
            document = await call.offload.run(body.size, self._decode, body)
            if call.audit is not None:
                await record_object(call, call.audit, body, document)
            options = DeleteOptions.from_body(
                document,
                self._brand.meta_group,
                allows_empty_dry_run=self._allows_empty_dry_run,
                allows_unsafe=self._allows_unsafe,
            )
        else:
            options = DeleteOptions.from_query(
                call.query,
                self._brand.meta_group,
                allows_empty_dry_run=self._allows_empty_dry_run,
                allows_unsafe=self._allows_unsafe,
            )
        call.warnings += options.warnings
        return options

    def _decode(self, body: Body) -> Document:
        try:
            document = self._parser.parse(body.data, body.content_type, self._from_protobuf).document
        except MalformedBody as error:
            raise BadRequest(str(error)) from None
        if document is None:
            document = {}  # Go's decoder leaves the options as they are where JSON has null.
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
