"""Functions that loop, crash or ask for too much decide nothing but their own write, and that in time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psutil
import pytest

from tests.extensions.modules.hostile_admission import ON_ERROR, SAYS, TIMEOUT_S, VALIDATING, extensions
from tests.support.api import Answer, Api
from tests.support.eventually import until
from tests.support.objects import config_map
from tests.support.processor import slowness
from tests.support.server_process import ServerProcess

PATH = "/api/v1/namespaces/default/configmaps"
# A write is decided within this time after that of the function, where the machine has nothing else to do.
GRACE_S = 0.05
ATTEMPTS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    module = "tests.extensions.modules.hostile_admission"
    flags = [f"--extension={module}:{name}" for name in extensions]
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", *flags) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


@pytest.mark.parametrize("function", SAYS)
def test_a_write_fails_and_says_which_function_it_was(api: Api, server: ServerProcess, function: str) -> None:
    name = f"fail-{function.replace('_', '-')}"
    answer = _post(api, name)
    assert (answer.status, answer.reason) == (500, "InternalError")
    prefix = f'Internal error occurred: extension "{name}": {function} (hostile.py:'
    assert answer.message.startswith(prefix)
    assert re.search(SAYS[function], answer.message)
    assert api.get(f"{PATH}/{name}").status == 404
    assert psutil.Process(server.pid).is_running()


@pytest.mark.parametrize("function", SAYS)
def test_a_write_that_ignores_failures_stores_exactly_what_was_sent(
    api: Api, server: ServerProcess, function: str
) -> None:
    name = f"ignore-{function.replace('_', '-')}"
    # No function is called for this one.
    other = api.post(f"{PATH}?dryRun=All", config_map("other", a="b")).ok()
    assert _without_identity(_post(api, name).ok()) == _without_identity(other)
    api.delete(f"{PATH}/{name}").ok()
    assert psutil.Process(server.pid).is_running()


TIMED: Final = [("", function) for function in SAYS] + [("validate-", function) for function in VALIDATING]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("on_error", ON_ERROR)
@pytest.mark.parametrize(("prefix", "function"), TIMED, ids=map("".join, TIMED))
def test_a_write_is_decided_in_time(api: Api, prefix: str, function: str, on_error: str) -> None:
    """Other work on the machine may delay an answer, as it delays another write that begins when the time of
    the function is over: one of some attempts must be in time.
    """
    name = f"{prefix}{on_error}-{function.replace('_', '-')}"
    with Api(api.server) as other, ThreadPoolExecutor(1) as threads:
        for _ in range(ATTEMPTS):
            began = time.monotonic()
            control = threads.submit(_write_after_the_timeout, other)
            answer = api.post(f"{PATH}?dryRun=All", config_map(name, a="b"))
            answered = time.monotonic()
            assert answer.status == (500 if on_error == "fail" else 201)
            _await_worker(api, name)
            if answered < control.result() + GRACE_S * slowness():
                return
    pytest.fail(f"each of {ATTEMPTS} answers came late, the last one after {answered - began:.2f} s")


def _without_identity(created: dict[str, Any]) -> dict[str, Any]:
    """Returns an object without what differs between two objects with the same contents."""
    meta = dict(created["metadata"])
    for field in ("name", "uid", "resourceVersion", "creationTimestamp"):
        meta.pop(field, None)
    meta["managedFields"] = [{**each, "time": ""} for each in meta["managedFields"]]
    return {**created, "metadata": meta}


def _post(api: Api, name: str) -> Answer:
    """Create a ConfigMap, and wait until the worker runs again."""
    answer = api.post(PATH, config_map(name, a="b"))
    _await_worker(api, name)
    return answer


def _await_worker(api: Api, name: str) -> None:
    until(lambda: f"[+]extension-{name} ok" in api.get("/readyz?verbose").body.decode())


def _write_after_the_timeout(api: Api) -> float:
    """Returns when a write is answered that begins after the time that a function has."""
    time.sleep(TIMEOUT_S)
    assert api.post(f"{PATH}?dryRun=All", config_map("other")).status == 201
    return time.monotonic()
