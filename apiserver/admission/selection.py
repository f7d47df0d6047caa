"""Selects the webhooks, and the functions of extensions, that a write concerns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from apiserver.admission.listers import Lister
from apiserver.admission.match_conditions import (
    ConditionsOutcome,
    MatchCondition,
    namespace_object,
    outcome_of,
)
from apiserver.admission.reviewed_write import ReviewedWrite
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.auth.authz.expression_authorizer import UserAuthorizer, evaluated
from apiserver.load.offload import on_event_loop
from apiserver.load.size_class import size_class
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource


class Conditions(NamedTuple):
    """The match conditions of a webhook or a function.

    authorize: decides the authorization checks in them. namespaces: None if no condition uses the namespace.
    """

    conditions: Sequence[MatchCondition]
    authorize: AuthorizationChain
    namespaces: Lister | None

    async def outcome(
        self, write: ReviewedWrite, resource: ServedResource, description: Document
    ) -> ConditionsOutcome:
        """Evaluate the conditions for a write.

        resource: its version is used. description: the request of the review, without objects.
        Raises NotFound if the namespace does not exist.
        """
        new, old = await write.documents(resource)
        size = size_class(await write.size(resource))
        authorizer = UserAuthorizer(on_event_loop(self.authorize), write.attributes.user)
        namespace = None if self.namespaces is None else await _namespace_object(write, self.namespaces)
        evaluate = partial(outcome_of, self.conditions, description, new, old, authorizer, namespace)
        return await evaluated(partial(write.offload.run_begun, size, evaluate))


async def _namespace_object(write: ReviewedWrite, namespaces: Lister) -> Document | None:
    """Returns the namespace of a write for conditions, as those of policies get it.

    In kube-apiserver conditions of webhooks get none, so that they fail or mean something else. Raises
    NotFound.
    """
    if write.is_namespace or not write.attributes.namespace:
        return None
    return namespace_object(await namespaces.require_document(write.namespace))


async def namespace_labels(write: ReviewedWrite, namespaces: Lister) -> Document | None:
    """Returns the labels of the namespace of a write; None for cluster-scoped objects.

    Raises NotFound if the namespace does not exist, and the storage's errors.
    """
    if write.is_namespace and write.new is not None and not write.attributes.subresource:
        # It may be about to change.
        labels: Document = write.new["metadata"].get("labels") or {}
        return labels
    if not write.namespace:
        return None
    namespace = await namespaces.get(write.namespace)
    if namespace is None:
        raise NotFound(namespaces.group_resource, write.namespace)
    return dict(namespace.labels())
