"""Builds one checked `Config` from a command line and its configuration file.

Flags that kube-apiserver has and this server does not need are accepted with a warning, so that a start
script can swap the binaries; unknown flags are errors. Every flag may also be set in a YAML file
(`--config`); the command line takes precedence.

A program that is called `kube-apiserver`, or has that as its first argument, has kube-apiserver's defaults
where scripts count on them: it runs no controllers and listens on all addresses.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from apiserver.admission import plugin_names
from apiserver.admission.configuration.admission_configuration import read_admission_configuration
from apiserver.admission.configuration.fields import InvalidConfiguration
from apiserver.authz.authorizer_modes import NODE, RBAC
from apiserver.brand import Brand
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.cli import flag_values
from apiserver.cli.config import FEATURE_GATES, Config
from apiserver.cli.flags import UsageError, build_parser
from apiserver.cli.kube_apiserver_flags import NOT_NEEDED
from apiserver.deviations import KUBERNETES
from apiserver.vocabulary import GroupVersion

# Flags of kube-apiserver that it would be dangerous to ignore.
_REFUSED: Final = {
    "authorization-config": "the authorizers that it configures would not be asked",
    "encryption-provider-config": "objects would be stored unencrypted",
}
KUBE_APISERVER: Final = "kube-apiserver"
_KUBE_APISERVER_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "bind_address": "0.0.0.0",  # noqa: S104  as there
        "controllers": ("-*",),
        "service_cluster_ip_range": flag_values.networks("10.0.0.0/24"),
    }
)
# Flags that older releases had, to switch off what this server does not have either.
_ONLY_ZERO: Final = frozenset({"insecure-port"})
_NODE_WARNING: Final = "--authorization-mode: Node grants nothing on this server; nodes need RBAC roles"
RETRY_JITTER: Final = 1.2
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def parse(arguments: Sequence[str]) -> Config:
    """Returns the configuration for a command line, which may begin with `serve` or `kube-apiserver`.

    Raises UsageError; exits for --help.
    """
    parser = build_parser()
    defaults: Mapping[str, Any] = {}
    if arguments[:1] == [KUBE_APISERVER]:
        arguments, defaults = arguments[1:], _KUBE_APISERVER_DEFAULTS
    given, unknown = parser.parse_known_args(arguments)
    values = {name: value for name, value in vars(given).items() if value is not None}
    unneeded = list(_unneeded(unknown))
    if (file := values.pop("config", None)) is not None:
        of_file, unneeded_in_file = _read_file(parser, Path(file))
        values = {**of_file, **values}
        unneeded = [*unneeded_in_file, *unneeded]
    values = {**defaults, **values}
    if "cert_dir" in values:
        # What the server writes goes where a script lets it write, and away together with it.
        values.setdefault("data_dir", values["cert_dir"] / Config().data_dir.name)
    brand = Brand(values.pop("group_domain", Brand.group_domain), values.pop("vendor", Brand.vendor))
    gates = values.pop("feature_gates", {})
    if values.pop("strict_kube_compat", False):
        values["deviations"] = KUBERNETES
    config = Config(
        **values,
        brand=brand,
        **{FEATURE_GATES[name]: is_on for name, is_on in gates.items() if name in FEATURE_GATES},
        warnings=(
            *(f"--{flag} has no effect on this server" for flag in unneeded),
            *(f"unrecognized feature gate: {name}" for name in gates if name not in FEATURE_GATES),
            *plugin_names.warnings(
                values.get("enable_admission_plugins", ()), values.get("disable_admission_plugins", ())
            ),
            *(_NODE_WARNING for mode in values.get("authorization_mode", ()) if mode == NODE),
        ),
    )
    _check_brand(brand)
    _check_runtime_config(config)
    _check_combinations(config)
    _check_leader_election(config)
    _check_files(config)
    return _with_plugin_configurations(config)


def _with_plugin_configurations(config: Config) -> Config:
    """Reads what admission plugins are configured with. Raises UsageError."""
    path = config.admission_control_config_file
    try:
        configurations, warnings = read_admission_configuration(
            path, config.brand, config.runs_admission_plugin
        )
    except InvalidConfiguration as error:
        raise UsageError(f"--admission-control-config-file: {' '.join(str(error).split())}") from None
    configurations = replace(
        configurations,
        not_ready_toleration_s=config.default_not_ready_toleration_seconds,
        unreachable_toleration_s=config.default_unreachable_toleration_seconds,
    )
    return replace(config, plugin_configurations=configurations, warnings=(*config.warnings, *warnings))


def _unneeded(unknown: Iterable[str]) -> Iterator[str]:
    """Yields the flags of kube-apiserver among what the parser does not know, the command `serve` aside.

    They may be followed by a value; a lone `-`, standard output, is one. Raises UsageError for anything else.
    """
    takes_value = has_command = False
    must_be_zero = ""
    for argument in unknown:
        if not argument.startswith("-") or argument == "-":
            if must_be_zero:
                _require_zero(must_be_zero, argument)
                must_be_zero = ""
            elif takes_value:
                takes_value = False
            elif argument == "serve" and not has_command:
                has_command = True
            else:
                raise UsageError(f"unexpected argument {argument!r}")
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if name in _ONLY_ZERO:
            if equals:
                _require_zero(name, value)
            else:
                must_be_zero = name
            continue
        if name in _REFUSED:
            raise UsageError(f"--{name} is not supported yet: {_REFUSED[name]}")
        if name not in NOT_NEEDED:
            raise UsageError(f"unknown flag: --{name}")
        yield name
        takes_value = not equals


def _require_zero(name: str, value: str) -> None:
    """Raises UsageError."""
    if value != "0":
        raise UsageError(f"--{name}: there is only the secure port; 0 is the only value")


def _read_file(parser: argparse.ArgumentParser, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Returns the values that a configuration file sets, and the flags in it that have no effect."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} must contain a mapping of flags to values")
    arguments = []
    for name, value in content.items():
        flag = f"--{str(name).lstrip('-')}"
        if flag == "--config" or value is None or isinstance(value, dict):
            raise UsageError(f"{path}: {flag} cannot have the value {value!r}")
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, list):
            value = ",".join(map(str, value))
        arguments.append(f"{flag}={value}")
    given, unknown = parser.parse_known_args(arguments)
    unneeded = list(_unneeded(unknown))
    values = {name: value for name, value in vars(given).items() if value is not None and name != "config"}
    return values, unneeded


# ---- checks; all raise UsageError


def _check_brand(brand: Brand) -> None:
    if not re.fullmatch(rf"{_DNS_LABEL}(\.{_DNS_LABEL})+", brand.group_domain):
        raise UsageError(f"--group-domain {brand.group_domain!r} must be a DNS name of at least two labels")
    if not re.fullmatch(_DNS_LABEL, brand.vendor):
        raise UsageError(f"--vendor {brand.vendor!r} must be a DNS label")


def _check_runtime_config(config: Config) -> None:
    served = RuntimeConfig(config.runtime_config)
    for resource in ("namespaces", "serviceaccounts", "configmaps", "pods"):
        if not served.serves(GroupVersion("", "v1"), resource, by_default=True):
            raise UsageError(f"--runtime-config: the server requires v1/{resource}")
    leases = GroupVersion(config.brand.group("coordination"), "v1")
    if config.elects_leader and not served.serves(leases, "leases", by_default=True):
        raise UsageError(f"--runtime-config: --leader-elect requires {leases}/leases")
    if RBAC in config.authorization_mode:
        rbac = GroupVersion(config.brand.group("rbac.authorization"), "v1")
        for resource in ("roles", "rolebindings", "clusterroles", "clusterrolebindings"):
            if not served.serves(rbac, resource, by_default=True):
                raise UsageError(f"--runtime-config: --authorization-mode={RBAC} requires {rbac}/{resource}")


def _check_combinations(config: Config) -> None:
    if both := sorted({*config.enable_admission_plugins} & {*config.disable_admission_plugins}):
        raise UsageError(
            f"--enable-admission-plugins and --disable-admission-plugins both contain {', '.join(both)}"
        )
    if not config.service_account_issuer:
        raise UsageError("--service-account-issuer must not be empty")
    if 0 < config.service_account_max_token_expiration_s < 3600:
        raise UsageError("--service-account-max-token-expiration must be 0 or at least 1h")
    if (config.tls_cert_file is None) is not (config.tls_private_key_file is None):
        raise UsageError("--tls-cert-file and --tls-private-key-file must be given together")
    if (config.etcd_certfile is None) is not (config.etcd_keyfile is None):
        raise UsageError("--etcd-certfile and --etcd-keyfile must be given together")
    if (config.kubelet_client_certificate is None) is not (config.kubelet_client_key is None):
        raise UsageError("--kubelet-client-certificate and --kubelet-client-key must be given together")
    if (config.proxy_client_cert_file is None) is not (config.proxy_client_key_file is None):
        raise UsageError("--proxy-client-cert-file and --proxy-client-key-file must be given together")
    if config.workers > 1 and not config.etcd_servers:
        raise UsageError("--workers requires --etcd-servers: only one process can use the embedded store")


def _check_leader_election(config: Config) -> None:
    if not config.elects_leader:
        return
    # client-go's rule: an attempt that comes late by chance must not be the last before the deadline.
    if not 0 < config.leader_elect_retry_period_s * RETRY_JITTER < config.leader_elect_renew_deadline_s:
        raise UsageError(
            "--leader-elect-renew-deadline must be greater than --leader-elect-retry-period, "
            f"{RETRY_JITTER} times, and both must be greater than zero"
        )
    if config.leader_elect_renew_deadline_s >= config.leader_elect_lease_duration_s:
        raise UsageError("--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline")


def _check_files(config: Config) -> None:
    for flag, path in (
        ("tls-cert-file", config.tls_cert_file),
        ("tls-private-key-file", config.tls_private_key_file),
        ("client-ca-file", config.client_ca_file),
        ("requestheader-client-ca-file", config.requestheader_client_ca_file),
        ("proxy-client-cert-file", config.proxy_client_cert_file),
        ("proxy-client-key-file", config.proxy_client_key_file),
        ("token-auth-file", config.token_auth_file),
        ("etcd-cafile", config.etcd_cafile),
        ("etcd-certfile", config.etcd_certfile),
        ("etcd-keyfile", config.etcd_keyfile),
        ("kubelet-certificate-authority", config.kubelet_certificate_authority),
        ("kubelet-client-certificate", config.kubelet_client_certificate),
        ("kubelet-client-key", config.kubelet_client_key),
        ("service-account-signing-key-file", config.service_account_signing_key_file),
        *(("service-account-key-file", path) for path in config.service_account_key_file),
    ):
        if path is not None and not path.is_file():
            raise UsageError(f"--{flag}: {path} is not a file")
