"""Files and annotations that say what becomes of simulated pods."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.simulation.stages import (
    RUNS_ON,
    SUCCEEDS,
    InvalidStage,
    Selection,
    Stage,
    annotated_stage,
    parse_stages,
    stage_of,
    stages_for,
)
from tests.unit.simulation.pods import of_job, pod

EVERYTHING: Final = """
stages:
- match: {namespaces: [batch], labels: {app: importer}, owners: [Job], containers: [main]}
  times: 2
  phase: Failed
  startDelay: 500ms
  readyDelay: 1s
  ready: false
  duration: 2
  exitCode: 3
  reason: Error
  message: no input
  restartDelay: 0.5
  terminationDelay: 1m
"""


def test_a_file() -> None:
    selection = Selection(frozenset({"batch"}), {"app": "importer"}, frozenset({"Job"}), frozenset({"main"}))
    stage = Stage("Failed", 2, 0.5, 1.0, False, 2.0, 3, "Error", "no input", 0.5, 60.0, selection)
    assert parse_stages(EVERYTHING.encode()) == (stage,)


@pytest.mark.parametrize("text", ["stages: []", "{stages: []}"])
def test_a_file_without_stages(text: str) -> None:
    assert parse_stages(text.encode()) == ()


BAD_FILES: Final = {
    "no YAML": ("stages: [", "not YAML: while parsing"),
    "a tag": ("stages: !!python/object:os.system {}", "not YAML: could not determine a constructor"),
    "empty": ("", "must be a mapping with the one key stages"),
    "another key": ("{stages: [], rules: []}", "must be a mapping with the one key stages"),
    "no list": ("stages: {}", "stages: must be a list"),
    "no mapping": ("stages: [1]", "stages[0]: must be a mapping"),
    "an unknown field": (
        "stages: [{}, {delay: 1s}]",
        "stages[1]: unknown field 'delay'; known are match, times,",
    ),
    "a phase that there is not": (
        "stages: [{phase: Done}]",
        "stages[0].phase: must be one of Pending, Running, Succeeded, Failed, not 'Done'",
    ),
    "no duration": ("stages: [{duration: soon}]", "stages[0].duration: must be a duration like 500ms or 2s"),
    "a negative duration": ("stages: [{duration: -1}]", "stages[0].duration: must be from 0 to"),
    "no number": ("stages: [{duration: .nan}]", "stages[0].duration: must be a duration"),
    "a truth value as duration": ("stages: [{duration: true}]", "stages[0].duration: must be a duration"),
    "an exit code": (
        "stages: [{exitCode: 256}]",
        "stages[0].exitCode: must be a whole number from 0 to 255, not 256",
    ),
    "no times at all": ("stages: [{times: 0}]", "stages[0].times: must be a whole number from 1"),
    "no truth": ("stages: [{ready: maybe}]", "stages[0].ready: must be true or false, not 'maybe'"),
    "a long message": (
        f"stages: [{{message: {'x' * 2000}}}]",
        "stages[0].message: must be a text of at most",
    ),
    "an unknown match": ("stages: [{match: {names: [a]}}]", "stages[0].match: unknown field 'names'"),
    "labels as a list": ("stages: [{match: {labels: [a]}}]", "stages[0].match.labels: must be a mapping"),
    "a label that is no text": ("stages: [{match: {labels: {a: 1}}}]", "stages[0].match.labels: must be"),
    "namespaces as a text": (
        "stages: [{match: {namespaces: a}}]",
        "stages[0].match.namespaces: must be a list of texts",
    ),
    "too many": (f"stages: [{','.join(['{}'] * 1001)}]", "stages: must have at most 1000 items"),
    "too large": (" " * (1024 * 1024 + 1), "the file is larger than"),
}


@pytest.mark.parametrize(("text", "why"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(text: str, why: str) -> None:
    with pytest.raises(InvalidStage) as refused:
        parse_stages(text.encode())
    assert str(refused.value).startswith(why)


ANNOTATIONS: Final[dict[str, tuple[dict[str, str], Stage | None]]] = {
    "none": ({}, None),
    "of others": ({"example.com/phase": "Failed"}, None),
    "a phase": ({"phase": "Failed"}, Stage("Failed")),
    "an exit code is a failure": ({"exit-code": "3"}, Stage("Failed", exit_code=3)),
    "and zero a success": ({"exit-code": "0"}, Stage("Succeeded", exit_code=0)),
    "a duration has an end": ({"duration": "2s"}, Stage("Succeeded", duration_s=2.0)),
    "never ready": ({"ready": "false"}, Stage(ready=False)),
    "parts of a second": ({"start-delay": "1.5"}, Stage(start_delay_s=1.5)),
    "texts that look like something else": (
        {"reason": "true", "message": "404"},
        Stage(reason="true", message="404"),
    ),
    "one container": (
        {"phase": "Failed", "containers": "a, b"},
        Stage("Failed", match=Selection(containers=frozenset({"a", "b"}))),
    ),
}


@pytest.mark.parametrize(("annotations", "stage"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_annotations(annotations: dict[str, str], stage: Stage | None) -> None:
    ours = {key if "/" in key else f"simulate.apiserver/{key}": text for key, text in annotations.items()}
    assert annotated_stage(ours) == stage


BAD_ANNOTATIONS: Final = {
    "unknown": ({"exitcode": "1"}, "metadata.annotations[simulate.apiserver/exitcode]: unknown; known are "),
    "no number": (
        {"exit-code": "one"},
        "metadata.annotations[simulate.apiserver/exit-code]: must be a whole",
    ),
}


@pytest.mark.parametrize(("annotations", "why"), BAD_ANNOTATIONS.values(), ids=BAD_ANNOTATIONS)
def test_bad_annotations(annotations: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidStage) as refused:
        stages_for(pod(annotations=annotations), ())
    assert str(refused.value).startswith(why)


# What selects, and whether it selects the pod: of a Job, in the namespace default, without labels.
SELECTIONS: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "all": ({}, True),
    "its namespace": ({"namespaces": frozenset({"default", "other"})}, True),
    "another namespace": ({"namespaces": frozenset({"other"})}, False),
    "its owner": ({"owners": frozenset({"Job"})}, True),
    "another owner": ({"owners": frozenset({"ReplicaSet"})}, False),
    "a label": ({"labels": {"app": "a"}}, False),
}


@pytest.mark.parametrize(("selection", "selects"), SELECTIONS.values(), ids=SELECTIONS)
def test_selections(selection: dict[str, Any], selects: bool) -> None:
    stage = Stage("Failed", match=Selection(**selection))
    assert stages_for(of_job(pod()), [stage]) == ([stage] if selects else [])


ONE: Final = Stage("Failed", times=1)
NAMED: Final = Stage("Failed", match=Selection(containers=frozenset({"i"})))


def test_the_first_stage_that_is_not_used_up_counts() -> None:
    found = [
        stage_of(pod(), "c", stages=[ONE, SUCCEEDS], restarts=n, is_init=False, is_sidecar=False)
        for n in (0, 1)
    ]
    assert found == [ONE, SUCCEEDS]


def test_init_containers_are_selected_by_their_names_alone() -> None:
    def of_init(stage: Stage) -> Stage:
        return stage_of(pod(), "i", stages=[stage], restarts=0, is_init=True, is_sidecar=False)

    assert of_init(ONE) is SUCCEEDS
    assert of_init(NAMED) is NAMED


def test_sidecars_run_on() -> None:
    assert stage_of(of_job(pod()), "i", stages=(), restarts=0, is_init=True, is_sidecar=True) is RUNS_ON
