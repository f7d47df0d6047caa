"""A store that servers of one release after another have, up and back again. Rows S04, S12, T31.

Objects of every built-in type that 1.24 has, plain and rich ones, and of a custom type with two versions are
written by 1.24. Each later release has them in all versions that both serve, then each on the way back.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from apiserver.meta.releases.lifecycles import known_lifecycles
from tests import corpus
from tests.server.test_emulated_releases import OLD_OBJECTS
from tests.support.api import Api, until_status
from tests.support.definitions import definition, version
from tests.support.etcd_process import wheel_etcd
from tests.support.server_process import ServerProcess

FIRST: Final = 24
HOPS: Final = (25, 29, 34, 36)
pytestmark = pytest.mark.slow  # Each test starts nine servers on one store of 180 objects.

# All versions are served, and nobody but the test writes.
FLAGS: Final = (
    "--runtime-config=api/beta=true",
    "--enable-priority-and-fairness=false",
    "--controllers=-namespace-controller",
)
GROUP: Final = "upgrades.example.com"


class Key(NamedTuple):
    """An object, in whatever version."""

    group: str
    resource: str
    namespace: str
    name: str


Shown = dict[tuple[str, Key], Any]


@pytest.fixture(scope="module", params=["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def storing(backend: str, directory: Path) -> Iterator[tuple[str, ...]]:
    """The flags of servers on one store, whose data lies in a directory."""
    if backend == "embedded":
        yield ()
    else:
        with wheel_etcd(directory) as etcd:
            yield (f"--etcd-servers={etcd.url}",)


@pytest.fixture
def store(backend: str, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The flags of servers on a new store."""
    with storing(backend, tmp_path) as flags:
        yield flags


@contextlib.contextmanager
def running(directory: Path, minor: int, *flags: str, is_killed: bool = False) -> Iterator[Api]:
    """A server of a release, which is stopped as for an upgrade, or killed.

    One that is killed cannot say that it has gone: an older one waits on etcd until its lease has expired.
    """
    with ServerProcess(directory, f"--emulated-version=1.{minor}", *flags) as server, Api(server) as api:
        yield api
        if not is_killed:
            assert server.stop() == 0


# ---- what 1.24 writes

# Manifests of the corpus that are about fields which 1.24 does not have, and make no sense without.
LATER: Final = {
    "batch/v1/Job/nightly/indexed",  # backoffLimitPerIndex
    "core/v1/Pod/shop/probed",  # lifecycle.preStop.sleep
    "core/v1/Pod/shop/helped",  # restartPolicy of init containers
}
# Registration of groups that are not served here is removed again.
LOCAL: Final = "apiregistration.k8s.io/v1/APIService/default/v1.local.example.com"
SECURITY_POLICY: Final[dict[str, Any]] = {
    "apiVersion": "policy/v1beta1",
    "kind": "PodSecurityPolicy",
    "metadata": {"name": "restricted"},
    "spec": {
        each: {"rule": "RunAsAny"} for each in ("seLinux", "runAsUser", "supplementalGroups", "fsGroup")
    },
}
WIDGETS: Final = definition(GROUP, version("v1"), version("v2", storage=False))
WIDGET: Final = {"kind": "Widget", "metadata": {"name": "a"}, "spec": {"a": "x", "n": 1}}


def write_all(api: Api) -> set[Key]:
    written: set[Key | None] = {
        create(api, manifest.document)
        for manifest in corpus.manifests()
        if manifest.id not in (*LATER, LOCAL)
    }
    for number, each in enumerate(OLD_OBJECTS.values()):
        api_version, kind = each.type_meta
        name = f"old-{number}" if each.name == "a" else each.name
        meta = {**each.document["metadata"], "name": name}
        written.add(create(api, {"apiVersion": api_version, "kind": kind, **each.document, "metadata": meta}))
    written.add(create(api, SECURITY_POLICY))
    written.add(create(api, WIDGETS))
    until_status(200, lambda: api.get(f"/apis/{GROUP}/v2"), "the definition is served")
    for version_name in ("v1", "v2"):
        widget = {"apiVersion": f"{GROUP}/{version_name}", **WIDGET, "metadata": {"name": version_name}}
        written.add(create(api, widget))
    return {key for key in written if key is not None}


