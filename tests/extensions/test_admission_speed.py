"""What functions of extensions add to a write."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, Final, cast

import orjson
import pytest

from apiserver.admission.chain import AdmissionAttributes, AdmissionChain, Operation, ReinvocationContext
from apiserver.admission.extensions.plugins import (
    ExtensionDependencies,
    ExtensionPlugin,
    MutatingExtension,
    ValidatingExtension,
)
from apiserver.admission.listers import Lister
from apiserver.admission.reviewed_write import EquivalentResources
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.extensions.host.hooks import ExtensionHooks
from apiserver.extensions.host.worker_runner import WorkerRunner
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.extensions import ExtensionMetrics
from apiserver.registry.served_resource import ServedTable
from tests.support.garbage import no_collections
from tests.support.in_process import TABLE, resource
from tests.support.processor import slowness

CONFIG_MAPS: Final = resource("configmaps", "")
CALLS: Final = 2_000
ATTEMPTS: Final = 5
# By the extension, what its function adds to a write, in microseconds.
BOUNDS_US: Final = {"inline": 20, "process": 250}
# How many Python functions are called for an inline function, with the function and the admission chain.
INLINE_CALLS_MAX: Final = 14


@pytest.mark.parametrize("extension", ["inline", "validating"])
async def test_an_inline_function_takes_few_python_calls_of_a_write(extension: str) -> None:
    async with _plugin(extension) as (plugin, offload):
        attributes, new = _attributes(offload), _config_map()
        chains = AdmissionChain([]), AdmissionChain([plugin])
        for chain in chains:  # They find their plugins once.
            await _admit(chain, attributes, new)
        without, ours = [await _python_calls(chain, attributes, new) for chain in chains]
    assert new == _config_map()
    assert ours - without <= INLINE_CALLS_MAX


async def _python_calls(chain: AdmissionChain, attributes: AdmissionAttributes, new: dict[str, Any]) -> int:
    calls = 0

    def note(_: FrameType, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        await _admit(chain, attributes, new)
    finally:
        sys.setprofile(None)
    return calls


async def _admit(chain: AdmissionChain, attributes: AdmissionAttributes, new: dict[str, Any]) -> None:
    """Run both steps of admission, as a write does."""
    plugins = chain.admission_for(attributes)
    await plugins.mutate(new, None)
    await plugins.validate(new, None)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("extension", BOUNDS_US)
async def test_what_a_function_that_does_nothing_adds_to_a_write(extension: str) -> None:
    async with _plugin(extension) as (plugin, offload):
        # Other work on the machine makes a call slower, never faster.
        found_us = min([await _median_us(plugin, offload) / slowness() for _ in range(ATTEMPTS)])
    assert found_us < BOUNDS_US[extension]


@asynccontextmanager
async def _plugin(extension: str) -> AsyncIterator[tuple[ExtensionPlugin, Offload]]:
    """The plugin that calls the function of an extension, and what runs its work."""
    offload = Offload()
    runner = WorkerRunner(f"tests.extensions.modules.nothing:{extension}", lambda _: {}, lambda *_: None)
    await runner.start()
    try:
        hooks = ExtensionHooks(ExtensionMetrics())
        hooks.runners.append(runner)
        plugin = ValidatingExtension if extension == "validating" else MutatingExtension
        yield plugin(_dependencies(hooks)), offload
    finally:
        await runner.close()
        offload.close()


def _attributes(offload: Offload) -> AdmissionAttributes:
    return AdmissionAttributes(Operation.CREATE, CONFIG_MAPS, "default", "a", UserInfo("jane"), offload)


async def _median_us(plugin: ExtensionPlugin, offload: Offload) -> float:
    new, attributes = _config_map(), _attributes(offload)
    took = []
    with no_collections():
        for _ in range(CALLS):
            began = time.perf_counter()
            await plugin.mutate(attributes._replace(rounds=ReinvocationContext()), new, None)
            took.append(time.perf_counter() - began)
    assert new == _config_map()
    return 1e6 * statistics.median(took)


def _config_map() -> dict[str, Any]:
    """A ConfigMap of 1 KB."""
    data = {f"key-{number}": "x" * 40 for number in range(16)}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    assert 800 < len(orjson.dumps(document)) < 1_200
    return document


def _dependencies(hooks: ExtensionHooks) -> ExtensionDependencies:
    served = ServedTable(TABLE)
    return ExtensionDependencies(
        hooks, served, EquivalentResources(served), cast(Lister, None), AuthorizationChain([]), Brand()
    )
