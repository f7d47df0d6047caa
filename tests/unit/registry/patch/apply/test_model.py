"""Many managers apply, update and release at random, and a slow, simple model does the same.

The model knows an object as the set of all its paths, each with its value, and an owner as a set of paths.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.registry.patch.apply.field_set import FieldSet
from apiserver.registry.patch.apply.managed_fields import (
    APPLY,
    UPDATE,
    FieldManager,
    ManagedFields,
    decode,
    encode,
)
from apiserver.registry.patch.apply.updater import FieldConflicts, Updater
from tests.unit.registry.patch.apply.samples import VERSION, thing_of

Path = tuple[str, ...]
# Leaves have their values, all else has None.
Flat = dict[Path, Any]

VALUES = st.sampled_from(["1", "2"])
KEYS = st.sampled_from("kl")


def _name_of(item: Any) -> str:
    name: str = item["name"]
    return name


ITEM = st.fixed_dictionaries({"name": KEYS}, optional={"v": st.sampled_from([1, 2]), "args": st.just(["x"])})
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "a": VALUES,
        "tags": st.lists(KEYS, unique=True, min_size=1),
        "items": st.lists(ITEM, unique_by=_name_of, min_size=1),
        "atom": st.dictionaries(KEYS, VALUES, min_size=1),
    },
).filter(bool)
FIELDS = st.fixed_dictionaries({}, optional={"data": st.dictionaries(KEYS, VALUES, min_size=1), "spec": SPEC})
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]), st.sampled_from(["apply", "force", "update", "remove"]), FIELDS
    ),
    max_size=8,
)
# What is owned as a whole, and what is a field of a struct that is not owned itself by who applies.
STRUCT_FIELDS: frozenset[Path] = frozenset(
    {("f:data",), ("f:spec",), ("f:spec", "f:tags"), ("f:spec", "f:items")}
)


def flatten(fields: Any, at: Path = ()) -> Flat:
    flat: Flat = {}
    if at and at[-1] in ("f:atom", "f:args"):
        return {at: fields}
    if isinstance(fields, dict):
        for name, value in fields.items():
            flat |= flatten(value, (*at, f"f:{name}"))
    elif at and at[-1] == "f:tags":
        flat = {(*at, f'v:"{value}"'): value for value in fields}
    elif isinstance(fields, list):
        for item in fields:
            flat |= flatten(item, (*at, f'k:{{"name":"{item["name"]}","proto":"TCP"}}'))
    else:
        return {at: fields}
    return {at: None, **flat} if at else flat


def flatten_set(fields: FieldSet, at: Path = ()) -> frozenset[Path]:
    found = set()
    for element, below in fields.items():
        if element == ".":
            found.add(at)
        elif below:
            found |= flatten_set(below, (*at, element))
        else:
            found.add((*at, element))
    return frozenset(found)


def named(paths: frozenset[Path]) -> frozenset[Path]:
    """With the fields of structs that something is owned in."""
    above = {path[:length] for path in paths for length in range(1, len(path))}
    return paths | (above & STRUCT_FIELDS)


class Conflict(Exception):
    pass


class Model:
    def __init__(self) -> None:
        self.flat: Flat = {}
        self.owners: dict[tuple[str, str], frozenset[Path]] = {}

    def settle(self) -> None:
        """Remove what has lost everything in it."""
        inner = {path for path in self.flat if path in STRUCT_FIELDS}
        for path in sorted(inner, key=len, reverse=True):
            if not any(len(other) > len(path) and other[: len(path)] == path for other in self.flat):
                del self.flat[path]

    def _lose(self, paths: frozenset[Path], *, but: tuple[str, str] | None = None) -> None:
        for who in list(self.owners):
            if who != but:
                self.owners[who] -= paths

    def _forget(self) -> None:
        self.owners = {who: paths for who, paths in self.owners.items() if paths}

    def _changed(self, new: Flat) -> frozenset[Path]:
        return frozenset(p for p, value in new.items() if p not in self.flat or self.flat[p] != value)

    def update(self, name: str, new: Flat) -> None:
        changed, gone = self._changed(new), frozenset(self.flat) - frozenset(new)
        self._lose(changed | gone)
        if changed:
            self.owners[name, UPDATE] = self.owners.get((name, UPDATE), frozenset()) | changed
        self.flat = new
        self._forget()

    def apply(self, name: str, wanted: Flat, *, force: bool) -> None:
        who = (name, APPLY)
        if self.flat and not self.owners:
            self.owners = {("before-first-apply", UPDATE): frozenset(self.flat)}
        last = self.owners.get(who, frozenset())
        merged = {**self.flat, **wanted}
        mine = frozenset(wanted) - STRUCT_FIELDS
        others = frozenset().union(*(paths for owner, paths in self.owners.items() if owner != who))
        given_up = (named(last) & frozenset(merged)) - named(mine | others)
        merged = {
            path: value
            for path, value in merged.items()
            if not any(path[: len(gone)] == gone for gone in given_up)
        }
        changed, gone = self._changed(merged), frozenset(self.flat) - frozenset(merged)
        if not force and any(paths & changed for owner, paths in self.owners.items() if owner != who):
            raise Conflict
        self._lose(changed | gone, but=who)
        self.owners[who] = mine
        self.flat = merged
        self._forget()


def settled(value: Any) -> Any:
    """As the schema's walk leaves it: without null, and without what is empty."""
    if isinstance(value, dict):
        return {k: kept for k, each in value.items() if (kept := settled(each)) not in (None, {}, [])}
    return [settled(each) for each in value] if isinstance(value, list) else value


def fields_of(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key in ("data", "spec")}


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_object_and_ownership_are_the_models(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    model, managed = Model(), ManagedFields()
    document = thing_of()
    for number, (name, how, fields) in enumerate(steps):
        now = f"2030-01-01T00:00:{number:02}Z"
        if how in ("update", "remove"):
            # A removal takes the fields away that it names, an update puts its own in their place.
            kept = fields_of(document)
            new = {k: v for k, v in kept.items() if k not in fields} if how == "remove" else kept | fields
            model.update(name, flatten(new))
            body = thing_of(**new)
            managed = Updater(VERSION, FieldManager(name, UPDATE, "v1"), now).update(document, body, managed)
            document = body
        else:
            try:
                model.apply(name, flatten(fields), force=how == "force")
            except Conflict:
                expected = True
            else:
                expected = False
            try:
                result = Updater(VERSION, FieldManager(name, APPLY, "v1"), now).apply(
                    document, thing_of(**fields), managed, force=how == "force"
                )
            except FieldConflicts:
                assert expected
                # Who is told to wait may still have been taken for granted as an owner.
                model.owners.pop(("before-first-apply", UPDATE), None) if not managed else None
                continue
            assert not expected
            document, managed = settled(result.document), result.managed
        model.settle()
        managed = decode(encode(managed), is_own=True)
        assert flatten(fields_of(document)) == model.flat
        assert {
            (owner.manager.name, owner.manager.operation): flatten_set(owner.fields)
            for owner in managed.values()
        } == model.owners
