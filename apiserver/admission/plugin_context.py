"""The parts of the server that admission plugins need."""

from __future__ import annotations

from typing import NamedTuple

from apiserver.admission.listers import Lister
from apiserver.admission.reviewed_write import EquivalentResources
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.extensions.host.hooks import ExtensionHooks
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.registry.clock import Clock
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry


class PluginContext(NamedTuple):
    """The parts of the server that admission plugins need."""

    registry: Registry
    served: ServedTable
    brand: Brand
    authorizers: Authorizers
    offload: Offload
    extensions: ExtensionHooks

    @property
    def clock(self) -> Clock:
        return self.registry.clock

    @property
    def authorize(self) -> AuthorizationChain:
        return self.authorizers.chain

    @property
    def equivalents(self) -> EquivalentResources:
        return EquivalentResources(self.served)

    def lister(self, group: str, resource: str) -> Lister:
        return Lister(self.registry, self.served, group, resource)
