"""Matches requests with the rules of webhooks and policies. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/webhook/predicates/rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.label_selectors import selects

_ALL: Final = "*"


class LabelSelector(NamedTuple):
    """A compiled LabelSelector; an empty one selects everything."""

    document: Document

    @property
    def is_empty(self) -> bool:
        return not self.document.get("matchLabels") and not self.document.get("matchExpressions")

    def selects(self, labels: Document) -> bool:
        return selects(self.document, labels)


class MatchAttributes(NamedTuple):
    """The attributes of a request that rules match.

    namespace: empty for cluster-scoped objects, Namespaces included. name: may be empty.
    """

    group: str
    version: str
    resource: str
    subresource: str
    operation: str
    namespace: str
    name: str = ""


class RuleWithOperations(NamedTuple):
    """A rule; `*` in a set matches everything.

    resources: pairs of resource and subresource, which is empty for the resource itself.
    names: those of the objects; None: all of them.
    """

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    scope: str
    names: frozenset[str] | None

    @classmethod
    def of(cls, document: Document) -> Self:
        """Returns the rule in a RuleWithOperations or a NamedRuleWithOperations."""
        names = document.get("resourceNames")
        return cls(
            frozenset(document.get("operations") or ()),
            frozenset(document.get("apiGroups") or ()),
            frozenset(document.get("apiVersions") or ()),
            frozenset(_pair(each) for each in document.get("resources") or ()),
            document.get("scope") or _ALL,
            frozenset(names) if names else None,
        )

    def matches(self, target: MatchAttributes) -> bool:
        return (
            self.concerns(target.group, target.resource, target.subresource, target.operation)
            and (target.version in self.versions or _ALL in self.versions)
            and self._has_scope(target)
            and (self.names is None or target.name in self.names)
        )

    def concerns(self, group: str, resource: str, subresource: str, operation: str) -> bool:
        """Returns whether the rule may match a request for some object in some version."""
        return (
            (operation in self.operations or _ALL in self.operations)
            and (group in self.groups or _ALL in self.groups)
            and not self.resources.isdisjoint(
                ((resource, subresource), (_ALL, subresource), (resource, _ALL), (_ALL, _ALL))
            )
        )

    def _has_scope(self, target: MatchAttributes) -> bool:
        if self.scope == _ALL:
            return True
        return (self.scope == "Namespaced") is bool(target.namespace)


def rules_of(documents: Iterable[Document] | None) -> Sequence[RuleWithOperations]:
    return tuple(map(RuleWithOperations.of, documents or ()))


def _pair(text: str) -> tuple[str, str]:
    resource, _, subresource = text.partition("/")
    return resource, subresource
