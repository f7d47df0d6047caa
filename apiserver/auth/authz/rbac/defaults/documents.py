"""Builds the objects of the default roles and bindings for a brand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import orjson

from apiserver.auth.authz.rbac.defaults import namespace_roles
from apiserver.auth.authz.rbac.defaults.gated_roles import GATES, all_roles, on_by_default
from apiserver.auth.authz.rbac.defaults.notation import Bindings, DefaultRole, Roles, RuleRow
from apiserver.auth.authz.rbac.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Subject
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document


def autoupdate_key(brand: Brand) -> str:
    """The annotation that, set to "false", keeps a default role or binding from being added to."""
    return f"rbac.authorization.{brand.vendor}.io/autoupdate"


class DefaultObject(NamedTuple):
    """A default role or binding. namespace: empty for one of the cluster. content: all of it, as JSON."""

    kind: str
    namespace: str
    name: str
    content: bytes

    def document(self) -> Document:
        """Returns a new copy of the object."""
        document: Document = orjson.loads(self.content)
        return document


def default_objects(brand: Brand, is_on: Callable[[str], bool] = on_by_default) -> tuple[DefaultObject, ...]:
    """Returns all objects: those of the cluster first, roles before bindings.

    is_on: whether a feature gate is.
    """
    return _encoded(brand, frozenset(filter(is_on, GATES)))


@lru_cache(maxsize=4)
def _encoded(brand: Brand, gates: frozenset[str]) -> tuple[DefaultObject, ...]:
    return tuple(
        DefaultObject(
            document["kind"],
            document["metadata"].get("namespace", ""),
            document["metadata"]["name"],
            orjson.dumps(document),
        )
        for document in _Builder(brand, *all_roles(gates.__contains__)).documents()
    )


def role_rules(
    brand: Brand, name: str, is_on: Callable[[str], bool] = on_by_default
) -> tuple[PolicyRule, ...]:
    """Returns the rules of a default ClusterRole. is_on: whether a feature gate is."""
    roles, bindings = all_roles(is_on)
    return tuple(map(_Builder(brand, roles, bindings).rule, roles[name].rows))


class _Builder:
    def __init__(self, brand: Brand, cluster_roles: Roles, cluster_bindings: Bindings) -> None:
        self._brand, self._all_roles, self._bindings = brand, cluster_roles, cluster_bindings
        self._group = brand.group("rbac.authorization")

    def documents(self) -> Iterator[Document]:
        yield from self._roles(CLUSTER_ROLE, "", self._all_roles)
        yield from self._cluster_bindings(self._bindings)
        for namespace, in_namespace in namespace_roles.ROLES.items():
            yield from self._roles(ROLE, namespace, in_namespace)
        for namespace, bindings_there in namespace_roles.BINDINGS.items():
            for each in bindings_there:
                document = self._document(ROLE_BINDING, namespace, each.name)
                yield document | self._role_ref_and_subjects(ROLE, each.role, each.subjects)

    def _roles(self, kind: str, namespace: str, roles: Roles) -> Iterator[Document]:
        for name, role in roles.items():
            name = name.format(domain=self._brand.group_domain)
            document = self._document(kind, namespace, name)
            if role.aggregated_to:
                document["metadata"]["labels"][self._aggregation_label(role.aggregated_to)] = "true"
            yield document | self._rules_of(name, role)

    def _rules_of(self, name: str, role: DefaultRole) -> Document:
        if role.is_aggregate:
            selector = {"matchLabels": {self._aggregation_label(name): "true"}}
            return {"aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": None}
        return {"rules": [self.rule(row).document() for row in role.rows]}

    def _cluster_bindings(self, bindings: Bindings) -> Iterator[Document]:
        for name, subjects in bindings.items():
            document = self._document(CLUSTER_ROLE_BINDING, "", name)
            yield document | self._role_ref_and_subjects(CLUSTER_ROLE, name, subjects)

    def _document(self, kind: str, namespace: str, name: str) -> Document:
        metadata: Document = {
            "name": name,
            "labels": {f"{self._brand.vendor}.io/bootstrapping": "rbac-defaults"},
            "annotations": {autoupdate_key(self._brand): "true"},
        }
        if namespace:
            metadata["namespace"] = namespace
        return {"apiVersion": f"{self._group}/v1", "kind": kind, "metadata": metadata}

    def _role_ref_and_subjects(self, kind: str, role: str, subjects: tuple[Subject, ...]) -> Document:
        granted: Document = {"roleRef": {"apiGroup": self._group, "kind": kind, "name": role}}
        if subjects:
            granted["subjects"] = [self._subject(subject) for subject in subjects]
        return granted

    def _subject(self, subject: Subject) -> Document:
        if subject.namespace:
            return {"kind": subject.kind, "name": subject.name, "namespace": subject.namespace}
        return {"kind": subject.kind, "apiGroup": self._group, "name": subject.name}

    def rule(self, row: RuleRow) -> PolicyRule:
        return PolicyRule(
            _words(row.verbs),
            tuple(sorted(self._full_group(group) for group in row.groups.split())),
            _words(row.resources),
            _words(row.names),
            _words(row.urls),
        )

    def _full_group(self, group: str) -> str:
        if group == "core":
            return ""
        return self._brand.group(group[:-1]) if group.endswith(".") else group

    def _aggregation_label(self, role: str) -> str:
        return f"{self._group}/aggregate-to-{role}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(sorted(text.split()))
