"""The process that a server runs in: its own, or one of tests."""

from __future__ import annotations

import random
import ssl
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from apiserver.app.hooks import Hooks, InitialState
from apiserver.app.serving.listening import Sockets
from apiserver.app.serving.server_keys import MakeServerKeys, make_server_keys
from apiserver.app.serving.serving_tls import KnownTls, TlsContent, TlsOptions, make_context
from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.catalogue.shared_values import SharedValues
from apiserver.cli.config import Config
from apiserver.load import process_memory
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.lifecycles import lifecycle_of
from apiserver.registry.clock import SYSTEM_CLOCK, Clock
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.webhooks.tls import load_certificate

if TYPE_CHECKING:
    from apiserver.extensions import Extension

# Servers for tests are mostly of one release.
SCHEMAS_MAX: Final = 8
# Servers for tests have the same keys, unless they have their own files.
CONTEXTS_MAX: Final = 8
PAIRS_MAX: Final = 64
# Servers for tests nearly always have the same flags.
CATALOGUES_MAX: Final = 8


def service_allocator(config: Config) -> ServiceAllocator:
    """Returns the allocator of addresses and ports for Services, for one server."""
    return ServiceAllocator.for_networks(
        config.services.service_cluster_ip_range,
        config.services.service_node_port_range,
        random.SystemRandom().randint,
        config.brand,
        _address_version(config.release),
    )


def _address_version(release: EmulatedRelease) -> str:
    """Returns the version in which a release has IPAddresses; the later one if it has none."""
    for version in ("v1", "v1beta1"):
        life = lifecycle_of(f"networking.k8s.io/{version}", "IPAddress")
        if life is not None and life.is_in(release.minor):
            return version
    return "v1"


class SharedParts:
    """The parts that do not depend on stored objects: made once for all servers of a process that share them.

    The servers may be in several threads.
    """

    def __init__(self) -> None:
        self._schemas: SharedValues[tuple[tuple[int, int], str], BuiltinSchemas] = SharedValues(SCHEMAS_MAX)
        self._catalogues: SharedValues[Hashable, Catalogue] = SharedValues(CATALOGUES_MAX)
        self._contexts: SharedValues[tuple[TlsContent, TlsOptions], ssl.SSLContext] = SharedValues(
            CONTEXTS_MAX
        )
        self._pairs: SharedValues[bytes, None] = SharedValues(PAIRS_MAX)  # by digests

    @cached_property
    def container_limit_bytes(self) -> int:
        """The memory limit of the process, in bytes, read at the first use; 0 if there is none."""
        return process_memory.container_limit_bytes()

    def schemas(self, release: tuple[int, int], vendor: str) -> BuiltinSchemas:
        """Returns the schemas of a release's types, which take 20 MB of memory and 20 ms to read."""
        return self._schemas.get((release, vendor), partial(BuiltinSchemas, release, vendor))

    def catalogue(self, config: Config) -> Catalogue:
        """Returns the built-in types of servers with the given flags: see `Catalogue.for_server`."""

        def make() -> Catalogue:
            return Catalogue(
                config.brand,
                self.schemas(config.release.version, config.brand.vendor),
                event_ttl_s=config.storage.event_ttl_s,
                service_allocator=service_allocator(config),
                release=config.release,
                gates=config.gates,
            )

        depends_on = (
            config.brand,
            config.release,
            config.storage.event_ttl_s,
            config.services,
            config.api.feature_gates,
        )
        return self._catalogues.get(depends_on, make)

    def tls_context(self, known: KnownTls, options: TlsOptions) -> ssl.SSLContext:
        """Returns the TLS context of connections, which takes a millisecond or two to make.

        Raises UnusableTls.
        """
        return self._contexts.get((known.content, options), partial(make_context, known, options))

    def require_pair(self, certificate: bytes, key: bytes) -> None:
        """Check that a certificate and a key, as PEM, are a pair. Raises ValueError. The first check of a
        pair takes 1 ms.
        """
        digest = sha256(b"%d %b%b" % (len(certificate), certificate, key)).digest()

        def load() -> None:
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)

        self._pairs.get(digest, load)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HostProcess:
    """The process that a server runs in, and what it provides to the server.

    is_own: whether it is this server's alone. Then the server keeps the memory of the process small, by the
        garbage collector and the allocator, and measures how long turns of its event loop take. Otherwise it
        changes nothing that others in the process would notice.
    shared: what servers in the process share.
    initial_state: the objects that the server begins with; if None, it opens the configured store.
    sockets: bound sockets to serve on, which stay open; if there are none, the server binds its own.
    clock: the server's clock, which also makes its event loop.
    hooks: the server's hooks for tests.
    extensions: those that run in this process, beside those of the flags.
    make_keys: makes and reads the server's keys and certificates.
    """

    is_own: bool = True
    shared: SharedParts = field(default_factory=SharedParts)
    initial_state: InitialState | None = None
    sockets: Sockets = ()
    clock: Clock = SYSTEM_CLOCK
    hooks: Hooks = field(default_factory=Hooks)
    extensions: Sequence[Extension] = ()
    make_keys: MakeServerKeys = make_server_keys
