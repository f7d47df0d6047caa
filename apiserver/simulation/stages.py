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
What contradicts itself, and a stage that no run comes to, is refused: it would be a mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

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
# The keys and indexes that lead to a field: ("stages", 0, "duration").
FieldPath: TypeAlias = tuple[str | int, ...]


class Place(NamedTuple):
    """Where something stands in a file. Both begin at 1."""

    line: int
    column: int


class InvalidStage(ValueError):
    """A stage is malformed, or contradicts itself.

    path: of the field; empty for the whole. place: of the field in the file; None if there is none.
    """

    def __init__(self, path: FieldPath, problem: str, place: Place | None = None) -> None:
        text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
        super().__init__(f"{text.removeprefix('.')}: {problem}" if path else problem)
        self.path, self.problem, self.place = path, problem, place


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

    def covers(self, other: Selection) -> bool:
        """Whether all that another one selects is selected.

        Containers that it names may be init containers, which one that names none does not select.
        """
        return (
            _includes(self.namespaces, other.namespaces)
            and _includes(self.owners, other.owners)
            and self.labels.items() <= other.labels.items()
            and bool(self.containers) == bool(other.containers)
            and _includes(self.containers, other.containers)
        )


def _includes(names: frozenset[str], others: frozenset[str]) -> bool:
    """Whether names, of which none means all, include others."""
    return not names or (bool(others) and others <= names)


class Stage(NamedTuple):
    """How a run of a container goes.

    phase: how far it gets; empty for what it is without stages. times: how many runs of each container go so;
    None: all.
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


RUNS_ON: Final = Stage(phase="Running")
SUCCEEDS: Final = Stage(phase="Succeeded")


def stage_of(
    pod: Document, container: str, *, stages: Sequence[Stage], restarts: int, is_init: bool, is_sidecar: bool
) -> Stage:
    """Returns how a run of a container goes. stages: those that select the pod. restarts: the runs before."""
    default = _default(pod, is_init=is_init, is_sidecar=is_sidecar)
    for stage in stages:
        named = stage.match.containers
        if (container in named if named else not is_init) and (stage.times is None or restarts < stage.times):
            return stage if stage.phase else stage._replace(phase=default.phase)
    return default


def _default(pod: Document, *, is_init: bool, is_sidecar: bool) -> Stage:
    if is_init:
        return RUNS_ON if is_sidecar else SUCCEEDS
    owner = controller_of(pod)
    return SUCCEEDS if owner is not None and owner.get("kind") == "Job" else RUNS_ON


def stages_for(pod: Document, stages: Sequence[Stage]) -> list[Stage]:
    """Returns the stages that select a pod: the one in its annotations first. Raises InvalidStage."""
    found = [stage for stage in stages if stage.match.selects_pod(pod)]
    annotated = annotated_stage(pod["metadata"].get("annotations") or {})
    return [annotated, *found] if annotated is not None else found


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
    """Refuses a mapping in which a key is given twice, of which YAML's loader takes the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        known: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in known:
                    problem = f"{key.value!s:.100} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                known.add(key.value)
        return node


def _load(text: bytes) -> tuple[yaml.Node | None, object]:
    """Returns what a file holds, with its places and without."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            return root, None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = None if mark is None else Place(mark.line + 1, mark.column + 1)
        raise InvalidStage((), f"not YAML: {error.problem}", place) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidStage((), f"not YAML: {' '.join(str(error).split())}") from None


def _place(root: yaml.Node | None, path: FieldPath) -> Place | None:
    """Returns where a field begins, with its name; of one that is not there, where what lacks it does."""
    found, inside = root, root
    for step in path:
        if isinstance(inside, yaml.MappingNode):
            # The last one counts: what is merged stands before.
            pair = next((each for each in reversed(inside.value) if each[0].value == step), None)
        elif isinstance(inside, yaml.SequenceNode) and isinstance(step, int):
            pair = (inside.value[step],) * 2
        else:
            pair = None
        if pair is None:
            break
        found, inside = pair
    return None if found is None else Place(found.start_mark.line + 1, found.start_mark.column + 1)


def _stages(document: object) -> tuple[Stage, ...]:
    if not isinstance(document, dict) or set(document) != {"stages"}:
        raise InvalidStage((), "must be a mapping with the one key stages")
    listed = document["stages"]
    if not isinstance(listed, list):
        raise InvalidStage(("stages",), "must be a list")
    if len(listed) > STAGES_MAX:
        raise InvalidStage(("stages",), f"must have at most {STAGES_MAX} items")
    return tuple(_stage(each, ("stages", number)) for number, each in enumerate(listed))


def _check_reached(stages: Sequence[Stage]) -> None:
    """Raises InvalidStage for one all whose runs go as one before it says."""
    for number, stage in enumerate(stages):
        for earlier, other in enumerate(stages[:number]):
            is_used_up = other.times is not None and (stage.times is None or stage.times > other.times)
            if not is_used_up and other.match.covers(stage.match):
                problem = f"no run comes to it: stages[{earlier}] selects the same ones before"
                raise InvalidStage(("stages", number), problem)


def annotated_stage(annotations: Mapping[str, str]) -> Stage | None:
    """Returns the stage in the annotations of a pod; None if there is none. Raises InvalidStage."""
    values: dict[str, Any] = {}
    containers: frozenset[str] = frozenset()
    for key, text in annotations.items():
        if not key.startswith(ANNOTATION_PREFIX) or key == NODE_ANNOTATION:
            continue
        path, name = _annotation(key), key.removeprefix(ANNOTATION_PREFIX)
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
    stage = _with_phase(Stage(**values), values)._replace(match=Selection(containers=containers))
    contradiction = _contradiction(stage, values)
    if contradiction is not None:
        name, problem = contradiction
        raise InvalidStage(_annotation(ANNOTATION_PREFIX + _hyphenated(name)), problem)
    return stage


def _annotation(key: str) -> FieldPath:
    return ("metadata", f"annotations[{key}]")


def _hyphenated(name: str) -> str:
    """Returns the name that a field has among annotations."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


