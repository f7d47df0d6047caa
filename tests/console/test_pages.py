"""Every page shows what it is for, on every screen, and to those who cannot see it or use no mouse."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import pytest

from apiserver.testing import ApiServer
from tests.console.tour import DEPLOYMENTS, HEIGHT, STOPS, WIDTH, make_pictures, show
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


async def serious_faults(page: Page, within: str = "html", **options: Any) -> list[str]:
    """What axe-core finds that keeps people from using the page.

    within: selects the part that it looks at. options: those of axe-core.
    """
    axe = library("axe_playwright_python.async_playwright").Axe()
    found = await axe.run(page, context=within, options={"resultTypes": ["violations"], **options})
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


async def test_the_pictures_of_all_pages(browser: Browser, server: ServerProcess, tmp_path: Path) -> None:
    """Those of the documentation are made so: `python -m tests.console.tour`."""
    await make_pictures(browser, server, tmp_path)
    made = {path.stem: path.read_bytes() for path in tmp_path.iterdir()}
    assert made.keys() == STOPS.keys()
    assert {struct.unpack(">II", content[16:24]) for content in made.values()} == {(WIDTH, HEIGHT)}
    assert len({*made.values()}) == len(STOPS), "each page looks different"


async def open_login(visit: Visit) -> None:
    """The dialog of a browser without a session, after a token that was wrong."""
    await visit.context.clear_cookies()
    await visit.show("")
    await visit.page.get_by_role("button", name="Log in with the identity provider").wait_for()
    await visit.page.get_by_label("Or paste a bearer token").fill("guessed")
    await visit.page.get_by_role("button", name="Log in", exact=True).click()
    await visit.page.get_by_role("dialog").get_by_role("alert").wait_for()


async def open_other_login(visit: Visit) -> None:
    """The question about a link, whose code somebody else has used meanwhile."""
    await show(visit, "types")
    with api_of(visit) as api:
        code = api.post("/console/login-codes", {}).ok()["code"]
        api.post("/console/session", {"code": code}, headers={"Sec-Fetch-Site": "same-origin"}).ok()
    await visit.show(f"#code={code}")
    await visit.page.get_by_role("button", name="Use the login of the link").click()
    await visit.page.get_by_role("dialog", name="Another login").get_by_role("alert").wait_for()


def api_of(visit: Visit) -> Api:
    return Api(cast(ServerProcess, visit.server))


async def open_deletion(visit: Visit) -> None:
    await visit.show("#/list/apps/v1/deployments?ns=default")
    await visit.page.get_by_label("Mark web").check()
    await visit.page.get_by_role("button", name="Delete 1…").click()
    await visit.page.get_by_role("dialog", name="Delete 1 Deployment?").wait_for()


async def open_deletion_that_was_tried(visit: Visit) -> None:
    await open_deletion(visit)
    await visit.page.get_by_role("button", name="Try it (dry run)").click()
    await visit.page.get_by_text("1 would be deleted, 0 refused.").wait_for()


async def open_help(visit: Visit) -> None:
    await show(visit, "overview")
    await visit.page.get_by_role("button", name="Show the keys").click()
    await visit.page.get_by_role("dialog", name="Keys").wait_for()


async def open_palette(visit: Visit) -> None:
    await show(visit, "types")
    await visit.page.get_by_role("button", name="Go to…").click()
    await visit.page.keyboard.type("dep")
    await visit.page.get_by_role("option", name="deployments").wait_for()


async def begin_apply(visit: Visit, text: str) -> Page:
    """Types a text after the replicas in an editor that applies."""
    page = await show(visit, "edit")
    await page.get_by_role("combobox", name="Write by").select_option("apply")
    await page.locator(".cm-line", has_text="replicas: 3").first.click()
    await page.keyboard.press("End")
    await page.keyboard.type(text)
    return page


async def open_review(visit: Visit) -> None:
    """What an apply would store, beside the editor."""
    page = await begin_apply(visit, "\nminReadySeconds: 1")
    await page.get_by_role("button", name="Review").click()
    await page.locator(".line.added", has_text="minReadySeconds: 1").wait_for()


async def open_refusal(visit: Visit) -> None:
    """The managers in the way of an apply."""
    page = await begin_apply(visit, "0")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("button", name="Take these fields over from their managers").wait_for()


async def open_conflict(visit: Visit) -> None:
    """Somebody else has changed what is edited."""
    page = await show(visit, "edit")
    await page.locator(".cm-focused").wait_for()
    with api_of(visit) as api:
        for value in ("1", None):
            api.patch(f"{DEPLOYMENTS}/web", {"metadata": {"annotations": {"rival": value}}}).ok()
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("button", name="Discard my text and reload").wait_for()


async def open_question(visit: Visit) -> None:
    """What somebody is asked who leaves an editor without saving."""
    await open_review(visit)
    await visit.page.get_by_role("button", name="Cancel").click()
    await visit.page.get_by_role("dialog", name="Discard your changes?").wait_for()


# What is over a page, or is added to it, when somebody acts. The login ends the session of those before it.
OPENED: Final[Mapping[str, Callable[[Visit], Awaitable[None]]]] = {
    "help": open_help,
    "palette": open_palette,
    "deletion": open_deletion,
    "deletion that was tried": open_deletion_that_was_tried,
    "review of an apply": open_review,
    "refusal of an apply": open_refusal,
    "conflict": open_conflict,
    "question about what is not saved": open_question,
    "another login": open_other_login,
    "login": open_login,
}
OVERFLOWS: Final = """[document.documentElement, ...document.querySelectorAll("dialog[open]")]
  .some((element) => element.scrollWidth > element.clientWidth)"""
WIDE: Final = {"width": 1280, "height": 800}
OIDC: Final = {"authorizationEndpoint": "https://issuer.example.com/", "clientID": "c", "scopes": "openid"}


async def test_each_dialog_can_be_used_by_everybody(browser: Browser, server: ServerProcess) -> None:
    async with Visit(browser, server) as visit:
        # The login then has all its buttons.
        answer = {"readOnly": False, "oidc": OIDC}
        await visit.context.route("**/console/config", lambda route: route.fulfill(json=answer))
        await visit.log_in()
        found = {}
        for name, opens in OPENED.items():
            # Of a tab that is closed nothing stays, also no text that is not saved.
            if "#/edit/" in visit.page.url:
                await visit.page.close()
                visit.page = await visit.new_page()
            page = visit.page
            await opens(visit)
            within = "dialog" if await page.get_by_role("dialog").count() else "main"
            found[name, "light"] = await serious_faults(page, within)
            await page.emulate_media(color_scheme="dark")
            # What the colours change.
            found[name, "dark"] = await serious_faults(page, within, runOnly=["color-contrast"])
            await page.set_viewport_size(LOOKS["narrow"]["viewport"])
            found[name, "narrow"] = ["it does not fit"] if await page.evaluate(OVERFLOWS) else []
            await page.set_viewport_size(WIDE)
            await page.emulate_media(color_scheme="light")
            if within == "dialog":
                await page.keyboard.press("Escape")
        assert {name: faults for name, faults in found.items() if faults} == {}
        assert visit.faults == []


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
