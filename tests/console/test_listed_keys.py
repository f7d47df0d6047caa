"""Each key that the help of a view lists does what the help says."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pytest

from tests.console.test_static_files import PAGES
from tests.support.api import Api
from tests.support.chromium import Page, Visit
from tests.support.objects import config_map

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
OBJECT: Final = "core/v1/configmaps/default/listed-a"
CURRENT: Final = ".row.current :text-is('{}')"
DELETING: Final = "dialog[aria-label^='Delete 1 ConfigMap']"
FILTER: Final = "#filter:focus"
MARKED: Final = "[aria-label='Mark listed-a']:checked"
TAB: Final = "[role=tab][aria-selected=true]:text-is('{}')"


class Key(NamedTuple):
    """What a key does. then: the end of the URL, or a selector of what is there.

    after: the keys that are pressed before it.
    """

    then: str
    after: tuple[str, ...] = ()


class View(NamedTuple):
    """A view with keys. module: the one that adds them. ready: a selector of what is there when they work.

    after: the keys that are pressed then.
    """

    module: str
    address: str
    ready: str
    keys: dict[str, Key]
    after: tuple[str, ...] = ()


# The keys of the shell, which all views list. They are pressed in the first one.
EVERYWHERE: Final = {
    ":": Key("dialog[aria-label='Go to']"),
    "?": Key("dialog[aria-label='Keys']"),
}
VIEWS: Final = {
    "all types": View(
        "views/types.js",
        "#/types",
        ":text('mutatingwebhookconfigurations')",
        {**EVERYWHERE, "/": Key(FILTER), "Escape": Key("#/nothing")},
    ),
    "definitions": View(
        "views/definitions.js",
        "#/definitions",
        ":text('mutatingwebhookconfigurations')",
        {"/": Key(FILTER), "Escape": Key("#/nothing")},
    ),
    "a list": View(
        "views/list.js",
        "#/list/core/v1/configmaps?ns=default&q=listed-",
        ":text('listed-c')",
        {
            "j": Key(CURRENT.format("listed-b"), ("j",)),
            "ArrowDown": Key(CURRENT.format("listed-b"), ("j",)),
            "k": Key(CURRENT.format("listed-a"), ("j", "j")),
            "ArrowUp": Key(CURRENT.format("listed-a"), ("j", "j")),
            "g": Key(CURRENT.format("listed-a"), ("j", "j", "j")),
            "Home": Key(CURRENT.format("listed-a"), ("j", "j", "j")),
            "G": Key(CURRENT.format("listed-c")),
            "End": Key(CURRENT.format("listed-c")),
            "Enter": Key(f"#/object/{OBJECT}", ("j",)),
            "y": Key(f"#/object/{OBJECT}?tab=yaml", ("j",)),
            "h": Key(f"#/object/{OBJECT}?tab=history", ("j",)),
            "e": Key(f"#/edit/{OBJECT}", ("j",)),
            "x": Key(MARKED, ("j",)),
            "Space": Key(MARKED, ("j",)),
            "d": Key(DELETING, ("j",)),
            "Delete": Key(DELETING, ("j",)),
            "/": Key(FILTER),
            "w": Key("&wide=1"),
            "Escape": Key("#/types"),
        },
    ),
    "an object that was edited": View(
        "views/object.js",
        f"#/object/{OBJECT}",
        "[role=tabpanel]",
        {
            "o": Key(TAB.format("Overview"), ("h",)),
            "y": Key(TAB.format("YAML")),
            "f": Key(TAB.format("Fields")),
            "h": Key(TAB.format("History")),
            "e": Key(f"#/edit/{OBJECT}"),
            "d": Key(DELETING),
            "Delete": Key(DELETING),
            "Escape": Key("#/list/core/v1/configmaps?ns=default"),
            # From then on there is nothing to undo.
            "u": Key("[role=status]:text('Undone.')"),
        },
    ),
    "an editor": View(
        "views/edit.js",
        f"#/edit/{OBJECT}",
        ".cm-focused",
        {"Escape": Key(f"#/object/{OBJECT}?tab=yaml")},
        # The editor has the focus, and its own keys.
        after=("Escape",),
    ),
}
# They work, and are too many for the help.
HIDDEN: Final = {
    "PageDown": Key(CURRENT.format("listed-c")),
    "PageUp": Key(CURRENT.format("listed-a"), ("G",)),
}


async def show(visit: Visit, view: View) -> Page:
    """Shows a view as it is at first."""
    await visit.show("#/nothing")
    await visit.page.get_by_text("There is no such page.").wait_for()
    await visit.show(view.address)
    await visit.page.locator(view.ready).first.wait_for()
    for key in view.after:
        await visit.page.keyboard.press(key)
    return visit.page


async def edit(visit: Visit) -> None:
    """Saves a change of the object, which can be undone."""
    page, keys = visit.page, visit.page.keyboard
    await visit.show(f"#/edit/{OBJECT}")
    await page.locator(".cm-focused").wait_for()
    for key in ("Control+Home", "ArrowDown", "ArrowDown", "End", "ArrowLeft", "Backspace", "2", "Control+s"):
        await keys.press(key)
    await page.get_by_text("Saved.").wait_for()


async def listed_keys(page: Page) -> list[str]:
    """The keys that the help of the view lists, which the view itself and the page have in their tables."""
    await page.keyboard.press("?")
    await page.get_by_role("dialog", name="Keys").wait_for()
    found: list[str] = await page.locator("dl.keys kbd").all_inner_texts()
    await page.keyboard.press("Escape")
    return found


async def press(page: Page, name: str, key: Key) -> None:
    """Presses a key, and awaits what it does."""
    for each in key.after:
        await page.keyboard.press(each)
    if "#/" in key.then or key.then.startswith("&"):
        await page.keyboard.press(name)
        await page.wait_for_url(re.compile(f"{re.escape(key.then)}$"))
        return
    assert await page.locator(key.then).count() == 0, name
    await page.keyboard.press(name)
    await page.locator(key.then).wait_for()
    if await page.locator("dialog[open]").count():
        await page.keyboard.press("Escape")
        await page.locator("dialog[open]").wait_for(state="detached")


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
async def test_each_listed_key_does_what_the_help_says(visit: Visit, api: Api, view: View) -> None:
    api.delete(f"{CONFIG_MAPS}?labelSelector=of=keys").ok()
    for name in "abc":
        body = config_map(f"listed-{name}", a="1")
        body["metadata"]["labels"] = {"of": "keys"}
        api.post(CONFIG_MAPS, body).ok()
    await visit.log_in()
    if "u" in view.keys:
        await edit(visit)
    listed = await listed_keys(await show(visit, view))
    # A key that is listed twice does but one of both.
    assert sorted(listed) == sorted(EVERYWHERE | view.keys)
    hidden = HIDDEN if view.module == "views/list.js" else {}
    for name, key in {**view.keys, **hidden}.items():
        await press(await show(visit, view), name, key)


async def test_the_views_with_keys_are_these() -> None:
    modules = {
        str(path.relative_to(PAGES)) for path in PAGES.rglob("*.js") if "useKeys([" in path.read_text()
    }
    assert modules == {view.module for view in VIEWS.values()} | {"shell.js"}
