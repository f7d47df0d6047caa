"""Two servers on one etcd with what prepare.py makes and the flags of docker-compose.yml: they act as one."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509

from tests.deploy.artefacts import DEPLOY, REPLICAS, compose
from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.eventually import WITHIN_S
from tests.support.required import missing
from tests.support.server_process import ServerProcess

SERVICES: Final = compose()["services"]


def prepare(directory: Path, *more: str) -> str:
    """What prepare.py prints, called as docker-compose.yml calls it."""
    flags = [flag for flag in SERVICES["prepare"]["entrypoint"] if flag.startswith("--")]
    flags = [flag.replace("=/etc/apiserver", f"={directory}") for flag in flags]
    script = [sys.executable, str(DEPLOY / "prepare.py"), *flags, *more]
    return subprocess.run(script, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    prepare(tmp_path)
    return tmp_path


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


# ---- what prepare.py makes


def test_the_servers_and_prometheus_get_what_they_need_and_no_more(prepared: Path) -> None:
    made = set(contents(prepared))
    assert {name for name in made if name.startswith("serving/")} == {
        "serving/ca.crt",
        "serving/tls.crt",
        "serving/tls.key",
        "serving/sa.key",
        "serving/tokens.csv",
    }
    assert {name for name in made if name.startswith("scrape/")} == {"scrape/ca.crt", "scrape/token"}


def test_keys_are_for_their_owner_only(prepared: Path) -> None:
    secrets = [path for path in prepared.rglob("*") if path.is_file() and path.parent.name != "scrape"]
    assert secrets
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


def test_prometheus_can_read_its_token_as_another_user(prepared: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in (prepared / "scrape").iterdir()} == {0o644}


def test_the_certificate_names_the_replicas(prepared: Path) -> None:
    certificate = x509.load_pem_x509_certificate((prepared / "serving" / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {*REPLICAS, "localhost"} <= set(names.get_values_for_type(x509.DNSName))


def test_what_is_good_is_kept(prepared: Path) -> None:
    before = contents(prepared)
    prepare(prepared)
    assert contents(prepared) == before


def test_an_authority_that_cannot_be_used_is_left_alone(prepared: Path) -> None:
    """All who trust it would be locked out by another."""
    (prepared / "authority" / "ca.crt").write_text("damaged")
    before = contents(prepared)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        prepare(prepared)
    assert failed.value.stderr.startswith("prepare: ")
    assert contents(prepared) == before


def test_a_new_name_changes_the_certificate_and_not_the_authority(prepared: Path) -> None:
    before = contents(prepared)
    prepare(prepared, "--name=apiserver.example.com")
    changed = {name for name, content in contents(prepared).items() if content != before[name]}
    assert changed == {
        "authority/apiserver.crt",
        "authority/apiserver.key",
        "serving/tls.crt",
        "serving/tls.key",
    }


def test_tokens_of_others_stay_when_prometheus_gets_a_new_one(prepared: Path) -> None:
    tokens = prepared / "serving" / "tokens.csv"
    tokens.write_text('secret,alice,1,"dev,ops"\n' + tokens.read_text())
    before = (prepared / "scrape" / "token").read_text()
    (prepared / "scrape" / "token").unlink()
    prepare(prepared)
    alice, prometheus = tokens.read_text().splitlines()
    assert alice == 'secret,alice,1,"dev,ops"'
    assert prometheus.startswith((prepared / "scrape" / "token").read_text() + ",prometheus,")
    assert before not in tokens.read_text()


def test_the_kubeconfig_is_printed_for_whoever_asks(tmp_path: Path) -> None:
    assert prepare(tmp_path) == ""
    printed = yaml.safe_load(prepare(tmp_path, "--print-kubeconfig"))
    (published,) = SERVICES[REPLICAS[0]]["ports"]
    assert printed["clusters"][0]["cluster"]["server"] == f"https://{published.rpartition(':')[0]}"


# ---- two servers


@dataclass
class Deployment:
    directory: Path
    servers: dict[str, ServerProcess]

    def ask(
        self, name: str, method: str, path: str, body: Any = None, *, token: str = ""
    ) -> tuple[int, bytes]:
        """What one replica answers to the bearer of a token, or to the administrator if none is given."""
        where = urlsplit(self.servers[name].url)
        context = ssl.create_default_context(cafile=self.directory / "scrape" / "ca.crt")
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        else:
            context.load_cert_chain(*self._administrator())
        connection = http.client.HTTPSConnection("127.0.0.1", where.port, context=context, timeout=WITHIN_S)
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _administrator(self) -> tuple[Path, Path]:
        """The certificate and key of the kubeconfig, in files."""
        kubeconfig = yaml.safe_load((self.directory / "authority" / "admin.kubeconfig").read_text())
        user = kubeconfig["users"][0]["user"]
        files = (self.directory / "client.crt", self.directory / "client.key")
        for file, key in zip(files, ("client-certificate-data", "client-key-data"), strict=True):
            file.write_bytes(base64.b64decode(user[key]))
        return files


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    binaries = etcd_binaries()
    if not binaries:
        missing("etcd")
    directory = tmp_path_factory.mktemp("deployment")
    prepare(directory)
    etcd = EtcdProcess(next(iter(binaries.values())), tmp_path_factory.mktemp("etcd")).start()
    servers = {}
    try:
        for name in REPLICAS:
            flags = [flag.replace("=/etc/apiserver", f"={directory}") for flag in SERVICES[name]["command"]]
            flags = [flag for flag in flags if not flag.startswith("--etcd-servers=")]
            data = tmp_path_factory.mktemp(name)
            servers[name] = ServerProcess(data, *flags, f"--etcd-servers={etcd.url}").start()
        yield Deployment(directory, servers)
    finally:
        for server in servers.values():
            server.kill()
        etcd.stop()


@pytest.mark.etcd
def test_what_one_replica_writes_the_other_reads(deployment: Deployment) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "shared"}}
    assert deployment.ask(REPLICAS[0], "POST", path, body)[0] == 201
    assert deployment.ask(REPLICAS[1], "GET", f"{path}/shared")[0] == 200


@pytest.mark.etcd
@pytest.mark.parametrize("name", REPLICAS)
def test_prometheus_may_scrape_and_no_more(deployment: Deployment, name: str) -> None:
    """Row N11."""
    token = (deployment.directory / "scrape" / "token").read_text()
    status, body = deployment.ask(name, "GET", "/metrics", token=token)
    assert (status, b"apiserver_storage_objects" in body) == (200, True)
    assert deployment.ask(name, "GET", "/api/v1/secrets", token=token)[0] == 403
    assert deployment.ask(name, "GET", "/metrics", token="another")[0] == 401


@pytest.mark.etcd
@pytest.mark.parametrize("name", REPLICAS)
def test_the_check_of_docker_compose_passes(deployment: Deployment, name: str) -> None:
    check = SERVICES[name]["healthcheck"]["test"]
    url = f"{deployment.servers[name].url}{urlsplit(check[-1]).path}"
    script = [sys.executable, "-I", str(DEPLOY / Path(check[-2]).name), url]
    assert subprocess.run(script, check=False, capture_output=True).returncode == 0
