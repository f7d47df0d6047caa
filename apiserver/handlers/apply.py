"""Server-side apply: a PATCH that says what its sender wants of an object. Rows F04-F15, F24-F29."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs

from apiserver.admission.chain import AdmissionChain, Operation
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.authz.attributes import AuthorizationChain
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints import bodies
from apiserver.endpoints.api_call import Call
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.middleware import attributes_of
from apiserver.endpoints.negotiation import base_type
from apiserver.errors import AlreadyExists, NotFound
from apiserver.handlers.apply_bodies import APPLY, APPLY_CBOR, looks_like_json
from apiserver.handlers.apply_patcher import ApplyWrite, Said
from apiserver.handlers.create import store_new, write_of
from apiserver.handlers.ownership import Ownership
from apiserver.handlers.settled import Settled
from apiserver.handlers.update import update_rules
from apiserver.meta.options import WriteOptions
from apiserver.registry import offload
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document

# An object may come and go while it is applied.
ATTEMPTS_MAX: Final = 5


class Applier:
    """Applies bodies to objects."""

    def __init__(
        self,
        registry: Registry,
        brand: Brand,
        lifecycle: NamespaceLifecycle,
        admission: AdmissionChain,
        authorization: AuthorizationChain,
        deviations: Deviations,
        ownership: Ownership,
        *,
        has_cbor: bool = False,
    ) -> None:
        self._registry = registry
        self._brand = brand
        self._lifecycle = lifecycle
        self._admission = admission
        self._authorization = authorization
        self._deviations = deviations
        self._ownership = ownership
        self._types = {APPLY, APPLY_CBOR} if has_cbor else {APPLY}
        self._settled = Settled()

    def is_apply(self, call: Call) -> bool:
        return base_type(call.request.headers.get(hdrs.CONTENT_TYPE, "")) in self._types

    async def apply(
        self,
        call: Call,
        *,
        speaks: ServedResource | None = None,
        part: Callable[[Document], Document] | None = None,
        check_object: Callable[[Document], object] | None = None,
    ) -> tuple[StoredObject, HTTPStatus]:
        """The object as it is after the apply, and whether it is a new one.

        speaks: what the body is, if it is not of the resource's kind; part: makes of it a part of the object.
        check_whole: raises for an object that must not become so.
        """
        resource, info = call.resource, call.info
        assert resource is not None
        options = WriteOptions.from_query(
            call.query,
            "PatchOptions",
            self._brand.meta_group,
            allows_empty_dry_run=self._deviations.empty_dry_run,
            is_apply=True,
        )
        call.warnings += options.warnings
        body = await read_body(call)
        content_type = base_type(call.request.headers.get(hdrs.CONTENT_TYPE, ""))
        large = len(body) > offload.LARGE_BYTES
        if large:
            resource.compile()
        said = Said(body, content_type, speaks or resource, part, check_object)
        write = ApplyWrite(call, resource, self._ownership, options, said, self._settled)
        current = self._registry.cache.get_cached(self._registry.key(resource, info.namespace, info.name))
        if current is None or not write.is_settled(current.value):
            is_slow = large or (len(body) > bodies.YAML_LARGE_BYTES and not looks_like_json(body))
            await offload.run(is_slow, write.read)
        attempts = 0
        while True:
            attempts += 1
            try:
                updated = await self._update(call, resource, write, options, large)
                write.remember(updated)
                return updated, HTTPStatus.OK
            except NotFound:
                if info.subresource:
                    raise
            self._authorization.require(attributes_of(call, "create"))
            try:
                return await self._create(call, resource, write, options, large), HTTPStatus.CREATED
            except AlreadyExists:
                if attempts == ATTEMPTS_MAX:
                    raise

    async def _update(
        self, call: Call, resource: ServedResource, write: ApplyWrite, options: WriteOptions, large: bool
    ) -> StoredObject:
        info = call.info
        asked = self._admission.of(write_of(call, Operation.UPDATE, info.name, is_dry_run=options.dry_run))
        return await self._registry.update(
            resource,
            info.namespace,
            info.name,
            write.onto,
            options,
            strategy=update_rules(resource, info.subresource),
            checks_uid=True,
            user=call.user,
            warnings=call.warnings,
            mutate=asked.mutate if asked else None,
            admit=asked.validate if asked else None,
            track=write.track,
            is_large=large,
        )

    async def _create(
        self, call: Call, resource: ServedResource, write: ApplyWrite, options: WriteOptions, large: bool
    ) -> StoredObject:
        document = await offload.run(large, write.anew)
        info = call.info
        call.info = replace(info, verb="create")  # which is what metrics are to call it
        try:
            return await store_new(
                *(self._registry, self._lifecycle, self._admission, call, resource, document, options),
                track=write.track,
                is_large=large,
            )
        except AlreadyExists:
            call.info = info
            raise
