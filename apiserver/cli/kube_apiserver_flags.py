"""Flags of kube-apiserver that this server accepts and ignores, so that a start script can swap the binaries.

Source: `kube-apiserver --help`, releases 1.34 to 1.36. A flag leaves this list when the server implements it.
"""

from __future__ import annotations

from typing import Final

NOT_NEEDED: Final = frozenset(
    """
    admission-control
    aggregator-reject-forwarding-redirect
    allow-privileged apiserver-count
    authorization-policy-file cloud-config cloud-provider cloud-provider-gce-l7lb-src-cidrs
    cloud-provider-gce-lb-src-cidrs contention-profiling coordinated-leadership-lease-duration
    coordinated-leadership-renew-deadline coordinated-leadership-retry-period
    debug-socket-path
    delete-collection-workers disable-http2-serving
    egress-selector-config-file emulation-forward-compatible
    enable-aggregator-routing enable-bootstrap-token-auth enable-garbage-collector enable-logs-handler
    etcd-count-metric-poll-period etcd-healthcheck-timeout
    etcd-readycheck-timeout etcd-servers-overrides goaway-chance
    http2-max-streams-per-connection identity-lease-duration-seconds
    identity-lease-renew-interval-seconds kubelet-port kubelet-read-only-port
    kubelet-timeout lease-reuse-duration-seconds log-flush-frequency
    log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
    max-connection-bytes-per-sec
    peer-advertise-ip peer-advertise-port peer-ca-file permit-address-sharing permit-port-sharing
    profiling
    runtime-config-emulation-forward-compatible service-account-api-audiences
    service-account-signing-endpoint shutdown-send-retry-after
    shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout
    storage-media-type strict-transport-security-directives tls-curve-preferences
    tracing-config-file vmodule watch-cache
    """.split()  # noqa: SIM905  one name per line would fill four screens
)
