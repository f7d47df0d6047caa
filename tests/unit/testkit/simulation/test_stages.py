"""Files and annotations that say what becomes of simulated pods."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.field_values import InvalidStage
from apiserver.testkit.simulation.stages import (
    RUNS_ON,
    SUCCEEDS,
    Stage,
    StageSelector,
    annotated_stages,
    parse_stages,
    stage_of,
    stages_for,
)
from tests.unit.testkit.simulation.pods import of_job, pod

EVERYTHING: Final = """
stages:
- match: {namespaces: [batch], labels: {app: importer}, owners: [Job], containers: [main]}
  times: 2
  phase: Failed
  startDelay: 500ms
  readyDelay: 1s
  duration: 2
  exitCode: 3
  reason: Error
  message: no input
  restartDelay: 0.5
  terminationDelay: 1m
"""


def test_a_file() -> None:
    selection = StageSelector(
        frozenset({"batch"}), {"app": "importer"}, frozenset({"Job"}), frozenset({"main"})
    )
    stage = Stage("Failed", 2, 0.5, 1.0, True, 2.0, 3, "Error", "no input", 0.5, 60.0, selection)
    assert parse_stages(EVERYTHING.encode()) == (stage,)


def test_what_is_never_ready() -> None:
    assert parse_stages(b"stages: [{ready: false}]") == (Stage(ready=False),)


@pytest.mark.parametrize("text", ["stages: []", "{stages: []}"])
def test_a_file_without_stages(text: str) -> None:
    assert parse_stages(text.encode()) == ()


BAD_FILES: Final = {
    "no YAML": ("stages: [", "not YAML: expected the node content"),
    "a control character": ("stages: \x01", "not YAML: unacceptable character #x0001"),
    "deep": ("[" * 10_000, "not YAML: "),
    "a key twice": ("stages: [{times: 1, times: 2}]", "not YAML: times occurs twice"),
    "in itself": ("stages: &a [*a]", "stages[0]: must be a mapping"),
    "a tag": ("stages: !!python/object:os.system {}", "not YAML: could not determine a constructor"),
    "empty": ("", "must be a mapping with the single key stages"),
    "another key": ("{stages: [], rules: []}", "must be a mapping with the single key stages"),
    "no list": ("stages: {}", "stages: must be a list"),
    "no mapping": ("stages: [1]", "stages[0]: must be a mapping"),
    "an unknown field": (
        "stages: [{}, {delay: 1s}]",
        "stages[1].delay: unknown field; known fields are match, times,",
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
        "stages[0].exitCode: must be an integer from 0 to 255, not 256",
    ),
    "no times at all": ("stages: [{times: 0}]", "stages[0].times: must be an integer from 1"),
    "a log of many lines": (
        "stages:\n- log: |\n" + "    a\n" * 10_001,
        "stages[0].log: must have at most 10000 lines",
    ),
    "no truth": ("stages: [{ready: maybe}]", "stages[0].ready: must be true or false, not 'maybe'"),
    "a long message": (
        f"stages: [{{message: {'x' * 2000}}}]",
        "stages[0].message: must be a string of at most",
    ),
    "a field whose name is no text": ("stages: [{1: 2}]", "stages[0].1: unknown field"),
    "an unknown match": ("stages: [{match: {names: [a]}}]", "stages[0].match.names: unknown field; known"),
    "labels as a list": ("stages: [{match: {labels: [a]}}]", "stages[0].match.labels: must be a mapping"),
    "a label that is no text": ("stages: [{match: {labels: {a: 1}}}]", "stages[0].match.labels: must be"),
    "namespaces as a text": (
        "stages: [{match: {namespaces: a}}]",
        "stages[0].match.namespaces: must be a list of strings",
    ),
    "too many": (f"stages: [{','.join(['{}'] * 1001)}]", "stages: must have at most 1000 items"),
    "too large": (" " * (1024 * 1024 + 1), "the file is larger than"),
}


@pytest.mark.parametrize(("text", "why"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(text: str, why: str) -> None:
    with pytest.raises(InvalidStage) as refused:
        parse_stages(text.encode())
    assert str(refused.value).startswith(why)


# A stage, and what contradicts itself in it.
CONTRADICTIONS: Final = {
    "a success with a failure's code": (
        "{phase: Succeeded, exitCode: 3}",
        "exitCode: must be 0 when the phase is Succeeded, not 3",
    ),
    "a failure with a success's code": (
        "{phase: Failed, exitCode: 0}",
        "exitCode: must not be 0 when the phase is Failed",
    ),
    "the code of what does not end": (
        "{phase: Running, exitCode: 0}",
        "exitCode: must not be set when the phase is Running",
    ),
    "the duration of what does not end": (
        "{phase: Running, duration: 1s}",
        "duration: must not be set when the phase is Running",
    ),
    "the reason of no end": (
        "{phase: Running, reason: Error}",
        "reason: must not be set when the phase is Running",
    ),
    "the start of what never starts": (
        "{phase: Pending, startDelay: 1s}",
        "startDelay: must not be set when the phase is Pending",
    ),
    "ready, and never started": (
        "{phase: Pending, ready: true}",
        "ready: must not be set when the phase is Pending",
    ),
    "ready later, and never": (
        "{ready: false, readyDelay: 1s}",
        "readyDelay: must not be set when ready is false",
    ),
    "an interval of nothing": ("{logInterval: 1s}", "logInterval: requires log or logStderr"),
    "the log of what never starts": (
        "{phase: Pending, log: a}",
        "log: must not be set when the phase is Pending",
    ),
    "restarts without any delay": (
        "{phase: Failed, restartDelay: 0}",
        "restartDelay: must not be 0 for all runs if they take no time: restarts would never end",
    ),
}


@pytest.mark.parametrize(("stage", "why"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictions(stage: str, why: str) -> None:
    with pytest.raises(InvalidStage) as refused:
        parse_stages(f"stages: [{stage}]".encode())
    assert str(refused.value) == f"stages[0].{why}"


CONSISTENT: Final = {
    "a failure with its code": "{phase: Failed, exitCode: 3}",
    "a wait with its reason": "{phase: Pending, reason: ImagePullBackOff, message: not there}",
    "some restarts without any delay": "{phase: Failed, times: 3, restartDelay: 0}",
    "restarts of what takes some time": "{phase: Failed, duration: 1s, restartDelay: 0}",
    "what has no phase of its own": "{startDelay: 1s, readyDelay: 1s}",
}


@pytest.mark.parametrize("stage", CONSISTENT.values(), ids=CONSISTENT)
def test_what_does_not_contradict_itself(stage: str) -> None:
    assert len(parse_stages(f"stages: [{stage}]".encode())) == 1


# Two stages, and whether runs come to the second one.
REACHED: Final = {
    "nothing is left": ("{}", "{match: {labels: {app: a}}}", False),
    "the same": ("{match: {owners: [Job]}}", "{match: {owners: [Job]}}", False),
    "a part of the names": ("{match: {owners: [Job, Pod]}}", "{match: {owners: [Job]}}", False),
    "another name": ("{match: {owners: [Job]}}", "{match: {owners: [Job, Pod]}}", True),
    "fewer labels": ("{match: {labels: {a: x, b: y}}}", "{match: {labels: {a: x}}}", True),
    "more labels": ("{match: {labels: {a: x}}}", "{match: {labels: {a: x, b: y}}}", False),
    "another value": ("{match: {labels: {a: x}}}", "{match: {labels: {a: y}}}", True),
    "another namespace": ("{match: {namespaces: [x]}}", "{match: {namespaces: [y]}}", True),
    "what may be an init container": ("{}", "{match: {containers: [x]}}", True),
    "all but init containers": ("{match: {containers: [x]}}", "{}", True),
    "later runs": ("{times: 2}", "{}", True),
    "one more run": ("{times: 2}", "{times: 3}", True),
    "runs that are over": ("{times: 2}", "{times: 2}", False),
    "a log, and then how it goes": ("{log: a}", "{phase: Failed}", True),
    "how it goes, and then a log": ("{phase: Failed}", "{log: a}", True),
    "two logs": ("{log: a}", "{logStderr: b}", False),
    "a log, and more": ("{log: a}", "{log: b, phase: Failed}", True),
    "commands that are others": ("{commands: [{command: a}]}", "{commands: [{command: b}]}", True),
    "commands that are the same": (
        "{commands: [{command: a}, {command: b}]}",
        "{commands: [{command: b}]}",
        False,
    ),
    "ports that are others": ('{ports: {80: "a:1"}}', '{ports: {81: "a:1"}}', True),
    "ports that are the same": ('{ports: {80: "a:1"}}', '{ports: {80: "b:1"}}', False),
}


@pytest.mark.parametrize(("first", "second", "is_reached"), REACHED.values(), ids=REACHED)
def test_whether_a_stage_is_reached(first: str, second: str, is_reached: bool) -> None:
    text = f"stages:\n- {first}\n- {second}\n".encode()
    if is_reached:
        assert len(parse_stages(text)) == 2
        return
    with pytest.raises(InvalidStage) as refused:
        parse_stages(text)
    assert str(refused.value) == (
        "stages[1]: this stage is never reached: stages[0] selects the same containers first"
    )
    assert refused.value.place == (3, 3)


def test_a_thousand_stages_are_read_at_once() -> None:
    stages = "\n".join(f"- {{match: {{labels: {{app: a{number}}}}}}}" for number in range(1_000))
    began = time.process_time()
    assert len(parse_stages(f"stages:\n{stages}\n".encode())) == 1_000
    assert time.process_time() - began < 5


# A file, and the line and the column that its error has.
PLACES: Final = {
    "of a field": ("stages:\n- phase: Failed\n  times: 0\n", (3, 3)),
    "of an unknown field": ("stages:\n- phase: Failed\n  tmies: 1\n", (3, 3)),
    "of an unknown match": ("stages:\n- match:\n    label: {a: b}\n", (3, 5)),
    "of an item": ("stages:\n- {}\n- 1\n", (3, 3)),
    "of a contradiction": ("stages:\n- exitCode: 3\n  phase: Succeeded\n", (2, 3)),
    "of what is merged": ("stages:\n- &a {times: 1}\n- {<<: *a, times: 0}\n", (3, 12)),
    "of what is merged, and wrong": ("stages:\n- &a {times: 1}\n- {<<: *a, exitCode: 999}\n", (3, 12)),
    "of what is no YAML": ("stages:\n- {times: 1\n", (3, 1)),
    "of a key that is given twice": ("stages:\n- times: 1\n  times: 2\n", (3, 3)),
    "of the whole": ("# nothing\nrules: []\n", (2, 1)),
    "of nothing": ("", None),
}


@pytest.mark.parametrize(("text", "place"), PLACES.values(), ids=PLACES)
def test_places(text: str, place: tuple[int, int] | None) -> None:
    with pytest.raises(InvalidStage) as refused:
        parse_stages(text.encode())
    assert refused.value.place == place


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
        Stage("Failed", match=StageSelector(containers=frozenset({"a", "b"}))),
    ),
}


@pytest.mark.parametrize(("annotations", "stage"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_annotations(annotations: dict[str, str], stage: Stage | None) -> None:
    ours = {key if "/" in key else f"simulate.apiserver/{key}": text for key, text in annotations.items()}
    assert annotated_stages(ours) == ([] if stage is None else [stage])


def test_annotations_of_one_container() -> None:
    """They come before those of all."""
    ours = {"phase": "Running", "exit-code.a": "3", "log.b": "l", "start-delay.b": "1s"}
    assert annotated_stages({f"simulate.apiserver/{key}": text for key, text in ours.items()}) == [
        Stage("Failed", exit_code=3, match=StageSelector(containers=frozenset({"a"}))),
        Stage(log="l", start_delay_s=1.0, match=StageSelector(containers=frozenset({"b"}))),
        Stage("Running"),
    ]


def test_a_stage_of_a_log_does_not_say_how_a_run_goes() -> None:
    annotated = annotated_stages({"simulate.apiserver/log": "a", "simulate.apiserver/times": "1"})
    assert annotated == [Stage(log="a", times=1, defines_run=False)]
    stages = [*annotated, Stage("Failed")]
    assert stage_of(pod(), "c", stages=stages, restarts=0, is_init=False, is_sidecar=False) == Stage("Failed")


BAD_ANNOTATIONS: Final = {
    "unknown": (
        {"exitcode": "1"},
        "metadata.annotations[simulate.apiserver/exitcode]: unknown name; known names are ",
    ),
    "no number": (
        {"exit-code": "one"},
        "metadata.annotations[simulate.apiserver/exit-code]: must be an integer",
    ),
    "of one container": (
        {"exit-code.main": "one"},
        "metadata.annotations[simulate.apiserver/exit-code.main]: must be an integer",
    ),
    "a contradiction of one container": (
        {"log-interval.main": "1s"},
        "metadata.annotations[simulate.apiserver/log-interval.main]: requires log or logStderr",
    ),
    "no JSON": ({"commands": "uptime"}, "metadata.annotations[simulate.apiserver/commands]: must be JSON: "),
    "a bad table": (
        {"commands": '[{"command": "a", "exitCode": 300}]'},
        "metadata.annotations[simulate.apiserver/commands][0].exitCode: must be an integer",
    ),
    "containers of a container": (
        {"containers.main": "a"},
        "metadata.annotations[simulate.apiserver/containers.main]: unknown name; known names are ",
    ),
    "a contradiction": (
        {"phase": "Succeeded", "exit-code": "3"},
        "metadata.annotations[simulate.apiserver/exit-code]: must be 0 when the phase is Succeeded",
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
    stage = Stage("Failed", match=StageSelector(**selection))
    assert stages_for(of_job(pod()), [stage]) == ([stage] if selects else [])


ONE: Final = Stage("Failed", times=1)
NAMED: Final = Stage("Failed", match=StageSelector(containers=frozenset({"i"})))


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


DEFAULTS: Final = {
    "a pod": (pod(), False, "Running"),
    "a pod of a Job": (of_job(pod()), False, "Succeeded"),
    "an init container": (pod(), True, "Succeeded"),
}


@pytest.mark.parametrize(("found", "is_init", "phase"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_stage_without_a_phase_gets_as_far_as_without_it(
    found: Document, is_init: bool, phase: str
) -> None:
    delayed = Stage(start_delay_s=1.0, match=StageSelector(containers=frozenset({"c"})))
    stage = stage_of(found, "c", stages=[delayed], restarts=0, is_init=is_init, is_sidecar=False)
    assert (stage.phase, stage.start_delay_s) == (phase, 1.0)


def test_sidecars_run_on() -> None:
    assert stage_of(of_job(pod()), "i", stages=(), restarts=0, is_init=True, is_sidecar=True) is RUNS_ON
