"""/livez, /readyz and /healthz of a healthy server. Rows N01-N07."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.api import Api

ENDPOINTS: Final = ("livez", "readyz", "healthz")
# As kube-apiserver 1.36 lists them, but for those of identity leases and of peers, which this server lacks.
HOOKS: Final = tuple(
    f"poststarthook/{name}"
    for name in (
        "start-apiserver-admission-initializer",
        "generic-apiserver-start-informers",
        "priority-and-fairness-config-consumer",
        "priority-and-fairness-filter",
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
        "start-system-namespaces-controller",
        "start-cluster-authentication-info-controller",
        "storage-readiness",
        "start-legacy-token-tracking-controller",
        "start-service-ip-repair-controllers",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "bootstrap-controller",
        "start-kubernetes-service-cidr-controller",
        "start-kube-aggregator-informers",
        "apiservice-status-local-available-controller",
        "apiservice-status-remote-available-controller",
        "apiservice-registration-controller",
        "apiservice-wait-for-first-sync",
        "apiservice-discovery-controller",
        "kube-apiserver-autoregistration",
    )
)
REGISTERED: Final = (
    "autoregister-completion",
    *(f"poststarthook/apiservice-{name}-controller" for name in ("openapi", "openapiv3")),
)
HOOK: Final = HOOKS[0]
CHECKS: Final = {
    # A store that is away is no reason to start the server again.
    "livez": ["ping", "log", "etcd", *HOOKS, *REGISTERED],
    "readyz": [
        *("ping", "log", "etcd", "storage", "etcd-readiness", "informer-sync", "watch-cache"),
        *(*HOOKS, *REGISTERED, "shutdown"),
    ],
    "healthz": ["ping", "log", "etcd", "storage", *HOOKS, *REGISTERED],
}
each_endpoint = pytest.mark.parametrize("endpoint", ENDPOINTS)


def report(endpoint: str, *, excluded: tuple[str, ...] = (), unknown: str = "") -> str:
    """The text that `verbose` shows."""
    lines = [f"[+]{name} {'excluded: ok' if name in excluded else 'ok'}" for name in CHECKS[endpoint]]
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    return "\n".join([*lines, f"{endpoint} check passed", ""])


@each_endpoint
def test_healthy(api: Api, endpoint: str) -> None:
    """Rows N01, N02, N07."""
    answer = api.get(f"/{endpoint}")
    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache, private"


@each_endpoint
@pytest.mark.parametrize(
    "query", ["verbose", "verbose=true", "verbose=1", "verbose=", "verbose=0", "verbose=false"]
)
def test_verbose(api: Api, endpoint: str, query: str) -> None:
    """Rows N03, N06: a line for each check, whatever is said of `verbose`, as in Kubernetes."""
    answer = api.get(f"/{endpoint}?{query}")
    assert (answer.status, answer.body.decode()) == (200, report(endpoint))


EXCLUDED: Final = {
    "one": ("exclude=ping", ("ping",), ""),
    "two": ("exclude=ping&exclude=log", ("ping", "log"), ""),
    "one with a slash": (f"exclude={HOOK}", (HOOK,), ""),
    "an unknown one": ("exclude=zzz", (), '"zzz"'),
    "a known and two unknown ones": ("exclude=ping&exclude=y&exclude=z", ("ping",), '"y", "z"'),
    "nothing": ("exclude=", (), ""),
}


@each_endpoint
@pytest.mark.parametrize(("query", "excluded", "unknown"), EXCLUDED.values(), ids=EXCLUDED)
def test_excluding_checks(
    api: Api, endpoint: str, query: str, excluded: tuple[str, ...], unknown: str
) -> None:
    """Row N04: it says which, and what it did not know."""
    answer = api.get(f"/{endpoint}?verbose&{query}")
    assert (answer.status, answer.body.decode()) == (
        200,
        report(endpoint, excluded=excluded, unknown=unknown),
    )
    assert api.get(f"/{endpoint}?{query}").body == b"ok"


@each_endpoint
def test_single_checks(api: Api, endpoint: str) -> None:
    """Row N05."""
    for name in CHECKS[endpoint]:
        answer = api.get(f"/{endpoint}/{name}")
        assert (name, answer.status, answer.body) == (name, 200, b"ok")
    assert api.get(f"/{endpoint}/zzz").status == 404


@each_endpoint
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_probes_may_use_any_method(api: Api, endpoint: str, method: str) -> None:
    """Row N01: k8s.io/apiserver, pkg/server/healthz, does not look at it. A HEAD has no body."""
    body = b"" if method == "HEAD" else b"ok"
    for path in (f"/{endpoint}", f"/{endpoint}/ping"):
        answer = api.send(method, path, b"{}" if method == "POST" else None)
        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["content-length"] == "2"
    assert api.send(method, f"/{endpoint}/zzz").status == 404


@each_endpoint
def test_the_method_of_a_probe_is_a_verb_that_one_may_use(api: Api, endpoint: str) -> None:
    """Everybody may get the health, and nobody without permission may do anything else there."""
    anonymous = api.as_caller("")
    assert anonymous.get(f"/{endpoint}").status == 200
    for method in ("HEAD", "POST"):
        assert anonymous.send(method, f"/{endpoint}").status == 403
    anonymous.close()


def test_readyz_checks_the_store(api: Api) -> None:
    """Rows N01, N06."""
    assert api.get("/livez/storage").status == 404
    assert api.get("/readyz/storage").status == 200
