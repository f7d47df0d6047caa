"""Flags and files to one frozen `Config`: the only place that reads either.

Flags are spelled as kube-apiserver spells them wherever it has one. Those it has and this server does not
need are taken with a warning, so that a start script can swap the binaries; others are errors. Every flag
may also stand in a YAML file (`--config`); what is on the command line counts more.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from apiserver import EMULATED_VERSION, __version__
from apiserver.admission import plugin_names
from apiserver.authz.authorizer_modes import MODES, NODE, RBAC
from apiserver.brand import Brand
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.cli import flag_values
from apiserver.cli.kube_apiserver_flags import NOT_NEEDED
from apiserver.deviations import KUBERNETES, SPECIFIED, Deviations
from apiserver.vocabulary import GroupVersion


class UsageError(ValueError):
    """The command line, or the configuration file, is not right; the message is one line."""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that is decided before the server starts. Times are in seconds."""

    data_dir: Path = Path("apiserver-data")
    bind_address: str = "127.0.0.1"
    secure_port: int = 6443
    workers: int = 1
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    anonymous_auth: bool = True
    authorization_mode: tuple[str, ...] = (RBAC,)
    # Who signs service account tokens, the first of them, and whose are believed.
    service_account_issuer: tuple[str, ...] = ("https://kubernetes.default.svc",)
    service_account_signing_key_file: Path | None = None
    service_account_key_file: tuple[Path, ...] = ()
    service_account_max_token_expiration_s: int = 0
    api_audiences: tuple[str, ...] = ()
    etcd_servers: tuple[str, ...] = ()
    etcd_cafile: Path | None = None
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    etcd_prefix: str = "/registry"
    etcd_compaction_interval_s: float = 300.0
    event_ttl_s: int = 3600
    # Of one family or of both; the first is the one that Services have if they ask for none.
    service_cluster_ip_range: tuple[flag_values.IPNetwork, ...] = (ipaddress.ip_network("10.0.0.0/16"),)
    service_node_port_range: tuple[int, int] = (30_000, 32_767)
    default_watch_cache_size: int = 102_400
    # Of some resources, by group and name.
    watch_cache_sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    watch_cache_history_bytes: int = 256 * 1024 * 1024
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    request_timeout_s: float = 60.0
    min_request_timeout_s: float = 1800.0
    livez_grace_period_s: float = 0.0
    shutdown_delay_s: float = 0.0
    enable_admission_plugins: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    # By version, resource or kind of versions: whether they are served.
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    controllers: tuple[str, ...] = ("*",)
    list_from_cache_snapshot: bool = True
    detect_cache_inconsistency: bool = True
    cbor: bool = False
    deviations: Deviations = SPECIFIED
    brand: Brand = field(default_factory=Brand)
    verbosity: int = 0
    logging_format: str = "text"
    warnings: tuple[str, ...] = ()

    def runs_admission_plugin(self, name: str) -> bool:
        """Whether a plugin that the server has is asked about writes."""
        return name not in self.disable_admission_plugins

    def runs_controller(self, name: str) -> bool:
        """Whether a controller is to run: the last word about it counts."""
        names = (name, flag_values.CONTROLLERS[name])
        runs = False
        for entry in self.controllers:
            if entry in ("*", "-*"):
                runs = entry == "*"
            elif entry.removeprefix("-") in names:
                runs = not entry.startswith("-")
        return runs


# Leaving these unheeded would be worse than not to start.
_REFUSED: Final = {
    "authorization-config": "nobody would ask those that it names",
    "encryption-provider-config": "objects would be stored unencrypted",
}
_NODE_WARNING: Final = "--authorization-mode: Node gives nobody anything on this server; nodes need roles"


def parse(arguments: Sequence[str]) -> Config:
    """The configuration that a command line, with `serve` or without, asks for.

    Raises UsageError; exits for --help.
    """
    parser = _parser()
    given, unknown = parser.parse_known_args(arguments)
    values = {name: value for name, value in vars(given).items() if value is not None}
    unneeded = values.pop("config", None)
    warnings: list[str] = []
    if unneeded is not None:
        values = {**_read_file(parser, Path(unneeded), warnings), **values}
    _check_unknown(unknown, warnings)
    brand = Brand(values.pop("group_domain", Brand.group_domain), values.pop("vendor", Brand.vendor))
    _check_brand(brand)
    gates = values.pop("feature_gates", {})
    if values.pop("strict_kube_compat", False):
        values["deviations"] = KUBERNETES
    config = Config(
        **values,
        brand=brand,
        list_from_cache_snapshot=gates.pop("ListFromCacheSnapshot", True),
        detect_cache_inconsistency=gates.pop("DetectCacheInconsistency", True),
        cbor=gates.pop("CBORServingAndStorage", False),
        warnings=(
            *warnings,
            # What is left of the gates is not known.
            *(f"feature gate {name} is not known to this server" for name in gates),
            *_idle_plugins(values),
            *(_NODE_WARNING for mode in values.get("authorization_mode", ()) if mode == NODE),
        ),
    )
    _check(config)
    return config


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(message)