def create(api: Api, document: dict[str, Any]) -> Key | None:
    """Returns None if the release does not have the type in that version."""
    api_version, meta = document["apiVersion"], document["metadata"]
    for resource, (kind, is_namespaced) in resources_of(api).get(api_version, {}).items():
        if kind == document["kind"]:
            namespace = meta.get("namespace", "default") if is_namespaced else ""
            made = api.post(collection(api_version, resource, namespace), document).ok()
            if "status" in document:
                shown = {**document, "metadata": made["metadata"]}
                path = f"{collection(api_version, resource, namespace)}/{meta['name']}/status"
                api.put(path, shown).ok()
            return Key(group_of(api_version), resource, namespace, meta["name"])
    return None


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def root_of(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def collection(api_version: str, resource: str, namespace: str = "") -> str:
    inner = f"namespaces/{namespace}/" if namespace else ""
    return f"{root_of(api_version)}/{inner}{resource}"


# ---- what a release shows


def resources_of(api: Api) -> Mapping[str, Mapping[str, tuple[str, bool]]]:
    """The kind of each resource that can be listed and whether it is namespaced, by version and resource."""
    groups = api.get("/apis").ok()["groups"]
    versions = ["v1", *(each["groupVersion"] for group in groups for each in group["versions"])]
    found = {}
    for each in versions:
        listed = api.get(root_of(each)).ok()["resources"]
        found[each] = {r["name"]: (r["kind"], r["namespaced"]) for r in listed if "list" in r["verbs"]}
    return found


def shown(api: Api, written: set[Key]) -> Shown:
    """Each object that was written, in each version that the release serves."""
    wanted = {(key.group, key.resource) for key in written}
    found = {}
    for api_version, resources in resources_of(api).items():
        for resource in resources:
            if (group_of(api_version), resource) in wanted:
                for item in api.get(collection(api_version, resource)).ok()["items"]:
                    meta = item["metadata"]
                    key = Key(group_of(api_version), resource, meta.get("namespace", ""), meta["name"])
                    if key in written:
                        found[api_version, key] = item
    return found


def label(api: Api, written: set[Key], text: str) -> None:
    """Write each object, in the version that the release prefers."""
    preferred: dict[tuple[str, str], str] = {}
    for api_version, resources in resources_of(api).items():
        for resource in resources:
            preferred.setdefault((group_of(api_version), resource), api_version)
    for key in written:
        if (key.group, key.resource) in preferred:
            api_version = preferred[key.group, key.resource]
            path = f"{collection(api_version, key.resource, key.namespace)}/{key.name}"
            api.patch(path, {"metadata": {"labels": {LABEL: text}}}).ok()


def without_label(document: Any) -> Any:
    """An object without what changes with its label, and without what only later releases add to it."""
    meta = {name: value for name, value in document["metadata"].items() if name not in CHANGED}
    labels = {name: value for name, value in meta.pop("labels", {}).items() if name != LABEL}
    kept = {**document, "metadata": {**meta, **({"labels": labels} if labels else {})}}
    if isinstance(spec := document.get("spec"), dict):
        kept["spec"] = {name: value for name, value in spec.items() if name not in DEFAULTED}
    return kept


LABEL: Final = "example.com/written-by"
DEFAULTED: Final = ("podReplacementPolicy",)  # of Jobs
CHANGED: Final = ("resourceVersion", "managedFields", "generation")  # the last one of EndpointSlices


def require_same(before: Shown, after: Shown, minor: int) -> None:
    """What a release shows is what 1.24 has shown, in each version that both have; and nothing is missing."""
    missing = {key for _, key in before} - {key for _, key in after}
    assert {key for key in missing if versions_in_common(key, minor)} == set()
    for each in before.keys() & after.keys():
        assert after[each] == before[each], (minor, each)


def versions_in_common(key: Key, minor: int) -> set[str]:
    """The versions that 1.24 and a release both have of a type; custom types have all of theirs."""
    if key.group == GROUP:
        return {"v1", "v2"}
    lives = [
        each
        for each in known_lifecycles().values()
        if (each.group, each.resource) == (key.group, key.resource)
    ]
    return {each.version for each in lives if each.is_in(FIRST) and each.is_in(minor)}


def require_readable(directory: Path, keys: set[Key], minor: int) -> None:
    """A release has the versions in which objects are stored, of all types of which it has any version."""
    paths = {"".join(f"/{part}" for part in key[1:] if part) for key in keys}
    readable: dict[tuple[str, str], set[str]] = {}
    for each in known_lifecycles().values():
        if each.is_in(minor):
            readable.setdefault((each.group, each.kind), set()).add(each.version)
    query = "SELECT key, value FROM versions ORDER BY revision"
    with contextlib.closing(sqlite3.connect(directory / "store" / "store.db")) as database:
        latest = dict(database.execute(query))
    count = 0
    for key, value in latest.items():
        # `/registry/GROUP/RESOURCE/…`
        if "/" + "/".join(key.split("/")[3:]) in paths and value is not None:
            document = json.loads(value)
            group, _, version_name = document["apiVersion"].rpartition("/")
            versions = readable.get((group, document["kind"]))
            assert versions is None or version_name in versions, (key, minor)
            count += 1
    assert count >= len(keys)


class Written(NamedTuple):
    """What 1.24 has written, and shows. store: the flags of servers that have it."""

    store: tuple[str, ...]
    keys: set[Key]
    before: Shown


@pytest.fixture(scope="module")
def stopped(backend: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[Key], Shown]:
    """A directory with the data of a server of 1.24, what it has written, and what it showed."""
    directory = tmp_path_factory.mktemp("first")
    with storing(backend, directory) as store, running(directory / "data", FIRST, *FLAGS, *store) as api:
        keys = write_all(api)
        before = shown(api, keys)
    assert {key for _, key in before} == keys
    if backend == "embedded":
        require_readable(directory / "data", keys, FIRST - 1)
    return directory, keys, before


@pytest.fixture
def written(backend: str, stopped: tuple[Path, set[Key], Shown], tmp_path: Path) -> Iterator[Written]:
    """A copy of all that the test has for itself."""
    directory, keys, before = stopped
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    with storing(backend, tmp_path) as store:
        yield Written(store, keys, before)


def test_what_is_only_read_stays_as_it_is(tmp_path: Path, written: Written) -> None:
    """Security policies, which no later release has, are there again when 1.24 is."""
    store, keys, before = written
    for minor in (*HOPS, *HOPS[-2::-1], FIRST):
        with running(tmp_path / "data", minor, *FLAGS, *store) as api:
            require_same(before, shown(api, keys), minor)


def test_what_each_release_writes_the_others_read(tmp_path: Path, written: Written) -> None:
    store, keys, before = written
    plain = {each: without_label(document) for each, document in before.items()}
    for minor in (*HOPS, *HOPS[-2::-1], FIRST):
        with running(tmp_path / "data", minor, *FLAGS, *store) as api:
            label(api, keys, str(minor))
            after = {each: without_label(document) for each, document in shown(api, keys).items()}
        require_same(plain, after, minor)
        if not store:
            require_readable(tmp_path / "data", keys, minor - 1)


def test_a_newer_release_stores_for_an_old_one_if_it_has_to(tmp_path: Path, written: Written) -> None:
    """--min-compatibility-version: whatever is written is stored so that the old one can read it."""
    store, keys, before = written
    plain = {each: without_label(document) for each, document in before.items()}
    in_common = {key for key in keys if versions_in_common(key, 36)}
    for oldest in (35, FIRST):
        compatible = f"--min-compatibility-version=1.{oldest}"
        with running(tmp_path / "data", 36, compatible, *FLAGS, *store) as api:
            label(api, keys, f"for-1.{oldest}")
        if not store:
            require_readable(tmp_path / "data", in_common, oldest)
    with running(tmp_path / "data", FIRST, *FLAGS, *store) as api:
        after = {each: without_label(document) for each, document in shown(api, keys).items()}
    require_same(plain, after, FIRST)


def test_fields_that_an_older_release_does_not_have(tmp_path: Path, store: tuple[str, ...]) -> None:
    """They stay until it writes the object: as an older Kubernetes, it knows only its own fields then.

    The last time it takes over from a server that was killed.
    """
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {}}
    later = {**spec, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    with running(tmp_path / "data", 36, *FLAGS, *store) as api:
        made = api.post(path, {"metadata": {"name": "a"}, "spec": later}).ok()
    with running(tmp_path / "data", FIRST, *FLAGS, *store) as api:
        assert api.get(f"{path}/a").ok() == made
    with running(tmp_path / "data", 36, *FLAGS, *store, is_killed=True) as api:
        assert api.get(f"{path}/a").ok() == made
    with running(tmp_path / "data", FIRST, *FLAGS, *store) as api:
        assert api.patch(f"{path}/a", {"metadata": {"labels": {LABEL: "1.24"}}}).ok()["spec"] == spec
