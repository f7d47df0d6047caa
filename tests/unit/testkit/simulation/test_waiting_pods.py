"""Which pods that wait for a node are tried together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.scheduling import PodRequirements
from apiserver.testkit.simulation.waiting_pods import WaitingPods, signature_of
from tests.unit.testkit.simulation.pods import pod


def terms(*listed: Document) -> Document:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(listed)}}
    return {"nodeAffinity": required}


TERM: Final = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}


def container(**fields: Any) -> Callable[[Document], None]:
    return lambda found: found["spec"]["containers"][0].update(fields)


def spec(**fields: Any) -> Callable[[Document], None]:
    return lambda found: found["spec"].update(fields)


def named(name: str) -> Callable[[Document], None]:
    return lambda found: found["metadata"].update(name=name, labels={"app": name}, namespace=name)


# What is changed of a pod, and whether it still fits on the same nodes.
CHANGES: Final[dict[str, tuple[Callable[[Document], None], bool]]] = {
    "its name, labels and namespace": (named("other"), True),
    "its image": (container(image="other"), True),
    "what it prefers": (spec(affinity={"podAntiAffinity": {}}), True),
    "a selector": (spec(nodeSelector={"disk": "ssd"}), False),
    "an affinity": (spec(affinity=terms(TERM)), False),
    "an affinity that nothing meets": (spec(affinity=terms()), False),
    "a toleration": (spec(tolerations=[{"operator": "Exists"}]), False),
    "requests": (container(resources={"requests": {"cpu": "1"}}), False),
    "a resource of the same amount": (container(resources={"requests": {"memory": "1"}}), False),
    "overhead": (spec(overhead={"cpu": "1"}), False),
    "a host port": (container(ports=[{"containerPort": 80, "hostPort": 80}]), False),
    "another port": (container(ports=[{"containerPort": 80}]), True),
}


@pytest.mark.parametrize(("change", "is_alike"), CHANGES.values(), ids=CHANGES)
def test_signatures(change: Callable[[Document], None], is_alike: bool) -> None:
    one = pod()
    other = copy.deepcopy(one)
    change(other)
    signatures = {signature_of(each, PodRequirements.of(each)) for each in (one, other)}
    assert (len(signatures) == 1) == is_alike


def test_alike_pods_are_a_group() -> None:
    waiting = WaitingPods()
    group = waiting.join(("default", "a"), pod())
    assert waiting.join(("default", "b"), pod()) is group
    assert waiting.join(("default", "a"), pod()) is group
    assert waiting.join(("default", "c"), pod(nodeSelector={"disk": "ssd"})) is not group
    assert (len(waiting), len(waiting.groups())) == (3, 2)
    assert group.first == ("default", "a")


def test_a_pod_that_has_changed_is_in_another_group() -> None:
    waiting = WaitingPods()
    before = waiting.join(("default", "a"), pod())
    waiting.join(("default", "b"), pod())
    after = waiting.join(("default", "a"), pod(nodeSelector={"disk": "ssd"}))
    assert (list(before.keys), list(after.keys)) == ([("default", "b")], [("default", "a")])


def test_a_group_without_pods_is_gone() -> None:
    waiting = WaitingPods()
    group = waiting.join(("default", "a"), pod())
    group.refuse("why")
    waiting.join(("default", "b"), pod())
    assert waiting.leave(("default", "a")) is group
    assert waiting.leave(("default", "b")) is None
    assert waiting.leave(("default", "b")) is None
    assert (len(waiting), waiting.groups(), list(waiting)) == (0, [], [])
    assert waiting.join(("default", "a"), pod()).may_fit
