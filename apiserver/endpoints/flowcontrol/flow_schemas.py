"""FlowSchemas: match requests, and divide them into flows.

Source: k8s.io/apiserver, pkg/util/flowcontrol/rule.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from apiserver.meta.vocabulary import Document, RequestInfo, UserInfo

_ALL: Final = "*"
_ACCOUNT: Final = "system:serviceaccount:"


class Malformed(ValueError):
    """A stored FlowSchema or PriorityLevelConfiguration that cannot be used."""


# Texts of which one has to be equal; None if anything will do.
_Texts: TypeAlias = frozenset[str] | None


class _Subjects(NamedTuple):
    """The subjects of a rule. accounts_in: the prefixes of service account names in namespaces."""

    is_everybody: bool
    users: frozenset[str]
    groups: frozenset[str]
    accounts_in: tuple[str, ...]

    def contain(self, user: UserInfo) -> bool:
        return (
            self.is_everybody
            or user.name in self.users
            or not self.groups.isdisjoint(user.groups)
            or (bool(self.accounts_in) and user.name.startswith(self.accounts_in))
        )


class _ResourceRule(NamedTuple):
    verbs: _Texts
    groups: _Texts
    resources: _Texts
    namespaces: _Texts
    is_cluster_scoped: bool

    def matches(self, target: RequestInfo) -> bool:
        resource = target.resource
        if target.subresource:
            resource = f"{resource}/{target.subresource}"
        if not (
            (self.verbs is None or target.verb in self.verbs)
            and (self.resources is None or resource in self.resources)
            and (self.groups is None or target.group in self.groups)
        ):
            return False
        if not target.namespace:
            return self.is_cluster_scoped
        return self.namespaces is None or target.namespace in self.namespaces


class _PathRule(NamedTuple):
    """A rule for paths. paths: exact paths. below: the prefixes of other paths."""

    verbs: _Texts
    is_any_path: bool
    paths: frozenset[str]
    below: tuple[str, ...]

    def matches(self, target: RequestInfo) -> bool:
        return (self.verbs is None or target.verb in self.verbs) and (
            self.is_any_path or target.path in self.paths or target.path.startswith(self.below)
        )


class _Rule(NamedTuple):
    subjects: _Subjects
    resources: tuple[_ResourceRule, ...]
    paths: tuple[_PathRule, ...]

    def matches(self, user: UserInfo, target: RequestInfo) -> bool:
        if not self.subjects.contain(user):
            return False
        rules: tuple[_ResourceRule | _PathRule, ...] = self.resources if target.is_resource else self.paths
        return any(rule.matches(target) for rule in rules)


class FlowSchema(NamedTuple):
    """A FlowSchema. level: the name of its priority level. distinguisher: ByUser, ByNamespace, or empty."""

    name: str
    uid: str
    level: str
    precedence: int
    distinguisher: str
    rules: tuple[_Rule, ...]

    @classmethod
    def of(cls, document: Document) -> FlowSchema:
        """Returns the FlowSchema that a document describes. Raises Malformed."""
        try:
            meta, spec = document["metadata"], document["spec"]
            return cls(
                name=str(meta["name"]),
                uid=str(meta.get("uid", "")),
                level=str(spec["priorityLevelConfiguration"]["name"]),
                precedence=int(spec.get("matchingPrecedence", 0)),
                distinguisher=str((spec.get("distinguisherMethod") or {}).get("type", "")),
                rules=tuple(_rule(each) for each in spec.get("rules") or ()),
            )
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise Malformed(repr(error)) from None

    @property
    def order(self) -> tuple[int, str]:
        """The sort key of FlowSchemas: a request belongs to the first that matches it."""
        return self.precedence, self.name

    def matches(self, user: UserInfo, target: RequestInfo) -> bool:
        return any(rule.matches(user, target) for rule in self.rules)

    def flow_of(self, user: UserInfo, target: RequestInfo) -> str:
        """Returns the value that distinguishes the request's flow from others of the schema."""
        if self.distinguisher == "ByUser":
            return user.name
        return target.namespace if self.distinguisher == "ByNamespace" else ""


def _rule(rule: Document) -> _Rule:
    return _Rule(
        _subjects(rule.get("subjects") or ()),
        tuple(
            _ResourceRule(
                verbs=_texts(each.get("verbs")),
                groups=_texts(each.get("apiGroups")),
                resources=_texts(each.get("resources")),
                namespaces=_texts(each.get("namespaces")),
                is_cluster_scoped=bool(each.get("clusterScope")),
            )
            for each in rule.get("resourceRules") or ()
        ),
        tuple(_path_rule(each) for each in rule.get("nonResourceRules") or ()),
    )


def _subjects(subjects: Iterable[Document]) -> _Subjects:
    users, groups, accounts_in = set(), set(), set()
    for each in subjects:
        match each:
            case {"kind": "User", "user": {"name": str(name)}}:
                users.add(name)
            case {"kind": "Group", "group": {"name": str(name)}}:
                groups.add(name)
            case {
                "kind": "ServiceAccount",
                "serviceAccount": {"namespace": str(namespace), "name": str(name)},
            }:
                if name == _ALL:
                    accounts_in.add(f"{_ACCOUNT}{namespace}:")
                else:
                    users.add(f"{_ACCOUNT}{namespace}:{name}")
    return _Subjects(
        _ALL in users or _ALL in groups, frozenset(users), frozenset(groups), tuple(sorted(accounts_in))
    )


def _path_rule(rule: Document) -> _PathRule:
    paths = [str(path) for path in rule.get("nonResourceURLs") or ()]
    below = {path.removesuffix("*").removesuffix("/") + "/" for path in paths}
    return _PathRule(_texts(rule.get("verbs")), _ALL in paths, frozenset(paths), tuple(sorted(below)))


def _texts(texts: Iterable[str] | None) -> _Texts:
    found = [str(text) for text in texts or ()]
    return None if found == [_ALL] else frozenset(found)
