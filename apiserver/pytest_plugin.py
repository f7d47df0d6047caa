"""Provides pytest fixtures for tests against a real API server.

    apiserver        a server for all tests of the session (`apiserver.testing.ApiServer`)
    kube             a server for one test: a fork, configured by the test's marks
    kube_namespace   the name of a new namespace, in `kube` if the test uses `kube`, otherwise in `apiserver`
    kube_users       the kubeconfig paths of the users in the test's marks, by user name

These fixtures are clients of `kube`. Each fixture requires that the client library is installed:

    kubernetes_client, kubernetes_asyncio_configuration, kr8s_client, lightkube_client, pykube_client

A mark on a test, a class or a module (`pytestmark`) configures `kube`. If a test has several marks, the
server gets the settings of all marks:

    @pytest.mark.apiserver(crds="deploy/crds", manifests=["deploy/rbac.yaml", {...}],
                           users={"alice": ["dev"]}, feature_gates={...}, flags=["--..."],
                           extensions=[app])

The report of a failed test or fixture ends with the last requests to `kube`, the last writes with their
users, and the Events in `kube`. If the test does not use `kube`, the report describes `apiserver`. A test
fails if it injected a fault that never happened.

Paths in a mark are relative to pytest's root directory (`rootdir`). For all tests with the same settings, the
plugin starts a single server and loads the objects once. The servers of `kube` are forks of this server. The
plugin imports and starts nothing before a test uses a fixture. Each pytest-xdist process has its own servers.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from apiserver.extensions import Extension
    from apiserver.testing import ApiServer, InjectedFault, Snapshot

_HAS_PASSED: Final = pytest.StashKey[bool]()
# The server of a test until its end is reported, and the fixture that it is.
_SERVER: Final = pytest.StashKey[tuple[str, "ApiServer"]]()
# That of the session, while there is one.
_SESSION_SERVER: Final = pytest.StashKey["ApiServer"]()
MARK: Final = "apiserver"
# The types that the options of the mark may have, each with the words for the error message.
_PATHS: Final = ((str, Path, Mapping, list, tuple), "files, folders, objects, or a list of these")
_VALUES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "crds": _PATHS,
    "manifests": _PATHS,
    "users": ((Mapping, list, tuple, set), 'a list of names, or groups by name, such as {"alice": ["dev"]}'),
    "feature_gates": ((Mapping,), 'gates by name, such as {"AGate": True}'),
    "flags": ((list, tuple), 'a list of flags, such as ["--emulated-version=1.34"]'),
    "extensions": ((list, tuple), "a list of extensions, such as [app], or of their names"),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}({', '.join(_VALUES)}): configures the server of the fixture `kube`",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the last requests, writes and Events of the server to the report of a failed test."""
    report = yield
    if report.when == "call":
        item.stash[_HAS_PASSED] = report.passed
    if report.failed and (server := _server_of(item)) is not None:
        from apiserver.testing.failure_report import sections

        report.sections += sections(*server)
    if report.when == "teardown" and _SERVER in item.stash:
        del item.stash[_SERVER]  # items live as long as the session
    return report


