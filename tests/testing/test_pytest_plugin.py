"""The fixtures and marks of `apiserver.pytest_plugin`, in suites of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support import forked_server
from tests.support.eventually import WITHIN_S
from tests.testing.test_manifests import DEFINITION

CONFIGURATION: Final = """\
[pytest]
addopts = --strict-markers -p no:cacheprovider
asyncio_default_fixture_loop_scope = function
filterwarnings =
    error
    ignore:Kubernetes version
"""
ISOLATION: Final = """
import pytest
from apiserver.testing import ApiServer

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

@pytest.mark.parametrize("number", [1, 2])
def test_each_has_a_server_of_its_own(kube: ApiServer, number):
    code, _ = kube.request("POST", CONFIG_MAPS, {"metadata": {"name": "mine"}})
    assert code == 201

def test_the_session_has_one(apiserver: ApiServer):
    code, _ = apiserver.request("GET", CONFIG_MAPS + "/mine")
    assert code == 404

def test_a_namespace_of_the_session(kube_namespace, apiserver):
    assert apiserver.request("GET", f"/api/v1/namespaces/{kube_namespace}")[0] == 200

def test_a_namespace_of_the_fork(kube_namespace, kube, apiserver):
    assert kube.request("GET", f"/api/v1/namespaces/{kube_namespace}")[0] == 200
    assert apiserver.request("GET", f"/api/v1/namespaces/{kube_namespace}")[0] == 404
"""
MARKS: Final = """
import pytest

pytestmark = pytest.mark.apiserver(crds="deploy/crds")
GADGETS = "/apis/example.com/v1/gadgets"

def test_definitions(kube, apiserver):
    assert kube.request("GET", GADGETS)[0] == 200
    assert apiserver.request("GET", GADGETS)[0] == 404

@pytest.mark.apiserver(manifests=[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "more"}}])
def test_marks_add_up(kube):
    assert kube.request("GET", GADGETS)[0] == 200
    assert kube.request("GET", "/api/v1/namespaces/more")[0] == 200

@pytest.mark.apiserver(flags=["--emulated-version=1.34"], feature_gates={"ListFromCacheSnapshot": False})
def test_flags(kube):
    assert kube.request("GET", "/version")[1]["minor"] == "34"
    assert kube.request("GET", GADGETS)[0] == 200

@pytest.mark.apiserver(users={"alice": ["dev"], "bob": []})
def test_users(kube, kube_users):
    assert sorted(kube_users) == ["alice", "bob"]
    assert kube.url in kube_users["alice"].read_text()
"""
EXTENSIONS: Final = """
import pytest

from apiserver.extensions import Extension

app = Extension("shop")

@app.mutate("configmaps", on="create")
def price(config_map):
    config_map["data"] = {"currency": "EUR"}

@pytest.mark.apiserver(extensions=[app, "tests.extensions.modules.hostile"])
@pytest.mark.parametrize("number", [1, 2])
def test_each_has_a_server_with_the_extensions(kube, number):
    assert "[+]extension-hostile ok" in kube.request("GET", "/readyz?verbose")[1]
    path = "/api/v1/namespaces/default/configmaps"
    code, created = kube.request("POST", path, {"metadata": {"name": "mine"}})
    assert (code, created["data"]) == (201, {"currency": "EUR"})

def test_others_have_none(kube):
    assert "extension-" not in kube.request("GET", "/readyz?verbose")[1]
"""
CLIENTS: Final = """
import asyncio

def test_kubernetes(kube_namespace, kubernetes_client):
    import kubernetes.client
    found = kubernetes.client.CoreV1Api(kubernetes_client).read_namespace(kube_namespace)
    assert found.metadata.name == kube_namespace

def test_kubernetes_asyncio(kubernetes_asyncio_configuration):
    from kubernetes_asyncio import client
    async def read():
        async with client.ApiClient(kubernetes_asyncio_configuration) as api:
            return await client.CoreV1Api(api).read_namespace("default")
    assert asyncio.run(read()).metadata.name == "default"

def test_lightkube(lightkube_client):
    from lightkube.resources.core_v1 import Namespace
    assert lightkube_client.get(Namespace, "default").metadata.name == "default"

def test_pykube(pykube_client):
    import pykube
    assert pykube.Namespace.objects(pykube_client).get(name="default").name == "default"
"""
# It keeps its connection open, and has no way to close it.
KR8S: Final = """
import pytest

@pytest.mark.filterwarnings("default")
def test_kr8s(kr8s_client):
    assert kr8s_client.version()["gitVersion"].startswith("v1.")
"""
FAILURES: Final = """
import pytest

@pytest.mark.apiserver(manifests="bad.yaml")
def test_a_manifest_that_does_not_load(kube): ...

