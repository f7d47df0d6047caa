"""What becomes of simulated pods: stages, from a file or from the annotations of a pod. Pure.

A file holds a list; the first stage that selects a run of a container says how that run goes:

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

All is optional. The same fields, but `match`, are annotations of a pod: `simulate.apiserver/exit-code: "3"`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import yaml

from apiserver.golang.durations import parse_duration
from apiserver.meta.owners import controller_of
from apiserver.vocabulary import Document

# What begins the annotations, and the one that makes a Node of anybody's a simulated one.
ANNOTATION_PREFIX: Final = "simulate.apiserver/"
NODE_ANNOTATION: Final = f"{ANNOTATION_PREFIX}node"
PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")
STAGES_MAX: Final = 1_000
FILE_BYTES_MAX: Final = 1024 * 1024
# Ten years, longer than any server runs.
DURATION_S_MAX: Final = 10 * 365 * 86_400.0
# A tenth of a kubelet's.
RESTART_DELAY_S: Final = 1.0
RESTART_DELAY_S_MAX: Final = 30.0
TEXT_LENGTH_MAX: Final = 1_024

# Of a number in an annotation. All bounds are smaller.
_DIGITS_MAX: Final = 20

_T = TypeVar("_T")


class InvalidStage(ValueError):
    """A stage is malformed. path: of the field, as `stages[0].duration`; empty for the whole."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path, self.problem = path, problem


