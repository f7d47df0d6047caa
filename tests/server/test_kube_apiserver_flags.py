"""Scripts that start kube-apiserver start this server: by its name, with its flags, with its files."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import until
from tests.support.objects import pod
from tests.support.ports import free_port

ADDRESS: Final = ipaddress.ip_address("127.0.0.1")
WITHIN_S: Final = 60.0
ROOT: Final = Path(__file__).parents[2]


class Authority:
    """A CA as the control plane of controller-runtime's envtest makes one: with RSA keys."""

    def __init__(self, name: str) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))

    def issue(self, name: str, directory: Path, file: str, *, groups: tuple[str, ...] = ()) -> None:
        """Write a certificate for 127.0.0.1 and its key."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        here = x509.SubjectAlternativeName([x509.IPAddress(ADDRESS)])
        (directory / f"{file}.crt").write_bytes(self._sign(subject, key, here).public_bytes(Encoding.PEM))
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (directory / f"{file}.key").write_bytes(pem)

    def write(self, path: Path) -> None:
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def _sign(
        self, subject: x509.Name, key: rsa.RSAPrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=7))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


@contextmanager
def kube_apiserver(directory: Path, *flags: str) -> Iterator[Path]:
    """The server under kube-apiserver's name: a link to a program as its installation makes it.

    Yields the file with what it logs.
    """
    program = directory / "apiserver"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom apiserver.__main__ import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    link = directory / "kube-apiserver"
    link.symlink_to(program)
    log = directory / "log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [link, *flags], cwd=directory, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            yield log
            process.terminate()
            assert process.wait(WITHIN_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


class Client:
    """Verifies the server by a CA, and shows a certificate or a token."""

    def __init__(self, port: int, ca: Path, certificate: Path | None = None, token: str = "") -> None:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate.with_suffix(".crt"), certificate.with_suffix(".key"))
        self._port, self._context = port, context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._context, timeout=WITHIN_S
        )
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, self._headers)
            response = connection.getresponse()
            content = response.read()
            is_json = response.getheader("Content-Type", "").startswith("application/json")
            return response.status, json.loads(content) if is_json else content
        finally:
            connection.close()

    def is_ready(self) -> bool:
        try:
            return self.send("GET", "/readyz") == (200, b"ok")
        except OSError:
            return False


@pytest.mark.etcd
def test_a_start_as_envtest_does_it(tmp_path: Path, etcd: EtcdProcess) -> None:
    """Source: sigs.k8s.io/controller-runtime, pkg/internal/testing/controlplane/apiserver.go."""
    certs, port = tmp_path / "certs", free_port()
    certs.mkdir()
    serving, clients, tokens = (Authority(name) for name in ("envtest-environment", "clients", "tokens"))
    serving.write(tmp_path / "ca.crt")
    serving.issue("localhost", certs, "apiserver")
    clients.write(certs / "client-cert-auth-ca.crt")
    clients.issue("admin", tmp_path, "admin", groups=("system:masters",))
    tokens.issue("sa-signer", certs, "sa-signer")
    before = (certs / "apiserver.crt").read_bytes()
    flags = (
        "--advertise-address=127.0.0.1",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        f"--cert-dir={certs}",
        f"--client-ca-file={certs / 'client-cert-auth-ca.crt'}",
        "--disable-admission-plugins=ServiceAccount",
        f"--etcd-servers={etcd.url}",
        f"--secure-port={port}",
        f"--service-account-issuer=https://127.0.0.1:{port}/",
        f"--service-account-key-file={certs / 'sa-signer.crt'}",
        f"--service-account-signing-key-file={certs / 'sa-signer.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--insecure-port=0",
    )
    with kube_apiserver(tmp_path, *flags) as log:
        admin = Client(port, tmp_path / "ca.crt", tmp_path / "admin")
        until(admin.is_ready, what=f"it is ready: {log}", within_s=WITHIN_S)
        assert admin.send("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})[0] == 201
        # No controller makes a service account, as there.
        accounts = "/api/v1/namespaces/mine/serviceaccounts"
        assert admin.send("GET", accounts)[1]["items"] == []
        assert admin.send("POST", "/api/v1/namespaces/mine/pods", pod())[0] == 201
        assert admin.send("POST", accounts, {"metadata": {"name": "bot"}})[0] == 201
        made = admin.send("POST", f"{accounts}/bot/token", {"spec": {}})[1]["status"]["token"]
        assert Client(port, tmp_path / "ca.crt", token=made).send("GET", accounts)[0] == 403
        service = admin.send("GET", "/api/v1/namespaces/default/services/kubernetes")[1]
        assert service["spec"]["clusterIP"] == "10.0.0.1"
        # What was there is used as it is, and everything else is below that directory.
        assert (certs / "apiserver.crt").read_bytes() == before
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"certs"}


def test_the_serving_certificate_is_made_in_the_directory(tmp_path: Path) -> None:
    """A client that trusts what lies there reaches the server; a restart keeps it."""
    certs, port = tmp_path / "certs", free_port()
    flags = (f"--cert-dir={certs}", f"--secure-port={port}", "--bind-address=127.0.0.1")
    with kube_apiserver(tmp_path, *flags):
        ca = certs / "apiserver-data" / "pki" / "ca.crt"
        until(ca.exists, what="it has a CA", within_s=WITHIN_S)
        until(Client(port, ca).is_ready, what="it is ready", within_s=WITHIN_S)
        made = x509.load_pem_x509_certificate((certs / "apiserver.crt").read_bytes())
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "10.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
        assert not (ca.parent / "apiserver.crt").exists()
        modes = {path.stat().st_mode & 0o777 for path in certs.iterdir() if path.is_file()}
        assert modes == {0o600}


VERSIONS: Final = {
    "under its name": (["kube-apiserver", "--version"], b"Kubernetes v1."),
    "under ours": (["--version"], b"apiserver "),
}


@pytest.mark.parametrize(("arguments", "printed"), VERSIONS.values(), ids=VERSIONS)
def test_the_version_is_that_of_the_program(arguments: list[str], printed: bytes) -> None:
    command = [sys.executable, "-m", "apiserver", *arguments]
    assert subprocess.run(command, check=True, capture_output=True).stdout.startswith(printed)
