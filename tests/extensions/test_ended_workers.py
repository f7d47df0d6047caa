"""What shows that workers end: metrics, Events and back-off."""

from __future__ import annotations

import os
import re
import signal
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, Final

import pytest

from tests.extensions.support import worker_of
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.metrics import metric
from tests.support.objects import config_map
from tests.support.server_process import ServerProcess

ENDS: Final = "apiserver_extension_worker_ends_total"
EVENTS: Final = "/api/v1/namespaces/default/events"
PATH: Final = "/api/v1/namespaces/default/configmaps"
LEAVES: Final = "fail-leaves"
CRASHES: Final = 10
# Ten workers start, and take a while where others need the processors.
WITHIN_S: Final = 60.0


def events(api: Api) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get(f"{EVENTS}?fieldSelector=source=extensions").ok()["items"]
    return sorted(items, key=lambda each: each["metadata"]["resourceVersion"])


def test_a_worker_that_ends_has_an_event(tmp_path: Path) -> None:
    flag = "--extension=tests.extensions.modules.hostile"
    with ServerProcess(tmp_path, flag).start() as server, Api(server) as api:
        os.kill(worker_of(server), signal.SIGKILL)
        [event] = until(lambda: events(api))
        service = api.get("/api/v1/namespaces/default/services/kubernetes").ok()
        assert event["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Service",
            "namespace": "default",
            "name": "kubernetes",
            "uid": service["metadata"]["uid"],
        }
        assert (event["type"], event["reason"]) == ("Warning", "ExtensionWorkerEnded")
        assert event["message"] == (
            "the worker of extension hostile has ended once, the next one starts now: it was ended by SIGKILL"
        )


def test_a_worker_that_is_ended_for_a_function_names_it(tmp_path: Path) -> None:
    flag = "--extension=tests.extensions.modules.hostile_admission:fail_loops"
    with ServerProcess(tmp_path, flag).start() as server, Api(server) as api:
        assert api.post(PATH, config_map("fail-loops")).status == 500
        [event] = until(lambda: events(api))
        assert re.search(r"starts now: loops \(hostile\.py:\d+\) has not stopped$", event["message"])
        assert metric(api, ENDS, extension="fail-loops", hook="loops") == 1


@pytest.mark.slow
def test_ten_crashes_in_a_row_are_delayed_counted_and_reported(tmp_path: Path) -> None:
    flag = "--extension=tests.extensions.modules.hostile_admission:fail_leaves"
    with ServerProcess(tmp_path, flag).start() as server, Api(server) as api:
        for number in range(1, CRASHES + 1):
            until(lambda: is_ready(api), within_s=WITHIN_S)
            answer = api.post(PATH, config_map(LEAVES))
            assert "has ended its worker: it has exited with status 3" in answer.message
            until(lambda: metric(api, ENDS, extension=LEAVES, hook="leaves"), partial(eq, number))
            # Writes that do not concern the function go on.
            assert api.post(PATH, config_map(f"other-{number}")).status == 201
        found = until(lambda: events(api), lambda found: len(found) == CRASHES)
        delays = ["now", *(f"in {0.1 * 2**power:.3g} s" for power in range(CRASHES - 1))]
        for event, delay in zip(found, delays, strict=True):
            then = re.escape(f"starts {delay}: leaves (hostile.py:")
            assert re.search(rf"{then}\d+\) ended it: it has exited with status 3$", event["message"])
        assert [each["reason"] for each in found] == ["ExtensionWorkerEnded", *["BackOff"] * (CRASHES - 1)]
        # Until the next worker starts, the function decides nothing, and at once.
        refused = api.post(PATH, config_map(LEAVES))
        assert "the worker has ended 10 times, and starts again in" in refused.message
        assert not is_ready(api)


def is_ready(api: Api) -> bool:
    return f"[+]extension-{LEAVES} ok" in api.get("/readyz?verbose").body.decode()
