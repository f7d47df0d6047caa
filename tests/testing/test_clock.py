"""The clock of a server for tests: what follows it, and what does not."""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from apiserver.controllers.leader_election import NAMESPACE, ElectionTimes, LeaderElector, LeaseLock
from apiserver.meta.brand import Brand
from apiserver.registry.clock import SYSTEM_CLOCK
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.testing import ApiServer, ClockNotAdvanced, ServerStopped, User
from apiserver.testing.server_time import AsyncioLoop, ServerTime
from tests.support import in_process
from tests.support.audit import audit_flags
from tests.support.etcd_process import wheel_etcd
from tests.support.openid_provider import CLIENT, OpenIdProvider

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
PODS: Final = "/api/v1/namespaces/default/pods"
EVENTS: Final = "/api/v1/namespaces/default/events"
JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
WHOAMI: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
POD: Final = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture(scope="module")
def original() -> Iterator[ApiServer]:
    with ApiServer(tokens={"reader": User("reader", ("system:masters",))}) as server:
        yield server


def create(server: ApiServer, path: str, name: str, **content: Any) -> dict[str, Any]:
    metadata = {"name": name, **content.pop("metadata", {})}
    code, answer = server.request("POST", path, {**content, "metadata": metadata})
    assert code == 201, answer
    created: dict[str, Any] = answer
    return created


def seconds_off(server: ApiServer, text: str) -> float:
    """How far a time in an object is from the server's now."""
    return abs((datetime.fromisoformat(text) - server.clock.now()).total_seconds())


# ---- times in objects


def test_its_time() -> None:
    with ApiServer() as server:
        assert abs(server.clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
        before = server.clock.now()
        later = server.clock.advance(days=1, hours=2, minutes=3, seconds=4, milliseconds=500)
        ahead = timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=500)
        assert ahead <= later - before < ahead + timedelta(seconds=60)
        assert later <= server.clock.now()


def _creation(server: ApiServer) -> str:
    return str(create(server, CONFIG_MAPS, "new")["metadata"]["creationTimestamp"])


def _managed_fields(server: ApiServer) -> str:
    return str(create(server, CONFIG_MAPS, "new", data={"a": "b"})["metadata"]["managedFields"][0]["time"])


def _deletion(server: ApiServer) -> str:
    create(server, CONFIG_MAPS, "new", metadata={"finalizers": ["example.com/stays"]})
    return str(server.request("DELETE", f"{CONFIG_MAPS}/new")[1]["metadata"]["deletionTimestamp"])


