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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import orjson

from apiserver.app.host_process import HostProcess, SharedParts
from apiserver.app.serving import pki
from apiserver.app.serving.listening import certificate_names
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.load.collection_pause import CollectionPause
from apiserver.meta.vocabulary import MASTERS
from apiserver.testing.clock import Clock
from apiserver.testing.credentials import User, token_file
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
    "--secure-port": "the port that `url` has",
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
    """Runs a real API server on a free port of 127.0.0.1, as a context manager or until `stop()`.

    flags: command-line flags, as described in the flags reference.
    data_dir: the directory for the store and the keys. By default they are temporary: the objects are in
        memory, and all files are removed when the server stops.
    in_process: True runs the server in a thread of this process, False in a child process.
    feature_gates: feature gates to set, by name.
    tokens: static bearer tokens, each with its user.

    An instance starts once, at the beginning of a `with` or `async with` block or by `start()`. Its attribute
    `faults` (`Faults`) injects faults, `clock` (`Clock`) advances the server's time, and `admin_token` is a
    bearer token of a member of `system:masters`.

    Raises ValueError for a flag that the arguments of this class replace, such as `--data-dir`, and TypeError
    if `flags` is a string. Methods raise ServerStopped unless the server runs.
    """

    def __init__(
        self,
        *,
        flags: Sequence[str] = (),
        data_dir: str | Path | None = None,
        in_process: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        tokens: Mapping[str, User] | None = None,
    ) -> None:
        if isinstance(flags, str):  # whose letters would be flags
            raise TypeError(f"flags must be a list, not {flags!r}")
        for flag in flags:
            if (instead := _OWN_FLAGS.get(flag.partition("=")[0])) is not None:
                raise ValueError(f"{flag.partition('=')[0]} cannot be among the flags; there is {instead}")
        self._flags, self._in_process = tuple(flags), in_process
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._feature_gates = dict(feature_gates or {})
        self.admin_token = secrets.token_hex(16)
        self._tokens = {self.admin_token: User("admin", (MASTERS,)), **(tokens or {})}
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
        """Starts the server, unless it runs, and returns when it is ready. Raises ServerDidNotStart."""
        if self._runner is not None:
            return self
        if self._has_run:
            raise ServerStopped("start: a server runs once; make another one")
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
        """Stops the server at once and removes its files, except those in `data_dir`.

        A second call does nothing.
        """
        runner, self._runner = self._runner, None
        directory, self._directory = self._directory, None
        try:
            _end(runner, directory)
        except KeyboardInterrupt:  # It ends all the same: that takes a moment.
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
        """The URL of the server, for example `https://127.0.0.1:41234`."""
        self._own_directory("url")
        return self._url

    @property
    def kubeconfig(self) -> Path:
        """The path of the administrator's kubeconfig."""
        return (self._data_dir or self._own_directory("kubeconfig")) / "admin.kubeconfig"

    @property
    def kubeconfig_dict(self) -> dict[str, Any]:
        """The content of the administrator's kubeconfig."""
        document: dict[str, Any]
        document, _ = yaml.load(self.kubeconfig.read_bytes())
        return document

    @property
    def ca(self) -> Path:
        """The path of the PEM file with the CA certificate that clients verify the server with."""
        return self._own_directory("ca") / "ca.crt"

    def user(self, name: str, *, groups: Sequence[str] = ()) -> Path:
        """Returns the path of a kubeconfig with a new client certificate for a user.

        name: the user name, the certificate's CN.
        groups: the user's groups, the certificate's O.
        Raises ValueError for a name that a certificate cannot contain, and TypeError if `groups` is a string.
        """
        if isinstance(groups, str):  # whose letters would be groups
            raise TypeError(f"the groups of {name} must be a list, not {groups!r}")
        directory = self._own_directory("user")
        ca = (self._data_dir or directory) / "pki" / "ca.crt"
        made = pki.client_certificate(name, groups, ca, self.clock.now())
        return self._write(pki.certificate_credentials(*made))

    def service_account(self, namespace: str, name: str) -> Path:
        """Returns the path of a kubeconfig with a new token for a service account.

        Creates the service account if it does not exist.
        Raises RequestFailed, for example if the namespace does not exist.
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
        """Sends a request as the administrator, on a new connection. Any thread may call it.

        method: the HTTP method.
        path: the path of the URL, for example `/api/v1/pods`.
        body: the body, sent as JSON unless it is bytes.
        query: parameters of the query.
        headers: headers that are added to, or replace, those of `admin_headers`.
        Returns the status code and the response: the parsed JSON, or the text if the response is not one JSON
        document.
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
        """The headers that `request()` sends: the administrator's token, `Accept` and `User-Agent`."""
        return {
            "Authorization": f"Bearer {self.admin_token}",
            "Accept": "application/json",
            "User-Agent": USER_AGENT,
        }

    def connect(self, timeout_s: float = _REQUEST_TIMEOUT_S) -> http.client.HTTPSConnection:
        """Returns a new connection to the server. The caller closes it.

        timeout_s: the timeout of each operation on the socket, in seconds.
        """
        self._own_directory("a connection")
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self.ca)
        return http.client.HTTPSConnection(urlsplit(self._url).netloc, context=self._tls, timeout=timeout_s)

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
        """Watches an object until a condition holds, and returns the object.

        kind: the kind or resource: `ConfigMap`, `configmaps`, `deployments.apps` or `apps/v1/Deployment`.
        name: the name of the object.
        namespace: its namespace. By default, an object with this name in any namespace will do.
        until: the condition. By default, the object must exist. KeyError and IndexError count as false.
        timeout_s: how long to wait, in seconds.
        Raises NotInTime, whose message shows the last changes of the object, UnknownKind, and every exception
        of `until` except KeyError and IndexError.
        """
        __tracebackhide__ = HIDES_ASSERTIONS
        resource = self._find_resource(kind, timeout_s)
        found = wait_for(self, resource, name, namespace, until=until, timeout_s=timeout_s)
        assert found is not None
        return found

    def wait_until_gone(
        self, kind: str, name: str, namespace: str = "", *, timeout_s: float = WAIT_S
    ) -> None:
        """Watches until an object does not exist.

        kind: the kind or resource, as for `wait_for()`.
        name: the name of the object.
        namespace: its namespace. By default, no namespace may have an object with this name.
        timeout_s: how long to wait, in seconds.
        Raises NotInTime and UnknownKind.
        """
        __tracebackhide__ = HIDES_ASSERTIONS
        resource = self._find_resource(kind, timeout_s)
        wait_for(self, resource, name, namespace, until=None, timeout_s=timeout_s)

    def _find_resource(self, kind: str, timeout_s: float) -> Resource:
        """Returns the resource of a kind, also of a server that is being reset. Raises UnknownKind."""
        return until_answered(lambda: find_resource(self, kind), time.monotonic() + timeout_s)

    def assert_quiet(self, *kinds: str, seconds: float, namespace: str = "") -> None:
        """Checks that no object is written for some time. This finds controllers that write in a loop.

        kinds: the kinds or resources to watch. By default, all that can be watched.
        seconds: how long to watch.
        namespace: the namespace to watch. By default, all namespaces.
        Raises NotQuiet, whose message shows the writes and their users, UnknownKind, and ValueError.
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
        """Returns the last 10,000 requests, in the order of their arrival.

        verb: selects requests by their verb, for example `patch`.
        resource: selects requests by their resource, for example `deployments.apps/status`.
        user: selects requests by their user.
        includes_own: True includes requests that methods of this class sent.
        Raises NotInThisProcess.
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
        """Returns the versions of an object, each with its writer, time and changes.

        object_or_kind: the object, or its kind as for `wait_for()`.
        name: the name of the object, if the first argument is a kind.
        namespace: its namespace, `default` by default.
        The timeline has at most the last thousand versions, and none that the store has compacted.
        Raises UnknownKind, NotInThisProcess, ServerStopped, and ValueError without a kind or a name.
        """
        if not isinstance(object_or_kind, str):
            metadata = object_or_kind.get("metadata") or {}
            name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
            for field in ("apiVersion", "kind"):
                if not object_or_kind.get(field):  # as of an item of a list
                    raise ValueError(f"timeline: the object has no {field}: say its kind, name and namespace")
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
        """Returns the last 10,000 writes to the store, by clients and by the server itself.

        Raises NotInThisProcess.
        """
        if not self._in_process:
            raise NotInThisProcess("writes")
        return self._writes.all()

    # ---- what goes wrong, on purpose: `faults`, and

    def compact(self) -> int:
        """Compacts the history up to now, and returns the revision.

        Requests for an older resourceVersion, or for the next page of an older list, get 410 Gone.
        """
        if self._in_process:
            return self._own_thread("compact").compact("compact")
        return self._remote_faults.compact()

    # ---- what it holds

    def load(self, *manifests: Manifests, root: Path | None = None) -> None:
        """Applies objects, definitions first, and waits until the defined types are served.

        manifests: paths of files and folders, objects as dicts, and lists of these.
        root: the directory that relative paths start at. By default, the working directory.
        Raises ManifestNotLoaded.
        """
        load(self, list(read_manifests(manifests, root or Path())))

    def snapshot(self) -> Snapshot:
        """Returns a snapshot of all objects. It contains every write that was answered before the call.

        Raises SnapshotMismatch if the store is etcd, and NotInThisProcess.
        """
        thread = self._own_thread("snapshot")
        try:
            return Snapshot(thread.copy_state("snapshot"), self._settings)
        except CannotBeCopied as error:
            raise SnapshotMismatch(str(error)) from None

    def fork(self, snapshot: Snapshot | None = None) -> ApiServer:
        """Returns a second, independent server that begins with the same objects. It is already running.

        snapshot: the objects to begin with. By default, the current ones.
        The fork has the same keys, users and tokens, and its revisions continue from the same revision. Use
        it as a context manager, or call its `stop()`.
        Raises SnapshotMismatch and NotInThisProcess.
        """
        self._own_thread("fork")
        directory = self._own_directory("fork")
        taken = self._fitting(snapshot) if snapshot is not None else self.snapshot()
        assert self._config is not None
        fork = ApiServer(flags=self._flags, feature_gates=self._feature_gates)
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
        """Replaces all objects by those of a snapshot. The address stays the same; all connections end.

        Later requests for an older resourceVersion get 410 Gone, as after a restore from a backup. All faults
        are cleared. A server with a `data_dir` continues in memory and leaves the files there unchanged.
        Raises SnapshotMismatch and NotInThisProcess.
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
                f"the snapshot is of a server with the settings {snapshot.settings}, not {self._settings}"
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
            raise ServerDidNotStart("--workers needs in_process=False")
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
        if self._has_etcd:
            raise ClockNotAdvanced("the clock of a server on etcd cannot be advanced: etcd expires leases")
        if self._has_flag("--workers"):
            raise ClockNotAdvanced("the clock of a server with --workers cannot be advanced")
        runner.advance_clock(seconds)

    def _host(self, config: Config) -> HostProcess:
        hooks = replace(
            simulation(config, self._stages), request=self._history.middleware, store=self._writes.in_front_of
        )
        faults = with_faults(hooks, self._injector, over_http=config.serving.enable_fault_injection)
        return HostProcess(is_own=False, shared=_SHARED, hooks=faults)

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
        if self._runner is None:
            raise ServerStopped(asked)
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
        return self._directory

    def _write(self, credentials: Mapping[str, str], namespace: str = "") -> Path:
        """Writes a kubeconfig, and returns its path."""
        path = self._own_directory("a kubeconfig") / f"{next(self._files)}.kubeconfig"
        path.touch(mode=0o600)
        path.write_bytes(pki.kubeconfig(self._url, self.ca.read_bytes(), credentials, namespace=namespace))
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
