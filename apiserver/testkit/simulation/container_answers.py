"""The responses of a simulated pod's containers, from the stages that select it and from its spec. Pure.

For logs, the first stage that defines one counts; for commands and ports, the first that has the requested
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation import shell
from apiserver.testkit.simulation.commands import Command, find
from apiserver.testkit.simulation.logs import (
    ContainerRun,
    LogLine,
    VirtualClock,
    printed_lines,
    status_of,
    written_lines,
)
from apiserver.testkit.simulation.ports import HostPort
from apiserver.testkit.simulation.programs import Program, ProgramEnvironment, Stdin
from apiserver.testkit.simulation.stages import Stage

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE: Final = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_HOSTNAME_LENGTH_MAX: Final = 63
# Of a word of a command, or the value of a variable, as Linux bounds them; and of all together. References
# to others, which may have references themselves, make them grow without end.
WORD_LENGTH_MAX: Final = 128 * 1024
ALL_LENGTH_MAX: Final = 1024 * 1024
# Where a container's environment may have its values from.
_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "status.hostIP": ("status", "hostIP"),
    "status.podIP": ("status", "podIP"),
}


class SimulatedContainer(NamedTuple):
    """A container of a pod. stages: those that select the pod. spec: the container's."""

    pod: Document
    spec: Document
    stages: Sequence[Stage]
    is_init: bool = False

    @classmethod
    def of(cls, pod: Document, name: str, stages: Sequence[Stage]) -> SimulatedContainer | None:
        """Returns the container with a name; None if the pod has none."""
        for kind in _CONTAINERS:
            for spec in pod["spec"].get(kind) or ():
                if spec["name"] == name:
                    return cls(pod, spec, stages, is_init=kind == "initContainers")
        return None

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_running(self) -> bool:
        return "running" in (self._status.get("state") or {})

    @property
    def own_command(self) -> list[str]:
        """The command that the container runs; empty if it is in the image, or too long to run."""
        variables = variables_of(self.pod, self.spec)
        words: list[str] = []
        left = ALL_LENGTH_MAX
        for each in (*(self.spec.get("command") or ()), *(self.spec.get("args") or ())):
            words.append(_with_references(each, variables))
            left -= len(words[-1])
            if left < 0:
                return []
        return words

    @property
    def commands(self) -> list[Command]:
        """The table of commands of the container's current run."""
        return [command for stage in self._stages_of(self._restarts) for command in stage.commands]

    @property
    def _status(self) -> Document:
        return status_of(self.pod, self.name) or {}

    @property
    def _restarts(self) -> int:
        return int(self._status.get("restartCount") or 0)

    @property
    def says_log(self) -> bool:
        """Whether a stage defines the output of the current run."""
        return any(stage.has_log for stage in self._stages_of(self._restarts))

    def knows(self, words: Sequence[str]) -> bool:
        """Returns whether the table of commands has one."""
        return find(self.commands, words) is not None

    def start(self, words: Sequence[str], clock: Callable[[], float], *, tty: bool = False) -> Program | None:
        """Returns the program of a command; None if it is neither in the table nor understood.

        clock: seconds since 1970.
        """
        environment = ProgramEnvironment(variables_of(self.pod, self.spec), self.commands, clock, tty)
        return shell.start(words, environment, Stdin(is_terminal=tty))

    def lines(self, run: ContainerRun) -> list[LogLine]:
        """Returns all lines of a run's log, from a stage or from the container's command."""
        stages = self._stages_of(run.number)
        for stage in stages:
            if stage.has_log:
                written = written_lines(stage.log or "", stage.log_stderr or "", stage.log_interval_s)
                how = next((each for each in stages if each.defines_run), stage)
                # The status that reports the end of the run may be late.
                return [line for line in written if not how.ends or line.offset_s <= how.duration_s]
        words, clock = self.own_command, VirtualClock(run.began_s)
        program = self.start(words, clock) if words else None
        return [] if program is None else printed_lines(program, clock)

    def _stages_of(self, restarts: int) -> list[Stage]:
        return [each for each in self.stages if each.selects_run(self.name, restarts, is_init=self.is_init)]


def addresses_of(pod: Document, stages: Sequence[Stage]) -> Mapping[int, HostPort]:
    """Returns the addresses that connections to the ports of a pod are forwarded to.

    stages: those that select it.

    Containers share their ports: a stage for some of them applies if the pod has one.
    """
    names = {each["name"] for kind in _CONTAINERS for each in pod["spec"].get(kind) or ()}
    found: dict[int, HostPort] = {}
    for stage in reversed(stages):
        if not stage.match.containers or stage.match.containers & names:
            found.update(stage.ports)
    return found


def variables_of(pod: Document, container: Document) -> Mapping[str, str]:
    """Returns the environment of a container, up to a limit and without values from other objects."""
    spec, meta = pod["spec"], pod["metadata"]
    hostname = spec.get("hostname") or meta["name"][:_HOSTNAME_LENGTH_MAX]
    found = {"PATH": _PATH, "HOSTNAME": hostname, "HOME": "/root"}
    left = ALL_LENGTH_MAX
    for each in container.get("env") or ():
        value = _value(pod, each)
        if value is not None:
            value = _with_references(value, found)
            left -= len(value)
            if left < 0:
                break
            found[each["name"]] = value
    return found


def _value(pod: Document, variable: Document) -> str | None:
    source: dict[str, Any] | None = variable.get("valueFrom")
    if not source:
        return str(variable.get("value") or "")
    path = _FIELDS.get((source.get("fieldRef") or {}).get("fieldPath", ""))
    if path is None:
        return None
    part, name = path
    return str((pod.get(part) or {}).get(name) or "")


def _with_references(text: str, variables: Mapping[str, str]) -> str:
    """Returns a text with variables replaced: `$(NAME)`; `$$` is `$`.

    A result that is too long is truncated.
    """
    pieces: list[str] = []
    length = at = 0
    for match in _REFERENCE.finditer(text):
        value = "$" if match[1] == "$" else variables.get(match[2], match[0])
        pieces += (text[at : match.start()], value)
        at = match.end()
        length += len(pieces[-2]) + len(value)
        if length > WORD_LENGTH_MAX:
            break
    return "".join((*pieces, text[at:]))[:WORD_LENGTH_MAX]
