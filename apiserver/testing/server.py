"""An API server for tests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import http.client
import itertools
import os
import secrets
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import orjson

from apiserver.app.host_process import HostProcess, SharedParts
from apiserver.app.serving import pki
from apiserver.app.serving.listening import certificate_names
from apiserver.app.serving.pki_files import UnusableFile, certificate_credentials, kubeconfig
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.extensions import Extension
from apiserver.load.collection_pause import CollectionPause
from apiserver.meta.vocabulary import SYSTEM_MASTERS
from apiserver.testing.clock import Clock
from apiserver.testing.credentials import User, token_file
from apiserver.testing.debug_endpoints import ClockRequests, ForkRequests, with_debug_paths
from apiserver.testing.errors import (
    ClockNotAdvanced,
    NotInThisProcess,
    RequestFailed,
    ServerDidNotStart,
    ServerStopped,
    SnapshotMismatch,
)
from apiserver.testing.etcd_probe import EtcdProbe, EtcdTls
from apiserver.testing.faults import Faults, LocalFaults, RemoteFaults
from apiserver.testing.manifests import Manifests, load, read_manifests
from apiserver.testing.past import PastServer, moment_text
from apiserver.testing.resources import DEFAULT_NAMESPACE, Resource, find_resource, watched_resources
from apiserver.testing.runners import ADVANCE, Runner, ServerChild, ServerThread
from apiserver.testing.server_time import ServerTime
from apiserver.testing.snapshots import Snapshot
from apiserver.testing.timeline import Timeline, make_timeline
from apiserver.testing.waiting import HIDES_ASSERTIONS, assert_quiet, until_answered, wait_for
from apiserver.testkit.faults import FaultInjector
from apiserver.testkit.faults.hooks import with_faults
from apiserver.testkit.faults.matches import OWN_USER_AGENT as USER_AGENT
from apiserver.testkit.flags import simulated_stages, simulation
from apiserver.testkit.request_history import RecordedRequest, RequestHistory
from apiserver.testkit.state_copies import CannotBeCopied
from apiserver.testkit.write_history import StoreWrite, WriteHistory
from apiserver.wire import yaml

if TYPE_CHECKING:
    from apiserver.testkit.simulation.stages import Stage

# What a server for tests has its own way of.
_OWN_FLAGS: Final = {
    "--data-dir": "data_dir",
    "--secure-port": "the port in `url`",
    "--token-auth-file": "tokens",
    "--config": "flags",
    "--help": "`apiserver --help`",
    "-h": "`apiserver --help`",
}
# Flags with which a child process cannot have faults, or that say whether it has.
_WITHOUT_FAULTS: Final = frozenset({"--workers", "--enable-fault-injection"})
_REQUEST_TIMEOUT_S: Final = 60.0
# The default timeout of assertions that wait.
WAIT_S: Final = 10.0
# Nothing that depends on what a server stores.
_SHARED: Final = SharedParts()
_NO_COLLECTIONS: Final = CollectionPause()
# Of servers that start at once, one makes the keys for all.
_MAKING_KEYS: Final = threading.Lock()

T = TypeVar("T")


@functools.cache
def _keys_and_certificates() -> Mapping[str, bytes]:
    """Returns the files of a CA and its certificates, made once, as keys for tests need not differ.

    A server whose flags give it other names than the default ones signs its own certificate.
    """
    with tempfile.TemporaryDirectory() as made:
        pki.ensure(Path(made), certificate_names(Config()), is_durable=False)
        return _read_files(Path(made))


def _read_files(directory: Path) -> dict[str, bytes]:
    """Returns the contents of the keys and certificates in a directory, by name."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix}


def _write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    directory.mkdir(mode=0o700)
    for name, content in files.items():
        with open(directory / name, "wb", opener=_open_private) as file:
            file.write(content)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Fork(NamedTuple):
    """The state of a fork that comes from its original.

    pki: the directory of its keys. stages: those of its simulated pods.
    trusted: the certificates by which clients verify it, as PEM.
    """

    snapshot: Snapshot
    pki: Path
    config: Config
    stages: Sequence[Stage]
    trusted: bytes


