"""One rule of a role: which requests it allows.

Source: k8s.io/kubernetes, pkg/apis/rbac/v1/evaluation_helpers.go. Row O05.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.authz.attributes import Attributes
from apiserver.vocabulary import Document

ANY: Final = "*"


class Malformed(ValueError):
    """What is stored as a role or a binding is none."""


class PolicyRule(NamedTuple):
    """A rule is about resources or about paths (`urls`), never both. No resource_names: whatever the name."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> PolicyRule:
        """Raises Malformed."""
        if not isinstance(document, dict):
            raise Malformed("a rule is no object")
        return cls(*(_words(document, field) for field in _FIELDS))

    def document(self) -> Document:
        return {field: list(values) for field, values in zip(_FIELDS, self, strict=True) if values}

    def allows(self, attributes: Attributes) -> bool:
        return self.concerns(attributes) and (not attributes.is_resource or self.has_name(attributes.name))

    def concerns(self, attributes: Attributes) -> bool:
        """Whether it allows this, or would if the name were another."""
        if not attributes.is_resource:
            return self.has_verb(attributes.verb) and self.has_url(attributes.path)
        return (
            self.has_verb(attributes.verb)
            and self.has_group(attributes.group)
            and self.has_resource(attributes.resource, attributes.subresource)
        )

    def has_verb(self, verb: str) -> bool:
        return verb in self.verbs or ANY in self.verbs

    def has_group(self, group: str) -> bool:
        return group in self.api_groups or ANY in self.api_groups

    def has_resource(self, resource: str, subresource: str) -> bool:
        """`pods` is not `pods/log`; `*/log` is the log of whatever has one, `*` is all."""
        if ANY in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"{ANY}/{subresource}" in self.resources

    def has_name(self, name: str) -> bool:
        return not self.resource_names or name in self.resource_names

    def has_url(self, path: str) -> bool:
        """`/healthz/*` is all below."""
        return any(
            url == path or (url.endswith(ANY) and path.startswith(url.rstrip(ANY))) for url in self.urls
        )


_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def parse_rules(role: Document) -> tuple[PolicyRule, ...]:
    """Raises Malformed."""
    rules = role.get("rules") or ()
    if rules and not isinstance(rules, list):
        raise Malformed("the rules are no list")
    return tuple(map(PolicyRule.of, rules))


def _words(rule: Document, field: str) -> tuple[str, ...]:
    found = rule.get(field)
    if not found:
        return ()
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise Malformed(f"{field} of a rule is no list of strings")
    return tuple(found)
