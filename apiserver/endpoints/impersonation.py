"""The middleware for impersonation: requests with `Impersonate-*` headers. Row O08."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from apiserver.authn.impersonation import impersonated, is_impersonating, service_account_of, wanted_user
from apiserver.authz.attributes import Attributes, AuthorizationChain
from apiserver.brand import Brand
from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.vocabulary import UserInfo


def impersonate(chain: AuthorizationChain, brand: Brand) -> Middleware:
    """Replace the user by the one that the headers name, if the user may `impersonate` everything in them.

    All later middleware and handlers see only the impersonated user.
    """
    reviews_group = brand.group("authentication")

    def middleware(handle: Handler) -> Handler:
        # Not a coroutine: nearly all requests only pass through.
        def impersonating(call: ApiCall) -> Awaitable[None]:
            headers = call.request.raw_headers
            if is_impersonating(headers) and (wanted := wanted_user(headers)) is not None:
                return impersonate_user(call, wanted)
            return handle(call)

        async def impersonate_user(call: ApiCall, wanted: UserInfo) -> None:
            assert call.user is not None
            for attributes in _required_permissions(call.user, wanted, reviews_group):
                await chain.require(attributes)
            call.user = impersonated(wanted)
            if call.audit is not None:
                call.audit.impersonate(call.user)
            await handle(call)

        return impersonating

    return middleware


def _required_permissions(caller: UserInfo, wanted: UserInfo, reviews_group: str) -> Iterator[Attributes]:
    """Yields the permissions that the caller must have, in the order in which they are checked."""

    def permission(
        group: str, resource: str, name: str, namespace: str = "", subresource: str = ""
    ) -> Attributes:
        return Attributes(
            user=caller,
            verb="impersonate",
            is_resource=True,
            path="",
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