@pytest.mark.apiserver(manifest="bad.yaml")
def test_a_mark_that_is_not_known(kube): ...

@pytest.mark.apiserver("bad.yaml")
def test_a_mark_without_a_name(kube): ...

@pytest.mark.apiserver(flags=["--no-such-flag"])
def test_a_flag_that_is_not_known(kube): ...

@pytest.mark.apiserver(flags="--emulated-version=1.34")
def test_flags_that_are_no_list(kube): ...

@pytest.mark.apiserver(feature_gates="ListFromCacheSnapshot=false")
def test_gates_that_are_no_mapping(kube): ...

@pytest.mark.apiserver(users="alice")
def test_users_that_are_no_list(kube_users): ...

@pytest.mark.apiserver(users={"alice": "dev"})
def test_groups_that_are_no_list(kube_users): ...

@pytest.mark.apiserver(extensions="shop")
def test_extensions_that_are_no_list(kube): ...

@pytest.mark.apiserver(crds=3)
def test_definitions_that_are_no_paths(kube): ...
"""
BAD: Final = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_Name}\n"


def run(directory: Path, *arguments: str, says: str, **files: str) -> str:
    """Run pytest on a suite of these files, in a process that is forked where what it imports is imported.

    Returns what it has written. says: must be part of that.
    """
    write(directory, files)
    end = forked_server.run([str(directory), "-q", *arguments], 10 * WITHIN_S, _pytest)
    assert says in end.stdout, end.stdout
    return end.stdout


def run_interpreter(directory: Path, *arguments: str, says: str, **files: str) -> None:
    """Run pytest on a suite of these files, as a user does."""
    write(directory, files)
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    end = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert says in end.stdout, end.stdout


def write(directory: Path, files: Mapping[str, str]) -> None:
    (directory / "pytest.ini").write_text(CONFIGURATION)
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)


def _pytest(arguments: Sequence[str]) -> int:
    directory, *others = arguments
    os.chdir(directory)
    # With this one, pytest's summary at the end repeats every message whole.
    os.environ.pop("CI", None)
    return int(pytest.main([*others, "-W", "ignore:Module already imported"]))


@pytest.mark.slow
def test_fixtures_marks_and_clients(tmp_path: Path) -> None:
    (tmp_path / "deploy" / "crds").mkdir(parents=True)
    (tmp_path / "deploy" / "crds" / "gadgets.yaml").write_text(DEFINITION)
    run(tmp_path, says="13 passed", test_isolation=ISOLATION, test_marks=MARKS, test_clients=CLIENTS)


@pytest.mark.slow
def test_extensions_in_marks(tmp_path: Path) -> None:
    run(tmp_path, says="3 passed", test_extensions=EXTENSIONS)


@pytest.mark.slow
def test_kr8s(tmp_path: Path) -> None:
    run(tmp_path, "-p", "no:unraisableexception", says="1 passed", test_kr8s=KR8S)


def test_what_cannot_be_had_is_an_error_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD)
    output = run(tmp_path, says="10 errors", test_failures=FAILURES)
    for line in (
        f"{tmp_path / 'bad.yaml'}:1: ConfigMap Bad_Name: 422 ",
        "accepts crds, manifests, users, feature_gates, flags, extensions, but not manifest",
        "but not a positional argument",
        "the server did not start: unknown flag: --no-such-flag",
        (
            'pytest.mark.apiserver: flags must be a list of flags, such as ["--emulated-version=1.34"], not '
            "'--emul"
        ),
        'pytest.mark.apiserver: feature_gates must be gates by name, such as {"AGate": True}, not ',
        "pytest.mark.apiserver: extensions must be a list of extensions, such as [app], ",
        "pytest.mark.apiserver: users must be a list of names, ",
        "pytest.mark.apiserver: users: the groups of alice must be a list, not 'dev'",
        "pytest.mark.apiserver: crds must be files, folders, objects, or a list of these, not 3",
    ):
        assert any(found.startswith(line) or line in found for found in output.splitlines()), line
    assert "Traceback" not in output


@pytest.mark.slow
def test_workers_of_xdist_have_servers_of_their_own(tmp_path: Path) -> None:
    run_interpreter(tmp_path, "-n", "2", says="5 passed", test_isolation=ISOLATION)


REPORTED: Final = """
import kubernetes.client

def test_fails(kube, kubernetes_client):
    api = kubernetes.client.CoreV1Api(kubernetes_client)
    api.read_namespace("default")
    kube.request("GET", "/api/v1/nodes")
    api.read_namespace("nowhere")
