"""A shared server, and a namespace on it for each test."""

from __future__ import annotations

import gc
import itertools
import logging
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from apiserver.app.serving import logs
from tests.support.api import Api
from tests.support.logged_secrets import ALL_SERVERS
from tests.support.objects import config_maps
from tests.support.server_process import ServerProcess
from tests.support.slow_modules import slow_modules
from tests.support.test_order import longest_first

_numbers: Final = itertools.count(1)

# A shell without job control ignores SIGINT in what it runs in the background, and so would each program that
# tests start: programs inherit that, but not a handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same in each run, so that a failure tells of what was changed, not of luck. `make fuzz` and
# ARGS="--hypothesis-profile=search" look for new ones. Other processes use the machine, too: how long one
# example takes, to run or to draw, says nothing.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same examples", settings.get_profile("search"), derandomize=True)
settings.load_profile("same examples")

# The poller of `grpc.aio` is the process's, and logs during a later test that the loop of an earlier one is
# closed.
logging.getLogger("asyncio").addFilter(lambda record: "PollerCompletionQueue" not in record.getMessage())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collects no garbage where there is none, nor looks for it in 17,000 tests all the time later."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@cache
def _slow_modules() -> frozenset[Path]:
    return slow_modules(Path(__file__).parent)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Imports no modules without slow tests where only slow ones are asked for."""
    if not config.option.markexpr.startswith("slow") or collection_path.suffix != ".py":
        return None
    return collection_path not in _slow_modules() or None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """The longest tests begin first: what begins last is waited for by the workers that are done."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    assert slow <= _slow_modules(), f"`make slow` would not find the tests of {slow - _slow_modules()}"
    alone = {item.nodeid for item in items if item.get_closest_marker("alone") is not None}
    alone -= {item.nodeid for item in items if item.get_closest_marker("slow") is not None}
    assert not alone, f"`make slow` runs what runs alone, so these need the mark `slow`, too: {alone}"
    yield
    longest = [item for item in items if item.get_closest_marker("longest") is not None]
    others = [item for item in items if item.get_closest_marker("longest") is None]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = longest_first(longest, others, workers)


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_logged() -> Iterator[None]:
    """Fails at the end, when all servers of this process have ended, if one has written a secret."""
    yield
    assert ALL_SERVERS.found == []


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Logging is the process's; each test leaves it as it found it, also one that runs a command."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in (logs.REQUESTS, *logs.LIBRARIES)}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on an embedded store, shared by the tests of one process. Tests must not stop it."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    """A client of the shared server, or of that of the module, with the administrator's token."""
    with Api(server) as api:
        yield api


@pytest.fixture
def namespace(api: Api) -> str:
    """A new namespace. It is not deleted: the server's data is."""
    name = f"test-{next(_numbers)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    return name


@pytest.fixture
def configmaps(namespace: str) -> str:
    """The path of the ConfigMaps of a new namespace."""
    return config_maps(namespace)
