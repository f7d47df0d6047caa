"""The server takes what the deployment files give it, and they give it what replicas need."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from apiserver import __version__
from apiserver.cli import flag_values
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.cli.kube_apiserver_flags import NOT_NEEDED
from tests.deploy.artefacts import (
    DEPLOY,
    REPLICAS,
    compose,
    dockerfile,
    file_flags,
    manifests,
    server_flags,
    unit,
    yaml_documents,
)

FLAGS: Final = server_flags()
# What all replicas have to agree on, or a client of one is a stranger to the others.
SHARED: Final = frozenset(
    {
        "tls-cert-file",
        "tls-private-key-file",
        "client-ca-file",
        "token-auth-file",
        "service-account-issuer",
        "service-account-key-file",
        "service-account-signing-key-file",
    }
)


def parsed(where: str, directory: Path) -> Config:
    """What the server makes of the flags; the files that they name are stood in for."""
    flags = FLAGS[where]
    for _, path in file_flags(flags):
        stand_in = directory / path.lstrip("/")
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.touch()
        flags = [flag.replace(f"={path}", f"={stand_in}") for flag in flags]
    return parse(flags)


@pytest.mark.parametrize("where", FLAGS)
def test_every_flag_is_one_that_the_server_heeds(where: str, tmp_path: Path) -> None:
    assert parsed(where, tmp_path).warnings == ()


@pytest.mark.parametrize("where", FLAGS)
def test_it_listens_for_other_machines_on_the_port_that_is_published(where: str, tmp_path: Path) -> None:
    made = parsed(where, tmp_path)
    assert (made.serving.bind_address, made.serving.secure_port) == ("0.0.0.0", 6443)


@pytest.mark.parametrize("where", [where for where in FLAGS if "compose" in where or "kubernetes" in where])
def test_replicas_share_whatever_the_server_lets_them_share(where: str, tmp_path: Path) -> None:
    """Fails when the server learns a flag of these, until the deployments use it."""
    heeded = {flag for flag in SHARED if flag not in NOT_NEEDED}
    given = {flag.removeprefix("--").partition("=")[0] for flag in FLAGS[where]}
    assert heeded <= given
    assert parsed(where, tmp_path).storage.etcd_servers


# Row N09: after SIGTERM the delay, then the end of watches, then what is under way.
KILLED_AFTER: Final = {
    **{f"docker-compose.yml, {name}": compose()["services"][name]["stop_grace_period"] for name in REPLICAS},
    "deploy/kubernetes/server/deployment.yaml": (
        f"{manifests()['deployment']['spec']['template']['spec']['terminationGracePeriodSeconds']}s"
    ),
    "deploy/systemd/apiserver.service": unit()["Service"]["TimeoutStopSec"][0],
}


@pytest.mark.parametrize(("where", "killed_after"), KILLED_AFTER.items(), ids=KILLED_AFTER)
def test_a_server_has_the_time_to_finish(where: str, killed_after: str, tmp_path: Path) -> None:
    serving = parsed(where, tmp_path).serving
    assert serving.shutdown_delay_s > 0
    assert serving.shutdown_watch_termination_grace_s > 0
    needed_s = serving.shutdown_delay_s + serving.shutdown_watch_termination_grace_s
    assert flag_values.duration_s(killed_after) > needed_s + serving.request_timeout_s


def test_a_start_that_waits_for_the_store_is_not_cut_short(tmp_path: Path) -> None:
    """Row N08: /livez has to fail for as long as the probes allow before a server is started anew."""
    container = manifests()["deployment"]["spec"]["template"]["spec"]["containers"][0]
    made = parsed("deploy/kubernetes/server/deployment.yaml", tmp_path)
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= made.serving.livez_grace_period_s


def test_a_config_file_and_the_lines_that_it_offers_are_understood(tmp_path: Path) -> None:
    """The unit's config.yaml, with what is commented out there taken in."""
    text = (DEPLOY / "systemd" / "config.yaml").read_text()
    with_offers = "\n".join(
        line.removeprefix("# ") if line.startswith(("# etcd-", "# audit-")) else line
        for line in text.splitlines()
    )
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).touch()
    path = tmp_path / "config.yaml"
    (logs,) = unit()["Service"]["LogsDirectory"]
    assert f"/var/log/{logs}/audit.log" in with_offers, "the unit can write nowhere else"
    policy = str(DEPLOY / "audit-policy.yaml")
    with_offers = with_offers.replace("/etc/apiserver/audit-policy.yaml", policy)
    path.write_text(with_offers.replace("/etc/apiserver/etcd", str(tmp_path)))
    made = parse([f"--config={path}"])
    assert (len(made.storage.etcd_servers), made.storage.etcd_cafile) == (3, tmp_path / "ca.crt")
    assert made.warnings == ()


def test_one_version_everywhere() -> None:
    (label,) = [rest for name, rest in dockerfile()[-1] if name == "ARG" and rest.startswith("VERSION=")]
    tags = {compose()["services"][name]["image"] for name in ("prepare", *REPLICAS)}
    container = manifests()["deployment"]["spec"]["template"]["spec"]["containers"][0]
    (kustomization,) = yaml_documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    assert label == f"VERSION={__version__}"
    assert tags == {container["image"]} == {f"apiserver:{__version__}"}
    assert kustomization["images"][0]["newTag"] == __version__


def test_the_unit_runs_the_program_that_its_installation_makes() -> None:
    program = shlex.split(unit()["Service"]["ExecStart"][0])[0]
    assert Path(program).name == "apiserver"
    assert (Path(sys.executable).parent / "apiserver").exists()
    assert f"python3 -m venv {Path(program).parents[1]}" in (DEPLOY / "README.md").read_text()
