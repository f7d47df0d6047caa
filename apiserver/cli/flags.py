"""The table of flags, and the parser that is built from it.

Flags have the names and the meaning that kube-apiserver gives them, wherever it has them. Defaults are those
of `Config`, so that each is written once.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from apiserver import EMULATED_VERSION, __version__
from apiserver.admission import plugin_names
from apiserver.authz.authorizer_modes import MODES
from apiserver.brand import Brand
from apiserver.cli import flag_values
from apiserver.cli.config import FEATURE_GATES, Config


class UsageError(ValueError):
    """The command line or the configuration file is not valid; the message is one line."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print the usage and exit."""

    def error(self, message: str) -> Any:
        command = self.prog.removeprefix("apiserver").strip()
        raise UsageError(f"{command}: {message}" if command else message)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag.

    value: what --help calls its value. parse: its type.
    field: the field of `Config` that it sets; the flag's own name if empty.
    default: the default that --help shows, where that is not the field's.
    repeats: may be given more than once. needs_value: may not be given alone, to mean true.
    """

    name: str
    value: str
    parse: Callable[[str], Any]
    help: str
    field: str = ""
    default: str = ""
    alias: str = ""
    choices: Sequence[str] | None = None
    repeats: bool = False
    needs_value: bool = True

    @property
    def destination(self) -> str:
        return self.field or self.name.lstrip("-").replace("-", "_")


def _gate_default(gate: str) -> str:
    return str(getattr(Config(), FEATURE_GATES[gate])).lower()


_SERVING: Final = (
    Flag("--bind-address", "ip", str, "The IP address on which to listen for the --secure-port port."),
    Flag(
        "--advertise-address",
        "ip",
        flag_values.address,
        "The IP address on which to advertise the server to members of the cluster, in the endpoints of the "
        "Service kubernetes. If not provided, it is --bind-address; if that is a loopback address or all "
        "addresses, it is that of this machine's default route.",
    ),
    Flag(
        "--external-hostname",
        "string",
        str,
        "The hostname in URLs of this server that others are told, as in OpenID discovery. If not provided, "
        "it is --advertise-address.",
    ),
    Flag("--secure-port", "int", flag_values.port, "The port on which to serve HTTPS. 0 picks a free port."),
    Flag(
        "--workers",
        "int",
        flag_values.workers,
        f"The number of processes that serve the port, at most {flag_values.WORKERS_MAX}. Each is a replica "
        "with a watch cache of its own. More than one requires --etcd-servers.",
    ),
    Flag(
        "--data-dir",
        "string",
        Path,
        "The directory for generated keys and certificates, the administrator's kubeconfig, and the "
        "embedded store. If only --cert-dir is provided, it is a directory in there.",
    ),
    Flag(
        "--cert-dir",
        "string",
        Path,
        "The directory with the serving certificate and its key, apiserver.crt and apiserver.key, which are "
        "made if there are none. Ignored where others are named.",
    ),
    Flag(
        "--tls-cert-file",
        "string",
        Path,
        "File containing the x509 certificate for HTTPS (CA certificates, if any, concatenated after the "
        "server certificate). If not provided, a certificate is generated in --cert-dir or --data-dir.",
    ),
    Flag(
        "--tls-private-key-file",
        "string",
        Path,
        "File containing the x509 private key matching --tls-cert-file.",
    ),
    Flag(
        "--cors-allowed-origins",
        "strings",
        flag_values.origin_patterns,
        "List of allowed origins for CORS, comma separated. An allowed origin is a regular expression, which "
        "must pin to the start of the host by ^ or // and to its end by $ or :, as in //localhost(:|$) or "
        "^https://example\\.com$. Pages of these origins may also open WebSockets; those of other origins "
        "may not.",
        repeats=True,
    ),
    Flag(
        "--max-connections",
        "int",
        flag_values.count,
        "The maximum number of connections open at a given time. Beyond it a new one takes the place of that "
        "which has been idle for longest; if none is idle, it is refused. Each worker has this limit for "
        "itself. 0 for no limit but that of open files.",
    ),
    Flag(
        "--max-connections-per-client",
        "int",
        flag_values.count,
        "The maximum number of connections open at a given time from one address, or from one IPv6 network "
        "of 64 bits, like --max-connections. A watch is a connection, and all clients behind a proxy or load "
        "balancer have one address. 0 for no limit.",
    ),
    Flag(
        "--max-watches",
        "int",
        flag_values.count,
        "The maximum number of watches open at a given time, without those of system:masters. One user gets "
        "four fifths of it at most, less when others have many; the service accounts of a namespace count as "
        "one. Beyond it watches are refused. Each worker has this limit for itself. 0 for no limit.",
    ),
    Flag(
        "--max-requests-inflight",
        "int",
        flag_values.count,
        "The maximum number of non-mutating requests in flight at a given time. When the server exceeds "
        "this, it rejects requests. One user gets four fifths of it at most, less when others ask. "
        "0 for no limit.",
    ),
    Flag(
        "--max-mutating-requests-inflight",
        "int",
        flag_values.count,
        "The maximum number of mutating requests in flight at a given time. When the server exceeds this, "
        "it rejects requests. One user gets four fifths of it at most, less when others ask. "
        "0 for no limit.",
    ),
    Flag(
        "--request-timeout",
        "duration",
        flag_values.duration_s,
        "The duration a handler keeps a request open before timing it out. Does not apply to watches: see "
        "--min-request-timeout.",
        field="request_timeout_s",
    ),
    Flag(
        "--min-request-timeout",
        "int",
        flag_values.seconds,
        "The minimum number of seconds a watch is kept open before timing it out. The actual timeout is "
        "random, up to twice this value, to spread out load.",
        field="min_request_timeout_s",
    ),
    Flag(
        "--livez-grace-period",
        "duration",
        flag_values.duration_s,
        "The maximum time the server may take to complete its startup sequence. Until then, /livez assumes "
        "that unfinished post-start hooks will complete successfully.",
        field="livez_grace_period_s",
    ),
    Flag(
        "--shutdown-delay-duration",
        "duration",
        flag_values.duration_s,
        "Time to delay the termination. During that time the server keeps serving requests normally; /livez "
        "returns success, but /readyz immediately returns failure.",
        field="shutdown_delay_s",
    ),
)
_STORAGE: Final = (
    Flag(
        "--etcd-servers",
        "strings",
        flag_values.urls,
        "List of etcd servers to connect with (scheme://ip:port), comma separated. If not provided, objects "
        "are kept in a store in --data-dir.",
    ),
    Flag(
        "--etcd-cafile", "string", Path, "SSL Certificate Authority file used to secure etcd communication."
    ),
    Flag("--etcd-certfile", "string", Path, "SSL certification file used to secure etcd communication."),
    Flag("--etcd-keyfile", "string", Path, "SSL key file used to secure etcd communication."),
    Flag(
        "--etcd-prefix", "string", flag_values.prefix, "The prefix to prepend to all resource paths in etcd."
    ),
    Flag(
        "--etcd-compaction-interval",
        "duration",
        flag_values.duration_s,
        "The interval of compaction requests, in either store; old versions are kept for that long. If 0, "
        "they are kept forever.",
        field="etcd_compaction_interval_s",
    ),
    Flag(
        "--etcd-db-metric-poll-interval",
        "duration",
        flag_values.duration_s,
        "The interval of requests to poll the size of the store, etcd or embedded, and update its metric. 0 "
        "disables the metric.",
        field="etcd_db_metric_poll_interval_s",
    ),
    Flag(
        "--event-ttl",
        "duration",
        flag_values.whole_duration_s,
        "Amount of time to retain events.",
        field="event_ttl_s",
    ),
    Flag(
        "--default-watch-cache-size",
        "int",
        flag_values.count,
        "Default watch cache size: the number of changes that are kept in memory for each resource.",
    ),
    Flag(
        "--watch-cache-sizes",
        "strings",
        flag_values.sizes,
        "Watch cache size settings for some resources (pods, nodes, etc.), comma separated. The individual "
        "setting format: resource[.group]#size.",
    ),
    Flag(
        "--memory-limit",
        "size",
        flag_values.size_bytes,
        "The memory that the server may have, as 512Mi or 2G: near to it the work that takes most is refused "
        "with 429. Several workers share it. If 0, there is no limit.",
        field="memory_limit_bytes",
        default="that of the container",
    ),
    Flag(
        "--watch-cache-history-bytes",
        "int",
        flag_values.count,
        "The memory that old versions in the watch caches of all resources together may take, in bytes.",
    ),
)
_PROXY: Final = (
    Flag(
        "--proxy-deny-cidrs",
        "cidrs",
        flag_values.cidrs,
        "Addresses to which no request is forwarded, comma separated, whatever Service, pod or node has "
        "them: those where clouds hand out a machine's credentials. Kubelets are no exception. Empty for "
        "none.",
    ),
    Flag(
        "--kubelet-certificate-authority",
        "string",
        Path,
        "Path to a cert file for the certificate authority of kubelets. If not provided, their certificates "
        "are not checked.",
    ),
    Flag(
        "--kubelet-client-certificate",
        "string",
        Path,
        "Path to a client cert file for TLS, by which kubelets know this server.",
    ),
    Flag("--kubelet-client-key", "string", Path, "Path to a client key file for TLS."),
    Flag(
        "--kubelet-preferred-address-types",
        "strings",
        flag_values.texts,
        "List of the preferred NodeAddressTypes to use for kubelet connections.",
    ),
)
_SERVICES: Final = (
    Flag(
        "--service-cluster-ip-range",
        "cidrs",
        flag_values.networks,
        "A CIDR notation IP range from which to assign service cluster IPs. Max of two dual-stack CIDRs is "
        "allowed, comma separated.",
    ),
    Flag(
        "--service-node-port-range",
        "portRange",
        flag_values.port_range,
        "A port range to reserve for services with NodePort visibility. Inclusive at both ends of the range.",
        default="-".join(map(str, Config().service_node_port_range)),
    ),
    Flag(
        "--endpoint-reconciler-type",
        "string",
        str,
        "Which endpoints the Service kubernetes has: those of all servers that are alive (lease), or such as "
        "others give it (none). master-count means lease.",
        choices=("lease", "master-count", "none"),
    ),
    Flag(
        "--kubernetes-service-node-port",
        "int",
        flag_values.port,
        "If not zero, the Service kubernetes is of type NodePort, with this port. If zero, it is of type "
        "ClusterIP.",
    ),
)
_AUTHENTICATION: Final = (
    Flag(
        "--client-ca-file",
        "string",
        Path,
        "If set, any request presenting a client certificate signed by one of the authorities in this file "
        "is authenticated with an identity corresponding to the CommonName of the certificate. Certificates "
        "signed by the CA in --data-dir are always accepted.",
    ),
    Flag(
        "--requestheader-client-ca-file",
        "string",
        Path,
        "Root certificate bundle to use to verify client certificates of front proxies, which say in headers "
        "who asks. If not provided, it is a CA that is made in --data-dir and shared by replicas.",
    ),
    Flag(
        "--requestheader-allowed-names",
        "strings",
        flag_values.texts,
        "List of client certificate common names to allow to provide usernames in headers, comma separated. "
        "If empty, any client certificate validated by the authorities in --requestheader-client-ca-file is "
        "allowed.",
        repeats=True,
    ),
    Flag(
        "--requestheader-username-headers",
        "strings",
        flag_values.texts,
        "List of request headers to inspect for usernames, comma separated; the first that is there counts.",
    ),
    Flag(
        "--requestheader-uid-headers",
        "strings",
        flag_values.texts,
        "List of request headers to inspect for UIDs, comma separated; the first that is there counts.",
    ),
    Flag(
        "--requestheader-group-headers",
        "strings",
        flag_values.texts,
        "List of request headers to inspect for groups, comma separated.",
    ),
    Flag(
        "--requestheader-extra-headers-prefix",
        "strings",
        flag_values.texts,
        "List of request header prefixes to inspect for extra attributes of users, comma separated.",
    ),
    Flag(
        "--proxy-client-cert-file",
        "string",
        Path,
        "Client certificate used to prove the identity of this server when it passes requests on to "
        "extension API servers. They verify it by the authorities in --requestheader-client-ca-file. If not "
        "provided, it is made in --data-dir.",
    ),
    Flag(
        "--proxy-client-key-file",
        "string",
        Path,
        "Private key for the client certificate in --proxy-client-cert-file.",
    ),
    Flag(
        "--token-auth-file",
        "string",
        Path,
        "If set, the file that will be used to authenticate requests via static bearer tokens. Each line "
        'holds token,user,uid,"group1,group2".',
    ),
    Flag(
        "--anonymous-auth",
        "bool",
        flag_values.boolean,
        "Enables anonymous requests. Requests that are not rejected by another authentication method are "
        "treated as anonymous requests. Anonymous requests have the username system:anonymous and the group "
        "system:unauthenticated.",
    ),
    Flag(
        "--service-account-issuer",
        "string",
        flag_values.texts,
        "Identifier of the service account token issuer. When this flag is specified multiple times, the "
        "first is used to generate tokens and all are used to determine which issuers are accepted.",
        repeats=True,
    ),
    Flag(
        "--service-account-signing-key-file",
        "string",
        Path,
        "Path to the file that contains the private key of the service account token issuer. If not "
        "provided, a key is generated in --data-dir.",
    ),
    Flag(
        "--service-account-key-file",
        "strings",
        flag_values.paths,
        "File containing PEM-encoded x509 RSA or ECDSA private or public keys, or certificates with such "
        "keys, used to verify service account tokens besides the signing key. The specified file can contain "
        "multiple keys, and the flag can be specified multiple times with different files.",
        repeats=True,
    ),
    Flag(
        "--service-account-max-token-expiration",
        "duration",
        flag_values.whole_duration_or_zero_s,
        "The maximum validity duration of a token created by the service account token issuer. 0 for no "
        "maximum.",
        field="service_account_max_token_expiration_s",
    ),
    Flag(
        "--service-account-jwks-uri",
        "string",
        flag_values.https_url,
        "The URI of the JSON Web Key Set in the OpenID discovery document. If not provided, it is a path of "
        "this server.",
    ),
    Flag(
        "--api-audiences",
        "strings",
        flag_values.texts,
        "Identifiers of the API. Service account tokens must be bound to at least one of these audiences. "
        "If not provided, it is the list of issuers.",
        repeats=True,
    ),
)
_AUTHORIZATION: Final = (
    Flag(
        "--authorization-mode",
        "strings",
        flag_values.modes,
        "Ordered list of plug-ins to do authorization on secure port. Comma-delimited list of: "
        f"{','.join(MODES)}.",
    ),
)
_ADMISSION: Final = (
    Flag(
        "--enable-admission-plugins",
        "strings",
        flag_values.admission_plugins,
        "Admission plugins that should be enabled in addition to default enabled ones, comma separated. "
        f"Enabled by default: {', '.join(sorted(plugin_names.ON_BY_DEFAULT))}. "
        f"Others: {', '.join(sorted(plugin_names.OFF_BY_DEFAULT))}. "
        "The names of kube-apiserver's other plugins are accepted with a warning, and have no effect. "
        "The order of plugins in this flag does not matter.",
        repeats=True,
    ),
    Flag(
        "--disable-admission-plugins",
        "strings",
        flag_values.admission_plugins,
        "Admission plugins that should be disabled although they are in the default enabled plugins list, "
        "comma separated.",
        repeats=True,
    ),
    Flag(
        "--default-not-ready-toleration-seconds",
        "int",
        flag_values.count,
        "Indicates the tolerationSeconds of the toleration for notReady:NoExecute that is added by default "
        "to every pod that does not already have such a toleration.",
    ),
    Flag(
        "--default-unreachable-toleration-seconds",
        "int",
        flag_values.count,
        "Indicates the tolerationSeconds of the toleration for unreachable:NoExecute that is added by "
        "default to every pod that does not already have such a toleration.",
    ),
    Flag(
        "--admission-control-config-file",
        "string",
        Path,
        "File with admission control configuration, an object of the kind AdmissionConfiguration.",
    ),
    Flag(
        "--webhook-deny-cidrs",
        "cidrs",
        flag_values.cidrs,
        "Addresses at which no webhook is called, comma separated, whatever name or URL its configuration "
        "has: those where clouds hand out a machine's credentials. Empty for none.",
    ),
)

_API: Final = (
    Flag(
        "--runtime-config",
        "mapStringBool",
        flag_values.runtime_config,
        "A set of key=value pairs that enable or disable built-in APIs. Supported keys: v1, "
        "<group>/<version>, <group>/<version>/<resource>, api/all, api/ga, api/beta, api/alpha.",
    ),
    Flag(
        "--controllers",
        "strings",
        flag_values.controllers,
        "A list of controllers to enable. '*' enables all controllers, 'foo' enables the controller named "
        "'foo', '-foo' disables the controller named 'foo', '-*' disables all. Controllers: "
        f"{', '.join(flag_values.CONTROLLERS)}.",
    ),
    Flag(
        "--feature-gates",
        "mapStringBool",
        flag_values.gates,
        "A set of key=value pairs that describe feature gates for alpha/experimental features. Options are: "
        f"{', '.join(f'{gate}=true|false (default={_gate_default(gate)})' for gate in FEATURE_GATES)}.",
    ),
    Flag(
        "--strict-kube-compat",
        "bool",
        flag_values.boolean,
        "Behave like kube-apiserver where the specification of this server differs.",
        default="false",
        needs_value=False,
    ),
    Flag(
        "--group-domain",
        "string",
        str,
        "The domain that the names of built-in API groups end with.",
        default=Brand.group_domain,
    ),
    Flag(
        "--vendor",
        "string",
        str,
        "The vendor in media types and OpenAPI extensions, as in application/vnd.kubernetes.protobuf.",
        default=Brand.vendor,
    ),
)
_LEADER_ELECTION: Final = (
    Flag(
        "--leader-elect",
        "bool",
        flag_values.boolean,
        "Elect a leader among the servers on one etcd, and run the controllers of which only one may run on "
        "the leader alone. If false, this server takes no part in the election and runs all of them.",
        needs_value=False,
    ),
    Flag(
        "--leader-elect-lease-duration",
        "duration",
        flag_values.whole_duration_s,
        "The duration, in whole seconds, that non-leader candidates will wait after observing a leadership "
        "renewal until attempting to acquire leadership of a led but unrenewed leader slot. This is "
        "effectively the maximum duration that a leader can be stopped before it is replaced by another.",
        field="leader_elect_lease_duration_s",
    ),
    Flag(
        "--leader-elect-renew-deadline",
        "duration",
        flag_values.duration_s,
        "The interval between attempts by the acting leader to renew a leadership slot before it stops "
        "leading. This must be less than the lease duration.",
        field="leader_elect_renew_deadline_s",
    ),
    Flag(
        "--leader-elect-retry-period",
        "duration",
        flag_values.duration_s,
        "The duration the clients should wait between attempting acquisition and renewal of a leadership.",
        field="leader_elect_retry_period_s",
    ),
    Flag(
        "--leader-elect-resource-name",
        "string",
        flag_values.object_name,
        "The name of the Lease in kube-system that is used for locking during leader election.",
    ),
)
_LOGS: Final = (
    Flag(
        "--v",
        "int",
        flag_values.count,
        "Number for the log level verbosity. 4 and above logs debug messages, 6 and above also those of "
        "libraries.",
        field="verbosity",
        alias="-v",
    ),
    Flag(
        "--logging-format",
        "string",
        str,
        'Sets the log format. Permitted formats: "json", "text".',
        choices=("text", "json"),
    ),
)
SECTIONS: Final[Mapping[str, Sequence[Flag]]] = MappingProxyType(
    {
        "Serving flags": _SERVING,
        "Storage flags": _STORAGE,
        "Service flags": _SERVICES,
        "Proxy flags": _PROXY,
        "Authentication flags": _AUTHENTICATION,
        "Authorization flags": _AUTHORIZATION,
        "Admission flags": _ADMISSION,
        "API flags": _API,
        "Leader election flags": _LEADER_ELECTION,
        "Logs flags": _LOGS,
    }
)


class _HelpFormatter(argparse.HelpFormatter):
    """Breaks no flag or name at its hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=40, width=110)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


