"""What envtest and its ports do with the programs that they start, by their versions.

Each `Contract` is a table of facts; `ControlPlane` does by it what those libraries do: the flags in their
order and form, the probes by `--help`, the intervals and the time limits of health checks, where output
goes, and which signals stop what. Sources, read at each version that is named:

sigs.k8s.io/controller-runtime  pkg/internal/testing/{process,controlplane}, before 0.9
                                pkg/internal/testing/integration, before 0.6 sigs.k8s.io/testing_frameworks
jenvtest, kube-api-test         io.javaoperatorsdk.jenvtest.process, io.fabric8.kubeapitest.process
envtest-js                      src/controlplane
Kubernetes.EnvTest (.NET)       src/Kubernetes.EnvTest
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from tests.support.eventually import WITHIN_S
from tests.support.ports import free_port

HOST: Final = "127.0.0.1"
ADMIN: Final = ("system:masters",)


class DidNotStart(Exception):
    """A program ended before it was ready, or was not in time."""


class Check(NamedTuple):
    """How it is seen that a program is ready.

    url: what is asked, without a certificate unless `shows_certificate`. message: what it writes to stderr,
    instead. body: what JSON has to be answered. within_s: what the library gives it; here that bounds the
    processor time, and the wait is longer, since other tests use the machine, too.
    """

    url: str = ""
    message: str = ""
    body: Mapping[str, str] | None = None
    shows_certificate: bool = False
    every_s: float = 0.1
    within_s: float = 20.0


class Stop(NamedTuple):
    """How a program is stopped."""

    by: signal.Signals = signal.SIGTERM
    whole_group: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """What one range of versions does. All flags are formats of `ControlPlane.places`."""

    etcd_flags: tuple[str, ...]
    etcd_ready: Check
    server_flags: tuple[str, ...]
    server_ready: Check
    # Flags that are passed if the output of `PROGRAM --help` has them.
    etcd_probes: Mapping[str, str] = field(default_factory=dict)
    server_probes: Mapping[str, str] = field(default_factory=dict)
    has_own_group: bool = False
    stop: Stop = field(default_factory=Stop)
    # Where tests ask: the insecure port knows no users.
    is_insecure: bool = False
    # Java's have one self-signed certificate each for the server and its client, and no authority.
    is_self_signed: bool = False


def _words(*lines: str) -> tuple[str, ...]:
    return tuple(" ".join(lines).split())


_CLIENT_URLS: Final = ("--advertise-client-urls=http://{etcd}", "--listen-client-urls=http://{etcd}")
_INSECURE: Final = (
    "--etcd-servers=http://{etcd}",
    "--cert-dir={certs}",
    "--insecure-port={insecure}",
    "--insecure-bind-address=127.0.0.1",
)
_NO_SERVICE_ACCOUNTS: Final = "--disable-admission-plugins=ServiceAccount"
_NETWORK: Final = "--service-cluster-ip-range=10.0.0.0/24"
_SIGNERS: Final = (
    "--service-account-issuer=https://127.0.0.1:{secure}/",
    "--service-account-key-file={sa_pub}",
    "--service-account-signing-key-file={sa_key}",
)
_HEALTHZ_INSECURE: Final = Check("http://127.0.0.1:{insecure}/healthz")
_OLD_ETCD_FLAGS: Final = ("--listen-peer-urls=http://localhost:0", *_CLIENT_URLS, "--data-dir={data}")
_START_MESSAGE: Final = Check(message="serving insecure client requests on ")
# As Arguments.AsStrings of controller-runtime sorts them.
_SECURE: Final = (
    "--allow-privileged=true",
    "--authorization-mode=RBAC",
    "--bind-address=127.0.0.1",
    "--cert-dir={certs}",
    "--client-ca-file={client_ca}",
    _NO_SERVICE_ACCOUNTS,
    "--etcd-servers=http://{etcd}",
    "--secure-port={secure}",
    *_SIGNERS,
    _NETWORK,
)
_NEW_ETCD_FLAGS: Final = (
    "--advertise-client-urls=http://{etcd}",
    "--data-dir={data}",
    "--listen-client-urls=http://{etcd}",
    "--listen-peer-urls=http://127.0.0.1:{peer}",
)
_HEALTH: Final = Check("http://{etcd}/health")
_HEALTHZ: Final = Check("https://127.0.0.1:{secure}/healthz")
_NO_FSYNC: Final = {"unsafe-no-fsync": "--unsafe-no-fsync=true"}
_INSECURE_OFF: Final = {"insecure-port": "--insecure-port=0"}

_OF_0_2: Final = Contract(
    etcd_flags=_OLD_ETCD_FLAGS,
    etcd_ready=_START_MESSAGE,
    server_flags=(
        "--advertise-address=127.0.0.1",
        *_INSECURE,
        "--secure-port={secure}",
        "--admission-control=AlwaysAdmit",
        _NETWORK,
    ),
    server_ready=_HEALTHZ_INSECURE,
    is_insecure=True,
)
_OF_0_10: Final = Contract(
    etcd_flags=_NEW_ETCD_FLAGS,
    etcd_ready=_HEALTH,
    etcd_probes=_NO_FSYNC,
    server_flags=_SECURE,
    server_ready=_HEALTHZ,
    server_probes=_INSECURE_OFF,
)

CONTRACTS: Final = {
    "controller-runtime 0.1": replace(
        _OF_0_2,
        etcd_ready=Check(message="serving insecure client requests on 127.0.0.1"),
        server_flags=(*_INSECURE, "--secure-port=0", "--admission-control=AlwaysAdmit"),
    ),
    "controller-runtime 0.2 to 0.5": _OF_0_2,
    "controller-runtime 0.6 to 0.8": replace(
        _OF_0_2,
        server_flags=(
            "--advertise-address=127.0.0.1",
            *_INSECURE,
            "--secure-port={secure}",
            _NO_SERVICE_ACCOUNTS,
            _NETWORK,
            "--allow-privileged=true",
        ),
    ),
    "controller-runtime 0.9": replace(
        _OF_0_10,
        etcd_flags=(*_NEW_ETCD_FLAGS[:3], "--listen-peer-urls=http://localhost:0"),
        etcd_probes={},
        server_flags=("--advertise-address=127.0.0.1", *_SECURE),
    ),
    "controller-runtime 0.10 to 0.16": _OF_0_10,
    "controller-runtime 0.17 to 0.23": replace(_OF_0_10, has_own_group=True),
    "controller-runtime 0.24": replace(_OF_0_10, has_own_group=True, stop=Stop(whole_group=True)),
    # KubeAPIServerFlags of an Environment, or Args of an APIServer: DefaultKubeAPIServerFlags, rendered. The
    # template of --insecure-bind-address leaves an empty argument, which comes last with the probe's result.
    "controller-runtime 0.9 to 0.24, by templates": Contract(
        etcd_flags=_NEW_ETCD_FLAGS,
        etcd_ready=_HEALTH,
        server_flags=(
            "--advertise-address=127.0.0.1",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--cert-dir={certs}",
            "--client-ca-file={client_ca}",
            _NO_SERVICE_ACCOUNTS,
            "--etcd-servers=http://{etcd}",
            "--insecure-port=0",
            "--secure-port={secure}",
            _NETWORK,
            "",
        ),
        server_ready=_HEALTHZ,
        has_own_group=True,
    ),
    "jenvtest 0.4 to 0.9, kube-api-test": Contract(
        etcd_flags=_words(
            "-data-dir {data} -wal-dir {wal}",
            "--listen-client-urls http://0.0.0.0:{etcd_port}",
            "--advertise-client-urls http://0.0.0.0:{etcd_port}",
            "--initial-cluster default=http://localhost:{peer}",
            "--initial-advertise-peer-urls http://localhost:{peer}",
            "--listen-peer-urls http://localhost:{peer}",
        ),
        # It does not wait for etcd, unless it is told to.
        etcd_ready=Check(),
        server_flags=_words(
            "--cert-dir {certs} --secure-port {secure}",
            "--etcd-servers http://0.0.0.0:{etcd_port}",
            "--authorization-mode RBAC",
            "--service-account-issuer https://localhost",
            "--service-account-signing-key-file {server_key}",
            "--service-account-signing-key-file {server_key}",
            "--service-account-key-file {server_key}",
            "--service-account-issuer {server_cert}",
            "--disable-admission-plugins ServiceAccount",
            "--client-ca-file {client_ca}",
            "--service-cluster-ip-range 10.0.0.0/24 --allow-privileged",
        ),
        server_ready=Check("https://127.0.0.1:{secure}/readyz", every_s=0.2, within_s=60.0),
        stop=Stop(signal.SIGKILL),
        is_self_signed=True,
    ),
    "envtest-js": Contract(
        etcd_flags=(
            "--data-dir={data}",
            *reversed(_CLIENT_URLS),
            "--listen-peer-urls=http://localhost:0",
            "--unsafe-no-fsync=true",
        ),
        etcd_ready=Check("http://{etcd}/health", body={"health": "true"}, every_s=0.15, within_s=60.0),
        server_flags=(
            "--advertise-address=127.0.0.1",
            "--bind-address=127.0.0.1",
            "--secure-port={secure}",
            "--etcd-servers=http://{etcd}",
            "--cert-dir={certs}",
            "--tls-cert-file={server_cert}",
            "--tls-private-key-file={server_key}",
            "--client-ca-file={client_ca}",
            *_SIGNERS,
            "--authorization-mode=RBAC",
            _NETWORK,
            "--allow-privileged=true",
            _NO_SERVICE_ACCOUNTS,
        ),
        server_ready=Check(
            "https://127.0.0.1:{secure}/readyz", shows_certificate=True, every_s=0.15, within_s=60.0
        ),
    ),
    "Kubernetes.EnvTest (.NET)": _OF_0_10,
}


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Program:
    """One program that has been started, with its output in pipes, which are read to their end."""

    def __init__(self, command: list[str], contract: Contract, directory: Path) -> None:
        self._stop, self._has_own_group = contract.stop, contract.has_own_group
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0 if contract.has_own_group else None,
        )
        self._written = {"stdout": "", "stderr": ""}
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._written
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        for line in getattr(self.process, name):
            self._written[name] += line

    @property
    def output(self) -> str:
        return self._written["stdout"] + self._written["stderr"]

    def wait_ready(self, check: Check, ask: Callable[[str], Answer]) -> None:
        """Raises DidNotStart."""
        ends_at = time.monotonic() + max(check.within_s, WITHIN_S)
        while not self._passes(check, ask):
            if self.process.poll() is not None:
                raise DidNotStart(f"exit code {self.process.returncode}: {self.output}")
            if time.monotonic() > ends_at:
                raise DidNotStart(f"it is not ready: {self.output}")
            time.sleep(check.every_s)
        if (used_s := sum(psutil.Process(self.process.pid).cpu_times()[:2])) > check.within_s:
            raise DidNotStart(f"it took {used_s:.1f} s of processor time: {self.output}")

    def _passes(self, check: Check, ask: Callable[[str], Answer]) -> bool:
        if check.message:
            return check.message in self._written["stderr"]
        if not check.url:
            return True
        try:
            answer = ask(check.url)
        except OSError:
            return False
        return answer.status == 200 and (check.body is None or check.body.items() <= answer.json.items())

    def stop(self) -> float:
        """Stop it as the library does. Returns how long that took, in seconds.

        Raises subprocess.TimeoutExpired, also if something still holds an end of its output.
        """
        began = time.monotonic()
        if self._stop.whole_group:
            os.killpg(self.process.pid, self._stop.by)
        else:
            self.process.send_signal(self._stop.by)
        self.process.wait(WITHIN_S)
        took = time.monotonic() - began
        self._close()
        return took

    def kill(self) -> None:
        """End it, if it has not ended."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        for reader in self._readers:
            reader.join(WITHIN_S)
            assert not reader.is_alive(), "something still holds its output"
        for output in (self.process.stdout, self.process.stderr):
            assert output is not None
            output.close()


