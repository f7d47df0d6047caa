"""`apiserver console`: opens the console, logged in as the user of a kubeconfig."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from apiserver.cli import console
from apiserver.cli.api_client import RequestFailed
from apiserver.cli.server_options import ServerOptions
from tests.server.test_console_login import log_in
from tests.support.api import Api
from tests.support.server_process import ServerProcess


def options(server: ServerProcess, token: str = "") -> ServerOptions:
    return ServerOptions(server.kubeconfig, token=token)


def user_of_link(server: ServerProcess, url: str) -> str:
    """Returns the user that a page at a URL is logged in as."""
    parts = urlsplit(url)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{server.url}/console/"
    with Api(server, "") as page:
        session = log_in(page, {"code": parts.fragment.removeprefix("code=")}).ok()
    return str(session["user"]["username"])


def test_the_link_logs_in_with_the_certificate_of_the_kubeconfig(server: ServerProcess) -> None:
    assert user_of_link(server, console.console_url(options(server))) == "kubernetes-admin"


def test_the_link_logs_in_with_a_token(server: ServerProcess) -> None:
    assert user_of_link(server, console.console_url(options(server, "alice-token"))) == "alice"


def run(server: ServerProcess, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if "DISPLAY" not in name and name != "BROWSER"}
    return subprocess.run(
        [sys.executable, "-m", "apiserver", "console", f"--kubeconfig={server.kubeconfig}", *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_browser_is_opened_with_the_link(server: ServerProcess, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o700)
    done = run(server, BROWSER=f"{browser} %s")
    assert (done.returncode, done.stderr) == (0, "")
    assert opened.read_text() == done.stdout.strip()
    assert user_of_link(server, opened.read_text()) == "kubernetes-admin"


TOLD: Final[dict[str, tuple[tuple[str, ...], Mapping[str, str], int, str]]] = {
    "without a screen": ((), {}, 0, "Open this URL in a browser within 60 seconds."),
    "on request": (("--no-open",), {"BROWSER": "false"}, 0, "Open this URL in a browser within 60 seconds."),
    "if the browser fails": ((), {"BROWSER": "false %s"}, 1, "apiserver: no browser could be started"),
}


@pytest.mark.parametrize(("arguments", "environment", "code", "told"), TOLD.values(), ids=TOLD)
def test_the_link_is_only_printed(
    server: ServerProcess, arguments: tuple[str, ...], environment: Mapping[str, str], code: int, told: str
) -> None:
    done = run(server, *arguments, **environment)
    assert done.returncode == code
    assert done.stderr.startswith(told)
    assert user_of_link(server, done.stdout.strip()) == "kubernetes-admin"


BROWSERS: Final[dict[str, tuple[Mapping[str, str], str, bool]]] = {
    "macOS": ({}, "darwin", True),
    "Windows": ({}, "win32", True),
    "X11": ({"DISPLAY": ":0"}, "linux", True),
    "Wayland": ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
    "a browser that the user names": ({"BROWSER": "w3m"}, "linux", True),
    "a terminal": ({"DISPLAY": ""}, "linux", False),
}


@pytest.mark.parametrize(("environment", "platform", "expected"), BROWSERS.values(), ids=BROWSERS)
def test_where_there_is_a_browser(environment: Mapping[str, str], platform: str, expected: bool) -> None:
    assert console.has_browser(environment, platform) is expected


@pytest.mark.parametrize("token", ["", "alice-token"], ids=["an administrator", "a user without rights"])
def test_a_server_without_a_console_is_told_of_in_one_line(tmp_path: Path, token: str) -> None:
    with ServerProcess(tmp_path / "data", "--console=false") as server:
        with pytest.raises(
            RequestFailed, match=f"^{server.url} does not serve the console: start the server"
        ):
            console.console_url(options(server, token))
        with Api(server, "") as page:
            for path in ("/console/", "/console/config", "/console/session"):
                assert page.get(path).status == 403


def test_credentials_that_are_not_accepted_are_told_of(server: ServerProcess) -> None:
    with pytest.raises(RequestFailed, match="does not accept the credentials"):
        console.console_url(options(server, "nobody-token"))
