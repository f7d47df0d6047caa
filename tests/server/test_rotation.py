"""All keys and certificates of replicas are replaced in one run, and no request of anybody fails.

Encryption keys, the serving certificate, the client CA, keys of service accounts, and keys of a provider.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509

from tests.server.test_certificate_rotation import serial
from tests.server.test_encryption import Configuration, Running, aesgcm, secret
from tests.server.test_openid import configuration
from tests.server.test_service_account_tokens import new_key
from tests.support import forked_server
from tests.support.api import Api
from tests.support.authority import Authority
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.eventually import WITHIN_S, until
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.openid_provider import OpenIdProvider
from tests.support.rbac import bind
from tests.support.server_process import ServerProcess

SECRETS: Final = "/api/v1/namespaces/default/secrets"
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"
# A kept connection proves that old ones go on, and each new one that new ones are accepted.
REQUESTS_PER_CONNECTION: Final = 5
# How many requests each client completes between two steps.
REQUESTS_PER_STEP: Final = 10


@dataclass(frozen=True)
class Credential:
    """How a client connects, and what it shows. token: makes one for a request."""

    context: ssl.SSLContext
    token: Callable[[], str] | None = None


@dataclass
class Balancer:
    """Says which replica a client is to ask, as what stands before replicas does: none that is taken out."""

    replicas: list[ServerProcess]
    active: Counter[int] = field(default_factory=Counter)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def replica(self, turn: int) -> Iterator[ServerProcess]:
        with self.changed:
            found = self.replicas[turn % len(self.replicas)]
            self.active[id_of(found)] += 1
        try:
            yield found
        finally:
            with self.changed:
                self.active[id_of(found)] -= 1
                self.changed.notify_all()

    @contextmanager
    def without(self, replica: ServerProcess) -> Iterator[None]:
        """A time in which a replica is asked nothing."""
        with self.changed:
            self.replicas.remove(replica)
            assert self.changed.wait_for(lambda: self.active[id_of(replica)] == 0, WITHIN_S)
        yield
        with self.changed:
            self.replicas.append(replica)


def id_of(replica: ServerProcess) -> int:
    """What stays the same when a replica starts again."""
    port = urlsplit(replica.url).port
    assert port is not None
    return port


def connected(replica: ServerProcess, context: ssl.SSLContext) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", id_of(replica), context=context, timeout=WITHIN_S)


class Client:
    """Asks replicas in turn with a credential, which may be replaced. failures: what was refused or lost."""

    def __init__(self, balancer: Balancer, credential: Credential, name: str) -> None:
        self.credential, self.failures, self.requests = credential, list[str](), 0
        self.balancer, self._name = balancer, name

    def run(self, story: Callable[[Client], None], is_over: threading.Event) -> None:
        try:
            while not is_over.is_set():
                story(self)
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"{self._name}: {error!r}")

    def ask(self, *requests: tuple[str, str, Any]) -> list[Any]:
        """Ask one replica for a few things on one connection. Returns the documents."""
        credential = self.credential
        documents = []
        with (
            self.balancer.replica(self.requests // len(requests)) as replica,
            closing(connected(replica, credential.context)) as connection,
        ):
            for method, path, body in requests:
                headers = {"Content-Type": "application/json"}
                if credential.token is not None:
                    headers["Authorization"] = f"Bearer {credential.token()}"
                connection.request(method, path, body and json.dumps(body), headers)
                with connection.getresponse() as response:
                    content = response.read()
                if response.status >= 300:
                    self.failures.append(f"{self._name}: {method} {path} {response.status} {content!r}")
                documents.append(json.loads(content))
                self.requests += 1
        return documents

    def watch(self, since: str) -> Iterator[dict[str, Any]]:
        """The events of one watch, which ends when its replica does."""
        with self.balancer.changed:
            replica = self.balancer.replicas[0]
        with closing(connected(replica, self.credential.context)) as connection:
            path = f"{SECRETS}?watch=1&resourceVersion={since}&allowWatchBookmarks=true"
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != 200:
                self.failures.append(f"{self._name}: watch {response.status} {response.read()!r}")
                return
            try:
                while line := response.readline():
                    yield json.loads(line)
            except (ConnectionError, http.client.IncompleteRead):
                return  # The replica has ended; the next one goes on where this one was.


def write(number: int) -> Callable[[Client], None]:
    """What a writer does: create, read, list, update and delete a Secret of a new name."""
    names = count()

    def story(client: Client) -> None:
        name = f"load-{number}-{next(names)}"
        path = f"{SECRETS}/{name}"
        client.ask(
            ("POST", SECRETS, secret(name)),
            ("GET", path, None),
            ("GET", f"{SECRETS}?limit=5", None),
            ("PUT", path, secret(name)),
            ("DELETE", path, None),
        )

    return story


def read(client: Client) -> None:
    client.ask(*[("GET", f"{SECRETS}/kept", None)] * REQUESTS_PER_CONNECTION)


class Load:
    """Clients that go on all the time: writers with certificates, readers with tokens, and a watch.

    seen: what the watch tells of each Secret of the writers.
    """

    def __init__(self, balancer: Balancer, writer: Credential, readers: list[Credential]) -> None:
        self.writers = [Client(balancer, writer, f"writer {number}") for number in range(2)]
        self.readers = [Client(balancer, each, f"reader {number}") for number, each in enumerate(readers)]
        self.watcher = Client(balancer, writer, "watch")
        self.seen: dict[str, list[str]] = {}
        self._is_over = threading.Event()
        self._threads = ThreadPoolExecutor(8)
        self._running: list[Future[None]] = []

    @property
    def failures(self) -> list[str]:
        clients = (*self.writers, *self.readers, self.watcher)
        return [failure for client in clients for failure in client.failures]

    def start(self, since: str) -> None:
        for number, writer in enumerate(self.writers):
            self._running.append(self._threads.submit(writer.run, write(number), self._is_over))
        for reader in self.readers:
            self._running.append(self._threads.submit(reader.run, read, self._is_over))
        self._watching = self._threads.submit(self._watch, since)

    def proceed(self) -> None:
        """Wait until each client has begun and completed something since now, and no request has failed."""
        wanted = {client: client.requests + REQUESTS_PER_STEP for client in (*self.writers, *self.readers)}

        def is_done() -> bool:
            return bool(self.failures) or all(each.requests >= least for each, least in wanted.items())

        until(is_done, what="requests")
        assert self.failures == []

    def stop_clients(self) -> None:
        self._is_over.set()
        for each in self._running:
            each.result()

    def await_watch(self) -> None:
        """Wait until the watch has seen the last object."""
        self._watching.result(WITHIN_S)

    def close(self) -> None:
        self._is_over.set()
        self._threads.shutdown(wait=False)

    def _watch(self, since: str) -> None:
        while not self.watcher.failures:
            for event in self.watcher.watch(since):
                metadata = event["object"].get("metadata", {})
                if event["type"] == "ERROR":
                    self.watcher.failures.append(str(event))
                    break
                since = metadata["resourceVersion"]
                if metadata.get("name") == "last":
                    return
                if metadata.get("name", "").startswith("load-"):
                    self.seen.setdefault(metadata["name"], []).append(event["type"])


class Site:
    """Two replicas over one etcd, and the files that all keys are in."""

    def __init__(self, directory: Path, etcd: EtcdProcess, provider: OpenIdProvider) -> None:
        self.directory, self.provider = directory, provider
        self.serving = Authority(directory / "serving")
        self.clients = [Authority(directory / name) for name in ("clients-old", "clients-new")]
        self._bundle = directory / "clients.crt"
        self.trust(*self.clients[:1])
        authentication = directory / "authentication.yaml"
        authentication.write_text(yaml.safe_dump(configuration(provider)))
        files = self.serving.issue("default")
        self._flags = (
            f"--etcd-servers={etcd.url}",
            f"--tls-cert-file={files.certificate}",
            f"--tls-private-key-file={files.key}",
            f"--client-ca-file={self._bundle}",
            f"--authentication-config={authentication}",
        )
        self.replicas: list[Running] = []

    def start(self, stack: ExitStack, key: Path) -> None:
        for name in ("one", "two"):
            encryption = Configuration(self.directory / f"encryption-{name}.json")
            encryption.write(aesgcm("old"))
            flags = (*self._flags, *encryption.flags, *signing(key))
            server = stack.enter_context(ServerProcess(self.directory / name, *flags))
            replica = Running(server, Api(server, ca=self.serving.ca), encryption)
            stack.callback(lambda replica=replica: replica.api.close())  # type: ignore[misc]
            self.replicas.append(replica)

    def restart(self, replica: Running, *keys: Path) -> None:
        """Start a replica again, with other keys of service accounts."""
        replica.api.close()
        assert replica.server.stop() == 0
        replica.server.flags = (*self._flags, *replica.configuration.flags, *signing(*keys))
        replica.server.start()
        replica.api = Api(replica.server, ca=self.serving.ca)

    def trust(self, *authorities: Authority) -> None:
        new = self._bundle.with_suffix(".new")
        new.write_bytes(b"".join(each.ca.read_bytes() for each in authorities))
        new.replace(self._bundle)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.serving.ca)

    def certified(self, authority: Authority) -> Credential:
        """Whoever has a certificate of an authority."""
        context, files = self.context(), authority.issue("writer")
        context.load_cert_chain(files.certificate, files.key)
        return Credential(context)

    def statuses(self, credential: Credential) -> set[int]:
        """What the replicas answer to a credential."""
        found = set()
        for replica in self.replicas:
            with closing(connected(replica.server, credential.context)) as connection:
                token = "" if credential.token is None else credential.token()
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                try:
                    connection.request("GET", f"{SECRETS}/kept", headers=headers)
                    found.add(connection.getresponse().status)
                except (ssl.SSLError, ConnectionError):
                    found.add(401)  # TLS itself refuses what an unknown authority has signed.
        return found

    def shown(self) -> set[int]:
        """The serial numbers of the certificates that new clients are shown."""
        found = set()
        for replica in self.replicas:
            with closing(connected(replica.server, self.context())) as connection:
                connection.connect()
                assert isinstance(connection.sock, ssl.SSLSocket)
                certificate = connection.sock.getpeercert(binary_form=True)
            found.add(x509.load_der_x509_certificate(certificate or b"").serial_number)
        return found

    def issue(self) -> str:
        """A token of the service account, from the first replica."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.replicas[0].api.post(f"{ACCOUNTS}/reader/token", body).ok()
        return str(answer["status"]["token"])

    def rewrite(self) -> str:
        """Rewrite all Secrets by the command. Returns what it prints."""
        server = self.replicas[0].server
        path = write_kubeconfig(
            self.directory / "kubeconfig", server.url, ca=self.serving.ca, token="admin-token"
        )
        command = ["storage", "rewrite", "secrets", f"--kubeconfig={path}", "--rate=1000"]
        end = forked_server.run(command, WITHIN_S)
        assert (end.returncode, end.stderr) == (0, "")
        return end.stdout