def _scalar(text: str) -> object:
    """Returns what YAML would make of a text, as a file has it: a number, a truth value or a text."""
    if text in ("true", "false"):
        return text == "true"
    if not (text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < _DIGITS_MAX):
        return text
    return float(text) if "." in text else int(text)


def _stage(found: object, path: FieldPath) -> Stage:
    if not isinstance(found, dict):
        raise InvalidStage(path, "must be a mapping")
    values: dict[str, Any] = {}
    match = Selection()
    for name, value in found.items():
        if name == "match":
            match = _selection(value, (*path, "match"))
        elif name in _FIELDS:
            values.update([_value(name, value, (*path, name))])
        else:
            known = ", ".join(("match", *_FIELDS))
            raise InvalidStage((*path, f"{name!s:.100}"), f"unknown field; known are {known}")
    stage = _with_phase(Stage(**values), values)._replace(match=match)
    contradiction = _contradiction(stage, values)
    if contradiction is not None:
        name, problem = contradiction
        raise InvalidStage((*path, name), problem)
    return stage


def _with_phase(stage: Stage, given: Container[str]) -> Stage:
    """Returns a stage whose phase follows from the exit code, if only that is given."""
    if "phase" not in given and ("exit_code" in given or "duration_s" in given):
        return stage._replace(phase="Failed" if stage.exit_code else "Succeeded")
    return stage


# What a run does not have that gets only so far.
_WITHOUT_END: Final = ("exit_code", "duration_s")
_LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    "Pending": (*_WITHOUT_END, "start_delay_s", "ready_delay_s", "ready"),
    "Running": (*_WITHOUT_END, "reason", "message"),
}


def _contradiction(stage: Stage, given: Container[str]) -> tuple[str, str] | None:
    """Returns a field that contradicts another one, and why. given: the fields of Stage that are."""
    phase = stage.phase
    for name, (target, _) in _FIELDS.items():
        if target in _LACKING.get(phase, ()) and target in given:
            return name, f"a run that stays {phase} has none"
    if stage.exit_code and phase == "Succeeded":
        return "exitCode", f"must be 0 where the phase is Succeeded, not {stage.exit_code}"
    if stage.exit_code == 0 and phase == "Failed":
        return "exitCode", "must not be 0 where the phase is Failed"
    if not stage.ready and "ready_delay_s" in given:
        return "readyDelay", "what is never ready has none"
    if stage.ends and stage.times is None and not (stage.restart_delay_s or stage.duration_s):
        return "restartDelay", "must not be 0 for all runs if they take no time: restarts would never cease"
    return None


def _selection(found: object, path: FieldPath) -> Selection:
    if not isinstance(found, dict):
        raise InvalidStage(path, "must be a mapping")
    for name in found:
        if name not in _SELECTED:
            raise InvalidStage((*path, f"{name!s:.100}"), f"unknown field; known are {', '.join(_SELECTED)}")
    labels = found.get("labels") or {}
    if not isinstance(labels, dict) or not all(
        isinstance(each, str) for pair in labels.items() for each in pair
    ):
        raise InvalidStage((*path, "labels"), "must be a mapping of texts to texts")
    texts = {name: _texts(found.get(name) or [], (*path, name)) for name in _SELECTED if name != "labels"}
    return Selection(labels=labels, **texts)


_SELECTED: Final = ("namespaces", "labels", "owners", "containers")


def _texts(found: object, path: FieldPath) -> frozenset[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidStage(path, "must be a list of texts")
    return frozenset(found)


def _value(name: str, value: object, path: FieldPath) -> tuple[str, Any]:
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
_ANNOTATIONS: Final = ("containers", *map(_hyphenated, _FIELDS))
