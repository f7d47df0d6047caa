"""The rules of roles that aggregate others.

Source: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller_test.go. Row O08.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.controllers.cluster_role_aggregation import ClusterRole, ClusterRoleAggregation, aggregated
from apiserver.meta.brand import Brand
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import VALUE_BYTES_MAX
from tests.support.eventually import eventually
from tests.support.in_process import PREFIX, TABLE, caught_up, resource, running, server


def rule(word: str) -> PolicyRule:
    return PolicyRule(("get",), ("",), (word,))


def role(
    *words: str, labels: Mapping[str, str] | None = None, selectors: list[Any] | None = None
) -> ClusterRole:
    return ClusterRole.of(
        {
            "metadata": {"name": "x", **({"labels": labels} if labels else {})},
            "rules": [rule(word).document() for word in words],
            **({"aggregationRule": {"clusterRoleSelectors": selectors}} if selectors else {}),
        }
    )


def to(name: str) -> dict[str, str]:
    return {f"to-{name}": "yes"}


def of(name: str) -> dict[str, Any]:
    return {"matchLabels": to(name)}


CASES: Final = {
    "roles of their own rules are left": ({"a": role("x"), "b": role("y", labels=to("a"))}, {}),
    "those that are selected, in the order of their names": (
        {
            "sum": role(selectors=[of("sum")]),
            "b": role("b", labels=to("sum")),
            "a": role("a2", "a1", labels=to("sum")),
            "other": role("o", labels=to("another")),
        },
        {"sum": ["a2", "a1", "b"]},
    ),
    "no rule twice": (
        {
            "sum": role(selectors=[of("sum")]),
            "a": role("x", "y", labels=to("sum")),
            "b": role("y", "x", "z", labels=to("sum")),
        },
        {"sum": ["x", "y", "z"]},
    ),
    "selectors one after the other": (
        {
            "sum": role(selectors=[of("second"), of("first")]),
            "a": role("a", labels=to("first")),
            "b": role("b", labels=to("second")),
        },
        {"sum": ["b", "a"]},
    ),
    "an expression": (
        {
            "sum": role(
                selectors=[{"matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}]}]
            ),
            "a": role("a", labels={"tier": "y"}),
            "b": role("b", labels={"tier": "z"}),
        },
        {"sum": ["a"]},
    ),
    "rules that were there before are gone": ({"sum": role("old", selectors=[of("sum")])}, {"sum": []}),
    "never itself": (
        {"sum": role("old", labels=to("sum"), selectors=[of("sum")]), "a": role("a", labels=to("sum"))},
        {"sum": ["a"]},
    ),
    "through another, whatever the names": (
        {
            "a-top": role(selectors=[of("top")]),
            "b-middle": role(labels=to("top"), selectors=[of("middle")]),
            "c-leaf": role("x", labels=to("middle")),
        },
        {"a-top": ["x"], "b-middle": ["x"]},
    ),
    "all, by a selector that says nothing": (
        {"sum": role(selectors=[{}]), "a": role("a"), "b": role("b")},
        {"sum": ["a", "b"]},
    ),
    "two of each other come to an end": (
        {
            "a": role("x", labels=to("b"), selectors=[of("a")]),
            "b": role("x", labels=to("a"), selectors=[of("b")]),
        },
        {"a": ["x"], "b": ["x"]},
    ),
}


@pytest.mark.parametrize(("roles", "expected"), CASES.values(), ids=CASES)
def test_what_is_aggregated(roles: dict[str, ClusterRole], expected: dict[str, list[str]]) -> None:
    assert aggregated(roles) == {name: tuple(map(rule, words)) for name, words in expected.items()}


DAMAGED: Final = (
    b"no JSON",
    b'{"metadata":{"name":"damaged"',
    b'{"metadata":{"name":"damaged","labels":["all"]}}',
    b'{"metadata":{"name":"damaged"},"rules":[null]}',
    b'{"metadata":{"name":"damaged"},"aggregationRule":7}',
    b'{"metadata":{"name":"damaged"},"aggregationRule":{"clusterRoleSelectors":[null]}}',
)


async def test_neither_damage_nor_size_stops_the_others(store: EmbeddedStore) -> None:
    roles = resource("clusterroles")
    for number, damaged in enumerate(DAMAGED):
        await store.create(f"{PREFIX}/rbac.authorization.k8s.io/clusterroles/damaged-{number}", damaged)
    async with server(store) as registry:

        async def create(name: str, label: str = "", selector: str = "", size: int = 1) -> None:
            document: dict[str, Any] = {"metadata": {"name": name}, "rules": []}
            if label:
                document["metadata"]["labels"] = to(label)
                document["rules"] = [rule(name[0] * size).document()]
            if selector:
                document["aggregationRule"] = {"clusterRoleSelectors": [of(selector)]}
            await registry.create(WriteRequest(resource=roles, namespace=""), ProposedObject(document))

        await create("a", "all", size=VALUE_BYTES_MAX // 2)
        await create("b", "all", size=VALUE_BYTES_MAX // 2)
        await create("c", "some")
        await create("all-of-them", selector="all")
        await create("some-of-them", selector="some")
        await caught_up(registry)
        async with running(ClusterRoleAggregation(registry, ServedTable(TABLE), Brand()).run()):

            def is_aggregated() -> bool:
                found = registry.cache.get_cached(registry.key(roles, "", "some-of-them"))
                assert found is not None
                assert found.value is not None
                return bool(found.value.document().get("rules") == [rule("c").document()])

            await eventually(is_aggregated)