class ControlPlane:
    """Starts etcd and kube-apiserver from a folder of assets, by a contract; a context manager."""

    def __init__(self, assets: Path, contract: Contract, directory: Path) -> None:
        self.assets, self.contract, self.directory = assets, contract, directory
        self.certs = directory / "certs"
        etcd_port = free_port()
        self.places: dict[str, object] = {
            "etcd": f"{HOST}:{etcd_port}",
            "etcd_port": etcd_port,
            "peer": free_port(),
            "secure": free_port(),
            "insecure": free_port(),
            "data": directory / "data",
            "wal": directory / "wal",
            "certs": self.certs,
            "server_cert": self.certs / "apiserver.crt",
            "server_key": self.certs / "apiserver.key",
            "client_ca": self.certs / "client-cert-auth-ca.crt",
            "sa_pub": self.certs / "sa-signer.crt",
            "sa_key": self.certs / "sa-signer.key",
        }
        self.admin = directory / "admin.crt"
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        self.certs.mkdir()
        _write_certificates(self)
        try:
            self._start("etcd", self.contract.etcd_flags, self.contract.etcd_probes, self.contract.etcd_ready)
            self._start_server()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()

    @property
    def output(self) -> str:
        return "".join(program.output for program in self._programs)

    def stop(self) -> dict[str, float]:
        """Stop the server, then etcd. Returns how long each has taken, in seconds."""
        etcd, server = self._programs
        return {"kube-apiserver": server.stop(), "etcd": etcd.stop()}

    def restart_server(self) -> None:
        """Stop the server, and start it again beside the same etcd."""
        self._programs.pop().stop()
        self._start_server()

    @property
    def pids(self) -> list[int]:
        return [program.process.pid for program in self._programs]

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """A request as the administrator, where this version asks."""
        scheme, port = ("http", "insecure") if self.contract.is_insecure else ("https", "secure")
        url = f"{scheme}://{HOST}:{self.places[port]}{path}"
        return self._request(method, url, body, self.admin)

    def _start_server(self) -> None:
        contract = self.contract
        self._start("kube-apiserver", contract.server_flags, contract.server_probes, contract.server_ready)

    def _start(self, name: str, flags: tuple[str, ...], probes: Mapping[str, str], ready: Check) -> None:
        program = str(self.assets / name)
        given = [flag.format_map(self.places) for flag in (*flags, *self._probed(program, probes))]
        if probes:
            given.sort()
        self._programs.append(Program([program, *given], self.contract, self.directory))
        check = ready._replace(url=ready.url.format_map(self.places))
        certificate = self.admin if check.shows_certificate else None
        self._programs[-1].wait_ready(check, lambda url: self._request("GET", url, None, certificate))

    def _probed(self, program: str, probes: Mapping[str, str]) -> list[str]:
        """The flags that `--help` shows, by the regular expression of controller-runtime's CheckFlag."""
        if not probes:
            return []
        end = subprocess.run(
            [program, "--help"], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        found = (flag for flag in probes if re.search(rf"(?m)^\s*--{flag}\b", end.stdout))
        return [probes[flag] for flag in found]

    def _request(self, method: str, url: str, body: Any, certificate: Path | None) -> Answer:
        scheme, _, rest = url.partition("://")
        authority, _, path = rest.partition("/")
        connection = http.client.HTTPConnection(authority, timeout=WITHIN_S)
        if scheme == "https":
            # Health checks verify nothing.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if certificate is not None:
                context.load_cert_chain(certificate, certificate.with_suffix(".key"))
            connection = http.client.HTTPSConnection(authority, timeout=WITHIN_S, context=context)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, f"/{path}", content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return Answer(response.status, response.read())
        finally:
            connection.close()


def kubectl_sees_the_namespace(plane: ControlPlane) -> bool:
    """What Java's ports wait for, with their own certificate as the authority."""
    program = plane.assets / "kubectl"
    end = subprocess.run(
        [
            program,
            f"--client-certificate={plane.admin}",
            f"--client-key={plane.admin.with_suffix('.key')}",
            f"--certificate-authority={plane.places['server_cert']}",
            f"--server=https://127.0.0.1:{plane.places['secure']}",
            "--request-timeout=5s",
            "get",
            "ns",
            "default",
        ],
        env={**os.environ, "KUBECONFIG": str(plane.directory / ".kubeconfig")},
        capture_output=True,
        check=False,
    )
    return end.returncode == 0


def link_real_programs(directory: Path) -> bool:
    """Make a folder of assets of the programs on PATH. Returns whether they are there."""
    found = {name: shutil.which(name) for name in ("kube-apiserver", "etcd")}
    for name, program in found.items():
        if program is not None:
            (directory / name).symlink_to(program)
    return None not in found.values()


# ---- certificates


class _Pair(NamedTuple):
    certificate: x509.Certificate
    key: rsa.RSAPrivateKey

    def write(self, path: Path, form: PrivateFormat = PrivateFormat.PKCS8) -> None:
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        pem = self.key.private_bytes(Encoding.PEM, form, NoEncryption())
        path.with_suffix(".key").write_bytes(pem)


def _write_certificates(plane: ControlPlane) -> None:
    """Those that the library makes before it starts the server: RSA keys, an authority for each purpose."""
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    )
    if plane.contract.is_self_signed:
        # Bouncy Castle's builder adds nothing of its own: no key usage, no basic constraints.
        pkcs1 = PrivateFormat.TraditionalOpenSSL
        _pair("example.org", extension=names).write(plane.certs / "apiserver.crt", pkcs1)
        client = _pair("jenvtest", ADMIN)
        client.write(plane.admin, pkcs1)
        Path(str(plane.places["client_ca"])).write_bytes(client.certificate.public_bytes(Encoding.PEM))
        return
    authority = x509.BasicConstraints(ca=True, path_length=None)
    serving = _pair("envtest-environment", extension=authority)
    if not plane.contract.is_insecure or "--secure-port=0" not in plane.contract.server_flags:
        _pair("localhost", extension=names, issuer=serving).write(plane.certs / "apiserver.crt")
    clients, signer = (_pair("envtest-environment", extension=authority) for _ in range(2))
    Path(str(plane.places["client_ca"])).write_bytes(clients.certificate.public_bytes(Encoding.PEM))
    _pair("admin", ADMIN, issuer=clients).write(plane.admin)
    signer.write(plane.certs / "sa-signer.crt")
    public = signer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (plane.certs / "sa-signer.pub").write_bytes(public)


def _pair(
    name: str,
    groups: tuple[str, ...] = (),
    extension: x509.ExtensionType | None = None,
    issuer: _Pair | None = None,
) -> _Pair:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        subject if issuer is None else issuer.certificate.subject,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        now - timedelta(minutes=5),
        now + timedelta(days=7),
    )
    if extension is not None:
        is_critical = isinstance(extension, x509.BasicConstraints)
        builder = builder.add_extension(extension, critical=is_critical)
    return _Pair(builder.sign(key if issuer is None else issuer.key, hashes.SHA256()), key)
