"""The files of the console over HTTP: for everybody, compressed, revalidated, and with their policy."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.command_line import parse
from apiserver.console.joined_modules import JOINED, JoinedModules
from apiserver.console.static_files import FIRST_MODULES, LIBRARIES, StaticFiles
from tests.support.api import Api
from tests.support.server_process import ServerProcess

PAGES: Final = Path(str(files("apiserver.console"))) / "pages"
SERVED: Final = sorted(
    str(path.relative_to(PAGES))
    for path in PAGES.rglob("*")
    if path.suffix in (".css", ".html", ".js", ".svg", ".txt")
)
IMPORT: Final = re.compile(r'^(?:import|export)[^;]*? from "(.*?)";', re.MULTILINE)


def imported(name: str) -> set[str]:
    """A module, and all that it imports."""
    found = {name}
    for target in IMPORT.findall((PAGES / name).read_text()):
        path = os.path.normpath(os.path.join(os.path.dirname(name), target))
        found |= {path} if path.startswith("vendor") else imported(path)
    return found


JOINED_MODULES: Final = JoinedModules(FIRST_MODULES, lambda name: (PAGES / name).read_text())


def sent(name: str) -> bytes:
    """A file as it is sent."""
    if name == JOINED:
        return JOINED_MODULES.text.encode()
    content = (PAGES / name).read_bytes()
    is_linked = name.endswith(".js") and not name.startswith(LIBRARIES) and name not in JOINED_MODULES
    return JOINED_MODULES.linked(name, content.decode()).encode() if is_linked else content


INDEX: Final = (PAGES / "index.html").read_text()
# The modules of the first view of all types, which are one file, and all files that it loads.
MODULES: Final = imported("main.js") | imported("views/types.js")
FIRST_VIEW: Final = {"index.html", "console.css", "icon.svg", JOINED}
FIRST_VIEW_BYTES_MAX, ALL_BYTES_MAX = 60 * 1024, 250 * 1024


@pytest.fixture(scope="module")
def anybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A client without credentials, of a server that lets nobody in without them."""
    directory = tmp_path_factory.mktemp("static") / "data"
    with ServerProcess(directory, "--anonymous-auth=false") as process, Api(process, "") as api:
        yield api


@pytest.mark.parametrize("name", ["", JOINED, *SERVED])
def test_each_file_is_for_everybody(anybody: Api, name: str) -> None:
    content = sent(name or "index.html")
    answer = anybody.get(f"/console/{name}", headers={"Accept-Encoding": "gzip, br"})
    assert answer.status == 200
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body) == content
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} <= set(
        policy
    )
    assert not any("unsafe" in each or "http" in each or "*" in each for each in policy)
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = anybody.get(
        f"/console/{name}", headers={"If-None-Match": answer.headers["etag"], "Accept-Encoding": "gzip"}
    )
    assert (again.status, again.body) == (304, b"")
    plain = anybody.get(f"/console/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert plain.status == 200
    assert plain.body == content


def test_the_modules_of_the_first_view_are_one_file() -> None:
    assert re.findall(r'(?:href|src)="(.*?\.(?:js|css))"', INDEX) == ["console.css", JOINED]
    assert {name for name in SERVED if name in JOINED_MODULES} == MODULES


def test_a_visit_is_small(anybody: Api) -> None:
    sizes = {
        name: len(anybody.get(f"/console/{name}", headers={"Accept-Encoding": "gzip"}).body)
        for name in [JOINED, *SERVED]
        if name not in JOINED_MODULES
    }
    assert sum(sizes[name] for name in FIRST_VIEW) <= FIRST_VIEW_BYTES_MAX
    assert sum(sizes.values()) <= ALL_BYTES_MAX


@pytest.mark.parametrize(
    "path",
    [
        "/console/../apiserver/__init__.py",
        "/console/%2e%2e/static_files.py",
        "/console/..%2fstatic_files.py",
        "/console/views/",
        "/console/views",
        "/console//index.html",
        "/console/index.html%00",
        "/console/README.md",
        "/console/" + "a" * 5_000,
    ],
)
def test_nothing_else_is_a_file(anybody: Api, path: str) -> None:
    assert anybody.get(path).status in (401, 404)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_files_are_only_read(anybody: Api, method: str) -> None:
    assert anybody.send(method, "/console/main.js").status == 405


def test_head_and_the_path_without_a_slash(anybody: Api) -> None:
    head = anybody.send("HEAD", "/console/")
    assert (head.status, head.body) == (200, b"")
    moved = anybody.get("/console")
    assert (moved.status, moved.headers["location"]) == (301, "/console/")


async def test_each_file_is_read_once(tmp_path: Path) -> None:
    """So what anybody may ask for costs little, however often they do."""
    (tmp_path / "a.css").write_text("1")
    found = StaticFiles(tmp_path)
    first = await asyncio.gather(*(found.content("a.css", True) for _ in range(10)))
    (tmp_path / "a.css").unlink()
    assert {*first, await found.content("a.css", True)} == {first[0]}


@pytest.mark.parametrize(
    ("flags", "is_served"),
    {
        "by default": ((), True),
        "off": (("--console=false",), False),
        "with etcd": (("--etcd-servers=http://127.0.0.1:1",), False),
        "with etcd, asked for": (("--etcd-servers=http://127.0.0.1:1", "--console"), True),
    }.values(),
)
def test_who_has_a_console(flags: tuple[str, ...], is_served: bool) -> None:
    assert parse(flags).has_console == is_served


def test_a_server_without_a_console(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--console=false") as server, Api(server) as api:
        assert api.get("/console/").status == 404
        with api.as_caller("") as anybody:
            assert anybody.get("/console/").status == 403
