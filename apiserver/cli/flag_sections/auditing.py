"""The flags of auditing: the policy, and both backends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag


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
