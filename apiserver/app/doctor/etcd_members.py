"""Checks the members of etcd: what each reports, how fast it is, and whether they are one healthy cluster."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from apiserver.app.doctor.report import Finding, error, note, ok, warning
from apiserver.app.doctor.units import milliseconds, size
from apiserver.storage.etcd.version import EtcdVersion

# etcd logs requests that took longer; each write of the server waits for one.
SLOW_S: Final = 0.1
STALLED_S: Final = 1.0
# etcd's own default, where a member does not report its quota.
DEFAULT_QUOTA_BYTES: Final = 2 * 1024**3
FULL_SHARE: Final = 0.8
NEARLY_FULL_SHARE: Final = 0.95
FRAGMENTED_SHARE: Final = 0.5
FRAGMENTED_BYTES_MIN: Final = 256 * 1024**2
# etcd refuses requests when a member has to apply 5,000 entries.
APPLY_LAG_MAX: Final = 1_000
_FIXED: Final = "3.5.13 or later (3.4.31)"
# As the status of a member lists the alarms of all members.
_ALARM: Final = re.compile(r"memberID:(\d+) alarm:(\w+)\s*")


class MemberStatus(NamedTuple):
    """The status that a member reports. leader: the ID of the leader that it knows; 0 for none.

    quota_bytes: 0 if it does not report it. apply_lag: how many entries it has yet to apply.
    """

    member_id: int
    cluster_id: int
    version: str
    leader: int
    size_bytes: int
    in_use_bytes: int
    quota_bytes: int = 0
    is_learner: bool = False
    apply_lag: int = 0
    errors: Sequence[str] = ()


class EndpointFacts(NamedTuple):
    """A configured endpoint. problem: why it reports no status; empty if it does.

    read_s, write_s: how long a linearizable read and a write took; None if they failed, for the reason in
    read_problem, write_problem.
    """

    endpoint: str
    status: MemberStatus | None = None
    problem: str = ""
    read_s: float | None = None
    write_s: float | None = None
    read_problem: str = ""
    write_problem: str = ""


class ListedMember(NamedTuple):
    """A member that the cluster lists."""

    member_id: int
    name: str
    is_learner: bool = False


class ClusterFacts(NamedTuple):
    """A cluster. listed: its members; empty if no endpoint answers. alarms: their names, with member IDs.

    unread: what could not be read of the cluster, and why.
    """

    endpoints: Sequence[EndpointFacts]
    listed: Sequence[ListedMember] = ()
    alarms: Sequence[tuple[int, str]] = ()
    unread: Sequence[str] = ()


_ALARMS: Final[Mapping[str, tuple[str, str]]] = {
    "NOSPACE": (
        "has exceeded its quota, so etcd rejects writes",
        "Delete objects and defragment etcd, or raise --quota-backend-bytes. Then run: etcdctl alarm disarm",
    ),
    "CORRUPT": (
        "has found corrupt data",
        "Remove the member, delete its data directory and add it again. Then run: etcdctl alarm disarm",
    ),
}


def examine(facts: ClusterFacts) -> Iterator[Finding]:
    yield from _examine_cluster(facts)
    is_majority_lost = not _has_quorum(facts)
    for each in facts.endpoints:
        if each.status is None:
            make = error if is_majority_lost else warning
            yield make(
                f"{each.endpoint} does not respond: {each.problem}",
                "Start etcd at this address, or check the address, the firewall and the certificates.",
            )
        else:
            yield from _examine_status(each.endpoint, each.status)
            yield from _examine_speed(each)
            yield ok(_described(each, each.status))


def _examine_cluster(facts: ClusterFacts) -> Iterator[Finding]:
    statuses = [each.status for each in facts.endpoints if each.status is not None]
    clusters = Counter(f"{each.cluster_id:x}" for each in statuses)
    if len(clusters) > 1:
        yield error(
            f"--etcd-servers names members of {len(clusters)} clusters: {', '.join(sorted(clusters))}",
            "List the members of only one cluster, because the server can write to any listed member.",
        )
    versions = sorted({each.version for each in statuses})
    if len(versions) > 1:
        yield warning(
            f"the members of etcd run different releases: {', '.join(versions)}",
            "Finish the upgrade of etcd. New features stay disabled until all members run the same release.",
        )
    for each in facts.unread if statuses else ():
        yield note(each, "Run the command again. If the problem persists, see the log of etcd.")
    if facts.listed:
        yield from _examine_list(facts, statuses)
    names = {each.member_id: each.name for each in facts.listed}
    reported = [found for each in statuses for text in each.errors if (found := _ALARM.fullmatch(text))]
    alarms = [*facts.alarms, *((int(found[1]), found[2]) for found in reported)]
    for member_id, alarm in dict.fromkeys(alarms):
        what, advice = _ALARMS.get(alarm, (f"has the alarm {alarm}", "See the documentation of etcd."))
        yield error(f"member {names.get(member_id) or f'{member_id:x}'} {what} (alarm {alarm})", advice)


def _examine_list(facts: ClusterFacts, statuses: Sequence[MemberStatus]) -> Iterator[Finding]:
    voters = [each for each in facts.listed if not each.is_learner]
    known = {each.member_id for each in statuses}
    unreachable = sum(each.status is None for each in facts.endpoints)
    missing = [each.name or f"{each.member_id:x}" for each in voters if each.member_id not in known]
    if len(missing) > unreachable:
        yield note(
            "--etcd-servers does not contain these members of etcd, which were not checked: "
            f"{', '.join(missing)}",
            "Add the URLs of these members to --etcd-servers, so that the server can use them when others "
            "fail.",
        )
    if len(voters) == 1:
        yield note(
            "etcd has a single member, so the cluster stops when this member stops",
            "Use three members in production.",
        )
    elif len(voters) % 2 == 0:
        yield note(
            f"etcd has {len(voters)} members, but tolerates only as many failures as a cluster of "
            f"size {len(voters) - 1}",
            "Use an odd number of members.",
        )


def _has_quorum(facts: ClusterFacts) -> bool:
    answering = {
        each.status.member_id for each in facts.endpoints if each.status and not each.status.is_learner
    }
    voters = sum(not each.is_learner for each in facts.listed) or len(facts.endpoints)
    return len(answering) > voters // 2


def _examine_status(endpoint: str, status: MemberStatus) -> Iterator[Finding]:
    if reason := EtcdVersion.parse(status.version).warning:
        yield warning(f"{endpoint} runs etcd {status.version}: {reason}", f"Upgrade etcd to {_FIXED}.")
    if not status.leader:
        yield error(
            f"{endpoint} has no leader, so etcd accepts no writes",
            "Check that a majority of the members is running and that the members reach each other's peer "
            "URLs.",
        )
    if status.is_learner:
        yield warning(
            f"{endpoint} is a learner, and learners reject requests from the server",
            "Promote the member (etcdctl member promote), or remove it from --etcd-servers.",
        )
    if status.apply_lag > APPLY_LAG_MAX:
        yield warning(
            f"{endpoint} has not yet applied {status.apply_lag} log entries",
            "Check the load and the disk of this member.",
        )
    for each in status.errors:
        if not _ALARM.fullmatch(each) and "no leader" not in each:
            yield warning(f"{endpoint} reports: {each}", "See the log of this member.")
    yield from _examine_size(endpoint, status)


def _examine_size(endpoint: str, status: MemberStatus) -> Iterator[Finding]:
    quota = status.quota_bytes or DEFAULT_QUOTA_BYTES
    share = status.size_bytes / quota
    if share >= FULL_SHARE:
        source = "" if status.quota_bytes else ", the default of etcd"
        make = error if share >= NEARLY_FULL_SHARE else warning
        yield make(
            f"the database of {endpoint} has a size of {size(status.size_bytes)}, {share:.0%} of its quota "
            f"({size(quota)}{source})",
            "Defragment the database (etcdctl defrag), delete objects, or raise --quota-backend-bytes.",
        )
    free = status.size_bytes - status.in_use_bytes
    if status.size_bytes >= FRAGMENTED_BYTES_MIN and free > FRAGMENTED_SHARE * status.size_bytes:
        yield warning(
            f"the database of {endpoint} has a size of {size(status.size_bytes)}, but uses "
            f"only {size(status.in_use_bytes)}",
            "Run etcdctl defrag on one member at a time. The member does not respond until the command ends.",
        )


def _examine_speed(facts: EndpointFacts) -> Iterator[Finding]:
    for what, taken_s, problem, advice in (
        (
            "a linearizable read",
            facts.read_s,
            facts.read_problem,
            "Check the network between the members and the load of the leader.",
        ),
        (
            "a write",
            facts.write_s,
            facts.write_problem,
            "Use a faster disk for etcd, without other programs. etcd waits for fsync on each write.",
        ),
    ):
        if problem:
            is_full = "database space exceeded" in problem
            yield error(
                f"{what} at {facts.endpoint} failed: {problem}",
                _ALARMS["NOSPACE"][1] if is_full else "Check the leader and the quorum of etcd.",
            )
        elif taken_s is not None and taken_s >= SLOW_S:
            make = error if taken_s >= STALLED_S else warning
            yield make(f"{what} at {facts.endpoint} took {milliseconds(taken_s)}", advice)


def _described(facts: EndpointFacts, status: MemberStatus) -> str:
    role = "leader" if status.leader == status.member_id else "follower"
    timings = [
        f"{what} {milliseconds(taken_s)}"
        for what, taken_s in (("read", facts.read_s), ("write", facts.write_s))
        if taken_s is not None
    ]
    sizes = f"{size(status.size_bytes)} of {size(status.quota_bytes or DEFAULT_QUOTA_BYTES)}"
    return ", ".join([f"{facts.endpoint}: etcd {status.version}", role, *timings, sizes])
