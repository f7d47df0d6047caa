"""What expressions of policies see of a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.admission.listers import Lister
from apiserver.admission.webhooks.match_conditions import request_variables
from apiserver.admission.webhooks.requests import ReviewedWrite
from apiserver.admission.webhooks.webhook import LabelSelector
from apiserver.authz.attributes import AuthorizationChain
from apiserver.authz.expression_authorizer import UserAuthorizer
from apiserver.cel.admission import NAMESPACE_OBJECT
from apiserver.cel.library.timestamps import parse_timestamp
from apiserver.errors import NotFound
from apiserver.registry.offload import on_event_loop
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Document

_NAMESPACE_FIELDS: Final = (
    *("name", "generateName", "namespace", "labels", "annotations", "deletionGracePeriodSeconds"),
    *("generation", "resourceVersion", "finalizers"),
)


class RequestVariables:
    """The variables: each is made when it is first needed, once for all policies."""

    def __init__(
        self, write: ReviewedWrite, authorize: AuthorizationChain, meta_group: str, namespaces: Lister
    ) -> None:
        self._write = write
        self._authorize = authorize
        self._meta_group = meta_group
        self._namespaces = namespaces
        self._found: Document | None = None
        self._known: dict[tuple[object, bool], Mapping[str, Any]] = {}

    async def of(self, resource: ServedResource, *, has_namespace: bool) -> Mapping[str, Any]:
        """Returns the variables as of a resource. Raises ApiError where an object cannot be converted."""
        key = resource.cache_key, has_namespace
        known = self._known.get(key)
        if known is None:
            write = self._write
            new, old = await write.documents(resource)
            authorizer = UserAuthorizer(on_event_loop(self._authorize), write.attributes.user)
            description = write.description(resource, self._meta_group)
            made = request_variables(description, new, old, authorizer)
            if has_namespace:
                made[NAMESPACE_OBJECT] = await self._namespace_object()
            known = self._known[key] = made
        return known

    async def selects_namespace(self, selector: LabelSelector) -> bool:
        """What belongs to the cluster is always selected. Raises NotFound, and the storage's errors."""
        if selector.is_empty:
            return True
        write = self._write
        if write.is_namespace and write.new is not None and not write.attributes.subresource:
            return selector.selects(write.new["metadata"].get("labels") or {})
        if not write.namespace:
            return True
        return selector.selects((await self._document())["metadata"].get("labels") or {})

    async def _namespace_object(self) -> Document | None:
        """Returns nothing for requests about Namespaces themselves."""
        if self._write.is_namespace or not self._write.attributes.namespace:
            return None
        document = await self._document()
        meta = document["metadata"]
        seen: Document = {name: meta[name] for name in _NAMESPACE_FIELDS if name in meta}
        seen["UID"] = meta.get("uid", "")
        for name in ("creationTimestamp", "deletionTimestamp"):
            if when := parse_timestamp(meta.get(name) or ""):
                seen[name] = when
        return {"metadata": seen, "spec": document.get("spec") or {}, "status": document.get("status") or {}}

    async def _document(self) -> Document:
        """Raises NotFound."""
        if self._found is None:
            self._found = await self._namespaces.get_document(self._write.namespace)
            if self._found is None:
                raise NotFound(self._namespaces.group_resource, self._write.namespace)
        return self._found
