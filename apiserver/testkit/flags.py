"""Turns the flags that only tests use into hooks of a server.

The supervisor of workers reads them, too. So modules that serve requests are imported only when a server is
made (see `workers.supervisor`), and those of the simulation only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.config import Config
from apiserver.registry.clock import Clock

if TYPE_CHECKING:
    from apiserver.app.hooks import Hooks
    from apiserver.testkit.simulation.stages import Stage


def hooks_for(config: Config) -> Callable[[Clock], Hooks]:
    """Returns the factory of the hooks that flags request, for the process that serves. Raises UsageError."""
    return partial(_hooks, config, simulated_stages(config))


def _hooks(config: Config, stages: Sequence[Stage], clock: Clock) -> Hooks:
    hooks = simulation(config, stages)
    if not config.serving.enable_fault_injection:
        return hooks
    from apiserver.testkit.faults import FaultInjector
    from apiserver.testkit.faults.hooks import with_faults

    return with_faults(hooks, FaultInjector(clock.monotonic), over_http=True)


def simulation(config: Config, stages: Sequence[Stage]) -> Hooks:
    """Returns the hooks of the simulation. stages: those of simulated pods."""
    if not (config.simulation.simulate_nodes or config.simulation.simulate_workloads):
        from apiserver.app.hooks import Hooks

        return Hooks()
    from apiserver.testkit.simulated_cluster import simulation_hooks

    return simulation_hooks(config, stages)


def simulated_stages(config: Config) -> Sequence[Stage]:
    """Returns the stages of simulated pods. Raises UsageError for an invalid number of nodes, or an invalid
    file.
    """
    nodes, stages = config.simulation.simulate_nodes, config.simulation.simulate_stages
    if not nodes:
        return ()
    from apiserver.testkit.simulation.nodes import NODES_MAX

    if nodes > NODES_MAX:
        raise UsageError(f"argument --simulate-nodes: {nodes} is not between 0 and {NODES_MAX}")
    return _read_stages(stages) if stages else ()


def _read_stages(file: str) -> Sequence[Stage]:
    """Reads a file of stages."""
    from apiserver.testkit.simulation.field_values import InvalidStage
    from apiserver.testkit.simulation.stages import FILE_BYTES_MAX, parse_stages

    try:
        with Path(file).open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"argument --simulate-stages: cannot read {file}: {error}") from None
    try:
        return parse_stages(content)
    except InvalidStage as error:
        place = file if error.place is None else f"{file}:{error.place.line}:{error.place.column}"
        raise UsageError(f"argument --simulate-stages: {place}: {error}") from None
