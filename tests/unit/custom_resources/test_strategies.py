"""Rules of custom resources that take long: others need not wait for them. Rows R33, R34."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import pytest

from apiserver.apiextensions.schema_rules.validator import Rules
from apiserver.custom_resources.strategies import CustomResourceStrategies
from apiserver.registry import offload
from apiserver.registry.strategy import Strategy, TakesLong, others_wait
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.custom import CustomSchema
from tests.unit.apiextensions.schema_rules.schemas import INT, Schema, array_of, object_of, ruled

META: Final = BuiltinSchemas((1, 34)).get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
EASY: Final = ruled(array_of(INT), "self.all(x, x > 0)")
DEAR: Final = array_of(ruled(array_of(INT), "self.all(x, self.all(y, x <= y || y <= x))"))


def strategy(spec: Schema) -> Strategy:
    schema = object_of(spec=spec)
    custom = CustomSchema(schema, vendor="kubernetes", meta=META)
    rules = Rules(schema, vendor="kubernetes")
    made = CustomResourceStrategies(lambda: custom, lambda: rules, has_status=False, scale=None)
    return made.strategy(takes_long=False)


def document(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


async def longest_wait_s(work: asyncio.Task[Any]) -> float:
    """The longest time, of this process, that others had to wait for their turn while `work` was done."""
    longest, last = 0.0, time.process_time()
    while not work.done():
        await asyncio.sleep(0.001)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return longest


async def test_rules_that_take_long_are_evaluated_in_the_thread() -> None:
    new = document([list(range(250))] * 30)
    started = time.process_time()
    work = asyncio.create_task(offload.run(False, strategy(DEAR).validate_create, new))
    waited_s = await longest_wait_s(work)
    errors = work.result()
    assert "running out of cost budget" in errors[-1].message
    assert waited_s < (time.process_time() - started) / 3


async def test_an_update_is_validated_the_same_in_the_thread() -> None:
    new, old = document([list(range(250)), [1]]), document([[1]])
    validate = strategy(array_of(ruled(array_of(INT), "self.all(x, self.all(y, x == y))"))).update.validate
    assert [str(error) for error in await offload.run(False, validate, new, old)] == [
        "spec[0]: Invalid value: failed rule: self.all(x, self.all(y, x == y))"
    ]


@pytest.mark.parametrize(("spec", "takes_long"), [(EASY, False), (DEAR, True)])
def test_bounded_evaluation_raises_if_it_takes_long(spec: Schema, takes_long: bool) -> None:
    validate, new = strategy(spec).validate_create, document([0] if spec is EASY else [list(range(250))] * 30)
    before = others_wait.set(True)
    try:
        if takes_long:
            with pytest.raises(TakesLong):
                validate(new)
        else:
            assert len(validate(new)) == 1
    finally:
        others_wait.reset(before)
    assert validate(new)
