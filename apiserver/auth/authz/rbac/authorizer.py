"""The RBAC authorizer (rows O03-O05).

Most clients repeat the same requests. Decisions are cached until a role or binding changes, without the name
of the object: few rules have resource names, and their verdicts are cached with the decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Final, Protocol

from apiserver.auth.authz.attributes import NO_OPINION, Attributes, Decision, PendingDecision, Verdict
from apiserver.auth.authz.rbac.policy import Binding, Grant, RbacPolicy
from apiserver.auth.authz.rule_resolver import NonResourceRule, ResourceRule, RuleSet
from apiserver.golang.quoting import aggregate
from apiserver.meta.vocabulary import UserInfo

# Questions whose answers are remembered, and names in all answers; when there are more, all are forgotten.
REMEMBERED_MAX: Final = 20_000
REMEMBERED_NAMES_MAX: Final = 200_000
# An answer with more names is found again each time: it would take the place of all others, and much memory.
NAMES_OF_ANSWER_MAX: Final = 10_000
# Characters of a question that is remembered: callers choose them.
REMEMBERED_CHARACTERS_MAX: Final = 512

# Rules that are looked at before others have their turn: some tenths of a millisecond.
RULES_AT_ONCE: Final = 128
# A rule may have hundred thousands of words: so many are looked at in their place.
WORDS_AT_ONCE: Final = 10_000
# So many times, before the answer has to wait for turns.
PIECES_AT_ONCE: Final = 8

# How its reasons begin.
RBAC_ALLOWED: Final = "RBAC: allowed by "
# A reason counts as one name for each so many characters.
_CHARACTERS_OF_NAME: Final = 100

# The verdicts for some names, that for all others, and whether they hold for all names or only for the one
# that was asked about.
_Answer = tuple[Mapping[str, Verdict], Verdict, bool]


class Turn(Protocol):
    """The turns of one piece of work on the event loop: see `storage.event_loop_turns`."""

    def is_over(self) -> bool: ...

    async def next(self) -> None: ...


class RbacAuthorizer:
    """The RBAC authorizer: an `Authorizer` with its `RuleResolver` (`rules`).

    A decision about a user with twenty thousand bound roles is made in several turns of the event loop.
    """

    def __init__(
        self,
        policy: RbacPolicy,
        turns: Callable[[], Turn] | None = None,
        *,
        remembered_max: int = REMEMBERED_MAX,
        remembered_names_max: int = REMEMBERED_NAMES_MAX,
    ) -> None:
        """turns: makes the turns of a long decision; without it, decisions are immediate."""
        self._policy = policy
        self._turns = turns
        self._remembered_max = remembered_max
        self._remembered_names_max = remembered_names_max
        self._generation = -1
        self._known: dict[tuple[object, ...], _Answer] = {}
        self._names = 0

    def __call__(self, attributes: Attributes) -> Verdict | PendingDecision:
        if (
            self._generation != self._policy.generation
            or len(self._known) >= self._remembered_max
            or self._names >= self._remembered_names_max
        ):
            self._known.clear()
            self._names = 0
            self._generation = self._policy.generation
        user, verb, is_resource, path, group, resource, subresource, namespace = attributes[:8]
        question: tuple[object, ...]
        if is_resource:
            question = (user.name, user.groups, verb, group, resource, subresource, namespace)
        else:
            question = (user.name, user.groups, verb, path)
        known = self._known.get(question)
        if known is None:
            generation, finding = self._policy.generation, self._find(attributes)
            pieces = 0
            while known is None:
                if pieces == PIECES_AT_ONCE and self._turns is not None:
                    finish = partial(self._finish, finding, attributes, question, generation, self._turns())
                    return PendingDecision(finish)
                pieces += 1
                known = next(finding)
            self._remember(attributes, question, known)
        by_name, otherwise, _ = known
        return by_name.get(attributes.name, otherwise)

    async def _finish(
        self,
        finding: Generator[_Answer | None],
        attributes: Attributes,
        question: tuple[object, ...],
        generation: int,
        turn: Turn,
        deadline: float,
    ) -> Verdict:
        """Finish a decision, ignoring the deadline, since no server is called."""
        known = None
        while known is None:
            if turn.is_over():
                await turn.next()
            known = next(finding)
        if generation == self._policy.generation == self._generation:
            self._remember(attributes, question, known)
        by_name, otherwise, _ = known
        return by_name.get(attributes.name, otherwise)

    def _remember(self, attributes: Attributes, question: tuple[object, ...], known: _Answer) -> None:
        user, verb, _, path, group, resource, subresource, namespace = attributes[:8]
        words = (user.name, *user.groups, verb, path, group, resource, subresource, namespace)
        if known[2] and sum(map(len, words)) <= REMEMBERED_CHARACTERS_MAX:
            self._known[question] = known
            self._names += len(known[0]) + len(known[1].reason) // _CHARACTERS_OF_NAME

    def _find(self, attributes: Attributes) -> Generator[_Answer | None]:
        """Yields the verdicts of the rules that allow the request, up to the first that allows all names.

        It also yields None after some rules, or many words of one.
        """
        by_name: dict[str, Verdict] = {}
        is_for_all_names, words = True, 0
        missing: list[str] = []
        # The verdict of the last binding, which may have thousands of subjects, and its role as many rules.
        allowed: tuple[Binding, Verdict] | None = None
        for number, found in enumerate(self._policy.grants(attributes.user, attributes.namespace), 1):
            if number % RULES_AT_ONCE == 0 or words > WORDS_AT_ONCE:
                yield None
                words = 0
            if not isinstance(found, Grant):
                missing.append(str(found))
                continue
            rule, binding = found
            words += len(rule.verbs) + len(rule.api_groups) + len(rule.resources) + len(rule.urls)
            if not rule.concerns(attributes):
                continue
            if allowed is None or allowed[0] is not binding:
                reason = f"{RBAC_ALLOWED}{binding.describe(attributes.user)}"
                allowed = binding, Verdict(Decision.ALLOW, reason)
            if not (attributes.is_resource and rule.resource_names):
                yield by_name, allowed[1], is_for_all_names
                return
            names = rule.resource_names
            if len(by_name) + len(names) <= NAMES_OF_ANSWER_MAX:
                for name in names:
                    by_name.setdefault(name, allowed[1])
                continue
            is_for_all_names = False
            for begin in range(0, len(names), WORDS_AT_ONCE):
                if attributes.name in by_name:
                    break
                if attributes.name in names[begin : begin + WORDS_AT_ONCE]:
                    by_name[attributes.name] = allowed[1]
                yield None
            if attributes.name in by_name:
                break
        problems = Verdict(Decision.NO_OPINION, f"RBAC: {aggregate(missing)}") if missing else NO_OPINION
        yield by_name, problems, is_for_all_names

    def rules(self, user: UserInfo, namespace: str, words_max: float = math.inf) -> RuleSet:
        """Returns the rules of a user; may be called in a thread.

        Raises TooManyWords.
        """
        rules, problems = self._policy.rules_of(user, namespace, words_max)
        return RuleSet(
            [
                ResourceRule(rule.verbs, rule.api_groups, rule.resources, rule.resource_names)
                for rule in rules
                if rule.resources
            ],
            [NonResourceRule(rule.verbs, rule.urls) for rule in rules if rule.urls],
            problems=[aggregate(problems)] if problems else (),
        )
