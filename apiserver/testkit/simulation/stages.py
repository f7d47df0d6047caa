"""The behavior of simulated pods: stages, from a file or from the annotations of a pod. Pure.

A file holds a list; the first stage that selects a run of a container defines that run:

    stages:
    - match: {namespaces: [batch], labels: {app: importer}, owners: [Job], containers: [main]}
      times: 2            # the first two runs of the container; without, all of them
      phase: Failed       # Pending, Running, Succeeded or Failed: how far it gets
      startDelay: 500ms   # how long it is waited for
      readyDelay: 1s      # how long it runs until it is ready
      ready: true         # false: it never is
      duration: 2s        # how long it runs until it has succeeded or failed
      exitCode: 3         # 0 of what succeeds, 1 of what fails
      reason: Error       # of the end, or of the wait that never ends
      message: "no input"
      restartDelay: 1s    # what the back-off of restarts begins with
      terminationDelay: 0s  # how long it goes on after the pod was deleted, at most its grace period
      log: |              # what it writes; logStderr: to its other output
        begun
        done
      logInterval: 1s     # how long it waits from line to line
      commands:           # what it answers to `exec` (`commands.py`)
      - {command: uptime, stdout: "up 3 days\\n"}
      ports: {80: "127.0.0.1:8080"}  # where connections to its ports go

All is optional. The same fields, but `match`, are annotations of a pod: `simulate.apiserver/exit-code: "3"`;
of one container, with its name: `simulate.apiserver/exit-code.main: "3"`. Commands and ports are JSON there.

A stage with only logs, commands or ports does not define the run itself: the next one that selects it does,
and vice versa. Contradictory stages, and those that no run reaches, are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
import yaml

from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.commands import EXIT_CODE_MAX, Command, read_commands
from apiserver.testkit.simulation.field_values import (
    FieldPath,
    FilePosition,
    InvalidStage,
    duration_s,
    one_of,
    truth,
    whole,
)
from apiserver.testkit.simulation.field_values import text as text_of
from apiserver.testkit.simulation.logs import LINES_MAX
from apiserver.testkit.simulation.ports import HostPort, read_ports

# What begins the annotations, and the one that makes a Node of anybody's a simulated one.
ANNOTATION_PREFIX: Final = "simulate.apiserver/"
NODE_ANNOTATION: Final = f"{ANNOTATION_PREFIX}node"
PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")
STAGES_MAX: Final = 1_000
FILE_BYTES_MAX: Final = 1024 * 1024
# A tenth of a kubelet's.
RESTART_DELAY_S: Final = 1.0
RESTART_DELAY_S_MAX: Final = 30.0
TEXT_LENGTH_MAX: Final = 1_024
# All annotations of an object together have no more.
LOG_LENGTH_MAX: Final = 256 * 1024

# Of a number in an annotation. All bounds are smaller.
_DIGITS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class StageSelector:
    """Selects the pods and containers of a stage; an empty field selects all.

    owners: kinds of the pod's controller. containers: names; init containers are selected only by name.
    """

    namespaces: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    owners: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()

    def selects_pod(self, pod: Document) -> bool:
        meta = pod["metadata"]
        labels, owner = meta.get("labels") or {}, controller_of(pod)
        return (
            (not self.namespaces or meta.get("namespace") in self.namespaces)
            and (not self.owners or (owner is not None and owner.get("kind") in self.owners))
            and all(labels.get(key) == value for key, value in self.labels.items())
        )

    def covers(self, other: StageSelector) -> bool:
        """Returns whether everything that another selector selects is selected.

        A name may be that of an init container, which a selector without names does not select.
        """
        return (
            _includes(self.namespaces, other.namespaces)
            and _includes(self.owners, other.owners)
            and self.labels.items() <= other.labels.items()
            and bool(self.containers) == bool(other.containers)
            and _includes(self.containers, other.containers)
        )


def _includes(names: frozenset[str], others: frozenset[str]) -> bool:
    """Returns whether names, of which none means all, include others."""
    return not names or (bool(others) and others <= names)


class Stage(NamedTuple):
    """Defines how a run of a container goes.

    phase: how far it gets; empty for the default. times: how many runs of each container it applies to; None:
    all. log, log_stderr: None if it defines no log.
    defines_run: whether it defines anything besides logs, commands and ports.
    """

    phase: str = ""
    times: int | None = None
    start_delay_s: float = 0.0
    ready_delay_s: float = 0.0
    ready: bool = True
    duration_s: float = 0.0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    restart_delay_s: float = RESTART_DELAY_S
    termination_delay_s: float = 0.0
    match: StageSelector = StageSelector()
    log: str | None = None
    log_stderr: str | None = None
    log_interval_s: float = 0.0
    commands: tuple[Command, ...] = ()
    ports: Mapping[int, HostPort] = {}
    defines_run: bool = True

    def selects_run(self, container: str, restarts: int, *, is_init: bool) -> bool:
        """Returns whether it applies to a run of a container of a selected pod. restarts: the number of
        earlier runs.
        """
        named = self.match.containers
        return (container in named if named else not is_init) and (
            self.times is None or restarts < self.times
        )

    @property
    def said(self) -> Iterator[object]:
        """Yields the attributes of the stage, for comparison with other stages."""
        if self.defines_run:
            yield "run"
        if self.has_log:
            yield "log"
        yield from (("command", each.key) for each in self.commands)
        yield from (("port", each) for each in self.ports)

    @property
    def has_log(self) -> bool:
        return self.log is not None or self.log_stderr is not None

    @property
    def ends(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def code(self) -> int:
        """The exit code of a run that ends."""
        if self.exit_code is not None:
            return self.exit_code
        return 1 if self.phase == "Failed" else 0

    def restart_backoff_s(self, restarts: int) -> float:
        """Returns how long to wait before a restart; the first one is immediate.

        restarts: the number of earlier ones.
        """
        if restarts == 0:
            return 0.0
        most_s = max(RESTART_DELAY_S_MAX, self.restart_delay_s)
        # 2**30 restart delays are longer than any that there is.
        return min(self.restart_delay_s * 2.0 ** min(restarts - 1, 30), most_s)


RUNS_ON: Final = Stage(phase="Running")
SUCCEEDS: Final = Stage(phase="Succeeded")


def stage_of(
    pod: Document, container: str, *, stages: Sequence[Stage], restarts: int, is_init: bool, is_sidecar: bool
) -> Stage:
    """Returns the stage of a run of a container.

    stages: those that select the pod. restarts: the number of earlier runs.
    """
    default = _default(pod, is_init=is_init, is_sidecar=is_sidecar)
    for stage in stages:
        if stage.defines_run and stage.selects_run(container, restarts, is_init=is_init):
            return stage if stage.phase else stage._replace(phase=default.phase)
    return default


def _default(pod: Document, *, is_init: bool, is_sidecar: bool) -> Stage:
    if is_init:
        return RUNS_ON if is_sidecar else SUCCEEDS
    owner = controller_of(pod)
    return SUCCEEDS if owner is not None and owner.get("kind") == "Job" else RUNS_ON


def stages_for(pod: Document, stages: Sequence[Stage]) -> list[Stage]:
    """Returns the stages that select a pod, the one in its annotations first. Raises InvalidStage."""
    found = [stage for stage in stages if stage.match.selects_pod(pod)]
    return [*annotated_stages(pod["metadata"].get("annotations") or {}), *found]


# ---- reading


def parse_stages(text: bytes) -> tuple[Stage, ...]:
    """Returns the stages in a file. Raises InvalidStage, with the place."""
    if len(text) > FILE_BYTES_MAX:
        raise InvalidStage((), f"the file is larger than {FILE_BYTES_MAX} bytes")
    root, document = _load(text)
    try:
        stages = _stages(document)
        _check_reached(stages)
    except InvalidStage as error:
        raise InvalidStage(error.path, error.problem, _place(root, error.path)) from None
    return stages


class _Loader(yaml.SafeLoader):
    """Refuses a mapping with a duplicate key, of which YAML's loader would take the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        known: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in known:
                    problem = f"{key.value!s:.100} occurs twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                known.add(key.value)
        return node


