"""Definitions of custom resources: schemas, rules, patterns, conversions and what remains of them."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.hostile.attack import Attacker, Session, Stage, attack
from tests.hostile.site import ADMIN, ATTACKED, DEFINER, DEFINITIONS, GROUP, NOBODY
from tests.support.conversion_webhook import ConversionWebhook
from tests.support.definitions import definition, version
from tests.support.webhook_server import Review

CHURNED: Final = 2_200
LIVE: Final = 1_000
WEBHOOK_BYTES: Final = 15_000_000


def _definition(plural: str, schema: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    versions = [version(schema=schema)] if schema is not None else []
    return definition(GROUP, *versions, plural=plural, kind=plural.capitalize(), **spec)


def _spec(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


def objects(plural: str, served: str = "v1") -> str:
    return f"/apis/{GROUP}/{served}/namespaces/{ATTACKED}/{plural}"


async def _until_served(stage: Stage, plural: str) -> None:
    async with stage.admin() as session:
        while (await session.ask("GET", objects(plural)))[0] != 200:
            await asyncio.sleep(0.05)


# ---- that come


async def _define_again_and_again(attacker: Attacker, schema: Mapping[str, Any]) -> None:
    """Make definitions with this schema, each under a name of its own, and delete them."""
    numbers = itertools.count()

    async def make(session: Session) -> None:
        document = _definition(f"d{next(numbers)}s", schema)
        status, _ = await session.ask("POST", DEFINITIONS, document)
        if status == 201:
            await session.ask("DELETE", f"{DEFINITIONS}/{document['metadata']['name']}")

    await attacker.forever(attacker.times(2), DEFINER, make)


@attack("5 turns of the loop")
async def wide_schemas(attacker: Attacker) -> None:
    """Definitions with schemas of 10,000 objects come and go."""
    properties = {f"p{n}": {"type": "object", "properties": {"a": {"type": "string"}}} for n in range(10_000)}
    await _define_again_and_again(attacker, _spec({"type": "object", "properties": properties}))


@attack("5 turns of the loop")
async def deep_schemas(attacker: Attacker) -> None:
    """Definitions with schemas of 90 levels, arrays and objects in turns, come and go."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(45):
        schema = {"type": "array", "items": {"type": "object", "properties": {"a": schema}}}
    await _define_again_and_again(attacker, _spec(schema))


@attack("5 turns of the loop")
async def expensive_rules(attacker: Attacker) -> None:
    """Definitions with 500 rules of nested loops, whose cost is estimated, come and go."""
    items = {"type": "array", "items": {"type": "string"}, "maxItems": 100}
    loops = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.exists(d, a + b + c == d))))"
    rules = [{"rule": f"{loops} || {n} == 0"} for n in range(500)]
    schema = {"type": "object", "properties": {"l": items}, "x-kubernetes-validations": rules}
    await _define_again_and_again(attacker, _spec(schema))


@attack("5 turns of the loop")
async def long_rules(attacker: Attacker) -> None:
    """Definitions with rules of 45 KB, a sum of numbers and a nest of parentheses, come and go."""
    rules = [{"rule": "+".join(["1"] * 22_000) + " > 0"}, {"rule": "(" * 22_000 + "true" + ")" * 22_000}]
    await _define_again_and_again(attacker, _spec({"type": "object", "x-kubernetes-validations": rules}))


async def _with_rules(stage: Stage) -> None:
    """Define a type whose rules cost as much as any may, and whose patterns take time where they can."""
    spec = {
        "type": "object",
        "properties": {
            "compared": {"type": "array", "maxItems": 500, "items": {"type": "string", "maxLength": 60}},
            "matched": {"type": "string", "maxLength": 100_000, "pattern": "^((a|b)*c?){1,50}$"},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.compared) || self.compared.all(a, self.compared.exists_one(b, a == b))"}
        ],
    }
    await stage.make((DEFINITIONS, _definition("rules", _spec(spec))))
    await _until_served(stage, "rules")


@attack("5 turns of the loop", prepare=_with_rules)
async def objects_with_expensive_rules(attacker: Attacker) -> None:
    """Four objects at a time for which a rule compares 500 texts with each other."""
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Rules",
        "metadata": {"name": "a"},
        "spec": {"compared": ["a" * 40 + str(n) for n in range(500)]},
    }
    await attacker.forever(
        attacker.times(4), DEFINER, lambda session: session.ask("POST", objects("rules"), body)
    )


