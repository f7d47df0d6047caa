"""How many Events pass, and which of them share a limit."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.admission.chain import AdmissionAttributes, Operation
from apiserver.admission.configuration.event_rate_limit import EventLimit
from apiserver.admission.plugins.event_rate_limit import EventRateLimit
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import GroupResource, UserInfo
from tests.support.in_process import TABLE

EVENTS: Final = TABLE.find("", "v1", "events")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def attributes(*, user: str = "u", namespace: str = "n", is_dry_run: bool = False) -> AdmissionAttributes:
    assert EVENTS is not None
    who = UserInfo(user)
    return AdmissionAttributes(Operation.CREATE, EVENTS, namespace, "", who, Offload(), is_dry_run=is_dry_run)


def event(name: str = "o", component: str = "c") -> dict[str, Any]:
    involved = {"kind": "Pod", "namespace": "n", "name": name, "uid": "1", "apiVersion": "v1"}
    return {"metadata": {"name": "e"}, "involvedObject": involved, "source": {"component": component}}


async def passes(plugin: EventRateLimit, document: Any = None, **who: Any) -> bool:
    try:
        await plugin.validate(attributes(**who), document or event(), None)
    except TooManyRequests:
        return False
    return True


async def test_a_bucket_is_emptied_and_filled() -> None:
    clock = Clock()
    plugin = EventRateLimit([EventLimit("Server", qps=2, burst=3)], Brand(), clock)
    assert [await passes(plugin) for _ in range(4)] == [True, True, True, False]
    clock.now += 0.4
    assert not await passes(plugin)
    clock.now += 0.2
    assert [await passes(plugin) for _ in range(2)] == [True, False]
    clock.now += 3_600
    assert [await passes(plugin) for _ in range(4)] == [True, True, True, False], "never more than the burst"


async def test_a_refusal_names_the_limit() -> None:
    plugin = EventRateLimit([EventLimit("Namespace", 1, 1)], Brand(), Clock())
    assert await passes(plugin)
    with pytest.raises(TooManyRequests, match=r"^Too many requests: limit reached on type Namespace for "):
        await plugin.validate(attributes(), event(), None)


SHARED: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "Server": ("Server", {"user": "v", "namespace": "m"}, {}),
    "Namespace": ("Namespace", {"user": "v"}, {"namespace": "m"}),
    "User": ("User", {"namespace": "m"}, {"user": "v"}),
    "SourceAndObject": ("SourceAndObject", {"user": "v"}, {"document": event("p")}),
    "SourceAndObject, of another source": ("SourceAndObject", {}, {"document": event(component="d")}),
}


@pytest.mark.parametrize(("type_", "same", "other"), SHARED.values(), ids=SHARED)
async def test_who_shares_a_limit(type_: str, same: dict[str, Any], other: dict[str, Any]) -> None:
    plugin = EventRateLimit([EventLimit(type_, 1, 1)], Brand(), Clock())
    assert await passes(plugin)
    assert not await passes(plugin, **same)
    if other:
        assert await passes(plugin, **other)


async def test_a_dry_run_takes_no_token() -> None:
    plugin = EventRateLimit([EventLimit("Server", 1, 1)], Brand(), Clock())
    assert all([await passes(plugin, is_dry_run=True) for _ in range(3)])
    assert await passes(plugin)
    assert await passes(plugin, is_dry_run=True)


async def test_the_buckets_used_last_are_kept() -> None:
    plugin = EventRateLimit([EventLimit("User", 1, 1, cache_size=2)], Brand(), Clock())
    assert [await passes(plugin, user=user) for user in ("a", "b", "a", "c")] == [True, True, False, True]
    assert not await passes(plugin, user="a")
    assert await passes(plugin, user="b"), "which was forgotten"


async def test_every_limit_is_asked() -> None:
    """Also after one has refused: its bucket must not be the fuller for it."""
    limits = [EventLimit("Namespace", 1, 1), EventLimit("Server", 1, 3)]
    plugin = EventRateLimit(limits, Brand(), Clock())
    assert [await passes(plugin) for _ in range(3)] == [True, False, False]
    assert not await passes(plugin, namespace="m")


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.UPDATE])
def test_events_of_both_groups_count(group: str, operation: Operation) -> None:
    plugin = EventRateLimit([], Brand())
    assert plugin.handles(GroupResource(group, "events"), "", operation)
    assert not plugin.handles(GroupResource(group, "pods"), "", operation)
    assert not plugin.handles(GroupResource(group, "events"), "", Operation.DELETE)
