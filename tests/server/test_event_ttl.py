"""Events are kept for a time, from their last change.

https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/, --event-ttl
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.api import Api
from tests.support.server_process import ServerProcess

EVENTS: Final = "/api/v1/namespaces/default/events"


def test_events_end_by_themselves_whatever_the_server_did_meanwhile(tmp_path: Path) -> None:
    pod = {"kind": "Pod", "namespace": "default", "name": "p"}
    with ServerProcess(tmp_path / "data", "--event-ttl=1s", "--controllers=-*") as server:
        with Api(server) as api:
            api.post(EVENTS, {"metadata": {"name": "short"}, "involvedObject": pod}).ok()
            api.post(f"{EVENTS[:-6]}configmaps", {"metadata": {"name": "kept"}}).ok()
        assert server.stop() == 0
        server.start()
        with Api(server) as api:
            listed = api.get(EVENTS).ok()
            if listed["items"]:
                version = listed["metadata"]["resourceVersion"]
                with api.watch(f"{EVENTS}?watch=1&resourceVersion={version}") as events:
                    assert events.take(1) == [("DELETED", "short")]
            assert api.get(f"{EVENTS}/short").status == 404
            assert api.get(f"{EVENTS[:-6]}configmaps/kept").status == 200
