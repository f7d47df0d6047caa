"""Handles server-side apply: a PATCH whose body has the desired fields (rows F04-F15, F24-F29)."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs

from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import Body, read_body
from apiserver.endpoints.handlers.apply_patcher import ApplyConversion, ApplyPatcher, NoopApplies
from apiserver.endpoints.handlers.audit_bodies import record_patch
from apiserver.endpoints.handlers.create import Creator
from apiserver.endpoints.handlers.write_requests import WriteRequests
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.endpoints.negotiation import base_type
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import AlreadyExists, NotFound
from apiserver.meta.options import WriteOptions
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.wire.media_types import APPLY_CBOR, APPLY_YAML

# An object may be deleted and created again while a body is applied to it.
ATTEMPTS_MAX: Final = 5


class Applier:
    """Applies the bodies of calls to their objects, and creates objects that are absent."""

    def __init__(
        self,
        registry: Registry,
        requests: WriteRequests,
        creator: Creator,
        authorization: AuthorizationChain,
        field_managers: FieldManagers,
        *,
        has_cbor: bool = False,
    ) -> None:
        self._registry = registry
        self._requests = requests
        self._creator = creator
        self._authorization = authorization
        self._field_managers = field_managers
        self._types = {APPLY_YAML, APPLY_CBOR} if has_cbor else {APPLY_YAML}
        self._noop_applies = NoopApplies()

    def is_apply(self, call: ApiCall) -> bool:
        """Returns whether the call's body is of a media type of server-side apply."""
        return call.is_apply or base_type(call.request.headers.get(hdrs.CONTENT_TYPE, "")) in self._types

    async def apply(
        self, call: ApiCall, conversion: ApplyConversion | None = None
    ) -> tuple[StoredObject, HTTPStatus]:
        """Returns the object as it is after the apply, and whether it is a new one.

        conversion: of a body that is not of the resource's own kind.
        """
        resource, info = call.resource, call.info
        options = self._requests.options(call, "PatchOptions", is_apply=True)
        body = await read_body(call)
        if body.size is not SizeClass.SMALL:
            resource.compile()
        if call.audit is not None:
            await record_patch(call, call.audit, body)
        patcher = ApplyPatcher(call, body, options, self._field_managers, self._noop_applies, conversion)
        current = self._registry.cache.get_cached(self._registry.key(resource, info.namespace, info.name))
        if current is None or not patcher.is_noop(current.value):
            configuration = await call.offload.run(body.size, lambda: patcher.configuration)
            call.warnings += configuration.warnings
        attempts = 0
        while True:
            attempts += 1
            try:
                return await self._update(call, patcher, options, body), HTTPStatus.OK
            except NotFound:
                if info.subresource:
                    raise
            await self._authorization.require(authorizer_attributes(call, "create"))
            try:
                return await self._create(call, patcher, options, body), HTTPStatus.CREATED
            except AlreadyExists:
                if attempts == ATTEMPTS_MAX:
                    raise

    async def _update(
        self, call: ApiCall, patcher: ApplyPatcher, options: WriteOptions, body: Body
    ) -> StoredObject:
        request = self._requests.update(
            call, options, body.size, checks_uid=True, is_apply=True, view=patcher.view
        )
        updated = await self._registry.update(request, patcher.apply_to_current)
        if updated.is_noop:
            admission = request.admission
            may_be_mutated = admission is not None and admission.may_mutate
            patcher.remember_noop(updated.found, may_be_mutated=may_be_mutated)
        call.warnings += updated.warnings
        return updated.found

    async def _create(
        self, call: ApiCall, patcher: ApplyPatcher, options: WriteOptions, body: Body
    ) -> StoredObject:
        proposed = await call.offload.run_begun(body.size, patcher.create_new_object)
        info = call.info
        call.info = replace(info, verb="create")  # for metrics
        try:
            return await self._creator.create(call, proposed, options, body.size)
        except AlreadyExists:
            call.info = info
            raise
