"""A token for a service account, maybe bound to something that has to be there as long as the token is used.

Source: k8s.io/kubernetes, pkg/registry/core/serviceaccount/storage/token.go. Row O08.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.authn.service_account import Claims, Reference, TokenIssuer, new_token_id
from apiserver.catalogue.authentication.token_requests import validate_token_request
from apiserver.endpoints.api_call import Call, Handler
from apiserver.errors import BadRequest, Conflict, Invalid, NotFound
from apiserver.field_errors import invalid, quote
from apiserver.handlers.virtual_kinds import VirtualKinds, send_virtual
from apiserver.meta import timestamps
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.vocabulary import Document, GroupResource

# What a token may be bound to, by kind: the resource, and the claim that names it.
_BOUND: Final = {"Pod": ("pods", "pod"), "Secret": ("secrets", "secret"), "Node": ("nodes", "node")}


def token_handlers(
    registry: Registry,
    table: Callable[[], ResourceTable],
    virtual: VirtualKinds,
    spoken: ServedResource,
    lifecycle: NamespaceLifecycle,
    issuer: TokenIssuer,
    clock: Callable[[], float],
    *,
    audiences: Sequence[str],
    expiration_max_s: int = 0,
) -> Mapping[str, Handler]:
    """POST to serviceaccounts/{name}/token.

    audiences: of tokens that are asked for without. expiration_max_s: no token lives longer; 0 is no bound.
    clock: seconds since 1970.
    """
    bound_objects = _BoundObjects(registry, table)

    async def create(call: Call) -> None:
        info, accounts = call.info, call.resource
        assert accounts is not None
        encoder = virtual.encoder(call, spoken)
        options = virtual.options(call, "CreateOptions")
        request = await virtual.read(call, spoken, options)
        meta, spec = request["metadata"], request["spec"]
        if meta.get("name") and meta["name"] != info.name:
            problem = invalid(
                "metadata.name", meta["name"], "must match the service account name if specified"
            )
            raise Invalid(spoken.group_kind, info.name, [problem])
        await lifecycle.check_create(accounts, info.namespace, info.name)
        account = (await registry.get(accounts, info.namespace, info.name)).document()
        if errors := validate_token_request(request):
            raise Invalid(spoken.group_kind, "", errors)
        spec["audiences"] = spec.get("audiences") or list(audiences)
        await virtual.admit(call, info.name, request, options)
        bound = await bound_objects.of(spec.get("boundObjectRef"), info.namespace, info.name)
        if expiration_max_s and spec["expirationSeconds"] > expiration_max_s:
            call.warnings.append(
                f"requested expiration of {spec['expirationSeconds']} seconds shortened to "
                f"{expiration_max_s} seconds"
            )
            spec["expirationSeconds"] = expiration_max_s
        now = int(clock())
        expires_at = now + spec["expirationSeconds"]
        token = issuer.issue(
            Claims(
                namespace=info.namespace,
                account=Reference(info.name, account["metadata"]["uid"]),
                audiences=tuple(spec["audiences"]),
                expires_at=expires_at,
                not_before=now,
                token_id=new_token_id(),
                bound=bound,
            ),
            now=now,
        )
        request["metadata"] = {
            **meta,
            "name": info.name,
            "namespace": info.namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": timestamps.to_text(now),
        }
        request["status"] = {"token": token, "expirationTimestamp": timestamps.to_text(expires_at)}
        await send_virtual(call, encoder, spoken, request, HTTPStatus.CREATED)

    return {"create": create}


class _BoundObjects:
    """What tokens are bound to."""

    def __init__(self, registry: Registry, table: Callable[[], ResourceTable]) -> None:
        self._registry, self._table = registry, table

    async def of(
        self, reference: Document | None, namespace: str, account: str
    ) -> tuple[tuple[str, Reference], ...]:
        """The claims about what a request refers to. Raises BadRequest, NotFound, Conflict."""
        if reference is None:
            return ()
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if group or kind not in _BOUND:
            where = f"{group}/{version}" if group else version
            raise BadRequest(f"cannot bind token to object of type {where}, Kind={kind}")
        resource, claim = _BOUND[kind]
        found = await self._find(resource, "" if kind == "Node" else namespace, name)
        if kind == "Pod" and found.get("spec", {}).get("serviceAccountName", "") != account:
            raise BadRequest(
                f"cannot bind token for serviceaccount {quote(account)} to pod running with different "
                "serviceaccount name."
            )
        uid = found["metadata"]["uid"]
        if reference.get("uid") and reference["uid"] != uid:
            raise Conflict(
                GroupResource("", kind),
                name,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in "
                "record. The object might have been deleted and then recreated",
            )
        bound = ((claim, Reference(name, uid)),)
        node = found.get("spec", {}).get("nodeName") if kind == "Pod" else None
        return (*bound, ("node", await self._node(node))) if node else bound

    async def _node(self, name: str) -> Reference:
        """A pod's node, which may be gone."""
        try:
            return Reference(name, (await self._find("nodes", "", name))["metadata"]["uid"])
        except NotFound:
            return Reference(name, "")

    async def _find(self, resource: str, namespace: str, name: str) -> Document:
        served = self._table().find("", "v1", resource)
        if served is None or not name:
            raise NotFound(GroupResource("", resource), name)
        return (await self._registry.get(served, namespace, name)).document()
