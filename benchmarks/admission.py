"""What webhooks and policies cost who writes. `make bench ARGS=admission`.

Costs are processor time of the server: with the webhook, or the policies, and on the same server without.
Other work on the machine makes a request dearer, never cheaper: the least of many short rounds counts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from typing import Any, Final, NamedTuple

from benchmarks import load, processes
from benchmarks.bodies import config_map, pod
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    CONNECTIONS,
    PODS,
    RequestsFor,
    Settings,
    create,
    etcd,
    make_namespace,
    posts,
    server,
)
from tests.support.api import Api

NAMESPACE: Final = "bench"
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
# What a call of a webhook may take of this server's processor time.
WEBHOOK_US_MAX: Final = 300
POLICIES: Final = 10
# What so many policies may add to a create, in per cent.
POLICIES_PERCENT_MAX: Final = 30
# What is about other types may add nothing; two measurements of the same differ by so many per cent.
SAME_PERCENT_MAX: Final = 5
OTHER_POLICIES: Final = 200
# How often the two servers alternate, and the part of the time for a rate that each round has.
ROUNDS: Final = 50
ROUND_SHARE: Final = 0.02
# From the answer to a change until it counts on another server.
EFFECTIVE_MS_MAX: Final = 100
CHANGES: Final = 20


async def admission(settings: Settings) -> AsyncIterator[Result]:
    for part in (_webhooks, _policies, _other_types, _replicas):
        async for result in part(settings):
            yield result


# ---- webhooks


async def _webhooks(settings: Settings) -> AsyncIterator[Result]:
    for kind in ("validating", "mutating"):
        with server(settings) as (_, plain), server(settings) as (_, asking), _webhook(settings) as there:
            await _register_webhooks(asking, kind, [there.hook("configmaps")])
            costs = await costs_of_creates(settings, CONFIGMAPS, config_map, asking, plain)
            yield Result(
                f"call of a {kind} webhook, create of 1 KB",
                "us",
                costs.added_us,
                target=WEBHOOK_US_MAX,
                is_bound=True,
                cpu_us=costs.ours_us,
            )


class _Webhook(NamedTuple):
    """A webhook that allows everything; one that is about to change something adds a label."""

    url: str
    ca_bundle: str

    def hook(self, resource: str, name: str = "a.example.com", **fields: Any) -> dict[str, Any]:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        return {
            "name": name,
            "clientConfig": {"url": self.url, "caBundle": self.ca_bundle},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }


@contextmanager
def _webhook(settings: Settings) -> Iterator[_Webhook]:
    directory = settings.directory / "webhook"
    with processes.bare("webhook", str(directory)) as measured:
        bundle = base64.b64encode((directory / "ca.crt").read_bytes()).decode()
        yield _Webhook(f"{measured.url}/", bundle)


async def _register_webhooks(measured: Measured, kind: str, hooks: Sequence[dict[str, Any]]) -> None:
    await _register(measured, f"{kind}webhookconfigurations", {"metadata": {"name": "b"}, "webhooks": hooks})


async def _register(measured: Measured, resource: str, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    await create(measured.url, f"{REGISTRATIONS}/{resource}", lambda _: body, 1)


# ---- policies

# In the style of public libraries; by the resource that they are about.
_CONTAINERS: Final = "object.spec.containers"
_EXPRESSIONS: Final = {
    "pods": (
        f"{_CONTAINERS}.all(c, !(has(c.securityContext.privileged) && c.securityContext.privileged))",
        "!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
        "!has(object.spec.hostPID) || !object.spec.hostPID",
        f"{_CONTAINERS}.all(c, has(c.resources.limits) && 'memory' in c.resources.limits)",
        f"{_CONTAINERS}.all(c, c.image.startsWith('registry.example.com/'))",
        f"{_CONTAINERS}.all(c, !c.image.endsWith(':latest'))",
        "'app.kubernetes.io/name' in object.metadata.labels",
        "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))",
        f"{_CONTAINERS}.all(c, !has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))",
        "has(object.spec.securityContext) && object.spec.securityContext.runAsNonRoot == true",
    ),
    "configmaps": (
        "object.metadata.name.startsWith('c-')",
        "size(object.data) < 100",
        "object.data.all(key, size(key) < 253)",
        "!has(object.immutable) || !object.immutable",
        "!('password' in object.data)",
        "object.data.all(key, size(object.data[key]) < 100000)",
        "!object.metadata.name.matches('^kube-')",
        "request.operation != 'CREATE' || !has(object.metadata.finalizers)",
        "request.userInfo.username == 'admin' || 'team' in object.metadata.labels",
        "object.metadata.namespace != 'kube-system'",
    ),
}


async def _policies(settings: Settings) -> AsyncIterator[Result]:
    for what, target, body, resource in (
        ("a ConfigMap of 1 KB", CONFIGMAPS, config_map, "configmaps"),
        ("a Pod of 4 KB", PODS, pod, "pods"),
    ):
        with server(settings) as (_, plain), server(settings) as (_, checking):
            for number, expression in enumerate(_EXPRESSIONS[resource]):
                await _bind(checking, f"p-{number}", _rule(resource), expression)
            costs = await costs_of_creates(settings, target, body, checking, plain)
            yield percent(f"{POLICIES} policies, create of {what}", costs, POLICIES_PERCENT_MAX)


def _rule(resource: str) -> dict[str, Any]:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}


async def _bind(measured: Measured, name: str, rule: dict[str, Any], expression: str) -> None:
    """Create a policy, and its binding."""
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for kind, document in (("policies", spec), ("policybindings", binding)):
        await _register(
            measured, f"validatingadmission{kind}", {"metadata": {"name": name}, "spec": document}
        )


async def _other_types(settings: Settings) -> AsyncIterator[Result]:
    """Types that no webhook and no policy names."""
    with server(settings) as (_, plain), server(settings) as (_, others), _webhook(settings) as there:
        for kind in ("mutating", "validating"):
            hooks = [there.hook("configmaps", f"h{n}.example.com") for n in range(OTHER_POLICIES)]
            await _register_webhooks(others, kind, hooks)
        for number in range(OTHER_POLICIES):
            await _bind(others, f"p-{number}", _rule("configmaps"), "object.metadata.name != ''")
        costs = await costs_of_creates(settings, SECRETS, _secret, others, plain)
        yield percent(
            f"{OTHER_POLICIES} policies and {2 * OTHER_POLICIES} webhooks about other types",
            costs,
            SAME_PERCENT_MAX,
        )


def _secret(name: str) -> bytes:
    return config_map(name).replace(b'"ConfigMap"', b'"Secret"', 1).replace(b'"data"', b'"stringData"', 1)


# ---- replicas


async def _replicas(settings: Settings) -> AsyncIterator[Result]:
    """What is changed on one server, and when it counts on another one with the same store."""
    with etcd(settings) as url:
        if not url:
            yield Result("effective on a replica", "ms", 0, note="NOT MEASURED: this machine has no etcd")
            return
        flag = f"--etcd-servers={url}"
        with server(settings, flag) as (one, here), server(settings, flag) as (two, _):
            await make_namespace(here.url, NAMESPACE)
            with closing(Api(one)) as api, closing(Api(two)) as there:
                delays = [_delay_ms(api, there, number) for number in range(settings.at_most(CHANGES))]
    yield Result(
        f"effective on a replica, longest of {len(delays)} changes",
        "ms",
        max(delays),
        target=EFFECTIVE_MS_MAX,
        is_bound=True,
        note=f"median {statistics.median(delays):.1f} ms",
    )


def _delay_ms(here: Api, there: Api, number: int) -> float:
    """Register a webhook that nobody serves. Returns how long another server lets writes pass after that."""
    path = f"{REGISTRATIONS}/validatingwebhookconfigurations"
    hook = _Webhook("https://127.0.0.1:1/", "").hook("configmaps")
    here.post(path, {"metadata": {"name": f"b-{number}"}, "webhooks": [hook]}).ok()
    began = time.perf_counter()
    target, body = f"{CONFIGMAPS.format(NAMESPACE)}?dryRun=All", {"metadata": {"name": "a"}}
    while there.post(target, body).status == 201:
        pass
    delay_ms = 1_000 * (time.perf_counter() - began)
    here.delete(f"{path}/b-{number}").ok()
    while there.post(target, body).status != 201:
        pass
    return delay_ms


# ---- costs


class Costs(NamedTuple):
    """Microseconds of the server's processor time for a request: in the round that took least."""

    ours_us: float
    without_us: float

    @property
    def added_us(self) -> float:
        return self.ours_us - self.without_us


