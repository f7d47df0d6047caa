"""What simulated containers answer: stages that add up, and what follows from their own spec."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.container_answers import (
    ALL_LENGTH_MAX,
    WORD_LENGTH_MAX,
    SimulatedContainer,
    variables_of,
)
from apiserver.testkit.simulation.logs import ContainerRun
from apiserver.testkit.simulation.stages import Stage, parse_stages, stages_for
from tests.unit.testkit.simulation.pods import NOW_S, pod

RUN: Final = ContainerRun(0, NOW_S)
SECOND_RUN: Final = ContainerRun(1, NOW_S)


def container(found: Document, *stages: Stage, name: str = "c") -> SimulatedContainer:
    made = SimulatedContainer.of(found, name, stages_for(found, stages))
    assert made is not None
    return made


def stages(text: str) -> tuple[Stage, ...]:
    return parse_stages(f"stages: [{text}]".encode())


def log_of(found: SimulatedContainer, run: ContainerRun = RUN) -> bytes:
    return b"".join(line.text for line in found.lines(run))


# Annotations, stages of a file, and the log of the container c.
LOGS: Final[dict[str, tuple[dict[str, str], str, bytes]]] = {
    "none": ({}, "", b""),
    "annotated": ({"log": "a\n"}, "{log: b}", b"a\n"),
    "in a file": ({}, "{log: b, logStderr: c}", b"bc"),
    "in a file, beside annotations": ({"exit-code": "3", "duration": "1h"}, "{log: b}", b"b"),
    "as long as it runs": (
        {"log": "a\nb\nc\n", "log-interval": "1s", "exit-code": "3", "duration": "1s"},
        "",
        b"a\nb\n",
    ),
    "as long as another stage says": ({"exit-code": "3"}, '{log: "a\\nb\\n", logInterval: 1s}', b"a\n"),
    "of one container": ({"log": "a", "log.c": "b", "log.d": "d"}, "", b"b"),
    "of another container": ({"log": "a", "containers": "d"}, "", b""),
    "the first": (
        {},
        "{match: {labels: {app: x}}, log: a}, {log: b}, {match: {containers: [c]}, log: d}",
        b"b",
    ),
    "of the first run": ({}, "{times: 1, log: a}, {log: b}", b"a"),
    "empty": ({"log": ""}, "{log: b}", b""),
    "of stderr alone": ({"log-stderr": "a"}, "{log: b}", b"a"),
}


@pytest.mark.parametrize(("annotations", "file", "log"), LOGS.values(), ids=LOGS)
def test_logs(annotations: dict[str, str], file: str, log: bytes) -> None:
    assert log_of(container(pod(annotations=annotations), *stages(file))) == log


def test_each_run_has_its_log() -> None:
    found = container(pod(), *stages("{times: 1, log: a}, {log: b}"))
    assert (log_of(found), log_of(found, SECOND_RUN)) == (b"a", b"b")


def with_spec(**spec: Any) -> Document:
    found = pod()
    found["spec"]["containers"][0] |= spec
    return found


OWN: Final = {
    "a command": (with_spec(command=["echo", "a"]), b"a\n"),
    "arguments": (with_spec(command=["sh", "-c"], args=["echo a; echo b"]), b"a\nb\n"),
    "arguments of an image": (with_spec(args=["echo", "a"]), b"a\n"),
    "with variables": (
        with_spec(command=["echo", "$(X) $$(X) $(Y)"], env=[{"name": "X", "value": "1"}]),
        b"1 $(X) $(Y)\n",
    ),
    "not understood": (with_spec(command=["nginx"]), b""),
    "of an image": (pod(), b""),
}


@pytest.mark.parametrize(("found", "log"), OWN.values(), ids=OWN)
def test_without_a_stage_a_log_is_what_the_command_prints(found: Document, log: bytes) -> None:
    assert log_of(container(found)) == log


def test_init_containers_are_selected_by_their_names_alone() -> None:
    found = pod(initContainers=[{"name": "i", "image": "i"}])
    said = stages("{log: a}, {match: {containers: [i]}, log: b}")
    assert log_of(container(found, *said, name="i")) == b"b"


def test_there_is_no_such_container() -> None:
    assert SimulatedContainer.of(pod(), "x", ()) is None


def test_commands_of_all_stages_add_up() -> None:
    found = container(
        pod(annotations={"commands": '[{"command": "a", "exitCode": 1}]'}),
        *stages("{commands: [{command: a, exitCode: 2}, {command: b, exitCode: 3}]}, {phase: Running}"),
    )
    assert [(each.key, each.exit_code) for each in found.commands] == [(("a",), 1), (("a",), 2), (("b",), 3)]
    assert found.knows(["a"])
    assert not found.knows(["c"])


def test_commands_are_those_of_the_current_run() -> None:
    found = pod()
    found["status"]["containerStatuses"] = [{"name": "c", "restartCount": 1}]
    said = stages("{times: 1, commands: [{command: a}]}, {commands: [{command: b}]}")
    assert [each.key for each in container(found, *said).commands] == [("b",)]


def test_references_to_references_do_not_grow_without_end() -> None:
    env = [{"name": "A0", "value": "x" * 1_000}]
    env += [{"name": f"A{number}", "value": f"$(A{number - 1})" * 100} for number in range(1, 50)]
    found = with_spec(env=env, command=["echo", *["$(A2)" * 100] * 100])
    variables = variables_of(found, found["spec"]["containers"][0])
    assert max(map(len, variables.values())) == WORD_LENGTH_MAX
    assert sum(map(len, variables.values())) < ALL_LENGTH_MAX + WORD_LENGTH_MAX
    assert container(found).own_command == []


def test_the_environment_of_a_container() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)2$(C)"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "NOTHING"},
    ]
    found = with_spec(env=env)
    variables = dict(variables_of(found, found["spec"]["containers"][0]))
    assert variables.pop("PATH").startswith("/usr/local/sbin:")
    assert variables == {
        "HOSTNAME": "p",
        "HOME": "/root",
        "A": "1",
        "B": "12$(C)",
        "NAME": "p",
        "NODE": "simulated-0",
        "NOTHING": "",
    }