def signing(key: Path, *others: Path) -> tuple[str, ...]:
    verifying = (f"--service-account-key-file={each}" for each in (key, *others))
    return (f"--service-account-signing-key-file={key}", *verifying)


def prepare(site: Site) -> str:
    """Make what clients need. Returns the version from which a watch sees what they write."""
    first = site.replicas[0].api
    users = ("writer", "oidc:reader", "system:serviceaccount:default:reader")
    bind(first, "load", "cluster-admin", *users)
    first.post(ACCOUNTS, {"metadata": {"name": "reader"}}).ok()
    return str(first.post(SECRETS, secret("kept")).ok()["metadata"]["resourceVersion"])


def rotate_encryption_keys(site: Site, load: Load) -> None:
    """A new key is known to all before one writes with it; the old one goes when nothing needs it."""
    for names in (("old", "new"), ("new", "old")):
        for replica in site.replicas:
            replica.reload(aesgcm(*names))
            load.proceed()
    site.rewrite()
    assert "secrets: 0 rewritten" in site.rewrite()
    for replica in site.replicas:
        replica.reload(aesgcm("new"))
        load.proceed()


def rotate_serving_certificate(site: Site, load: Load) -> None:
    new = serial(site.serving.issue("default").certificate)
    until(site.shown, lambda found: found == {new}, "the new certificate")
    load.proceed()


