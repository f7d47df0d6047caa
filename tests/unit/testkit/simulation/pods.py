"""Pods as the simulated components see them."""

from __future__ import annotations

from typing import Any, Final

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.pod_status import PodAddresses, StatusTime, next_step
from apiserver.testkit.simulation.stages import Stage

NOW_S: Final = 1_700_000_000.0
ADDRESSES: Final = PodAddresses("172.18.0.1", "10.128.0.2")


def pod(*containers: str, annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    """A pod that is bound to a node. containers: their names; `c` if there are none."""
    listed = [{"name": name, "image": "i", "resources": {}} for name in containers or ("c",)]
    meta: Document = {"name": "p", "namespace": "default", "uid": "u", "generation": 1}
    if annotations:
        meta["annotations"] = {f"simulate.apiserver/{key}": text for key, text in annotations.items()}
    return {
        "metadata": meta,
        "spec": {"containers": listed, "restartPolicy": "Always", "nodeName": "simulated-0", **spec},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def of_job(found: Document) -> Document:
    found["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]
    found["spec"]["restartPolicy"] = "Never"
    return found


class Life:
    """What becomes of a pod: its status is written whenever it has to change, as time goes by."""

    def __init__(self, found: Document, *stages: Stage) -> None:
        self.pod = found
        self.stages = stages
        self.now = NOW_S
        self.steps: list[Document] = []
        self.is_over = False
        self.again_s: float | None = None

    def settle(self, steps_max: int = 20) -> Document:
        """Take all steps that are due now, and return the status."""
        for _ in range(steps_max):
            step = next_step(self.pod, self.stages, ADDRESSES, StatusTime(self.now))
            self.is_over, self.again_s = step.is_over, step.again_s
            if step.status == self.pod["status"] and step.again_s != 0:
                return step.status
            if step.status != self.pod["status"]:
                self.pod["status"] = step.status
                self.steps.append(step.status)
        raise AssertionError(f"still {step}")

    def wait(self, seconds: float) -> Document:
        """Let time go by, in the steps that the status asks for, and return the status at the end."""
        ends_at = self.now + seconds
        self.settle()
        while self.again_s is not None and self.now + self.again_s <= ends_at:
            self.now += self.again_s
            self.settle()
        self.now = ends_at
        return self.settle()

    def conditions(self) -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.pod["status"]["conditions"]}


def phases(life: Life) -> list[str]:
    """The phases that watchers have seen, each once in a row."""
    found = [step["phase"] for step in life.steps]
    return [each for place, each in enumerate(found) if place == 0 or found[place - 1] != each]


def state_of(status: Document, name: str = "c", listed: str = "containerStatuses") -> str:
    """The state of a container, with its reason or exit code, and how often it was restarted."""
    (found,) = [each for each in status[listed] if each["name"] == name]
    ((kind, state),) = found["state"].items()
    detail = state.get("exitCode", state.get("reason", ""))
    return f"{kind} {detail} x{found['restartCount']}".replace("  ", " ")
