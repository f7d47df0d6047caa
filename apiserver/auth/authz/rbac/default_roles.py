"""The default roles and bindings of Kubernetes 1.36, which every cluster has from the start.

They are in default_roles.txt. Rules of features that are off by default are left out, except for types and
paths that their gates switch on; so are migrations from before 1.9 and 1.14, when `admin`, `edit`, `view` and
`system:discovery` had other rules.
Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from apiserver.auth.authz.rbac.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_MINOR
from apiserver.meta.releases.gates import gates_of
from apiserver.meta.vocabulary import Document

# The gates in the table.
GATES: Final = (
    *("ClusterTrustBundle", "ComponentFlagz", "ComponentStatusz", "CompositePodGroup", "DRADeviceTaintRules"),
    *("DRAResourcePoolStatus", "GenericWorkload", "PodCertificateRequest"),
)
_GROUP: Final = "rbac.authorization"


def on_by_default(name: str) -> bool:
    """Returns whether a gate is on in the default release."""
    return gates_of(DEFAULT_MINOR, ()).is_on(name)


def autoupdate_key(brand: Brand) -> str:
    """Returns the annotation that, set to "false", excludes a default role or binding from updates."""
    return f"{_GROUP}.{brand.vendor}.io/autoupdate"


class DefaultObject(NamedTuple):
    """A default role or binding. namespace: empty for a cluster-scoped object. content: the object as
    JSON.
    """

    kind: str
    namespace: str
    name: str
    content: bytes

    def document(self) -> Document:
        """Returns a new copy of the object."""
        document: Document = orjson.loads(self.content)
        return document


def default_objects(brand: Brand, is_on: Callable[[str], bool] = on_by_default) -> tuple[DefaultObject, ...]:
    """Returns all objects, the cluster-scoped ones first, roles before bindings. is_on: returns whether a
    gate is on.
    """
    return _encoded(brand, frozenset(filter(is_on, GATES)))


def role_rules(
    brand: Brand, name: str, is_on: Callable[[str], bool] = on_by_default
) -> tuple[PolicyRule, ...]:
    """Returns the rules of a default ClusterRole. is_on: returns whether a feature gate is on."""
    return next(tuple(each.policy_rules(brand)) for each in table(is_on) if each.name == name)


class DefaultRole(NamedTuple):
    """A role in the table of default roles.

    namespace: empty for a ClusterRole. aggregated_to: the role that aggregates it.

    rules: the words of each rule. bindings: the kinds and names of their subjects, by the binding's name.
    """

    namespace: str
    name: str
    is_aggregate: bool
    aggregated_to: str
    rules: list[list[list[str]]]
    bindings: dict[str, list[list[str]]]

    def policy_rules(self, brand: Brand) -> Iterator[PolicyRule]:
        for verbs, *others in self.rules:
            if len(others) == 1:
                yield PolicyRule(_sorted(verbs), urls=_sorted(others[0]))
            else:
                groups = [_group(brand, each) for each in others[0]]
                yield PolicyRule(_sorted(verbs), _sorted(groups), *map(_sorted, others[1:]))


def table(is_on: Callable[[str], bool]) -> list[DefaultRole]:
    """Reads default_roles.txt. is_on: returns whether a feature gate is on; lines of other gates are left
    out.
    """
    text = pkgutil.get_data(__package__, "default_roles.txt")
    assert text is not None
    roles: list[DefaultRole] = []
    has_role = False
    lines = (line for line in text.decode().splitlines() if line.strip() and "#" not in line)
    for line in lines:
        content, _, gate = line.partition(" if ")
        is_included = not gate or is_on(gate)
        match content.split():
            case ["ClusterRole" | "Role" | "Controller" as kind, name, *options]:
                has_role = is_included
                if has_role:
                    roles.append(_role(kind, name, options))
            case [">", *_] if has_role:
                subjects, _, name = content.partition(">")[2].partition(" as ")
                roles[-1].bindings[name or roles[-1].name] = [
                    each.split() for each in subjects.split(",") if each.strip()
                ]
            case ["+", *words] if has_role and is_included:
                roles[-1].rules[-1][-1] += words
            case _ if has_role and is_included:
                roles[-1].rules.append([words.split() for words in content.split("|")])
    return roles


def _role(kind: str, name: str, options: list[str]) -> DefaultRole:
    if kind == "Controller":
        full_name = f"system:controller:{name}"
        return DefaultRole("", full_name, False, "", [], {full_name: [["ServiceAccount", name]]})
    namespace, _, name = name.rpartition("/") if kind == ROLE else ("", "", name)
    aggregated_to = options[-1] if "->" in options else ""
    return DefaultRole(namespace, name, "aggregates" in options, aggregated_to, [], {})


@lru_cache(maxsize=4)
def _encoded(brand: Brand, gates: frozenset[str]) -> tuple[DefaultObject, ...]:
    roles = table(gates.__contains__)
    documents = (
        document
        for is_namespaced in (False, True)
        for make in (_role_document, _binding_documents)
        for role in roles
        if bool(role.namespace) is is_namespaced
        for document in make(brand, role)
    )
    return tuple(
        DefaultObject(
            each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"], _exact(each)
        )
        for each in documents
    )


def _exact(document: Document) -> bytes:
    """Returns a document as JSON in a copy of its size: the encoder's own bytes keep a buffer of 4 kB."""
    return memoryview(orjson.dumps(document)).tobytes()


def _role_document(brand: Brand, role: DefaultRole) -> Iterator[Document]:
    label = f"{brand.group(_GROUP)}/aggregate-to-"
    document = _document(brand, role, ROLE if role.namespace else CLUSTER_ROLE, role.name)
    if role.aggregated_to:
        document["metadata"]["labels"][f"{label}{role.aggregated_to}"] = "true"
    if role.is_aggregate:
        selector = {"matchLabels": {f"{label}{role.name}": "true"}}
        yield {**document, "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": None}
    else:
        yield {**document, "rules": [rule.document() for rule in role.policy_rules(brand)]}


def _binding_documents(brand: Brand, role: DefaultRole) -> Iterator[Document]:
    group, kind = brand.group(_GROUP), ROLE if role.namespace else CLUSTER_ROLE
    for name, subjects in role.bindings.items():
        document = _document(brand, role, ROLE_BINDING if role.namespace else CLUSTER_ROLE_BINDING, name)
        document["roleRef"] = {"apiGroup": group, "kind": kind, "name": role.name}
        if subjects:
            document["subjects"] = [
                {"kind": kind, "name": subject, "namespace": "kube-system"}
                if kind == "ServiceAccount"
                else {"kind": kind, "apiGroup": group, "name": subject}
                for kind, subject in subjects
            ]
        yield document


def _document(brand: Brand, role: DefaultRole, kind: str, name: str) -> Document:
    metadata: Document = {
        "name": name.format(domain=brand.group_domain),
        "labels": {f"{brand.vendor}.io/bootstrapping": "rbac-defaults"},
        "annotations": {autoupdate_key(brand): "true"},
    }
    if role.namespace:
        metadata["namespace"] = role.namespace
    return {"apiVersion": f"{brand.group(_GROUP)}/v1", "kind": kind, "metadata": metadata}


def _group(brand: Brand, group: str) -> str:
    if group == "core":
        return ""
    return brand.group(group[:-1]) if group.endswith(".") else group


def _sorted(words: list[str]) -> tuple[str, ...]:
    return tuple(sorted(words))