class _Extend(argparse.Action):
    """A flag that may be given more than once; each time it has a tuple of values.

    An empty one takes back those before.
    """

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        before = getattr(namespace, self.dest) or () if values else ()
        setattr(namespace, self.dest, (*before, *values))


def _parser() -> _Parser:
    parser = _Parser(
        prog="apiserver",
        description=(
            "A Kubernetes-compatible resource API server "
            f"(speaks {EMULATED_VERSION[0]}.{EMULATED_VERSION[1]}, version {__version__})."
        ),
        epilog="other commands: apiserver snapshot save|restore|status, apiserver version",
        allow_abbrev=False,
        argument_default=None,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=40, width=110),
    )
    default = Config()

    def add(group: argparse._ArgumentGroup, flag: str, text: str, **more: Any) -> None:
        more.setdefault("dest", flag.lstrip("-").replace("-", "_"))
        shown = getattr(default, more["dest"], None)
        if shown not in (None, "", (), {}) and "action" not in more:
            text += f" (default {_shown(shown, is_time=more.get('metavar') == 'TIME')})"
        group.add_argument(*more.pop("aliases", ()), flag, help=text, **more)

    serving = parser.add_argument_group("serving")
    add(serving, "--bind-address", "the address to listen on", metavar="ADDRESS")
    add(serving, "--secure-port", "the HTTPS port; 0 takes a free one", type=flag_values.port, metavar="PORT")
    add(
        serving,
        "--workers",
        f"processes on that port, each as a replica of its own, up to {flag_values.WORKERS_MAX}; needs "
        "--etcd-servers",
        type=flag_values.workers,
        metavar="N",
    )
    add(
        serving,
        "--data-dir",
        "where keys, certificates and the embedded store are kept",
        type=Path,
        metavar="DIR",
    )
    add(
        serving,
        "--tls-cert-file",
        "the serving certificate; made at the first start if not given",
        type=Path,
        metavar="FILE",
    )
    add(serving, "--tls-private-key-file", "its key", type=Path, metavar="FILE")
    add(
        serving,
        "--max-requests-inflight",
        "reads answered at the same time; 0 for no limit",
        type=flag_values.count,
        metavar="N",
    )
    add(
        serving,
        "--max-mutating-requests-inflight",
        "writes answered at the same time; 0 for no limit",
        type=flag_values.count,
        metavar="N",
    )
    add(
        serving,
        "--request-timeout",
        "how long a request may take",
        type=flag_values.duration_s,
        metavar="TIME",
        dest="request_timeout_s",
    )
    add(
        serving,
        "--min-request-timeout",
        "the least time of a watch, in seconds; its end is up to twice as far",
        type=flag_values.seconds,
        metavar="SECONDS",
        dest="min_request_timeout_s",
    )
    add(
        serving,
        "--livez-grace-period",
        "how long start hooks that are not done count as live",
        type=flag_values.duration_s,
        metavar="TIME",
        dest="livez_grace_period_s",
    )
    add(
        serving,
        "--shutdown-delay-duration",
        "how long requests are still taken once readyz fails at the end",
        type=flag_values.duration_s,
        metavar="TIME",
        dest="shutdown_delay_s",
    )

    storage = parser.add_argument_group("storage (embedded, unless --etcd-servers is given)")
    add(
        storage,
        "--etcd-servers",
        "the etcd cluster, as http://HOST:PORT,...",
        type=flag_values.urls,
        metavar="URLS",
    )
    add(storage, "--etcd-cafile", "the CA of its certificates", type=Path, metavar="FILE")
    add(storage, "--etcd-certfile", "our certificate for it", type=Path, metavar="FILE")
    add(storage, "--etcd-keyfile", "and its key", type=Path, metavar="FILE")
    add(storage, "--etcd-prefix", "what all keys begin with", type=flag_values.prefix, metavar="PREFIX")
    add(
        storage,
        "--etcd-compaction-interval",
        "how long old versions are kept, in either store; 0 for ever",
        type=flag_values.duration_s,
        metavar="TIME",
        dest="etcd_compaction_interval_s",
    )
    add(
        storage,
        "--event-ttl",
        "how long Events are kept",
        type=flag_values.whole_duration_s,
        metavar="TIME",
        dest="event_ttl_s",
    )
    services = parser.add_argument_group("services")
    add(
        services,
        "--service-cluster-ip-range",
        "from where Services get addresses: a network, or one of each family (default "
        f"{default.service_cluster_ip_range[0]})",
        type=flag_values.networks,
        metavar="CIDR[,CIDR]",
    )
    add(
        services,
        "--service-node-port-range",
        "from where Services get ports of nodes (default "
        f"{'-'.join(map(str, default.service_node_port_range))})",
        type=flag_values.port_range,
        metavar="FIRST-LAST",
    )
    add(
        storage,
        "--default-watch-cache-size",
        "the changes of each resource that are kept in memory at the most",
        type=flag_values.count,
        metavar="N",
    )

    add(
        storage,
        "--watch-cache-sizes",
        "the same for some resources, as pods#500,deployments.apps#1000",
        type=flag_values.sizes,
        metavar="LIST",
    )
    add(
        storage,
        "--watch-cache-history-bytes",
        "what old versions of all resources together may take in memory",
        type=flag_values.count,
        metavar="BYTES",
    )

    identity = parser.add_argument_group("identity")
    add(
        identity,
        "--client-ca-file",
        "whose client certificates are believed; the own CA's if not given",
        type=Path,
        metavar="FILE",
    )
    add(identity, "--token-auth-file", 'lines of token,user,uid,"group1,group2"', type=Path, metavar="FILE")
    add(
        identity,
        "--anonymous-auth",
        "let whoever shows nothing be system:anonymous",
        type=flag_values.boolean,
        metavar="BOOL",
    )
    add(
        identity,
        "--authorization-mode",
        f"who is asked what a caller may do, in this order, of {', '.join(MODES)} (default "
        f"{','.join(default.authorization_mode)})",
        type=flag_values.modes,
        metavar="LIST",
    )
    add(
        identity,
        "--service-account-issuer",
        "who signs service account tokens; more of them, whose tokens are believed, too (default "
        f"{default.service_account_issuer[0]})",
        type=flag_values.texts,
        action=_Extend,
        metavar="URL",
    )
    add(
        identity,
        "--service-account-signing-key-file",
        "the key that signs them; one of our own if not given",
        type=Path,
        metavar="FILE",
    )
    add(
        identity,
        "--service-account-key-file",
        "public keys, or private ones, that prove them besides",
        type=flag_values.paths,
        action=_Extend,
        metavar="FILE",
    )
    add(
        identity,
        "--service-account-max-token-expiration",
        "no token lives longer; 0 for no bound",
        type=flag_values.whole_duration_or_zero_s,
        metavar="TIME",
        dest="service_account_max_token_expiration_s",
    )
    add(
        identity,
        "--api-audiences",
        "for one of which tokens must be meant; the issuers if not given",
        type=flag_values.texts,
        action=_Extend,
        metavar="LIST",
    )

    behaviour = parser.add_argument_group("behaviour")
    add(
        behaviour,
        "--group-domain",
        f"the suffix of API group names (default {Brand.group_domain})",
        metavar="DOMAIN",
    )
    add(
        behaviour,
        "--vendor",
        f"the word in media types and extensions (default {Brand.vendor})",
        metavar="WORD",
    )
    add(
        behaviour,
        "--enable-admission-plugins",
        "plugins to ask besides those that are asked anyway, as kube-apiserver names them",
        type=flag_values.admission_plugins,
        action=_Extend,
        metavar="LIST",
    )
    add(
        behaviour,
        "--disable-admission-plugins",
        "of those that are asked anyway, the ones not to ask",
        type=flag_values.admission_plugins,
        action=_Extend,
        metavar="LIST",
    )
    add(
        behaviour,
        "--controllers",
        "which controllers run: * for all, NAME, -NAME, -* for none",
        type=flag_values.controllers,
        metavar="LIST",
    )
    add(
        behaviour, "--feature-gates", "as ListFromCacheSnapshot=false", type=flag_values.gates, metavar="LIST"
    )
    add(
        behaviour,
        "--runtime-config",
        "which versions are served, as api/beta=true,batch/v1=false or apps/v1/deployments=false",
        type=flag_values.runtime_config,
        metavar="LIST",
    )
    add(
        behaviour,
        "--strict-kube-compat",
        "do as kube-apiserver where the specification has it otherwise (default false)",
        nargs="?",
        const=True,
        type=flag_values.boolean,
        metavar="BOOL",
    )

    logging_ = parser.add_argument_group("logging")
    add(
        logging_,
        "--v",
        "how much is logged: 0 warnings and news, 2 more, 4 everything",
        type=flag_values.count,
        metavar="N",
        dest="verbosity",
        aliases=("-v",),
    )
    add(logging_, "--logging-format", "text or json", choices=("text", "json"))

    parser.add_argument("--config", metavar="FILE", help="a YAML file with any of these flags as keys")
    return parser


