"""Definitions as people write them: what each of them accepts and refuses.

Rows R01-R37, S01-S04, D06, D08-D10, E14, E15, I13. The corpus says what is expected, and in which words.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests import corpus_crds
from tests.corpus_crds import Case, Cause, DefinitionFile, RefusedDefinition
from tests.support.api import Answer, Api, until_status
from tests.support.definitions import DEFINITIONS, is_established
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

AS_TABLE: Final = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
# Besides whatever made the object invalid. Source: pkg/registry/customresource/strategy.go, hasBlockingErr.
NOT_CHECKED: Final = "some validation rules were not checked because the object was invalid"
# What the server alone sets.
SET: Final = ("creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid")

FILES: Final = corpus_crds.definition_files()
CASES: Final = {
    kind: {case.id: (file, case) for file in FILES for case in getattr(file, kind)}
    for kind in ("accepted", "refused", "updates")
}

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
each_refused_definition = pytest.mark.parametrize(
    "refused", corpus_crds.refused_definitions(), ids=lambda refused: refused.name
)


def each_case(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("file", "case"), CASES[kind].values(), ids=CASES[kind])


@dataclass(frozen=True)
class Defined:
    """A server that has everything, and how it took each definition, each object and its status."""

    api: Api
    definitions: Mapping[str, Answer]
    answers: Mapping[str, list[Answer]]


@pytest.fixture(scope="module")
def defined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Defined]:
    with ServerProcess(tmp_path_factory.mktemp("corpus") / "data") as server, Api(server) as api:
        definitions = {file.name: define(api, file) for file in FILES}
        for file in FILES:
            if definitions[file.name].status == 201:
                await_served(api, file)
        objects = {name: create(api, file, case) for name, (file, case) in CASES["accepted"].items()}
        yield Defined(api, definitions, objects)


def define(api: Api, file: DefinitionFile) -> Answer:
    return api.post(DEFINITIONS, file.definition)


def await_served(api: Api, file: DefinitionFile) -> None:
    path = f"{DEFINITIONS}/{file.definition['metadata']['name']}"
    until(lambda: api.get(path), is_established, f"{file.name} is established")
    until_status(200, lambda: api.get(file.path), f"{file.name} is served")


def create(api: Api, file: DefinitionFile, case: Case) -> list[Answer]:
    document, path = copy.deepcopy(case.document), file.path_of(case.document)
    answers = [api.post(path, document)]
    if answers[0].status == 201 and file.has_status(document):
        document["metadata"] = answers[0].json["metadata"]
        answers.append(api.put(f"{path}/{case.name}/status", document))
    return answers


def path_to(file: DefinitionFile, case: Case) -> str:
    return f"{file.path_of(case.document)}/{case.document['metadata']['name']}"


def assert_refused(answer: Answer, cause: Cause, others: list[str]) -> None:
    assert answer.status == 422, answer.body.decode()
    causes = [each for each in answer.json["details"]["causes"] if NOT_CHECKED not in each["message"]]
    found = [each for each in causes if each["field"] == cause.field and cause.message in each["message"]]
    assert found, f"not {cause}, but {causes}"
    assert Counter(each["field"] for each in causes) == Counter([cause.field, *others]), causes


# ---- definitions


@each_file
def test_a_definition_is_accepted_and_served(defined: Defined, file: DefinitionFile) -> None:
    """In each version that is served, with a warning where it is deprecated."""
    answer = defined.definitions[file.name]
    assert answer.status == 201, answer.body.decode()
    for version in file.versions:
        answer = defined.api.get(file.path_in(version["name"]))
        assert answer.status == (200 if version["served"] else 404)
        assert bool(answer.warnings) is version.get("deprecated", False)
        if text := version.get("deprecationWarning"):
            assert answer.warnings == [text]


@each_refused_definition
def test_a_definition_is_refused(defined: Defined, refused: RefusedDefinition) -> None:
    """With all that is wrong with it, and nothing else."""
    answer = defined.api.post(DEFINITIONS, refused.definition)
    assert answer.status == 422, answer.body.decode()
    causes = answer.json["details"]["causes"]
    missing = [
        cause
        for cause in refused.causes
        if not any(cause.field == each["field"] and cause.message in each["message"] for each in causes)
    ]
    assert missing == [], causes
    assert Counter(each["field"] for each in causes) == Counter(each.field for each in refused.causes), causes


# ---- objects


@each_case("accepted")
def test_an_object_is_stored_as_written_and_defaulted(
    defined: Defined, file: DefinitionFile, case: Case
) -> None:
    answers = defined.answers[case.id]
    assert [answer.status for answer in answers] in ([201], [201, 200]), answers[-1].body.decode()
    shown = defined.api.get(path_to(file, case)).ok()
    assert shown == answers[-1].json
    shown["metadata"] = {name: value for name, value in shown["metadata"].items() if name not in SET}
    assert shown == case.expected


@each_case("accepted")
def test_an_object_is_read_in_every_version(defined: Defined, file: DefinitionFile, case: Case) -> None:
    uid = defined.answers[case.id][-1].ok()["metadata"]["uid"]
    for version in file.versions:
        if version["served"]:
            shown = defined.api.get(f"{file.path_in(version['name'])}/{case.name}").ok()
            assert shown["apiVersion"].endswith(f"/{version['name']}")
            assert shown["metadata"]["uid"] == uid


@each_case("accepted")
def test_writing_what_is_shown_changes_nothing(defined: Defined, file: DefinitionFile, case: Case) -> None:
    """Transition rules let it pass, too."""
    shown = defined.api.get(path_to(file, case)).ok()
    assert defined.api.put(path_to(file, case), shown).ok() == shown


@each_case("accepted")
def test_how_an_object_is_found_and_tabled(defined: Defined, file: DefinitionFile, case: Case) -> None:
    if "cells" in case.content:
        table = defined.api.get(path_to(file, case), headers=AS_TABLE).ok()
        assert table["rows"][0]["cells"] == case.content["cells"]
    for selector in case.content.get("selectedBy", []):
        found = defined.api.get(f"{file.path}?fieldSelector={quote(selector)}").ok()["items"]
        assert case.name in [each["metadata"]["name"] for each in found], selector


@each_case("refused")
def test_an_object_is_refused(defined: Defined, file: DefinitionFile, case: Case) -> None:
    # Objects have the names of those that are accepted: one that should be refused but is not is a conflict.
    assert case.cause is not None
    answer = defined.api.post(file.path_of(case.document), case.document)
    assert_refused(answer, case.cause, list(case.others))


@each_case("updates")
def test_updates_are_accepted_or_refused(defined: Defined, file: DefinitionFile, case: Case) -> None:
    """A trial: whatever comes of it, the object stays as it is."""
    path = path_to(file, case)
    document = copy.deepcopy(case.document)
    live = defined.api.get(path).ok()["metadata"]
    document["metadata"] = {**live, **document["metadata"]}
    where = f"{path}/{case.subresource}" if case.subresource else path
    answer = defined.api.put(f"{where}?dryRun=All", document)
    if case.cause is None:
        assert answer.status == 200, answer.body.decode()
        assert answer.json["metadata"]["uid"] == live["uid"]
    else:
        assert_refused(answer, case.cause, list(case.others))


# ---- the corpus itself


def test_every_rule_refuses_something() -> None:
    """And accepts something: every accepted object passes all rules for what it has."""
    silent = []
    for file in FILES:
        messages = [case.cause.message for case in (*file.refused, *file.updates) if case.cause]
        silent += [
            f"{file.name}: {text}"
            for rule in file.rules()
            for text in texts_of(rule)
            if not any(text in message or message in text for message in messages)
        ]
    assert silent == []


def texts_of(rule: Mapping[str, Any]) -> list[str]:
    """By which a rule's message is known: itself, or the longest text in the expression that makes it."""
    if rule.get("reason") == "FieldValueDuplicate":
        return []  # Kubernetes does not show the message of such a rule.
    if "messageExpression" in rule:
        parts = [
            part for text in quoted(rule["messageExpression"]) for part in re.split(r"%[.\d]*[a-z]", text)
        ]
        return [max(parts, key=len).strip()] if parts else []
    return [rule["message"]]


quoted: Final = re.compile(r"'([^']*)'").findall


def test_how_large_the_corpus_is() -> None:
    rules = [list(file.rules()) for file in FILES]
    assert len(FILES) >= 30
    assert len(corpus_crds.refused_definitions()) >= 10
    assert sum(map(bool, rules)) >= 30
    assert sum(map(len, rules)) >= 150