def rotate_client_ca(site: Site, load: Load) -> None:
    old, new = site.clients
    former, current = site.certified(old), site.certified(new)
    site.trust(old, new)
    until(lambda: site.statuses(current), lambda found: found == {200}, "the new CA is trusted")
    for client in (*load.writers, load.watcher):
        client.credential = current
    load.proceed()
    site.trust(new)
    until(lambda: site.statuses(former), lambda found: found == {401}, "the old CA is trusted no more")
    load.proceed()


def rotate_service_account_keys(site: Site, load: Load, tokens: list[str], keys: tuple[Path, Path]) -> None:
    """One replica after the other starts again; tokens of the old key are refused at the end."""
    old, new = keys
    for order in ((old, new), (new, old), (new,)):
        for replica in site.replicas:
            with load.writers[0].balancer.without(replica.server):
                site.restart(replica, *order)
            load.proceed()
        tokens.append(site.issue())
        load.proceed()
    context = site.context()
    assert site.statuses(Credential(context, lambda: tokens[0])) == {401}
    assert site.statuses(Credential(context, lambda: tokens[-1])) == {200}


def rotate_provider_keys(site: Site, load: Load) -> None:
    unused = site.provider.token(sub="reader", jti="unused")
    site.provider.rotate("second")
    load.proceed()
    site.provider.rotate("third", keeps_old=False)
    load.proceed()
    context = site.context()
    assert site.statuses(Credential(context, lambda: unused)) == {401}


