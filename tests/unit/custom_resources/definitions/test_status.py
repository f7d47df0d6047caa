"""Names and conditions of definitions. Source: apiextensions-apiserver, pkg/controller."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.custom_resources.definitions.conditions import set_definition_condition
from apiserver.custom_resources.definitions.status import NamesInUse, with_status
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import find_condition

NOW: Final = "2026-01-01T00:00:00Z"
LATER: Final = "2026-01-02T00:00:00Z"


def _definition(
    group: str = "example.com", accepted: dict[str, Any] | None = None, **names: Any
) -> dict[str, Any]:
    plain = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "names": {**plain, **names}, "versions": [{"name": "v1", "storage": True}]},
        "status": {"acceptedNames": accepted or {"plural": "", "kind": ""}, "storedVersions": ["v1"]},
    }


def _in_use(*names: dict[str, Any]) -> NamesInUse:
    in_use = NamesInUse()
    for each in names:
        in_use.add(each)
    return in_use


# What others have; the condition's reason and message; names that are accepted all the same.
CONFLICTS: dict[str, tuple[dict[str, Any], str, str, dict[str, str]]] = {
    "nobody has any": ({}, "NoConflicts", "no conflicts found", {"plural": "widgets", "kind": "Widget"}),
    "the plural": (
        {"singular": "widgets"},
        "PluralConflict",
        '"widgets" is already in use',
        {"kind": "Widget"},
    ),
    "the singular": ({"shortNames": ["widget"]}, "SingularConflict", '"widget" is already in use', {}),
    "the short names": (
        {"shortNames": ["w", "x", "y"]},
        "ShortNamesConflict",
        '["w" is already in use, "x" is already in use]',
        {"plural": "widgets", "kind": "Widget"},
    ),
    "the kind": ({"listKind": "Widget"}, "KindConflict", '"Widget" is already in use', {"plural": "widgets"}),
    "the list's kind, which is told last": (
        {"kind": "WidgetList", "singular": "widgets"},
        "ListKindConflict",
        '"WidgetList" is already in use',
        {"kind": "Widget"},
    ),
}


@pytest.mark.parametrize(("others", "reason", "message", "had"), CONFLICTS.values(), ids=CONFLICTS)
def test_names_that_others_have(
    others: dict[str, Any], reason: str, message: str, had: dict[str, str]
) -> None:
    before = _definition(shortNames=["w", "x"])
    after = with_status(before, _in_use(others), NOW, brand=Brand())
    accepted = find_condition(after, "NamesAccepted")
    assert accepted is not None
    assert (accepted["reason"], accepted["message"]) == (reason, message)
    is_fine = reason == "NoConflicts"
    assert accepted["status"] == ("True" if is_fine else "False")
    established = find_condition(after, "Established")
    assert established is not None
    assert established["reason"] == ("InitialNamesAccepted" if is_fine else "NotAccepted")
    assert had.items() <= after["status"]["acceptedNames"].items()
    assert before == _definition(shortNames=["w", "x"])


def test_what_is_worked_out_again_is_the_same() -> None:
    """Several servers write it: who comes second changes nothing."""
    once = with_status(_definition(), _in_use(), NOW, brand=Brand())
    names = once["status"]["acceptedNames"]
    assert with_status(once, _in_use(names), LATER, brand=Brand()) == once


def test_who_has_a_name_keeps_it_and_stays_established() -> None:
    had = with_status(_definition(), _in_use(), NOW, brand=Brand())
    wanting = copy.deepcopy(had)
    wanting["spec"]["names"] |= {"shortNames": ["w"], "singular": "other"}
    after = with_status(
        wanting, _in_use(had["status"]["acceptedNames"], {"shortNames": ["other"]}), LATER, brand=Brand()
    )
    names = after["status"]["acceptedNames"]
    assert (names["singular"], names["shortNames"]) == ("widget", ["w"])
    accepted, established = find_condition(after, "NamesAccepted"), find_condition(after, "Established")
    assert accepted is not None
    assert established is not None
    assert (accepted["status"], accepted["lastTransitionTime"]) == ("False", LATER)
    assert (established["status"], established["lastTransitionTime"]) == ("True", NOW)


def test_names_that_are_let_go_are_free() -> None:
    in_use = _in_use({"plural": "a", "kind": "K"}, {"plural": "a", "kind": "L"})
    in_use.remove({"plural": "a", "kind": "K"})
    assert "a" in in_use.resources
    in_use.remove({"plural": "a", "kind": "L"})
    assert not in_use.resources.keys() & {"a"}
    assert not in_use.kinds.keys() & {"K", "L"}


APPROVALS: dict[str, tuple[str, str | None, str | None]] = {
    "anybody's group": ("example.com", None, None),
    "a group of the community": ("k8s.io", None, "MissingAnnotation"),
    "one below": ("x.kubernetes.io", None, "MissingAnnotation"),
    "one that only looks so": ("notk8s.io", None, None),
    "approved": ("x.k8s.io", "https://example.com/1", "ApprovedAnnotation"),
    "unapproved": ("x.k8s.io", "unapproved, why not", "UnapprovedAnnotation"),
    "anything else": ("x.k8s.io", "yes", "InvalidAnnotation"),
}


@pytest.mark.parametrize(("group", "said", "reason"), APPROVALS.values(), ids=APPROVALS)
def test_approval_of_the_community(group: str, said: str | None, reason: str | None) -> None:
    document = _definition(group)
    if said is not None:
        document["metadata"]["annotations"] = {"api-approved.kubernetes.io": said}
    after = with_status(document, _in_use(), NOW, brand=Brand())
    found = find_condition(after, "KubernetesAPIApprovalPolicyConformant")
    assert (found or {}).get("reason") == reason


def test_a_definition_that_keeps_unknown_fields_everywhere() -> None:
    """Only another server can have let it in."""
    document = _definition()
    document["spec"]["preserveUnknownFields"] = True
    found = find_condition(with_status(document, _in_use(), NOW, brand=Brand()), "NonStructuralSchema")
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "Violations")
    document["spec"]["preserveUnknownFields"] = False
    assert find_condition(with_status(document, _in_use(), NOW, brand=Brand()), "NonStructuralSchema") is None


def test_a_new_storage_version_joins_those_that_were() -> None:
    document = _definition()
    document["spec"]["versions"] = [{"name": "v1"}, {"name": "v2", "storage": True}]
    assert with_status(document, _in_use(), NOW, brand=Brand())["status"]["storedVersions"] == ["v1", "v2"]


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    document: dict[str, Any] = {"metadata": {}}
    new = {"type": "T", "status": "True", "reason": "A", "message": "m"}
    set_definition_condition(document, new, NOW)
    set_definition_condition(document, {**new, "reason": "B"}, LATER)
    assert document["status"]["conditions"] == [{**new, "reason": "B", "lastTransitionTime": NOW}]
    set_definition_condition(document, {**new, "status": "False"}, LATER)
    assert document["status"]["conditions"][0]["lastTransitionTime"] == LATER
