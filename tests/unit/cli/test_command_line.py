"""Flags and a YAML file become one configuration; what is refused, and with which error."""

from __future__ import annotations

import argparse
import dataclasses
import ipaddress
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cli.argument_parser import HELP_WIDTH_MAX, UsageError
from apiserver.cli.command_line import _FILES, parse
from apiserver.cli.config import SECTION_OF, Config
from apiserver.cli.flag import Flag
from apiserver.cli.flag_values import NamedCertificate, duration_s
from apiserver.cli.flags import SECTIONS, build_parser
from apiserver.cli.kube_apiserver_flags import LIFECYCLES, NOT_NEEDED, REFUSED, Maturity
from apiserver.meta.brand import Brand
from apiserver.meta.releases.deviations import KUBERNETES, SPECIFIED
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.metrics.registry import MetricsConfiguration

# ---- flags


def test_no_flags_are_the_defaults() -> None:
    assert parse([]) == Config()
    assert parse(["serve"]) == Config()


ETCD: Final = "--etcd-servers=http://a:1"
FLAGS: Final[dict[str, tuple[list[str], dict[str, Any]]]] = {
    "text": (["--bind-address=0.0.0.0"], {"bind_address": "0.0.0.0"}),
    "a value of its own": (["--bind-address", "::1"], {"bind_address": "::1"}),
    "a port": (["--secure-port=0"], {"secure_port": 0}),
    "a path": (["--data-dir=/x/y"], {"data_dir": Path("/x/y")}),
    "the oldest TLS": (["--tls-min-version=VersionTLS13"], {"tls_min_version": "VersionTLS13"}),
    "cipher suites": (
        ["--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        {"tls_cipher_suites": ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")},
    ),
    "directives for browsers": (
        [
            "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
            "--strict-transport-security-directives=preload",
        ],
        {"strict_transport_security_directives": ("max-age=31536000", "includeSubDomains", "preload")},
    ),
    "a number": (["--max-requests-inflight=0"], {"max_requests_inflight": 0}),
    "another": (["--default-watch-cache-size=100"], {"default_watch_cache_size": 100}),
    "a duration in seconds": (["--request-timeout=1m30s"], {"request_timeout_s": 90.0}),
    "a duration of whole seconds": (["--event-ttl=1h0m0s"], {"event_ttl_s": 3600}),
    "which is never nothing": (["--event-ttl=10ms"], {"event_ttl_s": 1}),
    "seconds without a unit, as kube-apiserver has them": (
        ["--min-request-timeout=60"],
        {"min_request_timeout_s": 60.0},
    ),
    "0 for ever": (["--etcd-compaction-interval=0"], {"etcd_compaction_interval_s": 0.0}),
    "the grace of livez": (["--livez-grace-period=5s"], {"livez_grace_period_s": 5.0}),
    "the end": (["--shutdown-delay-duration=250ms"], {"shutdown_delay_s": 0.25}),
    "some resources' history": (
        ["--watch-cache-sizes=pods#500, deployments.apps#0"],
        {"watch_cache_sizes": {("", "pods"): 500, ("apps", "deployments"): 0}},
    ),
    "memory": (["--memory-limit=512Mi"], {"memory_limit_bytes": 536_870_912}),
    "memory without a limit": (["--memory-limit=0"], {"memory_limit_bytes": 0}),
    "all histories": (["--watch-cache-history-bytes=1000"], {"watch_cache_history_bytes": 1000}),
    "a store without files": (["--storage-backend=memory"], {"storage_backend": "memory"}),
    "one server": (["--etcd-servers=http://a:2379"], {"etcd_servers": ("http://a:2379",)}),
    "servers": (
        ["--etcd-servers=https://a:1, http://[::1]:2,"],
        {"etcd_servers": ("https://a:1", "http://[::1]:2")},
    ),
    "origins, more than once": (
        ["--cors-allowed-origins=^http://foo.com$,//bar.com(:|$)", "--cors-allowed-origins=://foo.com$"],
        {"cors_allowed_origins": ("^http://foo.com$", "//bar.com(:|$)", "://foo.com$")},
    ),
    "no origins": (["--cors-allowed-origins="], {"cors_allowed_origins": ()}),
    "processes": (
        ["--workers=64", "--etcd-servers=http://a:1"],
        {"workers": 64, "etcd_servers": ("http://a:1",)},
    ),
    "one process, on either store": (["--workers=1"], {"workers": 1}),
    "a prefix, with one slash before it": (["--etcd-prefix=a/b/"], {"etcd_prefix": "/a/b"}),
    "no anonymous": (["--anonymous-auth=false"], {"anonymous_auth": False}),
    "a boolean as a number": (["--anonymous-auth=0"], {"anonymous_auth": False}),
    "a boolean as a letter": (["--anonymous-auth=f"], {"anonymous_auth": False}),
    "H04: values as Go reads them": (
        ["--runtime-config=api/beta=t,api/alpha=F,batch/v1=,apps/v1=1"],
        {"runtime_config": {"api/beta": True, "api/alpha": False, "batch/v1": True, "apps/v1": True}},
    ),
    "who decides": (["--authorization-mode=AlwaysAllow"], {"authorization_mode": ("AlwaysAllow",)}),
    "who decides, one after another": (
        ["--authorization-mode=Node,RBAC"],
        {"authorization_mode": ("Node", "RBAC")},
    ),
    "kube-apiserver's defaults": (
        ["kube-apiserver"],
        {
            "bind_address": "0.0.0.0",
            "controllers": ("-*",),
            "service_cluster_ip_range": (ipaddress.ip_network("10.0.0.0/24"),),
        },
    ),
    "flags come before kube-apiserver's defaults": (
        ["kube-apiserver", "--controllers=*", "--bind-address=::1", "--service-cluster-ip-range=10.1.0.0/24"],
        {"bind_address": "::1", "service_cluster_ip_range": (ipaddress.ip_network("10.1.0.0/24"),)},
    ),
    "a directory for the certificate has room for the rest": (
        ["--cert-dir=/c"],
        {"cert_dir": Path("/c"), "data_dir": Path("/c/apiserver-data")},
    ),
    "both directories": (
        ["--cert-dir=/c", "--data-dir=/d"],
        {"cert_dir": Path("/c"), "data_dir": Path("/d")},
    ),
    "no insecure port": (
        ["--insecure-port=0", "--secure-port=1", "--insecure-port", "0"],
        {"secure_port": 1},
    ),
    "arguments that are empty": (["", "--secure-port=1", ""], {"secure_port": 1}),
    "a flag that needs no value": (["--strict-kube-compat"], {"deviations": KUBERNETES}),
    "but may have one": (["--strict-kube-compat=false"], {"deviations": SPECIFIED}),
    "a brand": (
        ["--group-domain=example.com", "--vendor=acme"],
        {"brand": Brand("example.com", "acme")},
    ),
    "controllers": (["--controllers=*,-namespace"], {"controllers": ("*", "-namespace")}),
    "the election of a leader": (
        [
            "--leader-elect-lease-duration=1m30s",
            "--leader-elect-renew-deadline=20s",
            "--leader-elect-retry-period=500ms",
            "--leader-elect-resource-name=mine",
        ],
        {
            "leader_elect_lease_duration_s": 90,
            "leader_elect_renew_deadline_s": 20.0,
            "leader_elect_retry_period_s": 0.5,
            "leader_elect_resource_name": "mine",
        },
    ),
    "no election of a leader": (["--leader-elect=false"], {"leader_elect": False}),
    "versions and resources to serve (H04)": (
        ["--runtime-config=api/beta=true,batch/v1=false,batch/v1/jobs"],
        {"runtime_config": {"api/beta": True, "batch/v1": False, "batch/v1/jobs": True}},
    ),
    "H04: of which a missing value is true, in several flags": (
        ["--runtime-config=api/beta,batch/v1=false", "--runtime-config=api/v1,apps/v1/deployments"],
        {"runtime_config": {"api/beta": True, "batch/v1": False, "v1": True, "apps/v1/deployments": True}},
    ),
    "S10: hidden metrics": (
        ["--show-hidden-metrics-for-version=1.35"],
        {"metrics": MetricsConfiguration(shows_hidden=True)},
    ),
    "S10: those of the emulated release": (
        ["--show-hidden-metrics-for-version=1.33", "--emulated-version=1.34"],
        {
            "metrics": MetricsConfiguration(shows_hidden=True),
            "release": EmulatedRelease(34, 33),
        },
    ),
    "metrics that are not served": (
        ["--disabled-metrics=a_total,b", "--disabled-metrics=c"],
        {"metrics": MetricsConfiguration(disabled=frozenset({"a_total", "b", "c"}))},
    ),
    "labels of metrics": (
        ["--allow-metric-labels=m,l='v1,v2'", "--allow-metric-labels", '"m,k=v,w","n,l=x"'],
        {
            "metrics": MetricsConfiguration(
                allowed_labels={
                    "m": {"l": frozenset({"v1", "v2"}), "k": frozenset({"v", "w"})},
                    "n": {"l": frozenset({"x"})},
                }
            )
        },
    ),
    "T31: what a later release has removed is gone": (
        ["--emulate-removal=1.38", "--emulate-removal-header"],
        {
            "emulate_removal": 38,
            "emulate_removal_header": True,
            "warnings": ("--emulate-removal: not serving the API versions that Kubernetes 1.38 has removed",),
        },
    ),
    "S12: a release": (
        ["--emulated-version=1.34"],
        {"release": EmulatedRelease(34, 33)},
    ),
    "S12: as kube-apiserver has it, with an older one that can read the store": (
        ["--emulated-version=kube=1.34", "--min-compatibility-version=kube=1.31"],
        {"release": EmulatedRelease(34, 31)},
    ),
    "H07 validation that is not declared": (
        ["--feature-gates=DeclarativeValidation=false"],
        {
            "feature_gates": (("DeclarativeValidation", False),),
            "warnings": (
                "setting GA feature gate DeclarativeValidation=false: it will be removed in a future release",
            ),
        },
    ),
    "addresses of webhooks that are denied": (
        ["--webhook-deny-cidrs=10.0.0.0/8, ::1/128"],
        {"webhook_deny_cidrs": (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1/128"))},
    ),
    "no addresses of webhooks that are denied": (["--webhook-deny-cidrs="], {"webhook_deny_cidrs": ()}),
    "a gate": (
        ["--feature-gates=ListFromCacheSnapshot=false"],
        {"feature_gates": (("ListFromCacheSnapshot", False),)},
    ),
    "gates of the component, in several flags (H09)": (
        ["--feature-gates=kube:CBORServingAndStorage=true", "--feature-gates=DetectCacheInconsistency=false"],
        {
            "feature_gates": (("CBORServingAndStorage", True), ("DetectCacheInconsistency", False)),
        },
    ),
    "logs": (["--v=4", "--logging-format=json"], {"verbosity": 4, "logging_format": "json"}),
    "the last one counts": (["--secure-port=1", "--secure-port=2"], {"secure_port": 2}),
}


@pytest.mark.parametrize(("arguments", "expected"), FLAGS.values(), ids=FLAGS)
def test_what_a_flag_sets(arguments: list[str], expected: dict[str, Any]) -> None:
    assert parse(arguments) == Config.of(expected)


BAD: Final = {
    "an issuer of tokens twice": (
        ["--service-account-issuer=a", "--service-account-issuer=a"],
        '--service-account-issuer "a" is already specified',
    ),
    "an issuer of tokens that is no URL": (["--service-account-issuer=https://a b"], "was not a valid URL"),
    "tokens for longer than time": (
        ["--service-account-max-token-expiration=2000000h"],
        "must be 0, or between 1 hour and 2^32 seconds",
    ),
    "an issuer without a client": (
        ["--oidc-issuer-url=https://a.example"],
        "--oidc-issuer-url and --oidc-client-id must be specified together",
    ),
    "a claim of no issuer": (["--oidc-username-claim=email"], "must be specified together"),
    "an issuer without https": (
        ["--oidc-issuer-url=http://a.example", "--oidc-client-id=c"],
        "URL scheme must be https",
    ),
    "the own issuer": (
        ["--oidc-issuer-url=https://kubernetes.default.svc", "--oidc-client-id=c"],
        "must not overlap with disallowed issuers",
    ),
    "no authority of an issuer": (
        ["--oidc-issuer-url=https://a.example", "--oidc-client-id=c", "--oidc-ca-file=tests/__init__.py"],
        "--oidc-ca-file: tests/__init__.py contains no certificate",
    ),
    "a shared secret": (["--oidc-signing-algs=HS256"], "'HS256' is not one of ES256"),
    "an issuer in a file and in flags": (
        ["--authentication-config=README.md", "--oidc-client-id=c"],
        "--authentication-config and --oidc-* flags are mutually exclusive",
    ),
    "a file that is no configuration": (["--authentication-config=README.md"], "--authentication-config: "),
    "a required claim without a value": (["--oidc-required-claim=a"], "is not of the form CLAIM=VALUE"),
    "a version of reviews that there is not": (
        ["--authentication-token-webhook-version=v2"],
        "invalid choice: 'v2'",
    ),
    "a webhook for tokens that is nowhere": (
        ["--authentication-token-webhook-config-file=LICENSE"],
        "--authentication-token-webhook-config-file: ",
    ),
    "a network that is none": (["--webhook-deny-cidrs=10.0.0.1/8"], "has host bits set"),
    "an origin that is no pattern": (["--cors-allowed-origins=//(.com$"], "missing closing )"),
    "an origin whose start is open": (
        ["--cors-allowed-origins=foo.com$"],
        "does not pin to start/end of host",
    ),
    "an origin whose end is open": (
        ["--cors-allowed-origins=//foo.com"],
        "does not pin to start/end of host",
    ),
    "an origin that says nothing": (["--cors-allowed-origins=^a$,"], "a pattern is empty"),
    "a size that is none": (["--memory-limit=1.5Gi"], "is not a size like 512Mi or 2G"),
    "a flag nobody knows": (["--sekure-port=1"], "unknown flag: --sekure-port"),
    "a flag cut short": (["--secure=1"], "unknown flag: --secure"),
    "a word": (["start"], "start"),
    "a word after a value": (["--secure-port", "1", "serve", "x"], "unexpected argument 'x'"),
    "no value": (["--secure-port"], "--secure-port"),
    "a port that is none": (["--secure-port=65536"], "65536 is not a port number"),
    "a port below nothing": (["--secure-port=-1"], "is not an integer from 0 to 999999999"),
    "a number with a unit": (["--min-request-timeout=60s"], "'60s' is not an integer"),
    "a duration without a unit": (["--request-timeout=60"], "'60' is not a duration"),
    "a duration below nothing": (["--request-timeout=-1s"], "'-1s' is not a duration"),
    "neither true nor false": (["--anonymous-auth=maybe"], "'maybe' is neither true nor false"),
    "a boolean in letters of other sizes": (["--anonymous-auth=tRUE"], "'tRUE' is neither true nor false"),
    "a server without a scheme": (["--etcd-servers=a:2379"], "'a:2379' is not of the form http://HOST:PORT"),
    "a server without a host": (["--etcd-servers=http://"], "'http://' is not of the form http://HOST:PORT"),
    "a server with a port that is none": (
        ["--etcd-servers=http://a:99999"],
        "'http://a:99999' is not of the form http://HOST:PORT",
    ),
    "a server with half an address": (["--etcd-servers=http://[::1"], "is not of the form http://HOST:PORT"),
    "no processes": (["--workers=0"], "0 is not between 1 and 64"),
    "too many": (["--workers=65"], "65 is not between 1 and 64"),
    "several processes on the embedded store": (
        ["--workers=2"],
        "--workers requires --etcd-servers: only one process can use the embedded store",
    ),
    "a leader that is late to notice": (
        [ETCD, "--leader-elect-lease-duration=10s"],
        "--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline",
    ),
    "a leader with one attempt": (
        [ETCD, "--leader-elect-retry-period=9s"],
        "--leader-elect-renew-deadline must be greater than 1.2 times --leader-elect-retry-period",
    ),
    "a leader that renews all the time": ([ETCD, "--leader-elect-retry-period=0"], "greater than zero"),
    "a Lease without a name": (["--leader-elect-resource-name="], "'' is not the name of an object"),
    "an election without Leases": (
        [ETCD, "--runtime-config=coordination.k8s.io/v1=false"],
        "--leader-elect requires coordination.k8s.io/v1/leases",
    ),
    "no prefix": (["--etcd-prefix=/"], "the prefix must not be empty"),
    "no core group": (["--runtime-config=api/all=false"], "the server requires v1/namespaces"),
    "S10: hidden metrics of another release": (
        ["--show-hidden-metrics-for-version=1.34"],
        "must be omitted or have the value '1.35'. Only the previous minor version is allowed",
    ),
    "a metric that is none": (["--disabled-metrics=a-b"], "'a-b' is not the name of a metric"),
    "a label of no metric": (["--allow-metric-labels=a=b"], "'a' is not of the form METRIC,LABEL"),
    "labels without values": (["--allow-metric-labels=a,b"], "is not of the form METRIC,LABEL"),
    "a label without values": (['--allow-metric-labels="a,b"'], "is not of the form METRIC,LABEL"),
    "labels in a file that is none": (["--allow-metric-labels-manifest=/none"], "cannot read /none"),
    "T31: removals of the release itself": (
        ["--emulate-removal=1.34", "--emulated-version=1.34"],
        "--emulate-removal: 1.34 is not after 1.34, the emulated version",
    ),
    "T31: removals of a release that nobody knows": (
        ["--emulate-removal=1.50"],
        "--emulate-removal: 1.50 is after 1.43, the last release whose removals are known",
    ),
    "T31: removals of no release": (["--emulate-removal=next"], "'next' is not of the form 1.34"),
    "S12: a release that is none": (["--emulated-version=latest"], "'latest' is not of the form 1.34"),
    "S12: of another component": (["--emulated-version=foo=1.34"], "component not registered: foo"),
    "S12: one that is too old": (["--emulated-version=1.14"], "1.14 is not between 1.15 and 1.37"),
    "S12: one that comes later": (["--emulated-version=1.38"], "1.38 is not between 1.15 and 1.37"),
    "S12: with a store for later ones": (
        ["--emulated-version=1.34", "--min-compatibility-version=1.35"],
        "min compatibility version 1.35 is not between 1.14 and 1.34",
    ),
    "H09: a gate that the release does not have yet": (
        ["--emulated-version=1.30", "--feature-gates=CBORServingAndStorage=true"],
        "feature is PreAlpha at emulated version 1.30",
    ),
    "H04: a group that there is not": (["--runtime-config=example.com/v1"], "has no example.com/v1"),
    "H04: a version that was removed": (
        ["--runtime-config=extensions/v1beta1=true"],
        "Kubernetes 1.36 has no extensions/v1beta1",
    ),
    "H04: a group that is gone": (
        ["--emulated-version=1.20", "--runtime-config=settings.k8s.io/v1alpha1"],
        "Kubernetes 1.20 has no settings.k8s.io/v1alpha1",
    ),
    "H04: a resource that there is not": (["--runtime-config=apps/v1/pods"], "has no apps/v1/pods"),
    "H04: one thing and its opposite": (
        ["--runtime-config=batch/v1", "--runtime-config=batch/v1=false"],
        "batch/v1 is both true and false",
    ),
    "what is no version": (["--runtime-config=a/b/c/d"], "'a/b/c/d' is not of the form api/STABILITY"),
    "an unknown controller": (["--controllers=*,garbage"], "'garbage' is not a controller"),
    "H09 a gate without a value": (
        ["--feature-gates=ListFromCacheSnapshot"],
        "missing bool value for ListFromCacheSnapshot",
    ),
    "H09 a gate that is neither on nor off": (
        ["--feature-gates=ListFromCacheSnapshot=maybe"],
        "invalid value of ListFromCacheSnapshot=maybe, err: 'maybe' is neither true nor false",
    ),
    "H09 a gate that nobody knows": (["--feature-gates=Other=true"], "unrecognized feature gate: Other"),
    "H09 a gate that was removed": (
        ["--feature-gates=EphemeralContainers=true"],
        "unrecognized feature gate: EphemeralContainers, which Kubernetes 1.27 has removed",
    ),
    "H09 a gate that is locked": (
        ["--feature-gates=AuthorizeWithSelectors=false"],
        "cannot set feature gate AuthorizeWithSelectors to false, feature is locked to true",
    ),
    "T11: a plugin that went with its API": (
        ["--enable-admission-plugins=PodSecurityPolicy"],
        "Kubernetes 1.36 has no admission plugin 'PodSecurityPolicy'",
    ),
    "a gate of another component": (["--feature-gates=other:A=true"], "component not registered: other"),
    "a domain of one part": (["--group-domain=local"], "'local' must be a DNS name of at least two labels"),
    "a domain in upper case": (["--group-domain=Example.com"], "must be a DNS name"),
    "a vendor of two words": (["--vendor=a b"], "must be a DNS label"),
    "another format of logs": (["--logging-format=xml"], "xml"),
    "no way to decide": (["--authorization-mode="], "at least one authorization mode must be passed"),
    "a way to decide that is not there": (["--authorization-mode=RBAC,ABAC"], "'ABAC' is not one of"),
    "a webhook that is nowhere": (
        ["--authorization-mode=Webhook"],
        "Webhook's authorization config file not passed",
    ),
    "a webhook that nobody would ask": (
        ["--authorization-webhook-config-file=x"],
        "cannot specify --authorization-webhook-config-file without mode Webhook",
    ),
    "a version of reviews that is none": (
        ["--authorization-webhook-version=v2"],
        'unsupported webhook authorizer version "v2", supported versions are "v1", "v1beta1"',
    ),
    "a way to decide, twice": (["--authorization-mode=RBAC,RBAC"], "contains a mode twice"),
    "deciders in a file that is not there": (
        ["--authorization-config=/no/such"],
        "--authorization-config: /no/such: No such file or directory",
    ),
    "deciders in a file and by flags": (
        ["--authorization-config=x", "--authorization-mode=RBAC"],
        "--authorization-config can not be specified when --authorization-mode or",
    ),
    "no roles where they decide": (
        ["--runtime-config=rbac.authorization.k8s.io/v1=false"],
        "--authorization-mode=RBAC requires rbac.authorization.k8s.io/v1/roles",
    ),
    "a certificate without its key": (["--tls-cert-file=x"], "must be given together"),
    "a key without its certificate": (["--etcd-keyfile=x"], "must be given together"),
    "a certificate for names without its key": (["--tls-sni-cert-key=x"], "certificate and key file paths"),
    "a certificate for no names": (["--tls-sni-cert-key=x,y:"], "empty names list is not allowed"),
    "a certificate for names that is not there": (
        ["--tls-sni-cert-key=/no/such,y"],
        "/no/such is not a file",
    ),
    "no such version of TLS": (["--tls-min-version=1.2"], "VersionTLS12"),
    "no such cipher suite": (["--tls-cipher-suites=RC4"], "Cipher suite RC4 not supported or doesn't exist"),
    "no such directive for browsers": (
        ["--strict-transport-security-directives=max-age=1,always"],
        "'always' is not one of max-age=SECONDS, includeSubDomains, preload",
    ),
    "a directive for browsers that ends the line": (
        ["--strict-transport-security-directives=max-age=1\r\nSet-Cookie: a"],
        "is not one of max-age=SECONDS, includeSubDomains, preload",
    ),
    "a file that is not there": (
        ["--client-ca-file=/no/such"],
        "--client-ca-file: /no/such is not a file",
    ),
    "an insecure port": (["--insecure-port=8080"], "--insecure-port"),
    "an insecure port, apart from its flag": (["--insecure-port", "8080"], "--insecure-port"),
    "an address that is none": (["--advertise-address=here"], "'here' is not an IP address"),
    "keys at a place that is none": (["--service-account-jwks-uri=http://a/"], "https://HOST/PATH"),
    "tokens that others sign": (
        ["--service-account-signing-endpoint=/run/signer.sock"],
        "--service-account-signing-endpoint: the server does not support external signers",
    ),
    "tokens that others sign, apart from the flag": (
        ["--service-account-signing-endpoint", "/run/signer.sock"],
        "--service-account-signing-endpoint: the server does not support external signers",
    ),
    "S11 by the release that is emulated": (
        ["--cloud-provider=external"],
        "which Kubernetes 1.33 has removed: run a cloud controller manager as a separate program",
    ),
    "S11 and never had an effect here": (
        ["--basic-auth-file=a.csv"],
        "unknown flag: --basic-auth-file, which Kubernetes 1.19 has removed: use --token-auth-file instead",
    ),
    "S11 with a value of its own": (
        ["--service-account-api-audiences", "a"],
        "which Kubernetes 1.25 has removed: use --api-audiences instead",
    ),
    "one that never was": (["--not-a-flag=1"], "unknown flag: --not-a-flag"),
    "no configuration file": (["--config=/no/such"], "cannot read /no/such"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_what_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(arguments)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value), "the message is one line"


def test_files_that_are_there_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    flags = ["tls-cert-file", "tls-private-key-file", "client-ca-file", "token-auth-file"]
    config = parse([f"--{flag}={file}" for flag in flags])
    assert (
        config.serving.tls_cert_file,
        config.authentication.client_ca_file,
        config.authentication.token_auth_file,
    ) == (file, file, file)


def test_certificates_for_names(tmp_path: Path) -> None:
    """One by one on the command line, in a list in the file."""
    files = [tmp_path / name for name in ("a.crt", "a.key", "b.crt", "b.key")]
    for file in files:
        file.write_text("x")
    a_cert, a_key, b_cert, b_key = files
    values = [f"{a_cert}, {a_key}: *.a.example,::1", f"{b_cert},{b_key}"]
    expected = (NamedCertificate(a_cert, a_key, ("*.a.example", "::1")), NamedCertificate(b_cert, b_key))
    assert parse([f"--tls-sni-cert-key={each}" for each in values]).serving.tls_sni_cert_key == expected
    in_file = yaml.safe_dump({"tls-sni-cert-key": values})
    assert from_file(tmp_path, in_file).serving.tls_sni_cert_key == expected


def test_insecure_cipher_suites_are_warned_about() -> None:
    suites = "TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert parse([f"--tls-cipher-suites={suites}"]).warnings == (
        "--tls-cipher-suites: Use of insecure cipher 'TLS_RSA_WITH_AES_128_CBC_SHA' detected.",
    )


# ---- flags of kube-apiserver that have no effect

IGNORED: Final = {
    "with a value": (["--egress-selector-config-file=a.yaml"], ["egress-selector-config-file"]),
    "with a value of its own": (["--egress-selector-config-file", "a.yaml"], ["egress-selector-config-file"]),
    "without a value": (["--allow-privileged", "--secure-port=1"], ["allow-privileged"]),
    "two of them": (["--watch-cache", "false", "--vmodule", "-"], ["watch-cache", "vmodule"]),
    "before the command": (["--watch-cache=false", "serve"], ["watch-cache"]),
    "of aggregation": (
        ["--aggregator-reject-forwarding-redirect=true"],
        ["aggregator-reject-forwarding-redirect"],
    ),
    "of a later release": (
        ["--tls-curve-preferences=X25519"],
        ["tls-curve-preferences"],
    ),
}


@pytest.mark.parametrize(("arguments", "flags"), IGNORED.values(), ids=IGNORED)
def test_flags_that_have_no_effect_are_warned_about(arguments: list[str], flags: list[str]) -> None:
    """A start script can swap the binaries."""
    assert list(parse(arguments).warnings) == [f"--{flag} has no effect on this server" for flag in flags]


def test_no_flag_is_both_implemented_and_ignored() -> None:
    """A flag leaves the list when the server implements it."""
    for flag in sorted(NOT_NEEDED):
        life = LIFECYCLES.get(flag)
        release = 36 if life is None or life.removed is None else life.removed - 1
        arguments = [f"--{flag}=1", f"--emulated-version=1.{release}", "--flag-deprecation-warnings=false"]
        assert parse(arguments).warnings == (f"--{flag} has no effect on this server",)


def test_a_flag_that_is_refused_may_be_empty() -> None:
    """Templates of flags leave what is not set."""
    assert parse(["--service-account-signing-endpoint="]).warnings == ()


# ---- flags that are deprecated, or gone

ADMISSION_CONTROL: Final = (
    "Flag --admission-control has been deprecated, use --enable-admission-plugins or "
    "--disable-admission-plugins instead"
)


def test_s11_a_deprecated_flag_is_warned_of_unless_that_is_switched_off() -> None:
    ignored = "--admission-control has no effect on this server"
    assert parse(["--admission-control=a"]).warnings == (ADMISSION_CONTROL, ignored)
    without = ["--admission-control=a", "--flag-deprecation-warnings=false"]
    assert parse(without).warnings == (ignored,)


def test_s11_a_flag_that_is_not_deprecated_yet_is_not_warned_of() -> None:
    for minor, count in ((30, 0), (31, 1), (32, 1)):
        given = parse(["--cloud-provider=external", f"--emulated-version=1.{minor}"]).warnings
        assert len([each for each in given if "deprecated" in each]) == count


def test_s11_flags_are_there_as_long_as_the_policy_says() -> None:
    """GA 6 months or 1 release, beta 3 months or 1 release, alpha 0; three releases are a year."""
    assert [each.window for each in Maturity] == [2, 1, 0]
    too_short = [
        each.flag for each in LIFECYCLES.values() if each.is_gone(each.deprecated + each.maturity.window - 1)
    ]
    assert too_short == []


def test_a_flag_that_is_implemented_has_no_other_entry() -> None:
    implemented = {name.removeprefix("--") for name in FLAG_TABLE}
    assert (implemented | REFUSED.keys()) & NOT_NEEDED.keys() == implemented & REFUSED.keys() == set()
    assert {each.flag for each in LIFECYCLES.values() if each.removed is None} <= (
        implemented | NOT_NEEDED.keys()
    )


AUTHORIZED: Final = (
    "feature gate AuthorizeWithSelectors=true: it has no effect, and will be removed in a future release"
)
KMS: Final = "feature gate KMSv1=false: it will be removed in a future release"
GATES: Final = {
    "one that is as it is by default": ("NodeDeclaredFeatures=true", ()),
    "one that is known, and heeded nowhere": (
        "APIServingWithRoutine=true",
        ("feature gate APIServingWithRoutine has no effect on this server",),
    ),
    "one of a feature that is always there": (
        "WatchList=false",
        ("feature gate WatchList has no effect on this server",),
    ),
    "one of a kubelet": (
        "KubeletSeparateDiskGC=false",
        ("feature gate KubeletSeparateDiskGC has no effect on this server",),
    ),
    "H09 one that a type needs": ("ClusterTrustBundle=true", ()),
    "one of a field": ("HostnameOverride=false", ()),
    "H09 all of a stage": ("AllAlpha=true", ()),
    "H09 S08 one that is stable": ("AuthorizeWithSelectors=true", (f"setting GA {AUTHORIZED}",)),
    "H09 S08 one that is deprecated": ("KMSv1=false", (f"setting deprecated {KMS}",)),
}


@pytest.mark.parametrize(("gate", "warnings"), GATES.values(), ids=GATES)
def test_gates_that_are_warned_about(gate: str, warnings: tuple[str, ...]) -> None:
    assert parse([f"--feature-gates={gate}"]).warnings == warnings


# ---- the file


def from_file(tmp_path: Path, text: str, *arguments: str) -> Config:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return parse([f"--config={file}", *arguments])


FILES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "nothing": ("", {}),
    "a comment": ("# nothing\n", {}),
    "text, numbers, durations": (
        "bind-address: 0.0.0.0\nsecure-port: 7443\nrequest-timeout: 1m30s\n",
        {"bind_address": "0.0.0.0", "secure_port": 7443, "request_timeout_s": 90.0},
    ),
    "dashes as on the command line": ("--secure-port: 7443", {"secure_port": 7443}),
    "a boolean": (
        "anonymous-auth: false\nstrict-kube-compat: true",
        {"anonymous_auth": False, "deviations": KUBERNETES},
    ),
    "a list": (
        "etcd-servers: [http://a:1, http://b:2]",
        {"etcd_servers": ("http://a:1", "http://b:2")},
    ),
    "a text that begins with a dash": ("controllers: -namespace", {"controllers": ("-namespace",)}),
    "what has no effect": (
        "watch-cache: false",
        {"warnings": ("--watch-cache has no effect on this server",)},
    ),
}


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_what_a_file_sets(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    assert from_file(tmp_path, text) == Config.of(expected)


def test_the_command_line_counts_more_than_the_file(tmp_path: Path) -> None:
    text = "secure-port: 1\nanonymous-auth: false\nv: 2\n"
    config = from_file(tmp_path, text, "--secure-port=2", "--anonymous-auth=true")
    assert (config.serving.secure_port, config.authentication.anonymous_auth, config.logs.verbosity) == (
        2,
        True,
        2,
    )


# Flags whose files are read when the command line is.
FLAGS_OF_FILES: Final = (
    *("config", "audit-policy-file", "audit-webhook-config-file", "admission-control-config-file"),
    *("authorization-config", "authentication-config", "authentication-token-webhook-config-file"),
    *("encryption-provider-config", "allow-metric-labels-manifest"),
)
BAD_FILES: Final = {
    "no YAML": ("a: [", "is not valid YAML"),
    "a list": ("- a", "must contain a mapping of flags to values"),
    "a word": ("serve", "must contain a mapping of flags to values"),
    "a flag nobody knows": ("sekure-port: 1", "unknown flag: --sekure-port"),
    "a flag twice": ("v: 1\nv: 2", 'line 2: key "v" already set in map'),
    "lists in lists": ("v: " + "[" * 100_000, "nested more than 200 deep"),
    "objects in objects": (
        "\n".join(f"{' ' * depth}v:" for depth in range(1_000)),
        "nested more than 200 deep",
    ),
    "aliases of aliases": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{new}: &{new} [{f'*{old}, ' * 9}]\n" for old, new in pairwise("abcdefghij")),
        "more than 100000 values",
    ),
    "a number that is too long": (f"v: {'9' * 20_000}", "is not an integer"),
    "a null byte in a path": ('data-dir: "a\\0b"', "the path must not contain a null byte"),
    "a bad value": ("secure-port: https", "'https' is not an integer"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_which_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        from_file(tmp_path, text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not valid YAML"):
        parse([f"--config={file}"])


@pytest.mark.parametrize("flag", FLAGS_OF_FILES)
def test_a_file_without_an_end(flag: str) -> None:
    """None of them is read into memory as a whole, nor for ever."""
    with pytest.raises(UsageError, match=r"is longer than 16777216 bytes|/dev/zero is not a file"):
        parse([f"--{flag}=/dev/zero"])


@pytest.mark.parametrize("flag", [*_FILES, "audit-policy-file", "cert-dir"])
def test_an_empty_path_is_none(flag: str) -> None:
    """As to kube-apiserver: templates of flags leave it."""
    assert parse([f"--{flag}="]) == parse([])


@pytest.mark.parametrize(
    "text", ["secure-port:", "bind-address:", "bind-address: {a: b}", "config: other.yaml"]
)
def test_what_no_flag_can_hold_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing in the file is passed over in silence, or taken as the text of something else."""
    with pytest.raises(UsageError):
        from_file(tmp_path, text)


# ---- units

DURATIONS: Final = {
    "0": 0.0,
    "0s": 0.0,
    "90s": 90.0,
    "1m30s": 90.0,
    "1h": 3600.0,
    "1.5h": 5400.0,
    "500ms": 0.5,
    "250us": 0.00025,
    "1s500ms": 1.5,
    "10ns": 1e-8,
}


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items(), ids=DURATIONS)
def test_a_duration_is_written_as_in_go(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "1", "s", "1d", "1 s", "-1s", "1s ", "1s\n", "1.s.", "1e3s", "0x1s", "٣s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration"):
        duration_s(text)


@given(st.integers(0, 999), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_the_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int, thousandths: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s{thousandths}ms"
    assert duration_s(text) == pytest.approx(hours * 3600 + minutes * 60 + seconds + thousandths / 1000)


# ---- controllers

CONTROLLERS: Final = {
    "all, if nothing is said": ([], True),
    "all": (["--controllers=*"], True),
    "none": (["--controllers=-*"], False),
    "this one": (["--controllers=namespace"], True),
    "by its other name": (["--controllers=namespace-controller"], True),
    "all but this one": (["--controllers=*,-namespace"], False),
    "none but this one": (["--controllers=-*,namespace-controller"], True),
    "the last word counts": (["--controllers=namespace,-*"], False),
    "nobody is named": (["--controllers="], False),
}


@pytest.mark.parametrize(("arguments", "runs"), CONTROLLERS.values(), ids=CONTROLLERS)
def test_which_controllers_run(arguments: list[str], runs: bool) -> None:
    assert parse(arguments).api.runs_controller("namespace-controller") is runs


# ---- --help-all


HELP: Final = build_parser(HELP_WIDTH_MAX).format_help()


FLAG_TABLE: Final = {flag.name: flag for flags in SECTIONS.values() for flag in flags}


@pytest.mark.parametrize("flag", FLAG_TABLE.values(), ids=FLAG_TABLE)
def test_every_flag_is_explained_in_sentences(flag: Flag) -> None:
    """As kube-apiserver's are."""
    assert flag.help[0].isupper()
    assert flag.help.endswith(".")
    assert len(re.findall(rf"^  (?:-\S+, )*{flag.name}(?: |$)", HELP, re.MULTILINE)) == 1


def test_every_flag_sets_a_field_of_the_configuration() -> None:
    """Or one of those that are made of several."""
    composed = {
        *("strict_kube_compat", "group_domain", "vendor"),
        *("emulated_version", "min_compatibility_version", "show_hidden_metrics_for_version"),
        "flag_deprecation_warnings",
        *("disabled_metrics", "allow_metric_labels", "allow_metric_labels_manifest"),
    }
    destinations = {flag.destination for flag in FLAG_TABLE.values()}
    of_files = {"plugin_configurations", "encryption", "files"}
    of_files |= {"audit_policy", "audit_webhook_server", "history_rules", "tracing"}
    of_files |= {"authorization_config_content", "authorization_config_authorizers"}
    assert SECTION_OF.keys() == destinations - composed | of_files


def test_the_options_of_a_section_are_those_of_its_flags() -> None:
    section_of = dict(zip(SECTIONS, (each.name for each in dataclasses.fields(Config)), strict=False))
    wrong = {
        flag.name: section
        for section, flags in SECTIONS.items()
        for flag in flags
        if SECTION_OF.get(flag.destination, section_of[section]) != section_of[section]
    }
    assert not wrong


DEFAULTS: Final = {
    "text": ("--bind-address", "(default 127.0.0.1)"),
    "a duration": ("--request-timeout", "(default 1m)"),
    "seconds": ("--min-request-timeout", "(default 1800)"),
    "a boolean": ("--anonymous-auth", "(default true)"),
    "a range": ("--service-node-port-range", "(default 30000-32767)"),
    "networks": ("--service-cluster-ip-range", "(default 10.0.0.0/16)"),
    "more networks": ("--webhook-deny-cidrs", "(default 169.254.0.0/16,fe80::/10,fd00:ec2::254/128)"),
    "a list": ("--authorization-mode", "(default RBAC)"),
    "a part of the brand": ("--vendor", "(default kubernetes)"),
    "none": ("--etcd-servers", ""),
}


@pytest.mark.parametrize(("flag", "default"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults_are_shown_once(flag: str, default: str) -> None:
    _, _, rest = HELP.partition(f"\n  {flag} ")
    described = " ".join(re.split(r"\n  --|\n\n", rest)[0].split())
    assert re.findall(r"\(default [^)]*\)", described) == ([default] if default else [])


def test_flags_of_an_openid_issuer(tmp_path: Path) -> None:
    """As kube-apiserver understands them. A required claim may be given again, and may have commas."""
    config = parse(
        [
            *("--oidc-issuer-url=https://a.example", "--oidc-client-id=c", "--oidc-groups-claim=groups"),
            *("--oidc-groups-prefix=g:", "--oidc-signing-algs=ES256,RS256"),
            *("--oidc-required-claim=a=b=c,d", "--oidc-required-claim=hd=x", "--oidc-required-claim=hd=y"),
        ]
    )
    (found,) = config.authentication.files.configuration.jwt
    assert (found.issuer.url, found.issuer.audiences) == ("https://a.example", ("c",))
    assert (found.username.claim, found.username.prefix) == ("sub", "https://a.example#")
    assert (found.groups.claim, found.groups.prefix) == ("groups", "g:")
    assert found.algorithms == ("ES256", "RS256")
    assert found.required_claims == (("a", "b=c,d"), ("hd", "y"))


def test_the_anonymous_are_in_a_file_or_in_a_flag(tmp_path: Path) -> None:
    path = tmp_path / "authentication.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
    path.write_text(head)
    assert not parse(
        [f"--authentication-config={path}", "--anonymous-auth=false"]
    ).authentication.anonymous_auth
    path.write_text(f"{head}anonymous: {{enabled: true}}\n")
    with pytest.raises(
        UsageError, match=r"--anonymous-auth cannot be set if the file .* has the field anonymous"
    ):
        parse([f"--authentication-config={path}", "--anonymous-auth=true"])
