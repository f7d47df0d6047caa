"""What is configured before the server starts, by section of flags; `command_line` builds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from apiserver.cli.flag_sections.admission import AdmissionOptions
from apiserver.cli.flag_sections.api import ApiOptions
from apiserver.cli.flag_sections.auditing import AuditOptions
from apiserver.cli.flag_sections.authentication import AuthenticationOptions
from apiserver.cli.flag_sections.authorization import AuthorizationOptions
from apiserver.cli.flag_sections.console import ConsoleOptions
from apiserver.cli.flag_sections.leader_election import LeaderElectionOptions
from apiserver.cli.flag_sections.logs import LoggingOptions
from apiserver.cli.flag_sections.proxy import ProxyOptions
from apiserver.cli.flag_sections.services import ServiceOptions
from apiserver.cli.flag_sections.serving import ServingOptions
from apiserver.cli.flag_sections.simulation import SimulationOptions
from apiserver.cli.flag_sections.storage import StorageOptions
from apiserver.meta.brand import Brand
from apiserver.meta.releases.deviations import SPECIFIED, Deviations
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates, gates_of
from apiserver.metrics.registry import MetricsConfiguration


@dataclass(frozen=True, slots=True, repr=False)
class Config:
    """The configuration of a server. Each section has an option for each of its flags. Times are in seconds.

    release: of Kubernetes, whose APIs are served, and in whose form objects are stored.
    """

    serving: ServingOptions = field(default_factory=ServingOptions)
    storage: StorageOptions = field(default_factory=StorageOptions)
    services: ServiceOptions = field(default_factory=ServiceOptions)
    proxy: ProxyOptions = field(default_factory=ProxyOptions)
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    auditing: AuditOptions = field(default_factory=AuditOptions)
    api: ApiOptions = field(default_factory=ApiOptions)
    console: ConsoleOptions = field(default_factory=ConsoleOptions)
    leader_election: LeaderElectionOptions = field(default_factory=LeaderElectionOptions)
    metrics: MetricsConfiguration = field(default_factory=MetricsConfiguration)
    logs: LoggingOptions = field(default_factory=LoggingOptions)
    simulation: SimulationOptions = field(default_factory=SimulationOptions)
    release: EmulatedRelease = DEFAULT_RELEASE
    deviations: Deviations = SPECIFIED
    brand: Brand = field(default_factory=Brand)
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Config:
        """Returns a configuration with some values, by the names of options or fields."""
        sections: dict[str, dict[str, Any]] = {}
        own = {}
        for name, value in values.items():
            if name in SECTION_OF:
                sections.setdefault(SECTION_OF[name], {})[name] = value
            else:
                own[name] = value
        return cls(**own, **{name: _SECTIONS[name](**options) for name, options in sections.items()})

    def option(self, name: str, otherwise: Any = None) -> Any:
        """Returns the value of an option, or of a field."""
        section = SECTION_OF.get(name)
        return getattr(self if section is None else getattr(self, section), name, otherwise)

    @property
    def gates(self) -> FeatureGates:
        """The states of all feature gates."""
        return gates_of(self.release.minor, self.api.feature_gates)

    @property
    def has_cbor(self) -> bool:
        return self.gates.is_on("CBORServingAndStorage")

    @property
    def elects_leader(self) -> bool:
        """Whether this server may not be the only one on its store, and has to ask before it leads."""
        return bool(self.storage.etcd_servers) and self.leader_election.leader_elect

    @property
    def has_console(self) -> bool:
        asked = self.console.console
        return not self.storage.etcd_servers if asked is None else asked

    @property
    def shares_with_kube_apiserver(self) -> bool:
        """Whether a kube-apiserver may use the same keys, whose built-in objects this server does not see."""
        return bool(self.storage.etcd_servers) and self.storage.adopt

    @property
    def is_for_tests(self) -> bool:
        """Whether something is asked for that only tests of clients have a use for."""
        simulation = self.simulation
        return bool(
            simulation.simulate_nodes or simulation.simulate_workloads or self.serving.enable_fault_injection
        )


# The options of each section, and the section of each option.
_SECTIONS: Final[Mapping[str, Any]] = {
    each.name: each.default_factory for each in fields(Config) if str(each.type).endswith("Options")
}
SECTION_OF: Final[Mapping[str, str]] = {
    option.name: section for section, options in _SECTIONS.items() for option in fields(options)
}
