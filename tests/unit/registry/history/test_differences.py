"""Differences of two states of an object: each form says all that has changed, and nothing else."""

from __future__ import annotations

import copy
import random
import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.registry.history import line_differences
from apiserver.registry.history.differences import difference_of
from apiserver.registry.patch import merge_patch
from apiserver.wire import yaml

VALUES: Final = st.recursive(
    st.integers(0, 2)
    | st.booleans()
    | st.sampled_from(("", "a", "two\nlines", "1", "\u2028"))
    | st.just(1.0),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(("a", "b", "c.d")), below, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS: Final = st.dictionaries(st.sampled_from(("spec", "data", "status")), VALUES, max_size=3)


def config_map(version: str, **data: Any) -> dict[str, Any]:
    metadata = {"name": "a", "resourceVersion": version, "managedFields": [{"manager": version}]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_a_difference_has_both_forms() -> None:
    found = difference_of(
        "configmaps/a", config_map("7", mode="slow", size="1"), config_map("9", mode="fast")
    )
    assert found == {
        "from": {"resourceVersion": "7"},
        "to": {"resourceVersion": "9"},
        "mergePatch": {"data": {"mode": "fast", "size": None}},
        "yamlDiff": """\
--- configmaps/a@7
+++ configmaps/a@9
@@ -1,7 +1,6 @@
 apiVersion: v1
 data:
-  mode: slow
-  size: "1"
+  mode: fast
 kind: ConfigMap
 metadata:
   name: a
""",
    }


def test_an_object_that_only_managers_have_changed_is_the_same() -> None:
    found = difference_of("configmaps/a", config_map("7", k="1"), config_map("9", k="1"))
    assert (found["mergePatch"], found["yamlDiff"]) == ({}, "")


def test_an_object_that_did_not_exist_is_nothing() -> None:
    created = difference_of("configmaps/a", None, config_map("7"))
    assert created["from"] == {}
    assert created["mergePatch"]["metadata"] == {"name": "a"}
    assert created["yamlDiff"].startswith(
        "--- /dev/null\n+++ configmaps/a@7\n@@ -0,0 +1,5 @@\n+apiVersion: v1\n"
    )
    deleted = difference_of("configmaps/a", config_map("7"), None)
    assert deleted["to"] == {}
    assert deleted["mergePatch"] is None
    assert deleted["yamlDiff"].startswith(
        "--- configmaps/a@7\n+++ /dev/null\n@@ -1,5 +0,0 @@\n-apiVersion: v1\n"
    )


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_makes_the_second_object_of_the_first(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    patch = merge_patch.between(before, after)
    assert merge_patch.is_same(merge_patch.apply(copy.deepcopy(before), copy.deepcopy(patch)), after)
    assert merge_patch.between(after, after) == {}


# What Python calls equal.
UNEQUAL: Final = {
    "one and true": (1, True),
    "zero and false": (0, False),
    "one and a float": (1, 1.0),
    "in a list": ([1], [True]),
    "in a list of objects": ([{"a": 0}], [{"a": False}]),
}


@pytest.mark.parametrize(("one", "other"), UNEQUAL.values(), ids=UNEQUAL)
def test_values_of_different_types_differ(one: Any, other: Any) -> None:
    assert merge_patch.between({"a": one}, {"a": other}) == {"a": other}


def test_a_null_counts_as_absent() -> None:
    assert merge_patch.between({"a": 1, "b": None}, {"a": None, "c": {"d": None}}) == {"a": None, "c": {}}


def test_an_object_of_the_greatest_depth_can_be_compared() -> None:
    deep: Any = "one"
    for _ in range(240):
        deep = {"k": deep}
    found = difference_of("configmaps/a", config_map("1"), config_map("2", k=deep))
    assert found["mergePatch"] == {"data": {"k": deep}}
    assert "one" in found["yamlDiff"]


def lines_of(document: Any) -> list[str]:
    return [f"{line}\n" for line in yaml.dump(document).decode().split("\n")[:-1]]


def applied(before: list[str], diff: str) -> list[str]:
    """Returns the second text, by the rules of the unified format."""
    found: list[str] = []
    position = 0
    for line in diff.split("\n")[2:-1]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            upto = int(start) - (count != "0")
            found += before[position:upto]
            position = upto
        elif line[0] == "+":
            found.append(f"{line[1:]}\n")
        else:
            assert before[position] == f"{line[1:]}\n"
            found += [before[position]] if line[0] == " " else []
            position += 1
    return found + before[position:]


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.lists(st.sampled_from("abcdefgh"), max_size=40))
def test_a_diff_of_lines_makes_the_second_text_of_the_first(one: list[str], other: list[str]) -> None:
    before, after = ([f"{line}\n" for line in lines] for lines in (one, other))
    diff = line_differences.unified(before, after, ("one", "other"))
    assert applied(before, diff) == after if diff else before == after


@given(OBJECTS, OBJECTS)
def test_a_diff_of_yaml_makes_the_second_object_of_the_first(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    before, after = lines_of(one), lines_of(other)
    diff = line_differences.unified(before, after, ("one", "other"))
    made = applied(before, diff) if diff else before
    # Equal as in Python: in YAML, 1.0 is written as 1.
    assert yaml.load("".join(made).encode())[0] == other


def _numbered(count: int) -> list[str]:
    return [f"  k{number}: v\n" for number in range(count)]


SLOW_FOR_DIFFLIB: Final = {
    "lines in another order": lambda lines: random.Random(1).sample(lines, len(lines)),
    "the reverse": lambda lines: lines[::-1],
    "each line twice": lambda lines: [line for line in lines for _ in range(2)],
    "few different lines": lambda lines: [f"  {index % 7}\n" for index, _ in enumerate(lines)],
}


@pytest.mark.parametrize("change", SLOW_FOR_DIFFLIB.values(), ids=SLOW_FOR_DIFFLIB)
def test_the_largest_objects_are_compared_in_seconds(change: Any) -> None:
    """As many lines as an object of 1.5 MiB has. `difflib` would take hours."""
    before = _numbered(100_000)
    after = change(before)
    begin = time.process_time()
    diff = line_differences.unified(before, after, ("one", "other"))
    assert time.process_time() - begin < 10
    assert applied(before, diff) == after