def _server_of(item: pytest.Item) -> tuple[str, ApiServer] | None:
    """Returns the server that a test uses and the fixture it comes from: its own before the session's."""
    session: ApiServer | None = (getattr(item, "funcargs", None) or {}).get("apiserver")
    return item.stash.get(_SERVER, None if session is None else ("apiserver", session))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Clears the faults of a test, and fails the test if one of them never happened."""
    never = [str(fault) for server in _servers_with_faults(item) for fault in _faults_never_hit(server)]
    has_passed = item.stash.get(_HAS_PASSED, False)
    yield
    if never and has_passed:
        lines = "\n".join(f"- {each}" for each in never)
        pytest.fail(f"the test injected faults that never happened:\n{lines}", pytrace=False)


def _servers_with_faults(item: pytest.Item) -> Iterator[ApiServer]:
    """Yields the servers that a test may have injected faults into."""
    if _SERVER in item.stash:
        yield item.stash[_SERVER][1]
    if _SESSION_SERVER in item.config.stash:
        yield item.config.stash[_SESSION_SERVER]


def _faults_never_hit(server: ApiServer) -> Sequence[InjectedFault]:
    from apiserver.testing import ServerStopped

    try:
        never = server.faults.never_hit()
        server.faults.clear()
    except ServerStopped:  # by the test
        return []
    return never


class InvalidMark(Exception):
    """A mark of a test has unknown or invalid arguments."""


@dataclass(slots=True)
class _MarkSettings:
    """The combined arguments of the marks of a test."""

    manifests: list[Any] = field(default_factory=list)
    users: dict[str, tuple[str, ...]] = field(default_factory=dict)
    feature_gates: dict[str, bool] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    extensions: list[Extension | str] = field(default_factory=list)

    @classmethod
    def of(cls, node: pytest.Item) -> _MarkSettings:
        """Returns the combined arguments of all marks of a test. Raises InvalidMark."""
        wanted = cls()
        for mark in reversed(list(node.iter_markers(MARK))):  # those of the module first
            unknown = sorted({*mark.kwargs} - {*_VALUES})
            if mark.args or unknown:
                what = ", ".join(unknown) or "a positional argument"
                raise InvalidMark(f"pytest.mark.{MARK} accepts {', '.join(_VALUES)}, but not {what}")
            wanted.add(mark.kwargs)
        return wanted

    def add(self, options: Mapping[str, Any]) -> None:
        """Adds the arguments of one mark. Raises InvalidMark."""
        for name, value in options.items():
            types, what = _VALUES[name]
            if not isinstance(value, types):
                raise InvalidMark(f"pytest.mark.{MARK}: {name} must be {what}, not {value!r}")
        for name in ("crds", "manifests"):
            if name in options:
                self.manifests.append(options[name])
        users = options.get("users", {})
        for name in users:
            groups = users[name] if isinstance(users, Mapping) else ()
            if isinstance(groups, str):
                raise InvalidMark(
                    f"pytest.mark.{MARK}: users: the groups of {name} must be a list, not {groups!r}"
                )
            self.users[name] = tuple(groups)
        self.feature_gates |= options.get("feature_gates", {})
        self.flags += options.get("flags", ())
        self.extensions += options.get("extensions", ())


class _Servers:
    """The servers of a session, and the snapshots of the objects loaded into them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stack = ExitStack()
        self._servers: dict[object, ApiServer] = {}
        self._snapshots: dict[object, Snapshot] = {}

    def server(self, wanted: _MarkSettings) -> ApiServer:
        """Returns the empty server that has the given flags, feature gates and extensions."""
        from apiserver.testing import ApiServer

        gates = tuple(sorted(wanted.feature_gates.items()))
        settings = (tuple(wanted.flags), gates, tuple(wanted.extensions))
        server = self._servers.get(settings)
        if server is None:
            server = ApiServer(
                flags=wanted.flags, feature_gates=wanted.feature_gates, extensions=wanted.extensions
            )
            self._servers[settings] = self._stack.enter_context(server)
        return server

    def fork(self, wanted: _MarkSettings) -> ApiServer:
        """Returns a new fork of a server that has everything the marks ask for."""
        server = self.server(wanted)
        contents = (id(server), repr(wanted.manifests))
        snapshot = self._snapshots.get(contents)
        if snapshot is None:
            with server.fork() as loaded:
                loaded.load(wanted.manifests, root=self._root)
                snapshot = self._snapshots[contents] = loaded.snapshot()
        return server.fork(snapshot)

    def close(self) -> None:
        self._snapshots.clear()
        self._stack.close()


