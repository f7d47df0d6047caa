"""What expressions read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from apiserver.cel import types
from apiserver.cel.environment import Environment
from apiserver.cel.library.kubernetes import KUBERNETES
from apiserver.cel.references import References, merged, references

ENVIRONMENT = Environment({"self": types.DYN, "oldSelf": types.DYN}, KUBERNETES)


def parts(part: References, way: str = "") -> set[str]:
    """The ways to all that is read as a whole."""
    found = {way} if part.is_whole else set()
    return found.union(*(parts(below, f"{way}.{name}".strip(".")) for name, below in part.fields.items()))


CASES: Mapping[str, tuple[str, set[str]]] = {
    "a field": ("self.a.b == 1", {"self.a.b"}),
    "several": ("self.a > oldSelf.b", {"self.a", "oldSelf.b"}),
    "all of it": ("self == oldSelf", {"self", "oldSelf"}),
    "an item's field": ("self.a[0].b == 1", {"self.a"}),
    "in a loop": ("self.a.all(x, x.b > self.c)", {"self.a", "self.c", "x.b"}),
    "in a literal": ("{'k': [self.a]}['k'] == [self.b]", {"self.a", "self.b"}),
    "in a method": ("self.a.startsWith(self.b)", {"self.a", "self.b"}),
    "whether it is there": ("has(self.a.b)", set()),
    "whether something of it is there": ("has(self.a[0].b)", {"self.a"}),
    "nothing": ("1 == 1", set()),
    "in a long chain": (" + ".join(["self.a"] * 200) + " > 0", {"self.a"}),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_what_an_expression_reads(text: str, expected: set[str]) -> None:
    assert parts(references(ENVIRONMENT.check(text).node)) == expected


def test_a_variable_counts_even_if_only_its_presence_is_asked_for() -> None:
    assert "oldSelf" in references(ENVIRONMENT.check("has(oldSelf.a)").node).fields


def test_what_several_expressions_read() -> None:
    both = [references(ENVIRONMENT.check(text).node) for text in ("self.a.b == 1", "self.a.c == self.d.e")]
    assert parts(merged(both)) == {"self.a.b", "self.a.c", "self.d.e"}
    whole = [*both, references(ENVIRONMENT.check("self.a == 1").node)]
    assert parts(merged(whole)) == {"self.a", "self.d.e"}
