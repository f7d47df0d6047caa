"""Servers with extensions: how they start, what they show, and what happens to workers."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from apiserver.extensions import Extension
from apiserver.testing import ApiServer, ServerDidNotStart
from tests.extensions.support import worker_of
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.metrics import metric
from tests.support.server_process import ServerProcess

MODULES: Final = "tests.extensions.modules"
ENDS: Final = "apiserver_extension_worker_ends_total"
FLAG: Final = f"--extension={MODULES}.hostile"


def test_a_server_is_ready_with_the_worker_of_its_extension(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, FLAG).start() as server, Api(server) as api:
        assert "[+]extension-hostile ok" in api.get("/readyz?verbose").body.decode()
        assert metric(api, ENDS, extension="hostile") == 0


REFUSED: Final = {
    "a module that raises": (["--extension=tests.extensions.modules.broken"], "RuntimeError: no license"),
    "a module that is missing": (["--extension=no.such.module"], "No module named 'no'"),
    "an object that is no extension": (
        ["--extension=tests.extensions.modules.hostile:loops"],
        "is not an Extension, but function",
    ),
    "a definition that is not JSON": (
        ["--extension=tests.extensions.modules.not_json"],
        "orders.shop cannot be written as JSON: Type is not JSON serializable: set",
    ),
    "one extension twice": ([FLAG, FLAG], "two extensions have the name hostile"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_whose_extension_cannot_be_loaded_does_not_start(tmp_path: Path, case: str) -> None:
    flags, reason = REFUSED[case]
    refusal = ServerProcess(tmp_path, *flags).refusal()
    assert refusal.code == 1
    assert reason in refusal.stderr


def test_health_checks_have_different_names(tmp_path: Path) -> None:
    shop = "from apiserver.extensions import Extension\napp = Extension({name!r})\n{function}"
    for name, function in {"shop": "@app.healthz()\ndef db(): ...", "shop-db": ""}.items():
        module = tmp_path / f"{name.replace('-', '_')}_extension.py"
        module.write_text(shop.format(name=name, function=function))
    refusal = ServerProcess(
        tmp_path / "data",
        "--extension=shop_extension",
        "--extension=shop_db_extension",
        module="apiserver",
        environment={"PYTHONPATH": str(tmp_path)},
    ).refusal()
    assert refusal.code == 1
    assert "two health checks have the name extension-shop-db" in refusal.stderr


ENTRY_POINTS: Final = """[apiserver.extensions]
own-red = red_extension:app
own-blue = blue_extension
"""


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ((), set()),
        (("--extension=own-red",), {"red"}),
        (("--extension=*",), {"red", "blue"}),
        (("--extension=own-blue", "--extension=*"), {"red", "blue"}),
    ],
)
def test_installed_extensions_run_only_if_a_flag_says_so(
    tmp_path: Path, flags: Sequence[str], found: set[str]
) -> None:
    for name in ("red", "blue"):
        code = f"from apiserver.extensions import Extension\napp = Extension({name!r})\n"
        (tmp_path / f"{name}_extension.py").write_text(code)
    metadata = tmp_path / "own-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    process = ServerProcess(
        tmp_path / "data", *flags, module="apiserver", environment={"PYTHONPATH": str(tmp_path)}
    )
    with process.start() as server, Api(server) as api:
        text = api.get("/readyz?verbose").body.decode()
    assert set(re.findall(r"extension-(red|blue)", text)) == found


def test_a_worker_that_is_killed_is_replaced_and_counted(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, FLAG).start() as server, Api(server) as api:
        os.kill(worker_of(server), signal.SIGKILL)
        until(lambda: metric(api, ENDS, extension="hostile") == 1)
        until(lambda: "[+]extension-hostile ok" in api.get("/readyz?verbose").body.decode())


def test_workers_end_with_their_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, FLAG).start() as server:
        worker = worker_of(server)
        server.kill()
        until(lambda: not _is_running(worker))


def test_tests_pass_extensions_as_objects_or_names() -> None:
    with ApiServer(extensions=[Extension("shop"), f"{MODULES}.hostile"]) as server:
        _, text = server.request("GET", "/readyz?verbose")
        assert "[+]extension-hostile ok" in text


def test_forks_and_reset_servers_have_the_extensions() -> None:
    app = Extension("shop")

    @app.mutate("configmaps", on="create")
    def price(config_map: dict[str, Any]) -> None:
        config_map["data"] = {"currency": "EUR"}

    with ApiServer(extensions=[app, f"{MODULES}.hostile"]) as server:
        with server.fork() as fork, fork.fork() as second:
            for each in (fork, second):
                assert "[+]extension-hostile ok" in each.request("GET", "/readyz?verbose")[1]
                assert _priced(each) == {"currency": "EUR"}
        server.reset(server.snapshot())
        assert _priced(server) == {"currency": "EUR"}


def _priced(server: ApiServer) -> Any:
    path = "/api/v1/namespaces/default/configmaps"
    _, created = server.request("POST", path, {"metadata": {"generateName": "a-"}})
    return created["data"]


def test_an_extension_as_an_object_needs_a_server_in_this_process() -> None:
    with pytest.raises(ValueError, match="extensions must be names"):
        ApiServer(extensions=[Extension("shop")], in_process=False)


def test_a_test_server_says_why_its_extension_cannot_be_loaded() -> None:
    with pytest.raises(ServerDidNotStart, match="no license"):
        ApiServer(extensions=[f"{MODULES}.broken"]).start()


def _is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
