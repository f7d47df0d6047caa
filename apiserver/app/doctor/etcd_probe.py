"""Asks the members of etcd: each endpoint by itself, all at the same time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from statistics import median
from time import monotonic
from typing import Final, NamedTuple, TypeVar

import orjson

from apiserver.app.doctor.certificates import CertificateFile
from apiserver.app.doctor.clocks import ClockReading, LeaseTimes, StoreTime
from apiserver.app.doctor.deadline import Deadline, NoAnswerInTime
from apiserver.app.doctor.etcd_http import HttpFacts, ask_over_http
from apiserver.app.doctor.etcd_members import ClusterFacts, EndpointFacts, ListedMember, MemberStatus
from apiserver.cli.config import Config
from apiserver.storage.errors import StorageError
from apiserver.storage.etcd import EtcdClient, EtcdStore, Tls
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.keys import INTERNAL_GROUP, decoded, encoded, prefix_range, resource_prefix

T = TypeVar("T")

# Of each call.
CALL_WITHIN_S: Final = 3.0
# Of all calls to an endpoint, so that a slow one has findings before the check ends.
ENDPOINT_WITHIN_S: Final = 8.0
# Of calls to the cluster. The client leaves an endpoint that hangs for the next one.
CLUSTER_WITHIN_S: Final = 6.0
# The median of so many is robust against one slow fsync; a slow endpoint is measured once.
SAMPLES: Final = 3
SAMPLING_WITHIN_S: Final = 0.5
# Longer than all samples may take; the key goes with the lease if the command is killed.
LEASE_S: Final = 60
LEASES_PER_PAGE: Final = 500
# Nodes have one each, and Kubernetes supports 5,000.
LEASES_MAX: Final = 10_000


class ClusterProbe(NamedTuple):
    """What was found out about etcd. leases: None if they could not be read."""

    facts: ClusterFacts
    clocks: Sequence[ClockReading]
    certificates: Sequence[CertificateFile]
    leases: LeaseTimes | None


def tls_files(config: Config) -> Tls:
    storage = config.storage
    return Tls(storage.etcd_cafile, storage.etcd_certfile, storage.etcd_keyfile)


@asynccontextmanager
async def client_of(config: Config, endpoints: Sequence[str]) -> AsyncIterator[EtcdClient]:
    """Opens a client of some of the endpoints. Raises OSError, ValueError."""
    client = EtcdClient(endpoints, tls_files(config), transport=config.storage.etcd_transport)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def store_of(config: Config) -> AsyncIterator[EtcdStore]:
    """Opens the store in etcd. Raises OSError, ValueError."""
    async with client_of(config, config.storage.etcd_servers) as client:
        yield EtcdStore(client, prefix=config.storage.etcd_prefix)


async def probe(config: Config) -> ClusterProbe:
    """Asks all endpoints, and the cluster as a whole. Failures become facts."""
    endpoints = config.storage.etcd_servers
    cluster, asked, https = await asyncio.gather(
        _ask_cluster(config),
        asyncio.gather(*(_ask_endpoint(config, each) for each in endpoints)),
        asyncio.gather(*(ask_over_http(each, tls_files(config)) for each in endpoints)),
    )
    facts, leases = cluster
    return ClusterProbe(
        facts._replace(endpoints=[_with_quota(each, http) for each, http in zip(asked, https, strict=True)]),
        [each.clock for each in https if each.clock is not None],
        [each.certificate for each in https if each.certificate is not None],
        leases,
    )


def _with_quota(facts: EndpointFacts, http: HttpFacts) -> EndpointFacts:
    if facts.status is None or facts.status.quota_bytes:
        return facts
    return facts._replace(status=facts.status._replace(quota_bytes=http.quota_bytes))


# ---- the cluster


async def _ask_cluster(config: Config) -> tuple[ClusterFacts, LeaseTimes | None]:
    folder = resource_prefix(config.storage.etcd_prefix, config.brand.group("coordination"), "leases")
    try:
        async with client_of(config, config.storage.etcd_servers) as client:
            return await ask_cluster(client, folder, CLUSTER_WITHIN_S)
    except (OSError, ValueError):  # Of each endpoint it is reported.
        return ClusterFacts(()), None


async def ask_cluster(
    client: EtcdClient, folder: str, within_s: float
) -> tuple[ClusterFacts, LeaseTimes | None]:
    """Returns the listed members, the alarms and the Leases in a folder, each as far as it can be read."""
    unread: list[str] = []

    async def asked(what: str, call: Callable[[], Awaitable[T]]) -> T | None:
        try:
            return await Deadline(within_s, within_s).call(call)
        except (StorageError, NoAnswerInTime) as failure:
            unread.append(f"{what} of etcd cannot be read: {failure}")
            return None

    members, alarms, leases = await asyncio.gather(
        asked("the list of members", client.members),
        asked("the alarms", client.alarms),
        asked("the Leases", lambda: _lease_times(client, folder)),
    )
    facts = ClusterFacts(
        (),
        [ListedMember(each.id, each.name, each.is_learner) for each in members.members] if members else (),
        [(each.member_id, _alarm_name(each.alarm)) for each in alarms.alarms] if alarms else (),
        unread,
    )
    return facts, leases


def _alarm_name(alarm: int) -> str:
    return pb.AlarmRequest.Type.Name(alarm) if alarm in pb.AlarmRequest.Type.values() else str(alarm)


async def _lease_times(client: EtcdClient, folder: str) -> LeaseTimes:
    """Returns the latest renewal of all Leases, which clients and servers renew every few seconds."""
    keys = prefix_range(folder)
    start, end = encoded(keys.start), encoded(keys.end)
    newest: tuple[float, str] | None = None
    total = 0
    while total < LEASES_MAX:
        response = await client.range(pb.RangeRequest(key=start, range_end=end, limit=LEASES_PER_PAGE))
        for each in response.kvs:
            if (time := _renew_time(each.value)) is not None:
                found = time, decoded(each.key).removeprefix(folder)
                newest = max(newest or found, found)
        total += len(response.kvs)
        if not response.more or not response.kvs:
            break
        start = response.kvs[-1].key + b"\0"
    what = f"the last renewal of a Lease in etcd ({newest[1]})" if newest else ""
    return LeaseTimes(StoreTime(what, newest[0], is_of_client=True) if newest else None, total)


def _renew_time(value: bytes) -> float | None:
    """Returns the time in a stored Lease; None if it has none or is encrypted."""
    try:
        text = orjson.loads(value)["spec"]["renewTime"]
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (LookupError, OverflowError, TypeError, ValueError):
        return None


# ---- an endpoint


async def _ask_endpoint(config: Config, endpoint: str) -> EndpointFacts:
    try:
        async with client_of(config, [endpoint]) as client:
            facts = EndpointFacts(client.endpoints[0])
            return await measure(
                client, config.storage.etcd_prefix, facts, Deadline(ENDPOINT_WITHIN_S, CALL_WITHIN_S)
            )
    except (OSError, ValueError) as failure:
        return EndpointFacts(endpoint.rpartition("@")[2], problem=str(failure))


async def measure(client: EtcdClient, prefix: str, facts: EndpointFacts, deadline: Deadline) -> EndpointFacts:
    """Returns the status of an endpoint and its latencies, as far as it answers before a deadline."""
    place = f"etcd at {facts.endpoint}: "  # Errors begin with it, and findings name the endpoint.
    try:
        status = await deadline.call(client.status)
    except (StorageError, NoAnswerInTime) as failure:
        return facts._replace(problem=str(failure).removeprefix(place))
    facts = facts._replace(
        status=MemberStatus(
            member_id=status.header.member_id,
            cluster_id=status.header.cluster_id,
            version=status.version,
            leader=status.leader,
            size_bytes=status.db_size_bytes,
            in_use_bytes=status.db_size_in_use_bytes or status.db_size_bytes,
            quota_bytes=status.db_size_quota_bytes,
            is_learner=status.is_learner,
            apply_lag=max(0, status.raft_index - status.raft_applied_index),
            errors=tuple(status.errors),
        )
    )
    if status.is_learner or not status.leader:
        return facts  # It refuses both.
    key = f"{prefix}/{INTERNAL_GROUP}/doctor/{secrets.token_hex(8)}".encode()
    read = pb.RangeRequest(key=key, count_only=True)
    read_s, read_problem = await _timed(lambda: client.range(read), deadline)
    write_s, write_problem = await _timed_writes(client, key, deadline)
    return facts._replace(
        read_s=read_s,
        read_problem=read_problem.removeprefix(place),
        write_s=write_s,
        write_problem=write_problem.removeprefix(place),
    )


async def _timed_writes(client: EtcdClient, key: bytes, deadline: Deadline) -> tuple[float | None, str]:
    """Writes a key that belongs to no object. It disappears with its lease."""
    try:
        lease = (await deadline.call(lambda: client.grant_lease(pb.LeaseGrantRequest(ttl_s=LEASE_S)))).id
    except (StorageError, NoAnswerInTime) as failure:
        return None, str(failure)
    try:
        return await _timed(lambda: client.put_repeatedly(pb.PutRequest(key=key, lease=lease)), deadline)
    finally:
        with suppress(StorageError, NoAnswerInTime):  # It ends by itself.
            await deadline.call(lambda: client.revoke_lease(pb.LeaseRevokeRequest(id=lease)))


async def _timed(call: Callable[[], Awaitable[object]], deadline: Deadline) -> tuple[float | None, str]:
    """Returns the median time of a call, or why the first one failed."""
    taken: list[float] = []
    began = monotonic()
    try:
        while len(taken) < SAMPLES and monotonic() - began < SAMPLING_WITHIN_S:
            start = monotonic()
            await deadline.call(call)
            taken.append(monotonic() - start)
    except (StorageError, NoAnswerInTime) as failure:
        if not taken or isinstance(failure, StorageError):
            return None, str(failure)
    return median(taken), ""
