"""Flags of auditing: defaults and bounds are kube-apiserver's, and a mistake in a file prevents the start.

https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from apiserver.audit.backends.options import DeliveryOptions, RotationOptions, TruncateOptions
from apiserver.audit.policy import AuditLevel
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.command_line import parse

ROOT: Final = Path(__file__).parent.parent.parent.parent
KUBECONFIG: Final = """
current-context: audit
contexts: [{name: audit, context: {cluster: audit, user: server}}]
clusters: [{name: audit, cluster: {server: https://audit.example/events}}]
users: [{name: server, user: {token: secret}}]
"""


def test_the_defaults_are_kube_apiservers(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    config = parse(["--audit-log-path=-", f"--audit-webhook-config-file={file}"])
    log, webhook = config.auditing.audit_log, config.auditing.audit_webhook
    assert log is not None
    assert webhook is not None
    assert (log.path, log.format, log.version) == ("-", "json", "audit.k8s.io/v1")
    assert log.rotation == RotationOptions(100 * 1024 * 1024, 366, 100, False)
    assert log.delivery == DeliveryOptions("blocking", 10_000, 1, 0.0, False, 0.0, 0)
    assert webhook.delivery == DeliveryOptions("batch", 10_000, 400, 30.0, True, 10.0, 15)
    assert webhook.initial_backoff_s == 10.0
    assert log.truncation == webhook.truncation == TruncateOptions(False, 10 * 1024 * 1024, 100 * 1024)
    assert config.auditing.audit_webhook_server is not None
    assert config.auditing.audit_webhook_server.current()[0].server == "https://audit.example/events"


def test_the_policy_that_is_shipped_is_valid() -> None:
    policy = parse([f"--audit-policy-file={ROOT / 'deploy' / 'audit-policy.yaml'}"]).auditing.audit_policy
    assert policy is not None
    secrets = [
        rule.config.level
        for rule in policy.rules
        for each in rule.resources
        if {"secrets", "*"} & {*each.resources} and not each.group
    ]
    assert secrets == [AuditLevel.METADATA]


def test_a_deprecated_name_of_a_flag(tmp_path: Path) -> None:
    assert parse(["--audit-webhook-batch-initial-backoff=3s"]).auditing.audit_webhook_initial_backoff_s == 3.0


LOG: Final = "--audit-log-path=-"
# Flags, and the error.
REFUSED: Final = {
    "a mode": ([LOG, "--audit-log-mode=async"], "invalid audit log mode async, allowed modes are"),
    "a format": ([LOG, "--audit-log-format=xml"], "invalid audit log format xml, allowed formats are"),
    "a version": (
        [LOG, "--audit-log-version=audit.k8s.io/v1beta1"],
        "invalid group version audit.k8s.io/v1beta1, allowed versions are",
    ),
    "an age": ([LOG, "--audit-log-maxage=-1"], "--audit-log-maxage -1 can't be a negative number"),
    "backups": ([LOG, "--audit-log-maxbackup=-2"], "--audit-log-maxbackup -2 can't be a negative number"),
    "a size": ([LOG, "--audit-log-maxsize=-3"], "--audit-log-maxsize -3 can't be a negative number"),
    "no buffer": (
        [LOG, "--audit-log-mode=batch", "--audit-log-batch-buffer-size=0"],
        "invalid audit batch log buffer size 0, must be a positive number",
    ),
    "no batch": (
        [LOG, "--audit-log-mode=batch", "--audit-log-batch-max-size=-1"],
        "invalid audit batch log max batch size -1, must be a positive number",
    ),
    "no rate": (
        [LOG, "--audit-log-mode=batch", "--audit-log-batch-throttle-enable"],
        "invalid audit batch log throttle QPS 0, must be a positive number",
    ),
    "events of no size": (
        [LOG, "--audit-log-truncate-max-event-size=0"],
        "invalid audit truncate log max event size 0, must be a positive number",
    ),
    "batches smaller than events": (
        [LOG, "--audit-log-truncate-max-batch-size=1"],
        "invalid audit truncate log max batch size 1, must be greater than max event size (102400)",
    ),
    "a number": ([LOG, "--audit-log-maxsize=1G"], "'1G' is not an integer"),
    "a policy that is missing": (
        ["--audit-policy-file=/no/such/file"],
        "--audit-policy-file: /no/such/file: cannot be read: No such file or directory",
    ),
    "a kubeconfig that is missing": (
        ["--audit-webhook-config-file=/no/such/file"],
        "--audit-webhook-config-file: /no/such/file: cannot be read: No such file or directory",
    ),
}


@pytest.mark.parametrize(("flags", "error"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(flags: list[str], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(flags)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


UNUSED: Final = {
    "a mode of no log": ["--audit-log-mode=async"],
    "a buffer in another mode": [LOG, "--audit-log-batch-buffer-size=0"],
}


@pytest.mark.parametrize("flags", UNUSED.values(), ids=UNUSED)
def test_what_is_not_used_is_not_checked(flags: list[str]) -> None:
    parse(flags)


def test_a_mistake_in_a_policy_is_one_line_with_file_and_field(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Meta\n  verbs: [get]\n")
    with pytest.raises(UsageError) as caught:
        parse([f"--audit-policy-file={file}"])
    assert str(caught.value) == (
        f'--audit-policy-file: {file}: rules[0].level: Unsupported value: "Meta": supported values: '
        '"None", "Metadata", "Request", "RequestResponse"'
    )


def test_a_server_must_be_called_over_https(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace("https:", "http:"))
    with pytest.raises(UsageError, match="is not a URL with https"):
        parse([f"--audit-webhook-config-file={file}"])
