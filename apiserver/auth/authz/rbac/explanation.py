"""Explains a decision of RBAC: the rule that allows a request, or the near misses.

A near miss is a rule that lacks one thing (the verb, the group, the subresource, the name), a sufficient role
that is bound in another namespace or to another user, or a binding to a role that does not exist. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from apiserver.auth.authz.attributes import Attributes
from apiserver.auth.authz.rbac.policy import ROLE, Binding, Grant, RbacPolicy, Subject
from apiserver.auth.authz.rbac.rule_coverage import rule_text
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.golang.quoting import go_quote, quoted_list
from apiserver.meta.errors import NotFound

# Rules of the user that are looked at: about a millisecond. Everybody may ask about themselves.
RULES_MAX: Final = 300
# Words of them, for each of these rules: one rule may have hundred thousands.
WORDS_OF_RULE_MAX: Final = 100
NEAR_MISSES_MAX: Final = 10
# Longer rules are cut, in characters.
RULE_LENGTH_MAX: Final = 300


def allowing(policy: RbacPolicy, attributes: Attributes, *, rules_max: int = RULES_MAX) -> Grant | None:
    """Returns the rule that allows a request, and the binding that grants it, which the decision names.

    Returns None if none of the first `rules_max` rules does.
    """
    for found in _grants(policy, attributes, rules_max):
        if isinstance(found, Grant) and found.rule.allows(attributes):
            return found
    return None


def own_near_misses(policy: RbacPolicy, attributes: Attributes, *, rules_max: int = RULES_MAX) -> list[str]:
    """Returns the near misses among the permissions of the user in the request's namespace."""
    told: list[str] = []
    user = attributes.user
    for found in _grants(policy, attributes, rules_max):
        if isinstance(found, NotFound):
            told.append(f"{found}, though it is bound to the user")
        elif (lack := lacking(found.rule, attributes)) is not None:
            told.append(
                f"{found.binding.describe(user)} has the rule {shown(found.rule)}, which lacks {lack}"
            )
        if len(told) == NEAR_MISSES_MAX:
            break
    return told


def _grants(policy: RbacPolicy, attributes: Attributes, rules_max: int) -> Iterator[Grant | NotFound]:
    """Yields the grants of a user, up to the limit."""
    words = rules_max * WORDS_OF_RULE_MAX
    for found in islice(policy.grants(attributes.user, attributes.namespace), rules_max):
        if isinstance(found, Grant):
            words -= sum(map(len, found.rule))
            if words < 0:
                return
        yield found


def lacking(rule: PolicyRule, attributes: Attributes) -> str | None:
    """Returns the only part of a request that a rule lacks; None if it lacks more parts, or none."""
    if not attributes.is_resource:
        # A rule about other paths is no near miss.
        if rule.has_verb(attributes.verb) or not rule.has_url(attributes.path):
            return None
        return f"the verb {go_quote(attributes.verb)}"
    has_verb, has_group = rule.has_verb(attributes.verb), rule.has_group(attributes.group)
    if not (has_verb or has_group):
        return None
    resource, subresource = attributes.resource, attributes.subresource
    has_resource = rule.has_resource(resource, subresource)
    has_parent = has_resource or (subresource != "" and rule.has_resource(resource, ""))
    has_name = rule.has_name(attributes.name)
    if not has_parent or has_verb + has_group + has_resource + has_name != 3:
        return None
    if not has_verb:
        return f"the verb {go_quote(attributes.verb)}"
    if not has_group:
        return f"the API group {go_quote(attributes.group)}"
    if not has_resource:
        return f"the subresource {go_quote(subresource)}"
    if attributes.name:
        return f"the name {go_quote(attributes.name)}"
    return "permission for requests without a name, because it has resourceNames"


def shown(rule: PolicyRule) -> str:
    text = rule_text(rule)
    return text if len(text) <= RULE_LENGTH_MAX else f"{text[:RULE_LENGTH_MAX]}…"


# ---- permissions of other users, for users who may read all roles and bindings


class GrantingRules:
    """Finds the rules by which bindings allow a request to their subjects, looking at each role once."""

    def __init__(self, policy: RbacPolicy, attributes: Attributes) -> None:
        self._policy, self._attributes = policy, attributes
        self._found: dict[tuple[str, str, str], PolicyRule | None] = {}

    def of(self, binding: Binding) -> PolicyRule | None:
        """Returns the first rule that allows the request; None if the binding does not allow it."""
        if binding.namespace not in ("", self._attributes.namespace):
            return None
        role = binding.role_kind, binding.namespace if binding.role_kind == ROLE else "", binding.role_name
        if role not in self._found:
            rules = _rules(self._policy, binding)
            self._found[role] = next((rule for rule in rules if rule.allows(self._attributes)), None)
        return self._found[role]


def bound_elsewhere(policy: RbacPolicy, attributes: Attributes) -> Iterator[str]:
    """Yields bindings to the user that would allow the request if they were in its namespace."""
    if not attributes.is_resource:
        return
    for binding in policy.bindings_elsewhere(attributes.user, attributes.namespace):
        rules = _rules(policy, binding)
        if any(rule.allows(attributes) for rule in rules):
            yield f"{binding.describe(attributes.user)} allows the request, but only in its own namespace"


def bound_to_others(policy: RbacPolicy, attributes: Attributes) -> Iterator[str]:
    """Yields bindings that would allow the request for a subject whose name resembles the user's."""
    user = attributes.user
    for binding in policy.all_bindings():
        if binding.namespace not in ("", attributes.namespace):
            continue
        alike = next((each for each in binding.subjects if _is_alike(each, attributes)), None)
        if alike is not None and any(rule.allows(attributes) for rule in _rules(policy, binding)):
            other = f"{alike} is not User {go_quote(user.name)}"
            yield f"{binding.described(alike)} would allow the request, but {other}"


def unbound_roles(policy: RbacPolicy, attributes: Attributes) -> Iterator[str]:
    """Yields the roles that would allow the request, if they were bound to the user."""
    for kind, namespace, name, rules in policy.all_roles():
        if namespace in ("", attributes.namespace) and any(rule.allows(attributes) for rule in rules):
            yield f"{kind} {go_quote(f'{name}/{namespace}' if namespace else name)}"


def _rules(policy: RbacPolicy, binding: Binding) -> tuple[PolicyRule, ...]:
    try:
        return policy.role_rules(binding.role_kind, binding.namespace, binding.role_name)
    except NotFound:
        return ()


def _is_alike(subject: Subject, attributes: Attributes) -> bool:
    """Returns whether a subject has the user's name in another case, or as another kind."""
    user = attributes.user
    is_group, name = subject.principal
    if (name in user.groups) if is_group else (name == user.name):
        return False
    names = {user.name.lower(), *(group.lower() for group in user.groups)}
    return name.lower() in names or subject.name.lower() == user.name.rpartition(":")[2].lower()


def who(attributes: Attributes) -> str:
    user = attributes.user
    return f"User {go_quote(user.name)} (groups={quoted_list(user.groups)})"
