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
from apiserver.storage.encryption.configuration import EncryptionConfiguration


@dataclass(frozen=True, slots=True, repr=False)
class StorageOptions:
    """The options of the store, its encryption, and the watch caches."""

    # Empty: etcd if there are servers, else the embedded store.
    storage_backend: str = option(
        "",
        TEXT,
        "The storage backend for persistence. Options: 'etcd3', the etcd of --etcd-servers; 'embedded', a "
        "store in --data-dir; 'memory', the same store without files, whose contents are lost when the "
        "server stops.",
        default="etcd3 or embedded",
        choices=flag_values.STORAGE_BACKENDS,
    )
    etcd_servers: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.urls),
        "List of etcd servers to connect with (scheme://ip:port), comma separated. If not provided, the "
        "server uses the embedded store in --data-dir.",
    )
    etcd_cafile: Path | None = option(
        None, PATH, "SSL Certificate Authority file used to secure etcd communication."
    )
    etcd_certfile: Path | None = option(
        None, PATH, "SSL certification file used to secure etcd communication."
    )
    etcd_keyfile: Path | None = option(None, PATH, "SSL key file used to secure etcd communication.")
    etcd_prefix: str = option(
        "/registry",
        Kind("string", flag_values.prefix),
        "The prefix to prepend to all resource paths in etcd.",
    )
    etcd_transport: str = option(
        flag_values.ETCD_TRANSPORTS[0],
        TEXT,
        "How the server connects to etcd. Options: 'http2', its own HTTP/2 client; 'grpc', the gRPC "
        "library, which takes three times as much processor time.",
        default=flag_values.ETCD_TRANSPORTS[0],
        choices=flag_values.ETCD_TRANSPORTS,
    )
    etcd_start_timeout_s: float = option(
        0.0,
        DURATION,
        "How long the server waits for etcd at its start before it exits with an error. 0 means that it "
        "waits as long as necessary.",
    )
    encryption_provider_config: Path | None = option(
        None,
        PATH,
        "The file containing configuration for encryption providers to be used for storing secrets and other "
        "resources, an object of the kind EncryptionConfiguration.",
    )
    encryption_provider_config_automatic_reload: bool = option(
        False,
        SWITCH,
        "Determines if the file set by --encryption-provider-config should be automatically reloaded if the "
        "disk contents change.",
        default="false",
    )
    etcd_compaction_interval_s: float = option(
        300.0,
        DURATION,
        "The interval of compaction requests. Both stores keep old versions for this time. If 0, they "
        "keep them forever.",
    )
    etcd_db_metric_poll_interval_s: float = option(
        30.0,
        DURATION,
        "The interval of requests to poll the size of the store and update the metric. 0 disables the "
        "metric.",
    )
    event_ttl_s: int = option(3600, WHOLE_DURATION, "Amount of time to retain events.")
    default_watch_cache_size: int = option(
        102_400,
        COUNT,
        "Default watch cache size: the number of changes kept in memory for each resource.",
    )
    # For single resources, by group and name.
    watch_cache_sizes: Mapping[tuple[str, str], int] = option(
        None,
        Kind("strings", flag_values.sizes),
        "Watch cache size settings for some resources (pods, nodes, etc.), comma separated. The individual "
        "setting format: resource[.group]#size.",
        factory=dict,
    )
    # None: that of the container, if it has one. 0: none.
    memory_limit_bytes: int | None = option(
        None,
        Kind("size", flag_values.size_bytes),
        "The memory limit of the server, such as 512Mi or 2G. When the server comes close to it, it rejects"
        " the work that needs most memory with 429. Workers share the limit. 0 means no limit.",
        name="--memory-limit",
        default="the limit of the container",
    )
    watch_cache_history_bytes: int = option(
        256 * 1024 * 1024,
        COUNT,
        "The maximum memory for old versions in the watch caches of all resources together, in bytes.",
    )
    # What is in that file.
    encryption: EncryptionConfiguration | None = None

    @property
    def etcd_name(self) -> str:
        """Names the etcd servers, for logs; without their credentials."""
        return f"etcd at {redacted_urls(', '.join(self.etcd_servers))}"


FLAGS: Final = flags_of(StorageOptions)
