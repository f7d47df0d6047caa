"""Definitions on several servers over one etcd: all serve the same, and agree on names and conditions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.api import Api, until_status
from tests.support.definitions import DEFINITIONS, Defined, condition, define, definition, new_group
from tests.support.eventually import until

pytestmark = pytest.mark.etcd


def _on(api: Api, defined: Defined) -> Defined:
    """The same definition, asked for at another server, which serves it."""
    path = f"/apis/{defined.group}/v1/widgets"
    until_status(200, lambda: api.get(path), "served there")
    return Defined(api, defined.group, defined.name, defined.kind)


def test_what_is_defined_here_is_served_there(replicas: tuple[Api, Api]) -> None:
    one, two = replicas
    here = define(one, definition(new_group()))
    there = _on(two, here)
    made = there.create("a", spec={"a": "x"}).ok()
    assert one.get(f"{here.objects()}/a").ok() == made
    two.delete(there.path).ok()
    for api in replicas:
        until_status(404, lambda api=api: api.get(here.path))  # type: ignore[misc]
        until(
            lambda api=api: api.get(here.objects()),  # type: ignore[misc]
            lambda answer: answer.body == b"404 page not found\n",
        )


def _settled(api: Api, path: str) -> Any:
    """A definition whose names have been looked at."""
    return until(lambda: api.get(path), lambda answer: bool(condition(answer.json, "NamesAccepted"))).ok()


def test_conditions_are_written_once_whoever_writes_them(replicas: tuple[Api, Api]) -> None:
    """Every server works them out; the first one to write is followed by the others."""
    for api in (*replicas, *replicas):
        defined = define(api, definition(new_group()))
        found = [_settled(each, defined.path) for each in replicas]
        assert [each["type"] for each in found[0]["status"]["conditions"]] == ["NamesAccepted", "Established"]
        assert found[0] == found[1]


def test_two_that_want_the_same_names_at_the_same_time(replicas: tuple[Api, Api]) -> None:
    """One of them gets them, and both servers say which."""
    group = new_group()
    documents = [definition(group, plural=plural, kind="Same") for plural in ("firsts", "seconds")]
    with ThreadPoolExecutor(2) as threads:
        posts = threads.map(
            lambda pair: pair[0].post(DEFINITIONS, pair[1]), zip(replicas, documents, strict=True)
        )
        assert [each.status for each in posts] == [201, 201]
    paths = [f"{DEFINITIONS}/{each['metadata']['name']}" for each in documents]
    statuses = [
        [condition(_settled(api, path), "NamesAccepted")["status"] for path in paths] for api in replicas
    ]
    assert sorted(statuses[0]) == ["False", "True"]
    assert statuses[0] == statuses[1]
