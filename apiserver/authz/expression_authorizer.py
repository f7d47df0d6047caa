"""Answers the authorization checks of expressions (`apiserver.cel.library.authorizer`) by the authorizers.

Source: k8s.io/apiserver, pkg/cel/library/authz.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from apiserver.authz.attributes import Attributes, Authorizer, Decision
from apiserver.cel.library.authorizer import CheckAttributes, DecisionValue
from apiserver.vocabulary import UserInfo


@dataclass(frozen=True, slots=True)
class UserAuthorizer:
    """Decides what the user of a request may do, or a service account that an expression names."""

    authorize: Authorizer
    user: UserInfo

    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        user = self.user
        if attributes.service_account is not None:
            user = _service_account(*attributes.service_account)
        verdict = self.authorize(
            Attributes(
                user=user,
                verb=attributes.verb,
                is_resource=not attributes.path,
                path=attributes.path,
                group=attributes.group,
                resource=attributes.resource,
                subresource=attributes.subresource,
                namespace=attributes.namespace,
                name=attributes.name,
            )
        )
        return DecisionValue(verdict.decision is Decision.ALLOW, verdict.reason)


def _service_account(namespace: str, name: str) -> UserInfo:
    """Returns the user that a service account is, as when it authenticates by a token."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups)
