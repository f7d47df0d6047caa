"""New code of an extension takes over while the server runs, and the old code stays if it cannot."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import psutil
import pytest

from apiserver.app.extensions import ExtensionFiles
from apiserver.extensions import Extension
from apiserver.extensions.host.runner import ExtensionInfo
from apiserver.extensions.host.worker_runner import WorkerRunner
from tests.extensions.support import worker_of, workers_of
from tests.support.api import Api
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import until
from tests.support.objects import config_map
from tests.support.server_process import ServerProcess

PATH: Final = "/api/v1/namespaces/default/configmaps"
HEAD: Final = """
from apiserver.extensions import Denied, Extension
app = Extension("own")
"""
USER: Final = """
@app.authenticate()
def user_of(token):
    return {user!r} if token == "t" else None
"""
FUNCTIONS: Final = """
@app.mutate("configmaps", where="object.metadata.name == 'new'")
def color(config_map):
    config_map["data"] = {"color": "red"}

@app.validate("configmaps", on="delete")
def keep(config_map):
    raise Denied("stays")

@app.healthz()
def shelf():
    pass

@app.authorize()
def stranger(attributes):
    return True if attributes.user.name == "jane" else None
"""
RED: Final = FUNCTIONS + USER.format(user="jane")
RECONCILE: Final = """
@app.reconcile("configmaps")
def place(config_map):
    pass
"""


class Code:
    """The code of an extension, and the server that runs it."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.path = directory / "modules" / "own_extension.py"
        self.path.parent.mkdir()
        self.server = ServerProcess(
            directory / "data",
            "--extension=own_extension",
            *flags,
            module="apiserver",
            environment={"PYTHONPATH": str(self.path.parent)},
        )

    def write(self, functions: str) -> None:
        self.path.write_text(HEAD + functions)


@pytest.fixture
def code(tmp_path: Path) -> Iterator[Code]:
    code = Code(tmp_path)
    code.write(USER.format(user="jane"))
    with code.server.start():
        yield code


def test_code_that_cannot_be_imported_changes_nothing(code: Code) -> None:
    with Api(code.server, "t") as api:
        worker = worker_of(code.server)
        assert user(api) == "jane"
        code.write("raise RuntimeError('a mistake')")
        until(lambda: "a mistake" in code.server.stderr)
        assert worker_of(code.server) == worker
        code.write(USER.format(user="somebody else"))
        until(lambda: user(api) == "somebody else")
        assert worker_of(code.server) != worker


def test_a_reload_adds_and_removes_functions(code: Code) -> None:
    with Api(code.server) as admin, Api(code.server, "t") as jane:
        assert jane.get(PATH).status == 403
        code.write(RED)
        until(lambda: "[+]extension-own-shelf ok" in admin.get("/readyz?verbose").body.decode())
        assert admin.post(PATH, config_map("new")).ok()["data"] == {"color": "red"}
        assert admin.delete(f"{PATH}/new").message.endswith("stays")
        assert jane.get(PATH).status == 200
        code.write("")
        until(lambda: "extension-own-shelf" not in admin.get("/readyz?verbose").body.decode())
        assert admin.delete(f"{PATH}/new").status == 200
        assert "data" not in admin.post(PATH, config_map("new")).ok()
        assert jane.get(PATH).status == 401


def test_a_reload_adds_changes_and_removes_metrics(code: Code) -> None:
    metric = "@app.metric('own_things', labels=[{label!r}])\ndef count():\n    return {{'a': {number}}}\n"
    with Api(code.server) as api:
        for label, number in {"color": 1, "size": 2}.items():
            code.write(USER.format(user="jane") + metric.format(label=label, number=number))
            line = f'\nown_things{{{label}="a"}} {number}\n'
            until(partial(_metrics, api), _has(line))
        code.write(USER.format(user="jane"))
        until(partial(_metrics, api), lambda text: "own_things" not in text)


def _metrics(api: Api) -> str:
    return api.get("/metrics").body.decode()


def _has(line: str) -> Callable[[str], bool]:
    return lambda text: line in text


