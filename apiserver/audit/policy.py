"""The audit policy: decides which requests are recorded, and at which level.

The first rule that matches a request decides; requests that match none are not recorded.
Source: k8s.io/apiserver, pkg/audit/policy/checker.go.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, NewType

from apiserver.meta.vocabulary import RequestInfo, UserInfo

# Kinds of requests whose rules are remembered; if there are more, all are forgotten.
REMEMBERED_MAX: Final = 10_000
# Characters of what is remembered of one request: clients choose them.
REMEMBERED_CHARACTERS_MAX: Final = 512
_ALL: Final = "*"


class AuditLevel(enum.IntEnum):
    """The detail in which a request is recorded: each level includes all of those before it."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS: Final = {
    "None": AuditLevel.NONE,
    "Metadata": AuditLevel.METADATA,
    "Request": AuditLevel.REQUEST,
    "RequestResponse": AuditLevel.REQUEST_RESPONSE,
}
LEVEL_NAMES: Final = {level: name for name, level in LEVELS.items()}


# When an event is made. They are texts, as looking up a member of an enumeration takes three times as long.
Stage = NewType("Stage", str)
REQUEST_RECEIVED: Final = Stage("RequestReceived")
RESPONSE_STARTED: Final = Stage("ResponseStarted")
RESPONSE_COMPLETE: Final = Stage("ResponseComplete")
PANIC: Final = Stage("Panic")
STAGES: Final = (REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC)


class RequestConfig(NamedTuple):
    """The recording of a request: its level, and the omitted stages and fields."""

    level: AuditLevel
    omitted_stages: frozenset[Stage] = frozenset()
    omits_managed_fields: bool = False


class GroupResources(NamedTuple):
    """Resources of one API group; without any named, all of the group.

    group: `*` for all groups.
    resources: `pods`, `pods/log`, `pods/*`, `*/scale` or `*`. resource_names: empty for all.
    """

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def matches(self, target: RequestInfo, name: str) -> bool:
        if self.group not in (target.group, _ALL):
            return False
        if not self.resources:
            return True
        if self.resource_names and name not in self.resource_names:
            return False
        resource, subresource = target.resource, target.subresource
        wanted = {_ALL, f"{resource}/{subresource}" if subresource else resource, f"{resource}/*"}
        if subresource:
            wanted.add(f"*/{subresource}")
        return not wanted.isdisjoint(self.resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule of an audit policy: its conditions, and its recording. An empty condition matches all."""

    config: RequestConfig
    users: frozenset[str] = frozenset()
    user_groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[GroupResources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    non_resource_urls: tuple[str, ...] = ()

    def matches(self, target: RequestInfo, user: UserInfo | None, name: str) -> bool:
        """Returns whether a request matches. user: None if unknown. name: that of the object, if there is
        one.
        """
        if self.users and (user is None or user.name not in self.users):
            return False
        if self.user_groups and (user is None or self.user_groups.isdisjoint(user.groups)):
            return False
        if self.verbs and target.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return target.is_resource and self._matches_resource(target, name)
        if self.non_resource_urls:
            return not target.is_resource and any(
                path_matches(target.path, each) for each in self.non_resource_urls
            )
        return True

    def _matches_resource(self, target: RequestInfo, name: str) -> bool:
        if self.namespaces and target.namespace not in self.namespaces:
            return False
        return not self.resources or any(each.matches(target, name) for each in self.resources)


def path_matches(path: str, pattern: str) -> bool:
    """Returns whether a path matches a pattern: a path, `*`, or a prefix and `*`."""
    if pattern.endswith(_ALL):
        return path.startswith(pattern.rstrip(_ALL))
    return path == pattern


class Policy:
    """The rules of an audit policy, in order. Decisions are cached for requests that are alike.

    looks_at_callers: whether any decision depends on the caller.
    """

    def __init__(self, rules: Sequence[PolicyRule], otherwise: RequestConfig) -> None:
        """otherwise: the recording of requests that no rule matches: their level is None."""
        self.rules = tuple(rules)
        self._otherwise = otherwise
        # What of a request no rule looks at is not remembered with its answer.
        self._looks_at_names = any(each.resource_names for rule in rules for each in rule.resources)
        self._looks_at_groups = any(rule.user_groups for rule in rules)
        self._looks_at_users = any(rule.users for rule in rules)
        self.looks_at_callers = self._looks_at_groups or self._looks_at_users
        self._known: dict[tuple[object, ...], RequestConfig] = {}

    def known_of(self, user: UserInfo | None) -> tuple[str | None, tuple[str, ...]]:
        """Returns the attributes of a user that rules compare. Users with the same ones get the same
        decisions.
        """
        if user is None:
            return None, ()
        return (user.name if self._looks_at_users else "", user.groups if self._looks_at_groups else ())

    def config_of(self, target: RequestInfo, user: UserInfo | None, name: str) -> RequestConfig:
        """Returns the recording of a request.

        user: the caller; None if unknown. name: that of the object, if there is one.
        """
        t = target
        key = (
            *self.known_of(user),
            (t.verb, t.group, t.resource, t.subresource, t.namespace) if t.is_resource else (t.verb, t.path),
            name if self._looks_at_names else "",
        )
        known = self._known.get(key)
        if known is None:
            known = self._find(target, user, name)
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            words = (*key[2], name, *(() if user is None else (user.name, *user.groups)))
            if sum(map(len, words)) <= REMEMBERED_CHARACTERS_MAX:
                self._known[key] = known
        return known

    def _find(self, target: RequestInfo, user: UserInfo | None, name: str) -> RequestConfig:
        for rule in self.rules:
            if rule.matches(target, user, name):
                return rule.config
        return self._otherwise
