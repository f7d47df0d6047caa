"""Validation of pod specs, in pods and in templates. Source: pkg/apis/core/validation, ValidatePodSpec."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from apiserver.catalogue.common.participants import validate_own_name
from apiserver.catalogue.pod_specs import resource_requirements, scheduling, security_contexts
from apiserver.catalogue.pod_specs.containers import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from apiserver.catalogue.pod_specs.ratcheting import ratcheted
from apiserver.catalogue.pod_specs.valid_specs import ValidSpecs, digest_of
from apiserver.catalogue.pod_specs.validation_options import PodValidationOptions, options_of
from apiserver.catalogue.pod_specs.volumes import VolumeOwner, validate_volumes
from apiserver.golang.formatting import go_struct_fields
from apiserver.meta import names, object_meta
from apiserver.meta.field_errors import (
    NO_FIELD,
    Errors,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
)
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.addresses import AddressChecks
from apiserver.schema.validation.checks import at_least, at_most, in_range, named, one_of
from apiserver.schema.validation.documents import items

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SECONDS_MAX: Final = (1 << 31) - 1


class PodIdentity(NamedTuple):
    """The pod of a spec. name: empty if it has none yet. is_static: a kubelet created it from a file."""

    name: str
    is_static: bool


class PodSpecRules:
    """The rules of pod specs with the same options, and a cache of valid specs.

    The cache only holds specs for which the rules would find no errors again.
    """

    def __init__(self, options: PodValidationOptions) -> None:
        self.options = options
        self._valid_pods, self._valid_templates = ValidSpecs(), ValidSpecs()

    def validate(self, path: str, spec: Document, pod: PodIdentity | None, old: Document | None) -> Errors:
        """Checks a spec, unless an equivalent one is known to be valid.

        pod: None for a template. old: the stored spec; some rules that it breaks may stay broken.
        """
        valid_specs = self._valid_pods if pod is not None else self._valid_templates
        digest = digest_of(spec) if pod is None or not pod.is_static else None
        if digest is not None and digest in valid_specs:
            return []
        errors = spec_errors(path, spec, pod, self.options)
        if errors and old is not None:
            options = ratcheted(self.options, spec, old)
            return errors if options == self.options else spec_errors(path, spec, pod, options)
        if digest is not None and not errors:
            valid_specs.add(digest)
        return errors


# Servers of one process nearly always have the same.
_RULES_KEPT_MAX: Final = 8
_rules_of = lru_cache(_RULES_KEPT_MAX)(PodSpecRules)


def rules_of(gates: FeatureGates) -> PodSpecRules:
    """Returns the rules of pod specs with these gates."""
    return _rules_of(options_of(gates))


def spec_errors(path: str, spec: Document, pod: PodIdentity | None, options: PodValidationOptions) -> Errors:
    """Returns the errors in a spec, without the cache. pod: None for a template."""
    owner = VolumeOwner(pod is not None, pod.name if pod is not None else "", options.non_local_token_paths)
    volumes, errors = validate_volumes(path, spec, owner)
    context = PodContext(
        options=options,
        volumes=volumes,
        claims={claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")},
        grace_s=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        has_host_users=spec.get("hostUsers", True),
        all_volumes={volume.get("name", ""): volume for volume in spec.get("volumes") or ()},
        system=spec["os"].get("name") if "os" in spec else None,
    )
    if "resourceClaims" in spec:
        errors += _resource_claims(path, spec, is_static=pod is not None and pod.is_static)
    errors += validate_containers(path, spec, context)
    errors += validate_init_containers(path, spec, context)
    errors += validate_ephemeral_containers(path, spec, context)
    if "resources" in spec and options.pod_level_resources:
        errors += resource_requirements.validate_pod_resources(
            f"{path}.resources", spec, context.claims, any_huge_pages=options.indivisible_huge_pages
        )
    if spec.get("hostNetwork"):
        errors += _host_network_ports(path, spec, is_pod=pod is not None)
    if (restarts := context.restart_policy) not in RESTART_POLICIES:
        errors += one_of(f"{path}.restartPolicy", restarts, RESTART_POLICIES, required_text="")
    if (policy := spec.get("dnsPolicy")) not in _DNS_POLICIES:
        errors += one_of(f"{path}.dnsPolicy", policy, _DNS_POLICIES, required_text="")
    if "nodeSelector" in spec:
        errors += object_meta.validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    errors += security_contexts.validate_pod_security_context(path, spec, options)
    errors += _scheduling(path, spec, options)
    errors += security_contexts.validate_host_process(path, spec)
    errors += security_contexts.validate_host_users(path, spec, options)
    if "hostnameOverride" in spec:
        errors += _hostname_override(f"{path}.hostnameOverride", spec)
    errors += _names(path, spec, ("serviceAccountName", "nodeName"))
    if "activeDeadlineSeconds" in spec:
        where = f"{path}.activeDeadlineSeconds"
        errors += in_range(where, spec["activeDeadlineSeconds"], 1, _SECONDS_MAX)
    for field in ("hostname", "subdomain"):
        if field in spec:
            errors += named(f"{path}.{field}", spec[field], names.dns_label, is_required=False)
    if "tolerations" in spec:
        errors += scheduling.validate_tolerations(
            f"{path}.tolerations", spec["tolerations"] or (), has_comparisons=options.toleration_comparisons
        )
    if "hostAliases" in spec:
        errors += _host_aliases(path, spec, options)
    errors += _names(path, spec, ("priorityClassName",))
    if "runtimeClassName" in spec:
        name = spec["runtimeClassName"]
        errors += [invalid(f"{path}.runtimeClassName", name, text) for text in names.dns_subdomain(name)]
    if "preemptionPolicy" in spec:
        policies = ("PreemptLowerPriority", "Never")
        errors += one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], policies, required_text="")
    if "overhead" in spec:
        errors += resource_requirements.validate_overhead(
            f"{path}.overhead", spec["overhead"] or {}, any_huge_pages=options.indivisible_huge_pages
        )
    errors += security_contexts.validate_operating_system(path, spec)
    if "schedulingGroup" in spec:
        errors += scheduling.validate_scheduling_group(f"{path}.schedulingGroup", spec["schedulingGroup"])
    return errors


_HOSTNAME_OVERRIDE_BYTES_MAX: Final = 64


def _hostname_override(path: str, spec: Document) -> Errors:
    name = spec["hostnameOverride"]
    errors = [
        forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if names.byte_length(name) > _HOSTNAME_OVERRIDE_BYTES_MAX:
        errors.append(too_long(path, _HOSTNAME_OVERRIDE_BYTES_MAX))
    return errors + [invalid(path, name, problem) for problem in names.dns_subdomain(name)]


def _names(path: str, spec: Document, fields: tuple[str, ...]) -> Errors:
    errors: Errors = []
    for field in fields:
        if field in spec:
            errors += named(f"{path}.{field}", spec[field], names.dns_subdomain, is_required=False)
    return errors


def _scheduling(path: str, spec: Document, options: PodValidationOptions) -> Errors:
    errors: Errors = []
    if "affinity" in spec:
        errors += scheduling.validate_affinity(
            f"{path}.affinity",
            spec["affinity"] or {},
            any_pod_values=options.invalid_values_in_pod_affinity,
            any_node_values=options.invalid_values_in_node_affinity,
        )
    errors += _dns_config(f"{path}.dnsConfig", spec, options)
    if gates := spec.get("readinessGates"):
        errors += scheduling.validate_readiness_gates(f"{path}.readinessGates", gates)
    if gates := spec.get("schedulingGates"):
        errors += scheduling.validate_scheduling_gates(f"{path}.schedulingGates", gates)
    if spec.get(_RESPONDERS):
        errors += validate_eviction_responders(path, spec)
    if constraints := spec.get("topologySpreadConstraints"):
        where = f"{path}.topologySpreadConstraints"
        errors += scheduling.validate_topology_spread(
            where,
            constraints,
            are_keys_merged=options.label_keys_in_spread and options.merged_label_keys_in_spread,
            any_selectors=options.invalid_selectors_in_spread,
        )
    return errors


def _resource_claims(path: str, spec: Document, *, is_static: bool) -> Errors:
    errors: Errors = []
    if is_static:
        text = "static pods do not support resource claims"
        return [forbidden(NO_FIELD, text) for _ in spec["resourceClaims"] or ()]
    seen: set[str] = set()
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for where, claim in items(spec, "resourceClaims", path):
        name = claim.get("name", "")
        if name and name in seen:
            errors.append(duplicate(f"{where}.name", name))
        else:
            errors += named(f"{where}.name", name, names.dns_label)
        seen.add(name)
        given = [field for field in sources if field in claim]
        if len(given) != 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            if not given:
                text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            shown = go_struct_fields({"name": name} | dict.fromkeys(sources) | claim)
            errors.append(invalid(where, shown, text))
        for field in given:
            value = claim[field]
            errors += [invalid(f"{where}.{field}", value, problem) for problem in names.dns_subdomain(value)]
    return errors


def _host_network_ports(path: str, spec: Document, *, is_pod: bool) -> Errors:
    """Checks that host ports equal container ports in the host's network. Templates may omit host ports."""
    errors: Errors = []
    for place, container in items(spec, "containers", path):
        for where, port in items(container, "ports", place):
            of_host = port.get("hostPort", 0)
            if (is_pod or of_host) and of_host != port.get("containerPort", 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid(f"{where}.hostPort", of_host, text))
    return errors


# ---- names of hosts

_NAMESERVERS_MAX: Final = 3
_SEARCHES_MAX: Final = 32
_SEARCH_LENGTH_MAX: Final = 2_048
_DOMAIN_LENGTH_MAX: Final = 253
_DOMAIN_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = rf"{_DOMAIN_LABEL}(\.{_DOMAIN_LABEL})*"
_DOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_DOMAIN}')"
)
_is_domain = re.compile(_DOMAIN).fullmatch


def _search_domain(name: str) -> list[str]:
    """Returns the errors in a DNS subdomain in which underscores are allowed."""
    if names.byte_length(name) > _DOMAIN_LENGTH_MAX:
        return [f"must be no more than {_DOMAIN_LENGTH_MAX} characters"]
    if _is_domain(name):
        return []
    return [_DOMAIN_TEXT]


def _dns_config(path: str, spec: Document, options: PodValidationOptions) -> Errors:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", text)]
    if config is None:
        return []
    errors: Errors = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _NAMESERVERS_MAX:
        text = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, text))
    addresses = AddressChecks(not options.unusual_addresses)
    for where, server in items(config, "nameservers", path):
        errors += addresses.ip(where, server)
    if len(searches) > _SEARCHES_MAX:
        text = f"must not have more than {_SEARCHES_MAX} search paths"
        errors.append(invalid(f"{path}.searches", searches, text))
    if names.byte_length(" ".join(searches)) > _SEARCH_LENGTH_MAX:
        text = (
            f"must not have more than {_SEARCH_LENGTH_MAX} characters (including spaces) in the search list"
        )
        errors.append(invalid(f"{path}.searches", searches, text))
    for where, search in items(config, "searches", path):
        if search != "." or not options.relaxed_dns_searches:
            domain = search.removesuffix(".")
            rule = _search_domain if options.relaxed_dns_searches else names.dns_subdomain
            errors += [invalid(where, domain, problem) for problem in rule(domain)]
    for where, option in items(config, "options", path):
        if not option.get("name"):
            errors.append(required(where, "must not be empty"))
    return errors


