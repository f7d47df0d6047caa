"""The files that a configuration names, and those that the server generates beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.app.serving.pki_files import Pki, paths
from apiserver.cli.config import Config

# The flags of a certificate and its key, and those of certificates of CAs.
_PAIRS: Final = (
    ("tls_cert_file", "tls_private_key_file"),
    ("etcd_certfile", "etcd_keyfile"),
    ("kubelet_client_certificate", "kubelet_client_key"),
    ("proxy_client_cert_file", "proxy_client_key_file"),
    ("cluster_signing_cert_file", "cluster_signing_key_file"),
)
_CAS: Final = (
    "client_ca_file",
    "requestheader_client_ca_file",
    "etcd_cafile",
    "kubelet_certificate_authority",
    "oidc_ca_file",
)
# The flags of other files with keys, tokens or passwords.
_SECRETS: Final = (
    "service_account_signing_key_file",
    "token_auth_file",
    "encryption_provider_config",
    "authentication_token_webhook_config_file",
    "authorization_webhook_config_file",
    "audit_webhook_config_file",
)


class NamedFile(NamedTuple):
    """A file. name: the flag that names it, or what it is."""

    name: str
    path: Path


class NamedPair(NamedTuple):
    """A certificate and its key. is_generated: the server makes them, and renews them."""

    certificate: NamedFile
    key: NamedFile
    is_generated: bool = False


def certificate_pairs(config: Config) -> Iterator[NamedPair]:
    """Yields the configured pairs, and the generated ones that exist."""
    for certificate, key in _PAIRS:
        files = config.option(certificate), config.option(key)
        if None not in files:
            yield NamedPair(NamedFile(_flag(certificate), files[0]), NamedFile(_flag(key), files[1]))
    for each in config.serving.tls_sni_cert_key:
        name = _flag("tls_sni_cert_key")
        yield NamedPair(NamedFile(name, each.certificate), NamedFile(name, each.key))
    paths = generated(config)
    for what, pair in (
        ("the generated serving certificate", (paths.serving_cert, paths.serving_key)),
        ("the generated certificate of the administrator", (paths.admin_cert, paths.admin_key)),
        ("the generated front proxy certificate", (paths.front_proxy_cert, paths.front_proxy_key)),
        ("the generated CA", (paths.ca_cert, paths.ca_key)),
    ):
        is_replaced = pair[0] == paths.serving_cert and config.serving.tls_cert_file is not None
        if pair[0].exists() and not is_replaced:
            yield NamedPair(NamedFile(what, pair[0]), NamedFile(f"the key of {what}", pair[1]), True)


def authorities(config: Config) -> Iterator[NamedFile]:
    """Yields the configured files with certificates of CAs."""
    for option in _CAS:
        if (path := config.option(option)) is not None:
            yield NamedFile(_flag(option), path)


def secrets(config: Config) -> Iterator[NamedFile]:
    """Yields the files that only the server and administrators may read, as far as they exist."""
    for option in _SECRETS:
        if (path := config.option(option)) is not None:
            yield NamedFile(_flag(option), path)
    for _, key, is_generated in certificate_pairs(config):
        if not is_generated:
            yield key
    data_dir = config.serving.data_dir
    for path in (*sorted((data_dir / "pki").glob("*.key")), data_dir / "admin.kubeconfig"):
        if path.exists():
            yield NamedFile("the data directory", path)
    if not config.storage.etcd_servers and (path := data_dir / "store" / "store.db").exists():
        yield NamedFile("the embedded store", path)


def generated(config: Config) -> Pki:
    """Returns the paths of the keys and certificates that the server generates."""
    return paths(config.serving.data_dir / "pki", config.serving.cert_dir)


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def existing(path: Path) -> Path:
    """Returns a path, or the lowest of its parents that exists and that this user can see."""
    return next((each for each in (path, *path.absolute().parents) if os.path.exists(each)), Path("/"))


def is_writable(directory: Path) -> bool:
    """Returns whether this user can write to a directory, or can create it."""
    found = existing(directory)
    return found.is_dir() and os.access(found, os.W_OK | os.X_OK)