def _deletion_after_grace(server: ApiServer) -> str:
    """That of a Pod on a node, which has a minute to end, is in a minute."""
    create(server, PODS, "new", spec={**POD, "nodeName": "node-1"})
    path = f"{PODS}/new"
    metadata = server.request("DELETE", path, {"gracePeriodSeconds": 60})[1]["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 60
    deleted_at = datetime.fromisoformat(metadata["deletionTimestamp"])
    return (deleted_at - timedelta(seconds=60)).isoformat()


def _token_request(server: ApiServer) -> str:
    accounts = "/api/v1/namespaces/default/serviceaccounts/default/token"
    code, answer = server.request("POST", accounts, {"spec": {"expirationSeconds": 600}})
    assert code == 201
    expires_at = datetime.fromisoformat(answer["status"]["expirationTimestamp"])
    return (expires_at - timedelta(seconds=600)).isoformat()


def _condition(server: ApiServer) -> str:
    """When a controller has seen that a namespace is going."""
    namespaces = "/api/v1/namespaces"
    create(server, namespaces, "going")
    path = f"{namespaces}/going/configmaps"
    create(server, path, "stays", metadata={"finalizers": ["example.com/stays"]})
    server.request("DELETE", f"{namespaces}/going")
    found = server.wait_for("Namespace", "going", until=lambda it: "conditions" in it["status"], timeout_s=60)
    return str(found["status"]["conditions"][0]["lastTransitionTime"])


def _request_history(server: ApiServer) -> str:
    server.request("GET", CONFIG_MAPS)
    return datetime.fromtimestamp(server.requests(includes_own=True)[-1].at, UTC).isoformat()


TIMES: Final[dict[str, Callable[[ApiServer], str]]] = {
    "creationTimestamp": _creation,
    "the time of a field manager": _managed_fields,
    "deletionTimestamp": _deletion,
    "deletionTimestamp of what has a grace period": _deletion_after_grace,
    "when a token expires": _token_request,
    "a condition that a controller sets": _condition,
    "when a request came": _request_history,
}


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
def test_times_follow(server: ApiServer, time: Callable[[ApiServer], str]) -> None:
    server.clock.advance(days=30)
    assert seconds_off(server, time(server)) < 60


def test_times_in_the_audit_log_follow(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    with ApiServer(flags=audit_flags(tmp_path)) as server:
        server.clock.advance(days=30)
        server.request("GET", f"{CONFIG_MAPS}/audited")
        now = server.clock.now()
    (event,) = [
        event
        for event in map(orjson.loads, log.read_bytes().splitlines())
        if event["requestURI"].endswith("/audited") and event["stage"] == "ResponseComplete"
    ]
    assert abs(datetime.fromisoformat(event["requestReceivedTimestamp"]) - now) < timedelta(seconds=60)


# ---- what expires


def _code(server: ApiServer, token: str) -> int:
    return server.request("GET", "/version", headers={"Authorization": f"Bearer {token}"})[0]


def test_tokens_of_service_accounts_expire(server: ApiServer) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = server.request("POST", accounts, {"spec": {"expirationSeconds": 600}})[1]["status"]["token"]
    server.clock.advance(minutes=9)
    assert _code(server, token) == 200
    server.clock.advance(minutes=2)
    assert _code(server, token) == 401


def test_bootstrap_tokens_expire() -> None:
    with ApiServer(flags=["--enable-bootstrap-token-auth"]) as server:
        expires_at = server.clock.now() + timedelta(hours=1)
        data = {
            "token-id": "abcdef",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
            "expiration": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        path = "/api/v1/namespaces/kube-system/secrets"
        kind = "bootstrap.kubernetes.io/token"
        create(server, path, "bootstrap-token-abcdef", type=kind, stringData=data)
        assert _code(server, "abcdef.0123456789abcdef") == 200
        server.clock.advance(hours=1)
        assert _code(server, "abcdef.0123456789abcdef") == 401


def test_tokens_of_identity_providers_expire(tmp_path: Path) -> None:
    with OpenIdProvider(tmp_path) as provider:
        flags = [
            f"--oidc-issuer-url={provider.issuer}",
            f"--oidc-client-id={CLIENT}",
            f"--oidc-ca-file={provider.pki.ca_cert}",
        ]
        with ApiServer(flags=flags) as server:
            token = provider.token()
            assert _code(server, token) == 200
            server.clock.advance(hours=1)
            assert _code(server, token) == 401
            assert _code(server, provider.token(exp=server.clock.now().timestamp() + 600)) == 200


def _who(server: ApiServer, certificate: bytes, key: bytes) -> str:
    """Returns the name of a certificate's user; empty if it is not accepted."""
    context = ssl.create_default_context(cafile=server.ca)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + key)
        file.flush()
        context.load_cert_chain(file.name)
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=context, timeout=60)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    connection.request("POST", WHOAMI, orjson.dumps(review), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = orjson.loads(response.read())
    connection.close()
    return str(answer["status"]["userInfo"]["username"]) if response.status == 201 else ""


def _pair(kubeconfig: Path) -> tuple[bytes, bytes]:
    user = yaml.safe_load(kubeconfig.read_bytes())["users"][0]["user"]
    return base64.b64decode(user["client-certificate-data"]), base64.b64decode(user["client-key-data"])


def test_certificates_of_users_expire(server: ApiServer) -> None:
    certificate, key = _pair(server.user("alice"))
    ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    server.clock.advance(seconds=(ends - server.clock.now()).total_seconds() - 60)
    assert _who(server, certificate, key) == "alice"
    server.clock.advance(seconds=61)
    assert _who(server, certificate, key) == ""
    assert _who(server, *_pair(server.user("alice"))) == "alice"


def test_users_get_no_certificate_of_a_ca_that_has_expired(server: ApiServer) -> None:
    server.clock.advance(days=3_651)
    with pytest.raises(ValueError, match=r"ca\.crt expired on .*; the current time is "):
        server.user("alice")


def test_certificates_that_are_asked_for_later_are_good_at_once(server: ApiServer) -> None:
    """TLS would say that they are not valid yet: its time is the computer's."""
    server.clock.advance(days=300)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(asked.public_bytes(Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "expirationSeconds": 3600,
    }
    request = create(server, REQUESTS, "bob", spec=spec)
    request["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
    assert server.request("PUT", f"{REQUESTS}/bob/approval", request)[0] == 200
    signed = server.wait_for(
        "CertificateSigningRequest", "bob", until=lambda it: "certificate" in it["status"]
    )
    certificate = base64.b64decode(signed["status"]["certificate"])
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert _who(server, certificate, private) == "bob"
    server.clock.advance(hours=2)
    assert _who(server, certificate, private) == ""


def test_certificates_that_are_not_valid_yet_are_not_accepted(original: ApiServer) -> None:
    """Those of another server, with the same CA, whose clock is ahead."""
    with original.fork() as ahead:
        ahead.clock.advance(days=1)
        pair = _pair(ahead.user("alice"))
        assert _who(ahead, *pair) == "alice"
        assert _who(original, *pair) == ""


def _event(server: ApiServer) -> None:
    involved = {"kind": "ConfigMap", "namespace": "default", "name": "a"}
    create(server, EVENTS, "happened", involvedObject=involved)


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_events_expire(tmp_path: Path, *, on_disk: bool) -> None:
    with ApiServer(data_dir=tmp_path / "data" if on_disk else None) as server:
        _event(server)
        server.clock.advance(minutes=59)
        server.assert_quiet("Event", seconds=0.1)
        server.clock.advance(minutes=3)
        server.wait_until_gone("Event", "happened", "default", timeout_s=60)
        _event(server)  # The lease of before is not used again.
        server.assert_quiet("Event", seconds=0.1)


def test_jobs_that_have_finished_go(server: ApiServer) -> None:
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    create(server, JOBS, "done", spec={"ttlSecondsAfterFinished": 3600, "template": template})
    job = server.request("GET", f"{JOBS}/done")[1]
    now = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"status": "True", "lastTransitionTime": now}
    job["status"] = {
        "startTime": now,
        "completionTime": now,
        "conditions": [{"type": "SuccessCriteriaMet", **condition}, {"type": "Complete", **condition}],
    }
    code, answer = server.request("PUT", f"{JOBS}/done/status", job)
    assert code == 200, answer
    server.clock.advance(minutes=59)
    server.assert_quiet("Job", seconds=0.1)
    server.clock.advance(minutes=1)
    server.wait_until_gone("Job", "done", "default", timeout_s=60)


# ---- what takes its time


class Watch:
    """A watch of config maps, whose lines are read one after the other."""

    def __init__(self, server: ApiServer, query: str) -> None:
        self._connection = server.connect()
        self._connection.request("GET", f"{CONFIG_MAPS}?watch=1&{query}", headers=server.admin_headers)
        self._response = self._connection.getresponse()

    def next(self) -> Any:
        """Returns the next event; None once the watch has ended."""
        line = self._response.readline()
        return orjson.loads(line) if line else None

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def watch(server: ApiServer) -> Iterator[Callable[[str], Watch]]:
    opened: list[Watch] = []

    def begin(query: str) -> Watch:
        opened.append(Watch(server, query))
        return opened[-1]

    yield begin
    for each in opened:
        each.close()


def test_bookmarks_come_every_minute(server: ApiServer, watch: Callable[[str], Watch]) -> None:
    watching = watch("allowWatchBookmarks=true&resourceVersion=0")
    create(server, CONFIG_MAPS, "a")
    while watching.next()["object"]["metadata"].get("name") != "a":
        pass
    server.clock.advance(minutes=1)
    assert watching.next()["type"] == "BOOKMARK"


@pytest.mark.parametrize("query", ["", "&timeoutSeconds=7200"], ids=["the server's", "the client's"])
def test_watches_end_in_time(server: ApiServer, watch: Callable[[str], Watch], query: str) -> None:
    revision = server.request("GET", CONFIG_MAPS)[1]["metadata"]["resourceVersion"]
    watching = watch(f"resourceVersion={revision}{query}")
    server.clock.advance(minutes=20)
    create(server, CONFIG_MAPS, "a")
    assert watching.next()["object"]["metadata"]["name"] == "a"
    server.clock.advance(hours=2)
    assert watching.next() is None


def test_requests_end_in_time(server: ApiServer) -> None:
    """One whose body does not come."""
    connection = server.connect()
    headers = {**server.admin_headers, "Content-Type": "application/json", "Content-Length": "100"}
    connection.putrequest("POST", CONFIG_MAPS)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"{")
    while not any(each.code == 0 for each in server.requests(includes_own=True)):
        pass  # It is under way soon.
    server.clock.advance(minutes=2)
    response = connection.getresponse()
    assert (response.status, orjson.loads(response.read())["reason"]) == (504, "Timeout")
    connection.close()


# ---- what does not follow


def test_connections_that_are_idle_stay(server: ApiServer) -> None:
    """Clients do not know that they have been idle for long."""
    connection = server.connect()
    connection.auto_open = 0
    connection.connect()
    for _ in range(2):
        connection.request("GET", "/version", headers=server.admin_headers)
        assert connection.getresponse().read()
        server.clock.advance(hours=1)
    connection.close()


def test_history_stays(server: ApiServer) -> None:
    """It goes by how much there is, and by the computer's time."""
    revision = server.request("GET", CONFIG_MAPS)[1]["metadata"]["resourceVersion"]
    create(server, CONFIG_MAPS, "a")
    for _ in range(3):
        server.clock.advance(hours=1)
    query = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    code, listing = server.request("GET", CONFIG_MAPS, query=query)
    assert (code, [each["metadata"]["name"] for each in listing["items"]]) == (200, ["kube-root-ca.crt"])


# ---- each server has its own


def test_a_fork_begins_with_the_time_of_its_original(original: ApiServer) -> None:
    with original.fork() as one:
        one.clock.advance(days=2)
        with one.fork() as other:
            assert abs(one.clock.now() - other.clock.now()) < timedelta(seconds=5)
            other.clock.advance(days=1)
            assert seconds_off(other, _creation(other)) < 60
            assert other.clock.now() - one.clock.now() > timedelta(hours=23)
            assert seconds_off(one, _creation(one)) < 60


def test_leases_of_the_original_expire_in_a_fork(server: ApiServer) -> None:
    _event(server)
    server.clock.advance(minutes=40)
    with server.fork() as fork:
        fork.clock.advance(minutes=25)
        fork.wait_until_gone("Event", "happened", "default", timeout_s=60)
        server.assert_quiet("Event", seconds=0.1)


def test_a_reset_leaves_the_clock_alone(server: ApiServer) -> None:
    """Who has seen a time sees none before."""
    before = server.snapshot()
    server.clock.advance(days=1)
    server.reset(before)
    assert seconds_off(server, _creation(server)) < 60
    server.clock.advance(days=1)
    assert server.clock.now() - datetime.now(UTC) > timedelta(hours=47)


def test_a_child_process() -> None:
    with ApiServer(in_process=False) as server:
        _event(server)
        server.clock.advance(hours=2)
        server.wait_until_gone("Event", "happened", "default", timeout_s=60)
        assert seconds_off(server, _creation(server)) < 60
        with pytest.raises(ClockNotAdvanced):
            server.clock.advance(hours=-1)
    with pytest.raises(ServerStopped):
        server.clock.advance(hours=1)


# ---- what is refused

REFUSED: Final[dict[str, tuple[dict[str, float], str]]] = {
    "back": (
        {"hours": -1},
        "a server's clock cannot be advanced by -1 day, 23:00:00",
    ),
    "back, in sum": ({"hours": 1, "minutes": -61}, "a server's clock cannot be advanced by -1 day, 23:59:00"),
    "too far": ({"days": 365_001}, "a server's clock can be at most 1000 years ahead of the computer's"),
    "farther than times go": ({"days": 1e300}, "at most 1000 years"),
    "no number": ({"days": float("nan")}, "at most 1000 years"),
}


@pytest.mark.parametrize(("step", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(original: ApiServer, step: dict[str, float], message: str) -> None:
    with pytest.raises(ClockNotAdvanced, match=message):
        original.clock.advance(**step)


def test_the_farthest_time(server: ApiServer) -> None:
    server.clock.advance(days=364_000)
    _event(server)
    assert seconds_off(server, _creation(server)) < 60
    assert seconds_off(server, _token_request(server)) < 60


def test_a_stopped_server() -> None:
    server = ApiServer()
    with pytest.raises(ServerStopped, match=r"clock\.advance"):
        server.clock.advance(hours=1)
    with server:
        pass
    with pytest.raises(ServerStopped, match=r"clock\.advance"):
        server.clock.advance(hours=1)


@pytest.mark.etcd
def test_a_server_on_etcd(tmp_path: Path) -> None:
    with wheel_etcd(tmp_path) as etcd, ApiServer(flags=[f"--etcd-servers={etcd.url}"]) as server:
        with pytest.raises(ClockNotAdvanced, match="etcd expires leases"):
            server.clock.advance(hours=1)
        assert _code(server, server.admin_token) == 200


def test_workers() -> None:
    server = ApiServer(flags=["--workers=2", "--etcd-servers=http://127.0.0.1:1"], in_process=False)
    with pytest.raises(ServerStopped):
        server.clock.advance(hours=1)


# ---- event loops

LOOPS: Final[dict[str, Callable[[ServerTime], asyncio.AbstractEventLoop]]] = {
    "the usual one": lambda time: time.new_event_loop(),
    "asyncio's": lambda time: time.new_event_loop(AsyncioLoop),
}


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_timers_are_called_in_their_order_and_once(
    make: Callable[[ServerTime], asyncio.AbstractEventLoop],
) -> None:
    time = ServerTime()
    called: list[str] = []

    async def check() -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        loop.call_later(600, called.append, "late")
        loop.call_later(300, called.append, "early")
        loop.call_at(before + 301, called.append, "in between")
        loop.call_later(300, called.append, "cancelled").cancel()
        loop.call_later(3600, called.append, "not yet")
        timed = asyncio.create_task(_timed_out(400, called))
        await asyncio.sleep(0)
        await time.advance(600)
        # A task that waits goes on in the next round.
        assert called == ["early", "in between", "late", "timed out"]
        assert 600 <= loop.time() - before < 660
        assert abs(loop.time() - time.clock.monotonic()) < 60
        await timed
        await time.advance(10)
        assert len(called) == 4
        await time.advance(2990)
        assert called[4:] == ["not yet"]

    with asyncio.Runner(loop_factory=lambda: make(time)) as runner:
        runner.run(check())


async def _timed_out(seconds: float, called: list[str]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
    except TimeoutError:
        called.append("timed out")


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_timers_are_called_without_an_advance(
    make: Callable[[ServerTime], asyncio.AbstractEventLoop],
) -> None:
    async def check() -> None:
        loop = asyncio.get_running_loop()
        called = asyncio.Event()
        loop.call_later(0.02, called.set)
        await called.wait()
        await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            await asyncio.sleep(0)

    time = ServerTime(3600)
    with asyncio.Runner(loop_factory=lambda: make(time)) as runner:
        runner.run(check())


def test_leader_election_follows() -> None:
    """Another takes a Lease that its holder has not renewed for its duration, by the clock of the other."""
    time, leading = ServerTime(), asyncio.Event()

    async def lead() -> None:
        leading.set()
        await asyncio.Event().wait()

    async def check() -> None:
        store = await EmbeddedStore.in_memory(monotonic=time.clock.monotonic, wall=time.clock.time)
        async with in_process.server(store) as registry:
            leases = in_process.resource("leases", "coordination.k8s.io")
            spec = {"holderIdentity": "gone", "leaseDurationSeconds": 3600}
            described = {"apiVersion": leases.api_version, "kind": leases.kind, "spec": spec}
            request = WriteRequest(resource=leases, namespace=NAMESPACE, name="lease")
            lease = {**described, "metadata": {"namespace": NAMESPACE, "name": "lease"}}
            await registry.create(request, ProposedObject(lease))
            elector = LeaderElector(
                registry,
                ServedTable(in_process.TABLE),
                Brand(),
                LeaseLock("lease", "here"),
                times=ElectionTimes(3600, 1800.0, 60.0),
                clock=time.clock.time,
            )
            running = asyncio.create_task(elector.run(lead))
            async with asyncio.timeout(100_000):
                while not leading.is_set():
                    await time.advance(1800)
                    await asyncio.sleep(0.01)  # It reads the Lease, and sees that it is the same.
            running.cancel()
            await asyncio.wait([running])
        await store.close()

    with asyncio.Runner(loop_factory=time.new_event_loop) as runner:
        runner.run(check())


def test_other_servers_go_by_the_computers_clock_itself() -> None:
    """No call stands between them and the time."""
    assert (SYSTEM_CLOCK.time, SYSTEM_CLOCK.time_ns, SYSTEM_CLOCK.monotonic) == (
        time.time,
        time.time_ns,
        time.monotonic,
    )
    assert not SYSTEM_CLOCK.can_be_ahead
