"""`--history` with `--workers`: one process records, and all of them give the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.server.test_workers import two_workers
from tests.support.api import Answer, Api
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import until
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
# Each leads to one of the two workers.
CONNECTIONS: Final = 16
WHICH: Final = "/debug/deprecations"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdProcess) -> Iterator[ServerProcess]:
    with two_workers(tmp_path_factory.mktemp("workers"), etcd, "--history", "--controllers=-*") as server:
        yield server


@pytest.fixture
def apis(server: ServerProcess) -> Iterator[list[Api]]:
    found: list[Api] = []
    workers: list[Any] = []

    def have_both() -> bool:
        if len(found) == CONNECTIONS:  # All of them lead to the same worker.
            found.pop().close()
            workers.pop()
        while len(found) < CONNECTIONS:
            found.append(Api(server))
            workers.append(found[-1].get(WHICH).ok()["worker"])
        return len({*workers}) == 2

    until(have_both, what="there are connections to both workers")
    yield found
    for each in found:
        each.close()


def written(apis: list[Api], name: str) -> list[str]:
    """Write versions of an object over all connections. Returns them."""
    body = {"metadata": {"name": name}, "data": {"n": "-1"}}
    versions = [apis[0].post(CONFIG_MAPS, body).ok()["metadata"]["resourceVersion"]]
    for number, api in enumerate(apis):
        patched = api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"n": str(number)}}).ok()
        versions.append(patched["metadata"]["resourceVersion"])
    return versions


def the_answer(apis: list[Api], path: str, headers: dict[str, str] | None = None) -> Answer:
    """Returns the answer that all workers give."""
    answers = [api.get(path, headers=headers) for api in apis]
    first = answers[0]
    for each in answers[1:]:
        assert (each.status, each.warnings) == (first.status, first.warnings), (first.body, each.body)
        assert each.json == first.json
    return first


def test_all_workers_answer_alike(apis: list[Api]) -> None:
    versions = written(apis, "alike")
    for number in (0, 1, 7, len(versions) - 1):
        found = the_answer(apis, f"/at/{versions[number]}{CONFIG_MAPS}/alike").ok()
        assert found["data"] == {"n": str(number - 1)}
        listed = the_answer(apis, f"/at/{versions[number]}{CONFIG_MAPS}?labelSelector=!none").ok()["items"]
        assert [each["data"] for each in listed if each["metadata"]["name"] == "alike"] == [found["data"]]
    history = the_answer(apis, f"{CONFIG_MAPS}/alike/history").ok()["versions"]
    assert [each["resourceVersion"] for each in history] == versions[::-1]
    assert {each["user"] for each in history} == {"admin"}
    # A time is the same moment for all of them.
    for each in history[:3]:
        at = the_answer(apis, f"/at/{each['time']}{CONFIG_MAPS}/alike").ok()
        assert int(at["metadata"]["resourceVersion"]) >= int(each["resourceVersion"])
    changes = the_answer(apis, f"/history?since={versions[0]}&until={versions[-1]}").ok()["changes"]
    assert len(changes) == CONNECTIONS
    the_answer(apis, f"{CONFIG_MAPS}/alike/history?from={versions[0]}&to={versions[-1]}").ok()
    assert the_answer(apis, f"/at/0{CONFIG_MAPS}").status == 410


def test_every_worker_has_what_another_has_just_written(apis: list[Api]) -> None:
    for number, (writer, reader) in enumerate(pairwise(apis)):
        name = f"new-{number}"
        body = {"metadata": {"name": name}}
        version = writer.post(CONFIG_MAPS, body).ok()["metadata"]["resourceVersion"]
        writer.delete(f"{CONFIG_MAPS}/{name}").ok()
        assert reader.get(f"/at/{version}{CONFIG_MAPS}/{name}").status == 200


def test_what_one_worker_purges_is_purged_for_all(apis: list[Api]) -> None:
    for number, api in enumerate(apis):
        name = f"purged-{number}"
        version = written(apis[:3], name)[1]
        assert the_answer(apis, f"/at/{version}{CONFIG_MAPS}/{name}").status == 200
        purged = api.delete(f"{CONFIG_MAPS}/{name}/history").ok()
        assert purged == {"changes": 4, "objects": 1}
        assert the_answer(apis, f"/at/{version}{CONFIG_MAPS}/{name}").status == 410
        assert api.delete(f"{CONFIG_MAPS}/{name}-other/history").status == 404
    rewritten = [api.send("POST", "/history/rewrite?resources=configmaps").ok() for api in apis]
    assert rewritten == [{"rewritten": 0, "unchanged": 0, "lost": 0}] * CONNECTIONS


def test_rights_are_the_same(apis: list[Api]) -> None:
    version = written(apis[:2], "rights")[0]
    reader = grant(apis[0], "default", "worker-reader", rule("get list", "configmaps"))
    path = f"/at/{version}{CONFIG_MAPS}/rights"
    until(lambda: {api.get(path, headers=reader).status for api in apis} == {403}, what="the role is known")


def test_a_recorder_that_has_ended_is_replaced(tmp_path: Path, etcd: EtcdProcess) -> None:
    with two_workers(tmp_path, etcd, "--history", "--controllers=-*") as server, Api(server) as api:
        version = written([api], "kept")[0]
        assert api.get(f"/at/{version}{CONFIG_MAPS}/kept").status == 200
        lock = tmp_path / "data" / "history" / "recorder.lock"
        recorder = int(lock.read_text())
        psutil.Process(recorder).kill()

        def all_answer() -> bool:
            apis = [Api(server) for _ in range(CONNECTIONS)]
            try:
                return {each.get(f"/at/{version}{CONFIG_MAPS}/kept").status for each in apis} == {200}
            except OSError:
                return False
            finally:
                for each in apis:
                    each.close()

        until(all_answer, what="another process records the history")
        assert int(lock.read_text()) != recorder
        with Api(server) as other:
            again = written([other], "later")[0]
            assert other.get(f"/at/{again}{CONFIG_MAPS}/later").status == 200


def single(directory: Path, etcd: EtcdProcess, *flags: str) -> ServerProcess:
    """Not started yet."""
    prefix = f"--etcd-prefix=/{directory.name}"
    return ServerProcess(directory / "data", f"--etcd-servers={etcd.url}", prefix, *flags)


@pytest.mark.parametrize(
    ("first", "second"), [(two_workers, two_workers), (two_workers, single), (single, two_workers)]
)
def test_a_history_is_of_one_server(tmp_path: Path, etcd: EtcdProcess, first: Any, second: Any) -> None:
    """A worker of another server would be taken for one of the same."""
    flags = ("--history", f"--history-dir={tmp_path / 'all'}", "--controllers=-*")
    with first(tmp_path / "one", etcd, *flags):
        refused = second(tmp_path / "two", etcd, *flags).refusal()
        assert "in use by another server" in refused.stderr
    with second(tmp_path / "two", etcd, *flags) as server, Api(server) as api:
        assert api.get("/history").status == 200
