"""What is left of an etcd that is slow, refuses some calls, or has Leases of all kinds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

import pytest

from apiserver.app.doctor.clocks import StoreTime, examine_leases
from apiserver.app.doctor.deadline import Deadline
from apiserver.app.doctor.etcd_http import HttpFacts, ask_over_http
from apiserver.app.doctor.etcd_members import EndpointFacts, ListedMember
from apiserver.app.doctor.etcd_probe import ask_cluster, measure
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.etcd import Tls
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from tests.support.eventually import WITHIN_S
from tests.unit.app.doctor.findings import told

FOLDER: Final = "/registry/coordination.k8s.io/leases/"
STATUS: Final = pb.StatusResponse(header=pb.Header(member_id=1), leader=1, version="3.5.21")
MEMBERS: Final = pb.MemberListResponse(members=[pb.Member(id=1, name="m1")])
NOW: Final = 1_800_000_000.0


class FakeEtcd:
    """Answers calls by the responses that it has, late or with an error; without one it hangs."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        answer = self._answers.get(name)

        async def call(*_: object) -> Any:
            if answer is None:
                await asyncio.sleep(WITHIN_S)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


async def measured(client: Any, within_s: float = 0.2, call_s: float = 0.05) -> EndpointFacts:
    return await measure(client, "/registry", EndpointFacts("m1:2379"), Deadline(within_s, call_s))


async def test_an_endpoint_keeps_what_it_answers_before_a_call_hangs() -> None:
    facts = await measured(FakeEtcd(status=STATUS, range=pb.RangeResponse()))
    assert facts.status is not None
    assert facts.read_s is not None
    assert facts.write_problem == "no response within 0.05 s"
    assert (await measured(FakeEtcd())).problem == "no response within 0.05 s"


async def test_all_calls_to_an_endpoint_share_a_deadline() -> None:
    began = monotonic()
    facts = await measured(FakeEtcd(status=STATUS), within_s=0.06, call_s=WITHIN_S)
    assert monotonic() - began < WITHIN_S / 2
    assert (facts.read_s, facts.write_s) == (None, None)
    assert "" not in (facts.read_problem, facts.write_problem)


async def test_a_failure_does_not_repeat_the_endpoint() -> None:
    facts = await measured(FakeEtcd(status=StorageUnavailable("etcd at m1:2379: UNAVAILABLE: refused")))
    assert facts.problem == "UNAVAILABLE: refused"


async def asked(**answers: Any) -> Any:
    client: Any = FakeEtcd(**answers)
    return await ask_cluster(client, FOLDER, 0.05)


async def test_each_part_of_a_cluster_is_read_by_itself() -> None:
    refused = StorageUnavailable("etcd at m1:2379: PERMISSION_DENIED: permission denied")
    facts, leases = await asked(members=MEMBERS, alarms=refused)
    assert facts.listed == [ListedMember(1, "m1")]
    assert facts.alarms == ()
    assert facts.unread == [
        f"the alarms of etcd cannot be read: {refused}",
        "the Leases of etcd cannot be read: no response within 0.05 s",
    ]
    assert leases is None


async def test_an_alarm_of_a_later_release_has_a_number() -> None:
    alarms = pb.AlarmResponse(alarms=[pb.AlarmMember(member_id=1, alarm=7)])  # type: ignore[arg-type]
    facts, _ = await asked(members=MEMBERS, alarms=alarms)
    assert facts.alarms == [(1, "7")]


def lease(name: str, value: bytes) -> pb.KeyValue:
    return pb.KeyValue(key=f"{FOLDER}{name}".encode(), value=value)


def renewed(time: object) -> bytes:
    return json.dumps(
        {"metadata": {"creationTimestamp": "2099-01-01T00:00:00Z"}, "spec": {"renewTime": time}}
    ).encode()


STRANGE: Final = {
    "encrypted": b"k8s:enc:aescbc:v1:key1:2099-01-01T00:00:00Z",
    "a list": b"[]",
    "no spec": b"{}",
    "no time": renewed(None),
    "a number": renewed(4070908800),
    "a month 13": renewed("2099-13-01T00:00:00Z"),
    "the first year": renewed("0001-01-01T00:00:00+10:00"),
}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
async def test_a_lease_without_a_time_is_counted(value: bytes) -> None:
    _, leases = await asked(range=pb.RangeResponse(kvs=[lease("a", value)]))
    assert told(examine_leases(leases, NOW)) == [("NOTE", "the times in 1 Lease in etcd cannot be read")]


async def test_the_latest_renewal_names_its_lease() -> None:
    values = {
        "default/old": renewed("2027-01-15T07:59:00.000000Z"),
        "kube-system/new": renewed("2027-01-15T08:00:30.000000Z"),
        "kube-system/secret": STRANGE["encrypted"],
    }
    _, leases = await asked(range=pb.RangeResponse(kvs=[lease(*each) for each in values.items()]))
    what = "the last renewal of a Lease in etcd (kube-system/new)"
    assert leases == (StoreTime(what, NOW + 30, is_of_client=True), 3)
    assert told(examine_leases(leases, NOW)) == [
        ("WARNING", f"{what} is dated 2027-01-15 08:00:30 UTC, 30 s in the future")
    ]


async def test_leases_are_read_in_pages() -> None:
    pages = {b"": ("a", True), b"a\0": ("b", False)}

    class Paged(FakeEtcd):
        async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
            name, more = pages[request.key.removeprefix(FOLDER.encode())]
            return pb.RangeResponse(kvs=[lease(name, renewed("2027-01-15T08:00:00Z"))], more=more)

    client: Any = Paged(members=MEMBERS, alarms=pb.AlarmResponse())
    facts, leases = await ask_cluster(client, FOLDER, WITHIN_S)
    assert (facts.unread, leases and leases.total) == ([], 2)


METRICS: Final[dict[str, tuple[bytes, int]]] = {
    "a quota": (b"# x\netcd_server_quota_backend_bytes 2.147483648e+09\n", 2 * 1024**3),
    "no number": (b"etcd_server_quota_backend_bytes NaN\n", 0),
    "infinite": (b"etcd_server_quota_backend_bytes +Inf\n", 0),
    "negative": (b"etcd_server_quota_backend_bytes -1\n", 0),
    "none": (b"", 0),
}


@pytest.mark.parametrize(("content", "quota"), METRICS.values(), ids=METRICS)
async def test_the_quota_in_the_metrics(content: bytes, quota: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        facts = await ask_over_http(f"http://127.0.0.1:{port}", Tls())
    assert facts == HttpFacts(quota_bytes=quota)


@pytest.mark.parametrize("endpoint", ["http://user:pass@127.0.0.1:1", "https://127.0.0.1:1", "127.0.0.1:1"])
async def test_an_endpoint_without_metrics_has_no_facts(endpoint: str) -> None:
    assert await ask_over_http(endpoint, Tls()) == HttpFacts()