async def costs_of_creates(
    settings: Settings, target: str, body: Callable[[str], bytes], ours: Measured, without: Measured
) -> Costs:
    """The costs of creates on two servers."""
    path = target.format(NAMESPACE)
    for measured in (ours, without):
        await make_namespace(measured.url, NAMESPACE)
        # What is compiled when it is first needed.
        await create(measured.url, path, lambda n: body(f"c-first-{n}"), CONNECTIONS)
    return await costs_of(settings, posts(path, body), ours, without)


async def costs_of(
    settings: Settings, requests: RequestsFor, ours: Measured, without: Measured, *, after_s: float = 0.0
) -> Costs:
    """The costs of requests to two servers, in rounds that alternate between them.

    after_s: how long the servers do what belongs to the requests of a round after they have been answered.
    """
    found: dict[Measured, list[float]] = {ours: [], without: []}
    async with AsyncExitStack() as stack:
        opened = {
            measured: await stack.enter_async_context(load.Connections.to(measured.url, CONNECTIONS))
            for measured in found
        }
        for _ in range(ROUNDS):
            for measured, costs in found.items():
                before = measured.cpu_s()
                done = await opened[measured].run(requests(ROUND_SHARE * settings.seconds))
                await asyncio.sleep(after_s)
                costs.append((measured.cpu_s() - before) / done.answers * 1e6)
    return Costs(min(found[ours]), min(found[without]))


def percent(work: str, costs: Costs, most: float) -> Result:
    """Returns what is added to a request, in per cent of the cost without it."""
    added = 100 * costs.added_us / costs.without_us
    return Result(work, "% added", added, target=most, is_bound=True, cpu_us=costs.ours_us)
