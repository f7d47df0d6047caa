"""Provides the middleware for impersonation: requests with `Impersonate-*` headers (row O08)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias

from apiserver.auth.authn.impersonation import Headers, impersonated, service_account_of, wanted_user
from apiserver.auth.authz.attributes import ALLOW, Attributes, decided, forbidden
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.endpoints.impersonation_modes import (
    ImpersonationMode,
    ImpersonationRequest,
    LastModes,
    Requirement,
    impersonation_modes,
)
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Forbidden
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.request_filters import ImpersonationMetrics
from apiserver.storage.event_loop_turns import LateTurn

# Returns the user as whom a request is handled, and the constraint by which the caller may be that user.
ImpersonationCheck: TypeAlias = Callable[[ApiCall, UserInfo], Awaitable[tuple[UserInfo, str]]]
_LAYER: Final = "impersonation"  # as the audit log names it
_PREFIX: Final = b"impersonate-"
_PREFIX_LENGTH: Final = len(_PREFIX)
_LETTER_I: Final = ord("i")
_LOWER_CASE: Final = 0x20


def is_impersonating(headers: Headers) -> bool:
    """Returns whether there is any such header, which costs every request some 40 ns for each header."""
    for name, _ in headers:
        if (
            len(name) > _PREFIX_LENGTH
            and name[0] | _LOWER_CASE == _LETTER_I
            and name[:_PREFIX_LENGTH].lower() == _PREFIX
        ):
            return True
    return False


def impersonate(check: ImpersonationCheck) -> Middleware:
    """Replace the user by the one that the headers name, if the caller may impersonate that user.

    All later middleware and handlers see only the impersonated user.
    """

    def middleware(handle: Handler) -> Handler:
        # Not a coroutine: nearly all requests only pass through.
        def impersonating(call: ApiCall) -> Awaitable[None]:
            headers = call.request.raw_headers
            if is_impersonating(headers) and (wanted := wanted_user(headers)) is not None:
                return impersonate_user(call, wanted)
            return handle(call)

        async def impersonate_user(call: ApiCall, wanted: UserInfo) -> None:
            user, constraint = await check(call, wanted)
            call.impersonator = call.user
            call.set_user(user)
            if call.audit is not None:
                call.audit.impersonate(user, constraint)
            await handle(call)

        return impersonating

    return middleware


class ConstrainedImpersonation:
    """Authorizes impersonation by one of the modes in `impersonation_modes`."""

    def __init__(self, chain: AuthorizationChain, brand: Brand, metrics: ImpersonationMetrics) -> None:
        self._chain, self._metrics = chain, metrics
        self._modes = impersonation_modes(brand)
        self._last_modes = LastModes()

    async def __call__(self, call: ApiCall, wanted: UserInfo) -> tuple[UserInfo, str]:
        """Returns the impersonated user, and the constraint under which the caller may be that user.

        Raises Forbidden, and the errors of the authorizer chain.
        """
        began, mode = time.monotonic(), None
        try:
            mode = await self.mode_of(ImpersonationRequest(authorizer_attributes(call), wanted))
        finally:
            took = time.monotonic() - began
            self._metrics.attempted("" if mode is None else mode.name, mode is not None, took)
            if call.audit is not None:
                call.audit.took(_LAYER, took)
        return mode.impersonated(wanted), mode.constraint

    async def mode_of(self, request: ImpersonationRequest) -> ImpersonationMode:
        """Returns the first mode that the caller may use.

        Raises Forbidden, with the reason of the first mode that was tried.
        """
        last = self._last_modes.of(request.caller)
        modes = self._modes
        if last is not None:
            modes = (last, *(mode for mode in modes if mode is not last))
        refusal: Forbidden | None = None
        turn = LateTurn()
        for mode in modes:
            if not mode.applies(request):
                continue
            try:
                for requirement in mode.requirements(request):
                    await self._require(requirement, mode, turn)
            except Forbidden as error:
                refusal = refusal or error
                continue
            if mode is not last:
                self._last_modes.remember(request.caller, mode)
            return mode
        assert refusal is not None  # The legacy mode applies to everybody.
        raise refusal

    async def _require(self, requirement: Requirement, mode: ImpersonationMode, turn: LateTurn) -> None:
        """Require a permission of the caller."""
        if requirement.instead is not None and await self._problem(requirement.instead, mode) is None:
            return
        for attributes in requirement.each:
            # A client may ask for as many groups as fit into its headers.
            if turn.is_over():
                await turn.next()
            problem = await self._problem(attributes, mode)
            if problem is not None:
                raise forbidden(attributes, problem)

    async def _problem(self, attributes: Attributes, mode: ImpersonationMode) -> str | None:
        """Returns why something is not allowed; None if it is.

        A failed authorizer does not allow it, but another mode may.
        """
        began = time.monotonic()
        verdict = await decided(self._chain, attributes)
        is_allowed = verdict.decision is ALLOW
        self._metrics.authorized(mode.name, is_allowed, time.monotonic() - began)
        return None if is_allowed else ": ".join(filter(None, (verdict.error, verdict.reason)))


class LegacyImpersonation:
    """Authorizes impersonation by the verb `impersonate` alone, as releases before 1.36 do."""

    def __init__(self, chain: AuthorizationChain, brand: Brand) -> None:
        self._chain, self._reviews_group = chain, brand.group("authentication")

    async def __call__(self, call: ApiCall, wanted: UserInfo) -> tuple[UserInfo, str]:
        """Returns the impersonated user, without a constraint. Raises Forbidden, and the errors of the
        authorizer chain.
        """
        for attributes in _required_permissions(call.user, wanted, self._reviews_group):
            await self._chain.require(attributes)
        return impersonated(wanted), ""


def _required_permissions(caller: UserInfo, wanted: UserInfo, reviews_group: str) -> Iterator[Attributes]:
    """Yields the permissions that the caller must have, in the order in which they are checked."""

    def permission(
        group: str, resource: str, name: str, namespace: str = "", subresource: str = ""
    ) -> Attributes:
        return Attributes(
            user=caller,
            verb="impersonate",
            group=group,
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
            # Users, groups and service accounts have none here, as in Kubernetes.
            version="v1" if group else "",
        )

    account = service_account_of(wanted.name)
    if account is None:
        yield permission("", "users", wanted.name)
    else:
        namespace, name = account
        yield permission("", "serviceaccounts", name, namespace)
    for group in wanted.groups:
        yield permission("", "groups", group)
    for key, values in wanted.extra:
        for value in values:
            yield permission(reviews_group, "userextras", value, subresource=key)
    if wanted.uid:
        yield permission(reviews_group, "uids", wanted.uid)
