"""Findings about the members of etcd, from what they report."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.app.doctor.etcd_members import ClusterFacts, EndpointFacts, ListedMember, MemberStatus, examine
from tests.unit.app.doctor.findings import problems, told

MIB, GIB = 1024**2, 1024**3
LISTED: Final = [ListedMember(n, f"m{n}") for n in (1, 2, 3)]


def status(member: int = 1, **fields: Any) -> MemberStatus:
    plain = MemberStatus(member, 0xC1, "3.5.21", 1, 20 * MIB, 16 * MIB, 8 * GIB)
    return plain._replace(**fields)


def endpoint(member: int = 1, **fields: Any) -> EndpointFacts:
    facts = EndpointFacts(f"http://m{member}:2379", status(member), read_s=0.0008, write_s=0.004)
    return facts._replace(**fields)


def cluster(first: EndpointFacts, *others: EndpointFacts, **fields: Any) -> ClusterFacts:
    return ClusterFacts([first, *(others or (endpoint(2), endpoint(3)))], LISTED)._replace(**fields)


def away(member: int) -> EndpointFacts:
    return EndpointFacts(f"http://m{member}:2379", problem="connection refused")


SICK: Final[dict[str, tuple[ClusterFacts, list[tuple[str, str]]]]] = {
    "healthy": (cluster(endpoint()), []),
    "a known fault": (
        cluster(*(endpoint(n, status=status(n, version="3.5.2")) for n in (1, 2, 3))),
        [
            (
                "WARNING",
                f"http://m{n}:2379 runs etcd 3.5.2: this release can lose committed data when etcd is killed",
            )
            for n in (1, 2, 3)
        ],
    ),
    "different releases": (
        cluster(endpoint(status=status(version="3.6.1"))),
        [("WARNING", "the members of etcd run different releases: 3.5.21, 3.6.1")],
    ),
    "one away": (
        cluster(endpoint(), endpoint(2), away(3)),
        [("WARNING", "http://m3:2379 does not respond: connection refused")],
    ),
    "the majority away": (
        cluster(endpoint(), away(2), away(3)),
        [("ERROR", f"http://m{n}:2379 does not respond: connection refused") for n in (2, 3)],
    ),
    "all away": (
        ClusterFacts([away(1)]),
        [("ERROR", "http://m1:2379 does not respond: connection refused")],
    ),
    "no leader": (
        cluster(endpoint(status=status(leader=0), read_s=None, write_s=None)),
        [("ERROR", "http://m1:2379 has no leader, so etcd accepts no writes")],
    ),
    "two clusters": (
        cluster(endpoint(status=status(cluster_id=0xC2))),
        [("ERROR", "--etcd-servers names members of 2 clusters: c1, c2")],
    ),
    "a learner": (
        cluster(endpoint(), endpoint(2), endpoint(3, status=status(3, is_learner=True))),
        [("WARNING", "http://m3:2379 is a learner, and learners reject requests from the server")],
    ),
    "a member that is not named": (
        cluster(endpoint(), endpoint(2)),
        [("NOTE", "--etcd-servers does not contain these members of etcd, which were not checked: m3")],
    ),
    "a single member": (
        ClusterFacts([endpoint()], LISTED[:1]),
        [("NOTE", "etcd has a single member, so the cluster stops when this member stops")],
    ),
    "an even number": (
        ClusterFacts([endpoint(), endpoint(2)], LISTED[:2]),
        [("NOTE", "etcd has 2 members, but tolerates only as many failures as a cluster of size 1")],
    ),
    "no space": (
        cluster(endpoint(), alarms=[(2, "NOSPACE")]),
        [("ERROR", "member m2 has exceeded its quota, so etcd rejects writes (alarm NOSPACE)")],
    ),
    "corrupt": (
        cluster(endpoint(), alarms=[(0xAB, "CORRUPT")]),
        [("ERROR", "member ab has found corrupt data (alarm CORRUPT)")],
    ),
    "near its quota": (
        cluster(endpoint(status=status(size_bytes=7 * GIB, in_use_bytes=7 * GIB))),
        [("WARNING", "the database of http://m1:2379 has a size of 7 GiB, 88% of its quota (8 GiB)")],
    ),
    "at the default quota": (
        cluster(endpoint(status=status(size_bytes=2 * GIB, in_use_bytes=2 * GIB, quota_bytes=0))),
        [
            (
                "ERROR",
                (
                    "the database of http://m1:2379 has a size of 2 GiB, 100% of its quota (2 GiB, the "
                    "default of etcd)"
                ),
            )
        ],
    ),
    "fragmented": (
        cluster(endpoint(status=status(size_bytes=GIB, in_use_bytes=100 * MIB))),
        [("WARNING", "the database of http://m1:2379 has a size of 1 GiB, but uses only 100 MiB")],
    ),
    "small, so that fragments do not matter": (
        cluster(endpoint(status=status(size_bytes=100 * MIB, in_use_bytes=MIB))),
        [],
    ),
    "a slow read": (
        cluster(endpoint(read_s=0.25)),
        [("WARNING", "a linearizable read at http://m1:2379 took 250 ms")],
    ),
    "a stalled disk": (
        cluster(endpoint(write_s=1.5)),
        [("ERROR", "a write at http://m1:2379 took 1500 ms")],
    ),
    "a failed write": (
        cluster(endpoint(write_s=None, write_problem="no response within 3 s")),
        [("ERROR", "a write at http://m1:2379 failed: no response within 3 s")],
    ),
    "behind": (
        cluster(endpoint(status=status(apply_lag=4_000))),
        [("WARNING", "http://m1:2379 has not yet applied 4000 log entries")],
    ),
    "an error of its own": (
        cluster(endpoint(status=status(errors=("etcdserver: too slow", "etcdserver: no leader")))),
        [("WARNING", "http://m1:2379 reports: etcdserver: too slow")],
    ),
    "an alarm in the status of members alone": (
        cluster(*(endpoint(n, status=status(n, errors=("memberID:2 alarm:NOSPACE ",))) for n in (1, 2, 3))),
        [("ERROR", "member m2 has exceeded its quota, so etcd rejects writes (alarm NOSPACE)")],
    ),
    "an alarm in both lists": (
        cluster(endpoint(status=status(errors=("memberID:3 alarm:CORRUPT",))), alarms=[(3, "CORRUPT")]),
        [("ERROR", "member m3 has found corrupt data (alarm CORRUPT)")],
    ),
    "alarms that cannot be read": (
        cluster(endpoint(), unread=["the alarms of etcd cannot be read: no response within 6 s"]),
        [("NOTE", "the alarms of etcd cannot be read: no response within 6 s")],
    ),
    "nothing can be read": (
        ClusterFacts([away(1)], unread=["the alarms of etcd cannot be read: no response within 6 s"]),
        [("ERROR", "http://m1:2379 does not respond: connection refused")],
    ),
}


@pytest.mark.parametrize(("facts", "found"), SICK.values(), ids=SICK)
def test_findings(facts: ClusterFacts, found: list[tuple[str, str]]) -> None:
    assert problems(examine(facts)) == found


def test_a_write_without_space_needs_space_and_not_another_leader() -> None:
    full = endpoint(write_s=None, write_problem="etcdserver: mvcc: database space exceeded")
    (advice,) = [each.advice for each in examine(cluster(full)) if "a write" in each.message]
    assert advice.startswith("Delete objects and defragment")


def test_each_member_that_answers_has_a_line() -> None:
    assert told(examine(cluster(endpoint())))[:2] == [
        ("OK", "http://m1:2379: etcd 3.5.21, leader, read 0.8 ms, write 4.0 ms, 20 MiB of 8 GiB"),
        ("OK", "http://m2:2379: etcd 3.5.21, follower, read 0.8 ms, write 4.0 ms, 20 MiB of 8 GiB"),
    ]