@dataclass(frozen=True, slots=True)
class Selection:
    """Which pods a stage is for; an empty field selects all.

    owners: kinds of the object that controls the pod. containers: names, of init containers too, which are
        selected only by their name.
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


@dataclass(frozen=True, slots=True)
class Stage:
    """How a run of a container goes. times: how many runs of each container go so; None: all."""

    phase: str = "Running"
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
    match: Selection = Selection()

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
        """Returns how long to wait before a restart. restarts: those before. The first one comes at once."""
        if restarts == 0:
            return 0.0
        most_s = max(RESTART_DELAY_S_MAX, self.restart_delay_s)
        # 2**30 restart delays are longer than any that there is.
        return min(self.restart_delay_s * 2.0 ** min(restarts - 1, 30), most_s)


RUNS_ON: Final = Stage()
SUCCEEDS: Final = Stage(phase="Succeeded")


def stage_of(
    pod: Document, container: str, *, stages: Sequence[Stage], restarts: int, is_init: bool, is_sidecar: bool
) -> Stage:
    """Returns how a run of a container goes. stages: those that select the pod. restarts: the runs before."""
    for stage in stages:
        named = stage.match.containers
        if (container in named if named else not is_init) and (stage.times is None or restarts < stage.times):
            return stage
    if is_init and not is_sidecar:
        return SUCCEEDS
    owner = controller_of(pod)
    return SUCCEEDS if owner is not None and owner.get("kind") == "Job" and not is_init else RUNS_ON


def stages_for(pod: Document, stages: Sequence[Stage]) -> list[Stage]:
    """Returns the stages that select a pod: the one in its annotations first. Raises InvalidStage."""
    found = [stage for stage in stages if stage.match.selects_pod(pod)]
    annotated = annotated_stage(pod["metadata"].get("annotations") or {})
    return [annotated, *found] if annotated is not None else found


# ---- reading


def parse_stages(text: bytes) -> tuple[Stage, ...]:
    """Returns the stages in a file. Raises InvalidStage."""
    if len(text) > FILE_BYTES_MAX:
        raise InvalidStage("", f"the file is larger than {FILE_BYTES_MAX} bytes")
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidStage("", f"not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict) or set(document) != {"stages"}:
        raise InvalidStage("", "must be a mapping with the one key stages")
    listed = document["stages"]
    if not isinstance(listed, list):
        raise InvalidStage("stages", "must be a list")
    if len(listed) > STAGES_MAX:
        raise InvalidStage("stages", f"must have at most {STAGES_MAX} items")
    return tuple(_stage(each, f"stages[{number}]") for number, each in enumerate(listed))


def annotated_stage(annotations: Mapping[str, str]) -> Stage | None:
    """Returns the stage in the annotations of a pod; None if there is none. Raises InvalidStage."""
    values: dict[str, Any] = {}
    containers: frozenset[str] = frozenset()
    for key, text in annotations.items():
        if not key.startswith(ANNOTATION_PREFIX) or key == NODE_ANNOTATION:
            continue
        path, name = f"metadata.annotations[{key}]", key.removeprefix(ANNOTATION_PREFIX)
        if name == "containers":
            containers = frozenset(each.strip() for each in text.split(",") if each.strip())
            continue
        first, *rest = name.split("-")
        found = "".join([first, *(each.capitalize() for each in rest)])
        if found not in _FIELDS:
            raise InvalidStage(path, f"unknown; known are {', '.join(_ANNOTATIONS)}")
        is_text = found in _TEXTS
        values.update([_value(found, text if is_text else _scalar(text), path)])
    if not (values or containers):
        return None
    return _checked(replace(Stage(**values), match=Selection(containers=containers)), values)


def _scalar(text: str) -> object:
    """Returns what YAML would make of a text, as a file has it: a number, a truth value or a text."""
    if text in ("true", "false"):
        return text == "true"
    if not (text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < _DIGITS_MAX):
        return text
    return float(text) if "." in text else int(text)


def _stage(found: object, path: str) -> Stage:
    if not isinstance(found, dict):
        raise InvalidStage(path, "must be a mapping")
    values: dict[str, Any] = {}
    match = Selection()
    for name, value in found.items():
        if name == "match":
            match = _selection(value, f"{path}.match")
        elif name in _FIELDS:
            values.update([_value(name, value, f"{path}.{name}")])
        else:
            raise InvalidStage(path, f"unknown field {name!r}; known are match, {', '.join(_FIELDS)}")
    return _checked(replace(Stage(**values), match=match), values)


def _checked(stage: Stage, given: Mapping[str, object]) -> Stage:
    """Returns a stage whose phase follows from the exit code, if only that is given."""
    if "phase" not in given and ("exit_code" in given or "duration_s" in given):
        return replace(stage, phase="Failed" if stage.exit_code else "Succeeded")
    return stage


def _selection(found: object, path: str) -> Selection:
    if not isinstance(found, dict):
        raise InvalidStage(path, "must be a mapping")
    unknown = [str(each) for each in found if each not in _SELECTED]
    if unknown:
        raise InvalidStage(path, f"unknown field {unknown[0]!r}; known are {', '.join(_SELECTED)}")
    labels = found.get("labels") or {}
    if not isinstance(labels, dict) or not all(
        isinstance(each, str) for pair in labels.items() for each in pair
    ):
        raise InvalidStage(f"{path}.labels", "must be a mapping of texts to texts")
    texts = {name: _texts(found.get(name) or [], f"{path}.{name}") for name in _SELECTED if name != "labels"}
    return Selection(labels=labels, **texts)


_SELECTED: Final = ("namespaces", "labels", "owners", "containers")


def _texts(found: object, path: str) -> frozenset[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidStage(path, "must be a list of texts")
    return frozenset(found)


def _value(name: str, value: object, path: str) -> tuple[str, Any]:
    """Returns a field of Stage with its value. Raises InvalidStage."""
    target, read = _FIELDS[name]
    try:
        return target, read(value)
    except ValueError as error:
        raise InvalidStage(path, str(error)) from None


def _phase(value: object) -> str:
    if not isinstance(value, str) or value not in PHASES:
        raise ValueError(f"must be one of {', '.join(PHASES)}, not {value!r:.100}")
    return value


def _whole(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}, not {value!r:.100}")
        return value

    return read


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {value!r:.100}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
        raise ValueError(f"must be a text of at most {TEXT_LENGTH_MAX} characters")
    return value


def _duration_s(value: object) -> float:
    problem = f"must be a duration like 500ms or 2s, or a number of seconds, not {value!r:.100}"
    if isinstance(value, str):
        try:
            value = parse_duration(value)
        except ValueError:
            raise ValueError(problem) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(problem)
    if not 0 <= value <= DURATION_S_MAX:
        raise ValueError(f"must be from 0 to {DURATION_S_MAX:.0f} s")
    return float(value)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    "times": ("times", _whole(1, 1_000_000)),
    "phase": ("phase", _phase),
    "startDelay": ("start_delay_s", _duration_s),
    "readyDelay": ("ready_delay_s", _duration_s),
    "ready": ("ready", _truth),
    "duration": ("duration_s", _duration_s),
    "exitCode": ("exit_code", _whole(0, 255)),
    "reason": ("reason", _text),
    "message": ("message", _text),
    "restartDelay": ("restart_delay_s", _duration_s),
    "terminationDelay": ("termination_delay_s", _duration_s),
}
_TEXTS: Final = frozenset({"phase", "reason", "message"})
_ANNOTATIONS: Final = ["containers"] + [
    "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name) for name in _FIELDS
]