# ---- kinds of values


def _shown(value: object, *, is_time: bool) -> str:
    """A default as one would write it on the command line."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case int() | float():
            return f"{value:g}s" if is_time else f"{value:g}" if isinstance(value, float) else str(value)
        case _:
            return str(value)


def _idle_plugins(values: Mapping[str, Any]) -> list[str]:
    """Warnings about admission plugins with which the server cannot do what is asked."""
    enabled, disabled = (values.get(f"{word}_admission_plugins", ()) for word in ("enable", "disable"))
    return [
        f"admission plugin {name} is always on"
        if name in disabled
        else f"admission plugin {name} has no effect on this server"
        for name in plugin_names.without_effect(enabled, disabled)
    ]


def _check_unknown(unknown: Sequence[str], warnings: list[str]) -> None:
    """What the parser did not know: the command, flags of kube-apiserver's, or mistakes.

    Those flags may have a value of their own; a lone `-`, standard output, is one.
    """
    takes_value = has_command = False
    for argument in unknown:
        if not argument.startswith("-") or argument == "-":
            if takes_value:
                takes_value = False
            elif argument == "serve" and not has_command:
                has_command = True
            else:
                raise UsageError(f"unexpected argument {argument!r}")
            continue
        name, equals, _ = argument.lstrip("-").partition("=")
        _check_not_needed(name, warnings)
        takes_value = not equals


def _check_not_needed(name: str, warnings: list[str]) -> None:
    if name in _REFUSED:
        raise UsageError(f"--{name} is not supported yet: {_REFUSED[name]}")
    if name not in NOT_NEEDED:
        raise UsageError(f"unknown flag --{name}")
    warnings.append(f"--{name} has no effect on this server")


def _read_file(parser: argparse.ArgumentParser, path: Path, warnings: list[str]) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold flags and their values")
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
    _check_unknown(unknown, warnings)
    return {name: value for name, value in vars(given).items() if value is not None and name != "config"}


def _check_brand(brand: Brand) -> None:
    if not re.fullmatch(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+", brand.group_domain
    ):
        raise UsageError(f"--group-domain {brand.group_domain!r} is no domain of at least two parts")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", brand.vendor):
        raise UsageError(f"--vendor {brand.vendor!r} must be one word of lower-case letters and digits")


def _check(config: Config) -> None:
    core = RuntimeConfig(config.runtime_config)
    for resource in ("namespaces", "serviceaccounts", "configmaps", "pods"):
        if not core.serves(GroupVersion("", "v1"), resource, by_default=True):
            raise UsageError(f"--runtime-config: the server cannot do without v1/{resource}")
    rbac = GroupVersion(config.brand.group("rbac.authorization"), "v1")
    if RBAC in config.authorization_mode:
        for resource in ("roles", "rolebindings", "clusterroles", "clusterrolebindings"):
            if not core.serves(rbac, resource, by_default=True):
                raise UsageError(
                    f"--runtime-config: {RBAC} in --authorization-mode cannot do without {rbac}/{resource}"
                )
    if both := sorted({*config.enable_admission_plugins} & {*config.disable_admission_plugins}):
        raise UsageError(
            f"--enable-admission-plugins and --disable-admission-plugins both name {', '.join(both)}"
        )
    if not config.service_account_issuer:
        raise UsageError("--service-account-issuer must not be empty")
    if 0 < config.service_account_max_token_expiration_s < 3600:
        raise UsageError("--service-account-max-token-expiration must be 0 or at least 1h")
    if (config.tls_cert_file is None) is not (config.tls_private_key_file is None):
        raise UsageError("--tls-cert-file and --tls-private-key-file must be given together")
    if config.workers > 1 and not config.etcd_servers:
        raise UsageError("--workers needs --etcd-servers: the embedded store belongs to one process")
    if (config.etcd_certfile is None) is not (config.etcd_keyfile is None):
        raise UsageError("--etcd-certfile and --etcd-keyfile must be given together")
    for flag, path in (
        ("tls-cert-file", config.tls_cert_file),
        ("tls-private-key-file", config.tls_private_key_file),
        ("client-ca-file", config.client_ca_file),
        ("token-auth-file", config.token_auth_file),
        ("etcd-cafile", config.etcd_cafile),
        ("etcd-certfile", config.etcd_certfile),
        ("etcd-keyfile", config.etcd_keyfile),
        ("service-account-signing-key-file", config.service_account_signing_key_file),
        *(("service-account-key-file", path) for path in config.service_account_key_file),
    ):
        if path is not None and not path.is_file():
            raise UsageError(f"--{flag}: there is no file {path}")