def _load(text: bytes) -> tuple[yaml.Node | None, object]:
    """Returns the content of a file, with and without places."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            return root, None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = None if mark is None else FilePosition(mark.line + 1, mark.column + 1)
        raise InvalidStage((), f"not YAML: {error.problem}", place) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidStage((), f"not YAML: {' '.join(str(error).split())}") from None


def _place(root: yaml.Node | None, path: FieldPath) -> FilePosition | None:
    """Returns the place and name of a field; for an absent one, the place of its parent."""
    found, inside = root, root
    for step in path:
        if isinstance(inside, yaml.MappingNode):
            # The last one counts: merged keys come first.
            pair = next((each for each in reversed(inside.value) if each[0].value == step), None)
        elif isinstance(inside, yaml.SequenceNode) and isinstance(step, int):
            pair = (inside.value[step],) * 2
        else:
            pair = None
        if pair is None:
            break
        found, inside = pair
    return None if found is None else FilePosition(found.start_mark.line + 1, found.start_mark.column + 1)


def _stages(document: object) -> tuple[Stage, ...]:
    if not isinstance(document, dict) or set(document) != {"stages"}:
        raise InvalidStage((), "must be a mapping with the single key stages")
    listed = document["stages"]
    if not isinstance(listed, list):
        raise InvalidStage(("stages",), "must be a list")
    if len(listed) > STAGES_MAX:
        raise InvalidStage(("stages",), f"must have at most {STAGES_MAX} items")
    return tuple(_stage(each, ("stages", number)) for number, each in enumerate(listed))


def _check_reached(stages: Sequence[Stage]) -> None:
    """Check that a stage can be reached."""
    for number, stage in enumerate(stages):
        unsaid = set(stage.said)
        for earlier, other in enumerate(stages[:number]):
            is_used_up = other.times is not None and (stage.times is None or stage.times > other.times)
            if not is_used_up and other.match.covers(stage.match):
                unsaid.difference_update(other.said)
                if not unsaid:
                    problem = (
                        f"this stage is never reached: stages[{earlier}] selects the same containers first"
                    )
                    raise InvalidStage(("stages", number), problem)


def annotated_stages(annotations: Mapping[str, str]) -> list[Stage]:
    """Returns the stages in the annotations of a pod, those of one container first. Raises InvalidStage."""
    said: dict[str, dict[str, str]] = {}
    for key, text in annotations.items():
        if key.startswith(ANNOTATION_PREFIX) and key != NODE_ANNOTATION:
            name, _, container = key.removeprefix(ANNOTATION_PREFIX).partition(".")
            said.setdefault(container, {})[name] = text
    of_all = said.pop("", {})
    stages = [_annotated(texts, frozenset({container}), f".{container}") for container, texts in said.items()]
    if of_all:
        listed = of_all.pop("containers", "")
        containers = frozenset(each.strip() for each in listed.split(",") if each.strip())
        stages.append(_annotated(of_all, containers))
    return stages


def _annotated(texts: Mapping[str, str], containers: frozenset[str], suffix: str = "") -> Stage:
    """Returns the stage in annotations for containers. suffix: that of their keys."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        path = _annotation(name + suffix)
        first, *rest = name.split("-")
        found = "".join([first, *(each.capitalize() for each in rest)])
        if found not in _FIELDS:
            raise InvalidStage(path, f"unknown name; known names are {', '.join(_ANNOTATIONS)}")
        values.update([_value(found, _read_annotation(found, text, path), path)])
    stage = _stage_of(values, StageSelector(containers=containers))
    contradiction = _contradiction(stage, values)
    if contradiction is not None:
        name, problem = contradiction
        raise InvalidStage(_annotation(_hyphenated(name) + suffix), problem)
    return stage


