"""The flags of serving: addresses, certificates, limits and times of requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import BOOLEAN, COUNT, DURATION, PATH, SWITCH, TEXT, NamedCertificate
from apiserver.golang.tls import DEFAULT_VERSION, INSECURE_SUITES, PREFERRED_SUITES, TLS13_SUITES, VERSIONS


@dataclass(frozen=True, slots=True, repr=False)
class ServingOptions:
    """The options of serving: addresses, certificates, limits and times of requests."""

    bind_address: str = option(
        "127.0.0.1", Kind("ip", str), "The IP address on which to listen for the --secure-port port."
    )
    # Empty: the bind address, or that of the default route.
    advertise_address: str = option(
        "",
        Kind("ip", flag_values.address),
        "The IP address on which to advertise the server to members of the cluster, in the endpoints of "
        "the Service kubernetes. Defaults to --bind-address, or to the address of this machine's default "
        "route if --bind-address is a loopback address or all addresses.",
    )
    # Empty: the advertised address.
    external_hostname: str = option(
        "",
        TEXT,
        "The hostname in URLs of this server, such as those in OpenID discovery. If not provided, it is "
        "--advertise-address.",
    )
    secure_port: int = option(
        6443, Kind("int", flag_values.port), "The port on which to serve HTTPS. 0 picks a free port."
    )
    workers: int = option(
        1,
        Kind("int", flag_values.workers),
        f"The number of processes that serve the port, at most {flag_values.WORKERS_MAX}. Each is a replica "
        "with its own watch cache. More than one requires --etcd-servers.",
    )
    data_dir: Path = option(
        Path("apiserver-data"),
        PATH,
        "The directory for generated keys and certificates, the administrator's kubeconfig, and the "
        "embedded store. If only --cert-dir is provided, the server uses a subdirectory of it.",
    )
    # Of the serving certificate; None: in the data directory.
    cert_dir: Path | None = option(
        None,
        PATH,
        "The directory with the serving certificate and its key, apiserver.crt and apiserver.key. The "
        "server creates them if they do not exist. Ignored if --tls-cert-file is set.",
    )
    tls_cert_file: Path | None = option(
        None,
        PATH,
        "File containing the x509 certificate for HTTPS (CA certificates, if any, concatenated after the "
        "server certificate). If not provided, a certificate is generated in --cert-dir or --data-dir.",
    )
    tls_private_key_file: Path | None = option(
        None, PATH, "File containing the x509 private key matching --tls-cert-file."
    )
    tls_sni_cert_key: tuple[NamedCertificate, ...] = option(
        (),
        Kind("namedCertKey", flag_values.named_certificate),
        "A pair of x509 certificate and private key file paths, optionally followed by a colon and the "
        "names for which to use it: fully qualified domain names, possibly with a wildcard as the first "
        "label, or IP addresses. Without names, the server uses those in the certificate. Exact names "
        "take precedence over wildcards, and given names over names from certificates. May be repeated. "
        'Examples: "example.crt,example.key" or "foo.crt,foo.key:*.foo.com,foo.com".',
        repeats=True,
        is_list=False,
    )
    tls_min_version: str = option(
        DEFAULT_VERSION,
        TEXT,
        f"Minimum TLS version supported: one of {', '.join(VERSIONS)}.",
        choices=VERSIONS,
    )
    # Empty: those that are usual.
    tls_cipher_suites: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.cipher_suites),
        "List of cipher suites for TLS 1.2 and before, comma separated; those of TLS 1.3 are fixed. "
        f"Preferred values: {', '.join(sorted({*PREFERRED_SUITES, *TLS13_SUITES}))}. Insecure values: "
        f"{', '.join(INSECURE_SUITES)}.",
        repeats=True,
    )
    strict_transport_security_directives: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.hsts_directives),
        "List of directives for HSTS, comma separated. If this list is empty, responses do not have the "
        "header. Example: 'max-age=31536000,includeSubDomains,preload'.",
        repeats=True,
    )
    # Regular expressions, in Go's syntax.
    cors_allowed_origins: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.origin_patterns),
        "List of allowed origins for CORS, comma separated. Each item is a regular expression, which must "
        "be anchored to the start of the host with ^ or //, and to its end with $ or :, for example "
        "//localhost(:|$) or ^https://example\\.com$. Only pages of these origins may open WebSockets.",
        repeats=True,
    )
    max_connections: int = option(
        10_000,
        COUNT,
        "The maximum number of open connections. At the limit, a new connection replaces the one that has "
        "been idle for the longest time; if none is idle, it is refused. The limit applies to each worker. "
        "0 means no limit except that of open files.",
    )
    max_connections_per_client: int = option(
        8_000,
        COUNT,
        "The maximum number of open connections from one address, or from one IPv6 network of 64 bits, like"
        " --max-connections. Each watch needs a connection, and all clients behind a proxy or load balancer"
        " share an address. 0 means no limit.",
    )
    # A single user can have four fifths of it: more than the informers of all controllers.
    max_watches: int = option(
        10_000,
        COUNT,
        "The maximum number of open watches, except those of system:masters. One user gets at most four "
        "fifths of it, and less if others have many; the service accounts of a namespace count as one user."
        " At the limit, watches are rejected. The limit applies to each worker. 0 means no limit.",
    )
    max_requests_inflight: int = option(
        400,
        COUNT,
        "The maximum number of non-mutating requests in flight. With priority and fairness, all requests "
        "share the sum of this limit and that of mutating requests. Without it, the server rejects further "
        "requests, and one user gets at most four fifths of the limit, and less if others need it. 0 means "
        "no limit.",
    )
    max_mutating_requests_inflight: int = option(
        200,
        COUNT,
        "The maximum number of mutating requests in flight, like that of non-mutating requests. 0 means no "
        "limit.",
    )
    enable_priority_and_fairness: bool = option(
        True,
        BOOLEAN,
        "If true, FlowSchemas and priority levels decide how requests share the server, and requests can "
        "wait in queues. If false, only the limits of requests in flight apply.",
    )
    request_timeout_s: float = option(
        60.0,
        DURATION,
        "The duration a handler keeps a request open before timing it out. Does not apply to watches: see "
        "--min-request-timeout.",
    )
    min_request_timeout_s: float = option(
        1800.0,
        Kind("int", flag_values.seconds),
        "The minimum number of seconds a watch is kept open before timing it out. The actual timeout is "
        "random, up to twice this value, to spread out load.",
    )
    livez_grace_period_s: float = option(
        0.0,
        DURATION,
        "The maximum time the server may take to complete its startup sequence. Until then, /livez assumes "
        "that unfinished post-start hooks will complete successfully.",
    )
    shutdown_delay_s: float = option(
        0.0,
        DURATION,
        "Time to delay the termination. During that time the server keeps serving requests normally; /livez "
        "returns success, but /readyz immediately returns failure.",
        name="--shutdown-delay-duration",
    )
    enable_fault_injection: bool = option(
        False,
        SWITCH,
        "Let members of system:masters inject faults over /debug/faults, to test clients: see apiserver "
        "faults. Do not use it in production.",
    )


FLAGS: Final = flags_of(ServingOptions)
