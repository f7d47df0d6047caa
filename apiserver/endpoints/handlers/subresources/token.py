"""Handles token requests: issues a token of a service account, which may be bound to an object.

A token is valid only while the object that it is bound to exists.

Source: k8s.io/kubernetes, pkg/registry/core/serviceaccount/storage/token.go. Row O08.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.auth.authn.service_account import Claims, Reference, TokenIssuer, new_token_id
from apiserver.catalogue.authentication.token_requests import validate_token_request
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds, send_virtual
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class_of_document
from apiserver.meta import timestamps
from apiserver.meta.errors import BadRequest, Conflict, Invalid, NotFound
from apiserver.meta.field_errors import invalid, quote
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.subresources import TOKEN_REQUEST

# What a token may be bound to, by kind: the resource, and the claim with its name.
# The annotation of audit events that says which token was issued.
CREDENTIAL_ID: Final = "authentication.kubernetes.io/issued-credential-id"
_BOUND: Final = {"Pod": ("pods", "pod"), "Secret": ("secrets", "secret"), "Node": ("nodes", "node")}


_UID_GATE: Final = "TokenRequestServiceAccountUIDValidation"
_UID_GATE_SINCE: Final = 34
# The annotation of audit events about a request with the uid of another account.
_UID_MISMATCH: Final = "authentication.k8s.io/token-request-uid-mismatch"
# What kubelets ask for where a pod does not say how long its token is to be valid: by this they are known.
KUBELETS_EXPIRATION_S: Final = 3607
# A program that reads its token only once may run for a while with it.
EXTENDED_EXPIRATION_S: Final = 365 * 24 * 3600
# The objects that a token is bound to, by claim.
BoundTo = tuple[tuple[str, Reference], ...]


class UidCheck(enum.Enum):
    """The handling of a token request whose UID differs from the account's."""

    REFUSE = "refuse"
    # While the gate is off; the answer has the request's uid.
    WARN = "warn"
    # In releases that have no such gate, the account's uid takes its place.
    REPLACE = "replace"

    @classmethod
    def of(cls, gates: FeatureGates) -> UidCheck:
        if gates.minor < _UID_GATE_SINCE:
            return cls.REPLACE
        return cls.REFUSE if gates.is_on(_UID_GATE) else cls.WARN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TokenSettings:
    """The settings of issued tokens.

    audiences: those of tokens whose request names none.
    expiration_max_s: the longest validity of a token; 0 for no limit.
    extends: whether tokens that kubelets mount into pods are valid for longer than they ask for.
    uid_check: how a request is handled that has the uid of another account of the same name.
    """

    issuer: TokenIssuer
    audiences: Sequence[str]
    expiration_max_s: int = 0
    extends: bool = False
    uid_check: UidCheck = UidCheck.REFUSE

    def lifetimes_s(self, spec: Document, bound: BoundTo) -> tuple[int, int | None]:
        """Returns for how long a token is valid, and after how long it is stale, if that is earlier."""
        asked_s: int = spec["expirationSeconds"]
        is_extended = (
            self.extends
            and asked_s == KUBELETS_EXPIRATION_S
            and any(claim == "pod" for claim, _ in bound)
            and set(spec["audiences"]) <= set(self.audiences)
        )
        return (EXTENDED_EXPIRATION_S, asked_s) if is_extended else (asked_s, None)


