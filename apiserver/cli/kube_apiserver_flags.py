"""Flags of kube-apiserver that this server accepts and ignores, or refuses, and those whose time is up.

A start script can swap the binaries: what has nothing to do here is accepted with a warning, and refused
where that would be less safe. A flag leaves these lists when the server implements it. Deprecated flags are
warned of, and what a release has removed is refused there, with what is to be used instead (row S11).
docs/reference/flags.md lists all of them.

Source: `kube-apiserver --help`, releases 1.34 to 1.36; Kubernetes' changelogs; the deprecation policy,
https://kubernetes.io/docs/reference/using-api/deprecation-policy/#deprecating-a-flag-or-cli.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

_IGNORED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "The order of admission plugins is fixed, as in kube-apiserver today.": "admission-control",
        "Pods can have privileged containers if the Pod Security Standard allows it.": ("allow-privileged"),
        "ABAC is not supported.": "authorization-policy-file",
        "Traces are not supported.": "tracing-config-file",
        "Egress selectors are not supported.": "egress-selector-config-file",
        "There are no Go profiles and no log files.": (
            "profiling contention-profiling debug-socket-path enable-logs-handler"
        ),
        "Connections use HTTP/1.1.": ("disable-http2-serving http2-max-streams-per-connection goaway-chance"),
        "Bandwidth is not limited; see `--max-connections`.": "max-connection-bytes-per-sec",
        "`--workers` decides how the port is shared.": "permit-address-sharing permit-port-sharing",
        "OpenSSL chooses the groups for key exchange.": "tls-curve-preferences",
        "The server connects to the endpoints of extension servers, and rejects redirects.": (
            "enable-aggregator-routing aggregator-reject-forwarding-redirect"
        ),
        "Replicas serve the same versions and do not forward requests to each other.": (
            "peer-advertise-ip peer-advertise-port peer-ca-file"
        ),
        "Coordinated leader election is not supported.": (
            "coordinated-leadership-lease-duration coordinated-leadership-renew-deadline "
            "coordinated-leadership-retry-period"
        ),
        "The server serves only the APIs of the emulated release.": (
            "emulation-forward-compatible runtime-config-emulation-forward-compatible"
        ),
        "Calls of kubelets have a fixed timeout.": "kubelet-timeout",
        "Reads and watches are always answered from memory.": "watch-cache",
        "Objects are stored as JSON.": "storage-media-type",
        "All resources are in the same store.": "etcd-servers-overrides",
        "Checks of the store have fixed timeouts; readiness waits for the watch cache without a timeout.": (
            "etcd-healthcheck-timeout etcd-readycheck-timeout storage-initialization-timeout"
        ),
        "Objects are counted in memory when a client reads /metrics.": "etcd-count-metric-poll-period",
        "The server decides how long Events share a lease, and how many objects it deletes at once.": (
            "lease-reuse-duration-seconds delete-collection-workers"
        ),
        "Use `--controllers` to switch the garbage collector on and off.": "enable-garbage-collector",
        "The server drains connections and ends watches when it stops.": (
            "shutdown-send-retry-after shutdown-watch-termination-grace-period "
            "send-retry-after-while-not-ready-once"
        ),
        "The server writes each log line to stderr at once, with one verbosity.": (
            "log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size "
            "log-text-split-stream vmodule"
        ),
        "Only older releases have these flags, and nothing here depends on them.": (
            "apiserver-count cloud-config cloud-provider cloud-provider-gce-l7lb-src-cidrs "
            "cloud-provider-gce-lb-src-cidrs identity-lease-duration-seconds "
            "identity-lease-renew-interval-seconds kubelet-port kubelet-read-only-port "
            "service-account-api-audiences"
        ),
    }
)
# The flags that are accepted and ignored, and why.
NOT_NEEDED: Final[Mapping[str, str]] = MappingProxyType(
    {flag: reason for reason, flags in _IGNORED.items() for flag in flags.split()}
)

# The flags that this server refuses, since to ignore them would be less safe than what they ask for.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "service-account-signing-endpoint": (
            "the server cannot use an external signer of service account tokens; use "
            "--service-account-signing-key-file"
        ),
    }
)


class Maturity(Enum):
    """What the policy promises of a flag of a server, whose users are administrators.

    months, releases: how long it goes on working once it is deprecated; the longer time counts.
    """

    GA = (6, 1)
    BETA = (3, 1)
    ALPHA = (0, 0)

    @property
    def window(self) -> int:
        """The releases in which a deprecated flag works, of which there are three in a year."""
        months, releases = self.value
        return max(releases, -(-months // 4))


class FlagLifecycle(NamedTuple):
    """The end of a flag. Releases are minor numbers, of 1.x.

    deprecated: the first release that warns of it, or the oldest that is emulated. removed: the first
        without it; None if it goes on. instead: what to do about it.
    """

    flag: str
    deprecated: int
    removed: int | None
    instead: str
    maturity: Maturity = Maturity.GA

    def warning(self, minor: int) -> str:
        """Returns what a release warns of, in the words of pflag; empty if it does not."""
        if minor < self.deprecated:
            return ""
        return f"Flag --{self.flag} has been deprecated, {self.instead}"

    def is_gone(self, minor: int) -> bool:
        return self.removed is not None and self.removed <= minor

    @property
    def refusal(self) -> str:
        return f"unknown flag: --{self.flag}, which Kubernetes 1.{self.removed} has removed: {self.instead}"


_LOGS: Final = "logs go to stderr; see --v and --logging-format"
_CLOUD: Final = "run a cloud controller manager as a separate program"
LIFECYCLES: Final[Mapping[str, FlagLifecycle]] = MappingProxyType(
    {
        each.flag: each
        for each in (
            FlagLifecycle(
                "admission-control",
                15,
                None,
                "use --enable-admission-plugins or --disable-admission-plugins instead",
            ),
            FlagLifecycle("apiserver-count", 24, None, "replicas find each other by leases"),
            FlagLifecycle("enable-logs-handler", 15, None, "read log files on the node"),
            FlagLifecycle("kubelet-port", 15, None, "Node objects contain the port of their kubelet"),
            FlagLifecycle("kubelet-read-only-port", 15, None, "the server uses the secure port of kubelets"),
            FlagLifecycle("basic-auth-file", 16, 19, "use --token-auth-file instead"),
            FlagLifecycle("kubelet-https", 19, 22, "the server always uses HTTPS for kubelets"),
            FlagLifecycle("address", 15, 24, "use --bind-address and --secure-port instead"),
            FlagLifecycle("insecure-bind-address", 15, 24, "use --bind-address and --secure-port instead"),
            FlagLifecycle("port", 15, 24, "use --secure-port instead"),
            FlagLifecycle("service-account-api-audiences", 15, 25, "use --api-audiences instead"),
            *(
                FlagLifecycle(flag, 23, 26, _LOGS)
                for flag in (
                    "add-dir-header",
                    "alsologtostderr",
                    "log-backtrace-at",
                    "log-dir",
                    "log-file",
                    "log-file-max-size",
                    "logtostderr",
                    "one-output",
                    "skip-headers",
                    "skip-log-headers",
                    "stderrthreshold",
                )
            ),
            FlagLifecycle("cloud-config", 31, 33, _CLOUD),
            FlagLifecycle("cloud-provider", 31, 33, _CLOUD),
        )
    }
)
