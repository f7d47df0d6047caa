"""The files of a server's keys and certificates, which `pki` makes, and the kubeconfigs with some of them."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

RENEW_BEFORE: Final = timedelta(days=30)
FRONT_PROXY_NAME: Final = "front-proxy-client"
# The name of the cluster in kubeconfigs, and of the only user and context in those for tests.
CLUSTER: Final = "apiserver"


class Pki(NamedTuple):
    """The paths of keys and certificates."""

    ca_cert: Path
    ca_key: Path
    serving_cert: Path
    serving_key: Path
    admin_cert: Path
    admin_key: Path
    front_proxy_ca_cert: Path
    front_proxy_cert: Path
    front_proxy_key: Path
    service_account_key: Path


class UnusableFile(Exception):
    """A file of the CA cannot be used; another CA would lock out all clients that trust this one."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


def paths(directory: Path, cert_dir: Path | None) -> Pki:
    """Returns where the files of a directory are. cert_dir: that of the serving certificate, if another."""
    return Pki(
        ca_cert=directory / "ca.crt",
        ca_key=directory / "ca.key",
        serving_cert=(cert_dir or directory) / "apiserver.crt",
        serving_key=(cert_dir or directory) / "apiserver.key",
        admin_cert=directory / "admin.crt",
        admin_key=directory / "admin.key",
        front_proxy_ca_cert=directory / "front-proxy-ca.crt",
        front_proxy_cert=directory / "front-proxy-client.crt",
        front_proxy_key=directory / "front-proxy-client.key",
        service_account_key=directory / "sa.key",
    )


def kubeconfig(
    url: str,
    trusted: bytes,
    credentials: Mapping[str, str],
    *,
    user: str = CLUSTER,
    context: str = CLUSTER,
    namespace: str = "",
) -> bytes:
    """Returns the kubeconfig of a user.

    trusted: the CA certificates. user, context: their names in the file. namespace: the clients' default.
    """
    in_namespace = f'    namespace: "{namespace}"\n' if namespace else ""
    fields = "\n".join(f'    {name}: "{value}"' for name, value in credentials.items())
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: {CLUSTER}
  cluster:
    server: {url}
    certificate-authority-data: {base64.b64encode(trusted).decode()}
users:
- name: {user}
  user:
{fields}
contexts:
- name: {context}
  context:
    cluster: {CLUSTER}
    user: {user}
{in_namespace}current-context: {context}
""".encode()


def admin_kubeconfig(url: str, pki: Pki, trusted: bytes) -> bytes:
    """Returns the administrator's kubeconfig. trusted: the CA certificates. Raises OSError."""
    credentials = certificate_credentials(pki.admin_cert.read_bytes(), pki.admin_key.read_bytes())
    return kubeconfig(url, trusted, credentials, user="admin", context=f"admin@{CLUSTER}")


def certificate_credentials(certificate: bytes, key: bytes) -> dict[str, str]:
    """Returns a client certificate with its key, as a kubeconfig has them."""
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }


def write(path: Path, content: bytes, *, is_durable: bool = True) -> None:
    """Write a file atomically, readable by its owner only.

    is_durable: whether to sync it to the disk, so that it survives a power failure.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
