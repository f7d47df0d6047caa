"""The flags of storage: etcd or the embedded store, encryption, and the watch caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag
from storage.encryption.configuration import EncryptionConfiguration


@dataclass(frozen=True, slots=True, repr=False)
class StorageOptions:
    """The options of the store, its encryption, and the watch caches."""

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
    default_watch_cache_size: int = 102_400
    # For single resources, by group and name.
    watch_cache_sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    watch_cache_history_bytes: int = 256 * 1024 * 1024
    # None: that of the container, if it has one. 0: none.
    memory_limit_bytes: int | None = None


FLAGS: Final[Sequence[Flag]] = (
    Flag(
        "--storage-backend",
        "string",
        str,
        "The storage backend for persistence. Options: 'etcd3', of --etcd-servers; 'embedded', a "
        "store in --data-dir; 'memory', the same store without files, which is gone when the server ends.",
        default="etcd3 or embedded",
        choices=flag_values.STORAGE_BACKENDS,
    ),
    Flag(
        "--etcd-servers",
        "strings",
        flag_values.urls,
        "List of etcd servers to connect with (scheme://ip:port), comma separated. If not provided, objects "
        "are kept in a store in --data-dir.",
    ),
    Flag(
        "--etcd-cafile", "string", Path, "SSL Certificate Authority file used to secure etcd communication."
    ),
    Flag("--etcd-certfile", "string", Path, "SSL certification file used to secure etcd communication."),
    Flag("--etcd-keyfile", "string", Path, "SSL key file used to secure etcd communication."),
    Flag(
        "--etcd-prefix", "string", flag_values.prefix, "The prefix to prepend to all resource paths in etcd."
    ),
    Flag(
        "--encryption-provider-config",
        "string",
        Path,
        "The file containing configuration for encryption providers to be used for storing secrets and other "
        "resources, an object of the kind EncryptionConfiguration.",
    ),
    Flag(
        "--encryption-provider-config-automatic-reload",
        "bool",
        flag_values.boolean,
        "Determines if the file set by --encryption-provider-config should be automatically reloaded if the "
        "disk contents change.",
        default="false",
        needs_value=False,
    ),
    Flag(
        "--etcd-compaction-interval",
        "duration",
        flag_values.duration_s,
        "The interval of compaction requests, in either store; old versions are kept for that long. If 0, "
        "they are kept forever.",
        field="etcd_compaction_interval_s",
    ),
    Flag(
        "--etcd-db-metric-poll-interval",
        "duration",
        flag_values.duration_s,
        "The interval of requests to poll the size of the store, etcd or embedded, and update its metric. 0 "
        "disables the metric.",
        field="etcd_db_metric_poll_interval_s",
    ),
    Flag(
        "--event-ttl",
        "duration",
        flag_values.whole_duration_s,
        "Amount of time to retain events.",
        field="event_ttl_s",
    ),
    Flag(
        "--default-watch-cache-size",
        "int",
        flag_values.count,
        "Default watch cache size: the number of changes that are kept in memory for each resource.",
    ),
    Flag(
        "--watch-cache-sizes",
        "strings",
        flag_values.sizes,
        "Watch cache size settings for some resources (pods, nodes, etc.), comma separated. The individual "
        "setting format: resource[.group]#size.",
    ),
    Flag(
        "--memory-limit",
        "size",
        flag_values.size_bytes,
        "The memory that the server may have, as 512Mi or 2G: near to it the work that takes most is refused "
        "with 429. Several workers share it. If 0, there is no limit.",
        field="memory_limit_bytes",
        default="that of the container",
    ),
    Flag(
        "--watch-cache-history-bytes",
        "int",
        flag_values.count,
        "The memory that old versions in the watch caches of all resources together may take, in bytes.",
    ),
)
