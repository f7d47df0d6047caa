"""The notation of the tables of default roles and bindings: sets are words separated by spaces.

Groups: `core` is the one without a name; `storage.` is the one in the brand's domain, `storage.k8s.io`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from apiserver.auth.authz.rbac.policy import Subject

READ: Final = "get list watch"
WRITE: Final = "create delete deletecollection patch update"
READ_WRITE: Final = f"{READ} {WRITE}"
READ_UPDATE: Final = f"{READ} patch update"
KUBE_SYSTEM: Final = "kube-system"
KUBE_PUBLIC: Final = "kube-public"
CONTROLLER_PREFIX: Final = "system:controller:"


class RuleRow(NamedTuple):
    """One rule, for resources or for `urls`. Each field is a set of words."""

    verbs: str
    groups: str = ""
    resources: str = ""
    names: str = ""
    urls: str = ""


class DefaultRole(NamedTuple):
    """One role. aggregated_to: the role that aggregates it. is_aggregate: whether it aggregates others."""

    rows: tuple[RuleRow, ...] = ()
    aggregated_to: str = ""
    is_aggregate: bool = False


# By name; `{domain}` in it is the brand's.
Roles = Mapping[str, DefaultRole]
# By the name of the binding, which is that of its role.
Bindings = Mapping[str, tuple[Subject, ...]]

EVENTS: Final = RuleRow("create patch update", "core events.", "events")


def role(*rows: RuleRow) -> DefaultRole:
    return DefaultRole(rows)


def get_urls(urls: str) -> RuleRow:
    return RuleRow("get", urls=urls)


def groups(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject("Group", name) for name in names)


def users(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject("User", name) for name in names)


def accounts(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject("ServiceAccount", name, KUBE_SYSTEM) for name in names)
