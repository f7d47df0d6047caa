"""Identifies the users that are nodes. Source: k8s.io/kubernetes, pkg/auth/nodeidentifier."""

from __future__ import annotations

from typing import Final

from apiserver.meta.vocabulary import UserInfo

NODES_GROUP: Final = "system:nodes"
USER_PREFIX: Final = "system:node:"


def node_of(user: UserInfo) -> str | None:
    """Returns the name of the node with this user; None for other users; "" for a node without a name."""
    if NODES_GROUP not in user.groups or not user.name.startswith(USER_PREFIX):
        return None
    return user.name.removeprefix(USER_PREFIX)