"""


def test_a_failure_tells_of_the_last_requests(tmp_path: Path) -> None:
    output = run(tmp_path, says="the last requests of clients to kube", test_reported=REPORTED)
    section = output.partition("the last requests of clients to kube")[2]
    first, second, *_ = section.splitlines()[1:]
    assert first.startswith("kubernetes-admin (OpenAPI-Generator/")
    assert first.endswith(": GET /api/v1/namespaces/default 200")
    assert second.endswith(": GET /api/v1/namespaces/nowhere 404")


WRITTEN: Final = """
import kubernetes.client

def test_fails(kube, kubernetes_client):
    api = kubernetes.client.CoreV1Api(kubernetes_client)
    secret = kubernetes.client.V1Secret(
        metadata=kubernetes.client.V1ObjectMeta(name="password"), string_data={"password": "s3cret"}
    )
    api.create_namespaced_secret("default", secret)
    involved = {"kind": "Secret", "namespace": "default", "name": "password"}
    event = {"metadata": {"name": "e"}, "involvedObject": involved, "reason": "Leaked", "message": "it was"}
    kube.request("POST", "/api/v1/namespaces/default/events", {**event, "type": "Warning", "count": 3})
    raise AssertionError
"""


def test_a_failure_tells_who_wrote_what_and_what_happened(tmp_path: Path) -> None:
    output = run(tmp_path, says="the last events in kube", test_written=WRITTEN)
    _, _, sections = output.partition("the last writes to kube")
    writes, _, events = sections.partition("the last events in kube")
    (write,) = [
        line for line in writes.splitlines() if line.endswith("/registry/core/secrets/default/password")
    ]
    assert "kubernetes-admin (OpenAPI-Generator/" in write
    assert "Warning Leaked Secret default/password: it was (3 times)" in events
    assert "s3cret" not in sections


FIXTURES: Final = """
import pytest

@pytest.fixture
def operator(kube):
    with pytest.raises(AssertionError):
        kube.wait_for("ConfigMap", "mine", "default", timeout_s=0.1)
    kube.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
    raise AssertionError

def test_of_a_fixture(operator): ...
"""
SESSION: Final = """
def test_of_the_session(apiserver):
    apiserver.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}})
    raise AssertionError

def test_of_its_namespace(kube_namespace):
    raise AssertionError

def test_of_a_namespace_before(apiserver):
    namespaces = apiserver.request("GET", "/api/v1/namespaces")[1]["items"]
    phases = [each["status"]["phase"] for each in namespaces if each["metadata"]["name"].startswith("test-")]
    assert "Active" not in phases
"""


def test_a_failure_of_a_fixture_tells_it_too(tmp_path: Path) -> None:
    output = run(tmp_path, says="the last writes to kube", test_fixtures=FIXTURES)
    writes = output.partition("the last writes to kube")[2]
    assert "/registry/core/configmaps/default/mine" in writes


def test_without_a_server_of_its_own_a_failure_tells_of_the_sessions(tmp_path: Path) -> None:
    output = run(tmp_path, says="2 failed, 1 passed", test_session=SESSION)
    of_the_session, of_its_namespace = output.split("the last writes to apiserver")[1:]
    assert "/registry/core/configmaps/default/shared" in of_the_session
    assert "/registry/core/namespaces/test-1" in of_its_namespace


WAITED: Final = """
import threading

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

def test_waits(kube):
    kube.wait_for("ConfigMap", "a", "default", timeout_s=0.1)

def test_waits_until_gone(kube):
    kube.wait_until_gone("Namespace", "default", timeout_s=0.1)

