"""Requests in the name of somebody else. Row O08."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from apiserver.authn.impersonation import impersonated, is_impersonating, service_account_of, wanted_user
from apiserver.authz.attributes import Attributes, AuthorizationChain
from apiserver.brand import Brand
from apiserver.endpoints.api_call import Call, Handler, Middleware
from apiserver.vocabulary import UserInfo


def impersonate(chain: AuthorizationChain, brand: Brand) -> Middleware:
    """Let the caller be whom the headers name, if they may `impersonate` everything that is said of them.

    All that comes after sees only the other user.
    """
    reviews_group = brand.group("authentication")

    def middleware(handle: Handler) -> Handler:
        # No coroutine of its own: nearly all requests just pass.
        def impersonating(call: Call) -> Awaitable[None]:
            headers = call.request.raw_headers
            if is_impersonating(headers) and (wanted := wanted_user(headers)) is not None:
                assert call.user is not None
                for needed in _required_permissions(call.user, wanted, reviews_group):
                    chain.require(needed)
                call.user = impersonated(wanted)
            return handle(call)

        return impersonating

    return middleware


def _required_permissions(caller: UserInfo, wanted: UserInfo, reviews_group: str) -> Iterator[Attributes]:
    """What the caller must be allowed, one thing after another."""

    def to_be(group: str, resource: str, name: str, namespace: str = "", subresource: str = "") -> Attributes:
        return Attributes(
            *(caller, "impersonate", True, ""),
            group=group,
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )

    account = service_account_of(wanted.name)
    if account is None:
        yield to_be("", "users", wanted.name)
    else:
        namespace, name = account
        yield to_be("", "serviceaccounts", name, namespace)
    for group in wanted.groups:
        yield to_be("", "groups", group)
    for key, values in wanted.extra:
        for value in values:
            yield to_be(reviews_group, "userextras", value, subresource=key)
    if wanted.uid:
        yield to_be(reviews_group, "uids", wanted.uid)
