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
        "The server runs admission plugins in a fixed order, as kube-apiserver does.": "admission-control",
        "A namespace's Pod Security Standard controls whether pods can have privileged containers.": (
            "allow-privileged"
        ),
        "The server does not support ABAC authorization.": "authorization-policy-file",
        "The server does not support egress selectors.": "egress-selector-config-file",
        "The server does not provide contention profiles, a debugging socket or log files.": (
            "contention-profiling debug-socket-path enable-logs-handler"
        ),
        "The server supports only HTTP/1.1.": ("disable-http2-serving http2-max-streams-per-connection"),
        "The server limits the number of connections (`--max-connections`), but does not limit bandwidth.": (
            "max-connection-bytes-per-sec"
        ),
        "`--workers` controls how many processes share the port.": (
            "permit-address-sharing permit-port-sharing"
        ),
        "OpenSSL chooses the key exchange groups.": "tls-curve-preferences",
        "The server connects directly to the endpoints of extension API servers, and rejects redirects.": (
            "enable-aggregator-routing aggregator-reject-forwarding-redirect"
        ),
        "All replicas serve the same API versions and do not forward requests to each other.": (
            "peer-advertise-ip peer-advertise-port peer-ca-file"
        ),
        "The server does not support coordinated leader election.": (
            "coordinated-leadership-lease-duration coordinated-leadership-renew-deadline "
            "coordinated-leadership-retry-period"
        ),
        "The server serves only the APIs of the emulated release.": (
            "emulation-forward-compatible runtime-config-emulation-forward-compatible"
        ),
        "Requests to kubelets have a fixed timeout.": "kubelet-timeout",
        "The server always serves reads and watches from memory.": "watch-cache",
        "The server stores objects as JSON.": "storage-media-type",
        "The server keeps all resources in one store.": "etcd-servers-overrides",
        "Storage health checks have fixed timeouts. At startup, the server waits for the watch cache "
        "indefinitely.": ("etcd-healthcheck-timeout etcd-readycheck-timeout storage-initialization-timeout"),
        "When a client reads `/metrics`, the server counts the objects in its memory.": (
            "etcd-count-metric-poll-period"
        ),
        "You cannot configure how long Events share a lease or how many objects the server deletes at "
        "once.": ("lease-reuse-duration-seconds delete-collection-workers"),
        "To enable or disable the garbage collector, use `--controllers`.": "enable-garbage-collector",
        "During shutdown, the server drains connections and ends watches.": (
            "shutdown-send-retry-after send-retry-after-while-not-ready-once"
        ),
        "The server writes each log line to stderr immediately, and uses the same verbosity for all "
        "modules.": (
            "log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size "
            "log-text-split-stream vmodule"
        ),
        "These flags exist only in old Kubernetes releases, and this server does not need them.": (
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
            "the server does not support external signers for service account tokens, so use "
            "--service-account-signing-key-file instead"
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


_LOGS: Final = "use --v and --logging-format to configure the logs on stderr"
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
            FlagLifecycle(
                "apiserver-count", 24, None, "omit the flag, because replicas find each other through leases"
            ),
            FlagLifecycle("enable-logs-handler", 15, None, "read log files on the node"),
            FlagLifecycle(
                "kubelet-port", 15, None, "omit the flag, because Node objects contain the kubelet port"
            ),
            FlagLifecycle(
                "kubelet-read-only-port",
                15,
                None,
                "omit the flag, because the server uses the kubelet's secure port",
            ),
            FlagLifecycle("basic-auth-file", 16, 19, "use --token-auth-file instead"),
            FlagLifecycle(
                "kubelet-https",
                19,
                22,
                "omit the flag, because the server always connects to kubelets over HTTPS",
            ),
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
