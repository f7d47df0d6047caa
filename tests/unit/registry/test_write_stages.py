"""Which rules a write is checked by."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from apiserver.meta.field_errors import FieldError, forbidden
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Findings, Strategy, UpdateStrategy
from apiserver.registry.write_request import WriteRequest
from apiserver.registry.write_stages import validate_create, validate_update
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
    request = REQUEST._replace(update=update)
    found = validate_update(request, changed, stored, NOW, is_unchanged=False, is_bounded=True)
    return [error.field for error in found.errors] == ["odd"]


# Whether a write changes anything, whether the rules compare new values with old ones, and whether it is
# checked.
CHECKED: Final[dict[str, tuple[bool, bool | None, bool]]] = {
    "a change": (False, None, True),
    "no change": (True, None, False),
    "no change, and rules that compare nothing": (True, False, False),
    "no change, and rules that compare": (True, True, True),
}


@pytest.mark.parametrize(("is_unchanged", "compares", "is_checked"), CHECKED.values(), ids=CHECKED)
def test_r01_what_does_not_change_is_checked_by_rules_that_compare(
    is_unchanged: bool, compares: bool | None, is_checked: bool
) -> None:
    def fails(new: Document, old: Document | None, errors: object, is_bounded: bool) -> Findings:
        return Findings([forbidden("spec", "it does not grow")])

    compares_old = None if compares is None else lambda: compares
    update = UpdateStrategy(expressions=fails, compares_old=compares_old)
    document = {"metadata": dict(META), "odd": False}
    request = REQUEST._replace(update=update)
    found = validate_update(request, document, document, NOW, is_unchanged=is_unchanged, is_bounded=True)
    assert bool(found.errors) == is_checked


def test_a_stored_object_may_keep_breaking_a_rule_that_ratchets() -> None:
    odd = validate_create(REQUEST, {"metadata": dict(META), "odd": True}, is_bounded=True)
    assert [error.field for error in odd.errors] == ["odd"]
    assert is_refused(new=True, old=False)
    assert not is_refused(new=True, old=True)


def test_a_subresource_with_rules_of_its_own_leaves_such_rules_out() -> None:
    assert not is_refused(new=True, old=False, update=UpdateStrategy())


_LABEL: Final = "metadata.labels"
_FINALIZER: Final = "metadata.finalizers"
_STRICT: Final = "metadata.finalizers[0]"
# How often the object and its change are checked, and the fields of the causes in their order.
REPEATED: Final[dict[tuple[int, int], list[str]]] = {
    (1, 2): [_LABEL, _FINALIZER, _LABEL, _LABEL, _STRICT],
    (2, 1): [_LABEL, _FINALIZER, _LABEL, _LABEL, _FINALIZER, _STRICT],
    (1, 1): [_LABEL, _FINALIZER, _LABEL],
    (1, 0): [_LABEL, _FINALIZER],
}


@pytest.mark.parametrize(("checks", "fields"), REPEATED.items(), ids=map(str, REPEATED))
def test_causes_of_metadata_are_repeated_as_kubernetes_repeats_them(
    checks: tuple[int, int], fields: list[str]
) -> None:
    update = UpdateStrategy(object_checks=checks[0], change_checks=checks[1])
    wrong = {"metadata": {**META, "labels": {"a": "-"}, "finalizers": ["-"]}, "odd": False}
    stored = {"metadata": dict(META), "odd": False}
    request = REQUEST._replace(update=update)
    found = validate_update(request, wrong, stored, NOW, is_unchanged=False, is_bounded=True)
    assert [error.field for error in found.errors] == fields