class ApiServer:
    """Runs a real API server on a free port on 127.0.0.1. Use an instance as a context manager, or call the
    `start()` and `stop()` methods.

    flags: command-line flags for the server. The Flags reference page lists all flags.
    data_dir: the directory in which the server stores its objects and keys. By default, the server keeps all
        objects in memory and removes all its files when it stops.
    in_process: if True, the server runs in a thread of the current process; if False, in a child process.
    feature_gates: a mapping from feature gate names to True or False.
    tokens: a mapping from static bearer tokens to the users that they authenticate.
    extensions: `Extension` objects, whose functions the server calls in the current process, or names as for
        the `--extension` flag, whose functions run in worker processes.

    Each `ApiServer` instance can be started only once. The server starts at the beginning of a `with` or
    `async with` block, or when you call `start()`. The `faults` attribute is a `Faults` object, which
    injects faults. The `clock` attribute is a `Clock` object, which advances the server's time. The
    `admin_token` attribute is the bearer token of a user in the `system:masters` group.

    Raises ValueError if `flags` contains a flag that must be set in another way. For example, use the
    `data_dir` argument instead of the `--data-dir` flag. Raises TypeError if `flags` is a string. Methods
    that need a running server raise ServerStopped if the server is not running.
    """

    def __init__(
        self,
        *,
        flags: Sequence[str] = (),
        data_dir: str | Path | None = None,
        in_process: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        tokens: Mapping[str, User] | None = None,
        extensions: Sequence[Extension | str] = (),
    ) -> None:
        if isinstance(flags, str):  # whose letters would be flags
            raise TypeError(f"flags must be a list, not {flags!r}")
        for flag in flags:
            if (instead := _OWN_FLAGS.get(flag.partition("=")[0])) is not None:
                raise ValueError(f"{flag.partition('=')[0]} cannot be set in flags; use {instead}")
        names = (f"--extension={each}" for each in extensions if isinstance(each, str))
        self._flags, self._in_process = (*flags, *names), in_process
        self._extensions = [each for each in extensions if not isinstance(each, str)]
        if self._extensions and not in_process:
            raise ValueError("with in_process=False, extensions must be names, such as 'shop:app'")
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._feature_gates = dict(feature_gates or {})
        self.admin_token = secrets.token_hex(16)
        self._tokens = {self.admin_token: User("admin", (SYSTEM_MASTERS,)), **(tokens or {})}
        self._directory: Path | None = None
        self._runner: Runner | None = None
        self._config: Config | None = None
        self._stages: Sequence[Stage] = ()
        # Whose objects, keys and configuration it begins with, if it is a fork.
        self._forked: _Fork | None = None
        self._has_run = False
        self._url = ""
        self._files = itertools.count(1)
        self._tls: ssl.SSLContext | None = None
        self._etcd = EtcdProbe(())
        self._forks = ForkRequests(self.fork)
        self._injector = FaultInjector(lambda: self._time.clock.monotonic())
        self._remote_faults = RemoteFaults(lambda method, path, body: self.request(method, path, body))
        # What goes wrong on it, on purpose.
        self.faults: Final = Faults(
            LocalFaults(self._injector, self._own_thread) if in_process else self._remote_faults
        )
        self._keep_time(ServerTime())

    def _keep_time(self, time: ServerTime) -> None:
        self._time, self.clock = time, Clock(time, self._advance_clock)
        self._history = RequestHistory(time.clock.time)
        self._writes = WriteHistory(self._history, time.clock.time)

    # ---- its life

    def start(self) -> Self:
        """Starts the server if it is not running, and returns when the server is ready. Raises
        ServerDidNotStart if the server cannot start or does not become ready in time.
        """
        if self._runner is not None:
            return self
        if self._has_run:
            raise ServerStopped("start (a server can start only once; create another one)")
        self._has_run = True
        self._directory = Path(tempfile.mkdtemp(prefix=f"apiserver-{os.getpid()}-"))
        try:
            self._runner = self._make_runner(self._directory)
            self._url = self._started(self._runner)
            (self._directory / "ca.crt").write_bytes(self._trusted())
        except BaseException:
            self.stop()
            raise
        return self

    def _started(self, runner: Runner) -> str:
        """Starts the server, and returns its URL.

        Raises ServerDidNotStart, which also contains problems of etcd.
        """
        try:
            return runner.start()
        except ServerDidNotStart as error:
            if why := self._etcd.why_not_ready():
                raise ServerDidNotStart(f"{error.reason}; {why}") from None
            raise

    def stop(self) -> None:
        """Stops the server immediately. Removes all of the server's files except those in `data_dir`.

        If the server is not running, the method does nothing.
        """
        runner, self._runner = self._runner, None
        directory, self._directory = self._directory, None
        try:
            self._forks.stop()
            _end(runner, directory)
        except KeyboardInterrupt:  # It ends all the same: that takes a moment.
            self._forks.stop()
            _end(runner, directory)
            raise

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        try:
            return await _to_the_end(self.start)
        except asyncio.CancelledError:
            await _to_the_end(self.stop)
            raise

    async def __aexit__(self, *_: object) -> None:
        await _to_the_end(self.stop)

    # ---- how clients reach it

    @property
    def url(self) -> str:
        """The server's URL, for example `https://127.0.0.1:41234`."""
        self._own_directory("url")
        return self._url

    @property
    def kubeconfig(self) -> Path:
        """The path of the administrator's kubeconfig file."""
        return (self._data_dir or self._own_directory("kubeconfig")) / "admin.kubeconfig"

    @property
    def kubeconfig_dict(self) -> dict[str, Any]:
        """The administrator's kubeconfig as a dictionary."""
        document: dict[str, Any]
        document, _ = yaml.load(self.kubeconfig.read_bytes())
        return document

    @property
    def ca(self) -> Path:
        """The path of a PEM file that contains the CA certificate. Clients use this certificate to verify the
        server's identity.
        """
        return self._own_directory("ca") / "ca.crt"

    def user(self, name: str, *, groups: Sequence[str] = ()) -> Path:
        """Creates a client certificate for a user, and returns the path of a kubeconfig file that contains
        this certificate.

        name: the user name, which becomes the common name (CN) in the certificate.
        groups: the user's groups, which become the organizations (O) in the certificate.
        Raises ValueError if the user name is not allowed in a certificate, or if the server's CA certificate
        has expired. Raises TypeError if `groups` is a string.
        """
        if isinstance(groups, str):  # whose letters would be groups
            raise TypeError(f"the groups of {name} must be a list, not {groups!r}")
        directory = self._own_directory("user")
        ca = (self._data_dir or directory) / "pki" / "ca.crt"
        try:
            made = pki.client_certificate(name, groups, ca, self.clock.now())
        except UnusableFile as error:
            raise ValueError(str(error)) from None
        return self._write(certificate_credentials(*made))

    def service_account(self, namespace: str, name: str) -> Path:
        """Creates a token for a service account, and returns the path of a kubeconfig file that contains this
        token.

        If the service account does not exist, the method creates it first.
        Raises RequestFailed if the server rejects a request, for example because the namespace does not
        exist.
        """
        accounts = f"/api/v1/namespaces/{quote(namespace, safe='')}/serviceaccounts"
        asked = f"the service account {namespace}/{name}"
        code, answer = self.request("POST", accounts, {"metadata": {"name": name}})
        if code not in (201, 409):
            raise RequestFailed(asked, code, answer)
        code, answer = self.request("POST", f"{accounts}/{quote(name, safe='')}/token", {"spec": {}})
        if code != 201:
            raise RequestFailed(f"a token of {asked}", code, answer)
        return self._write({"token": answer["status"]["token"]}, namespace)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Sends a request as the administrator, on a new connection. You can call this method from any
        thread.

        method: the HTTP method.
        path: the URL path, for example `/api/v1/pods`.
        body: the request body. The method sends a `bytes` object unchanged, and encodes any other value as
            JSON.
        query: the query parameters.
        headers: additional request headers, which override the headers in `admin_headers`.
        Returns the response's status code and body. The method parses a response body that is a single JSON
        document, and returns any other body as text.
        """
        sent = self.admin_headers
        if body is not None:
            sent["Content-Type"] = "application/json"
        content = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        target = f"{path}?{urlencode(query)}" if query else path
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, target, content, {**sent, **(headers or {})})
            response = connection.getresponse()
            answer = response.read()
        if response.headers.get_content_type() == "application/json":
            if not answer:
                return response.status, None
            with contextlib.suppress(orjson.JSONDecodeError):  # Events are several documents.
                return response.status, orjson.loads(answer)
        return response.status, answer.decode(errors="replace")

    @property
    def admin_headers(self) -> dict[str, str]:
        """The default headers of `request()`: `Authorization` with the administrator's token, `Accept` and
        `User-Agent`.
        """
        return {
            "Authorization": f"Bearer {self.admin_token}",
            "Accept": "application/json",
            "User-Agent": USER_AGENT,
        }

    def connect(self, timeout_s: float = _REQUEST_TIMEOUT_S) -> http.client.HTTPSConnection:
        """Returns a new connection to the server. The caller must close the connection.

        timeout_s: the timeout of each socket operation, in seconds.
        """
        self._own_directory("a connection")
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self.ca)
        return http.client.HTTPSConnection(urlsplit(self._url).netloc, context=self._tls, timeout=timeout_s)

    def at(self, moment: int | str | datetime) -> PastServer:
        """Returns the server's objects as they were at an earlier moment. The server needs the `--history`
        flag.

        moment: a resource version, a datetime with a time zone, or a time in the format of RFC 3339. Times
            are those of the server's clock.
        Raises ValueError if a datetime has no time zone. If the moment is in the future or before the
        history begins, requests get the status code 400 or 410.
        """
        below = f"/at/{quote(moment_text(moment), safe='')}"
        kubeconfig = self._write({"token": self.admin_token}, below=below)

        def request(method: str, path: str, **options: Any) -> tuple[int, Any]:
            return self.request(method, below + path, **options)

        return PastServer(self.url + below, kubeconfig, request)

    # ---- what is asserted of it

    def wait_for(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        until: Callable[[dict[str, Any]], bool] = lambda _: True,
        timeout_s: float = WAIT_S,
    ) -> dict[str, Any]:
        """Watches an object until it meets a condition, and returns the object.

        kind: the kind or resource in one of these forms: `ConfigMap`, `configmaps`, `deployments.apps` or
            `apps/v1/Deployment`.
        name: the name of the object.
        namespace: the namespace of the object. By default, the method waits for an object with the given name
            in any namespace.
        until: a function that receives the object and returns True if the object meets the condition. By
            default, the method only waits until the object exists. If the `until` function raises KeyError
            or IndexError, the method continues to wait.
        timeout_s: the maximum time to wait, in seconds.
        Raises NotInTime if the object does not meet the condition within `timeout_s` seconds. The error
        message shows the object's most recent changes. Raises UnknownKind if the server does not serve the
        kind. Any other exception that the `until` function raises propagates to the caller.
        """
        __tracebackhide__ = HIDES_ASSERTIONS
        resource = self._find_resource(kind, timeout_s)
        found = wait_for(self, resource, name, namespace, until=until, timeout_s=timeout_s)
        assert found is not None
        return found

    def wait_until_gone(
        self, kind: str, name: str, namespace: str = "", *, timeout_s: float = WAIT_S
    ) -> None:
        """Watches an object until it no longer exists.

        kind: the kind or resource, in one of the forms that `wait_for()` accepts.
        name: the name of the object.
        namespace: the namespace of the object. By default, the method waits until no namespace contains an
            object with the given name.
        timeout_s: the maximum time to wait, in seconds.
        Raises NotInTime if the object still exists after `timeout_s` seconds. Raises UnknownKind if the
        server does not serve the kind.
        """
        __tracebackhide__ = HIDES_ASSERTIONS
        resource = self._find_resource(kind, timeout_s)
        wait_for(self, resource, name, namespace, until=None, timeout_s=timeout_s)

    def _find_resource(self, kind: str, timeout_s: float) -> Resource:
        """Returns the resource of a kind, also of a server that is being reset. Raises UnknownKind."""
        return until_answered(lambda: find_resource(self, kind), time.monotonic() + timeout_s)

    def assert_quiet(self, *kinds: str, seconds: float, namespace: str = "") -> None:
        """Checks that no object is written for the given number of seconds. Use this check to find
        controllers that write in a loop.

        kinds: the kinds or resources to watch. By default, the method watches all resources that support
            watches.
        seconds: the length of the check, in seconds.
        namespace: the namespace to watch. By default, the method watches all namespaces.
        Raises NotQuiet if an object is written. The error message shows the writes and the users who made
        them. Raises UnknownKind if the server does not serve a kind, and ValueError if `seconds` is not
        positive.
        """
        __tracebackhide__ = HIDES_ASSERTIONS
        if seconds <= 0:
            raise ValueError(f"assert_quiet: seconds must be more than 0, not {seconds:g}")
        watched = [self._find_resource(kind, WAIT_S) for kind in kinds] or until_answered(
            lambda: watched_resources(self), time.monotonic() + WAIT_S
        )
        if namespace:
            watched = [each for each in watched if each.is_namespaced or kinds]
        assert_quiet(self, watched, namespace, seconds=seconds)

    def requests(
        self, *, verb: str = "", resource: str = "", user: str = "", includes_own: bool = False
    ) -> list[RecordedRequest]:
        """Returns the server's recorded requests in order of arrival. The server keeps records of only the
        last 10,000 requests.

        verb: the verb of the requests to return, for example `patch`.
        resource: the resource of the requests to return, for example `deployments.apps/status`.
        user: the name of the user whose requests the method returns.
        includes_own: if True, the result includes the requests that the `ApiServer` methods send.
        Raises NotInThisProcess if the server was created with `in_process=False`.
        """
        if not self._in_process:
            raise NotInThisProcess("requests")
        return [
            each
            for each in self._history.all()
            if (not verb or each.verb == verb)
            and (not resource or each.resource == resource)
            and (not user or each.user == user)
            and (includes_own or each.user_agent != USER_AGENT)
        ]

    def timeline(
        self, object_or_kind: str | Mapping[str, Any], name: str = "", namespace: str = ""
    ) -> Timeline:
        """Returns an object's versions, each with its writer, time and changes.

        object_or_kind: the object as a dictionary, or its kind in one of the forms that `wait_for()` accepts.
        name: the name of the object, which is required if `object_or_kind` is a kind.
        namespace: the namespace of the object. By default, the method uses the `default` namespace.

        The timeline contains at most the last 1,000 versions of the object. The timeline does not contain
        versions that the store has compacted.
        Raises UnknownKind if the server does not serve the kind. Raises ValueError if the kind or the name is
        missing. Raises NotInThisProcess if the server was created with `in_process=False`. Raises
        ServerStopped if the server is not running.
        """
        if not isinstance(object_or_kind, str):
            metadata = object_or_kind.get("metadata") or {}
            name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
            for field in ("apiVersion", "kind"):
                if not object_or_kind.get(field):  # as of an item of a list
                    raise ValueError(
                        f"timeline: the object has no {field}: pass its kind, name and namespace"
                    )
            object_or_kind = f"{object_or_kind['apiVersion']}/{object_or_kind['kind']}"
        if not name:
            raise ValueError("timeline: the object has no name")
        if not self._in_process:
            raise NotInThisProcess("timeline")
        resource = find_resource(self, object_or_kind)
        namespace = (namespace or DEFAULT_NAMESPACE) if resource.is_namespaced else ""
        history = self._own_thread("timeline").object_history(resource, namespace, name)
        what = f"{resource.kind} {f'{namespace}/' if namespace else ''}{name}"
        return make_timeline(what, history, self._writes.all())

    def writes(self) -> list[StoreWrite]:
        """Returns the last 10,000 writes to the store, including writes by the server itself.

        Raises NotInThisProcess if the server was created with `in_process=False`.
        """
        if not self._in_process:
            raise NotInThisProcess("writes")
        return self._writes.all()

    # ---- what goes wrong, on purpose: `faults`, and

    def compact(self) -> int:
        """Compacts the store's history up to the current revision, and returns that revision.

        After a compaction, the server responds with 410 Gone to new watches from a resourceVersion that is
        older than the returned revision, to lists at exactly such a version, and to requests for the next
        page of such a list. Open watches continue.
        """
        if self._in_process:
            return self._own_thread("compact").compact("compact")
        return self._remote_faults.compact()

    # ---- what it holds

    def load(self, *manifests: Manifests, root: Path | None = None) -> None:
        """Applies manifests to the server. The method applies CustomResourceDefinitions first, and waits
        until the server serves the new resource types.

        manifests: paths of manifest files and directories, objects as dictionaries, or lists of such paths
            and objects.
        root: the base directory for relative paths. The default is the working directory.
        Raises ManifestNotLoaded if a manifest is invalid or if the server rejects a manifest.
        """
        load(self, list(read_manifests(manifests, root or Path())))

    def snapshot(self) -> Snapshot:
        """Returns a snapshot of all objects in the store. The snapshot contains every write that the server
        acknowledged before the call.

        Raises SnapshotMismatch if the server stores its objects in etcd, and NotInThisProcess if it was
        created with `in_process=False`.
        """
        thread = self._own_thread("snapshot")
        try:
            return Snapshot(thread.copy_state("snapshot"), self._settings)
        except CannotBeCopied as error:
            raise SnapshotMismatch(str(error)) from None

    def fork(self, snapshot: Snapshot | None = None) -> ApiServer:
        """Starts a second, independent server with a copy of the objects, and returns the new server.

        snapshot: the snapshot from which the new server gets its objects. By default, the new server gets a
            copy of the original server's current objects.

        The new server has the same keys, users and tokens as the original server. The new server's revisions
        continue from the snapshot's revision. Use the new server as a context manager, or call its `stop()`
        method at the end of the test.
        Raises SnapshotMismatch if the server cannot use the snapshot, and NotInThisProcess if the server was
        created with `in_process=False`.
        """
        self._own_thread("fork")
        directory = self._own_directory("fork")
        taken = self._fitting(snapshot) if snapshot is not None else self.snapshot()
        assert self._config is not None
        fork = ApiServer(flags=self._flags, feature_gates=self._feature_gates, extensions=self._extensions)
        fork._tokens, fork.admin_token = self._tokens, self.admin_token
        fork._keep_time(ServerTime(self._time.ahead_s))
        keys, trusted = (self._data_dir or directory) / "pki", self.ca.read_bytes()
        fork._forked = _Fork(taken, keys, self._config, self._stages, trusted)
        try:
            with _NO_COLLECTIONS():
                return fork.start()
        except BaseException:  # as Ctrl-C when it has just started
            fork.stop()
            raise

    def reset(self, snapshot: Snapshot) -> None:
        """Replaces all of the server's objects with the objects in a snapshot. The server keeps its address,
        but closes all connections.

        After a reset, a request for a resourceVersion from before the reset fails with 410 Gone, just as it
        does after a restore from a backup. The reset clears all faults. After a reset, a server with a
        `data_dir` keeps its objects in memory and no longer changes the files in this directory.
        Raises SnapshotMismatch if the server cannot use the snapshot, and NotInThisProcess if the server was
        created with `in_process=False`.
        """
        thread = self._own_thread("reset")
        state = self._fitting(snapshot).state
        self.faults.clear()
        with _NO_COLLECTIONS():
            thread.begin_again(state, "reset")

    @property
    def _settings(self) -> tuple[object, ...]:
        return self._flags, tuple(sorted(self._feature_gates.items()))

    def _fitting(self, snapshot: Snapshot) -> Snapshot:
        """Returns a snapshot that fits this server."""
        if snapshot.settings != self._settings:
            raise SnapshotMismatch(
                f"the snapshot is from a server with the settings {snapshot.settings}, not {self._settings}"
            )
        return snapshot

    # ---- how it is made

    def _make_runner(self, directory: Path) -> Runner:
        """Returns a runner for the server."""
        tokens = directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(token_file(self._tokens))
        if self._forked is not None:
            return self._make_fork(self._forked, directory, tokens)
        if self._data_dir is None:
            with _MAKING_KEYS:
                files = _keys_and_certificates()
            _write_files(directory / "pki", files)
        arguments = [*self._arguments(self._data_dir or directory, tokens), *self._flags]
        config, self._stages = _parsed(arguments)
        if self._in_process and config.serving.workers > 1:
            raise ServerDidNotStart("--workers requires in_process=False")
        etcd_files = EtcdTls(
            config.storage.etcd_cafile, config.storage.etcd_certfile, config.storage.etcd_keyfile
        )
        self._etcd = EtcdProbe(config.storage.etcd_servers, etcd_files)
        self._etcd.require()
        if not self._in_process:
            if not any(flag.partition("=")[0] in _WITHOUT_FAULTS for flag in self._flags):
                arguments.append("--enable-fault-injection")
            return ServerChild(arguments, directory / "log", self._time)
        self._config = config
        return ServerThread(config, self._host(config), self._time)

    def _make_fork(self, forked: _Fork, directory: Path, tokens: Path) -> Runner:
        _write_files(directory / "pki", _read_files(forked.pki))
        given = forked.config
        config = replace(
            given,
            serving=replace(given.serving, data_dir=directory),
            authentication=replace(given.authentication, token_auth_file=tokens),
        )
        self._config, self._stages = config, forked.stages
        return ServerThread(config, self._host(config), self._time, forked.snapshot.state)

    def _advance_clock(self, seconds: float) -> None:
        """Advances the server's clock."""
        runner = self._own_runner(ADVANCE)
        self._require_movable_clock()
        runner.advance_clock(seconds)

    def _require_movable_clock(self) -> None:
        """Raises ClockNotAdvanced if the server's time must be the computer's."""
        if self._has_etcd:
            raise ClockNotAdvanced(
                "the clock of a server with etcd cannot be advanced, because etcd expires leases"
            )
        if self._has_flag("--workers"):
            raise ClockNotAdvanced("the clock of a server with --workers cannot be advanced")

    def _host(self, config: Config) -> HostProcess:
        hooks = replace(
            simulation(config, self._stages), request=self._history.middleware, store=self._writes.in_front_of
        )
        faults = with_faults(hooks, self._injector, over_http=config.serving.enable_fault_injection)
        clock = ClockRequests(self._time, self._require_movable_clock)
        own = with_debug_paths(faults, {"clock": clock, "forks": self._forks})
        return HostProcess(is_own=False, shared=_SHARED, hooks=own, extensions=self._extensions)

    def _arguments(self, data_dir: Path, tokens: Path) -> list[str]:
        arguments = [f"--data-dir={data_dir}", "--secure-port=0", f"--token-auth-file={tokens}"]
        has_store = self._has_etcd or self._has_flag("--storage-backend")
        if self._data_dir is None and not has_store:
            arguments.append("--storage-backend=memory")
        if self._feature_gates:
            gates = ",".join(f"{name}={str(value).lower()}" for name, value in self._feature_gates.items())
            arguments.append(f"--feature-gates={gates}")
        return arguments

    @property
    def _has_etcd(self) -> bool:
        return self._has_flag("--etcd-servers")

    def _has_flag(self, name: str) -> bool:
        return any(flag.partition("=")[0] == name for flag in self._flags)

    def _trusted(self) -> bytes:
        """Returns the certificates by which clients verify the server, as PEM."""
        if self._forked is not None:
            return self._forked.trusted
        (cluster,) = self.kubeconfig_dict["clusters"]
        return base64.b64decode(cluster["cluster"]["certificate-authority-data"])

    def _own_runner(self, asked: str) -> Runner:
        """Returns the runner of the running server."""
        self._own_directory(asked)
        assert self._runner is not None
        return self._runner

    def _own_thread(self, asked: str) -> ServerThread:
        """Returns the thread of the running server."""
        runner = self._own_runner(asked)
        if not isinstance(runner, ServerThread):
            raise NotInThisProcess(asked)
        return runner

    def _own_directory(self, asked: str) -> Path:
        """Returns the directory of the running server."""
        if self._directory is None or self._runner is None:
            raise ServerStopped(asked)
        if reason := self._runner.failure:
            raise ServerStopped(asked, reason)
        return self._directory

    def _write(self, credentials: Mapping[str, str], namespace: str = "", below: str = "") -> Path:
        """Writes a kubeconfig, and returns its path. below: the path on the server, for all requests."""
        path = self._own_directory("a kubeconfig") / f"{next(self._files)}.kubeconfig"
        path.touch(mode=0o600)
        ca, url = self.ca.read_bytes(), self._url + below
        path.write_bytes(kubeconfig(url, ca, credentials, namespace=namespace))
        return path


def _end(runner: Runner | None, directory: Path | None) -> None:
    """Stop a runner, and remove a directory; may be repeated, also after an interruption."""
    if runner is not None:
        runner.stop()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


async def _to_the_end(act: Callable[[], T]) -> T:
    """Call a function in a thread, and return when it has ended, even if this task is cancelled.

    Raises CancelledError then, and the errors of `act`.
    """
    running = asyncio.get_running_loop().run_in_executor(None, act)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return running.result()
    running.exception()  # which is not needed any more
    raise cancelled


def _parsed(arguments: Sequence[str]) -> tuple[Config, Sequence[Stage]]:
    """Returns the configuration, and the stages of simulated pods. Raises ServerDidNotStart."""
    try:
        config = parse(arguments)
        return config, simulated_stages(config)
    except UsageError as error:
        raise ServerDidNotStart(str(error)) from None
