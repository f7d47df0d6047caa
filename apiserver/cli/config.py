"""What is configured before the server starts; `command_line` builds it from flags and a file."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.admission import plugin_names
from apiserver.admission.configuration.plugin_configurations import TOLERATION_S, PluginConfigurations
from apiserver.audit.backends import options as audit_options
from apiserver.audit.policy import Policy as AuditPolicy
from apiserver.auth.authn.authentication_configuration import AuthenticationConfiguration
from apiserver.auth.authn.request_header import STANDARD_NAMES, RequestHeaderNames
from apiserver.auth.authz.configuration import RBAC, V1BETA1, ConfiguredAuthorizer, WebhookSettings, of_modes
from apiserver.cli import flag_values
from apiserver.cli.flag_values import NamedCertificate
from apiserver.golang.tls import DEFAULT_VERSION
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import IPNetwork
from apiserver.metrics.registry import MetricsConfiguration
from apiserver.releases.deviations import SPECIFIED, Deviations
from apiserver.releases.emulation import DEFAULT_RELEASE, EmulatedRelease
from apiserver.releases.gates import FeatureGates, gates_of
from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.kubeconfig import Kubeconfig, KubeconfigCluster
from storage.encryption.configuration import EncryptionConfiguration

# Where clouds hand out a machine's credentials.
_CREDENTIALS_SERVICES: Final[tuple[IPNetwork, ...]] = (
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("fe80::/10"),
    ipaddress.ip_network("fd00:ec2::254/128"),
)


_AUDIT_VERSION: Final = f"{Brand().group('audit')}/v1"
_MEGABYTE: Final = 1024 * 1024


class AuthenticationFiles(NamedTuple):
    """What authenticates tokens of others. content: that of the file of `--authentication-config`.

    webhook: the server that reviews tokens; None if there is none.
    """

    configuration: AuthenticationConfiguration = AuthenticationConfiguration()
    content: bytes = b""
    webhook: tuple[KubeconfigCluster, ClientCredentials] | None = None


@dataclass(frozen=True, slots=True, repr=False)
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
    tls_sni_cert_key: tuple[NamedCertificate, ...] = ()
    tls_min_version: str = DEFAULT_VERSION
    # Empty: those that are usual.
    tls_cipher_suites: tuple[str, ...] = ()
    strict_transport_security_directives: tuple[str, ...] = ()
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
    enable_bootstrap_token_auth: bool = False
    anonymous_auth: bool = True
    authentication_config: Path | None = None
    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_ca_file: Path | None = None
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_signing_algs: tuple[str, ...] = ("RS256",)
    # Of each claim, the last value counts.
    oidc_required_claim: tuple[tuple[str, str], ...] = ()
    authentication_token_webhook_config_file: Path | None = None
    authentication_token_webhook_version: str = "v1beta1"  # noqa: S105  no token
    authentication_token_webhook_cache_ttl_s: float = 120.0
    # What is in these files and flags.
    authentication: AuthenticationFiles = field(default_factory=AuthenticationFiles)
    authorization_mode: tuple[str, ...] = (RBAC,)
    # Instead of the modes; what is in the file, as bytes and parsed.
    authorization_config: Path | None = None
    authorization_config_content: bytes = b""
    authorization_config_authorizers: tuple[ConfiguredAuthorizer, ...] = ()
    # 0: watches are not authorized again.
    authorization_recheck_interval_s: float = 60.0
    authorization_webhook_config_file: Path | None = None
    authorization_webhook_version: str = V1BETA1
    authorization_webhook_cache_authorized_ttl_s: float = 300.0
    authorization_webhook_cache_unauthorized_ttl_s: float = 30.0
    # The first issues service account tokens; those of all of them are accepted.
    service_account_issuer: tuple[str, ...] = ("https://kubernetes.default.svc",)
    service_account_signing_key_file: Path | None = None
    service_account_key_file: tuple[Path, ...] = ()
    service_account_max_token_expiration_s: int = 0
    service_account_jwks_uri: str = ""
    service_account_lookup: bool = True
    service_account_extend_token_expiration: bool = True
    api_audiences: tuple[str, ...] = ()
    # Empty: etcd if there are servers, else the embedded store.
    storage_backend: str = ""
    etcd_servers: tuple[str, ...] = ()
    etcd_cafile: Path | None = None
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    etcd_prefix: str = "/registry"
    etcd_compaction_interval_s: float = 300.0
    etcd_db_metric_poll_interval_s: float = 30.0
    encryption_provider_config: Path | None = None
    encryption_provider_config_automatic_reload: bool = False
    # What is in that file.
    encryption: EncryptionConfiguration | None = None
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
    enable_priority_and_fairness: bool = True
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
    audit_policy_file: Path | None = None
    # What is in that file.
    audit_policy: AuditPolicy | None = None
    # `-` for standard output; empty: events are written to no file.
    audit_log_path: str = ""
    audit_log_format: str = audit_options.JSON
    audit_log_version: str = _AUDIT_VERSION
    audit_log_maxage: int = 366
    audit_log_maxbackup: int = 100
    # In megabytes.
    audit_log_maxsize: int = 100
    audit_log_compress: bool = False
    audit_log_mode: str = audit_options.BLOCKING
    audit_log_batch_buffer_size: int = 10_000
    audit_log_batch_max_size: int = 1
    audit_log_batch_max_wait_s: float = 0.0
    audit_log_batch_throttle_enable: bool = False
    audit_log_batch_throttle_qps: float = 0.0
    audit_log_batch_throttle_burst: int = 0
    audit_log_truncate_enabled: bool = False
    audit_log_truncate_max_batch_size: int = 10 * 1024 * 1024
    audit_log_truncate_max_event_size: int = 100 * 1024
    audit_webhook_config_file: Path | None = None
    # What is in that file.
    audit_webhook_server: Kubeconfig | None = None
    audit_webhook_version: str = _AUDIT_VERSION
    audit_webhook_initial_backoff_s: float = 10.0
    audit_webhook_mode: str = audit_options.BATCH
    audit_webhook_batch_buffer_size: int = 10_000
    audit_webhook_batch_max_size: int = 400
    audit_webhook_batch_max_wait_s: float = 30.0
    audit_webhook_batch_throttle_enable: bool = True
    audit_webhook_batch_throttle_qps: float = 10.0
    audit_webhook_batch_throttle_burst: int = 15
    audit_webhook_truncate_enabled: bool = False
    audit_webhook_truncate_max_batch_size: int = 10 * 1024 * 1024
    audit_webhook_truncate_max_event_size: int = 100 * 1024
    # The release of Kubernetes whose APIs are served, and in whose form objects are stored.
    release: EmulatedRelease = DEFAULT_RELEASE
    # What this later release, 1.x, has removed is not served; None: all is.
    emulate_removal: int | None = None
    emulate_removal_header: bool = False
    metrics: MetricsConfiguration = MetricsConfiguration()  # noqa: RUF009  frozen
    # Whether versions and resources are served, by the keys of --runtime-config.
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    controllers: tuple[str, ...] = ("*",)
    # The CA that signs certificate requests; None: the one in the data directory, or shared by replicas.
    cluster_signing_cert_file: Path | None = None
    cluster_signing_key_file: Path | None = None
    cluster_signing_duration_s: int = 365 * 24 * 3600
    # For tests: nodes that pretend to run pods, what becomes of these, and the controllers of workloads.
    simulate_nodes: int = 0
    simulate_stages: str | None = None
    simulate_workloads: bool = False
    enable_fault_injection: bool = False
    leader_elect: bool = True
    leader_elect_resource_name: str = "apiserver-controllers"
    leader_elect_lease_duration_s: int = 15
    leader_elect_renew_deadline_s: float = 10.0
    leader_elect_retry_period_s: float = 2.0
    # As they are given; those that have an effect have fields of their own.
    feature_gates: tuple[tuple[str, bool], ...] = ()
    deviations: Deviations = SPECIFIED
    brand: Brand = field(default_factory=Brand)
    verbosity: int = 0
    logging_format: str = "text"
    warnings: tuple[str, ...] = ()

    @property
    def gates(self) -> FeatureGates:
        """The states of all feature gates."""
        return gates_of(self.release.minor, self.feature_gates)

    @property
    def has_cbor(self) -> bool:
        return self.gates.is_on("CBORServingAndStorage")

    @property
    def request_header_names(self) -> RequestHeaderNames:
        return RequestHeaderNames(
            self.requestheader_username_headers,
            self.requestheader_uid_headers,
            self.requestheader_group_headers,
            self.requestheader_extra_headers_prefix,
        )

    @property
    def authorizers(self) -> tuple[ConfiguredAuthorizer, ...]:
        """The authorizers, in the order in which they are asked."""
        if self.authorization_config is not None:
            return self.authorization_config_authorizers
        webhook = None
        if self.authorization_webhook_config_file is not None:
            webhook = WebhookSettings(
                kubeconfig=str(self.authorization_webhook_config_file),
                authorized_ttl_s=self.authorization_webhook_cache_authorized_ttl_s,
                unauthorized_ttl_s=self.authorization_webhook_cache_unauthorized_ttl_s,
                version=self.authorization_webhook_version,
            )
        return of_modes(self.authorization_mode, webhook)

    @property
    def audit_log(self) -> audit_options.LogOptions | None:
        """How audit events are written to a file; None if they are not."""
        if not self.audit_log_path:
            return None
        return audit_options.LogOptions(
            self.audit_log_path,
            self.audit_log_format,
            self.audit_log_version,
            audit_options.RotationOptions(
                self.audit_log_maxsize * _MEGABYTE,
                self.audit_log_maxage,
                self.audit_log_maxbackup,
                self.audit_log_compress,
            ),
            audit_options.DeliveryOptions(
                self.audit_log_mode,
                self.audit_log_batch_buffer_size,
                self.audit_log_batch_max_size,
                self.audit_log_batch_max_wait_s,
                self.audit_log_batch_throttle_enable,
                self.audit_log_batch_throttle_qps,
                self.audit_log_batch_throttle_burst,
            ),
            audit_options.TruncateOptions(
                self.audit_log_truncate_enabled,
                self.audit_log_truncate_max_batch_size,
                self.audit_log_truncate_max_event_size,
            ),
        )

    @property
    def audit_webhook(self) -> audit_options.WebhookOptions | None:
        """How audit events are sent to a server; None if they are not."""
        if self.audit_webhook_config_file is None:
            return None
        return audit_options.WebhookOptions(
            str(self.audit_webhook_config_file),
            self.audit_webhook_version,
            self.audit_webhook_initial_backoff_s,
            audit_options.DeliveryOptions(
                self.audit_webhook_mode,
                self.audit_webhook_batch_buffer_size,
                self.audit_webhook_batch_max_size,
                self.audit_webhook_batch_max_wait_s,
                self.audit_webhook_batch_throttle_enable,
                self.audit_webhook_batch_throttle_qps,
                self.audit_webhook_batch_throttle_burst,
            ),
            audit_options.TruncateOptions(
                self.audit_webhook_truncate_enabled,
                self.audit_webhook_truncate_max_batch_size,
                self.audit_webhook_truncate_max_event_size,
            ),
        )

    @property
    def keeps_endpoints(self) -> bool:
        """Whether the endpoints of the Service `kubernetes` are this server's business."""
        return self.endpoint_reconciler_type != "none"

    @property
    def elects_leader(self) -> bool:
        """Whether this server may not be the only one on its store, and has to ask before it leads."""
        return bool(self.etcd_servers) and self.leader_elect

    @property
    def is_for_tests(self) -> bool:
        """Whether something is asked for that only tests of clients have a use for."""
        return bool(self.simulate_nodes) or self.simulate_workloads or self.enable_fault_injection

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
