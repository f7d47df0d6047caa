"""Flags of kube-apiserver that this server accepts and ignores, so that a start script can swap the binaries.

Source: `kube-apiserver --help`, release 1.34. A flag leaves this list when the server implements it.
"""

from __future__ import annotations

from typing import Final

NOT_NEEDED: Final = frozenset(
    """
    admission-control
    aggregator-reject-forwarding-redirects allow-metric-labels allow-metric-labels-manifest
    allow-privileged apiserver-count audit-log-batch-buffer-size audit-log-batch-max-size
    audit-log-batch-max-wait audit-log-batch-throttle-burst audit-log-batch-throttle-enable
    audit-log-batch-throttle-qps audit-log-compress audit-log-format audit-log-maxage
    audit-log-maxbackup audit-log-maxsize audit-log-mode audit-log-path audit-log-truncate-enabled
    audit-log-truncate-max-batch-size audit-log-truncate-max-event-size audit-log-version
    audit-policy-file audit-webhook-batch-buffer-size audit-webhook-batch-initial-backoff
    audit-webhook-batch-max-size audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst
    audit-webhook-batch-throttle-enable audit-webhook-batch-throttle-qps audit-webhook-config-file
    audit-webhook-initial-backoff audit-webhook-mode audit-webhook-truncate-enabled
    audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version
    authentication-config authentication-token-webhook-cache-ttl
    authentication-token-webhook-config-file authentication-token-webhook-version
    authorization-policy-file authorization-webhook-cache-authorized-ttl
    authorization-webhook-cache-unauthorized-ttl authorization-webhook-config-file
    authorization-webhook-version cloud-config cloud-provider cloud-provider-gce-l7lb-src-cidrs
    cloud-provider-gce-lb-src-cidrs contention-profiling coordinated-leadership-lease-duration
    coordinated-leadership-renew-deadline coordinated-leadership-retry-period
    debug-socket-path
    delete-collection-workers disable-http2-serving disabled-metrics
    egress-selector-config-file emulated-version emulation-forward-compatible
    enable-aggregator-routing enable-bootstrap-token-auth enable-garbage-collector enable-logs-handler
    enable-priority-and-fairness encryption-provider-config-automatic-reload
    etcd-count-metric-poll-period etcd-healthcheck-timeout
    etcd-readycheck-timeout etcd-servers-overrides goaway-chance
    http2-max-streams-per-connection identity-lease-duration-seconds
    identity-lease-renew-interval-seconds kubelet-port kubelet-read-only-port
    kubelet-timeout lease-reuse-duration-seconds log-flush-frequency
    log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
    max-connection-bytes-per-sec oidc-ca-file oidc-client-id oidc-groups-claim oidc-groups-prefix
    oidc-issuer-url oidc-required-claim oidc-signing-algs oidc-username-claim oidc-username-prefix
    peer-advertise-ip peer-advertise-port peer-ca-file permit-address-sharing permit-port-sharing
    profiling
    runtime-config-emulation-forward-compatible service-account-api-audiences
    service-account-extend-token-expiration service-account-lookup
    service-account-signing-endpoint show-hidden-metrics-for-version shutdown-send-retry-after
    shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout
    storage-media-type strict-transport-security-directives tls-cipher-suites tls-min-version
    tls-sni-cert-key tracing-config-file vmodule watch-cache
    """.split()  # noqa: SIM905  one name per line would fill four screens
)
