"""How the plugins ask webhooks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final, cast

import pytest

from apiserver.admission.chain import AdmissionAttributes, Operation, ReinvocationContext
from apiserver.admission.listers import Lister
from apiserver.admission.reviewed_write import EquivalentResources
from apiserver.admission.webhooks.configurations import WebhookConfigurations
from apiserver.admission.webhooks.plugins import (
    MutatingAdmissionWebhook,
    ValidatingAdmissionWebhook,
    WebhookDependencies,
    WebhookPlugin,
)
from apiserver.admission.webhooks.webhook import AdmissionWebhook
from apiserver.audit.request_audit import AnnotationKeys, RecordingContext, RequestAudit
from apiserver.auth.authz.attributes import NO_OPINION, Attributes, Verdict
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.load.offload import Offload
from apiserver.load.size_class import HUGE_BYTES, LARGE_BYTES
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest, Forbidden
from apiserver.meta.options import DeleteOptions, WriteOptions
from apiserver.meta.vocabulary import Query
from apiserver.metrics.match_conditions import MatchConditionMetrics
from apiserver.metrics.webhooks import WebhookMetrics
from apiserver.registry.served_resource import ResourceTable, ServedTable
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.review_server import ReviewCaller
from tests.support.eventually import WITHIN_S
from tests.unit.endpoints.handlers.calls import ALICE, CONFIG_MAPS

RULE: Final = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}


class Configured(WebhookConfigurations):
    """Webhooks that are there without being stored."""

    def __init__(self, *webhooks: AdmissionWebhook) -> None:
        self._webhooks = webhooks

    async def current(self) -> Sequence[AdmissionWebhook]:
        return self._webhooks


SLOW_S: Final = 0.02


class SlowCaller:
    """Calls webhooks that take their time and fail."""

    def __init__(self, takes_s: float = SLOW_S) -> None:
        self._takes_s = takes_s
        self.is_asked = asyncio.Event()

    async def post(self, *arguments: object) -> dict[str, object]:
        self.is_asked.set()
        await asyncio.sleep(self._takes_s)
        raise CallFailed("no answer")


def creating(offload: Offload, **more: Any) -> AdmissionAttributes:
    return AdmissionAttributes(Operation.CREATE, CONFIG_MAPS, "default", "a", ALICE, offload, **more)


def collaborators_of(
    authorize: AuthorizationChain, metrics: WebhookMetrics, caller: SlowCaller | None = None
) -> WebhookDependencies:
    """caller: None if webhooks are never called."""
    return WebhookDependencies(
        caller=cast(ReviewCaller, caller),
        equivalents=EquivalentResources(ServedTable(ResourceTable([CONFIG_MAPS]))),
        namespaces=cast(Lister, None),
        authorize=authorize,
        brand=Brand(),
        metrics=metrics,
    )


@pytest.mark.parametrize("size", [1, LARGE_BYTES, HUGE_BYTES])
async def test_authorizers_are_asked_on_the_event_loop(offload: Offload, size: int) -> None:
    """Conditions about large objects are evaluated beside it, where roles would change under a question."""
    threads: list[int] = []

    def authorize(attributes: Attributes) -> Verdict:
        threads.append(threading.get_ident())
        return NO_OPINION

    expression = "authorizer.group('').resource('pods').check('get').allowed()"
    conditions = [{"name": "may", "expression": expression}]
    webhook = AdmissionWebhook.of("c", {"name": "w", "rules": [RULE], "matchConditions": conditions})
    collaborators = collaborators_of(AuthorizationChain([authorize]), WebhookMetrics())
    plugin = ValidatingAdmissionWebhook(Configured(webhook), collaborators)
    new = {"metadata": {"name": "a"}, "data": {"k": "x" * size}}
    attributes = creating(offload)
    await plugin.validate(attributes, new, None)
    assert threads == [threading.get_ident()]


# What a query says, what the webhook says of side effects, and whether it is called.
DRY_RUNS: Final = {
    "no dry run": ({}, "Unknown", True),
    "a dry run": ({"dryRun": ["All"]}, "Unknown", False),
    "a dry run, and some side effects": ({"dryRun": ["All"]}, "Some", False),
    "a dry run, and none": ({"dryRun": ["All"]}, "None", True),
    "a dry run, and none then": ({"dryRun": ["All"]}, "NoneOnDryRun", True),
    # Row J08: as its warning says.
    "a bare dry run": ({"dryRun": [""]}, "Unknown", True),
    "a bare dry run, and some side effects": ({"dryRun": [""]}, "Some", True),
    "a bare dry run beside another": ({"dryRun": ["", "All"]}, "Some", False),
}


@pytest.mark.parametrize("deletes", [False, True], ids=["write", "delete"])
@pytest.mark.parametrize(("query", "side_effects", "is_called"), DRY_RUNS.values(), ids=DRY_RUNS)
async def test_webhooks_with_side_effects_are_called_in_bare_dry_runs_only(
    offload: Offload, query: Query, side_effects: str, is_called: bool, deletes: bool
) -> None:
    """Rows J08, L09."""
    document = {"name": "w", "rules": [RULE], "failurePolicy": "Ignore", "sideEffects": side_effects}
    document["admissionReviewVersions"] = ["v1"]
    webhook, caller = AdmissionWebhook.of("c", document), SlowCaller(0)
    collaborators = collaborators_of(AuthorizationChain([]), WebhookMetrics(), caller)
    plugin = ValidatingAdmissionWebhook(Configured(webhook), collaborators)
    options = (
        DeleteOptions.from_query(query, "meta.k8s.io", allows_empty_dry_run=True)
        if deletes
        else WriteOptions.from_query(query, "CreateOptions", "meta.k8s.io", allows_empty_dry_run=True)
    )
    attributes = AdmissionAttributes(
        Operation.CREATE,
        CONFIG_MAPS,
        "default",
        "a",
        ALICE,
        offload,
        is_dry_run=options.dry_run,
        options=options,
    )
    new = {"metadata": {"name": "a"}}
    if is_called:
        await plugin.validate(attributes, new, None)
    else:
        with pytest.raises(BadRequest, match="does not support dry run"):
            await plugin.validate(attributes, new, None)
    assert caller.is_asked.is_set() is is_called


FAILING: Final = "object.data.none == 'x'"
# The conditions of a webhook, its failure policy, how many have errors, whether it is excluded, and whether
# the write is refused.
CONDITIONS: Final[dict[str, tuple[list[str], str, int, bool, bool]]] = {
    "false": (["false"], "Fail", 0, True, False),
    "an error, and false": ([FAILING, "false"], "Fail", 1, True, False),
    "an error of a webhook that is required": ([FAILING], "Fail", 1, False, True),
    "of one that is not": ([FAILING, FAILING], "Ignore", 2, True, False),
}


@pytest.mark.parametrize(
    ("texts", "failure_policy", "errors", "is_excluded", "is_refused"), CONDITIONS.values(), ids=CONDITIONS
)
@pytest.mark.parametrize(
    ("plugin_type", "step"),
    [(MutatingAdmissionWebhook, "admit"), (ValidatingAdmissionWebhook, "validating")],
    ids=["mutating", "validating"],
)
async def test_match_conditions_are_counted(
    offload: Offload,
    plugin_type: type[WebhookPlugin],
    step: str,
    texts: list[str],
    failure_policy: str,
    errors: int,
    is_excluded: bool,
    is_refused: bool,
) -> None:
    counts = MatchConditionMetrics()
    webhook = AdmissionWebhook.of(
        "c",
        {
            "name": "w.example.com",
            "rules": [RULE],
            "matchConditions": [{"name": f"c{n}", "expression": text} for n, text in enumerate(texts)],
            "failurePolicy": failure_policy,
        },
    )
    collaborators = collaborators_of(AuthorizationChain([]), WebhookMetrics(counts))
    plugin = plugin_type(Configured(webhook), collaborators)
    attributes = creating(offload, rounds=ReinvocationContext())
    new = {"metadata": {"name": "a"}, "data": {}}
    ask = plugin.mutate if isinstance(plugin, MutatingAdmissionWebhook) else plugin.validate
    try:
        await ask(attributes, new, None)
    except Forbidden:
        assert is_refused
    else:
        assert not is_refused
    lines = [line for family in counts.families() for line in family.series]
    labels = f'kind="webhook",name="w.example.com",operation="CREATE",type="{step}"'
    prefix = "apiserver_admission_match_condition"
    assert f"{prefix}_evaluation_seconds_count{{{labels}}} 1" in "".join(lines)
    assert (f"{prefix}_evaluation_errors_total{{{labels}}} {errors}\n" in lines) == bool(errors)
    assert (f"{prefix}_exclusions_total{{{labels}}} 1\n" in lines) == is_excluded


class Request:
    """A request that knows how long it has waited for others, and how often it has held nothing meanwhile."""

    waited_s = 0.0
    pauses = 0

    @contextmanager
    def without_slot(self) -> Iterator[None]:
        self.pauses += 1
        yield


def new_audit() -> RequestAudit:
    return RequestAudit(0, RecordingContext(AnnotationKeys.of(Brand())))


# The plugin, and how long a write waits for two webhooks, in times that one takes.
WAITS: Final[dict[str, tuple[type[WebhookPlugin], int]]] = {
    "one after the other": (MutatingAdmissionWebhook, 2),
    "at the same time": (ValidatingAdmissionWebhook, 1),
}


def plugin_with_slow_webhooks(plugin_type: type[WebhookPlugin], caller: SlowCaller) -> WebhookPlugin:
    webhooks = [
        AdmissionWebhook.of(
            "c",
            {
                "name": name,
                "rules": [RULE],
                "failurePolicy": "Ignore",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://example.com"},
            },
        )
        for name in ("a", "b")
    ]
    collaborators = collaborators_of(AuthorizationChain([]), WebhookMetrics(), caller)
    return plugin_type(Configured(*webhooks), collaborators)


async def ask(plugin: WebhookPlugin, offload: Offload, request: Request, audit: RequestAudit) -> None:
    attributes = AdmissionAttributes(
        Operation.CREATE,
        CONFIG_MAPS,
        "default",
        "a",
        ALICE,
        offload,
        rounds=ReinvocationContext(),
        request=request,
        audit=audit,
    )
    new = {"metadata": {"name": "a"}, "data": {}}
    if isinstance(plugin, MutatingAdmissionWebhook):
        await plugin.mutate(attributes, new, None)
    else:
        await plugin.validate(attributes, new, None)


@pytest.mark.parametrize(("plugin_type", "times"), WAITS.values(), ids=WAITS)
async def test_a_request_knows_how_long_it_has_waited_for_webhooks(
    offload: Offload, plugin_type: type[WebhookPlugin], times: int
) -> None:
    """Its record does, too."""
    request, audit = Request(), new_audit()
    began = perf_counter()
    await ask(plugin_with_slow_webhooks(plugin_type, SlowCaller()), offload, request, audit)
    # A timer of the loop may be early by its clock's resolution.
    assert 0.9 * times * SLOW_S < request.waited_s <= perf_counter() - began
    assert request.pauses == 2
    assert list(audit.latencies.values()) == [pytest.approx(request.waited_s)]


@pytest.mark.parametrize("plugin_type", [plugin_type for plugin_type, _ in WAITS.values()], ids=WAITS)
async def test_a_request_whose_time_is_up_knows_how_long_it_has_waited(
    offload: Offload, plugin_type: type[WebhookPlugin]
) -> None:
    request, audit, caller = Request(), new_audit(), SlowCaller(takes_s=WITHIN_S)
    plugin, began = plugin_with_slow_webhooks(plugin_type, caller), perf_counter()

    async def end() -> float:
        """Returns for how long the webhooks had been asked when the time was up."""
        await caller.is_asked.wait()
        asked = perf_counter()
        await asyncio.sleep(SLOW_S)
        waited_s = perf_counter() - asked
        deadline.reschedule(0)
        return waited_s

    ending = asyncio.create_task(end())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(WITHIN_S) as deadline:
            await ask(plugin, offload, request, audit)
    assert await ending <= request.waited_s <= perf_counter() - began
    assert list(audit.latencies.values()) == [request.waited_s]
