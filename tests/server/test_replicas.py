"""Several servers on one etcd behave as one for a client that moves between them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
WRITERS: Final = 4
WRITES: Final = 50


def test_both_start_on_an_empty_store_and_see_the_same(replicas: tuple[Api, Api]) -> None:
    """The namespaces that exist from the start are created once."""
    one, two = (api.get("/api/v1/namespaces").ok()["items"] for api in replicas)
    assert {item["metadata"]["name"] for item in one} >= {"default", "kube-system", "kube-public"}
    assert one == two


def test_a_write_here_is_read_there_at_once(replicas: tuple[Api, Api]) -> None:
    """Row K01: a read without a resourceVersion is never older than a write that any server answered."""
    one, two = replicas
    for number in range(50):
        made = one.post(CONFIGMAPS, {"metadata": {"name": f"read-{number}"}}).ok()
        assert two.get(f"{CONFIGMAPS}/read-{number}").ok() == made
        listed = two.get(f"{CONFIGMAPS}?fieldSelector=metadata.name=read-{number}").ok()
        assert [item["metadata"]["uid"] for item in listed["items"]] == [made["metadata"]["uid"]]
        one, two = two, one


def test_a_watch_here_sees_what_is_written_there(replicas: tuple[Api, Api]) -> None:
    one, two = replicas
    start = one.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"]
    # The version that one server told is where a watch on the other begins.
    with two.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={start}") as events:
        one.post(CONFIGMAPS, {"metadata": {"name": "seen"}}).ok()
        one.patch(f"{CONFIGMAPS}/seen", {"data": {"k": "v"}}).ok()
        one.delete(f"{CONFIGMAPS}/seen").ok()
        assert events.take(3) == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]


def test_writers_on_both_sides_conflict_as_on_one(replicas: tuple[Api, Api]) -> None:
    """Row L01: of two updates of one version the second is refused, wherever they arrive."""
    one, two = replicas
    made = one.post(CONFIGMAPS, {"metadata": {"name": "contended"}}).ok()
    one.put(f"{CONFIGMAPS}/contended", {**made, "data": {"by": "one"}}).ok()
    refused = two.put(f"{CONFIGMAPS}/contended", {**made, "data": {"by": "two"}})
    assert (refused.status, refused.reason) == (409, "Conflict")


def test_no_patch_of_many_is_lost(replicas: tuple[Api, Api]) -> None:
    """A patch without a version is tried again on what the other server wrote in between."""
    one, _ = replicas
    one.post(CONFIGMAPS, {"metadata": {"name": "patched"}}).ok()

    def write(api: Api, writer: int) -> None:
        api = Api(api.server)
        for number in range(WRITES // WRITERS):
            api.patch(f"{CONFIGMAPS}/patched", {"data": {f"w{writer}-{number}": "x"}}).ok()
        api.close()

    writers = [threading.Thread(target=write, args=(replicas[n % 2], n)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for api in replicas:
        assert len(api.get(f"{CONFIGMAPS}/patched").ok()["data"]) == WRITES // WRITERS * WRITERS


def test_a_list_begun_here_goes_on_there(replicas: tuple[Api, Api]) -> None:
    """Row K34: the token holds all that another server needs; the pages are of one revision."""
    one, two = replicas
    namespace = "/api/v1/namespaces/paged"
    one.post("/api/v1/namespaces", {"metadata": {"name": "paged"}}).ok()
    for number in range(5):
        one.post(f"{namespace}/configmaps", {"metadata": {"name": f"c{number}"}}).ok()
    seen, query, version = [], "limit=2", None
    while True:
        page = one.get(f"{namespace}/configmaps?{query}").ok()
        seen += [item["metadata"]["name"] for item in page["items"]]
        version = version or page["metadata"]["resourceVersion"]
        assert page["metadata"]["resourceVersion"] == version
        if not (token := page["metadata"].get("continue")):
            break
        two.post(f"{namespace}/configmaps", {"metadata": {"generateName": "later-"}}).ok()
        query, one, two = f"limit=2&continue={token}", two, one
    assert seen == [f"c{number}" for number in range(5)]


def test_a_replica_may_stop(tmp_path: Path, replicas: tuple[Api, Api]) -> None:
    """What a stopped replica wrote is with the other."""
    one, _ = replicas
    flag = next(flag for flag in one.server.flags if flag.startswith("--etcd-servers"))
    with ServerProcess(tmp_path / "third", flag) as server:
        third = Api(server)
        third.post(CONFIGMAPS, {"metadata": {"name": "left-behind"}}).ok()
        third.close()
        assert server.stop() == 0
    assert one.get(f"{CONFIGMAPS}/left-behind").status == 200
