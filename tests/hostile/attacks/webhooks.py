"""Requests that wait for servers of somebody else."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.hostile.attack import Attacker, Stage, attack
from tests.hostile.site import ATTACKED, BINDINGS, CONFIG_MAPS, CROWD, config_map
from tests.support.kubeconfigs import kubeconfig_of_webhook
from tests.support.rbac import binding
from tests.support.webhook_server import Review, WebhookServer

SLOW_S: Final = 5.0
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class SlowWebhook(WebhookServer):
    """Allows everything, but not at once."""

    async def answer(self, path: str, review: Review) -> Review:
        await asyncio.sleep(SLOW_S)
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _server(stage: Stage) -> SlowWebhook:
    directory = stage.stack.enter_context(tempfile.TemporaryDirectory())
    return stage.stack.enter_context(SlowWebhook(Path(directory)))


async def _slow_admission(stage: Stage) -> None:
    """Register a webhook for what is written into the attackers' namespace."""
    server = _server(stage)
    webhook: dict[str, Any] = {
        "name": "slow.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{server.port}/", "caBundle": server.ca_bundle},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ATTACKED}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    webhooks = {"metadata": {"name": "slow"}, "webhooks": [webhook]}
    await stage.make((ADMISSION, webhooks), (BINDINGS, binding("crowd", "writer", *CROWD, kind="Role")))


@attack("1 slots", prepare=_slow_admission)
async def writes_whose_webhook_is_slow(attacker: Attacker) -> None:
    """300 clients, of 200 users, write what a webhook takes five seconds to allow."""
    numbers = itertools.count()

    async def write(number: int) -> None:
        session = attacker.session(CROWD[number % len(CROWD)])
        while True:
            await session.ask("POST", CONFIG_MAPS, config_map(f"c{next(numbers)}"))

    await attacker.at_once(attacker.times(300), write)


class SlowAuthorizer(WebhookServer):
    """Allows everybody what is in their namespace, but lets the crowd wait for it."""

    async def answer(self, path: str, review: Review) -> Review:
        if review["spec"].get("user") in CROWD:
            await asyncio.sleep(1.0)
        return {**review, "status": {"allowed": True}}


def _slow_authorizer(directory: Path, stack: ExitStack) -> tuple[str, ...]:
    """Start a webhook that decides about everything."""
    (directory / "authorizer").mkdir()
    server = stack.enter_context(SlowAuthorizer(directory / "authorizer"))
    config = kubeconfig_of_webhook(directory / "authorizer.kubeconfig", server)
    return ("--authorization-mode=Webhook", f"--authorization-webhook-config-file={config}")


@attack("1 slots", before=_slow_authorizer)
async def requests_whose_authorizer_is_slow(attacker: Attacker) -> None:
    """400 clients, of 200 users, each time ask for something that a webhook takes a second to allow."""
    numbers = itertools.count()

    async def read(number: int) -> None:
        session = attacker.session(CROWD[number % len(CROWD)])
        while True:
            await session.ask("GET", f"{CONFIG_MAPS}/c{next(numbers)}")

    await attacker.at_once(attacker.times(400), read)
