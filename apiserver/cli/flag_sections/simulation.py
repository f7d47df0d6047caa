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
        "For tests: the number of simulated Nodes. The Nodes are named simulated-0, simulated-1 and so on. "
        "The server binds pods to the simulated Nodes and reports the pods as Running and Ready, but does "
        "not run containers.",
    )
    simulate_stages: str = option(
        "",
        TEXT,
        "For tests: a YAML file that describes the behavior of pods on simulated Nodes. The file defines pod "
        "logs, responses to commands, port addresses, and when pods fail, end, restart or wait. This flag "
        "requires --simulate-nodes.",
    )
    simulate_workloads: bool = option(
        False,
        SWITCH,
        "For tests: if true, the server runs simple controllers for Deployments, ReplicaSets, StatefulSets, "
        "DaemonSets, Jobs and EndpointSlices. Do not use this flag together with kube-controller-manager.",
    )


FLAGS: Final = flags_of(SimulationOptions)
