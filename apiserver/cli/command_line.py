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
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from apiserver.admission import plugin_names
from apiserver.admission.configuration.admission_configuration import read_admission_configuration
from apiserver.audit.backends.options import FORMATS, InvalidOptions, check_version
from apiserver.audit.policy_file import read_policy
from apiserver.auth.authz.configuration import RBAC, WEBHOOK
from apiserver.catalogue.gated_fields import gates_of_fields
from apiserver.catalogue.runtime_config import STABILITY_KEYS, RuntimeConfig
from apiserver.cli import flag_values
from apiserver.cli.argument_parser import UsageError, help_hint, hint_for, one_line
from apiserver.cli.authentication_files import read_authentication
from apiserver.cli.authorization_configuration import parse_authorization_configuration
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.commands import KUBE_APISERVER, SERVE
from apiserver.cli.config import Config
from apiserver.cli.flag_sections.auditing import AuditOptions
from apiserver.cli.flags import SECTIONS, build_parser
from apiserver.cli.kube_apiserver_flags import LIFECYCLES, NOT_NEEDED, REFUSED
from apiserver.cli.tracing_configuration import parse_tracing_configuration
from apiserver.golang import urls
from apiserver.golang.tls import INSECURE_SUITES
from apiserver.meta.brand import Brand
from apiserver.meta.releases.deviations import KUBERNETES
from apiserver.meta.releases.emulation import DEFAULT_MINOR, EmulatedRelease, InvalidEmulation
from apiserver.meta.releases.gate_effects import effective_gates
from apiserver.meta.releases.gates import STAGE_GATES, FeatureGates, InvalidGates
from apiserver.meta.releases.lifecycles import has_api, last_known_removal
from apiserver.meta.vocabulary import GroupVersion
from apiserver.metrics.registry import MetricsConfiguration
from apiserver.webhooks.kubeconfig import read_kubeconfig, require_https
from apiserver.wire.configuration_fields import InvalidConfiguration, decode

_KUBE_APISERVER_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "bind_address": "0.0.0.0",  # noqa: S104  as there
        "controllers": ("-*",),
        "service_cluster_ip_range": flag_values.networks("10.0.0.0/24"),
    }
)
# Flags that are given once for each of their values.
_NO_LISTS: Final = frozenset(
    flag.name for section in SECTIONS.values() for flag in section if flag.repeats and not flag.is_list
)
# Flags that older releases had, to switch off what this server does not have either.
_ONLY_ZERO: Final = frozenset({"insecure-port"})
# Flags that name a certificate, and its key.
_PAIRS: Final = (
    ("tls-cert-file", "tls-private-key-file"),
    ("etcd-certfile", "etcd-keyfile"),
    ("kubelet-client-certificate", "kubelet-client-key"),
    ("proxy-client-cert-file", "proxy-client-key-file"),
    ("cluster-signing-cert-file", "cluster-signing-key-file"),
)
# Flags that name a file, which must be there.
_FILES: Final = (
    *(flag for pair in _PAIRS for flag in pair),
    *("client-ca-file", "requestheader-client-ca-file", "token-auth-file"),
    *("authorization-webhook-config-file", "authentication-config", "oidc-ca-file"),
    *("authentication-token-webhook-config-file", "etcd-cafile", "kubelet-certificate-authority"),
    "service-account-signing-key-file",
)
# The shortest time that a certificate request may ask for.
SIGNING_DURATION_S_MIN: Final = 600
RETRY_JITTER: Final = 1.2
TOKEN_EXPIRATION_MAX_S: Final = 1 << 32
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
        values.setdefault("data_dir", values["cert_dir"] / Config().serving.data_dir.name)
    brand = Brand(values.pop("group_domain", Brand.group_domain), values.pop("vendor", Brand.vendor))
    release = _release(values)
    deprecated = _deprecated_flags(values, unneeded, release)
    rehearsed = _rehearsed_release(values, release)
    gates = _feature_gates(release, dict(values.get("feature_gates", ())))
    effective = effective_gates(release.minor) | gates_of_fields(release.minor) | STAGE_GATES
    values["metrics"] = _metrics(values, release)
    values["runtime_config"] = _runtime_config(values.get("runtime_config", ()), release, brand)
    if values.pop("strict_kube_compat", False):
        values["deviations"] = KUBERNETES
    _check_authorization_flags(values)
    values |= {"brand": brand, "release": release}
    values["warnings"] = (
        *deprecated,
        *(f"--{flag} has no effect on this server" for flag in unneeded),
        *rehearsed,
        *_ineffective_backend(values),
        *_fault_injection(values),
        *gates.warnings,
        *(
            f"feature gate {name} has no effect on this server"
            for name, _ in values.get("feature_gates", ())
            if name not in effective and not gates.is_default(name)
        ),
        *plugin_names.warnings(
            values.get("enable_admission_plugins", ()), values.get("disable_admission_plugins", ())
        ),
        *(
            f"--tls-cipher-suites: Use of insecure cipher '{each}' detected."
            for each in values.get("tls_cipher_suites", ())
            if each in INSECURE_SUITES
        ),
    )
    config = Config.of(values)
    _check_brand(brand)
    config = _with_authorizers(config)
    _check_runtime_config(config)
    _check_combinations(config)
    _check_leader_election(config)
    _check_files(config)
    _check_audit(config)
    config = _with_history_policy(_with_plugin_configurations(config))
    config = _with_tracing(_with_audit(_with_encryption(config)))
    return replace(
        config,
        authentication=replace(config.authentication, files=read_authentication(config, values.keys())),
    )


