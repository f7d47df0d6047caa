"""The group `lifecycle.k8s.io`: pods that are to go, who asks for it, and who takes care of it (KEP-4563).

A requester makes an EvictionRequest. kube-controller-manager makes Evictions of them, in whose status it and
the responders of the pod report their progress; what each may write there is checked here.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.lifecycle import eviction_requests, evictions

TYPES: Final = (eviction_requests.BUILTIN_TYPE, evictions.BUILTIN_TYPE)
