"""The rules of roles, and the requests that they allow (row O05).

Source: k8s.io/kubernetes, pkg/apis/rbac/v1/evaluation_helpers.go.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import orjson

from apiserver.auth.authz.attributes import Attributes
from apiserver.meta.text_caches import text_cache
from apiserver.meta.vocabulary import Document

ANY: Final = "*"
# Each role is read by the authorizer and by the controller that aggregates, and in each server of a process.
# There is room for three times the default roles of a release, of which the longest have 6 KiB: they are a
# few megabytes at most.
CACHED_MAX: Final = 500
CACHED_BYTES_MAX: Final = 8 * 1024


class Malformed(ValueError):
    """A stored value is not a valid role or binding."""


class PolicyRule(NamedTuple):
    """A rule, for resources or for paths (`urls`), never both.

    Without resource_names it covers objects of any name.
    """

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> PolicyRule:
        """Returns the rule that a document describes. Raises Malformed."""
        if not isinstance(document, dict):
            raise Malformed("a rule is not an object")
        return cls(*(_words(document, field) for field in _FIELDS))

    def document(self) -> Document:
        return {field: list(values) for field, values in zip(_FIELDS, self, strict=True) if values}

    def allows(self, attributes: Attributes) -> bool:
        return self.concerns(attributes) and (not attributes.is_resource or self.has_name(attributes.name))

    def concerns(self, attributes: Attributes) -> bool:
        """Returns whether the rule allows the request, regardless of the object's name."""
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
        """Returns whether the rule covers a resource.

        `pods` does not include `pods/log`; `*/log` is the subresource of every resource; `*` is all.
        """
        if ANY in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"{ANY}/{subresource}" in self.resources

    def has_name(self, name: str) -> bool:
        return not self.resource_names or name in self.resource_names

    def has_url(self, path: str) -> bool:
        """Returns whether the rule covers a path: `/healthz/*` covers all paths below."""
        return any(
            url == path or (url.endswith(ANY) and path.startswith(url.rstrip(ANY))) for url in self.urls
        )


_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def parse_rules(role: Document) -> tuple[PolicyRule, ...]:
    """Returns the rules of a role, parsed once for all roles with equal rules. Raises Malformed."""
    rules = role.get("rules") or ()
    if not rules:
        return ()
    if not isinstance(rules, list):
        raise Malformed("the rules are not a list")
    encoded = orjson.dumps(rules)
    return _parsed(encoded) if len(encoded) <= CACHED_BYTES_MAX else tuple(map(PolicyRule.of, rules))


@text_cache(CACHED_MAX)
def _parsed(encoded: bytes) -> tuple[PolicyRule, ...]:
    """Returns a parsed rule."""
    return tuple(map(PolicyRule.of, orjson.loads(encoded)))


def _words(rule: Document, field: str) -> tuple[str, ...]:
    found = rule.get(field)
    if not found:
        return ()
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise Malformed(f"{field} of a rule is not a list of strings")
    return tuple(found)