# The new code, and what the server says about it.
REFUSED: Final = {
    "a reconciler": (
        RECONCILE,
        "keeping the previous configuration: the function place (reconcile) has changed: restart the server",
    ),
    "a condition that does not compile": (FUNCTIONS.replace("== 'new'", "=="), "Syntax error"),
    "a metric that the server has": (
        "@app.metric('apiserver_request_total')\ndef count():\n    return 1\n",
        "the server has a metric apiserver_request_total, too",
    ),
    "a check that has the name of another": (
        "app.healthz()(lambda: None)\napp.healthz()(lambda: None)\n",
        "several functions have the name <lambda>",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_server_logs_what_a_reload_cannot_change(code: Code, case: str) -> None:
    functions, line = REFUSED[case]
    with Api(code.server, "t") as api:
        worker = worker_of(code.server)
        code.write(functions)
        until(lambda: line in code.server.stderr)
        assert (user(api), worker_of(code.server)) == ("jane", worker)


def test_code_that_describes_itself_wrongly_changes_nothing(code: Code) -> None:
    """The server gets the description from another process, and does not rely on it."""
    hook = {
        "kind": "metric",
        "name": "count",
        "place": "own.py:1",
        "mode": "alone",
        "wants": [],
        "timeoutSeconds": 1,
        "onError": "fail",
        "inline": False,
        "options": {},
    }
    described = {"name": "own", "hooks": [hook], "definitions": [], "resources": []}
    with Api(code.server, "t") as api:
        worker = worker_of(code.server)
        code.write(f"app.describe = lambda: {described}")
        os.kill(code.server.pid, signal.SIGHUP)
        line = "extension own: keeping the previous code: its description is wrong: KeyError: 'metric'"
        until(lambda: line in code.server.stderr)
        assert user(api) == "jane"
        # The changed file may be tried once more.
        until(lambda: workers_of(code.server) == {worker})


def test_a_file_that_new_code_imports_is_watched(code: Code) -> None:
    imported = code.path.parent / "own_color.py"
    imported.write_text("COLOR = 'red'")
    code.write("from own_color import COLOR\n" + FUNCTIONS.replace('"red"', "COLOR"))
    with Api(code.server) as api:
        until(lambda: "[+]extension-own-shelf ok" in api.get("/readyz?verbose").body.decode())
        assert color_of_new(api) == "red"
        imported.write_text("COLOR = 'dark blue'")
        until(lambda: color_of_new(api) == "dark blue")


def test_a_file_that_changes_while_new_code_imports_it_is_imported_again(code: Code) -> None:
    imported = code.path.parent / "own_color.py"
    imported.write_text("COLOR = 'red'")
    saves = f"import pathlib; pathlib.Path({str(imported)!r}).write_text('COLOR = \"dark blue\"')\n"
    code.write("from own_color import COLOR\n" + saves + FUNCTIONS.replace('"red"', "COLOR"))
    with Api(code.server) as api:
        until(lambda: "[+]extension-own-shelf ok" in api.get("/readyz?verbose").body.decode())
        until(lambda: color_of_new(api) == "dark blue")


class Reloads:
    """Counts reloads, which import the files as they are.

    may_go: set to let them end. is_asked: set when a second one is asked for.
    """

    def __init__(self, file: Path) -> None:
        self.info, self.files = SimpleNamespace(name="own"), [file]
        self.count, self.imported_after_ns = 0, self._now_ns()
        self.may_go, self.is_asked, self._lock = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self.may_go.set()

    def _now_ns(self) -> int:
        """A time at which it is known that the file has not changed since."""
        return self.files[0].stat().st_mtime_ns + 1_000_000_000

    async def reload(self, is_needed: Callable[[], bool] = lambda: True) -> None:
        if self._lock.locked():
            self.is_asked.set()
        async with self._lock:
            if is_needed():
                self.count += 1
                self.imported_after_ns = self._now_ns()
                await self.may_go.wait()


async def test_a_hangup_signal_after_a_change_reloads_once(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("a")
    runner = Reloads(file)
    files = ExtensionFiles(cast(WorkerRunner, runner))

    async def hang_up() -> None:
        await runner.reload()
        files.imported()

    async def look() -> None:
        for _ in range(3):
            await files.watched.look()

    await look()
    assert runner.count == 0
    file.write_text("bb")
    await hang_up()
    await look()
    assert runner.count == 1, "nothing has changed since"
    file.write_text("ccc")
    runner.may_go.clear()
    reloading, looking = asyncio.create_task(hang_up()), asyncio.create_task(look())
    await runner.is_asked.wait()
    runner.may_go.set()
    await asyncio.gather(reloading, looking)
    assert runner.count == 2, "the change was noticed while the reload ran"
    file.write_text("dddd")
    await look()
    assert runner.count == 3, "nobody else has reloaded"


def test_a_hangup_signal_reloads(code: Code) -> None:
    """The function depends on a file that the server does not watch."""
    color = code.path.parent / "color.txt"
    color.write_text("red")
    code.write(f"COLOR = open({str(color)!r}).read()\n" + RED.replace('"red"', "COLOR"))
    with Api(code.server) as api:
        until(lambda: "[+]extension-own-shelf ok" in api.get("/readyz?verbose").body.decode())
        color.write_text("blue")
        os.kill(code.server.pid, signal.SIGHUP)
        until(lambda: color_of_new(api) == "blue")
        code.write("raise RuntimeError('a mistake')")
        os.kill(code.server.pid, signal.SIGHUP)
        until(lambda: "extension own: keeping the previous code: " in code.server.stderr)
        assert color_of_new(api) == "blue"


def test_a_reload_without_a_worker_says_whether_there_is_one_again(code: Code) -> None:
    with Api(code.server) as api:
        code.write("raise RuntimeError('a mistake')")
        until(lambda: "keeping the previous configuration: " in code.server.stderr)
        os.kill(worker_of(code.server), signal.SIGKILL)
        until(lambda: "extension own cannot be started again: " in code.server.stderr)
        os.kill(code.server.pid, signal.SIGHUP)
        line = "extension own: keeping the previous code: its worker cannot be started"
        until(lambda: line in code.server.stderr)
        assert "extension own: reloaded" not in code.server.stderr
        code.write(RED)
        until(lambda: "extension own: reloaded" in code.server.stderr)
        assert color_of_new(api) == "red"


INLINE: Final = """
import os

@app.mutate("configmaps", where="object.metadata.name == 'new'", inline={inline})
def color(config_map):
    config_map["data"] = {{"color": {color!r}, "pid": str(os.getpid())}}
"""
# Each goes to one of the workers, as the system decides.
CONNECTIONS: Final = 32


@pytest.mark.etcd
@pytest.mark.parametrize("inline", [False, True])
def test_all_workers_reload(tmp_path: Path, inline: bool) -> None:
    """When a file changes, and on SIGHUP; and all keep the old code if the new code cannot be imported."""
    with wheel_etcd(tmp_path) as etcd:
        code = Code(tmp_path, f"--etcd-servers={etcd.url}", "--workers=2")
        code.write(INLINE.format(inline=inline, color="red"))
        with code.server.start() as server:
            servers = {each.pid for each in psutil.Process(server.pid).children()}
            [colors, pids] = seen(server)
            assert (colors, len(pids), pids <= servers) == ({"red"}, 2, inline)
            code.write(INLINE.format(inline=inline, color="blue"))
            until(lambda: seen(server)[0] == {"blue"})
            assert seen(server)[1] == workers_of(server), "new code does not run inline"
            code.write("raise RuntimeError('a mistake')")
            os.kill(server.pid, signal.SIGHUP)
            keeps = "extension own: keeping the previous code: "
            until(lambda: server.stderr.count(keeps) >= 2)
            assert seen(server)[0] == {"blue"}
            code.write(INLINE.format(inline=inline, color="green"))
            os.kill(server.pid, signal.SIGHUP)
            until(lambda: seen(server)[0] == {"green"})


def seen(server: ServerProcess) -> tuple[set[str], set[int]]:
    """Returns the colors that the workers give new objects, and the processes in which the function ran."""
    colors, pids = set(), set()
    for _ in range(CONNECTIONS):
        with Api(server) as api:
            data = api.post(f"{PATH}?dryRun=All", config_map("new")).ok()["data"]
        colors.add(data["color"])
        pids.add(int(data["pid"]))
    return colors, pids


def color_of_new(api: Api) -> str:
    color: str = api.post(f"{PATH}?dryRun=All", config_map("new")).ok()["data"]["color"]
    return color


def user(api: Api) -> str:
    review = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).ok()
    name: str = review["status"]["userInfo"]["username"]
    return name


# ---- old and new functions


def info_of(*functions: Callable[[Extension], Any], name: str = "shop") -> ExtensionInfo:
    app = Extension(name)
    for each in functions:
        each(app)
    return ExtensionInfo.of(app.describe())


def named(name: str, kind: str = "mutate", resource: str = "pods") -> Callable[[Extension], Any]:
    def function(pod: Any) -> None: ...

    function.__name__ = name
    return lambda app: getattr(app, kind)(resource)(function)


OLD: Final = info_of(named("a"), named("b"), named("b", resource="nodes"), named("r", "reconcile"))


def test_functions_are_found_again_by_kind_name_and_order() -> None:
    new = info_of(named("b", "validate"), named("r", "reconcile"), named("b"), named("c"))
    found = [new.counterpart(OLD, each) for each in OLD.hooks]
    assert [None if each is None else each.number for each in found] == [None, 2, None, 1]
    assert [each and new.place_of(each) for each in found] == [None, OLD.place_of(OLD.hooks[1]), None, 0]
    assert [*map(OLD.place_of, OLD.hooks)] == [0, 0, 1, 0]


FIXED: Final = {
    "functions of other kinds": (info_of(named("r", "reconcile"), named("c", "validate")), []),
    "a name": (info_of(named("r", "reconcile"), name="other"), ["the name shop"]),
    "a reconciler that is gone": (info_of(named("a")), ["the function r (reconcile)"]),
    "a reconciler of another resource": (
        info_of(named("r", "reconcile", "nodes")),
        ["the function r (reconcile)"],
    ),
    "a definition": (
        info_of(
            named("r", "reconcile"),
            lambda app: app.crd({"kind": "CustomResourceDefinition", "metadata": {"name": "orders.shop"}}),
        ),
        ["the definition orders.shop"],
    ),
}


@pytest.mark.parametrize("case", FIXED)
def test_what_needs_a_restart_has_a_name(case: str) -> None:
    new, expected = FIXED[case]
    assert new.fixed_changes(OLD) == expected
