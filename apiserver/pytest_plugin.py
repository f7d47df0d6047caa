"""Provides pytest fixtures for tests against a real API server.

    apiserver        a server for all tests of the session (`apiserver.testing.ApiServer`)
    kube             a server for this test alone: a fork, with what the marks of the test say
    kube_namespace   the name of a new namespace, of `kube` if the test uses that, else of `apiserver`
    kube_users       kubeconfigs of the users that the marks name, by name

Clients of `kube`, for the libraries that are installed:

    kubernetes_client, kubernetes_asyncio_configuration, kr8s_client, lightkube_client, pykube_client

A mark on a test, a class or a module (`pytestmark`) configures `kube`; several marks add up:

    @pytest.mark.apiserver(crds="deploy/crds", manifests=["deploy/rbac.yaml", {...}],
                           users={"alice": ["dev"]}, feature_gates={...}, flags=["--..."])

The report of a failed test or fixture ends with the last requests that clients sent to `kube`, the last
writes to it with their users, and its Events; without `kube` it is about `apiserver`. A fault that a test has
injected and that never happened is an error of the test.

Paths begin at the root of the tests (`rootdir`). Servers, and what is loaded, are made once for all tests
that ask for the same. Nothing is imported or started before a test uses a fixture. Each process of
pytest-xdist has its own servers.
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
    "users": ((Mapping, list, tuple, set), 'a list of names, or groups by name, as {"alice": ["dev"]}'),
    "feature_gates": ((Mapping,), 'gates by name, as {"AGate": True}'),
    "flags": ((list, tuple), 'a list of flags, as ["--emulated-version=1.34"]'),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(crds, manifests, users, feature_gates, flags): what the server of the fixture `kube` has",
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
        pytest.fail(f"faults were injected that never happened:\n{lines}", pytrace=False)


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

    @classmethod
    def of(cls, node: pytest.Item) -> _MarkSettings:
        """Returns the combined arguments of all marks of a test. Raises InvalidMark."""
        wanted = cls()
        for mark in reversed(list(node.iter_markers(MARK))):  # those of the module first
            unknown = sorted({*mark.kwargs} - {*_VALUES})
            if mark.args or unknown:
                what = ", ".join(unknown) or "an argument without a name"
                raise InvalidMark(f"pytest.mark.{MARK} has {', '.join(_VALUES)}, but not {what}")
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


class _Servers:
    """The servers of a session, and the snapshots of the objects loaded into them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stack = ExitStack()
        self._servers: dict[object, ApiServer] = {}
        self._snapshots: dict[object, Snapshot] = {}

    def server(self, wanted: _MarkSettings) -> ApiServer:
        """Returns the empty server that has the given flags and feature gates."""
        from apiserver.testing import ApiServer

        settings = (tuple(wanted.flags), tuple(sorted(wanted.feature_gates.items())))
        server = self._servers.get(settings)
        if server is None:
            server = ApiServer(flags=wanted.flags, feature_gates=wanted.feature_gates)
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
    """Returns a server that all tests of the session share. Objects that one test leaves are seen by the
    others.

    It is a fork, too: changes to it, and to its clock, do not affect the servers of `kube`.
    """
    with _apiserver_servers.fork(_MarkSettings()) as server:
        request.config.stash[_SESSION_SERVER] = server
        yield server
        del request.config.stash[_SESSION_SERVER]


@pytest.fixture
def kube(_apiserver_servers: _Servers, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Returns a server for this test alone, configured by the marks of the test."""
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
    """Returns the kubeconfigs of the users that the marks of the test name, by name."""
    users = _MarkSettings.of(request.node).users
    return {name: kube.user(name, groups=groups) for name, groups in users.items()}


_numbers: Final = itertools.count(1)


@pytest.fixture
def kube_namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """Returns the name of a new namespace, which is deleted after the test."""
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
        pytest.fail(f"this fixture needs the library {name.partition('.')[0]}: {error}", pytrace=False)


@pytest.fixture
def kubernetes_client(kube: ApiServer) -> Iterator[Any]:
    """Returns a `kubernetes.client.ApiClient`, for `kubernetes.client.CoreV1Api(...)` and the like."""
    with _library("kubernetes.config").new_client_from_config_dict(kube.kubeconfig_dict) as client:
        yield client
        client.rest_client.pool_manager.clear()  # which it leaves open


@pytest.fixture
def kubernetes_asyncio_configuration(kube: ApiServer) -> Any:
    """Returns a configuration, for `async with kubernetes_asyncio.client.ApiClient(...)`."""
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
    """Returns a kr8s client of `kube`, as `kr8s.api(...)` does."""
    return _library("kr8s").api(kubeconfig=str(kube.kubeconfig))


@pytest.fixture
def lightkube_client(kube: ApiServer) -> Iterator[Any]:
    """Returns a `lightkube.Client` of `kube`."""
    config = _library("lightkube").KubeConfig.from_file(str(kube.kubeconfig))
    client = _library("lightkube").Client(config=config)
    yield client
    if hasattr(client, "close"):  # not in older releases
        client.close()


@pytest.fixture
def pykube_client(kube: ApiServer) -> Iterator[Any]:
    """Returns a `pykube.HTTPClient` of `kube`."""
    pykube = _library("pykube")
    client = pykube.HTTPClient(pykube.KubeConfig(kube.kubeconfig_dict))
    with client.session:
        yield client
