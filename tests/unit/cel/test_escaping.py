"""Names of properties that are no identifiers. Source: k8s.io/apiserver, pkg/cel/escaping.go."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from apiserver.cel.escaping import escape

NAMES: Mapping[str, tuple[str, str | None]] = {
    "plain": ("aB_1", "aB_1"),
    "two underscores": ("a__b", "a__underscores__b"),
    "three underscores": ("a___b", "a__underscores___b"),
    "a dash": ("a-b", "a__dash__b"),
    "a slash and dots": ("a.b/c.d", "a__dot__b__slash__c__dot__d"),
    "a keyword": ("if", "__if__"),
    "a keyword in a name": ("iffy", "iffy"),
    "a type's name": ("int", "int"),
    "a leading digit": ("1a", None),
    "a leading dot": (".a", "__dot__a"),
    "a blank": ("a b", None),
    "not ASCII": ("\u00e4", None),
    "a dollar": ("$ref", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("name", "escaped"), NAMES.values(), ids=NAMES)
def test_how_names_are_escaped(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped
