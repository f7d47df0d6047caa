"""Which resources the history keeps, by the rules of an administrator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from apiserver.storage.keys import CORE_GROUP, resource_of

# The name of all resources.
ANY: Final = "*"
# Of resources whose rule is known: custom resources come and go.
_KNOWN_MAX: Final = 4_096


class HistoryRule(NamedTuple):
    """Whether the history keeps resources: pairs of group and resource, or of `ANY`."""

    resources: Sequence[tuple[str, str]]
    keeps: bool


# What changes all the time, and is of little interest later, unless an administrator wants it.
DEFAULT_RULES: Final = (HistoryRule((("", "events"), ("coordination.k8s.io", "leases")), keeps=False),)


class HistoryPolicy:
    """Rules, of which the first one that names a resource applies; others are kept. prefix: of all keys."""

    def __init__(self, rules: Sequence[HistoryRule], prefix: str) -> None:
        """rules: those of the administrator, which come before `DEFAULT_RULES`."""
        self._rules, self._prefix = (*rules, *DEFAULT_RULES), prefix
        self._known: dict[str, bool] = {}

    def dropped_resource(self, key: str) -> str:
        """Returns the resource prefix of a key if its changes are dropped; else an empty text."""
        resource = resource_of(self._prefix, key)
        if resource is None:
            return ""
        keeps = self._known.get(resource)
        if keeps is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            keeps = self._known[resource] = self._keeps(resource)
        return "" if keeps else resource

    def _keeps(self, resource: str) -> bool:
        *_, group, name, _ = resource.split("/")
        pair = ("" if group == CORE_GROUP else group), name
        for rule in self._rules:
            if pair in rule.resources or (ANY, ANY) in rule.resources:
                return rule.keeps
        return True
