"""The flags of serving: addresses, certificates, limits and times of requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.argument_parser import path
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import BOOLEAN, COUNT, DURATION, PATH, SWITCH, TEXT, NamedCertificate
from apiserver.golang.tls import DEFAULT_VERSION, INSECURE_SUITES, PREFERRED_SUITES, TLS13_SUITES, VERSIONS


@dataclass(frozen=True, slots=True, repr=False)
class ServingOptions:
    """The options of serving: addresses, certificates, limits and times of requests."""

    bind_address: str = option(
        "127.0.0.1",
        Kind("ip", str),
        "The IP address on which the server listens. To set the port, use --secure-port.",
    )
    # Empty: the bind address, or that of the default route.
    advertise_address: str = option(
        "",
        Kind("ip", flag_values.address),
        "The IP address that the server advertises to members of the cluster. The server adds this address "
        "to the kubernetes Service's endpoints. The default is the value of --bind-address. If "
        "--bind-address is a loopback address or an unspecified address (0.0.0.0 or ::), the default is the "
        "source address of this machine's default route.",
    )
    # Empty: the advertised address.
    external_hostname: str = option(
        "",
        TEXT,
        "The hostname to use in the URLs that the server generates, for example for OpenID discovery. The "
        "server adds this hostname to the serving certificates that it generates. The default is the value "
        "of --advertise-address.",
    )
    secure_port: int = option(
        6443,
        Kind("int", flag_values.port),
        "The port on which to serve HTTPS. If the port is 0, the server picks a free port.",
    )
    workers: int = option(
        1,
        Kind("int", flag_values.workers),
        "The number of worker processes that serve HTTPS requests. The maximum is "
        f"{flag_values.WORKERS_MAX}. Each worker is a replica with its own watch cache. Values above 1 "
        "require --etcd-servers.",
    )
    data_dir: Path = option(
        Path("apiserver-data"),
        Kind("string", path),
        "The directory for generated keys and certificates, the administrator's kubeconfig, and the embedded "
        "store. If --cert-dir is set and this flag is not, the data directory is a subdirectory of "
        "--cert-dir.",
    )
    # Of the serving certificate; None: in the data directory.
    cert_dir: Path | None = option(
        None,
        PATH,
        "The directory that contains the serving certificate (apiserver.crt) and its private key "
        "(apiserver.key). The server creates these files if they do not exist. If --tls-cert-file is set, "
        "the server ignores this flag.",
    )
    tls_cert_file: Path | None = option(
        None,
        PATH,
        "A file that contains the x509 certificate for HTTPS. CA certificates, if any, must follow the "
        "server certificate in the file. If the flag is not set, the server generates a certificate in "
        "--cert-dir or --data-dir.",
    )
    tls_private_key_file: Path | None = option(
        None, PATH, "A file that contains the x509 private key for the certificate in --tls-cert-file."
    )
    tls_sni_cert_key: tuple[NamedCertificate, ...] = option(
        (),
        Kind("namedCertKey", flag_values.named_certificate),
        "The paths of an x509 certificate file and a private key file, separated by a comma. You can append "
        "a colon and a comma-separated list of server names. The server presents the certificate to clients "
        "that request one of these names. A name is an IP address or a fully qualified domain name. The "
        "first label of a domain name can be a wildcard. If the value does not list any names, the server "
        "uses the names in the certificate. Exact names take precedence over wildcards, and listed names "
        "take precedence over names in certificates. The flag can be repeated. Examples: "
        '"example.crt,example.key" or "foo.crt,foo.key:*.foo.com,foo.com".',
        repeats=True,
        is_list=False,
    )
    tls_min_version: str = option(
        DEFAULT_VERSION,
        TEXT,
        f"The minimum TLS version that the server supports. Possible values: {', '.join(VERSIONS)}.",
        choices=VERSIONS,
    )
    # Empty: those that are usual.
    tls_cipher_suites: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.cipher_suites),
        "A comma-separated list of cipher suites for TLS 1.2 and earlier. You cannot change the TLS 1.3 "
        f"cipher suites. Preferred values: {', '.join(sorted({*PREFERRED_SUITES, *TLS13_SUITES}))}. "
        f"Insecure values: {', '.join(INSECURE_SUITES)}.",
        repeats=True,
    )
    strict_transport_security_directives: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.hsts_directives),
        "A comma-separated list of HTTP Strict Transport Security (HSTS) directives. If the list is empty, "
        "the server does not send the Strict-Transport-Security header. Example: "
        "'max-age=31536000,includeSubDomains,preload'.",
        repeats=True,
    )
    # Regular expressions, in Go's syntax.
    cors_allowed_origins: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.origin_patterns),
        "A comma-separated list of allowed origins for CORS. Each allowed origin is a regular expression. "
        "Each expression must anchor the start of the host with ^ or //, and the end of the host with $ or "
        "a colon. Examples: //localhost(:|$) or ^https://example\\.com$. Only web pages from these origins "
        "and from the server's own host can open WebSocket connections.",
        repeats=True,
    )
    max_connections: int = option(
        10_000,
        COUNT,
        "The maximum number of open connections. When the limit is reached, a new connection replaces the "
        "connection that has been idle the longest. If no connection is idle, the server refuses the new "
        "connection. The limit applies to each worker separately. 0 means that only the operating system's "
        "limit on open files applies.",
    )
    max_connections_per_client: int = option(
        8_000,
        COUNT,
        "The maximum number of open connections from one IPv4 address or one IPv6 /64 network. When the "
        "limit is reached, a new connection can replace only an idle connection from the same address or "
        "network. Each watch needs its own connection. All clients behind a proxy or load balancer share one "
        "address, and therefore one limit. The limit applies to each worker separately. 0 means no limit.",
    )
    # A single user can have four fifths of it: more than the informers of all controllers.
    max_watches: int = option(
        10_000,
        COUNT,
        "The maximum number of open watches. Watches by members of the system:masters group do not count "
        "toward this limit. A single user can open at most 80% of the allowed watches, or fewer if other "
        "users have many open watches. All service accounts in a namespace count as one user. When the limit "
        "is reached, the server rejects new watches. The limit applies to each worker separately. 0 means no "
        "limit.",
    )
    max_requests_inflight: int = option(
        400,
        COUNT,
        "The maximum number of non-mutating requests in flight. If priority and fairness is enabled, the "
        "total limit for all requests is the sum of --max-requests-inflight and "
        "--max-mutating-requests-inflight. If priority and fairness is disabled, the server rejects requests "
        "above the limit and allows each user at most 80% of it, or less if other users need more. 0 means "
        "no limit.",
    )
    max_mutating_requests_inflight: int = option(
        200,
        COUNT,
        "The maximum number of mutating requests in flight. This flag follows the same rules as "
        "--max-requests-inflight. 0 means no limit.",
    )
    enable_priority_and_fairness: bool = option(
        True,
        BOOLEAN,
        "If true, FlowSchemas and priority levels control how requests share the server's capacity, and "
        "requests can wait in queues. If false, only the limits in --max-requests-inflight and "
        "--max-mutating-requests-inflight apply.",
    )
    profiling: bool = option(
        True,
        BOOLEAN,
        "If true, authorized users can get profiles at /debug/pprof/ and set the log level at "
        "/debug/flags/v.",
    )
    request_timeout_s: float = option(
        60.0,
        DURATION,
        "The time after which a request times out. For watches, --min-request-timeout applies instead.",
    )
    min_request_timeout_s: float = option(
        1800.0,
        Kind("int", flag_values.seconds),
        "The minimum number of seconds before a watch times out. To spread out load, the server picks a "
        "random timeout between this value and twice this value.",
    )
    livez_grace_period_s: float = option(
        0.0,
        DURATION,
        "The maximum time that the server should take to complete its startup sequence. During this time, "
        "/livez assumes that unfinished post-start hooks will complete successfully.",
    )
    shutdown_delay_s: float = option(
        0.0,
        DURATION,
        "How long the server delays its shutdown. During the delay, the server continues to serve requests "
        "and adds the `Connection: close` header to its responses. During the delay, /livez returns success, "
        "but /readyz returns failure.",
        name="--shutdown-delay-duration",
    )
    shutdown_watch_termination_grace_s: float = option(
        0.0,
        DURATION,
        "During shutdown, the period over which the server gradually ends its open watches. Because the "
        "watches end gradually, clients do not all reconnect to other replicas at the same time. The period "
        "begins after the --shutdown-delay-duration delay. The server ends at least 200 watches per second. "
        "0 means that the server ends all watches at once.",
        name="--shutdown-watch-termination-grace-period",
    )
    goaway_chance: float = option(
        0.0,
        Kind("float", flag_values.goaway_chance),
        "The fraction of requests after which the server closes the client's connection. When clients behind "
        "a load balancer reconnect, their connections spread across all replicas. The minimum is 0 (off), "
        "and the maximum is 0.02. A good starting value is 0.001.",
    )
    enable_fault_injection: bool = option(
        False,
        SWITCH,
        "If true, members of the system:masters group can inject faults to test how clients handle errors. "
        "To inject faults, use the 'apiserver faults' command or the /debug/faults path. Do not use this "
        "flag in production.",
    )


FLAGS: Final = flags_of(ServingOptions)
