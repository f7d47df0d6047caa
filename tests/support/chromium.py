"""A real browser that visits the console of a server, and notes everything that must not happen there."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

from apiserver.testing import ApiServer
from tests.support.required import library, missing
from tests.support.server_process import ServerProcess

# Playwright's types; the library is imported when a test needs it.
Browser: TypeAlias = Any
Page: TypeAlias = Any

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # It would look for updates, and for what else its maker offers.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-precise-memory-info",
)
# How long a test waits for what must be shown.
WITHIN_MS: Final = 20_000
# A page reports what its policy has refused to the window; this passes it on to the console.
_REPORT_VIOLATIONS: Final = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
# What a browser says of any answer that is not a success; whether it was to be expected is the test's matter.
_ANSWER: Final = "Failed to load resource"


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Runs the browser of the system. Skips the test, or fails it, where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing("Chromium", "most distributions have it as `chromium`; it has to be on PATH")
    playwright = library("playwright.async_api")
    # Its sandbox needs a user of its own.
    flags = (*FLAGS, *(("--no-sandbox",) if os.geteuid() == 0 else ()))
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=list(flags))
        try:
            yield browser
        finally:
            await browser.close()


class Visit:
    """A visit of a server's console, in a profile of its own.

    faults: what went wrong in the page, or against its policy. foreign: requests to other servers.
    """

    def __init__(self, browser: Browser, server: ServerProcess | ApiServer, **options: Any) -> None:
        self._browser, self.server, self._options = browser, server, options
        self.faults: list[str] = []
        self.foreign: list[str] = []
        self.page: Page = None
        self.context: Any = None

    async def __aenter__(self) -> Self:
        options = {"viewport": {"width": 1280, "height": 800}, **self._options}
        self.context = await self._browser.new_context(ignore_https_errors=True, **options)
        self.context.set_default_timeout(WITHIN_MS)
        await self.context.add_init_script(_REPORT_VIOLATIONS)
        self.page = await self.new_page()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.context.close()

    async def new_page(self) -> Page:
        """Opens another tab."""
        page = await self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"{error}\n{error.stack}"))
        page.on("console", self._note)
        page.on("request", self._check)
        page.on("dialog", lambda dialog: self.faults.append(f"a dialog: {dialog.message}"))
        return page

    def _note(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith(_ANSWER):
            self.faults.append(message.text)

    def _check(self, request: Any) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.server.url).netloc:
            self.foreign.append(request.url)

    @property
    def url(self) -> str:
        return f"{self.server.url}/console/"

    async def log_in(self, token: str = "admin-token", view: str = "") -> None:
        """Open a view, and paste a token."""
        await self.page.goto(f"{self.url}{view}")
        await self.page.get_by_label("Or paste a bearer token").fill(token)
        await self.page.get_by_role("button", name="Log in", exact=True).click()
        await self.page.get_by_role("button", name="Log out").wait_for()

    async def show(self, view: str) -> None:
        """Show a view of the page that is open."""
        await self.page.goto(f"{self.url}{view}")

    async def paste(self, text: str) -> None:
        """Pastes a text where the focus is."""
        await self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await self.page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
        await self.page.keyboard.press("Control+v")

    async def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=path)
