"""docker-compose.yml: its form, what confines its services, and that its parts fit together."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from apiserver.cli.flag_values import duration_s
from tests.deploy.artefacts import DEPLOY, REPLICAS, ROOT, compose, dockerfile, file_flags, yaml_documents

SERVICES: Final[dict[str, Any]] = compose()["services"]
ETCD: Final = ("etcd-1", "etcd-2", "etcd-3")


def test_it_is_of_the_form_of_the_compose_specification() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    said = subprocess.run(
        [*check, "docker-compose.yml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_docker_itself_takes_it() -> None:
    program = shutil.which("docker")
    if program is None or subprocess.run([program, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is missing: https://docs.docker.com/compose/install/")
    said = subprocess.run(
        [program, "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")


# ---- each service


def images_are_pinned(service: Any) -> bool:
    return re.search(r":v?\d+\.\d+\.\d+$", service["image"]) is not None


def is_checked(service: Any) -> bool:
    check = service["healthcheck"]
    return check == {"disable": True} or (
        check["test"][0] == "CMD" and {"interval", "timeout", "retries", "start_period"} <= set(check)
    )


# https://cheatsheetseries.owasp.org/cheatsheets/Docker_Security_Cheat_Sheet.html
RULES: Final[dict[str, Callable[[Any], bool]]] = {
    "image is of one release": images_are_pinned,
    "root file system is not written": lambda service: service["read_only"] is True,
    "capabilities are none": lambda service: service["cap_drop"] == ["ALL"] and "cap_add" not in service,
    "privileges are not gained": lambda service: service["security_opt"] == ["no-new-privileges:true"],
    "privileges are not had": lambda service: not {"privileged", "pid", "ipc", "devices"} & set(service),
    "processor, memory and processes are limited": lambda service: (
        {"cpus", "memory", "pids"} == set(service["deploy"]["resources"]["limits"])
    ),
    "logs do not fill the disk": lambda service: (
        {"max-size", "max-file"} == set(service["logging"]["options"])
    ),
    "health is checked without a shell": is_checked,
    "restart is decided": lambda service: service["restart"] in ("unless-stopped", "no"),
    "ports are open to this machine only": lambda service: all(
        port.startswith("127.0.0.1:") for port in service.get("ports", ())
    ),
    "the engine's socket is out of reach": lambda service: "docker.sock" not in str(service.get("volumes")),
    "environment holds no secrets": lambda service: (
        not re.search(r"(?i)password|secret|private", str(service.get("environment", {})))
    ),
}


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_service(rule: Callable[[Any], bool], name: str) -> None:
    assert rule(SERVICES[name])


# ---- how they fit together


def reaches(service: str, other: str) -> bool:
    """Whether a service finds the other by its name."""
    return other in SERVICES and bool(set(SERVICES[service]["networks"]) & set(SERVICES[other]["networks"]))


def test_each_etcd_member_knows_all() -> None:
    for name in ETCD:
        environment = SERVICES[name]["environment"]
        members = dict(member.split("=") for member in environment["ETCD_INITIAL_CLUSTER"].split(","))
        assert set(members) == set(ETCD)
        assert environment["ETCD_NAME"] == name
        assert environment["ETCD_INITIAL_ADVERTISE_PEER_URLS"] == members[name]
        assert {urlsplit(url).hostname for url in members.values()} == set(ETCD)
        assert urlsplit(environment["ETCD_ADVERTISE_CLIENT_URLS"]).hostname == name


def test_etcd_is_out_of_reach_from_outside() -> None:
    assert compose()["networks"]["etcd"]["internal"] is True
    for name in ETCD:
        assert SERVICES[name]["networks"] == ["etcd"]
        assert "ports" not in SERVICES[name]


def test_the_members_keep_their_data_apart() -> None:
    sources = [volume["source"] for name in ETCD for volume in SERVICES[name]["volumes"]]
    assert len(set(sources)) == len(ETCD)
    for name in ETCD:
        (volume,) = SERVICES[name]["volumes"]
        assert SERVICES[name]["environment"]["ETCD_DATA_DIR"].startswith(volume["target"])


@pytest.mark.parametrize("name", REPLICAS)
def test_a_replica_uses_all_members_and_waits_for_them(name: str) -> None:
    (urls,) = [flag for flag in SERVICES[name]["command"] if flag.startswith("--etcd-servers=")]
    hosts = {urlsplit(url).hostname for url in urls.removeprefix("--etcd-servers=").split(",")}
    assert hosts == set(ETCD)
    assert all(reaches(name, member) for member in ETCD)
    assert SERVICES[name]["depends_on"] == {
        "prepare": {"condition": "service_completed_successfully"},
        **{member: {"condition": "service_healthy"} for member in ETCD},
    }


def test_replicas_differ_in_their_ports_only() -> None:
    first, second = ({**SERVICES[name], "ports": None} for name in REPLICAS)
    assert first == second
    assert len({port for name in REPLICAS for port in SERVICES[name]["ports"]}) == len(REPLICAS)


@pytest.mark.parametrize("name", REPLICAS)
def test_a_replica_reads_its_files_and_cannot_write_them(name: str) -> None:
    mounts = {volume["target"]: volume for volume in SERVICES[name]["volumes"]}
    paths = [path for _, path in file_flags(SERVICES[name]["command"])]
    assert paths
    for path in paths:
        directory = path.rpartition("/")[0]
        assert mounts[directory]["read_only"] is True
    assert "authority" not in {mount["source"] for mount in mounts.values()}


def test_the_certificate_names_every_replica() -> None:
    assert {f"--name={name}" for name in REPLICAS} <= set(SERVICES["prepare"]["entrypoint"])
    assert SERVICES["prepare"]["hostname"]


def test_new_volumes_belong_to_the_user_that_writes_them() -> None:
    """An empty volume takes its owner from the directory of the image that it is mounted on."""
    made = "\n".join(rest for name, rest in dockerfile()[-1] if name == "RUN")
    for volume in SERVICES["prepare"]["volumes"]:
        assert re.search(rf"install --directory --owner=65532 [^&]*{volume['target']}\b", made)


def test_prometheus_scrapes_every_replica_and_member() -> None:
    (config,) = yaml_documents(DEPLOY / "prometheus" / "prometheus.yml")
    targets = {
        job["job_name"]: [
            target.split(":")[0] for each in job["static_configs"] for target in each["targets"]
        ]
        for job in config["scrape_configs"]
    }
    assert targets == {"apiserver": list(REPLICAS), "etcd": list(ETCD)}
    assert all(reaches("prometheus", name) for names in targets.values() for name in names)


def test_prometheus_finds_what_it_is_told_to_read() -> None:
    mounts = {volume["target"]: volume for volume in SERVICES["prometheus"]["volumes"]}
    (config,) = yaml_documents(DEPLOY / "prometheus" / "prometheus.yml")
    job = config["scrape_configs"][0]
    assert mounts["/etc/apiserver/scrape"]["source"] == "scrape"
    assert mounts["/etc/prometheus"]["source"] == "./deploy/prometheus"
    assert job["tls_config"] == {"ca_file": "/etc/apiserver/scrape/ca.crt"}
    assert job["authorization"] == {"credentials_file": "/etc/apiserver/scrape/token"}
    assert all((DEPLOY / "prometheus" / name).is_file() for name in config["rule_files"])


def test_every_volume_and_network_is_declared_and_used() -> None:
    volumes = {v["source"] for s in SERVICES.values() for v in s.get("volumes", ()) if v["type"] == "volume"}
    networks = {network for service in SERVICES.values() for network in service.get("networks", ())}
    assert (volumes, networks) == (set(compose()["volumes"]), set(compose()["networks"]))


@pytest.mark.parametrize("name", [name for name in SERVICES if "depends_on" in SERVICES[name]])
def test_whoever_is_waited_for_can_become_healthy(name: str) -> None:
    for other, how in SERVICES[name]["depends_on"].items():
        check = SERVICES[other]["healthcheck"]
        if how["condition"] == "service_healthy":
            assert duration_s(check["timeout"]) > 0
        else:
            assert (check, SERVICES[other]["restart"]) == ({"disable": True}, "no")