@pytest.fixture(scope="session")
def _apiserver_servers(request: pytest.FixtureRequest) -> Iterator[_Servers]:
    servers = _Servers(request.config.rootpath)
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def apiserver(_apiserver_servers: _Servers, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Returns a server that all tests of the session share. A test sees the objects that earlier tests left
    on this server.

    Changes to this server and its clock do not affect the servers of the `kube` fixture.
    """
    with _apiserver_servers.fork(_MarkSettings()) as server:
        request.config.stash[_SESSION_SERVER] = server
        yield server
        del request.config.stash[_SESSION_SERVER]


@pytest.fixture
def kube(_apiserver_servers: _Servers, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Returns a server for a single test. The test's marks configure the server."""
    from apiserver.testing import ManifestNotLoaded, ServerDidNotStart

    failure = ""
    try:
        server = _apiserver_servers.fork(_MarkSettings.of(request.node))
    except (InvalidMark, ManifestNotLoaded, ServerDidNotStart) as error:
        failure = str(error)
    if failure:
        pytest.fail(failure, pytrace=False)
    with server:
        request.node.stash[_SERVER] = "kube", server  # also a fixture that fails on it has a report
        yield server


@pytest.fixture
def kube_users(kube: ApiServer, request: pytest.FixtureRequest) -> dict[str, Path]:
    """Returns the kubeconfig paths of the users in the test's marks, by user name."""
    users = _MarkSettings.of(request.node).users
    return {name: kube.user(name, groups=groups) for name, groups in users.items()}


_numbers: Final = itertools.count(1)


@pytest.fixture
def kube_namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """Returns the name of a new namespace. The plugin deletes the namespace after the test."""
    own = "kube" in request.fixturenames
    server: ApiServer = request.getfixturevalue("kube" if own else "apiserver")
    name = f"test-{next(_numbers)}"
    code, answer = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert code == 201, answer
    server.wait_for("ServiceAccount", "default", name)
    if own:
        yield name  # which is gone with the server
        return
    request.node.stash[_SERVER] = "apiserver", server
    yield name
    server.request("DELETE", f"/api/v1/namespaces/{name}")


# ---- clients


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.fail(f"this fixture requires the library {name.partition('.')[0]}: {error}", pytrace=False)


@pytest.fixture
def kubernetes_client(kube: ApiServer) -> Iterator[Any]:
    """Returns a `kubernetes.client.ApiClient`, for example for `kubernetes.client.CoreV1Api(...)`."""
    with _library("kubernetes.config").new_client_from_config_dict(kube.kubeconfig_dict) as client:
        yield client
        client.rest_client.pool_manager.clear()  # which it leaves open


@pytest.fixture
def kubernetes_asyncio_configuration(kube: ApiServer) -> Any:
    """Returns a configuration for `async with kubernetes_asyncio.client.ApiClient(...)`."""
    # They take 30 ms, which a suite that does not use them should not pay.
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    configuration = _library("kubernetes_asyncio.client").Configuration()
    load = _library("kubernetes_asyncio.config").load_kube_config_from_dict
    with ThreadPoolExecutor(1) as thread:  # There may be a loop that runs in this one.
        loading = load(kube.kubeconfig_dict, client_configuration=configuration)
        thread.submit(asyncio.run, loading).result()
    return configuration


@pytest.fixture
def kr8s_client(kube: ApiServer) -> Any:
    """Returns a kr8s client for `kube`, like `kr8s.api(...)`."""
    return _library("kr8s").api(kubeconfig=str(kube.kubeconfig))


@pytest.fixture
def lightkube_client(kube: ApiServer) -> Iterator[Any]:
    """Returns a `lightkube.Client` for `kube`."""
    config = _library("lightkube").KubeConfig.from_file(str(kube.kubeconfig))
    client = _library("lightkube").Client(config=config)
    yield client
    if hasattr(client, "close"):  # not in older releases
        client.close()


@pytest.fixture
def pykube_client(kube: ApiServer) -> Iterator[Any]:
    """Returns a `pykube.HTTPClient` for `kube`."""
    pykube = _library("pykube")
    client = pykube.HTTPClient(pykube.KubeConfig(kube.kubeconfig_dict))
    with client.session:
        yield client
