"""The flags of auditing: the policy, and both backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.audit.backends import options as audit_options
from apiserver.audit.policy import Policy as AuditPolicy
from apiserver.cli import flag_values
from apiserver.cli.flag import Flag
from apiserver.meta.brand import Brand
from apiserver.webhooks.kubeconfig import Kubeconfig

_AUDIT_VERSION: Final = f"{Brand().group('audit')}/v1"
_MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, repr=False)
class AuditOptions:
    """The options of auditing."""

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


def _audit_delivery(plugin: str) -> tuple[Flag, ...]:
    """Returns the flags that both audit backends have. plugin: log, webhook."""
    batch, field = f"--audit-{plugin}-batch", f"audit_{plugin}_batch"
    return (
        Flag(
            f"--audit-{plugin}-mode",
            "string",
            str,
            "Strategy for sending audit events: batch (requests do not wait; events are buffered, and lost "
            "if there are too many), blocking (requests wait until their events are written), "
            "blocking-strict (requests fail if their first event cannot be written).",
        ),
        Flag(
            f"{batch}-buffer-size",
            "int",
            flag_values.integer,
            "The number of events that wait to be written in batch mode.",
        ),
        Flag(
            f"{batch}-max-size",
            "int",
            flag_values.integer,
            "The maximum number of events in a batch, in batch mode.",
        ),
        Flag(
            f"{batch}-max-wait",
            "duration",
            flag_values.duration_s,
            "The time to wait before writing a batch that has not reached the maximum size, in batch mode.",
            field=f"{field}_max_wait_s",
        ),
        Flag(
            f"{batch}-throttle-enable",
            "bool",
            flag_values.boolean,
            "Whether the rate of batches is limited, in batch mode.",
            needs_value=False,
        ),
        Flag(
            f"{batch}-throttle-qps",
            "float32",
            flag_values.number,
            "The maximum average number of batches per second, in batch mode.",
        ),
        Flag(
            f"{batch}-throttle-burst",
            "int",
            flag_values.integer,
            "The maximum number of batches at the same moment if the limit was not used, in batch mode.",
        ),
        Flag(
            f"--audit-{plugin}-truncate-enabled",
            "bool",
            flag_values.boolean,
            "Whether events and batches that are too large are shortened.",
            needs_value=False,
        ),
        Flag(
            f"--audit-{plugin}-truncate-max-batch-size",
            "int",
            flag_values.integer,
            "The maximum size of a batch in bytes, if truncation is enabled. A larger one is split.",
        ),
        Flag(
            f"--audit-{plugin}-truncate-max-event-size",
            "int",
            flag_values.integer,
            "The maximum size of an event in bytes, if truncation is enabled. A larger one loses its request "
            "and response; if that is not enough, it is discarded.",
        ),
        Flag(
            f"--audit-{plugin}-version",
            "string",
            str,
            "The API group and version of the events that are written.",
        ),
    )


FLAGS: Final[Sequence[Flag]] = (
    Flag(
        "--audit-policy-file",
        "string",
        Path,
        "File with the audit policy: which requests are recorded, and how much of them. If not provided, "
        "none are.",
    ),
    Flag(
        "--audit-log-path",
        "string",
        str,
        "The file to which audit events are appended, one per line. Several processes may share it. '-' "
        "means standard output.",
    ),
    Flag(
        "--audit-log-format",
        "string",
        str,
        "The format of saved events: json, or legacy for one line of text without objects.",
    ),
    Flag(
        "--audit-log-maxage",
        "int",
        flag_values.integer,
        "The maximum number of days to keep rotated files, by the time in their names. 0 for no limit.",
    ),
    Flag(
        "--audit-log-maxbackup",
        "int",
        flag_values.integer,
        "The maximum number of rotated files to keep. 0 for no limit.",
    ),
    Flag(
        "--audit-log-maxsize",
        "int",
        flag_values.integer,
        "The maximum size of the file in megabytes before it is rotated. 0 disables rotation.",
    ),
    Flag(
        "--audit-log-compress",
        "bool",
        flag_values.boolean,
        "Whether rotated files are compressed by gzip.",
        needs_value=False,
    ),
    *_audit_delivery("log"),
    Flag(
        "--audit-webhook-config-file",
        "string",
        Path,
        "File in the format of a kubeconfig whose current context names the server that events are sent to.",
    ),
    Flag(
        "--audit-webhook-initial-backoff",
        "duration",
        flag_values.duration_s,
        "The time to wait before retrying the first failed request. Each later wait is longer by half.",
        field="audit_webhook_initial_backoff_s",
        alias="--audit-webhook-batch-initial-backoff",
    ),
    *_audit_delivery("webhook"),
)
