"""How the plugins ask webhooks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, cast

import pytest

from apiserver.admission.chain import AdmissionAttributes, Operation
from apiserver.admission.listers import Lister
from apiserver.admission.webhooks.configurations import WebhookConfigurations
from apiserver.admission.webhooks.plugins import Collaborators, ValidatingAdmissionWebhook
from apiserver.admission.webhooks.requests import EquivalentResources
from apiserver.admission.webhooks.webhook import AdmissionWebhook
from apiserver.authz.attributes import NO_OPINION, Attributes, AuthorizationChain, Verdict
from apiserver.brand import Brand
from apiserver.metrics.webhooks import WebhookMetrics
from apiserver.registry.offload import Offload
from apiserver.registry.served_resource import ResourceTable, ServedTable
from apiserver.registry.size_class import HUGE_BYTES, LARGE_BYTES
from apiserver.webhooks.review_server import Caller
from tests.unit.handlers.calls import ALICE, CONFIG_MAPS

RULE: Final = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}


class Configured(WebhookConfigurations):
    """Webhooks that are there without being stored."""

    def __init__(self, *webhooks: AdmissionWebhook) -> None:
        self._webhooks = webhooks

    async def current(self) -> Sequence[AdmissionWebhook]:
        return self._webhooks


@pytest.fixture
def offload() -> Iterator[Offload]:
    offload = Offload()
    yield offload
    offload.close()


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
    collaborators = Collaborators(
        caller=cast(Caller, None),
        equivalents=EquivalentResources(ServedTable(ResourceTable([CONFIG_MAPS]))),
        namespaces=cast(Lister, None),
        authorize=AuthorizationChain([authorize]),
        brand=Brand(),
        offload=offload,
        metrics=WebhookMetrics(),
    )
    plugin = ValidatingAdmissionWebhook(Configured(webhook), collaborators)
    new = {"metadata": {"name": "a"}, "data": {"k": "x" * size}}
    attributes = AdmissionAttributes(Operation.CREATE, CONFIG_MAPS, "default", "a", ALICE)
    await plugin.validate(attributes, new, None)
    assert threads == [threading.get_ident()]
