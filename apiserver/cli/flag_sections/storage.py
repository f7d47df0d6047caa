"""The flags of storage: etcd or the embedded store, encryption, and the watch caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import COUNT, DURATION, PATH, SWITCH, TEXT, WHOLE_DURATION
from apiserver.golang.urls import redacted_urls
from apiserver.registry.history.policy import HistoryRule
from apiserver.storage.encryption.configuration import EncryptionConfiguration


@dataclass(frozen=True, slots=True, repr=False)
class StorageOptions:
    """The options of the store, its encryption, and the watch caches."""

    # Empty: etcd if there are servers, else the embedded store.
    storage_backend: str = option(
        "",
        TEXT,
        "The storage backend for persistence. 'etcd3' uses the etcd servers in --etcd-servers. 'embedded' "
        "uses a store in --data-dir. 'memory' uses the embedded store without files, so all objects are "
        "lost when the server stops.",
        default="etcd3 or embedded",
        choices=flag_values.STORAGE_BACKENDS,
    )
    etcd_servers: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.urls),
        "A comma-separated list of etcd servers to connect to (scheme://ip:port). If the flag is not set, "
        "the server uses the embedded store in --data-dir.",
    )
    etcd_cafile: Path | None = option(
        None, PATH, "The file that contains the CA certificates used to verify the etcd servers."
    )
    etcd_certfile: Path | None = option(
        None, PATH, "The file that contains the client certificate for connections to etcd."
    )
    etcd_keyfile: Path | None = option(
        None, PATH, "The file that contains the private key for the certificate in --etcd-certfile."
    )
    etcd_prefix: str = option(
        "/registry",
        Kind("string", flag_values.prefix),
        "The prefix to prepend to all resource paths in etcd.",
    )
    adopt: bool = option(
        False,
        SWITCH,
        "If true, the server starts even if a kube-apiserver already uses the prefix in --etcd-prefix. Both "
        "servers then share custom resources, CustomResourceDefinitions and APIServices, but no other "
        "objects. To protect kube-apiserver's objects, this server does not run the garbage collector or the "
        "namespace controller. This server neither registers APIServices nor writes their conditions. Set "
        "this flag every time you start the server with a prefix that a kube-apiserver uses.",
        default="false",
    )
    etcd_transport: str = option(
        flag_values.ETCD_TRANSPORTS[0],
        TEXT,
        "The client library for connections to etcd. 'http2' is a built-in HTTP/2 client. 'grpc' is the "
        "gRPC library, which uses three times as much CPU time as 'http2'.",
        default=flag_values.ETCD_TRANSPORTS[0],
        choices=flag_values.ETCD_TRANSPORTS,
    )
    etcd_start_timeout_s: float = option(
        0.0,
        DURATION,
        "The maximum time that the server waits for etcd at startup. If etcd is still unavailable after "
        "this time, the server exits with an error. 0 means that the server waits indefinitely.",
    )
    encryption_provider_config: Path | None = option(
        None,
        PATH,
        "A file that contains an EncryptionConfiguration, which lists the encryption providers for Secrets "
        "and other resources.",
    )
    encryption_provider_config_automatic_reload: bool = option(
        False,
        SWITCH,
        "If true, the server reloads the file in --encryption-provider-config when it changes.",
        default="false",
    )
    etcd_compaction_interval_s: float = option(
        300.0,
        DURATION,
        "The interval between compaction requests. etcd and the embedded store keep old object versions for "
        "at least this interval. 0 means that the store keeps old versions forever.",
    )
    etcd_db_metric_poll_interval_s: float = option(
        30.0,
        DURATION,
        "The interval at which the server measures the store size for metrics. 0 disables the store size "
        "metrics.",
    )
    event_ttl_s: int = option(3600, WHOLE_DURATION, "How long the store retains Events.")
    default_watch_cache_size: int = option(
        102_400,
        COUNT,
        "The default size of each resource's watch cache. The size of a watch cache is the number of "
        "changes that the server keeps in memory.",
    )
    # For single resources, by group and name.
    watch_cache_sizes: Mapping[tuple[str, str], int] = option(
        None,
        Kind("strings", flag_values.sizes),
        "A comma-separated list of watch cache sizes for individual resources, such as pods or nodes. Each "
        "item has the format resource[.group]#size.",
        factory=dict,
    )
    # None: that of the container, if it has one. 0: none.
    memory_limit_bytes: int | None = option(
        None,
        Kind("size", flag_values.size_bytes),
        "The server's memory limit, such as 512Mi or 2G. When memory usage approaches the limit, the server "
        "responds with 429 to the requests that need the most memory. All workers share the limit. 0 means "
        "no limit.",
        name="--memory-limit",
        default="the limit of the container",
    )
    watch_cache_history_bytes: int = option(
        256 * 1024 * 1024,
        COUNT,
        "The maximum amount of memory, in bytes, that all watch caches together can use for old object "
        "versions.",
    )
    history: bool = option(
        False,
        SWITCH,
        "If true, the server keeps a history of all objects: every version, its author, and the time of the "
        "change. Requests for paths below /at/TIME/ read the objects as they were at that time. Values of "
        "Secrets are not kept.",
        default="false",
    )
    history_dir: Path | None = option(
        None, PATH, "The directory of the history.", default="history in --data-dir"
    )
    history_retention_s: float = option(
        7 * 86_400.0, DURATION, "How long the history keeps changes.", name="--history-retention"
    )
    history_bytes_max: int = option(
        1024**3,
        Kind("size", flag_values.size_bytes),
        "The maximum size of the history, such as 512Mi or 2G. If the history gets larger, the server drops "
        "the oldest changes.",
        name="--history-max-bytes",
        default="1Gi",
    )
    history_policy: Path | None = option(
        None,
        PATH,
        "A file that contains a HistoryPolicy, which lists the resources whose changes the history keeps, "
        "drops or thins. Without it, the history drops Events and Leases.",
    )
    # What is in that file.
    history_rules: tuple[HistoryRule, ...] = ()
    # What is in the file of --encryption-provider-config.
    encryption: EncryptionConfiguration | None = None

    @property
    def etcd_name(self) -> str:
        """Names the etcd servers, for logs; without their credentials."""
        return f"etcd at {redacted_urls(', '.join(self.etcd_servers))}"


FLAGS: Final = flags_of(StorageOptions)