@pytest.mark.slow
@pytest.mark.etcd
def test_all_keys_rotate_under_load_and_no_request_fails(tmp_path: Path) -> None:
    """Each write is seen once by a watch that goes on where it was when a replica ends."""
    keys = new_key(tmp_path / "old.key"), new_key(tmp_path / "new.key")
    etcd = wheel_etcd(tmp_path).start()
    with ExitStack() as stack:
        stack.callback(etcd.kill)
        provider = stack.enter_context(OpenIdProvider(tmp_path / "provider"))
        site = Site(tmp_path, etcd, provider)
        site.start(stack, keys[0])
        since = prepare(site)
        tokens = [site.issue()]
        readers = [
            Credential(site.context(), lambda: provider.token(sub="reader")),
            Credential(site.context(), lambda: tokens[-1]),
        ]
        writer = site.certified(site.clients[0])
        for each in (writer, *readers):
            until(lambda each=each: site.statuses(each) == {200}, what="the clients' rights")  # type: ignore[misc]
        load = Load(Balancer([replica.server for replica in site.replicas]), writer, readers)
        stack.callback(load.close)
        load.start(since)
        load.proceed()
        rotate_encryption_keys(site, load)
        rotate_serving_certificate(site, load)
        rotate_client_ca(site, load)
        rotate_service_account_keys(site, load, tokens, keys)
        rotate_provider_keys(site, load)
        load.stop_clients()
        site.replicas[0].api.post(SECRETS, secret("last")).ok()
        load.await_watch()
        assert load.failures == []
        assert len(load.seen) == sum(writer.requests for writer in load.writers) // REQUESTS_PER_CONNECTION
        wrong = {name: types for name, types in load.seen.items() if not is_whole(types)}
        assert wrong == {}


def is_whole(types: list[str]) -> bool:
    """Whether a watch has told all of an object's life, once. A rewrite may have changed it in between."""
    return types[0] == "ADDED" and types[-1] == "DELETED" and set(types[1:-1]) <= {"MODIFIED"}
