"""kubectl and every built-in type: discovery, create, replace and get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests import corpus
from tests.corpus import GROUNDWORK, Manifest, path_of
from tests.support.api import Api
from tests.support.kubectl import Kubectl, each_version, program, rows
from tests.support.served import TABLE
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl

ALL: Final = corpus.manifests()
LISTED: Final = [r for r in TABLE.resources if "list" in r.verbs]


def server_with(data_dir: Path, manifests: Sequence[Manifest]) -> ServerProcess:
    server = ServerProcess(data_dir).start()
    api = Api(server)
    for manifest in manifests:
        resource = manifest.type_in(TABLE)
        api.post(path_of(resource, manifest.namespace), manifest.document).ok()
    api.close()
    return server


@pytest.fixture(scope="module")
def ready_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the groundwork only. Tests must not add to it."""
    groundwork = [each for each in ALL if each.file == GROUNDWORK]
    with server_with(tmp_path_factory.mktemp("ready") / "data", groundwork) as server:
        yield server


@pytest.fixture(scope="module")
def full_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the whole corpus."""
    with server_with(tmp_path_factory.mktemp("full") / "data", ALL) as server:
        yield server


@pytest.fixture(params=each_version(-1))
def kubectl_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[ServerProcess], Kubectl]:
    """kubectl without a namespace: each document names its own."""
    return lambda server: Kubectl(program(request.param), server.kubeconfig, "", tmp_path)


def as_file(path: Path, manifests: Sequence[Manifest]) -> str:
    path.write_text(yaml.safe_dump_all([each.content for each in manifests], allow_unicode=True))
    return str(path)


def printed_name(manifest: Manifest) -> str:
    """The name of an object as kubectl prints it."""
    resource = manifest.type_in(TABLE)
    group = resource.group_version.group
    return f"{resource.singular}{f'.{group}' if group else ''}/{manifest.name}"


def without_warnings(errors: str) -> list[str]:
    """Some types, and some of what people write, are deprecated."""
    return [line for line in errors.splitlines() if not line.startswith("Warning: ")]


def test_it_sends_all_that_people_write(
    kubectl_of: Callable[[ServerProcess], Kubectl], ready_server: ServerProcess, tmp_path: Path
) -> None:
    """Each passes kubectl's own validation against our OpenAPI, and then the server's."""
    kubectl = kubectl_of(ready_server)
    manifests = [each for each in ALL if each.file != GROUNDWORK]
    end = kubectl.run("create", "--dry-run=server", "-f", as_file(tmp_path / "all.yaml", manifests))
    assert (end.returncode, without_warnings(end.stderr)) == (0, [])
    assert end.stdout.splitlines() == [f"{printed_name(each)} created (server dry run)" for each in manifests]


def test_it_replaces_what_is_there(
    kubectl_of: Callable[[ServerProcess], Kubectl], ready_server: ServerProcess, tmp_path: Path
) -> None:
    kubectl = kubectl_of(ready_server)
    manifests = [each for each in ALL if each.file == GROUNDWORK]
    said = kubectl("replace", "--dry-run=server", "-f", as_file(tmp_path / "all.yaml", manifests))
    assert said.splitlines() == [f"{printed_name(each)} replaced (server dry run)" for each in manifests]


def test_it_shows_every_type(
    kubectl_of: Callable[[ServerProcess], Kubectl], full_server: ServerProcess
) -> None:
    """As names, and as tables: one for each type that has objects."""
    kubectl = kubectl_of(full_server)
    types = ",".join(f"{r.resource}.{r.group_version.version}.{r.group_version.group}" for r in LISTED)
    names = kubectl.run("get", types, "--all-namespaces", "-o", "name")
    assert (names.returncode, without_warnings(names.stderr)) == (0, [])
    assert {printed_name(each) for each in ALL} <= set(names.stdout.splitlines())
    tables = kubectl.run("get", types, "--all-namespaces", "-o", "wide")
    assert (tables.returncode, without_warnings(tables.stderr)) == (0, [])
    # A class that is used where none is named says so after its name.
    shown = {part.removesuffix(" (default)") for row in rows(tables.stdout) for part in row}
    assert {printed_name(each) for each in ALL} <= shown
    heads = [row for row in rows(tables.stdout) if "NAME" in row]
    assert len(heads) >= len({each.type_in(TABLE) for each in ALL})


def test_it_knows_every_type(
    kubectl_of: Callable[[ServerProcess], Kubectl], full_server: ServerProcess
) -> None:
    """Each once, in the preferred version: name, short names, scope, kind, verbs and categories."""
    kubectl = kubectl_of(full_server)
    preferred = [r for r in TABLE.resources if TABLE.groups[r.group_version.group][0] == r.group_version]
    wide = kubectl("api-resources", "-o", "wide", "--sort-by=name").splitlines()
    head = wide[0]
    columns = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"]
    starts = [head.index(column) for column in columns]
    rows = [
        tuple(line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True))
        for line in wide[1:]
    ]
    defined = {each.content["spec"]["group"] for each in ALL if each.kind == "CustomResourceDefinition"}
    shown = {row for row in rows if row[2].partition("/")[0] not in defined}
    assert shown == {
        (
            r.resource,
            ",".join(r.short_names),
            r.api_version,
            str(r.is_namespaced).lower(),
            r.kind,
            ",".join(r.verbs),
            ",".join(r.categories),
        )
        for r in preferred
    }
