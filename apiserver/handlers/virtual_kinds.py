"""Kinds that are spoken on a path but not kept: how their documents come in and go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs

from apiserver.admission.chain import AdmissionChain, Operation
from apiserver.brand import Brand
from apiserver.catalogue import subresources
from apiserver.catalogue.authentication import token_requests
from apiserver.deviations import Deviations
from apiserver.endpoints.api_call import Call
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.responses import send_status
from apiserver.handlers.create import write_of
from apiserver.handlers.decoding import Decoder
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.get import send_object
from apiserver.meta import table
from apiserver.meta.options import WriteOptions
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode, with_revision
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import SchemaCompiler
from apiserver.vocabulary import Document, GroupVersion

_SCALE_COLUMNS: Final = columns(
    Column(
        "Desired",
        field_cell("spec", "replicas", default=0),
        type="integer",
        description="How many pods are wanted.",
    ),
    Column(
        "Available",
        field_cell("status", "replicas", default=0),
        type="integer",
        description="How many pods there are.",
    ),
    AGE,
)


@dataclass(frozen=True, slots=True)
class VirtualKinds:
    """What it takes to read documents of kinds that are not kept, and to answer with them."""

    decoder: Decoder
    encoders: Encoders
    admission: AdmissionChain
    brand: Brand
    deviations: Deviations

    def options(self, call: Call, kind: str) -> WriteOptions:
        """kind: as CreateOptions. Raises Invalid."""
        options = WriteOptions.from_query(
            call.query, kind, self.brand.meta_group, allows_empty_dry_run=self.deviations.empty_dry_run
        )
        call.warnings += options.warnings
        return options

    async def read(self, call: Call, spoken: ServedResource, options: WriteOptions) -> Document:
        """The document in the body. Raises BadRequest and what else speaks against a body."""
        document = await self.decoder.read(
            await read_body(call),
            call.request.headers.get(hdrs.CONTENT_TYPE, ""),
            spoken,
            namespace=call.info.namespace,
            field_validation=options.field_validation,
            warnings=call.warnings,
        )
        if spoken.is_namespaced and call.info.namespace:
            document["metadata"]["namespace"] = call.info.namespace
        return document

    async def admit(self, call: Call, name: str, document: Document, options: WriteOptions) -> None:
        """Ask the plugins about a document that was posted. Raises what they raise."""
        asked = self.admission.of(write_of(call, Operation.CREATE, name, is_dry_run=options.dry_run))
        if asked is not None:
            await asked.mutate(document, None)
            await asked.validate(document, None)

    def encoder(self, call: Call, spoken: ServedResource) -> Encoder:
        """Raises NotAcceptable, BadRequest."""
        return self.encoders.of(call, spoken)


async def send_virtual(
    call: Call, encoder: Encoder, spoken: ServedResource, document: Document, status: int = HTTPStatus.OK
) -> None:
    """Answer with a document that is kept nowhere."""
    await send_object(call, encoder, virtual_object(spoken, document), status)


async def send_success(call: Call) -> None:
    """What was ordered is done."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": HTTPStatus.CREATED.value,
    }
    await send_status(call, status, HTTPStatus.CREATED)


def virtual_object(spoken: ServedResource, document: Document) -> StoredObject:
    """A document as encoders take objects; it is checked and completed first."""
    spoken.check(document)
    version = document["metadata"].get("resourceVersion")
    rest = encode(document, spoken.head)[len(spoken.head) :]
    return StoredObject("", spoken.head, with_revision(rest, int(version)) if version else rest)


def spoken_types(schemas: BuiltinSchemas, brand: Brand) -> Mapping[str, ServedResource]:
    """The kinds that subresources speak, by definition."""
    schema_compiler = SchemaCompiler(token_requests.DEFAULTS)

    def spoken(
        definition: str, group_version: GroupVersion, shown: Columns = table.DEFAULT
    ) -> ServedResource:
        kind = definition.rpartition(".")[2]
        return ServedResource(
            group_version=group_version,
            resource=f"{kind.lower()}s",
            kind=kind,
            is_namespaced=True,
            schema=partial(schemas.get, definition),
            columns=shown,
            definition=definition,
            schema_compiler=schema_compiler,
        )

    types = (
        spoken(subresources.SCALE, subresources.AUTOSCALING_V1, _SCALE_COLUMNS),
        spoken(subresources.BINDING, subresources.CORE_V1),
        spoken(subresources.EVICTION, subresources.POLICY_V1),
        spoken(subresources.TOKEN_REQUEST, GroupVersion(brand.group("authentication"), "v1")),
    )
    return {each.definition: each for each in types}
