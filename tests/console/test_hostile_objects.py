"""Whatever objects contain, nothing of it runs, and the page stays usable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.storage.interface import VALUE_BYTES_MAX
from tests.support.api import Api
from tests.support.chromium import Visit
from tests.support.definitions import OPEN_SPEC, Defined, define, definition, new_group, version
from tests.support.objects import config_map

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SCRIPTS: Final = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "</style><script>alert(1)</script>",
    "${alert(1)} {{constructor.constructor('alert(1)')()}}",
    "\u202eevil \u0000 \u2028 \ud83d\ude00",
)
TABS: Final = ("overview", "yaml", "form", "history")


def hostile(name: str) -> dict[str, Any]:
    data = {f"k{number}": text for number, text in enumerate(SCRIPTS)}
    body = config_map(name, **data)
    body["metadata"]["annotations"] = {f"a/{key}": text for key, text in data.items()}
    body["metadata"]["managedFields"] = []
    return body


async def test_texts_of_objects_are_only_texts(visit: Visit, api: Api) -> None:
    api.post(f"{CONFIG_MAPS}?fieldManager=%3Cscript%3E", hostile("hostile")).ok()
    event = {
        "metadata": {"name": "hostile-event"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "hostile"},
        "type": "Warning",
        "reason": SCRIPTS[1],
        "message": SCRIPTS[0],
    }
    event["involvedObject"]["uid"] = api.get(f"{CONFIG_MAPS}/hostile").ok()["metadata"]["uid"]  # type: ignore[index]
    api.post("/api/v1/namespaces/default/events", event).ok()
    await visit.log_in(view="#/list/core/v1/configmaps?columns=.data.k0 .data.k1")
    await visit.page.get_by_text(SCRIPTS[0]).first.wait_for()
    for tab in TABS:
        await visit.show(f"#/object/core/v1/configmaps/default/hostile?tab={tab}")
        await visit.page.get_by_text(SCRIPTS[1]).first.wait_for()
    await visit.show("#/edit/core/v1/configmaps/default/hostile")
    await visit.page.locator(".cm-content", has_text=SCRIPTS[1]).wait_for()
    assert await visit.page.locator("main script, main svg, main img:not(.cm-widgetBuffer)").count() == 0


VIEWS: Final = (
    "#/<img src=x onerror=alert(1)>",
    "#/list/<script>/v1/x",
    "#/object/core/v1/pods/%00/..%2f..%2fsecrets",
    "#/object/core/v1/pods/-/%ff%fe",
    "#/list/core/v1/pods?ns=../../secrets&l=((((&f=%00&sort=__proto__&columns=.a[",
    "#/object/core/v1/configmaps/default/.",
    "#/object/core/v1/secrets/default/..",
    "#/list/core/v1/configmaps?ns=..",
    "#/changes?since=__proto__&by=<script>",
    "#/cel?x=" + "(" * 2_000,
    "#/object/__proto__/constructor/toString/x/y",
    "#/access?resource=" + "a/" * 500,
)


@pytest.mark.parametrize("view", VIEWS)
async def test_urls_of_others_are_harmless(visit: Visit, view: str) -> None:
    await visit.log_in()
    await visit.show(view)
    await visit.page.locator("nav").get_by_role("link", name="All types").click()
    await visit.page.get_by_text("mutatingwebhookconfigurations").wait_for()


LARGE: Final[Mapping[str, Mapping[str, Any]]] = {
    "1 MB in one line": {"data": {"k": "x" * 1_000_000}},
    "20,000 lines": {"data": {f"key-{number:05}": "some value" for number in range(20_000)}},
    "a block of 100,000 lines": {"data": {"k": "line\n" * 100_000}},
}


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
async def test_large_objects_are_shown(visit: Visit, api: Api, body: Mapping[str, Any]) -> None:
    api.delete(f"{CONFIG_MAPS}/large")
    api.post(CONFIG_MAPS, {**config_map("large"), **body}).ok()
    await visit.log_in()
    for tab in TABS:
        await visit.show(f"#/object/core/v1/configmaps/default/large?tab={tab}")
        await visit.page.get_by_role("tabpanel").wait_for()
    await visit.show("#/object/core/v1/configmaps/default/large?tab=yaml")
    await visit.page.get_by_role("region", name="YAML").wait_for()
    assert await visit.page.locator(".line").count() < 2_000


async def test_the_largest_object_is_shown_and_edited(visit: Visit, api: Api) -> None:
    """It takes 1.5 MB, and its managedFields have tens of thousands of lines."""
    group = new_group()
    defined = define(api, definition(group, version(schema=OPEN_SPEC), plural="giants", kind="Giant"))
    path = largest(api, defined)
    view = f"{group}/v1/giants/default/giant"
    await visit.log_in()
    page = visit.page
    for tab in TABS:
        await visit.show(f"#/object/{view}?tab={tab}")
        await page.get_by_role("tabpanel").wait_for()
    await page.keyboard.press("y")
    region = page.get_by_role("region", name="YAML")
    await region.locator(".line", has_text="kind: Giant").wait_for()
    await page.get_by_label("managedFields").check()
    await region.locator(".line", has_text="fieldsV1:").wait_for()
    await region.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    await region.locator(".line", has_text="sorted-last: end").wait_for()
    assert await region.locator(".line").count() < 200
    await page.keyboard.press("e")
    await page.locator(".cm-line", has_text="first: begin").click()
    await page.keyboard.press("End")
    await page.keyboard.type("ning")
    await page.keyboard.press("Control+Enter")
    await page.locator(".line.added", has_text="first: beginning").wait_for()
    assert await page.locator(".line.added, .line.removed").count() == 2
    await page.keyboard.press("Control+s")
    await page.get_by_text("Saved.").wait_for()
    assert api.get(path).ok()["spec"]["first"] == "beginning"


def largest(api: Api, defined: Defined) -> str:
    """Creates an object that nearly takes what a stored object may, and returns its path."""
    spec: dict[str, Any] = {
        "first": "begin",
        "items": [{"name": f"item-{number:05}", "ports": [80, 443]} for number in range(5_000)],
        "keys": {f"key-{number:05}": "value" for number in range(10_000)},
        "long": "",
        "sorted-last": "end",
    }
    defined.create("giant", spec=spec).ok()
    path, margin = f"{defined.objects()}/giant", 2_000
    spec["long"] = "x" * (VALUE_BYTES_MAX - len(api.get(path).body) - margin)
    api.patch(path, {"spec": {"long": spec["long"]}}).ok()
    assert api.patch(path, {"spec": {"long": spec["long"] + 2 * margin * "x"}}).status == 413
    return path


@pytest.mark.parametrize("target", ["default/.", "default/..", "../pods", "./pods"])
async def test_a_link_shows_no_collection_as_an_object(visit: Visit, api: Api, target: str) -> None:
    """A browser resolves dots in paths: what would be deleted is not what the link names."""
    api.post(CONFIG_MAPS, config_map("stays"))
    sent: list[str] = []
    await visit.log_in()
    visit.page.on("request", lambda request: sent.append(request.url))
    await visit.show(f"#/object/core/v1/configmaps/{target}")
    await visit.page.get_by_text("is not the name of an object").first.wait_for()
    assert await visit.page.get_by_role("button", name="Delete…").count() == 0
    assert not [url for url in sent if url.endswith(("/configmaps/", "/default/", "/namespaces/pods"))]
