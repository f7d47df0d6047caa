"""Which resources the history keeps, by the rules of an administrator."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from apiserver.storage.keys import CORE_GROUP, resource_of

# The name of all resources.
ANY: Final = "*"
# Of resources whose rule is known: custom resources come and go.
_KNOWN_MAX: Final = 4_096


class HistoryAction(Enum):
    """What the history does with the changes of a resource.

    THIN: keeps them, but after some time drops versions that have changed the status only.
    """

    KEEP = "keep"
    DROP = "drop"
    THIN = "thin"


class HistoryRule(NamedTuple):
    """What the history does with resources: pairs of group and resource, or of `ANY`."""

    resources: Sequence[tuple[str, str]]
    action: HistoryAction


# What changes all the time, and is of little interest later, unless an administrator wants it.
DEFAULT_RULES: Final = (HistoryRule((("", "events"), ("coordination.k8s.io", "leases")), HistoryAction.DROP),)


class HistoryPolicy:
    """Rules, of which the first one that names a resource applies; others are kept. prefix: of all keys."""

    def __init__(self, rules: Sequence[HistoryRule], prefix: str) -> None:
        """rules: those of the administrator, which come before `DEFAULT_RULES`."""
        self._rules, self._prefix = (*rules, *DEFAULT_RULES), prefix
        self._known: dict[str, HistoryAction] = {}

    @property
    def thins_any(self) -> bool:
        """Whether any rule has the history drop versions of resources later."""
        return any(rule.action is HistoryAction.THIN for rule in self._rules)

    def thins(self, key: str) -> bool:
        """Whether versions of a key are dropped later that have changed the status only."""
        resource = resource_of(self._prefix, key)
        return resource is not None and self._action(resource) is HistoryAction.THIN

    def dropped_resource(self, key: str) -> str:
        """Returns the resource prefix of a key if its changes are dropped; else an empty text."""
        resource = resource_of(self._prefix, key)
        return "" if resource is None or self._action(resource) is not HistoryAction.DROP else resource

    def _action(self, resource: str) -> HistoryAction:
        action = self._known.get(resource)
        if action is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            action = self._known[resource] = self._found(resource)
        return action

    def _found(self, resource: str) -> HistoryAction:
        *_, group, name, _ = resource.split("/")
        pair = ("" if group == CORE_GROUP else group), name
        for rule in self._rules:
            if pair in rule.resources or (ANY, ANY) in rule.resources:
                return rule.action
        return HistoryAction.KEEP