def _ineffective_backend(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields a warning if etcd is asked for and there is none. A start script can swap the binaries."""
    if values.get("storage_backend") == flag_values.ETCD and not values.get("etcd_servers"):
        yield f"--storage-backend={flag_values.ETCD} has no effect without --etcd-servers"


def _fault_injection(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields a warning if faults can be injected."""
    if values.get("enable_fault_injection"):
        yield "--enable-fault-injection: members of system:masters can inject faults; see /debug/faults"


def _release(values: dict[str, Any]) -> EmulatedRelease:
    """Takes what is said of the release out of the values. Raises UsageError."""
    emulated = values.pop("emulated_version", DEFAULT_MINOR)
    try:
        return EmulatedRelease.of(emulated, values.pop("min_compatibility_version", None))
    except InvalidEmulation as error:
        raise UsageError(str(error)) from None


def _deprecated_flags(
    values: dict[str, Any], unneeded: Iterable[str], release: EmulatedRelease
) -> Sequence[str]:
    """Returns the warnings of deprecated flags, unless they are switched off. Row S11.

    Raises UsageError for flags that the release has removed.
    """
    names = {flag.destination: flag.name.removeprefix("--") for flags in SECTIONS.values() for flag in flags}
    warnings = []
    for name in (*unneeded, *(names[field] for field in values if field in names)):
        life = LIFECYCLES.get(name)
        if life is None:
            continue
        if life.is_gone(release.minor):
            raise UsageError(life.refusal)
        warnings.append(life.warning(release.minor))
    return [each for each in warnings if each] if values.pop("flag_deprecation_warnings", True) else []


def _rehearsed_release(values: Mapping[str, Any], release: EmulatedRelease) -> Sequence[str]:
    """Returns what there is to warn of. Raises UsageError."""
    minor = values.get("emulate_removal")
    if minor is None:
        return ()
    if minor <= release.minor:
        raise UsageError(f"--emulate-removal: 1.{minor} is not after {release}, the emulated version")
    if minor > (last := last_known_removal()):
        raise UsageError(
            f"--emulate-removal: 1.{minor} is after 1.{last}, the last release whose removals are known"
        )
    return (f"--emulate-removal: not serving the API versions that Kubernetes 1.{minor} has removed",)


def _runtime_config(
    given: Iterable[tuple[str, bool]], release: EmulatedRelease, brand: Brand
) -> Mapping[str, bool]:
    """Returns what is served, by key.

    Raises UsageError if it says two things of the same, or names what the release does not have.
    """
    config: dict[str, bool] = {}
    for key, is_on in given:
        key = "v1" if key == "api/v1" else key
        if config.setdefault(key, is_on) != is_on:
            raise UsageError(f"--runtime-config: {key} is both true and false")
        if key not in STABILITY_KEYS and not has_api(key, release.minor, brand.group_domain):
            raise UsageError(f"--runtime-config: Kubernetes {release} has no {key}")
    return config


def _metrics(values: dict[str, Any], release: EmulatedRelease) -> MetricsConfiguration:
    """Takes what is said of metrics out of the values. Raises UsageError."""
    shown = values.pop("show_hidden_metrics_for_version", None)
    if shown is not None and shown != release.minor - 1:
        raise UsageError(
            f"--show-hidden-metrics-for-version must be omitted or have the value '1.{release.minor - 1}'. "
            "Only the previous minor version is allowed"
        )
    manifest = values.pop("allow_metric_labels_manifest", None)
    of_file = () if manifest is None else _labels_of_manifest(manifest)
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    for metric, label, labels in values.pop("allow_metric_labels", None) or of_file:
        allowed.setdefault(metric, {})[label] = labels
    return MetricsConfiguration(
        shown is not None, frozenset(values.pop("disabled_metrics", ())), MappingProxyType(allowed)
    )


def _labels_of_manifest(path: Path) -> Sequence[flag_values.AllowedLabel]:
    """Read the allowed values of labels. Raises UsageError."""
    content = _yaml_mapping(path, "metric,label to values")
    try:
        return [flag_values.allowed_label(str(key), str(values)) for key, values in content.items()]
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--allow-metric-labels-manifest: {path}: {error}") from None


def _feature_gates(release: EmulatedRelease, given: Mapping[str, bool]) -> FeatureGates:
    """Returns the states of gates. Raises UsageError."""
    try:
        return FeatureGates(release.minor, given)
    except InvalidGates as error:
        raise UsageError(f"--feature-gates: {error}") from None


def _with_encryption(config: Config) -> Config:
    """Reads what is to be encrypted, and by what. Raises UsageError."""
    path = config.storage.encryption_provider_config
    if path is None:
        if config.storage.encryption_provider_config_automatic_reload:
            raise UsageError(
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
            )
        return config
    # Imported only by servers that encrypt.
    from apiserver.cli.encryption_configuration import read_encryption_configuration

    try:
        return replace(
            config,
            storage=replace(config.storage, encryption=read_encryption_configuration(path, config.brand)),
        )
    except InvalidConfiguration as error:
        raise UsageError(f"--encryption-provider-config: {one_line(error)}") from None


def _with_history_policy(config: Config) -> Config:
    """Reads what the history keeps. Raises UsageError."""
    path = config.storage.history_policy
    if path is None:
        return config
    if not config.storage.history:
        raise UsageError("--history-policy must be set with --history")
    # Imported only by servers with a policy.
    from apiserver.cli.history_policy import read_history_policy

    try:
        rules = read_history_policy(path, config.brand)
    except InvalidConfiguration as error:
        raise UsageError(f"--history-policy: {one_line(error)}") from None
    return replace(config, storage=replace(config.storage, history_rules=rules))


def _with_plugin_configurations(config: Config) -> Config:
    """Reads what admission plugins are configured with. Raises UsageError."""
    path = config.admission.admission_control_config_file
    try:
        configurations, warnings = read_admission_configuration(
            path, config.brand, config.admission.runs_admission_plugin, read_bounded
        )
    except InvalidConfiguration as error:
        raise UsageError(f"--admission-control-config-file: {one_line(error)}") from None
    configurations = replace(
        configurations,
        not_ready_toleration_s=config.admission.default_not_ready_toleration_seconds,
        unreachable_toleration_s=config.admission.default_unreachable_toleration_seconds,
    )
    admission = replace(config.admission, plugin_configurations=configurations)
    return replace(config, admission=admission, warnings=(*config.warnings, *warnings))


def _with_authorizers(config: Config) -> Config:
    """Reads the file of authorizers, if there is one. Raises UsageError."""
    path = config.authorization.authorization_config
    if path is None:
        return config
    try:
        content = read_bounded(path)
        authorizers = parse_authorization_configuration(
            content, config.brand, has_selectors=config.gates.is_on("AuthorizeWithSelectors")
        )
    except OSError as error:
        raise UsageError(f"--authorization-config: {path}: {error.strerror or error}") from None
    except InvalidConfiguration as error:
        raise UsageError(f"--authorization-config: {one_line(error)}") from None
    authorization = replace(
        config.authorization,
        authorization_config_content=content,
        authorization_config_authorizers=authorizers,
    )
    return replace(config, authorization=authorization)


def _with_audit(config: Config) -> Config:
    """Reads what is recorded, and the server that it is sent to. Raises UsageError."""
    policy_file, webhook_file = config.auditing.audit_policy_file, config.auditing.audit_webhook_config_file
    policy, server, warnings = None, None, config.warnings
    if policy_file is not None:
        try:
            policy, warning = read_policy(_content(policy_file), config.brand)
        except InvalidConfiguration as error:
            raise UsageError(f"--audit-policy-file: {policy_file}: {one_line(error)}") from None
        if warning:
            warnings = (*warnings, f"--audit-policy-file: {policy_file}: {warning}")
    if webhook_file is not None:
        try:
            server = read_kubeconfig(webhook_file, _content)
            require_https(webhook_file, server.current()[0])
        except InvalidConfiguration as error:
            raise UsageError(f"--audit-webhook-config-file: {one_line(error)}") from None
    auditing = replace(config.auditing, audit_policy=policy, audit_webhook_server=server)
    return replace(config, auditing=auditing, warnings=warnings)


def _with_tracing(config: Config) -> Config:
    """Reads which requests are traced. Raises UsageError."""
    file = config.logs.tracing_config_file
    if file is None:
        return config
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter.otlp") is None:
        raise UsageError("--tracing-config-file requires this package's extra 'tracing'")
    try:
        tracing = parse_tracing_configuration(_content(file), config.brand)
    except InvalidConfiguration as error:
        raise UsageError(f"--tracing-config-file: {file}: {one_line(error)}") from None
    return replace(config, logs=replace(config.logs, tracing=tracing))


def _content(path: Path) -> bytes:
    """Read a file. Raises InvalidConfiguration."""
    try:
        return read_bounded(path)
    except OSError as error:
        raise InvalidConfiguration(f"cannot be read: {error.strerror or error}") from None


def _unneeded(unknown: Iterable[str]) -> Iterator[str]:
    """Yields the flags of kube-apiserver among what the parser does not know, the command `serve` aside.

    They may be followed by a value; a lone `-`, standard output, is one. What is empty is nothing, as to
    kube-apiserver: templates of flags leave it. Raises UsageError for anything else.
    """
    takes_value = has_command = False
    must_be_zero = ""
    for argument in unknown:
        if not argument.startswith("-") or argument in ("-", "--"):
            if must_be_zero:
                _require_zero(must_be_zero, argument)
                must_be_zero = ""
            elif takes_value:
                takes_value = False
            elif not argument:
                continue
            elif argument == SERVE and not has_command:
                has_command = True
            else:
                raise UsageError(f"unexpected argument {argument!r}", f". {help_hint()}")
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if name in _ONLY_ZERO:
            if equals:
                _require_zero(name, value)
            else:
                must_be_zero = name
            continue
        if name in REFUSED:
            if equals and not value:
                continue
            raise UsageError(f"--{name}: {REFUSED[name]}")
        if name not in NOT_NEEDED:
            life = LIFECYCLES.get(name)
            if life is not None:
                raise UsageError(life.refusal)
            known = [flag.name for flags in SECTIONS.values() for flag in flags]
            given = argument.partition("=")[0]
            raise UsageError(f"unknown flag: {given}", hint_for(given, [*known, "--help", "--config"]))
        yield name
        takes_value = not equals


def _require_zero(name: str, value: str) -> None:
    """Check that the insecure port is off. Raises UsageError."""
    if value != "0":
        raise UsageError(f"--{name}: the server has no insecure port; the only valid value is 0")


def _read_file(parser: argparse.ArgumentParser, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Returns the values that a configuration file sets, and the flags in it that have no effect."""
    arguments = []
    for name, value in _yaml_mapping(path, "flags to values").items():
        flag = f"--{str(name).lstrip('-')}"
        if flag == "--config" or value is None or isinstance(value, dict):
            raise UsageError(f"{path}: {flag} must have a value or a list of values")
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, list) and flag not in _NO_LISTS:
            value = ",".join(map(str, value))
        arguments += [f"{flag}={each}" for each in (value if isinstance(value, list) else [value])]
    try:
        given, unknown = parser.parse_known_args(arguments)
        unneeded = list(_unneeded(unknown))
    except UsageError as error:
        raise UsageError(f"{path}: {error}", error.hint) from None
    values = {name: value for name, value in vars(given).items() if value is not None and name != "config"}
    return values, unneeded


def _yaml_mapping(path: Path, what: str) -> dict[Any, Any]:
    """Returns what a file maps. Raises UsageError."""
    try:
        content = decode(read_bounded(path)) or {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except InvalidConfiguration as error:
        raise UsageError(f"{path} is not valid YAML: {one_line(error)}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} must contain a mapping of {what}")
    return content


# ---- checks; all raise UsageError


def _check_brand(brand: Brand) -> None:
    if not re.fullmatch(rf"{_DNS_LABEL}(\.{_DNS_LABEL})+", brand.group_domain):
        raise UsageError(f"--group-domain {brand.group_domain!r} must be a DNS name of at least two labels")
    if not re.fullmatch(_DNS_LABEL, brand.vendor):
        raise UsageError(f"--vendor {brand.vendor!r} must be a DNS label")


def _check_runtime_config(config: Config) -> None:
    served = RuntimeConfig(config.api.runtime_config)
    for resource in ("namespaces", "serviceaccounts", "configmaps", "pods"):
        if not served.serves(GroupVersion("", "v1"), resource, by_default=True):
            raise UsageError(f"--runtime-config: the server requires v1/{resource}")
    leases = GroupVersion(config.brand.group("coordination"), "v1")
    if config.elects_leader and not served.serves(leases, "leases", by_default=True):
        raise UsageError(f"--runtime-config: --leader-elect requires {leases}/leases")
    if any(each.type == RBAC for each in config.authorization.authorizers):
        rbac = GroupVersion(config.brand.group("rbac.authorization"), "v1")
        for resource in ("roles", "rolebindings", "clusterroles", "clusterrolebindings"):
            if not served.serves(rbac, resource, by_default=True):
                raise UsageError(f"--runtime-config: --authorization-mode={RBAC} requires {rbac}/{resource}")


def _check_authorization_flags(values: Mapping[str, Any]) -> None:
    others = [name for name in values if name.startswith(("authorization_mode", "authorization_webhook_"))]
    if "authorization_config" in values and others:
        raise UsageError(
            "--authorization-config can not be specified when --authorization-mode or "
            "--authorization-webhook-* flags are defined"
        )
    has_file = "authorization_webhook_config_file" in values
    has_mode = WEBHOOK in values.get("authorization_mode", ())
    if has_mode and not has_file:
        raise UsageError("--authorization-mode: Webhook's authorization config file not passed")
    if has_file and not has_mode:
        raise UsageError("cannot specify --authorization-webhook-config-file without mode Webhook")


def _check_combinations(config: Config) -> None:
    for flag, names in (
        ("enable", config.admission.enable_admission_plugins),
        ("disable", config.admission.disable_admission_plugins),
    ):
        for name in names:
            if not plugin_names.is_known(name, config.release.minor):
                release = f"Kubernetes 1.{config.release.minor}"
                raise UsageError(f"--{flag}-admission-plugins: {release} has no admission plugin {name!r}")
    admission = config.admission
    if both := sorted({*admission.enable_admission_plugins} & {*admission.disable_admission_plugins}):
        raise UsageError(
            f"--enable-admission-plugins and --disable-admission-plugins both contain {', '.join(both)}"
        )
    _check_service_accounts(config)
    for certificate, key in _PAIRS:
        given = [config.option(flag.replace("-", "_")) is not None for flag in (certificate, key)]
        if any(given) and not all(given):
            raise UsageError(f"--{certificate} and --{key} must be given together")
    storage = config.storage
    if storage.storage_backend in (flag_values.EMBEDDED, flag_values.MEMORY) and storage.etcd_servers:
        raise UsageError(
            f"--storage-backend={storage.storage_backend} and --etcd-servers cannot be set together"
        )
    if config.shares_with_kube_apiserver:
        for name in flag_values.OFF_WITH_ADOPT:
            if not {name, flag_values.CONTROLLERS[name]}.isdisjoint(config.api.controllers):
                raise UsageError(
                    f"--controllers: --adopt excludes {name}, because this controller would delete objects "
                    "of the kube-apiserver"
                )
    if config.simulation.simulate_stages and not config.simulation.simulate_nodes:
        raise UsageError("--simulate-stages requires --simulate-nodes")
    if config.api.cluster_signing_duration_s < SIGNING_DURATION_S_MIN:
        raise UsageError("--cluster-signing-duration must be at least 10m")
    if config.serving.enable_priority_and_fairness and not (
        config.serving.max_requests_inflight + config.serving.max_mutating_requests_inflight
    ):
        raise UsageError(
            "--max-requests-inflight and --max-mutating-requests-inflight must add up to more than zero "
            "unless --enable-priority-and-fairness is false"
        )
    if config.serving.workers > 1 and config.serving.enable_fault_injection:
        raise UsageError("--enable-fault-injection requires --workers=1: workers do not share faults")
    if config.serving.workers > 1 and not config.storage.etcd_servers:
        raise UsageError("--workers requires --etcd-servers: only one process can use the embedded store")


def _check_service_accounts(config: Config) -> None:
    issuers = config.authentication.service_account_issuer
    if not issuers:
        raise UsageError("--service-account-issuer must not be empty")
    for index, issuer in enumerate(issuers):
        if issuer in issuers[:index]:
            raise UsageError(f'--service-account-issuer "{issuer}" is already specified')
        if ":" in issuer:
            try:
                urls.parse(issuer)
            except urls.InvalidUrl as error:
                raise UsageError(
                    f"--service-account-issuer \"{issuer}\" contained a ':' but was not a valid URL: {error}"
                ) from None
    most_s = config.authentication.service_account_max_token_expiration_s
    if most_s and not 3600 <= most_s <= TOKEN_EXPIRATION_MAX_S:
        raise UsageError(
            "--service-account-max-token-expiration must be 0, or between 1 hour and 2^32 seconds"
        )


def _check_leader_election(config: Config) -> None:
    if not config.elects_leader:
        return
    options = config.leader_election
    # client-go's rule: an attempt that comes late by chance must not be the last before the deadline.
    if not 0 < options.leader_elect_retry_period_s * RETRY_JITTER < options.leader_elect_renew_deadline_s:
        raise UsageError(
            f"--leader-elect-renew-deadline must be greater than {RETRY_JITTER} times "
            "--leader-elect-retry-period, and both must be greater than zero"
        )
    if options.leader_elect_renew_deadline_s >= options.leader_elect_lease_duration_s:
        raise UsageError("--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline")


def _check_audit(config: Config) -> None:
    auditing = config.auditing
    version = f"{config.brand.group('audit')}/v1"
    try:
        for plugin, options in (("log", auditing.audit_log), ("webhook", auditing.audit_webhook)):
            if options is not None:
                options.delivery.check(plugin)
                options.truncation.check(plugin)
                check_version(options.version, version, AuditOptions().audit_log_version)
    except InvalidOptions as error:
        raise UsageError(str(error)) from None
    if auditing.audit_log is None:
        return
    if auditing.audit_log_format not in FORMATS:
        raise UsageError(
            f'invalid audit log format {auditing.audit_log_format}, allowed formats are "{",".join(FORMATS)}"'
        )
    for flag, amount in (
        ("maxage", auditing.audit_log_maxage),
        ("maxbackup", auditing.audit_log_maxbackup),
        ("maxsize", auditing.audit_log_maxsize),
    ):
        if amount < 0:
            raise UsageError(f"--audit-log-{flag} {amount} can't be a negative number")


def _check_files(config: Config) -> None:
    named = [(flag, config.option(flag.replace("-", "_"))) for flag in _FILES]
    for flag, path in (
        *named,
        *(("tls-sni-cert-key", path) for each in config.serving.tls_sni_cert_key for path in each[:2]),
        *(("service-account-key-file", path) for path in config.authentication.service_account_key_file),
    ):
        if path is not None and not path.is_file():
            raise UsageError(f"--{flag}: {path} is not a file")
