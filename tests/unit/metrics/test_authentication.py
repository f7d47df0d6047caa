"""Who is counted under which name: five that components have, and the rest by its form."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.metrics.authentication import AuthenticationMetrics
from apiserver.metrics.exposition import Exposition

# k8s.io/apiserver, pkg/endpoints/filters/metrics.go.
USERS: Final = {
    "the administrator": ("admin", "admin"),
    "a kubelet": ("kubelet", "kubelet"),
    "an account of kube-system": ("system:serviceaccount:kube-system:default",) * 2,
    "another account": ("system:serviceaccount:default:default", "other"),
    "an address": ("alice@example.com", "email_id"),
    "nobody": ("system:anonymous", "other"),
}


@pytest.mark.parametrize(("name", "counted"), USERS.values(), ids=USERS)
def test_users(name: str, counted: str) -> None:
    metrics = AuthenticationMetrics("server")
    metrics.identified(name, 0.001)
    assert f'authenticated_user_requests{{username="{counted}"}} 1' in text(metrics)


def text(metrics: AuthenticationMetrics) -> str:
    return "".join(part.decode() for part in Exposition((metrics,)).slices())
