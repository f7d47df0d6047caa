"""Lists what a user may do as rules, for a SelfSubjectRulesReview."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from apiserver.meta.vocabulary import UserInfo


class ResourceRule(NamedTuple):
    verbs: tuple[str, ...]
    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    resource_names: tuple[str, ...] = ()


class NonResourceRule(NamedTuple):
    verbs: tuple[str, ...]
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules that a user has. is_incomplete: whether there may be more rules; `problems` has the
    reasons.
    """

    resource_rules: Sequence[ResourceRule] = ()
    non_resource_rules: Sequence[NonResourceRule] = ()
    is_incomplete: bool = False
    problems: Sequence[str] = field(default=())


class TooManyWords(Exception):
    """The rules of a user have more words than the limit."""


# (user, namespace, the most words of rules to look at). It may be called in a thread. Raises TooManyWords.
RuleResolver: TypeAlias = Callable[[UserInfo, str, float], RuleSet]


def all_rules(resolvers: Sequence[RuleResolver]) -> RuleResolver:
    """Returns a resolver that joins the rules of all resolvers."""

    def resolve(user: UserInfo, namespace: str, words_max: float) -> RuleSet:
        found = [resolver(user, namespace, words_max) for resolver in resolvers]
        return RuleSet(
            [rule for each in found for rule in each.resource_rules],
            [rule for each in found for rule in each.non_resource_rules],
            any(each.is_incomplete for each in found),
            [problem for each in found for problem in each.problems],
        )

    return resolve
