"""The variables of a write for expressions of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apiserver.admission.listers import Lister
from apiserver.admission.match_conditions import authorizer_variables, namespace_object
from apiserver.admission.reviewed_write import ReviewedWrite
from apiserver.admission.rules import LabelSelector
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.auth.authz.expression_authorizer import UserAuthorizer
from apiserver.cel.admission import (
    AUTHORIZER_NAME,
    NAMESPACE_OBJECT,
    OBJECT,
    OLD_OBJECT,
    REQUEST,
    REQUEST_RESOURCE,
)
from apiserver.load.offload import on_event_loop
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource


class RequestVariables:
    """The variables of a write, each made on first use, once for all policies."""

    def __init__(
        self, write: ReviewedWrite, authorize: AuthorizationChain, meta_group: str, namespaces: Lister
    ) -> None:
        self._write = write
        self._authorize = authorize
        self._meta_group = meta_group
        self._namespaces = namespaces
        self._found: Document | None = None
        self._known: dict[tuple[object, frozenset[str]], Mapping[str, Any]] = {}
        # By the resource as which the request is described.
        self._descriptions: dict[object, Document] = {}

    async def of(self, resource: ServedResource, names: frozenset[str]) -> Mapping[str, Any]:
        """Returns the objects, and the other variables that are named, for a resource.

        Raises ApiError if an object cannot be converted, NotFound.
        """
        key = resource.cache_key, names
        known = self._known.get(key)
        if known is None:
            new, old = await self._write.documents(resource)
            made: dict[str, Any] = {OBJECT: new, OLD_OBJECT: old}
            if REQUEST in names:
                made[REQUEST] = self._description(resource)
            if AUTHORIZER_NAME in names or REQUEST_RESOURCE in names:
                authorizer = UserAuthorizer(on_event_loop(self._authorize), self._write.attributes.user)
                made |= authorizer_variables(self._description(resource), authorizer)
            if NAMESPACE_OBJECT in names:
                made[NAMESPACE_OBJECT] = await self._namespace_object()
            known = self._known[key] = made
        return known

    def _description(self, resource: ServedResource) -> Document:
        key = resource.cache_key
        found = self._descriptions.get(key)
        if found is None:
            found = self._descriptions[key] = self._write.description(resource, self._meta_group)
        return found

    async def selects_namespace(self, selector: LabelSelector) -> bool:
        """Returns whether a selector selects the write's namespace; cluster-scoped objects are always
        selected.

        Raises NotFound, and the storage's errors.
        """
        if selector.is_empty:
            return True
        write = self._write
        if write.is_namespace and write.new is not None and not write.attributes.subresource:
            return selector.selects(write.new["metadata"].get("labels") or {})
        if not write.namespace:
            return True
        return selector.selects((await self._document())["metadata"].get("labels") or {})

    async def _namespace_object(self) -> Document | None:
        """Returns the namespace of a write; nothing for requests about Namespaces themselves."""
        if self._write.is_namespace or not self._write.attributes.namespace:
            return None
        return namespace_object(await self._document())

    async def _document(self) -> Document:
        """Returns a document."""
        if self._found is None:
            self._found = await self._namespaces.require_document(self._write.namespace)
        return self._found
