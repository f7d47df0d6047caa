"""The stored roles and bindings, indexed by subject, and the rules that they grant to users.

Bindings are indexed by their subjects, so that a decision does not read other users' bindings. Kubernetes
reads bindings in random order; here they are read by name, so that equal decisions have the same reason.
Source: k8s.io/kubernetes, pkg/registry/rbac/validation/rule.go.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from apiserver.auth.authz.rbac.rules import Malformed, PolicyRule, parse_rules
from apiserver.auth.authz.rule_resolver import TooManyWords
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document, GroupResource, UserInfo

ROLE: Final = "Role"
CLUSTER_ROLE: Final = "ClusterRole"
ROLE_BINDING: Final = "RoleBinding"
CLUSTER_ROLE_BINDING: Final = "ClusterRoleBinding"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class Subject(NamedTuple):
    """A subject of a binding, to which the role is granted.

    kind: User, Group, or ServiceAccount, which alone has a namespace.
    """

    kind: str
    name: str
    namespace: str = ""

    @property
    def principal(self) -> tuple[bool, str]:
        """The group or user of the subject, as users are compared with it: whether it is a group, and the
        name.
        """
        if self.kind == "ServiceAccount":
            return False, f"{_ACCOUNT_PREFIX}{self.namespace}:{self.name}"
        return self.kind == "Group", self.name

    def __str__(self) -> str:
        return f"{self.kind} {go_quote(f'{self.name}/{self.namespace}' if self.namespace else self.name)}"


class Binding(NamedTuple):
    """A RoleBinding, or a ClusterRoleBinding if `namespace` is empty."""

    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]

    @classmethod
    def of(cls, document: Document) -> Binding:
        """Returns the binding that a document describes. Raises Malformed."""
        try:
            namespace = document["metadata"].get("namespace", "")
            role = document["roleRef"]
            subjects = (
                _subject(each, namespace)
                for each in document.get("subjects") or ()
                if each.get("kind") in ("User", "Group", "ServiceAccount")
            )
            binding = cls(
                namespace,
                document["metadata"]["name"],
                role["kind"],
                role["name"],
                tuple(each for each in subjects if each.kind != "ServiceAccount" or each.namespace),
            )
        except (LookupError, TypeError, AttributeError) as error:
            raise Malformed(f"a binding is incomplete: {error!r}") from None
        words = chain(binding[:4], *binding.subjects)
        if not all(isinstance(word, str) for word in words):
            raise Malformed("a name in a binding is not a string")
        return binding

    def subject_of(self, user: UserInfo) -> Subject:
        """Returns the first subject that matches the user, who must match one."""
        return next(each for each in self.subjects if _is_one_of(user, each.principal))

    def describe(self, user: UserInfo) -> str:
        """Returns a text like `RoleBinding "read/default" of Role "reader" to Group "dev"`."""
        return self.described(self.subject_of(user))

    def described(self, subject: Subject) -> str:
        """Describes the binding to one of its subjects."""
        kind, name = CLUSTER_ROLE_BINDING, self.name
        if self.namespace:
            kind, name = ROLE_BINDING, f"{self.name}/{self.namespace}"
        role = f"{self.role_kind} {go_quote(self.role_name)}"
        return f"{kind} {go_quote(name)} of {role} to {subject}"


class Role(NamedTuple):
    """A Role, or a ClusterRole if `namespace` is empty."""

    namespace: str
    name: str
    rules: tuple[PolicyRule, ...]

    @classmethod
    def of(cls, document: Document) -> Role:
        """Returns the role that a document describes. Raises Malformed."""
        metadata = document["metadata"]
        return cls(metadata.get("namespace", ""), metadata["name"], parse_rules(document))


def parse(kind: str, document: Document) -> Role | Binding:
    """Returns the role or binding in a document. Raises Malformed."""
    return (Role if kind in (ROLE, CLUSTER_ROLE) else Binding).of(document)


def _subject(document: Document, namespace: str) -> Subject:
    if document["kind"] == "ServiceAccount":
        return Subject(document["kind"], document["name"], document.get("namespace") or namespace)
    return Subject(document["kind"], document["name"])


def _is_one_of(user: UserInfo, principal: tuple[bool, str]) -> bool:
    is_group, name = principal
    return name in user.groups if is_group else name == user.name


class Grant(NamedTuple):
    """A rule that a binding grants to a user."""

    rule: PolicyRule
    binding: Binding


class RbacPolicy:
    """The known roles and bindings.

    generation: a number that grows whenever a decision may have changed.
    """

    def __init__(self, group: str) -> None:
        """group: the API group of RBAC's own types."""
        self._group = group
        self._roles: dict[tuple[str, str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        # The names of bindings, sorted, by namespace and principal.
        self._bound: dict[str, dict[tuple[bool, str], list[str]]] = defaultdict(lambda: defaultdict(list))
        self.generation = 0

    # ---- updates

    def put(self, kind: str, document: Document) -> None:
        """Add or replace a role or binding. Raises Malformed, and then changes nothing."""
        self.put_parsed(kind, parse(kind, document))

    def put_parsed(self, kind: str, found: Role | Binding) -> None:
        """Add or replace a role or binding."""
        namespace, name = found.namespace, found.name
        if isinstance(found, Role):
            if self._roles.get((kind, namespace, name)) == found.rules:
                return
            self._roles[kind, namespace, name] = found.rules
        else:
            if self._bindings.get((namespace, name)) == found:
                return
            self._unbind(namespace, name)
            self._bindings[namespace, name] = found
            bound = self._bound[namespace]
            for principal in {subject.principal for subject in found.subjects}:
                insort(bound[principal], name)
        self.generation += 1

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove a role or binding, if it is known."""
        if kind in (ROLE, CLUSTER_ROLE):
            self._roles.pop((kind, namespace, name), None)
        else:
            self._unbind(namespace, name)
        self.generation += 1

    def _unbind(self, namespace: str, name: str) -> None:
        binding = self._bindings.pop((namespace, name), None)
        if binding is None:
            return
        bound = self._bound[namespace]
        for principal in {subject.principal for subject in binding.subjects}:
            names = bound[principal]
            del names[bisect_left(names, name)]
            if not names:
                del bound[principal]
        if not bound:
            del self._bound[namespace]

    # ---- questions

    def grants(self, user: UserInfo, namespace: str) -> Iterator[Grant | NotFound]:
        """Yields the grants of a user: first those in the whole cluster, then those in a namespace, if given.

        A binding whose role does not exist yields the NotFound. A role is yielded only once, as it may be
        bound to the same user thousands of times. If the policy changes meanwhile, each grant holds when it
        is yielded, and grants that hold throughout are all yielded.
        """
        seen: set[tuple[str, str, str]] = set()
        principals = ((False, user.name), *((True, group) for group in user.groups))
        for where in ("", namespace) if namespace else ("",):
            if (bound := self._bound.get(where)) is None:
                continue
            # Copies, which do not change.
            lists = [list(names) for principal in principals if (names := bound.get(principal)) is not None]
            previous = ""
            for name in lists[0] if len(lists) == 1 else heapq.merge(*lists):
                if name == previous:
                    continue
                previous = name
                binding = self._bindings.get((where, name))
                if binding is None:
                    continue
                role = binding.role_kind, where if binding.role_kind == ROLE else "", binding.role_name
                if role in seen:
                    continue
                seen.add(role)
                try:
                    rules = self.role_rules(binding.role_kind, where, binding.role_name)
                except NotFound as missing:
                    yield missing
                    continue
                for rule in rules:
                    yield Grant(rule, binding)

    def rules_of(
        self, user: UserInfo, namespace: str, words_max: float = math.inf
    ) -> tuple[list[PolicyRule], list[str]]:
        """Returns the rules granted to a user in a namespace, or in the cluster, and the errors on the way.

        May be called in a thread, like `grants`. Raises TooManyWords if they have more words.
        """
        rules, problems = [], []
        for found in self.grants(user, namespace):
            if isinstance(found, Grant):
                rules.append(found.rule)
                words_max -= sum(map(len, found.rule))
                if words_max < 0:
                    raise TooManyWords
            else:
                problems.append(str(found))
        return rules, problems

    def bindings_elsewhere(self, user: UserInfo, namespace: str) -> Iterator[Binding]:
        """Yields the bindings to a user in all namespaces but one."""
        principals = ((False, user.name), *((True, group) for group in user.groups))
        for where, bound in self._bound.items():
            if where not in ("", namespace):
                names = {name for principal in principals for name in bound.get(principal, ())}
                yield from (self._bindings[where, name] for name in sorted(names))

    def all_bindings(self) -> Iterator[Binding]:
        return iter(self._bindings.values())

    def all_roles(self) -> Iterator[tuple[str, str, str, tuple[PolicyRule, ...]]]:
        """Yields the kind, namespace, name and rules of each role."""
        return ((*key, rules) for key, rules in self._roles.items())

    def role_rules(self, kind: str, namespace: str, name: str) -> tuple[PolicyRule, ...]:
        """Returns the rules of a role. namespace: the role's, or that of its binding. Raises NotFound."""
        rules = self._roles.get((kind, namespace if kind == ROLE else "", name))
        if rules is None:
            # Kubernetes' listers name what they do not find by kind.
            raise NotFound(GroupResource(self._group, kind.lower()), name)
        return rules
