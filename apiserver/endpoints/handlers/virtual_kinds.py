"""Decodes and encodes documents of virtual kinds, which subresources and reviews have and which are never
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from apiserver.admission.chain import Operation, SubresourceView
from apiserver.catalogue.authentication import token_requests
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.handlers.audit_bodies import record_object
from apiserver.endpoints.handlers.decoding import Decoder
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.write_requests import WriteRequests
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.responses import send_object, send_status
from apiserver.load.size_class import SizeClass
from apiserver.meta import object_meta, table
from apiserver.meta.brand import Brand
from apiserver.meta.options import WriteOptions
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry import subresources
from apiserver.registry.served_resource import ALL_VERBS, ServedResource
from apiserver.registry.stored_object import StoredObject, encode, with_version
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import SchemaCompiler

_SCALE_COLUMNS: Final = columns(
    Column(
        "Desired", field_cell("spec", "replicas", default=0), "The number of desired pods.", type="integer"
    ),
    Column(
        "Available",
        field_cell("status", "replicas", default=0),
        "The current number of pods.",
        type="integer",
    ),
    AGE,
)


# The subresources whose documents name the object that they are about, with its uid.
# Source: k8s.io/apiserver, rest.SubresourceObjectMetaPreserver.
KEEPING_IDENTITY: Final = frozenset({"binding", "token"})


class PostedDocument(NamedTuple):
    """A document that was posted, and the encoder of its response."""

    document: Document
    options: WriteOptions
    encoder: Encoder


class VirtualKinds(NamedTuple):
    """Reads, admits and encodes documents of kinds that are not stored.

    kinds: those of subresources that have their own kind, by definition.
    """

    decoder: Decoder
    encoders: Encoders
    requests: WriteRequests
    kinds: Mapping[str, ServedResource]

    async def read_posted(self, call: ApiCall, kind: ServedResource) -> PostedDocument:
        """Returns the document in the body of a POST, and the encoder of its response.

        Raises NotAcceptable before anything is done, and the errors of `read`.
        """
        encoder = self.encoders.for_call(call, kind)
        options = self.requests.options(call, "CreateOptions")
        return PostedDocument(await self.read(call, kind, options), options, encoder)

    async def read(self, call: ApiCall, kind: ServedResource, options: WriteOptions) -> Document:
        """Returns the document in the body. Raises what `Decoder.decode` raises."""
        body, info = await read_body(call), call.info
        namespace = info.namespace
        decoded = await self.decoder.decode_offloaded(
            call.offload, body, kind, namespace, options.field_validation
        )
        call.warnings += decoded.warnings
        if call.audit is not None:
            await record_object(call, call.audit, body, decoded.document)
        if info.verb == "create" and info.subresource not in KEEPING_IDENTITY:
            object_meta.wipe_server_fields(decoded.document["metadata"])
        if kind.is_namespaced and namespace:
            decoded.document["metadata"]["namespace"] = namespace
        return decoded.document

    async def admit(
        self,
        call: ApiCall,
        kind: ServedResource,
        name: str,
        document: Document,
        options: WriteOptions,
        complete: Callable[[Document], object] | None = None,
    ) -> None:
        """Run admission plugins, mutating and validating, on a document that was posted.

        Raises their errors.

        complete: sets the fields that the client has left out, after mutation.
        """
        view = SubresourceView(kind)
        admission = self.requests.admission(call, Operation.CREATE, name, options, view)
        call.warnings += await admission.mutate(document, None)
        if complete is not None:
            complete(document)
        call.warnings += await admission.validate(document, None)


async def send_virtual(
    call: ApiCall,
    encoder: Encoder,
    kind: ServedResource,
    document: Document,
    status: int = HTTPStatus.OK,
    size: SizeClass = SizeClass.SMALL,
) -> None:
    """Send a document that is not stored as the whole response. size: of the document."""
    kind.compile()
    made = await call.offload.run_begun(size, virtual_object, kind, document)
    await send_object(call, encoder, made, status)


async def send_success(call: ApiCall) -> None:
    """Send a Status that reports that a command (a binding, an eviction) has been carried out."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": HTTPStatus.CREATED.value,
    }
    await send_status(call, status, HTTPStatus.CREATED)


def virtual_object(kind: ServedResource, document: Document) -> StoredObject:
    """Returns a document in the form that encoders take, checked and with its defaults."""
    kind.check(document)
    version = document["metadata"].get("resourceVersion")
    rest = encode(document, kind.head)[len(kind.head) :]
    return StoredObject("", kind.head, with_version(rest, version) if version else rest)


def virtual_kinds(schemas: BuiltinSchemas, brand: Brand) -> Mapping[str, ServedResource]:
    """Returns the kinds of subresources that have their own kind, by definition."""
    schema_compiler = SchemaCompiler(token_requests.DEFAULTS)

    def virtual_kind(
        definition: str,
        group_version: GroupVersion,
        shown: Columns | None = None,
        also_accepts: tuple[str, ...] = (),
    ) -> ServedResource:
        """Returns a virtual kind. shown: the columns of its table; None for a kind that is only posted."""
        kind = definition.rpartition(".")[2]
        return ServedResource(
            group_version=group_version,
            resource=f"{kind.lower()}s",
            kind=kind,
            is_namespaced=True,
            schema=partial(schemas.get, definition),
            verbs=ALL_VERBS if shown else ("create",),
            columns=shown or table.DEFAULT,
            also_accepts=also_accepts,
            definition=definition,
            schema_compiler=schema_compiler,
        )

    types = (
        virtual_kind(subresources.SCALE, subresources.AUTOSCALING_V1, _SCALE_COLUMNS),
        *(
            virtual_kind(scale, subresources.group_version_of(scale), _SCALE_COLUMNS)
            for scale in subresources.OLD_SCALES
        ),
        *(
            virtual_kind(rollback, subresources.group_version_of(rollback))
            for rollback in subresources.OLD_ROLLBACKS
        ),
        virtual_kind(subresources.BINDING, subresources.CORE_V1),
        # Clients of before 1.22 evict in the beta version, which is served for nothing else any more.
        virtual_kind(subresources.EVICTION, subresources.POLICY_V1, also_accepts=("policy/v1beta1",)),
        virtual_kind(subresources.TOKEN_REQUEST, GroupVersion(brand.group("authentication"), "v1")),
    )
    return {each.definition: each for each in types}
