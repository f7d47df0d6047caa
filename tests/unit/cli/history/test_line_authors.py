"""Each line of an object is blamed on the version that has made it."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from apiserver.cli.history.line_authors import blamed, entries
from apiserver.wire import yaml

TEXTS: Final = st.sampled_from(
    ("", "a", "two\nlines", "no", "1", " led by a space", "end\n\n", "\n in", "x" * 200)
)
SCALARS: Final = TEXTS | st.integers(0, 2) | st.booleans() | st.none()
NAMED: Final = st.fixed_dictionaries({"name": st.sampled_from(("x", "y", "z")), "value": SCALARS})
VALUES: Final = st.recursive(
    SCALARS,
    lambda below: st.lists(below | NAMED, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=10,
)
OBJECTS: Final = st.dictionaries(st.sampled_from(("data", "spec", "status")), VALUES, min_size=1, max_size=3)
STATES: Final = st.lists(OBJECTS | st.none(), min_size=1, max_size=6)


@given(OBJECTS)
def test_the_lines_are_those_of_the_yaml(document: Any) -> None:
    lines = [line for each in entries(document) for line in each.lines]
    assert yaml.load("".join(f"{line}\n" for line in lines).encode()) == (document, [])


def test_the_layout_is_that_of_the_yaml() -> None:
    containers = [{"name": "a", "args": ["x", "y"], "env": []}, {"name": "b", "text": "one\ntwo"}]
    document = {"spec": {"containers": containers, "nested": [[1, 2], {}]}, "kind": "Pod", "n": None}
    text = "".join(f"{line}\n" for each in entries(document) for line in each.lines)
    assert text == yaml.dump(document).decode()


def test_metadata_of_each_write_is_left_out() -> None:
    metadata = {"name": "a", "resourceVersion": "1", "managedFields": [{"manager": "m"}]}
    assert [each.lines for each in entries({"metadata": metadata})] == [("metadata:",), ("  name: a",)]


@given(STATES)
def test_blame_is_that_of_all_versions(states: list[Any]) -> None:
    """The maker of an entry is the newest version before which the object did not have it."""
    found = {each.path: (each, maker) for each, maker in blamed(list(enumerate(states)))}
    listed = [{} if state is None else {each.path: each for each in entries(state)} for state in states]
    assert found.keys() == listed[0].keys()
    for path, (entry, maker) in found.items():
        assert entry == listed[0][path]
        makers = (at for at, older in enumerate(listed[1:]) if older.get(path) != entry)
        assert maker == next(makers, len(states) - 1)


def test_no_more_versions_are_read_than_needed() -> None:
    def states() -> Any:
        yield 3, {"a": 1}
        yield 2, {"a": 2}
        raise AssertionError

    assert [maker for _, maker in blamed(states())] == [3]


def test_an_item_keeps_its_maker_where_others_are_added() -> None:
    def containers(*names: str) -> Any:
        return {"spec": [{"name": name, "image": f"{name}:1"} for name in names]}

    found = blamed([(2, containers("new", "old")), (1, containers("old"))])
    assert [(each.lines, maker) for each, maker in found] == [
        (("spec:",), 1),
        (("- image: new:1",), 2),
        (("  name: new",), 2),
        (("- image: old:1",), 1),
        (("  name: old",), 1),
    ]
