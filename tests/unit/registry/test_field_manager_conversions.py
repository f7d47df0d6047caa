"""Conversions by a webhook for the owners of fields: asked together, made once, and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

import pytest

from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import ServiceUnavailable
from apiserver.registry import field_manager_conversions
from apiserver.registry.field_manager_conversions import (
    ConversionsNeeded,
    FieldManagerConversions,
    run_converting,
)
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import TooDeep

Document = dict[str, Any]
OFFLOAD: Final = Offload()


class _Codec:
    """Converts to one version. asked: the documents of each request; None: a webhook that fails."""

    def __init__(self, version: str, *, fails: bool = False) -> None:
        self._version, self._fails = version, fails
        self.asked: list[Sequence[Document]] = []

    async def converted(self, documents: Sequence[Document]) -> Sequence[Document]:
        self.asked.append(documents)
        if self._fails:
            raise ServiceUnavailable("out of order")
        return [{**each, "apiVersion": self._version, "unknown": 1} for each in documents]

    def convert(self, document: Document, other: _Codec) -> Document:
        del document["unknown"]
        return document


class _Version:
    def __init__(self, name: str, *, fails: bool = False) -> None:
        self.api_version, self.codec = name, _Codec(name, fails=fails)


def resource(version: _Version) -> ServedResource:
    return cast(ServedResource, version)


def document(spec: Any = 1) -> Document:
    return {"apiVersion": "v1", "metadata": {"name": "a"}, "spec": spec}


def in_version(name: str, spec: Any = 1) -> Document:
    return {**document(spec), "apiVersion": name}


def by_name(found: Document) -> Document:
    return {**found, "apiVersion": "by name"}


async def test_what_is_required_is_asked_for_together_and_then_known() -> None:
    two, three = _Version("v2"), _Version("v3")
    conversions = FieldManagerConversions(is_required=True)
    documents = [document(1), document(2)]
    with pytest.raises(ConversionsNeeded) as needed:
        conversions.require(documents, [resource(two), resource(three)])
    await needed.value.make(OFFLOAD)
    conversions.require(documents, [resource(two), resource(three)])
    for version in (two, three):
        assert version.codec.asked == [documents]
        converted = [conversions.convert(each, to=resource(version), by_name=by_name) for each in documents]
        assert converted == [in_version(version.api_version, 1), in_version(version.api_version, 2)]


async def test_one_conversion_is_asked_for_where_it_is_needed() -> None:
    two = _Version("v2")
    conversions = FieldManagerConversions(is_required=True)
    with pytest.raises(ConversionsNeeded) as needed:
        conversions.convert(document(), to=resource(two), by_name=by_name)
    await needed.value.make(OFFLOAD)
    assert conversions.convert(document(), to=resource(two), by_name=by_name) == in_version("v2")
    with pytest.raises(ConversionsNeeded):
        conversions.convert(document(2), to=resource(two), by_name=by_name)


async def test_work_begins_anew_until_it_has_all_conversions() -> None:
    two = _Version("v2")
    conversions = FieldManagerConversions(is_required=True)
    began: list[int] = []

    def work(count: int) -> list[Document]:
        began.append(count)
        return [
            conversions.convert(document(number), to=resource(two), by_name=by_name)
            for number in range(count)
        ]

    found = await run_converting(OFFLOAD, SizeClass.SMALL, work, 2)
    assert found == [in_version("v2", 0), in_version("v2", 1)]
    assert began == [2, 2, 2]


async def test_work_ends_with_a_conversion_that_fails() -> None:
    conversions = FieldManagerConversions(is_required=True)
    work = partial(conversions.require, [document()], [resource(_Version("v2", fails=True))])
    with pytest.raises(ServiceUnavailable, match="out of order"):
        await run_converting(OFFLOAD, SizeClass.SMALL, work)


async def test_a_webhook_does_not_get_managed_fields() -> None:
    two = _Version("v2")
    conversions = FieldManagerConversions(is_required=True)
    owned = document()
    owned["metadata"]["managedFields"] = [{"manager": "a"}]
    with pytest.raises(ConversionsNeeded) as needed:
        conversions.require([owned], [resource(two)])
    await needed.value.make(OFFLOAD)
    assert two.codec.asked == [[document()]]
    assert owned["metadata"]["managedFields"] == [{"manager": "a"}]


async def test_a_failed_conversion_is_reported_if_it_is_required() -> None:
    two = _Version("v2", fails=True)
    with pytest.raises(ConversionsNeeded) as needed:
        FieldManagerConversions(is_required=True).require([document()], [resource(two)])
    with pytest.raises(ServiceUnavailable, match="out of order"):
        await needed.value.make(OFFLOAD)


async def test_after_a_failure_versions_differ_in_their_name_alone() -> None:
    two = _Version("v2", fails=True)
    conversions = FieldManagerConversions(is_required=False)
    with pytest.raises(ConversionsNeeded) as needed:
        conversions.require([document()], [resource(two)])
    await needed.value.make(OFFLOAD)
    conversions.require([document()], [resource(two)])
    assert conversions.convert(document(), to=resource(two), by_name=by_name) == by_name(document())
    assert len(two.codec.asked) == 1


async def test_the_number_of_conversions_for_one_write_is_bounded() -> None:
    two = _Version("v2")
    conversions = FieldManagerConversions(is_required=True)
    for number in range(field_manager_conversions.ROUNDS_MAX + 1):
        with pytest.raises(ConversionsNeeded) as needed:
            conversions.convert(document(number), to=resource(two), by_name=by_name)
        await needed.value.make(OFFLOAD)
    assert conversions.convert(document("x"), to=resource(two), by_name=by_name) == by_name(document("x"))
    assert len(two.codec.asked) == field_manager_conversions.ROUNDS_MAX


def test_what_is_nested_too_deeply_is_refused() -> None:
    spec: Any = 1
    for _ in range(2_000):
        spec = [spec]
    with pytest.raises(TooDeep):
        FieldManagerConversions(is_required=True).require([document(spec)], [resource(_Version("v2"))])
