"""The flags of simulated nodes and of the controllers of workloads, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apiserver.cli.flag import flags_of, option
from apiserver.cli.flag_values import COUNT, SWITCH, TEXT


@dataclass(frozen=True, slots=True, repr=False)
class SimulationOptions:
    """The options of what is simulated, for tests."""

    # For tests: nodes that pretend to run pods, what becomes of these, and the controllers of workloads.
    simulate_nodes: int = option(
        0,
        COUNT,
        "For tests: the number of simulated Nodes, named simulated-0 and so on. The server binds pods to "
        "them and reports the pods as Running and Ready, but runs no containers.",
    )
    simulate_stages: str = option(
        "",
        TEXT,
        "For tests: a YAML file that describes the pods on simulated Nodes: how and when they fail, end, "
        "restart or wait, their logs, their responses to commands, and the addresses of their ports. "
        "Requires --simulate-nodes.",
    )
    simulate_workloads: bool = option(
        False,
        SWITCH,
        "For tests: run simple controllers for Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and"
        " EndpointSlices. Do not run kube-controller-manager at the same time.",
    )


FLAGS: Final = flags_of(SimulationOptions)
