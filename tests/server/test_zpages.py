"""/statusz, /flagz and /metrics/slis. Source: k8s.io/apiserver, pkg/server/{statusz,flagz} (release 1.36).

Answers were compared with kube-apiserver's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from apiserver.wire import cbor
from tests.support.api import Api
from tests.support.audit import audit_flags
from tests.support.server_process import ServerProcess

PATHS: Final = ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"]
WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)
KINDS: Final = {"/statusz": "Statusz", "/flagz": "Flagz"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def api(directory: Path) -> Iterator[Api]:
    flags = ("--event-ttl=90m", "--watch-cache-sizes=pods#5", *audit_flags(directory))
    with ServerProcess(directory / "data", *flags) as server, Api(server) as api:
        yield api


def accept(path: str, media_type: str = "application/json", version: str = "v1beta1") -> dict[str, str]:
    return {"Accept": f"{media_type};v={version};g=config.k8s.io;as={KINDS[path]}"}


@pytest.mark.parametrize("accepted", [None, "*/*", "text/plain", "text/*", "text/html, text/plain;q=0.5"])
@pytest.mark.parametrize("path", KINDS)
def test_text_for_people(api: Api, path: str, accepted: str | None) -> None:
    answer = api.get(path, headers={} if accepted is None else {"Accept": accepted})
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    first, component, warning, *lines = answer.body.decode().split("\n")
    assert (first, component, warning) == ("", f"apiserver {path[1:]}", WARNING)
    if path == "/statusz":
        names = ("Started", "Up", "Go version", "Binary version", "Emulation version", "Paths")
        (separator,) = {
            re.match(f"({name})(: |:|=| ) ", line)[2]  # type: ignore[index]
            for name, line in zip(names, lines[1:], strict=False)
        }
        assert lines[0] == ""
        assert lines[4] == f"Binary version{separator} 1.36"
        assert lines[6] == f"Paths{separator} {' '.join(PATHS)}"
        assert re.fullmatch(r"Up.{1,2} \d+ hr \d\d min \d\d sec", lines[2])
    else:
        assert re.fullmatch("event-ttl(: |:|=| )1h30m0s", next(each for each in lines if "event-ttl" in each))


@pytest.mark.parametrize("media_type", ["application/json", "application/yaml"])
def test_objects_for_programs(api: Api, media_type: str) -> None:
    answer = api.get("/statusz", headers=accept("/statusz", media_type))
    assert answer.headers["content-type"] == f"{media_type};g=config.k8s.io;v=v1beta1;as=Statusz"
    found = yaml.safe_load(answer.body)
    assert found.pop("uptimeSeconds") >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(found.pop("startTime")))
    assert found.pop("goVersion") == api.get("/version").json["goVersion"]
    assert found == {
        "kind": "Statusz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "apiserver"},
        "binaryVersion": "1.36",
        "emulationVersion": "1.36",
        "paths": PATHS,
    }
    answer = api.get("/flagz", headers=accept("/flagz", media_type))
    assert answer.headers["content-type"] == f"{media_type};g=config.k8s.io;v=v1beta1;as=Flagz"
    found = yaml.safe_load(answer.body)
    flags = found.pop("flags")
    assert found == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "apiserver"},
    }
    wanted = {"event-ttl": "1h30m0s", "watch-cache-sizes": "[pods#5]", "authorization-mode": "[RBAC]"}
    assert {name: flags[name] for name in wanted} == wanted


@pytest.mark.parametrize("path", KINDS)
def test_the_older_version_is_deprecated(api: Api, path: str) -> None:
    answer = api.get(path, headers=accept(path, version="v1alpha1"))
    assert answer.json["apiVersion"] == "config.k8s.io/v1alpha1"
    assert answer.headers["warning"] == (
        f'299 - "This version of the {path[1:]} endpoint is deprecated. Please use a newer version."'
    )


NOT_ACCEPTABLE: Final = {
    "no version": "application/json",
    "any of applications": "application/*",
    "another version": "application/json;v=v1;g=config.k8s.io;as=Statusz",
    "another group": "application/json;v=v1beta1;g=meta.k8s.io;as=Statusz",
    "another kind": "application/json;v=v1beta1;g=config.k8s.io;as=Table",
    "protobuf": "application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Statusz",
    "CBOR without its gate": "application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz",
    "text of a version": "text/plain;v=v1beta1;g=config.k8s.io;as=Statusz",
    "something else": "text/html",
}


@pytest.mark.parametrize("accepted", NOT_ACCEPTABLE.values(), ids=NOT_ACCEPTABLE)
def test_what_is_not_acceptable(api: Api, accepted: str) -> None:
    answer = api.get("/statusz", headers={"Accept": accepted})
    assert answer.status == 406
    assert answer.message == (
        "only the following media types are accepted: application/json, application/yaml, text/plain"
    )


def test_who_may_ask(api: Api, directory: Path) -> None:
    """Any method, if it is authorized; monitors may. Requests are recorded as all are."""
    for path in (*KINDS, "/metrics/slis"):
        with api.as_caller("alice-token") as alice:
            nobody = alice.get(path)
        assert (nobody.status, nobody.message) == (403, f'forbidden: User "alice" cannot get path "{path}"')
        monitor = {"Impersonate-User": "m", "Impersonate-Group": "system:monitoring"}
        assert api.get(path, headers=monitor).status == 200
        assert path in api.get("/").json["paths"]
        assert api.get(f"{path}/x").status == 404
    for path in KINDS:
        assert api.post(path, {}).status == 200
        assert api.get(f"{path}/").status == 404
    assert api.post("/metrics/slis", {}).status == 405
    recorded = [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]
    assert {each["verb"] for each in recorded if each["requestURI"] == "/statusz"} >= {"get", "post"}


def test_the_results_of_health_checks(api: Api) -> None:
    def told() -> dict[str, str]:
        lines = api.get("/metrics/slis").body.decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    total = 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"}'
    before = int(told().get(total, "0"))
    assert api.get("/livez?exclude=etcd").status == 200
    after = told()
    assert int(after[total]) == before + 1
    assert after['kubernetes_healthcheck{name="ping",type="livez"}'] == "1"
    assert 'kubernetes_healthcheck{name="etcd",type="livez"}' not in after  # It was left out.
    # One check alone is not counted.
    assert api.get("/livez/ping").status == 200
    assert told()[total] == after[total]
    text = api.get("/metrics/slis").body.decode()
    help_ = "This metric records the result of a single healthcheck."
    assert f"# HELP kubernetes_healthcheck [STABLE] {help_}\n# TYPE kubernetes_healthcheck gauge\n" in text
    assert float(told()["process_start_time_seconds"]) > 0


GATES: Final[dict[str, tuple[list[str], dict[str, int], Any]]] = {
    "off": (
        ["--feature-gates=ComponentStatusz=false,ComponentFlagz=false"],
        {"/statusz": 404, "/flagz": 404, "/metrics/slis": 200},
        None,
    ),
    "one of them": (
        ["--feature-gates=ComponentFlagz=false"],
        {"/statusz": 200, "/flagz": 404, "/metrics/slis": 200},
        None,
    ),
    "before their release": (
        ["--emulated-version=1.35"],
        {"/statusz": 404, "/flagz": 404, "/metrics/slis": 200},
        None,
    ),
    "turned on before it, with the version that there was": (
        ["--emulated-version=1.35", "--feature-gates=ComponentStatusz=true"],
        {"/statusz": 200, "/flagz": 404, "/metrics/slis": 200},
        {"v1alpha1": 200, "v1beta1": 406},
    ),
    "only text, earlier": (
        ["--emulated-version=1.33", "--feature-gates=ComponentStatusz=true"],
        {"/statusz": 200, "/flagz": 404, "/metrics/slis": 200},
        {"v1alpha1": 406, "v1beta1": 406},
    ),
    "no results of health checks": (
        ["--emulated-version=1.25"],
        {"/statusz": 404, "/flagz": 404, "/metrics/slis": 404},
        None,
    ),
}


@pytest.mark.parametrize(("flags", "statuses", "versions"), GATES.values(), ids=GATES)
def test_the_gates(tmp_path: Path, flags: list[str], statuses: dict[str, int], versions: Any) -> None:
    with ServerProcess(tmp_path, *flags) as server, Api(server) as api:
        assert {path: api.get(path).status for path in statuses} == statuses
        for version, status in (versions or {}).items():
            assert api.get("/statusz", headers=accept("/statusz", version=version)).status == status
        role = api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:monitoring").ok()
        urls = role["rules"][0]["nonResourceURLs"]
        assert [path for path in KINDS if path in urls] == [path for path in KINDS if statuses[path] == 200]


def test_cbor_behind_its_gate(tmp_path: Path) -> None:
    gate = "--feature-gates=CBORServingAndStorage=true"
    with ServerProcess(tmp_path, gate) as server, Api(server) as api:
        answer = api.get("/statusz", headers=accept("/statusz", "application/cbor"))
        assert answer.headers["content-type"] == "application/cbor;g=config.k8s.io;v=v1beta1;as=Statusz"
        assert cbor.load(answer.body)["kind"] == "Statusz"
