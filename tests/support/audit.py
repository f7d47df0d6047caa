"""Servers with an audit log for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

METADATA: Final = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"


def audit_flags(directory: Path, policy: str = METADATA) -> tuple[str, str]:
    """Write an audit policy, and return the flags by which a server has audit.log in the directory."""
    (path := directory / "policy.yaml").write_text(policy)
    return f"--audit-policy-file={path}", f"--audit-log-path={directory / 'audit.log'}"
