"""The watches of a replica that dies continue on another one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api
from tests.support.bystander import Bystander
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import eventually
from tests.support.metrics import metric
from tests.support.processor import slowness
from tests.support.resuming_watches import ResumingWatches
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.etcd, pytest.mark.slow]  # 2,000 TLS handshakes, on both sides

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
WATCHES: Final = 1_000
# The processor time of the server until all are open again; it takes 1.7 to 2.1 s.
RESUMED_S: Final = 5.0
OTHERS_S: Final = 0.1


async def test_all_watches_of_a_replica_that_is_killed_continue_on_another(tmp_path: Path) -> None:
    """No event is missed, no client has to list, and others hardly notice."""
    with wheel_etcd(tmp_path) as etcd:
        flag = f"--etcd-servers={etcd.url}"
        lost, kept = (ServerProcess(tmp_path / name, flag).start() for name in ("lost", "kept"))
        with lost, kept, Api(kept) as api:
            version = api.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"]
            async with ResumingWatches([lost], CONFIGMAPS, version, WATCHES) as watches:
                await eventually(lambda: watches.open[lost.url] == WATCHES)
                watches.servers = [lost, kept]
                api.post(CONFIGMAPS, {"metadata": {"name": "before"}}).ok()
                await eventually(lambda: watches.seen["before"] == WATCHES)
                lists, used_s = metric(api, "apiserver_request_total", verb="LIST"), kept.cpu_s
                with Bystander(kept) as others:
                    lost.kill()
                    api.post(CONFIGMAPS, {"metadata": {"name": "meanwhile"}}).ok()
                    await eventually(lambda: watches.seen["meanwhile"] == WATCHES)
                    await eventually(lambda: watches.open[kept.url] == WATCHES)
                    # What the other processes of the machine take is not the server's doing.
                    resumed_s = kept.cpu_s - used_s
                api.post(CONFIGMAPS, {"metadata": {"name": "after"}}).ok()
                await eventually(lambda: watches.seen["after"] == WATCHES)
                assert not watches.failed
                assert metric(api, "apiserver_request_total", verb="LIST") == lists
                assert set(watches.errors) <= {lost.url}
            assert resumed_s < RESUMED_S * slowness()
            assert others.waited_s < OTHERS_S
