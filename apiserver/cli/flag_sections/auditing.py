"""The flags of auditing: the policy, and both backends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from apiserver.audit.backends import options as audit_options
from apiserver.audit.policy import Policy as AuditPolicy
from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import DURATION, INTEGER, PATH, SWITCH, TEXT
from apiserver.meta.brand import Brand
from apiserver.webhooks.kubeconfig import Kubeconfig

_AUDIT_VERSION: Final = f"{Brand().group('audit')}/v1"
_MEGABYTE: Final = 1024 * 1024

# What both backends have, after the name of the backend.
_DELIVERY: Final[Mapping[str, tuple[Kind, str]]] = MappingProxyType(
    {
        "mode": (
            TEXT,
            (
                "The strategy for sending audit events. With 'batch', the server buffers events and sends "
                "them asynchronously. Events are lost when the buffer is full. With 'blocking', each request "
                "waits until the server has sent its audit events. 'blocking-strict' works like 'blocking', "
                "but a request fails if the server cannot send its first audit event."
            ),
        ),
        "batch_buffer_size": (
            INTEGER,
            "The maximum number of buffered events. This flag applies only in batch mode.",
        ),
        "batch_max_size": (
            INTEGER,
            "The maximum number of events in a batch. This flag applies only in batch mode.",
        ),
        "batch_max_wait_s": (
            DURATION,
            (
                "The maximum time that the server waits for a batch to fill before sending it. This flag "
                "applies only in batch mode."
            ),
        ),
        "batch_throttle_enable": (
            SWITCH,
            (
                "If true, the server limits the number of batches per second. This flag applies only in "
                "batch mode."
            ),
        ),
        "batch_throttle_qps": (
            Kind("float32", flag_values.number),
            "The maximum average number of batches per second. This flag applies only in batch mode.",
        ),
        "batch_throttle_burst": (
            INTEGER,
            (
                "The maximum number of batches that the server can send in one burst after a period of low "
                "activity. This flag applies only in batch mode."
            ),
        ),
        "truncate_enabled": (
            SWITCH,
            "If true, the server truncates events and splits batches that exceed the maximum sizes.",
        ),
        "truncate_max_batch_size": (
            INTEGER,
            (
                "The maximum size, in bytes, of a batch when truncation is enabled. The server splits "
                "batches that exceed this size."
            ),
        ),
        "truncate_max_event_size": (
            INTEGER,
            (
                "The maximum size, in bytes, of an event when truncation is enabled. The server removes the "
                "request and response objects from events that exceed this size. If an event is still too "
                "large without these objects, the server discards it."
            ),
        ),
        "version": (TEXT, "The API group and version of the audit events."),
    }
)
# The fields of DeliveryOptions and of TruncateOptions.
_DELIVERY_FIELDS: Final = (
    *("mode", "batch_buffer_size", "batch_max_size", "batch_max_wait_s"),
    *("batch_throttle_enable", "batch_throttle_qps", "batch_throttle_burst"),
)
_TRUNCATION_FIELDS: Final = ("truncate_enabled", "truncate_max_batch_size", "truncate_max_event_size")


def _delivery(name: str, default: Any) -> Any:
    return option(default, *_DELIVERY[name])


@dataclass(frozen=True, slots=True, repr=False)
class AuditOptions:
    """The options of auditing."""

    audit_policy_file: Path | None = option(
        None,
        PATH,
        "A file that contains the audit policy. The policy defines which requests the server records, and "
        "in how much detail. If the flag is not set, the server does not record any requests.",
    )
    # `-` for standard output; empty: events are written to no file.
    audit_log_path: str = option(
        "",
        TEXT,
        "The file to which the server appends audit events, one per line. Several processes can share the "
        "file. '-' means standard output.",
    )
    audit_log_format: str = option(
        audit_options.JSON,
        TEXT,
        "The format of the audit events in the log. 'json' writes one JSON object per event. 'legacy' "
        "writes one line of text per event, without the request and response objects.",
    )
    audit_log_maxage: int = option(
        366,
        INTEGER,
        "The maximum number of days to keep rotated audit log files. The server derives a file's age from "
        "the timestamp in the file name. 0 means no limit.",
    )
    audit_log_maxbackup: int = option(
        100, INTEGER, "The maximum number of rotated audit log files to keep. 0 means no limit."
    )
    # In megabytes.
    audit_log_maxsize: int = option(
        100,
        INTEGER,
        "The size, in megabytes, at which the server rotates the audit log file. 0 disables rotation.",
    )
    audit_log_compress: bool = option(
        False, SWITCH, "If true, the server compresses rotated audit log files with gzip."
    )
    audit_log_mode: str = _delivery("mode", audit_options.BLOCKING)
    audit_log_batch_buffer_size: int = _delivery("batch_buffer_size", 10_000)
    audit_log_batch_max_size: int = _delivery("batch_max_size", 1)
    audit_log_batch_max_wait_s: float = _delivery("batch_max_wait_s", 0.0)
    audit_log_batch_throttle_enable: bool = _delivery("batch_throttle_enable", False)
    audit_log_batch_throttle_qps: float = _delivery("batch_throttle_qps", 0.0)
    audit_log_batch_throttle_burst: int = _delivery("batch_throttle_burst", 0)
    audit_log_truncate_enabled: bool = _delivery("truncate_enabled", False)
    audit_log_truncate_max_batch_size: int = _delivery("truncate_max_batch_size", 10 * 1024 * 1024)
    audit_log_truncate_max_event_size: int = _delivery("truncate_max_event_size", 100 * 1024)
    audit_log_version: str = _delivery("version", _AUDIT_VERSION)
    audit_webhook_config_file: Path | None = option(
        None,
        PATH,
        "A kubeconfig file whose current context specifies the webhook that receives the audit events.",
    )
    audit_webhook_initial_backoff_s: float = option(
        10.0,
        DURATION,
        "How long the server waits before it first retries a failed webhook request. Each subsequent wait is "
        "1.5 times as long as the previous one.",
        alias="--audit-webhook-batch-initial-backoff",
    )
    audit_webhook_mode: str = _delivery("mode", audit_options.BATCH)
    audit_webhook_batch_buffer_size: int = _delivery("batch_buffer_size", 10_000)
    audit_webhook_batch_max_size: int = _delivery("batch_max_size", 400)
    audit_webhook_batch_max_wait_s: float = _delivery("batch_max_wait_s", 30.0)
    audit_webhook_batch_throttle_enable: bool = _delivery("batch_throttle_enable", True)
    audit_webhook_batch_throttle_qps: float = _delivery("batch_throttle_qps", 10.0)
    audit_webhook_batch_throttle_burst: int = _delivery("batch_throttle_burst", 15)
    audit_webhook_truncate_enabled: bool = _delivery("truncate_enabled", False)
    audit_webhook_truncate_max_batch_size: int = _delivery("truncate_max_batch_size", 10 * 1024 * 1024)
    audit_webhook_truncate_max_event_size: int = _delivery("truncate_max_event_size", 100 * 1024)
    audit_webhook_version: str = _delivery("version", _AUDIT_VERSION)
    # What is in that file.
    audit_policy: AuditPolicy | None = None
    # What is in that file.
    audit_webhook_server: Kubeconfig | None = None

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
            audit_options.DeliveryOptions(*self._of_backend("log", _DELIVERY_FIELDS)),
            audit_options.TruncateOptions(*self._of_backend("log", _TRUNCATION_FIELDS)),
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
            audit_options.DeliveryOptions(*self._of_backend("webhook", _DELIVERY_FIELDS)),
            audit_options.TruncateOptions(*self._of_backend("webhook", _TRUNCATION_FIELDS)),
        )

    def _of_backend(self, backend: str, names: Sequence[str]) -> Iterator[Any]:
        return (getattr(self, f"audit_{backend}_{name}") for name in names)


FLAGS: Final = flags_of(AuditOptions)
