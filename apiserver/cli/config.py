"""What is configured before the server starts; `command_line` builds it from flags and a file."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from apiserver.admission import plugin_names
from apiserver.admission.configuration.plugin_configurations import TOLERATION_S, PluginConfigurations
from apiserver.authn.request_header import STANDARD_NAMES, RequestHeaderNames
from apiserver.authz.authorizer_modes import RBAC
from apiserver.brand import Brand
from apiserver.cli import flag_values
from apiserver.deviations import SPECIFIED, Deviations
from apiserver.vocabulary import IPNetwork

# The fields of Config that are feature gates.
FEATURE_GATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CBORServingAndStorage": "cbor",
        "DetectCacheInconsistency": "detect_cache_inconsistency",
        "ListFromCacheSnapshot": "list_from_cache_snapshot",
    }
)


# Where clouds hand out a machine's credentials.
_CREDENTIALS_SERVICES: Final[tuple[IPNetwork, ...]] = (
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("fe80::/10"),
    ipaddress.ip_network("fd00:ec2::254/128"),
)


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a server. Times are in seconds."""

    data_dir: Path = Path("apiserver-data")
    bind_address: str = "127.0.0.1"
    secure_port: int = 6443
    # Empty: the bind address, or that of the default route.
    advertise_address: str = ""
    # Empty: the advertised address.
    external_hostname: str = ""
    endpoint_reconciler_type: str = "lease"
    kubernetes_service_node_port: int = 0
    workers: int = 1
    # Of the serving certificate; None: in the data directory.
    cert_dir: Path | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    client_ca_file: Path | None = None
    # None: the CA of front proxies that is in the data directory, or shared by replicas.
    requestheader_client_ca_file: Path | None = None
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = STANDARD_NAMES.users
    requestheader_uid_headers: tuple[str, ...] = STANDARD_NAMES.uids
    requestheader_group_headers: tuple[str, ...] = STANDARD_NAMES.groups
    requestheader_extra_headers_prefix: tuple[str, ...] = STANDARD_NAMES.extra_prefixes
    # What extension servers are shown; None: the certificate of a front proxy in the data directory.
    proxy_client_cert_file: Path | None = None
    proxy_client_key_file: Path | None = None
    # Regular expressions, in Go's syntax.
    cors_allowed_origins: tuple[str, ...] = ()
    token_auth_file: Path | None = None
    anonymous_auth: bool = True
    authorization_mode: tuple[str, ...] = (RBAC,)
    # The first issues service account tokens; those of all of them are accepted.
    service_account_issuer: tuple[str, ...] = ("https://kubernetes.default.svc",)
    service_account_signing_key_file: Path | None = None
    service_account_key_file: tuple[Path, ...] = ()
    service_account_max_token_expiration_s: int = 0
    service_account_jwks_uri: str = ""
    api_audiences: tuple[str, ...] = ()
    etcd_servers: tuple[str, ...] = ()
    etcd_cafile: Path | None = None
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    etcd_prefix: str = "/registry"
    etcd_compaction_interval_s: float = 300.0
    etcd_db_metric_poll_interval_s: float = 30.0
    event_ttl_s: int = 3600
    # One or two networks, of different IP families; the family of the first is the default of Services.
    service_cluster_ip_range: tuple[IPNetwork, ...] = (ipaddress.ip_network("10.0.0.0/16"),)
    service_node_port_range: tuple[int, int] = (30_000, 32_767)
    default_watch_cache_size: int = 102_400
    # For single resources, by group and name.
    watch_cache_sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    watch_cache_history_bytes: int = 256 * 1024 * 1024
    # None: that of the container, if it has one. 0: none.
    memory_limit_bytes: int | None = None
    max_connections: int = 10_000
    max_connections_per_client: int = 8_000
    # A share of it, four fifths, is what a user alone can have: more than the informers of all controllers.
    max_watches: int = 10_000
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    request_timeout_s: float = 60.0
    min_request_timeout_s: float = 1800.0
    livez_grace_period_s: float = 0.0
    shutdown_delay_s: float = 0.0
    webhook_deny_cidrs: tuple[IPNetwork, ...] = _CREDENTIALS_SERVICES
    proxy_deny_cidrs: tuple[IPNetwork, ...] = _CREDENTIALS_SERVICES
    kubelet_certificate_authority: Path | None = None
    kubelet_client_certificate: Path | None = None
    kubelet_client_key: Path | None = None
    kubelet_preferred_address_types: tuple[str, ...] = (
        "Hostname",
        "InternalDNS",
        "InternalIP",
        "ExternalDNS",
        "ExternalIP",
    )
    enable_admission_plugins: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    default_not_ready_toleration_seconds: int = TOLERATION_S
    default_unreachable_toleration_seconds: int = TOLERATION_S
    admission_control_config_file: Path | None = None
    # What is in that file, and in flags of plugins.
    plugin_configurations: PluginConfigurations = field(default_factory=PluginConfigurations)
    # Whether versions and resources are served, by the keys of --runtime-config.
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    controllers: tuple[str, ...] = ("*",)
    leader_elect: bool = True
    leader_elect_resource_name: str = "apiserver-controllers"
    leader_elect_lease_duration_s: int = 15
    leader_elect_renew_deadline_s: float = 10.0
    leader_elect_retry_period_s: float = 2.0
    list_from_cache_snapshot: bool = True
    detect_cache_inconsistency: bool = True
    cbor: bool = False
    deviations: Deviations = SPECIFIED
    brand: Brand = field(default_factory=Brand)
    verbosity: int = 0
    logging_format: str = "text"
    warnings: tuple[str, ...] = ()

    @property
    def request_header_names(self) -> RequestHeaderNames:
        return RequestHeaderNames(
            self.requestheader_username_headers,
            self.requestheader_uid_headers,
            self.requestheader_group_headers,
            self.requestheader_extra_headers_prefix,
        )

    @property
    def keeps_endpoints(self) -> bool:
        """Whether the endpoints of the Service `kubernetes` are this server's business."""
        return self.endpoint_reconciler_type != "none"

    @property
    def elects_leader(self) -> bool:
        """Whether this server may not be the only one on its store, and has to ask before it leads."""
        return bool(self.etcd_servers) and self.leader_elect

    def runs_admission_plugin(self, name: str) -> bool:
        """Whether an admission plugin of this server is enabled."""
        if name in plugin_names.ON_BY_DEFAULT:
            return name not in self.disable_admission_plugins
        return name in self.enable_admission_plugins

    def runs_controller(self, name: str) -> bool:
        """Whether a controller is enabled: the last item of --controllers that names it decides."""
        names = (name, flag_values.CONTROLLERS[name])
        is_enabled = False
        for item in self.controllers:
            if item in ("*", "-*"):
                is_enabled = item == "*"
            elif item.removeprefix("-") in names:
                is_enabled = not item.startswith("-")
        return is_enabled
