"""Builds the simulated components of a cluster, if the flags ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from apiserver.admission.chain import AdmissionChain
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.app.core import Core
from apiserver.app.hooks import Hooks
from apiserver.catalogue.core.pods.rules import CLEARING_GATE
from apiserver.cli.config import Config
from apiserver.controller_runtime.controller import Runnable
from apiserver.controllers.controller_manager import ControllerSpec
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, InternalWriter
from apiserver.testkit.simulation import kubelet, node_controller, scheduler
from apiserver.testkit.simulation.component import ClusterAccess
from apiserver.testkit.simulation.kubelet import SimulatedKubelet
from apiserver.testkit.simulation.kubelet_server.server import SimulatedKubelets
from apiserver.testkit.simulation.node_controller import SimulatedNodes
from apiserver.testkit.simulation.scheduler import SimulatedScheduler
from apiserver.testkit.simulation.stages import Stage
from apiserver.testkit.simulation.workloads import controller as workloads
from apiserver.testkit.simulation.workloads.controller import WorkloadController


def simulation_hooks(config: Config, stages: Sequence[Stage]) -> Hooks:
    """Returns hooks that add the simulated components that flags request. stages: those of simulated pods."""
    hooks = Hooks(controllers=partial(build_simulation, stages))
    return (
        replace(hooks, kubelets=partial(_simulated_kubelets, stages))
        if config.simulation.simulate_nodes
        else hooks
    )


def build_simulation(
    stages: Sequence[Stage], core: Core, lifecycle: NamespaceLifecycle, admission: AdmissionChain
) -> Iterable[ControllerSpec]:
    """Returns the simulated components, each of which runs once among all servers on a store."""
    config = core.config
    cluster = ClusterAccess(
        registry=core.registry,
        served=core.served,
        brand=core.brand,
        admission=admission,
        field_managers=core.field_managers,
        may_create=lifecycle.check_create,
        clock=core.clock,
        offload=core.offload,
    )

    def events(component: str, writer: InternalWriter) -> EventRecorder:
        return EventRecorder(
            core.registry, core.served, lifecycle.check_create, core.clock, component=component, writer=writer
        )

    makers: dict[str, Callable[[], Runnable]] = {}
    if config.simulation.simulate_nodes and all(map(cluster.serves, node_controller.NEEDS)):
        scheduling = events("default-scheduler", InternalWriter("kube-scheduler"))
        running = events("kubelet", InternalWriter("kubelet"))
        count, version = config.simulation.simulate_nodes, config.release.git_version
        clears = config.gates.is_on(CLEARING_GATE)
        makers = {
            node_controller.NAME: lambda: SimulatedNodes(cluster, count, version),
            scheduler.NAME: lambda: SimulatedScheduler(cluster, scheduling, clears_nomination=clears),
            kubelet.NAME: lambda: SimulatedKubelet(cluster, running, stages),
        }
    if config.simulation.simulate_workloads and all(map(cluster.serves, workloads.NEEDS)):
        planning = events("kube-controller-manager", KUBE_CONTROLLER_MANAGER)
        makers[workloads.NAME] = lambda: WorkloadController(cluster, planning)
    return [ControllerSpec(name, make, leader_only=True) for name, make in makers.items()]


def _simulated_kubelets(stages: Sequence[Stage], core: Core) -> SimulatedKubelets:
    """Returns the simulated kubelets, which answer in each process of a server."""
    return SimulatedKubelets(
        core.registry,
        core.served,
        stages,
        core.registry.clock,
        BackendConnector(core.config.proxy.proxy_deny_cidrs),
    )