def test_is_quiet(kube):
    writing = threading.Timer(1, kube.request, ("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}))
    writing.start()
    kube.assert_quiet("ConfigMap", seconds=4)

def test_asks_what_is_wrong(kube):
    kube.wait_for("Namespace", "default", until=lambda it: it.nothing)
"""


def test_a_failure_shows_the_line_of_the_test_that_waited(tmp_path: Path) -> None:
    output = run(tmp_path, says="4 failed", test_waited=WAITED)
    failures = re.split(r"^_+ (\w+) _+$", output, flags=re.MULTILINE)[1:]
    shown = dict(zip(failures[::2], failures[1::2], strict=True))
    for name, line in (
        ("test_waits", '>       kube.wait_for("ConfigMap"'),
        ("test_waits_until_gone", ">       kube.wait_until_gone"),
        ("test_is_quiet", ">       kube.assert_quiet"),
    ):
        assert line in shown[name], shown[name]
        assert "waiting.py" not in shown[name]
    assert "waiting.py" in shown["test_asks_what_is_wrong"]


NOTHING: Final = """
import sys

def test_nothing_is_imported():
    assert "apiserver.pytest_plugin" in sys.modules
    assert [name for name in sys.modules if name.startswith("apiserver.") and "plugin" not in name] == []
"""


def test_a_suite_that_uses_no_fixture_pays_nothing(tmp_path: Path) -> None:
    run_interpreter(tmp_path, says="1 passed", test_nothing=NOTHING)


IMPORTED: Final = """
import sys
import pytest
before = {*sys.modules}
import apiserver.pytest_plugin
print(*sorted({*sys.modules} - before))
"""


def test_the_plugin_imports_nothing_that_pytest_does_not() -> None:
    """pytest imports it in every suite of an environment: asyncio alone would take 30 ms, the server 300."""
    imported = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert imported.stdout.split() == ["apiserver", "apiserver.pytest_plugin"]


FAULTS: Final = """
from apiserver.testing import Answer, Match, NotReady

NODES = Match(resource="nodes")

def test_had(kube):
    kube.faults.inject(Answer(503), NODES)
    assert kube.request("GET", "/api/v1/nodes", headers={"User-Agent": "client"})[0] == 503

def test_never_had(kube):
    kube.faults.inject(Answer(503), NODES)

def test_never_had_and_cleared(apiserver):
    with apiserver.faults.inject(Answer(503), NODES):
        pass

def test_need_not_be_had(apiserver):
    apiserver.faults.inject(NotReady(), must_hit=False)

def test_those_of_others_are_gone(apiserver):
    assert apiserver.faults.list() == []

def test_fails_anyway(kube):
    kube.faults.inject(Answer(503), NODES)
    assert not "this is what is told"
"""


def test_a_fault_that_was_never_had_is_an_error(tmp_path: Path) -> None:
    output = run(tmp_path, says="1 failed, 5 passed, 2 errors", test_faults=FAULTS)
    assert (
        output.count("the test injected faults that never happened:\n- InjectedFault(Answer(code=503)") == 2
    )
    assert "Traceback" not in output


LEFT: Final = """
import datetime

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

def test_leaves_something(apiserver):
    apiserver.request("POST", CONFIG_MAPS, {"metadata": {"name": "left"}})
    apiserver.clock.advance(hours=5)

def test_does_not_find_it(kube):
    assert kube.request("GET", CONFIG_MAPS + "/left")[0] == 404
    assert kube.clock.now() - datetime.datetime.now(datetime.UTC) < datetime.timedelta(hours=1)

def test_finds_it(apiserver):
    assert apiserver.request("GET", CONFIG_MAPS + "/left")[0] == 200

def test_stops_it(apiserver):
    apiserver.stop()

def test_does_not_need_it(kube):
    assert kube.request("GET", CONFIG_MAPS)[0] == 200
"""


def test_what_is_left_on_the_sessions_server_is_nothing_to_the_forks(tmp_path: Path) -> None:
    """Also if the first test that uses `kube` comes after it."""
    run(tmp_path, says="5 passed", test_left=LEFT)


ASKED_FOR: Final = """
import pytest
from apiserver.testing import Answer, Match

@pytest.mark.parametrize("name", ["kube", "apiserver"])
def test_never_had(request, name):
    server = request.getfixturevalue(name)
    server.faults.inject(Answer(503), Match(resource="nodes"))

def test_those_of_others_are_gone(apiserver):
    assert apiserver.faults.list() == []

def test_of_a_namespace(kube_namespace, request):
    assert request.getfixturevalue("kube").request("GET", "/version")[0] == 200
"""


def test_fixtures_that_are_asked_for_while_the_test_runs(tmp_path: Path) -> None:
    output = run(tmp_path, says="4 passed, 2 errors", test_asked_for=ASKED_FOR)
    assert output.count("the test injected faults that never happened") == 2


TEARDOWN: Final = """
import kubernetes.client
import pytest
from apiserver.testing import Answer, Match

@pytest.fixture
def operator(kube):
    yield
    kube.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
    raise AssertionError

def test_of_a_fixture(operator): ...

def test_of_a_fault(kube, kubernetes_client):
    kube.faults.inject(Answer(503), Match(resource="podz"))
    kubernetes.client.CoreV1Api(kubernetes_client).list_namespaced_pod("default")
"""


def test_a_failure_after_a_test_tells_it_too(tmp_path: Path) -> None:
    """As why a fault has not happened."""
    output = run(tmp_path, says="2 passed, 2 errors", test_teardown=TEARDOWN)
    of_a_fixture, of_a_fault = output.split("the last requests of clients to kube")[1:]
    assert "/registry/core/configmaps/default/mine" in of_a_fixture
    assert ": GET /api/v1/namespaces/default/pods 200" in of_a_fault
    assert "the events can no longer be read: the server was stopped" in of_a_fault
