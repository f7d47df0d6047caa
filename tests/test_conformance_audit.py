"""Recorded conversations once more, all of them audited: whole chains, valid JSON, and no Secrets."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.support.server_process import ServerProcess
from tests.test_conformance import expected_failures, failures, flags, scenarios

AREAS: Final = (
    "apply/",
    "auth/",
    "crd/",
    "delete/",
    "patch/",
    "subresources/",
    "verbs/",
    "watch/",
    "webhooks/",
)
POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, resources: [{group: "", resources: [secrets, serviceaccounts/token]}]}
- {level: RequestResponse}
"""
# The ids that the server makes; clients may give theirs to any number of requests.
OWN_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}")
RECEIVED, STARTED, COMPLETE = "RequestReceived", "ResponseStarted", "ResponseComplete"
CHAINS: Final = ([RECEIVED, COMPLETE], [RECEIVED, STARTED, COMPLETE])
ANSWERED_WITH_OBJECTS: Final = frozenset({"get", "list", "create", "update", "patch", "delete"})


def is_whole(chain: list[dict[str, Any]]) -> bool:
    stages = [each["stage"] for each in chain]
    if chain[-1]["responseStatus"]["code"] == 401:
        return stages in ([STARTED], *CHAINS)
    return stages in CHAINS


@pytest.mark.slow
def test_each_request_has_one_whole_chain_and_secrets_are_in_none(tmp_path: Path) -> None:
    policy, path = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(POLICY)
    names = {each for each in scenarios() - expected_failures() if each.startswith(AREAS)}
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={path}", "--audit-log-mode=batch")
    with ServerProcess(tmp_path / "data", *flags(tmp_path), *audit) as server:
        assert not failures(server, names)
        assert server.stop() == 0
    chains: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_bytes().splitlines():
        event = orjson.loads(line)
        if OWN_ID.fullmatch(event["auditID"]):
            chains[event["auditID"]].append(event)
    assert len(chains) > 1000
    assert [chain for chain in chains.values() if not is_whole(chain)] == []
    for event in (chain[-1] for chain in chains.values()):
        reference = event.get("objectRef") or {}
        if reference.get("resource") == "secrets" and not reference.get("apiGroup"):
            assert event["level"] == "Metadata"
            assert not {"requestObject", "responseObject"} & event.keys()
        elif (
            event["responseStatus"]["code"] in (200, 201)
            and event["verb"] in ANSWERED_WITH_OBJECTS
            and reference
            and reference.get("subresource", "") in ("", "status", "scale")
        ):
            assert "responseObject" in event, event["requestURI"]