def token_handlers(
    registry: Registry,
    served: ServedTable,
    virtual: VirtualKinds,
    lifecycle: NamespaceLifecycle,
    tokens: TokenSettings,
    clock: Callable[[], float],
) -> Mapping[str, Handler]:
    """Returns the handlers of serviceaccounts/{name}/token, by verb. clock: seconds since 1970."""
    kind = virtual.kinds[TOKEN_REQUEST]
    requests = GroupResource(kind.group_version.group, kind.kind)

    def complete(request: Document) -> None:
        spec = request["spec"]
        spec["audiences"] = spec.get("audiences") or list(tokens.audiences)

    async def create(call: ApiCall) -> None:
        info, accounts = call.info, call.resource
        request, options, encoder = await virtual.read_posted(call, kind)
        meta, spec = request["metadata"], request["spec"]
        if meta.get("name") and meta["name"] != info.name:
            problem = invalid(
                "metadata.name", meta["name"], "must match the service account name if specified"
            )
            raise Invalid(kind.group_kind, info.name, [problem])
        await lifecycle.check_create(accounts, info.namespace, info.name, may_provision=not options.dry_run)
        objects = _Objects(registry, served, call.offload)
        account = await objects.get(accounts, info.namespace, info.name)
        uid = _checked_uid(call, requests, meta.get("uid", ""), account["metadata"]["uid"], tokens.uid_check)
        if errors := validate_token_request(request):
            raise Invalid(kind.group_kind, "", errors)
        await virtual.admit(call, kind, info.name, request, options, complete)
        spec = request["spec"]
        bound = await objects.claims(spec.get("boundObjectRef"), info.namespace, info.name)
        max_s = tokens.expiration_max_s
        if max_s and spec["expirationSeconds"] > max_s:
            call.warnings.append(
                f"requested expiration of {spec['expirationSeconds']} seconds shortened to {max_s} seconds"
            )
            spec["expirationSeconds"] = max_s
        token_id = new_token_id()
        if call.audit is not None:
            call.audit.annotate(CREDENTIAL_ID, f"JTI={token_id}")
        now = int(clock())

        def issue() -> str:
            lifetime_s, stale_after_s = tokens.lifetimes_s(spec, bound)
            claims = Claims(
                namespace=info.namespace,
                account=Reference(info.name, account["metadata"]["uid"]),
                audiences=tuple(spec["audiences"]),
                expires_at=now + lifetime_s,
                not_before=now,
                token_id=token_id,
                bound=bound,
                warn_after=None if stale_after_s is None else now + stale_after_s,
            )
            return tokens.issuer.issue(claims, now=now)

        # An admission plugin may have made it far larger than what was sent.
        size = size_class_of_document(request)
        token = await call.offload.run_begun(size, issue)
        request["metadata"] = {
            **meta,
            "name": info.name,
            "namespace": info.namespace,
            "uid": uid,
            "creationTimestamp": timestamps.to_text(now),
        }
        # What was asked for, also if the token is valid for longer.
        expires_at = now + spec["expirationSeconds"]
        request["status"] = {"token": token, "expirationTimestamp": timestamps.to_text(expires_at)}
        await send_virtual(call, encoder, kind, request, HTTPStatus.CREATED, size)

    return {"create": create}


def _checked_uid(call: ApiCall, requests: GroupResource, asked: str, known: str, check: UidCheck) -> str:
    """Returns the uid for the response. asked: that in the request. known: that of the account. Raises
    Conflict.
    """
    if not asked or asked == known or check is UidCheck.REPLACE:
        return known
    why = f"the UID in the token request ({asked}) does not match the UID of the service account ({known})"
    if check is UidCheck.REFUSE:
        raise Conflict(requests, call.info.name, why)
    if call.audit is not None:
        call.audit.annotate(_UID_MISMATCH, why)
    call.warnings.append(
        f"{why} but {_UID_GATE} is not enabled. In the future, this will return a conflict error"
    )
    return asked


class _Objects:
    """Reads the objects of a token, and finds those that it is bound to. offload: decodes large ones."""

    def __init__(self, registry: Registry, served: ServedTable, offload: Offload) -> None:
        self._registry, self._served, self._offload = registry, served, offload

    async def get(self, resource: ServedResource, namespace: str, name: str) -> Document:
        """Returns an object. Raises NotFound, and what `Registry.get` raises."""
        found = await self._registry.get(resource, namespace, name)
        return await self._offload.document(found)

    async def claims(self, reference: Document | None, namespace: str, account: str) -> BoundTo:
        """Returns the claims about the object that a token is bound to.

        Raises BadRequest, NotFound, Conflict.
        """
        if reference is None:
            return ()
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if group or kind not in _BOUND:
            where = f"{group}/{version}" if group or not version else version
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
        """Returns a reference to a pod's node, without uid if the node is gone."""
        try:
            return Reference(name, (await self._find("nodes", "", name))["metadata"]["uid"])
        except NotFound:
            return Reference(name, "")

    async def _find(self, resource: str, namespace: str, name: str) -> Document:
        served = self._served.find("", "v1", resource)
        if not name:
            raise BadRequest("Name parameter required.")
        if served is None:
            raise NotFound(GroupResource("", resource), name)
        return await self.get(served, namespace, name)
