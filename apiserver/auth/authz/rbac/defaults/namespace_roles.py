"""The default roles in the system's namespaces. Source: namespace_policy.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from apiserver.auth.authz.rbac.defaults.notation import (
    CONTROLLER_PREFIX,
    EVENTS,
    KUBE_PUBLIC,
    KUBE_SYSTEM,
    READ,
    DefaultRole,
    Roles,
    RuleRow,
    accounts,
    role,
    users,
)
from apiserver.auth.authz.rbac.policy import Subject


class DefaultBinding(NamedTuple):
    name: str
    role: str
    subjects: tuple[Subject, ...]


_READER: Final = "extension-apiserver-authentication-reader"
_MANAGER: Final = "kube-controller-manager"
_SCHEDULER: Final = "kube-scheduler"
_SIGNER: Final = f"{CONTROLLER_PREFIX}bootstrap-signer"
_PROVIDER: Final = f"{CONTROLLER_PREFIX}cloud-provider"
_CLEANER: Final = f"{CONTROLLER_PREFIX}token-cleaner"


def _lock_of(program: str) -> str:
    return f"system::leader-locking-{program}"


_LEADER: Final[DefaultRole] = role(
    RuleRow("get watch list create update", "coordination.", "leases"),
    RuleRow("get watch list create update", "coordination.", "leasecandidates"),
)

ROLES: Final[Mapping[str, Roles]] = {
    KUBE_SYSTEM: {
        _READER: role(RuleRow(READ, "core", "configmaps", names="extension-apiserver-authentication")),
        _SIGNER: role(RuleRow(READ, "core", "secrets")),
        _PROVIDER: role(RuleRow("create get list watch", "core", "configmaps")),
        _CLEANER: role(RuleRow("get list watch delete", "core", "secrets"), EVENTS),
        _lock_of(_MANAGER): _LEADER,
        _lock_of(_SCHEDULER): _LEADER,
    },
    KUBE_PUBLIC: {
        _SIGNER: role(
            RuleRow(READ, "core", "configmaps"),
            RuleRow("update", "core", "configmaps", names="cluster-info"),
            EVENTS,
        )
    },
}

_MANAGER_USER: Final = users(f"system:{_MANAGER}")
_SCHEDULER_USER: Final = users(f"system:{_SCHEDULER}")

BINDINGS: Final[Mapping[str, tuple[DefaultBinding, ...]]] = {
    KUBE_SYSTEM: (
        DefaultBinding(f"system::{_READER}", _READER, (*_MANAGER_USER, *_SCHEDULER_USER)),
        DefaultBinding(
            _lock_of(_MANAGER),
            _lock_of(_MANAGER),
            (*_MANAGER_USER, *accounts(_MANAGER, "leader-election-controller")),
        ),
        DefaultBinding(_lock_of(_SCHEDULER), _lock_of(_SCHEDULER), (*_SCHEDULER_USER, *accounts(_SCHEDULER))),
        DefaultBinding(_SIGNER, _SIGNER, accounts("bootstrap-signer")),
        DefaultBinding(_PROVIDER, _PROVIDER, accounts("cloud-provider")),
        DefaultBinding(_CLEANER, _CLEANER, accounts("token-cleaner")),
    ),
    KUBE_PUBLIC: (DefaultBinding(_SIGNER, _SIGNER, accounts("bootstrap-signer")),),
}
