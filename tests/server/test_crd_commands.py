"""`apiserver crd` says of definitions what a server says, and of their changes what these do to objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest

from apiserver.catalogue.offline_definitions import ERROR, DefinitionChecker
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.schema.builtin import BuiltinSchemas
from tests import corpus_crds
from tests.corpus_crds import RefusedDefinition
from tests.support.api import Api
from tests.support.definitions import DEFINITIONS, define, definition, new_group, version
from tests.support.eventually import until
from tests.support.schema_changes import CHANGED, KEPT, REFUSED, SCHEMA_CHANGES
from tests.support.server_process import ServerProcess

PREVIEW: Final = f"{DEFINITIONS}?dryRun=All&fieldValidation=Strict"
SCHEMAS: Final = BuiltinSchemas(DEFAULT_RELEASE.version)


def checked(document: Any) -> list[tuple[str, str, str]]:
    """The path, the reason and the text of each error."""
    found = DefinitionChecker(SCHEMAS, DEFAULT_RELEASE).check(document)
    return [(each.path, each.reason, each.message) for each in found if each.severity == ERROR]


@pytest.mark.parametrize("refused", corpus_crds.refused_definitions(), ids=lambda refused: refused.name)
def test_the_errors_are_those_of_the_server(api: Api, refused: RefusedDefinition) -> None:
    answer = api.post(PREVIEW, refused.definition)
    assert answer.status == 422
    causes = answer.json["details"]["causes"]
    assert causes
    assert checked(refused.definition) == [
        (each["field"], each["reason"], each["message"]) for each in causes
    ]


@pytest.mark.parametrize("file", corpus_crds.definition_files(), ids=lambda file: file.name)
def test_what_the_server_accepts_has_no_errors(api: Api, file: corpus_crds.DefinitionFile) -> None:
    assert api.post(PREVIEW, file.definition).status == 201
    assert checked(file.definition) == []


def test_the_warnings_are_those_of_the_server(api: Api) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "odd"}}}
    document = definition("warned.example.com", version(schema=schema))
    answer = api.post(PREVIEW, document)
    found = DefinitionChecker(SCHEMAS, DEFAULT_RELEASE).check(document)
    assert [each.message for each in found] == ['unrecognized format "odd"']
    assert [text.replace("\\", "") for text in answer.warnings] == [each.message for each in found]


def test_unknown_fields_are_what_strict_validation_names(api: Api) -> None:
    document = definition("unknown.example.com", version(schema={"type": "object", "typo": 1}, oops=2))
    answer = api.post(PREVIEW, document)
    assert answer.status == 400
    found = checked(document)
    assert [message for _, _, message in found] == answer.json["message"].rpartition("error: ")[2].split(", ")
    assert len(found) == 2


# ---- what changes of a schema do to objects


class ChangedType(NamedTuple):
    """A type whose schema has changed: each case is a field of the spec.

    before: for each case, the value as the old schema stored it.
    """

    api: Api
    path: str
    before: Mapping[str, Any]


FIELDS: Final = {name: f"f{index}" for index, name in enumerate(SCHEMA_CHANGES)}


def schema_of(side: str) -> dict[str, Any]:
    fields = {FIELDS[name]: getattr(change, side) for name, change in SCHEMA_CHANGES.items()}
    more = {"isNew": {"type": "boolean"}} if side == "new" else {}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {**fields, **more}}}}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangedType]:
    group = new_group()
    with ServerProcess(tmp_path_factory.mktemp("changed") / "data") as server, Api(server) as api:
        defined = define(api, definition(group, version(schema=schema_of("old"))))
        before = {}
        for name, change in SCHEMA_CHANGES.items():
            stored = defined.create(FIELDS[name], spec={FIELDS[name]: change.value}).ok()
            before[name] = stored["spec"].get(FIELDS[name])
            defined.create(f"{FIELDS[name]}-empty", spec={}).ok()
        path = "/spec/versions/0/schema/openAPIV3Schema"
        defined.change([{"op": "replace", "path": path, "value": schema_of("new")}])
        marked = f"{defined.objects()}?dryRun=All"
        until(
            lambda: api.post(marked, defined.body("marked", spec={"isNew": True})),
            lambda answer: answer.json.get("spec") == {"isNew": True},
            "the new schema",
        )
        yield ChangedType(api, defined.objects(), before)


@pytest.mark.parametrize("name", SCHEMA_CHANGES)
def test_what_becomes_of_a_value_that_was_allowed(changed: ChangedType, name: str) -> None:
    """An update with the value is refused or changes it, or neither."""
    change, field = SCHEMA_CHANGES[name], FIELDS[name]
    path = f"{changed.path}/{field}-empty"
    document = changed.api.get(path).ok()
    document["spec"] = {**document["spec"], field: change.value}
    answer = changed.api.put(path, document)
    if change.outcome == REFUSED:
        assert answer.status == 422, answer.body.decode()
        return
    stored = answer.ok()["spec"].get(field)
    assert (stored == changed.before[name]) is (change.outcome == KEPT)


PRUNED_WHEN_READ: Final = [
    name
    for name, change in SCHEMA_CHANGES.items()
    if change.outcome == CHANGED
    and any("Removed" in each and "Default" not in each for each in change.expected)
]


@pytest.mark.parametrize("name", PRUNED_WHEN_READ)
def test_stored_objects_lose_what_is_removed(changed: ChangedType, name: str) -> None:
    stored = changed.api.get(f"{changed.path}/{FIELDS[name]}").ok()["spec"][FIELDS[name]]
    assert stored != changed.before[name]
    assert stored.items() <= changed.before[name].items()


# ---- which upgrades a server refuses


def with_changes(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], **spec}}


def test_the_server_refuses_the_same_upgrades(api: Api) -> None:
    group = new_group()
    one, other = version("v1"), version("v2", storage=False)
    old = definition(group, one, other)
    names = {"singular": "widget", "listKind": "WidgetList"}
    define(api, old)
    dear = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": DEAR}]}
    costly = {"type": "object", "properties": {"l": dear}}
    stored = api.get(f"{DEFINITIONS}/widgets.{group}").ok()
    is_refused = {}
    for name, new in {
        "another scope": with_changes(old, scope="Cluster"),
        "another kind": with_changes(old, names={**names, "plural": "widgets", "kind": "Thing"}),
        "another plural": with_changes(old, names={**names, "plural": "things", "kind": "Widget"}),
        "another group": with_changes(old, group="other.example.com"),
        "without the stored version": with_changes(old, versions=[{**other, "storage": True}]),
        "a rule that costs too much": with_changes(old, versions=[version("v1", schema=costly), other]),
        "without the other version": with_changes(old, versions=[one]),
        "another short name": with_changes(old, names={**old["spec"]["names"], "shortNames": ["w"]}),
    }.items():
        new["metadata"] = {**new["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]}
        answer = api.put(f"{DEFINITIONS}/widgets.{group}?dryRun=All", new)
        found = DefinitionChecker(SCHEMAS, DEFAULT_RELEASE).compare(stored, new)
        is_refused[name] = answer.status == 422
        assert any("server refuses" in each.message for each in found) is is_refused[name], (
            name,
            answer.json,
        )
    assert list(is_refused.values()) == [True] * 6 + [False] * 2


DEAR: Final = "self.all(one, self.exists_one(other, one == other))"