def _read_annotation(field_name: str, text: str, path: FieldPath) -> object:
    """Returns the value of an annotation as a file would have it."""
    if field_name in _TEXTS:
        return text
    if field_name not in _IN_JSON:
        return _scalar(text)
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise InvalidStage(path, f"must be JSON: {error}") from None


def _annotation(name: str) -> FieldPath:
    return ("metadata", f"annotations[{ANNOTATION_PREFIX}{name}]")


def _hyphenated(name: str) -> str:
    """Returns the name of a field in annotations."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


def _scalar(text: str) -> object:
    """Returns the YAML value of a text: a number, a boolean or a string."""
    if text in ("true", "false"):
        return text == "true"
    if not (text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < _DIGITS_MAX):
        return text
    return float(text) if "." in text else int(text)


def _stage(found: object, path: FieldPath) -> Stage:
    if not isinstance(found, dict):
        raise InvalidStage(path, "must be a mapping")
    values: dict[str, Any] = {}
    match = StageSelector()
    for name, value in found.items():
        if name == "match":
            match = _selection(value, (*path, "match"))
        elif name in _FIELDS:
            values.update([_value(name, value, (*path, name))])
        else:
            known = ", ".join(("match", *_FIELDS))
            raise InvalidStage((*path, f"{name!s:.100}"), f"unknown field; known fields are {known}")
    stage = _stage_of(values, match)
    contradiction = _contradiction(stage, values)
    if contradiction is not None:
        name, problem = contradiction
        raise InvalidStage((*path, name), problem)
    return stage


def _stage_of(values: Mapping[str, Any], match: StageSelector) -> Stage:
    """Returns a stage with the given fields; an exit code alone implies the phase."""
    defines_run = not values.keys() & _ANSWERS or bool(values.keys() - _ANSWERS - {"times"})
    stage = Stage(**values, match=match, defines_run=defines_run)
    if "phase" not in values and ("exit_code" in values or "duration_s" in values):
        return stage._replace(phase="Failed" if stage.exit_code else "Succeeded")
    return stage


# What a run writes and answers, while it goes as it does.
_ANSWERS: Final = frozenset({"log", "log_stderr", "log_interval_s", "commands", "ports"})
# What a run does not have that gets only so far.
_WITHOUT_END: Final = ("exit_code", "duration_s")
_LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "Pending": (*_WITHOUT_END, "start_delay_s", "ready_delay_s", "ready", *_ANSWERS),
    "Running": (*_WITHOUT_END, "reason", "message"),
}


def _contradiction(stage: Stage, given: Container[str]) -> tuple[str, str] | None:
    """Returns a field that contradicts another one, and the reason. given: the set fields of Stage."""
    phase = stage.phase
    for name, (target, _) in _FIELDS.items():
        if target in _LACKING.get(phase, ()) and target in given:
            return name, f"must not be set when the phase is {phase}"
    if stage.exit_code and phase == "Succeeded":
        return "exitCode", f"must be 0 when the phase is Succeeded, not {stage.exit_code}"
    if stage.exit_code == 0 and phase == "Failed":
        return "exitCode", "must not be 0 when the phase is Failed"
    if not stage.ready and "ready_delay_s" in given:
        return "readyDelay", "must not be set when ready is false"
    if "log_interval_s" in given and not stage.has_log:
        return "logInterval", "requires log or logStderr"
    if stage.ends and stage.times is None and not (stage.restart_delay_s or stage.duration_s):
        return "restartDelay", "must not be 0 for all runs if they take no time: restarts would never end"
    return None


def _selection(found: object, path: FieldPath) -> StageSelector:
    if not isinstance(found, dict):
        raise InvalidStage(path, "must be a mapping")
    for name in found:
        if name not in _SELECTED:
            raise InvalidStage(
                (*path, f"{name!s:.100}"), f"unknown field; known fields are {', '.join(_SELECTED)}"
            )
    labels = found.get("labels") or {}
    if not isinstance(labels, dict) or not all(
        isinstance(each, str) for pair in labels.items() for each in pair
    ):
        raise InvalidStage((*path, "labels"), "must be a mapping of strings to strings")
    texts = {name: _texts(found.get(name) or [], (*path, name)) for name in _SELECTED if name != "labels"}
    return StageSelector(labels=labels, **texts)


_SELECTED: Final = ("namespaces", "labels", "owners", "containers")


def _texts(found: object, path: FieldPath) -> frozenset[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidStage(path, "must be a list of strings")
    return frozenset(found)


def _value(name: str, value: object, path: FieldPath) -> tuple[str, Any]:
    """Returns a field of Stage with its value. Raises InvalidStage."""
    target, read = _FIELDS[name]
    try:
        return target, read(value)
    except InvalidStage as error:
        raise error.below(path) from None


def _log_text(value: object) -> str:
    found = text_of(LOG_LENGTH_MAX)(value)
    if found.count("\n") > LINES_MAX:
        raise InvalidStage((), f"must have at most {LINES_MAX} lines")
    return found


_FIELDS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    "times": ("times", whole(1, 1_000_000)),
    "phase": ("phase", one_of(PHASES)),
    "startDelay": ("start_delay_s", duration_s),
    "readyDelay": ("ready_delay_s", duration_s),
    "ready": ("ready", truth),
    "duration": ("duration_s", duration_s),
    "exitCode": ("exit_code", whole(0, EXIT_CODE_MAX)),
    "reason": ("reason", text_of(TEXT_LENGTH_MAX)),
    "message": ("message", text_of(TEXT_LENGTH_MAX)),
    "restartDelay": ("restart_delay_s", duration_s),
    "terminationDelay": ("termination_delay_s", duration_s),
    "log": ("log", _log_text),
    "logStderr": ("log_stderr", _log_text),
    "logInterval": ("log_interval_s", duration_s),
    "commands": ("commands", read_commands),
    "ports": ("ports", read_ports),
}
_TEXTS: Final = frozenset({"phase", "reason", "message", "log", "logStderr"})
_IN_JSON: Final = frozenset({"commands", "ports"})
_ANNOTATIONS: Final = ("containers", *map(_hyphenated, _FIELDS))
