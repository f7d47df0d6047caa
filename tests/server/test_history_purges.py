"""What is purged from the history is in none of its files, and reads of it say so."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli.history.command import run as run_history
from apiserver.storage.history import deltas
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

_VALUES: Final = """
    SELECT value FROM changes c JOIN keys k ON k.id = c.key WHERE value NOT NULL AND k.key GLOB ?
"""
POLICY: Final = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    place = tmp_path_factory.mktemp("purges")
    (place / "policy.yaml").write_text(POLICY)
    flags = (
        "--history",
        "--controllers=-*",
        f"--audit-policy-file={place / 'policy.yaml'}",
        f"--audit-log-path={place / 'audit.log'}",
    )
    with ServerProcess(place, *flags) as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def in_files(server: ServerProcess, content: str | bytes) -> bool:
    """Whether a text, or some bytes, are in any file of the history."""
    files = [each for each in (server.data_dir / "history").rglob("*") if each.is_file()]
    assert files
    content = content.encode() if isinstance(content, str) else content
    return any(content in each.read_bytes() for each in files)


def write(api: Api, path: str, name: str, times: int = 3) -> list[str]:
    """Write an object several times; its content and its writer are in the history. Returns the versions."""
    headers = {"User-Agent": f"writer-of-{name}"}
    made = [api.post(path, {"metadata": {"name": name}, "data": {"k": f"{name}-0"}}, headers=headers).ok()]
    for number in range(1, times):
        change = {"data": {"k": f"{name}-{number}"}}
        made.append(api.patch(f"{path}/{name}", change, headers=headers).ok())
    return [each["metadata"]["resourceVersion"] for each in made]


def names_at(api: Api, path: str) -> tuple[list[str], list[str]]:
    answer = api.get(path)
    return [each["metadata"]["name"] for each in answer.ok()["items"]], answer.warnings


def test_an_object_is_purged(server: ServerProcess, api: Api) -> None:
    path = config_maps("default")
    versions = write(api, path, "forgotten")
    others = write(api, path, "remembered")
    api.delete(f"{path}/forgotten").ok()
    assert api.get(f"/at/{versions[1]}{path}/forgotten").ok()["data"] == {"k": "forgotten-1"}
    assert in_files(server, "writer-of-forgotten")
    assert api.delete(f"{path}/forgotten/history").ok() == {"changes": 4, "objects": 1}
    assert not in_files(server, "forgotten")
    refused = api.get(f"/at/{versions[1]}{path}/forgotten")
    assert (refused.status, refused.message) == (410, "the history of configmaps/forgotten was purged")
    for at in (path, "/api/v1/configmaps"):
        found, warnings = names_at(api, f"/at/{others[0]}{at}")
        assert "remembered" in found
        assert "forgotten" not in found
        assert any("the history of 1 object was purged" in each for each in warnings)
    assert [each.get("purged") for each in api.get(f"{path}/forgotten/history").ok()["versions"]] == [True]
    # Nothing else has changed.
    for number, each in enumerate(others):
        assert api.get(f"/at/{each}{path}/remembered").ok()["data"] == {"k": f"remembered-{number}"}
    assert not names_at(api, f"/at/{others[0]}/api/v1/namespaces")[1]
    assert api.delete(f"{path}/forgotten/history").ok() == {"changes": 0, "objects": 0}
    write(api, path, "forgotten")
    listed = api.get(f"{path}/forgotten/history").ok()["versions"]
    assert [each.get("verb", "") for each in listed] == ["patch", "patch", "create", ""]


def recorded_values(server: ServerProcess, end: str) -> list[bytes]:
    """Returns the values of a key in the history, as its files have them. end: of the key."""
    found: list[bytes] = []
    for file in (server.data_dir / "history").glob("*.history"):
        with contextlib.closing(sqlite3.connect(file)) as history:
            found += [bytes(value) for (value,) in history.execute(_VALUES, (f"*{end}",))]
    return found


@pytest.mark.parametrize("size", [0, deltas.DICTIONARY_BYTES], ids=["small", "large"])
def test_the_content_of_an_object_is_purged(server: ServerProcess, api: Api, size: int) -> None:
    """Whether differences between its versions are compressed, or not, as short ones of large versions."""
    path, name = config_maps("default"), f"content-{size}"
    source = random.Random(size)
    contents = [source.randbytes(24).hex() for _ in range(8)]
    api.post(path, {"metadata": {"name": name}, "data": {"k": "", "large": "x" * size}}).ok()
    for each in contents:
        api.patch(f"{path}/{name}", {"data": {"k": each}}).ok()
    api.delete(f"{path}/{name}").ok()
    # Waits until all is recorded.
    assert len(api.get(f"{path}/{name}/history").ok()["versions"]) == 10
    values = recorded_values(server, f"/configmaps/default/{name}")
    assert len(values) == 9
    # A difference is longer if a second has passed, and the ends may be those of the next one, too.
    readable: list[str | bytes] = [inner for each in contents if in_files(server, inner := each[8:-8])]
    assert len(readable) >= 4 or not size
    assert all(in_files(server, each) for each in values)
    assert api.delete(f"{path}/{name}/history").ok() == {"changes": 10, "objects": 1}
    assert not any(in_files(server, each) for each in [*readable, *values])


def test_a_live_object_stays_as_it_is(server: ServerProcess, api: Api) -> None:
    path = config_maps("default")
    versions = write(api, path, "living")
    api.delete(f"{path}/living/history").ok()
    assert not in_files(server, "living")
    assert api.get(f"{path}/living").ok()["data"] == {"k": "living-2"}
    assert api.get(f"/at/{versions[-1]}{path}/living").ok()["data"] == {"k": "living-2"}
    assert api.get(f"/at/{versions[0]}{path}/living").status == 410
    (only,) = api.get(f"{path}/living/history").ok()["versions"]
    assert only == {"resourceVersion": versions[-1], "recorded": False, "purged": True}
    api.patch(f"{path}/living", {"data": {"k": "living-3"}}).ok()
    assert api.get(f"/at/{versions[-1]}{path}/living").ok()["data"] == {"k": "living-2"}


def test_a_namespace_is_purged_by_the_command(
    server: ServerProcess, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("moved-out", "stays-in"):
        api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
        versions = write(api, config_maps(name), f"of-{name}")
    assert run_history(["purge", "--all-of-namespace=moved-out", f"--kubeconfig={server.kubeconfig}"]) == 0
    assert capsys.readouterr().out.startswith("purged ")
    assert not in_files(server, "moved-out")
    assert in_files(server, "stays-in")
    assert api.get(f"/at/{versions[0]}{config_maps('stays-in')}/of-stays-in").status == 200
    assert api.get(f"/at/{int(versions[0]) - 1}/api/v1/namespaces/moved-out").status == 200
    assert (
        run_history(
            ["purge", "configmap", "of-stays-in", "-n", "stays-in", f"--kubeconfig={server.kubeconfig}"]
        )
        == 0
    )
    assert capsys.readouterr().out == "purged 3 changes of 1 object\n"
    assert not in_files(server, "of-stays-in")


REFUSED: Final = {
    "nothing is named": "/history",
    "both are named": "/history?namespace=a&before=1",
    "a namespace that is no name": "/history?namespace=A/b",
    "a moment that is none": "/history?before=yesterday",
    "a moment in the future": "/history?before=2999-01-01T00:00:00Z",
    "a moment twice": "/history?before=1&before=2",
    "a parameter that a purge would ignore": "/history?before=1&dryRun=All",
    "a parameter of an object": "/api/v1/namespaces/default/configmaps/a/history?dryRun=All",
}


@pytest.mark.parametrize("path", REFUSED.values(), ids=REFUSED)
def test_a_purge_that_is_not_clear_is_refused(api: Api, path: str) -> None:
    answer = api.delete(path)
    assert (answer.status, answer.reason) == (400, "BadRequest")


KIND: Final = {"kind": "DeleteOptions", "apiVersion": "v1"}
BODIES_REFUSED: Final = {
    "a dry run": (json.dumps({**KIND, "dryRun": ["All"]}).encode(), "unknown option 'dryRun' in the body"),
    "a precondition": (b'{"preconditions": {"uid": "a"}}', "unknown option 'preconditions' in the body"),
    "no JSON": (b"dryRun: [All]", "the body is not JSON"),
    "no object": (b"[]", "the body is not a JSON object"),
    "a long one": (b" " * 5000, "the body must have at most 4096 bytes, not 5000"),
}


@pytest.mark.parametrize(("body", "why"), BODIES_REFUSED.values(), ids=BODIES_REFUSED)
def test_a_purge_with_options_in_its_body_is_refused(api: Api, body: bytes, why: str) -> None:
    path = config_maps("default")
    write(api, path, "optional", times=1)
    for purged in (f"{path}/optional/history", "/history?before=1", "/history?namespace=default"):
        answer = api.delete(purged, body)
        assert (answer.status, answer.reason) == (400, "BadRequest")
        assert why in answer.message
    assert api.get(f"{path}/optional/history").ok()["versions"][0]["verb"] == "create"
    # What clients send with every DELETE is no option of a purge.
    assert api.delete(f"{path}/optional/history", {**KIND, "propagationPolicy": "Background"}).status == 200
    api.delete(f"{path}/optional").ok()


def test_what_is_not_recorded_cannot_be_purged(api: Api) -> None:
    for path in ("/history?namespace=unknown", f"{config_maps('default')}/unknown/history"):
        assert api.delete(path).status == 404
    assert api.delete("/history?before=1").ok() == {"changes": 0, "objects": 0}
    assert api.post(f"{config_maps('default')}/unknown/history", {}).status == 405
    assert api.delete(f"/at/1{config_maps('default')}/unknown/history").status == 405


def test_a_purge_needs_its_own_right_and_is_audited(server: ServerProcess, api: Api) -> None:
    path = config_maps("default")
    write(api, path, "guarded")
    reader = grant(
        api, "default", "reader", rule("get list delete", "configmaps"), rule("get", "configmaps/history")
    )
    purger = grant(api, "default", "purger", rule("delete", "configmaps/history"))
    assert api.delete(f"{path}/guarded/history", headers=reader).status == 403
    for user in (reader, purger):
        assert api.delete("/history?before=1", headers=user).status == 403
    assert api.delete(f"{path}/guarded/history", headers=purger).ok() == {"changes": 3, "objects": 1}

    def audited() -> list[dict[str, Any]]:
        lines = (server.data_dir / "audit.log").read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        of_purges = [each for each in events if each["requestURI"] == f"{path}/guarded/history"]
        return [each for each in of_purges if each["stage"] == "ResponseComplete"]

    # An event is written after its response.
    purges = until(audited, lambda found: len(found) == 2)
    assert {(each["impersonatedUser"]["username"], each["responseStatus"]["code"]) for each in purges} == {
        *(("reader", 403), ("purger", 200))
    }
    assert all(each["verb"] == "delete" and each["objectRef"]["subresource"] == "history" for each in purges)


def test_a_purge_does_not_tell_of_earlier_objects_with_the_same_name(api: Api) -> None:
    path = config_maps("default")
    rules = rule("get list", "configmaps"), rule("get", "configmaps/history")
    here, everywhere = grant(api, "default", "here", *rules), grant(api, "", "everywhere", *rules)
    before = write(api, path, "other", times=1)[0]
    first = write(api, path, "again", times=2)[0]
    api.delete(f"{path}/again").ok()
    again = write(api, path, "again", times=2)[0]

    def answers(headers: dict[str, str]) -> list[int]:
        found = [api.get(f"/at/{moment}{path}/again", headers=headers) for moment in (before, first, again)]
        return [each.status for each in found]

    assert (answers(here), answers(everywhere)) == ([404, 404, 200], [404, 200, 200])
    api.delete(f"{path}/again/history").ok()
    # That the object existed then, which exists now, is no secret.
    assert (answers(here), answers(everywhere)) == ([404, 404, 410], [410] * 3)
    api.delete(f"{path}/again").ok()
    assert (answers(here), answers(everywhere)) == ([404] * 3, [410] * 3)


def test_a_list_does_not_count_earlier_objects_that_were_purged(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "counted"}}).ok()
    path = config_maps("counted")
    rules = rule("get list", "configmaps"), rule("get", "configmaps/history")
    users = grant(api, "counted", "here-3", *rules), grant(api, "", "everywhere-3", *rules)
    write(api, path, "deleted", times=1)
    moment = write(api, path, "live", times=2)[0]
    api.delete(f"{path}/deleted").ok()
    for name in ("deleted", "live"):
        api.delete(f"{path}/{name}/history").ok()

    def told() -> list[str]:
        found = [api.get(f"/at/{moment}{path}", headers=user).warnings for user in users]
        return [each.partition("history of ")[2].partition(" was")[0] for (each,) in found]

    assert told() == ["1 object", "2 objects"]


def test_a_purge_does_not_tell_of_an_earlier_namespace(api: Api) -> None:
    namespace, path = "/api/v1/namespaces/reborn", config_maps("reborn")
    api.post("/api/v1/namespaces", {"metadata": {"name": "reborn"}}).ok()
    moment = write(api, path, "a", times=1)[0]
    api.delete(f"{path}/a").ok()
    api.delete(namespace).ok()
    api.put(f"{namespace}/finalize", {"metadata": {"name": "reborn"}, "spec": {"finalizers": []}})
    assert api.get(namespace).status == 404
    api.post("/api/v1/namespaces", {"metadata": {"name": "reborn"}}).ok()
    api.delete(f"{path}/a/history").ok()
    rules = rule("get list", "configmaps"), rule("get", "configmaps/history")
    told = list[Any]()
    for user in (grant(api, "reborn", "here-2", *rules), grant(api, "", "everywhere-2", *rules)):
        listed = api.get(f"/at/{moment}{path}", headers=user)
        told.append((listed.ok()["items"], any("was purged" in each for each in listed.warnings)))
        told.append(api.get(f"/at/{moment}{path}/a", headers=user).status)
    assert told == [([], False), 404, ([], True), 410]


def test_all_before_a_moment_is_purged(server: ServerProcess, api: Api) -> None:
    path = config_maps("default")
    versions = write(api, path, "oldest")
    api.delete(f"{path}/oldest").ok()
    later: dict[str, Any] = api.post(path, {"metadata": {"name": "later"}}).ok()
    begin = later["metadata"]["resourceVersion"]
    assert api.delete(f"/history?before={begin}").ok()["changes"] >= 4
    assert not in_files(server, "oldest")
    refused = api.get(f"/at/{versions[0]}{path}")
    assert refused.status == 410
    assert f"the oldest that can be read is revision {int(begin) - 1}" in refused.message
    assert names_at(api, f"/at/{begin}{path}")[0].count("later") == 1
    assert api.get(f"{path}/later/history").ok()["versions"][0]["verb"] == "create"
    now = api.post(path, {"metadata": {"name": "latest"}}).ok()["metadata"]
    assert api.get(f"/at/{now['resourceVersion']}{path}/latest").status == 200


def test_a_purge_that_could_not_be_completed_is_done_again(tmp_path: Path) -> None:
    """Also if that was done meanwhile, by another purge or a start: what is asked for is so."""
    path = config_maps("moving")
    with ServerProcess(tmp_path, "--history", "--controllers=-*") as server:
        with Api(server) as api:
            api.post("/api/v1/namespaces", {"metadata": {"name": "moving"}}).ok()
            for name in ("one", "other"):
                write(api, path, name)
            # Waits until all is recorded.
            assert len(api.get(f"{path}/other/history").ok()["versions"]) == 3
            (file,) = (tmp_path / "history").glob("*.history")
            with contextlib.closing(sqlite3.connect(file)) as reading:
                reading.execute("BEGIN")
                reading.execute("SELECT count(*) FROM changes").fetchone()
                refused = api.delete(f"{path}/one/history")
                assert (refused.status, "not purged completely" in refused.message) == (503, True)
            assert in_files(server, "writer-of-one")
            assert api.delete(f"{path}/one/history").ok() == {"changes": 0, "objects": 0}
            assert not in_files(server, "writer-of-one")
            assert api.delete("/history?namespace=moving").ok() == {"changes": 4, "objects": 2}
        server.stop()
        server.start()
        with Api(server) as api:
            for again in ("/history?namespace=moving", f"{path}/one/history"):
                assert api.delete(again).ok() == {"changes": 0, "objects": 0}
            assert api.delete("/history?namespace=moved").status == 404


def test_what_was_purged_stays_so_after_a_restart(tmp_path: Path) -> None:
    path = config_maps("default")
    with ServerProcess(tmp_path, "--history") as server:
        with Api(server) as api:
            versions = write(api, path, "gone")
            last = write(api, path, "kept")
            api.delete(f"{path}/gone").ok()
            api.delete(f"{path}/gone/history").ok()
        server.stop()
        assert not in_files(server, "writer-of-gone")
        server.start()
        with Api(server) as api:
            assert api.get(f"/at/{versions[0]}{path}/gone").status == 410
            assert api.get(f"/at/{last[0]}{path}/kept").ok()["data"] == {"k": "kept-0"}
