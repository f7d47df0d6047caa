"""Rules of custom resources that take long are evaluated in a thread. Rows R33, R34."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import Any, Final

import pytest

from apiserver.custom_resources.serving.strategies import CustomResourceStrategies
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass, TakesLong
from apiserver.registry.strategy import Strategy
from tests.unit.custom_resources.rules.schemas import INT, Schema, array_of, object_of, ruled
from tests.unit.custom_resources.serving.version_schemas import version_schema

CHEAP: Final = ruled(array_of(INT), "self.all(x, x > 0)")
EXPENSIVE: Final = array_of(ruled(array_of(INT), "self.all(x, self.all(y, x <= y || y <= x))"))


def strategy(spec: Schema) -> Strategy:
    schema = version_schema(object_of(spec=spec))
    return CustomResourceStrategies(schema, has_status=False, scale=None).of_resource(is_costly=False)


def document(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


async def longest_wait_s(work: asyncio.Task[Any]) -> float:
    """The most processor time that the event loop's thread used at once while `work` was done."""
    longest, last = 0.0, time.thread_time()
    while not work.done():
        await asyncio.sleep(0.001)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return longest


async def test_rules_that_take_long_are_evaluated_in_the_thread() -> None:
    new = document([list(range(250))] * 30)
    evaluate = strategy(EXPENSIVE).expressions
    assert evaluate is not None
    started = time.process_time()
    bounded = Offload().run_bounded(SizeClass.SMALL, lambda is_bounded: evaluate(new, None, (), is_bounded))
    work = asyncio.create_task(bounded)
    waited_s = await longest_wait_s(work)
    assert "running out of cost budget" in work.result().errors[-1].message
    assert waited_s < (time.process_time() - started) / 3


async def test_an_update_is_validated_the_same_in_the_thread() -> None:
    new, old = document([list(range(250)), [1]]), document([[1]])
    evaluate = strategy(array_of(ruled(array_of(INT), "self.all(x, self.all(y, x == y))"))).update.expressions
    assert evaluate is not None
    found = await Offload().run_bounded(
        SizeClass.SMALL, lambda is_bounded: evaluate(new, old, (), is_bounded)
    )
    assert [str(error) for error in found.errors] == [
        "spec[0]: Invalid value: failed rule: self.all(x, self.all(y, x == y))"
    ]


@pytest.mark.parametrize(
    ("spec", "takes_long"), [(CHEAP, False), (EXPENSIVE, True)], ids=["cheap rules", "expensive rules"]
)
def test_bounded_evaluation_raises_if_it_takes_long(spec: Schema, takes_long: bool) -> None:
    evaluate, new = strategy(spec).expressions, document([0] if spec is CHEAP else [list(range(250))] * 30)
    assert evaluate is not None
    if takes_long:
        with pytest.raises(TakesLong):
            evaluate(new, None, (), True)
    else:
        assert len(evaluate(new, None, (), True).errors) == 1
    assert evaluate(new, None, (), False).errors


REFUSED: Final = 100_000
BLOCKS_MAX: Final = 1_000


def test_refused_updates_leave_nothing_in_memory() -> None:
    """Warnings are of rules that an update leaves broken as they were; a refused one keeps none of them."""
    spec = object_of(stale=ruled(INT, "self > 0"), fresh=INT)
    update = strategy(spec).update
    assert update.expressions is not None
    old = document({"stale": 0, "fresh": 1})

    def refuse() -> None:
        new = document({"stale": 0, "fresh": 2})
        assert update.expressions is not None
        findings = update.expressions(new, old, (), True)
        assert not findings.errors
        assert len(findings.warnings) == 1

    for _ in range(1_000):
        refuse()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(REFUSED):
        refuse()
    gc.collect()
    assert sys.getallocatedblocks() - before < BLOCKS_MAX
