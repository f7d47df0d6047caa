"""The RBAC authorizer. Rows O03-O05.

Most callers ask the same again and again. Answers are remembered until a role or binding changes, without the
name of the object: few rules have resource names, and their verdicts are remembered with the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.authz.attributes import NO_OPINION, Attributes, Decision, Verdict
from apiserver.authz.rbac.policy import Binding, Grant, RbacPolicy, listed_problems
from apiserver.authz.rule_resolver import NonResourceRule, ResourceRule, RuleSet
from apiserver.vocabulary import UserInfo

# Questions whose answers are remembered, and names in all answers; when there are more, all are forgotten.
REMEMBERED_MAX: Final = 20_000
REMEMBERED_NAMES_MAX: Final = 200_000
# Characters of a question that is remembered: callers choose them.
REMEMBERED_CHARACTERS_MAX: Final = 512

# A reason weighs as much as a name for so many characters.
_CHARACTERS_OF_NAME: Final = 100

# The verdicts for some names, and that for all others.
_Answer = tuple[Mapping[str, Verdict], Verdict]


class RbacAuthorizer:
    """An `Authorizer`, and the `RuleResolver` (`rules`) that belongs to it."""

    def __init__(
        self,
        policy: RbacPolicy,
        *,
        remembered_max: int = REMEMBERED_MAX,
        remembered_names_max: int = REMEMBERED_NAMES_MAX,
    ) -> None:
        self._policy = policy
        self._remembered_max = remembered_max
        self._remembered_names_max = remembered_names_max
        self._generation = -1
        self._known: dict[tuple[object, ...], _Answer] = {}
        self._names = 0

    def __call__(self, attributes: Attributes) -> Verdict:
        if (
            self._generation != self._policy.generation
            or len(self._known) >= self._remembered_max
            or self._names >= self._remembered_names_max
        ):
            self._known.clear()
            self._names = 0
            self._generation = self._policy.generation
        user, verb, is_resource, path, *about, _ = attributes
        question = (user.name, user.groups, verb, *(about if is_resource else (path,)))
        known = self._known.get(question)
        if known is None:
            known = self._find(attributes)
            words = (user.name, *user.groups, verb, path, *about)
            if sum(map(len, words)) <= REMEMBERED_CHARACTERS_MAX:
                self._known[question] = known
                self._names += len(known[0]) + len(known[1].reason) // _CHARACTERS_OF_NAME
        by_name, otherwise = known
        return by_name.get(attributes.name, otherwise)

    def _find(self, attributes: Attributes) -> _Answer:
        """Returns the verdicts of the rules that allow the request, up to the first that allows all names."""
        by_name: dict[str, Verdict] = {}
        missing: list[str] = []
        # The verdict of the last binding, which may have thousands of subjects, and its role as many rules.
        allowed: tuple[Binding, Verdict] | None = None
        for found in self._policy.grants(attributes.user, attributes.namespace):
            if not isinstance(found, Grant):
                missing.append(str(found))
                continue
            rule, binding = found
            if not rule.concerns(attributes):
                continue
            if allowed is None or allowed[0] is not binding:
                reason = f"RBAC: allowed by {binding.describe(attributes.user)}"
                allowed = binding, Verdict(Decision.ALLOW, reason)
            if not (attributes.is_resource and rule.resource_names):
                return by_name, allowed[1]
            for name in rule.resource_names:
                by_name.setdefault(name, allowed[1])
        if not missing:
            return by_name, NO_OPINION
        return by_name, Verdict(Decision.NO_OPINION, f"RBAC: {listed_problems(missing)}")

    def rules(self, user: UserInfo, namespace: str) -> RuleSet:
        rules, problems = self._policy.rules_of(user, namespace)
        return RuleSet(
            [
                ResourceRule(rule.verbs, rule.api_groups, rule.resources, rule.resource_names)
                for rule in rules
                if rule.resources
            ],
            [NonResourceRule(rule.verbs, rule.urls) for rule in rules if rule.urls],
            problems=[listed_problems(problems)] if problems else (),
        )
