"""The group `lifecycle.k8s.io`: requests to evict pods, and the progress of evictions (KEP-4563).

A requester creates an EvictionRequest. kube-controller-manager creates Evictions from them; it and the pod's
responders report their progress in the status. This package checks their writes.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.lifecycle import eviction_requests, evictions

TYPES: Final = (eviction_requests.BUILTIN_TYPE, evictions.BUILTIN_TYPE)