def _host_aliases(path: str, spec: Document, options: PodValidationOptions) -> Errors:
    addresses = AddressChecks(not options.unusual_addresses)
    errors: Errors = []
    for where, alias in items(spec, "hostAliases", path):
        errors += addresses.ip(f"{where}.ip", alias.get("ip"))
        for place, name in items(alias, "hostnames", where):
            errors += [invalid(place, name, problem) for problem in names.dns_subdomain(name)]
    return errors


# ---- eviction responders (since 1.37). Source: k8s.io/api/core/v1, the rules of EvictionResponder

_RESPONDERS: Final = "evictionResponders"
_RESPONDERS_MAX: Final = 10
_RESPONDER_PRIORITY_MAX: Final = 100_000
_RESERVED_BELOW: Final = 1000


def validate_eviction_responders(path: str, spec: Document) -> Errors:
    """Returns the errors in the eviction responders of a pod. path: that of the spec."""
    count = len(spec.get(_RESPONDERS) or ())
    if count > _RESPONDERS_MAX:
        return [too_many(f"{path}.{_RESPONDERS}", count, _RESPONDERS_MAX)]
    errors: Errors = []
    seen: set[str] = set()
    for where, responder in items(spec, _RESPONDERS, path):
        name, priority = responder.get("name") or "", responder.get("priority")
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
        errors += validate_own_name(f"{where}.name", name)
        errors += _responder_priority(f"{where}.priority", priority)
    return errors


def _responder_priority(path: str, priority: int | None) -> Errors:
    if priority is None:
        return [required(path)]
    if 0 <= priority < _RESERVED_BELOW:
        reserved = f"priorities 0-{_RESERVED_BELOW - 1} are reserved for responders with *.k8s.io suffix"
        return [invalid(path, priority, reserved)]
    return at_least(path, priority, 0) + at_most(path, priority, _RESPONDER_PRIORITY_MAX)
