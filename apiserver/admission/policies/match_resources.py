"""Matches requests with a policy or a binding. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/matching/matching.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from apiserver.admission.reviewed_write import ReviewedWrite
from apiserver.admission.rules import LabelSelector, RuleWithOperations, rules_of
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource


class MatchResources(NamedTuple):
    """A MatchResources; without rules it matches everything."""

    rules: Sequence[RuleWithOperations]
    excluded: Sequence[RuleWithOperations]
    matches_equivalents: bool
    namespaces: LabelSelector
    objects: LabelSelector

    @classmethod
    def of(cls, document: Document) -> Self:
        return cls(
            rules_of(document.get("resourceRules")),
            rules_of(document.get("excludeResourceRules")),
            document.get("matchPolicy", "Equivalent") == "Equivalent",
            LabelSelector(document.get("namespaceSelector") or {}),
            LabelSelector(document.get("objectSelector") or {}),
        )

    @property
    def is_about_kinds(self) -> bool:
        """Whether matching depends only on the kind of a write, and not on its object and namespace."""
        return (
            self.objects.is_empty
            and self.namespaces.is_empty
            and all(rule.names is None for rule in (*self.rules, *self.excluded))
        )

    def may_match(self, write: ReviewedWrite) -> bool:
        """Returns whether writes of the same kind may match."""
        attributes = write.attributes
        same = (attributes.resource, *write.equivalents())
        return not self.rules or any(
            rule.concerns(*each.group_resource, attributes.subresource, attributes.operation.value)
            for rule in self.rules
            for each in same
        )

    def resource(self, write: ReviewedWrite) -> ServedResource | None:
        """Returns the resource under which a write matches; None if it does not.

        The namespace selector is not checked here.
        """
        if (
            self.excluded
            and write.matching_resource(self.excluded, with_equivalents=self.matches_equivalents) is not None
        ):
            return None
        resource: ServedResource | None = write.attributes.resource
        if self.rules:
            resource = write.matching_resource(self.rules, with_equivalents=self.matches_equivalents)
        if resource is None:
            return None
        if not self.objects.is_empty and not any(map(self.objects.selects, write.labels())):
            return None
        return resource
