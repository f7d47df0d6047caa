"""Who sees to it that a pod can go, as pods and templates of 1.37 say it. Rows H09, I13.

Source: k8s.io/api/core/v1, the declarative rules of EvictionResponder (release 1.37).
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.pod_specs.validation import validate_eviction_responders
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.builtin import BuiltinSchemas
from tests.unit.catalogue.served_kinds import assert_texts_begin

FIRST: Final = "spec.evictionResponders[0]"
RESERVED: Final = "domain names *.k8s.io, *.kubernetes.io are reserved"
SLOT: Final = "priorities 0-999 are reserved for responders with *.k8s.io suffix"


def responder(name: str = "foo.example.com/bar", priority: int | None = 10_000) -> Document:
    return {"name": name, "priority": priority}


# Responders, and what is wrong with them: the beginnings.
RESPONDERS: Final[dict[str, tuple[list[Document], list[str]]]] = {
    "none": ([], []),
    "one": ([responder()], []),
    "of the least and the highest priority": ([responder("a.b/c", 1000), responder("a.b/d", 100_000)], []),
    "with one priority": ([responder("a.b/c"), responder("a.b/d")], []),
    "a domain of numbers": ([responder("5.3.5.9/bar")], []),
    "one too many": (
        [responder(f"{index}.example.com/a") for index in range(11)],
        ["spec.evictionResponders: Too many: 11: must have at most 10 items"],
    ),
    "one twice": (
        [responder(), responder("a.b/c"), responder()],
        ['spec.evictionResponders[2]: Duplicate value: "foo.example.com/bar"'],
    ),
    "without a name": ([responder("")], [f"{FIRST}.name: Required value"]),
    "without a domain": ([responder("a")], [f'{FIRST}.name: Invalid value: "a": must include a prefix']),
    "underscores in the domain": (
        [responder("a_b.example.com/a")],
        [f'{FIRST}.name: Invalid value: "a_b.example.com/a": prefix part'],
    ),
    "a reserved domain": (
        [responder("k8s.io/key")],
        [f'{FIRST}.name: Invalid value: "k8s.io/key": {RESERVED}'],
    ),
    "without a priority": ([responder(priority=None)], [f"{FIRST}.priority: Required value"]),
    "a negative priority": (
        [responder(priority=-1)],
        [f"{FIRST}.priority: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a priority that is too high": (
        [responder(priority=100_001)],
        [f"{FIRST}.priority: Invalid value: 100001: must be less than or equal to 100000"],
    ),
    "a reserved priority": ([responder(priority=999)], [f"{FIRST}.priority: Invalid value: 999: {SLOT}"]),
    "a reserved one of a reserved domain": (
        [responder("dev.kubernetes.io/key", 0)],
        [
            f'{FIRST}.name: Invalid value: "dev.kubernetes.io/key": {RESERVED}',
            f"{FIRST}.priority: Invalid value: 0: {SLOT}",
        ],
    ),
}


@pytest.mark.parametrize(("responders", "errors"), RESPONDERS.values(), ids=RESPONDERS)
def test_errors_in_responders(responders: list[Document], errors: list[str]) -> None:
    found = validate_eviction_responders("spec", {"evictionResponders": responders})
    assert_texts_begin([*map(str, found)], errors)


def strategy(group: str, resource: str, **gates: bool) -> Strategy:
    catalogue = Catalogue(
        Brand(), BuiltinSchemas((1, 37)), release=EmulatedRelease.of(37), gates=FeatureGates(37, gates)
    )
    found = catalogue.resources().find(group, "v1", resource)
    assert found is not None
    return found.strategy


POD: Final = {"evictionResponders": [responder()]}
TEMPLATE: Final = {"template": {"spec": POD}}
# Where they are in what has pods, or templates of some.
KINDS: Final[dict[str, tuple[str, Document]]] = {
    "pods": ("", {"spec": POD}),
    "podtemplates": ("", TEMPLATE),
    "replicationcontrollers": ("", {"spec": TEMPLATE}),
    "daemonsets": ("apps", {"spec": TEMPLATE}),
    "deployments": ("apps", {"spec": TEMPLATE}),
    "replicasets": ("apps", {"spec": TEMPLATE}),
    "statefulsets": ("apps", {"spec": TEMPLATE}),
    "jobs": ("batch", {"spec": TEMPLATE}),
    "cronjobs": ("batch", {"spec": {"jobTemplate": {"spec": TEMPLATE}}}),
}


def specs(document: Any) -> list[Document]:
    """The responders that are anywhere in a document."""
    if not isinstance(document, dict):
        return []
    found = document.get("evictionResponders") or []
    return found + [each for value in document.values() for each in specs(value)]


@pytest.mark.parametrize(("resource", "group", "fields"), [(name, *kind) for name, kind in KINDS.items()])
def test_while_the_feature_is_off_only_what_has_some_keeps_them(
    resource: str, group: str, fields: Document
) -> None:
    def document() -> Document:
        return {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, **copy.deepcopy(fields)}

    off, on = strategy(group, resource), strategy(group, resource, EvictionRequestAPI=True)
    for rules, count in ((off, 0), (on, 1)):
        made = document()
        rules.prepare_create(made)
        assert len(specs(made)) == count
    has_none, has_some = document(), document()
    off.prepare_create(has_none)
    for old, count in ((has_none, 0), (has_some, 1)):
        new = document()
        off.update.prepare(new, old)
        assert len(specs(new)) == count
