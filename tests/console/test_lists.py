"""The list of a type: the server's table, live, whatever its length."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import Put
from tests import corpus
from tests.support.api import Api
from tests.support.chromium import Browser, Page, Visit
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import until
from tests.support.kubectl import Kubectl, program, usable_versions
from tests.support.objects import config_map, named
from tests.support.served import TABLE
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# They differ from one moment to the next.
TIMES: Final = {"AGE", "LAST SEEN", "FIRST SEEN", "DURATION"}


# Without the boxes that mark rows.
CELLS: Final = """(rows) => rows.map((row) =>
  [...row.querySelectorAll("[role=gridcell]")]
    .filter((cell) => !cell.querySelector("input"))
    .map((cell) => cell.textContent))"""
HEADS: Final = """(cells) => cells
  .filter((cell) => !cell.hasAttribute("aria-label"))
  .map((cell) => cell.textContent.trim().replace(/ [▾▴]$/, ""))"""


async def cells(page: Page) -> list[list[str]]:
    """The rows on the screen."""
    rows = page.locator("[role=grid] [role=row]:has([role=gridcell])")
    found: list[list[str]] = await rows.evaluate_all(CELLS)
    return found


async def heads(page: Page) -> list[str]:
    found: list[str] = await page.locator("[role=columnheader]").evaluate_all(HEADS)
    return found


@pytest.mark.kubectl
async def test_cells_are_those_of_kubectl(visit: Visit, api: Api, furnished: None, tmp_path: Path) -> None:
    """For types whose objects the simulated nodes and workloads keep, and for a custom type."""
    own_columns = [
        {"name": "Count", "type": "integer", "jsonPath": ".spec.n"},
        {"name": "Note", "type": "string", "jsonPath": ".spec.a", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    gadgets = definition(
        new_group(), version(additionalPrinterColumns=own_columns), plural="gadgets", kind="Gadget"
    )
    define(api, gadgets).create("one", spec={"n": 3, "a": "x"}).ok()
    kept = {"pods", "deployments", "replicasets", "nodes", "services", "endpointslices", "gadgets"}
    types = [each for each in listed_types(api) if each[2] in kept]
    await visit.log_in()
    assert await types_as_of_kubectl(visit, types, tmp_path) == [resource for _, _, resource in types]
    assert {resource for _, _, resource in types} == kept


@pytest.mark.kubectl
async def test_cells_of_each_type_are_those_of_kubectl(browser: Browser, tmp_path: Path) -> None:
    """The corpus has objects of each built-in type that can be created."""
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        for manifest in corpus.manifests():
            api.post(manifest.collection(manifest.type_in(TABLE)), manifest.document).ok()
        # Of the type that the corpus defines.
        head = {"apiVersion": "store.example.com/v1", "kind": "Backup"}
        backup = {**head, **named("one"), "spec": {"schedule": "0 * * * *"}}
        path = "/apis/store.example.com/v1/namespaces/default/backups"
        until(lambda: api.post(path, backup), lambda answer: answer.status == 201)
        types = list(listed_types(api))
        async with Visit(browser, server, viewport=TALL) as visit:
            await visit.log_in()
            compared = await types_as_of_kubectl(visit, types, tmp_path)
            assert visit.faults == []
    assert {resource for _, _, resource in types} - set(compared) == set(WITHOUT_OBJECTS)


# A list draws as many rows as are in view, and not more than 90.
TALL: Final = {"width": 1280, "height": 2_900}
# Types that are listed and cannot be created, with the reason.
WITHOUT_OBJECTS: Final = {"componentstatuses": "they are deprecated, and never exist"}


async def types_as_of_kubectl(
    visit: Visit, types: Sequence[tuple[str, str, str]], directory: Path
) -> list[str]:
    """Compares lists with what `kubectl get -A -o wide` prints. Returns the types that have objects.

    types: as `listed_types`.
    """
    kubectl = Kubectl(program(usable_versions()[-1]), visit.server.kubeconfig, "", directory)
    compared = []
    for group, preferred, resource in types:
        name = f"{resource}.{preferred}.{group}"
        printed = await asyncio.to_thread(kubectl.run, "get", name, "-A", "-o", "wide")
        if not printed.stdout:
            continue
        titles, expected = columns(printed.stdout)
        await visit.show(f"#/list/{group or 'core'}/{preferred}/{resource}?wide=1")
        await visit.page.locator(".status", has_text=re.compile(f"^{len(expected)}$")).wait_for()
        shown = [title.upper() for title in await heads(visit.page)]
        assert shown == titles
        assert without_times(shown, await cells(visit.page)) == without_times(titles, expected), resource
        compared.append(resource)
    return compared


def listed_types(api: Api) -> Iterator[tuple[str, str, str]]:
    """Group, preferred version and plural of each type that can be listed."""
    for path in ("/api", "/apis"):
        for group in api.get(path, headers={"Accept": DISCOVERY}).ok()["items"]:
            version = group["versions"][0]
            for resource in version["resources"]:
                if "list" in resource["verbs"]:
                    yield group["metadata"].get("name", ""), version["version"], resource["resource"]


def columns(table: str) -> tuple[list[str], list[list[str]]]:
    """The titles and the cells of what kubectl prints: each column begins where its title does."""
    head, _, rest = table.partition("\n")
    starts = [match.start() for match in re.finditer(r"\S+(?: \S+)*", head)]
    bounds = list(zip(starts, [*starts[1:], None], strict=False))

    def cut(line: str) -> list[str]:
        return [line[start:end].strip() for start, end in bounds]

    return cut(head), [cut(line) for line in rest.splitlines()]


def without_times(titles: list[str], rows: list[list[str]]) -> list[list[str]]:
    return sorted(
        [cell for title, cell in zip(titles, row, strict=True) if title not in TIMES] for row in rows
    )


async def test_changes_are_shown_as_they_happen(visit: Visit, api: Api) -> None:
    await visit.log_in(view="#/list/core/v1/configmaps?ns=default")
    await visit.page.locator(".connection.live").wait_for()
    row = visit.page.locator("[role=row]", has_text="live-1")
    api.post(CONFIG_MAPS, config_map("live-1", a="1")).ok()
    await row.wait_for()
    api.put(f"{CONFIG_MAPS}/live-1", config_map("live-1", a="1", b="2")).ok()
    await row.get_by_text("2", exact=True).wait_for()
    api.delete(f"{CONFIG_MAPS}/live-1").ok()
    await row.wait_for(state="detached")


async def test_no_row_is_missed_or_doubled_while_the_connection_is_cut(visit: Visit, api: Api) -> None:
    opened: list[Any] = []
    is_cut = False

    async def relay(socket: Any) -> None:
        if is_cut:
            await socket.close()
            return
        socket.connect_to_server()
        opened.append(socket)

    await visit.context.route_web_socket(re.compile("/console/watches$"), relay)
    await visit.log_in(view="#/list/core/v1/configmaps?ns=default&q=cut-")
    await visit.page.locator(".connection.live").wait_for()
    api.post(CONFIG_MAPS, config_map("cut-0")).ok()
    await visit.page.get_by_text("cut-0").wait_for()
    is_cut = True
    await opened[-1].close()
    await visit.page.locator(".connection.interrupted").wait_for()
    for number in range(1, 6):
        api.post(CONFIG_MAPS, config_map(f"cut-{number}")).ok()
    api.delete(f"{CONFIG_MAPS}/cut-0").ok()
    is_cut = False
    await visit.page.get_by_text("cut-5").wait_for()
    await visit.page.locator(".connection.live").wait_for()
    found = await cells(visit.page)
    assert sorted(row[0] for row in found) == [f"cut-{number}" for number in range(1, 6)]


@pytest.mark.parametrize(
    ("query", "shown"),
    {
        "words": ("q=sel-1", ["sel-1"]),
        "labels": ("l=tier%3Dtwo", ["sel-2", "sel-3"]),
        "fields": ("f=metadata.name%3Dsel-2", ["sel-2"]),
        "sorted": ("q=sel-&sort=-Name", ["sel-3", "sel-2", "sel-1"]),
        "sorted by a number": ("q=sel-&sort=Data", ["sel-1", "sel-2", "sel-3"]),
    }.values(),
)
async def test_rows_are_chosen_and_ordered(visit: Visit, api: Api, query: str, shown: list[str]) -> None:
    for number, tier in enumerate(("one", "two", "two"), 1):
        body = config_map(f"sel-{number}", **{f"k{each}": "v" for each in range(number * 5)})
        body["metadata"]["labels"] = {"tier": tier}
        api.post(CONFIG_MAPS, body)
    await visit.log_in(view=f"#/list/core/v1/configmaps?ns=default&{query}")
    await visit.page.get_by_text(shown[0]).wait_for()
    await visit.page.locator(".status", has_text=str(len(shown))).wait_for()
    assert [row[0] for row in await cells(visit.page)] == shown


async def test_keys_act_on_no_row_but_the_current_one(visit: Visit, api: Api) -> None:
    for name in ("cursor-a", "cursor-b"):
        api.post(CONFIG_MAPS, config_map(name)).ok()
    await visit.log_in(view="#/list/core/v1/configmaps?ns=default&q=cursor-")
    page, keys = visit.page, visit.page.keyboard
    await page.get_by_text("cursor-b").wait_for()
    await keys.press("d")
    assert await page.get_by_role("dialog").count() == 0
    await keys.press("j")
    await keys.press("j")
    await page.locator(".row.current", has_text="cursor-b").wait_for()
    await page.locator(".connection.live").wait_for()
    api.delete(f"{CONFIG_MAPS}/cursor-b").ok()
    await page.get_by_text("cursor-b").wait_for(state="detached")
    await keys.press("d")
    assert await page.get_by_role("dialog").count() == 0


async def test_further_columns_by_json_path(visit: Visit, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("path", k="value of k")).ok()
    await visit.log_in(view="#/list/core/v1/configmaps?ns=default&q=path&columns=.data.k")
    await visit.page.get_by_text("value of k").wait_for()
    assert (await heads(visit.page))[-1] == ".data.k"


async def test_objects_are_deleted_after_a_trial(visit: Visit, api: Api) -> None:
    for name in ("bulk-0", "bulk-1", "bulk-2", "beside"):
        api.post(CONFIG_MAPS, config_map(name)).ok()
    await visit.log_in(view="#/list/core/v1/configmaps?ns=default&q=bulk-")
    page = visit.page
    for number in (0, 1):
        await page.get_by_label(f"Mark bulk-{number}").check()
    await page.get_by_role("button", name="Delete 2…").click()
    await page.get_by_role("button", name="Try it (dry run)").click()
    await page.get_by_text("2 would be deleted, 0 refused.").wait_for()
    assert api.get(f"{CONFIG_MAPS}/bulk-0").status == 200
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_text("2 deleted, 0 refused.").wait_for()
    await page.get_by_role("button", name="Close").click()
    await page.locator(".status", has_text="1 of").wait_for()
    assert [row[0] for row in await cells(page)] == ["bulk-2"]


# ---- many

MANY: Final = 50_000
FIRST_ROWS_S, ALL_ROWS_S, FILTERED_S, ROW_ELEMENTS_MAX, HEAP_BYTES_MAX = 0.5, 5.0, 0.1, 100, 150 * 2**20


async def fill(directory: Path) -> None:
    """Writes ConfigMaps into a store, as a server has them in it."""
    store = await EmbeddedStore.open(directory / "store", durable=False)
    for first in range(0, MANY, 100):
        await store.transact(
            [],
            [
                Put(f"/registry/core/configmaps/many/item-{number:05}", _stored(number))
                for number in range(first, first + 100)
            ],
        )
    await store.close()


def _stored(number: int) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"item-{number:05}",
            "namespace": "many",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": f"app-{number % 50}"},
        },
        "data": {"k": "v"},
    }
    return json.dumps(document).encode()


@pytest.mark.alone
async def test_fifty_thousand_rows(browser: Browser, tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        api.post("/api/v1/namespaces", {"metadata": {"name": "many"}}).ok()
        async with Visit(browser, server) as visit:
            await visit.log_in()
            page, start = visit.page, time.monotonic()
            await visit.show("#/list/core/v1/configmaps?ns=many")
            await page.locator("[role=row]", has_text="item-00000").wait_for()
            first_rows_s = time.monotonic() - start
            await (
                page.locator(".status", has_text="50,000")
                .and_(page.locator(".status", has_not_text="Reading"))
                .wait_for()
            )
            all_rows_s = time.monotonic() - start
            texts = ("item-49", "item-499", "item-4999")
            filtered_s = statistics.median([await page.evaluate(FILTER, text) for text in texts])
            await page.locator(".status", has_text="10 of 50,000").wait_for()
            elements = await page.locator("[role=row]").count()
            heap_bytes = await page.evaluate("performance.memory.usedJSHeapSize")
            found = (first_rows_s, all_rows_s, filtered_s, elements, heap_bytes)
            most = (FIRST_ROWS_S, ALL_ROWS_S, FILTERED_S, ROW_ELEMENTS_MAX, HEAP_BYTES_MAX)
            assert all(each <= limit for each, limit in zip(found, most, strict=True)), found


# Writes into the filter as a user types, and returns how many seconds later the rows are others.
FILTER: Final = """async (text) => {
  const field = document.getElementById("filter");
  const status = document.querySelector(".status");
  const start = performance.now();
  field.value = text;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  await new Promise((done) => {
    new MutationObserver(done).observe(status, {childList: true, characterData: true, subtree: true});
  });
  return (performance.now() - start) / 1000;
}"""


@pytest.mark.alone
async def test_an_update_is_on_the_screen_at_once(visit: Visit, api: Api) -> None:
    """Within 100 ms after the write was answered: the best of three, as the browser paints when it can."""
    await visit.log_in(view="#/list/core/v1/configmaps?ns=default&q=soon-")
    await visit.page.locator(".connection.live").wait_for()
    times = []
    for number in range(3):
        seen = asyncio.ensure_future(visit.page.evaluate(APPEARS, f"soon-{number}"))
        await asyncio.sleep(0)
        await asyncio.to_thread(api.post, CONFIG_MAPS, config_map(f"soon-{number}"))
        answered_at = time.time()
        times.append(await seen / 1000 - answered_at)
    assert min(times) <= 0.1, times


# Returns when a text is on the screen, in milliseconds since 1970.
APPEARS: Final = """(text) => new Promise((done) => {
  const look = () => {
    if (document.body.textContent.includes(text)) done(performance.timeOrigin + performance.now());
    else requestAnimationFrame(look);
  };
  look();
})"""
