"""Which rules a write is checked by."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from apiserver.field_errors import FieldError, forbidden
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.registry.write_request import WriteRequest
from apiserver.registry.write_stages import validate_create, validate_update
from apiserver.vocabulary import Document
from tests.support.in_process import resource

NOW: Final = "2026-01-01T00:00:00Z"
META: Final = {"name": "a", "namespace": "n", "creationTimestamp": NOW, "uid": "u", "resourceVersion": "1"}


def grows_only(new: Document, old: Document | None) -> list[FieldError]:
    """What is odd is refused, but where it was odd before."""
    is_new = new["odd"] and not (old or {}).get("odd")
    return [forbidden("odd", "new objects are even")] if is_new else []


KIND: Final = replace(resource("configmaps", ""), strategy=Strategy(validate_ratcheting=grows_only))
REQUEST: Final = WriteRequest(resource=KIND, namespace="n", name="a")


def is_refused(new: bool, old: bool, update: UpdateStrategy | None = None) -> bool:
    changed, stored = ({"metadata": dict(META), "odd": odd} for odd in (new, old))
    request = replace(REQUEST, update=update)
    found = validate_update(request, changed, stored, NOW, is_unchanged=False, is_bounded=True)
    return [error.field for error in found.errors] == ["odd"]


def test_a_stored_object_may_keep_breaking_a_rule_that_ratchets() -> None:
    odd = validate_create(REQUEST, {"metadata": dict(META), "odd": True}, is_bounded=True)
    assert [error.field for error in odd.errors] == ["odd"]
    assert is_refused(new=True, old=False)
    assert not is_refused(new=True, old=True)


def test_a_subresource_with_rules_of_its_own_leaves_such_rules_out() -> None:
    assert not is_refused(new=True, old=False, update=UpdateStrategy())
