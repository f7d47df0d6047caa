"""A policy decides which resources the history records, and reads say what they lack."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.api import Api
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS: Final = "/api/v1/namespaces/default/events"
NEW_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
POLICY: Final = """apiVersion: apiserver.config.k8s.io/v1alpha1
kind: HistoryPolicy
rules:
- {resources: [leases.coordination.k8s.io], action: drop}
"""


def write(api: Api, path: str, name: str) -> list[str]:
    """Write an object three times. Returns the versions."""
    made = [api.post(path, {"metadata": {"name": name}}).ok()]
    made += [api.patch(f"{path}/{name}", {"metadata": {"labels": {"n": f"{n}"}}}).ok() for n in range(2)]
    return [each["metadata"]["resourceVersion"] for each in made]


def test_changes_of_a_dropped_resource_are_not_recorded_and_reads_say_so(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    flags = ["--history", "--controllers=-*"]
    with ServerProcess(tmp_path / "data", *flags, f"--history-policy={policy}") as server:
        with Api(server) as api:
            leases, config_maps = write(api, LEASES, "dropped"), write(api, CONFIG_MAPS, "kept")
            for path in (LEASES, f"{LEASES}/dropped", "/apis/coordination.k8s.io/v1/leases"):
                refused = api.get(f"/at/{leases[0]}{path}")
                assert (refused.status, refused.reason) == (410, "Expired")
                assert "by its policy" in refused.message
            # There has been no change since.
            assert api.get(f"/at/{config_maps[-1]}{LEASES}/dropped").status == 200
            assert api.get(f"/at/{config_maps[0]}{CONFIG_MAPS}/kept").status == 200
            (only,) = api.get(f"{LEASES}/dropped/history").ok()["versions"]
            assert only == {"resourceVersion": leases[-1], "recorded": False}
            api.delete(f"{LEASES}/dropped").ok()
            assert api.get(f"{LEASES}/dropped/history").status == 410
        server.stop()
        history = tmp_path / "data" / "history"
        assert not any(b"/leases/default" in each.read_bytes() for each in history.iterdir())
    # With another policy, what was dropped stays missing, and later changes are recorded.
    policy.write_text(POLICY.replace("drop}", "keep}"))
    flags.append(f"--history-policy={policy}")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
        again = write(api, LEASES, "recorded")
        assert api.get(f"/at/{leases[0]}{LEASES}").status == 410
        assert api.get(f"/at/{again[0]}{LEASES}/recorded").ok()["metadata"]["resourceVersion"] == again[0]


def test_by_default_events_and_leases_are_dropped(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--history", "--controllers=-*") as server, Api(server) as api:
        leases, config_maps = write(api, LEASES, "renewed"), write(api, CONFIG_MAPS, "kept")
        event = {"metadata": {"name": "seen"}, "involvedObject": {"namespace": "default"}}
        version = api.post(EVENTS, event).ok()["metadata"]["resourceVersion"]
        api.delete(f"{EVENTS}/seen").ok()
        assert api.get(f"/at/{leases[0]}{LEASES}").status == 410
        for path in (EVENTS, NEW_EVENTS):
            assert api.get(f"/at/{version}{path}").status == 410
        assert api.get(f"/at/{config_maps[0]}{CONFIG_MAPS}/kept").status == 200


def test_an_invalid_policy_prevents_the_start(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("drop}", "drop, age: 1}"))
    refused = ServerProcess(tmp_path / "data", "--history", f"--history-policy={policy}").refusal()
    assert "--history-policy" in refused.stderr
    assert "age" in refused.stderr
    refused = ServerProcess(tmp_path / "data", f"--history-policy={policy}").refusal()
    assert "--history-policy must be set with --history" in refused.stderr
