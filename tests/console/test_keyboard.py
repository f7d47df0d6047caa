"""Who uses no mouse lists, edits and undoes; keys do nothing while one writes."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.api import Api
from tests.support.chromium import Visit
from tests.support.eventually import eventually
from tests.support.objects import config_map

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"


async def test_list_edit_undo(visit: Visit, api: Api) -> None:
    for name in ("key-a", "key-b"):
        api.post(CONFIG_MAPS, config_map(name, colour="red")).ok()
    path = f"{CONFIG_MAPS}/key-b"

    def colour() -> str:
        return str(api.get(path).ok()["data"]["colour"])

    await visit.log_in()
    page, keys = visit.page, visit.page.keyboard
    await keys.press(":")
    await page.get_by_role("combobox").wait_for()
    await keys.type("cm")
    await page.get_by_role("option", name="configmaps").first.wait_for()
    await keys.press("Enter")
    await page.get_by_text("key-b").wait_for()
    await keys.press("/")
    await keys.type("key-")
    await page.locator(".status", has_text="2 of").wait_for()
    await keys.press("Escape")
    await keys.press("j")
    await keys.press("j")
    await page.locator(".row.current", has_text="key-b").wait_for()
    await keys.press("e")
    await page.locator(".cm-content").wait_for()
    await page.locator(".cm-focused").wait_for()
    await keys.press("Control+Home")
    await keys.press("ArrowDown")
    await keys.press("ArrowDown")
    await keys.press("End")
    assert await page.locator(".cm-activeLine").inner_text() == "  colour: red"
    await keys.press("Control+Backspace")
    await keys.type("green")
    await keys.press("Control+Enter")
    await page.locator(".line.added", has_text="colour: green").wait_for()
    assert colour() == "red"
    await keys.press("Control+s")
    await page.get_by_text("Saved.").wait_for()
    await eventually(lambda: colour() == "green")
    # The view has the focus, and keeps it.
    await page.locator("#main:focus").wait_for()
    await keys.press("u")
    await page.locator("#main:focus").wait_for()
    await page.get_by_role("status").filter(has_text="Undone.").wait_for()
    assert await page.get_by_text("Saved.").count() == 0
    assert colour() == "red"


async def test_the_editor_lets_the_focus_go(visit: Visit, api: Api) -> None:
    """Tab indents in it, so Escape leaves the editor first, and then the view."""
    api.post(CONFIG_MAPS, config_map("focus")).ok()
    await visit.log_in(view="#/edit/core/v1/configmaps/default/focus")
    await visit.page.locator(".cm-focused").wait_for()
    await visit.page.keyboard.press("Escape")
    await visit.page.get_by_role("button", name="Save").and_(visit.page.locator(":focus")).wait_for()
    await visit.page.keyboard.press("Escape")
    await visit.page.get_by_role("tab", name="YAML", selected=True).wait_for()


async def test_keys_do_nothing_while_one_writes(visit: Visit) -> None:
    await visit.log_in(view="#/list/core/v1/configmaps")
    await visit.page.locator("#filter").focus()
    await visit.page.keyboard.type("?:jkd")
    assert await visit.page.locator("#filter").input_value() == "?:jkd"
    assert await visit.page.locator("dialog").count() == 0


async def test_help_names_the_keys_of_the_view(visit: Visit) -> None:
    await visit.log_in(view="#/list/core/v1/configmaps")
    await visit.page.get_by_role("grid").wait_for()
    await visit.page.keyboard.press("?")
    for text in ("Next row", "Edit", "Go to a type or a page"):
        await visit.page.get_by_role("dialog").get_by_text(text).wait_for()
    await visit.page.keyboard.press("Escape")
    await visit.page.get_by_role("dialog").wait_for(state="detached")
