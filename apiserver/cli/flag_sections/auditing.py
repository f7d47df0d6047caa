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
                "Strategy for sending audit events: batch (requests do not wait; events are buffered, and "
                "lost if the buffer is full), blocking (requests wait until their events are written), "
                "blocking-strict (requests fail if their first event cannot be written)."
            ),
        ),
        "batch_buffer_size": (
            INTEGER,
            "The number of events that wait to be written in batch mode.",
        ),
        "batch_max_size": (INTEGER, "The maximum number of events in a batch, in batch mode."),
        "batch_max_wait_s": (
            DURATION,
            "The time to wait before writing a batch that has not reached the maximum size, in batch mode.",
        ),
        "batch_throttle_enable": (
            SWITCH,
            "Whether the rate of batches is limited, in batch mode.",
        ),
        "batch_throttle_qps": (
            Kind("float32", flag_values.number),
            "The maximum average number of batches per second, in batch mode.",
        ),
        "batch_throttle_burst": (
            INTEGER,
            "The maximum number of batches sent at once after a time below the limit, in batch mode.",
        ),
        "truncate_enabled": (
            SWITCH,
            "Whether events and batches that are too large are shortened.",
        ),
        "truncate_max_batch_size": (
            INTEGER,
            "The maximum size of a batch in bytes, if truncation is enabled. A larger one is split.",
        ),
        "truncate_max_event_size": (
            INTEGER,
            (
                "The maximum size of an event in bytes, if truncation is enabled. A larger one loses its "
                "request and response; if that is not enough, it is discarded."
            ),
        ),
        "version": (TEXT, "The API group and version of the events that are written."),
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
        "File with the audit policy: which requests to record, and in how much detail. If not provided, "
        "the server records none.",
    )
    # `-` for standard output; empty: events are written to no file.
    audit_log_path: str = option(
        "",
        TEXT,
        "The file to which audit events are appended, one per line. Several processes may share it. '-' "
        "means standard output.",
    )
    audit_log_format: str = option(
        audit_options.JSON,
        TEXT,
        "The format of saved events: json, or legacy for one line of text without objects.",
    )
    audit_log_maxage: int = option(
        366,
        INTEGER,
        "The maximum number of days to keep rotated files, by the time in their names. 0 means no limit.",
    )
    audit_log_maxbackup: int = option(
        100, INTEGER, "The maximum number of rotated files to keep. 0 means no limit."
    )
    # In megabytes.
    audit_log_maxsize: int = option(
        100,
        INTEGER,
        "The maximum size of the file in megabytes before it is rotated. 0 disables rotation.",
    )
    audit_log_compress: bool = option(False, SWITCH, "Whether to compress rotated files with gzip.")
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
        "A kubeconfig file whose current context names the server to which events are sent.",
    )
    audit_webhook_initial_backoff_s: float = option(
        10.0,
        DURATION,
        "The time to wait before retrying the first failed request. Each later wait is 1.5 times as long.",
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
