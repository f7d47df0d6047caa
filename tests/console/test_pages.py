"""Every page shows what it is for, on every screen, and to those who cannot see it or use no mouse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from apiserver.testing import ApiServer
from tests.console.tour import STOPS, show
from tests.support.api import Api
from tests.support.chromium import Browser, Page, Visit
from tests.support.definitions import define, definition, new_group
from tests.support.required import library
from tests.support.server_process import ServerProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("furnished"),
]

SERIOUS: Final = ("serious", "critical")
# Its view, on a wide screen and on a narrow one, in the light and in the dark.
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}


async def serious_faults(page: Page) -> list[str]:
    """What axe-core finds that keeps people from using the page."""
    axe = library("axe_playwright_python.async_playwright").Axe()
    found = await axe.run(page)
    return [
        f"{each['id']}: {each['help']}: {[node['html'] for node in each['nodes']][:3]}"
        for each in found.response["violations"]
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("look", LOOKS)
async def test_each_page_can_be_used_by_everybody(browser: Browser, server: ServerProcess, look: str) -> None:
    async with Visit(browser, server, **LOOKS[look]) as visit:
        await visit.log_in()
        found = {}
        for name in STOPS:
            page = await show(visit, name)
            found[name] = await serious_faults(page)
            if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found[name].append("it does not fit")
        assert {name: faults for name, faults in found.items() if faults} == {}
        assert visit.faults == []
        assert visit.foreign == []


@pytest.mark.alone
async def test_ten_tabs_stay_live_with_one_connection_each(browser: Browser, server: ServerProcess) -> None:
    async with Visit(browser, server) as visit:
        await visit.log_in(view="#/list/core/v1/configmaps?ns=default")
        pages = [visit.page, *[await visit.new_page() for _ in range(9)]]
        sockets: list[str] = []
        for page in pages[1:]:
            page.on("websocket", lambda socket: sockets.append(socket.url))
            await page.goto(f"{visit.url}#/list/core/v1/configmaps?ns=default")
        for page in pages:
            await page.locator(".connection.live").wait_for()
        with Api(server) as api:
            api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "in-ten-tabs"}}).ok()
        for page in pages:
            await page.get_by_text("in-ten-tabs").wait_for()
        assert len(sockets) == 9
        assert visit.faults == []


async def test_a_new_definition_appears_at_once(visit: Visit, api: Api) -> None:
    await visit.log_in()
    await visit.page.get_by_text("mutatingwebhookconfigurations").wait_for()
    await visit.page.locator(".connection.live").wait_for()
    define(api, definition(new_group(), plural="gadgets", kind="Gadget"))
    await visit.page.get_by_role("link", name="gadgets").wait_for()


async def test_a_server_of_tests_is_forked_and_its_clock_advanced(browser: Browser) -> None:
    with ApiServer() as server:
        async with Visit(browser, server) as visit:
            page = visit.page
            await visit.log_in(server.admin_token, view="#/tests")
            await page.get_by_label("Hours").fill("2")
            await page.get_by_role("button", name="Advance").click()
            await page.get_by_text("7200 s").wait_for()
            assert server.clock.now() - datetime.now(UTC) > timedelta(hours=1, minutes=59)
            await page.get_by_role("button", name="Fork").click()
            link = page.get_by_role("region", name="Forks").get_by_role("link")
            assert urlsplit(await link.get_attribute("href")).netloc != urlsplit(server.url).netloc
            await page.get_by_role("button", name="Stop").click()
            await page.get_by_text("No forks were started here.").wait_for()
            assert await serious_faults(page) == []
            assert visit.faults == []