@attack("5 turns of the loop", prepare=_with_rules)
async def texts_for_patterns(attacker: Attacker) -> None:
    """Four objects at a time with a text of 100,000 letters, for a pattern that backtracks where it can."""
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Rules",
        "metadata": {"name": "a"},
        "spec": {"matched": "ab" * 49_999 + "!"},
    }
    await attacker.forever(
        attacker.times(4), DEFINER, lambda session: session.ask("POST", objects("rules"), body)
    )


# ---- that go


async def _churned(stage: Stage) -> None:
    """Make definitions and delete them, so that only the metrics may remember."""
    numbers = iter(range(stage.times(CHURNED)))

    async def churn() -> None:
        async with stage.admin() as session:
            for number in numbers:
                document = _definition(f"c{number}s")
                await session.ask("POST", DEFINITIONS, document)
                await session.ask("GET", objects(f"c{number}s"))
                await session.ask("DELETE", f"{DEFINITIONS}/{document['metadata']['name']}")

    await asyncio.gather(*(churn() for _ in range(4)))


async def _scrape(attacker: Attacker) -> None:
    async def scrape(session: Session) -> None:
        await session.ask("GET", "/metrics")
        await asyncio.sleep(0.1)

    await attacker.forever(1, ADMIN, scrape)


@attack("11 metrics", prepare=_churned)
async def metrics_of_gone_definitions(attacker: Attacker) -> None:
    """2,200 definitions have come and gone, and the metrics are asked for ten times a second."""
    await _scrape(attacker)


async def _live(stage: Stage) -> None:
    await stage.make_many((DEFINITIONS, _definition(f"c{n}s")) for n in range(stage.times(LIVE)))
    await _until_served(stage, f"c{stage.times(LIVE) - 1}s")


@attack("11 metrics", prepare=_live)
async def metrics_of_live_definitions(attacker: Attacker) -> None:
    """1,000 definitions are served, and the metrics are asked for ten times a second."""
    await _scrape(attacker)


@attack("5 turns of the loop", prepare=_live)
async def openapi_after_each_change(attacker: Attacker) -> None:
    """1,000 definitions are served, one changes all the time, and 20 clients ask for all of OpenAPI."""
    numbers = itertools.count()

    async def change(session: Session) -> None:
        patch = {"spec": {"names": {"shortNames": [f"s{next(numbers)}"]}}}
        await session.ask("PATCH", f"{DEFINITIONS}/c0s.{GROUP}", patch, type="application/merge-patch+json")
        await asyncio.sleep(0.05)

    async def ask(session: Session) -> None:
        for path in ("/openapi/v2", "/openapi/v3", f"/openapi/v3/apis/{GROUP}/v1", "/apis"):
            await session.ask("GET", path)

    async with asyncio.TaskGroup() as group:
        group.create_task(attacker.forever(1, DEFINER, change))
        group.create_task(attacker.forever(attacker.times(20), NOBODY, ask))


# ---- that are converted


async def _converted(stage: Stage) -> None:
    """Define a type whose webhook answers with 15 MB, and make an object of it."""

    async def too_much(review: Review) -> bytes:
        return b'{"kind":"ConversionReview","x":[' + b"{}," * (WEBHOOK_BYTES // 3) + b"{}]}"

    directory = stage.stack.enter_context(tempfile.TemporaryDirectory())
    webhook = stage.stack.enter_context(ConversionWebhook(Path(directory)))
    webhook.converting = too_much
    document = definition(
        GROUP,
        version("v1"),
        version("v2", storage=False),
        plural="converted",
        kind="Converted",
        conversion=webhook.conversion(),
    )
    await stage.make((DEFINITIONS, document))
    await _until_served(stage, "converted")
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Converted", "metadata": {"name": "a"}}
    await stage.make((objects("converted"), body))


@attack("6 interpreter's lock", prepare=_converted)
async def large_responses_of_webhooks(attacker: Attacker) -> None:
    """Four clients ask for an object that a webhook converts, which answers with 15 MB."""
    path = f"{objects('converted', 'v2')}/a"
    await attacker.forever(attacker.times(4), DEFINER, lambda session: session.ask("GET", path))