class _Extend(argparse.Action):
    """Collects the values of a flag that may be given more than once. An empty one discards those before."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        before = getattr(namespace, self.dest) or () if values else ()
        setattr(namespace, self.dest, (*before, *values))


def build_parser() -> Parser:
    """Returns the parser of the server's command line. Flags that are not given are None."""
    major, minor = EMULATED_VERSION
    parser = Parser(
        prog="apiserver",
        usage=(
            "apiserver [flags]\n       apiserver kube-apiserver [flags]\n"
            "       apiserver snapshot save|restore|status\n       apiserver version"
        ),
        description=(
            f"A Kubernetes-compatible resource API server. Version {__version__}, serves the API of "
            f"Kubernetes {major}.{minor}."
        ),
        allow_abbrev=False,
        argument_default=None,
        formatter_class=_HelpFormatter,
    )
    for title, flags in SECTIONS.items():
        section = parser.add_argument_group(title)
        for flag in flags:
            _add(section, flag)
    parser.add_argument(
        "--config",
        metavar="string",
        help="A YAML file that maps flags to their values. Flags on the command line take precedence.",
    )
    return parser


def _add(section: argparse._ArgumentGroup, flag: Flag) -> None:
    more: dict[str, Any] = {}
    if flag.repeats:
        more["action"] = _Extend
    if flag.choices is not None:
        more["choices"] = flag.choices
    if not flag.needs_value:
        more |= {"nargs": "?", "const": True}
    names = (flag.alias, flag.name) if flag.alias else (flag.name,)
    default = flag.default or _default(flag)
    text = f"{flag.help} (default {default})" if default else flag.help
    section.add_argument(
        *names, dest=flag.destination, metavar=flag.value, type=flag.parse, help=text, **more
    )


def _default(flag: Flag) -> str:
    """The default of a flag, as it would be written on the command line; empty if there is none."""
    match getattr(Config(), flag.destination, None):
        case bool() as value:
            return str(value).lower()
        case tuple() as value:
            return ",".join(map(str, value))
        case int() | float() as value:
            return f"{value:g}s" if flag.value == "duration" else f"{value:.0f}"
        case str() | Path() as value:
            return str(value)
        case _:
            return ""
