"""What the pages beside those of types and objects show, on a server whose figures the tests know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.console.tour import WIDGET
from tests.support.api import Api
from tests.support.chromium import Page, Visit
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import WITHIN_S
from tests.support.objects import config_map, config_maps, named
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

WATCHES_MAX: Final = 4_321
FLAGS: Final = ("--history", "--runtime-config=api/beta=true", f"--max-watches={WATCHES_MAX}")
ROWS: Final = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
FACTS: Final = """(items) => Object.fromEntries(items.map((item) =>
  [item.querySelector("dt").textContent, item.querySelector("dd").textContent]))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("figures") / "data", *FLAGS) as process:
        yield process


async def rows(page: Page, label: str) -> list[list[str]]:
    """The cells of a table, once there is one."""
    table = page.get_by_role("region", name=label, exact=True)
    await table.wait_for()
    found: list[list[str]] = await table.locator("tbody tr").evaluate_all(ROWS)
    return found


async def facts(page: Page, label: str) -> dict[str, str]:
    """The pairs of a label and a value, once there is one with this label."""
    pairs = page.locator("dl.facts > div")
    await pairs.filter(has_text=label).first.wait_for()
    found: dict[str, str] = await pairs.evaluate_all(FACTS)
    return found


async def test_changes_are_those_of_the_history(visit: Visit, api: Api) -> None:
    api.post("/api/v1/namespaces", named("changed")).ok()
    path = config_maps("changed")
    api.post(path, config_map("kept", a="1")).ok()
    api.patch(f"{path}/kept", {"data": {"a": "2", "b": "1"}}).ok()
    api.post(path, config_map("gone")).ok()
    api.delete(f"{path}/gone").ok()
    await visit.log_in(view="#/changes?ns=changed&by=admin&since=10 minutes")
    page = visit.page
    found = await rows(page, "Changes")
    assert [row[1:4] for row in found] == [
        ["admin", "configmaps changed/gone", "deleted"],
        ["admin", "configmaps changed/gone", "create"],
        ["admin", "configmaps changed/kept", "patch"],
        ["admin", "configmaps changed/kept", "create"],
    ]
    assert found[2][4] == "data.a, data.b"
    await page.get_by_role("status").filter(has_text="4 changes").wait_for()
    await page.get_by_label("By user").fill("nobody")
    await page.get_by_text("Nothing has changed in this period.").wait_for()


async def test_access_says_who_may_do_what_and_why(visit: Visit, api: Api) -> None:
    api.post("/api/v1/namespaces", named("guarded")).ok()
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/guarded"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    api.post(f"{rbac}/roles", {**named("readers"), "rules": [rule]}).ok()
    binding = {
        **named("of-carol"),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "readers"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "carol"}],
    }
    api.post(f"{rbac}/rolebindings", binding).ok()
    await visit.log_in(view="#/access?who=carol&verb=get&resource=configmaps&ns=guarded")
    page = visit.page
    assert await facts(page, "Why") == {
        "Answer": "yes",
        "Why": 'RBAC: allowed by RoleBinding "of-carol/guarded" of Role "readers" to User "carol"',
    }
    (of_carol,) = [row for row in await rows(page, "Subjects") if row[0] == "User carol"]
    assert of_carol[1:3] == ["RoleBinding of-carol", "Role readers"]
    assert "configmaps" in of_carol[3]
    await page.get_by_label("may", exact=True).fill("delete")
    await page.get_by_label("may", exact=True).press("Enter")
    await page.get_by_text("nothing allows it").wait_for()
    # The two answers come one by one.
    await page.get_by_role("cell", name="User carol").wait_for(state="detached")
    assert (await facts(page, "Why"))["Answer"] == "no"
    assert "User carol" not in [row[0] for row in await rows(page, "Subjects")]


async def test_requests_are_counted_by_client_and_refusals_have_their_reason(visit: Visit, api: Api) -> None:
    with api.as_caller("alice-token") as alice:
        for _ in range(3):
            assert alice.get("/api/v1/secrets", headers={"User-Agent": "figures/1 (x)"}).status == 403
    await visit.log_in(view="#/requests?agent=figures")
    noted = await rows(visit.page, "Slow or refused requests")
    assert [row[1:4] for row in noted] == 3 * [["403", "list /api/v1/secrets", "alice"]]
    assert all('User "alice" cannot list resource "secrets"' in row[5] for row in noted)
    (client,) = await rows(visit.page, "Clients")
    assert client[:4] == ["alice", "figures/1", "list secrets", "3"]
    assert client[6:] == ["3", ""]


async def test_deprecations_name_who_asks_and_what_to_use_instead(visit: Visit, api: Api) -> None:
    for _ in range(2):
        api.get("/apis/networking.k8s.io/v1beta1/servicecidrs", headers={"User-Agent": "old/1 (x)"}).ok()
    await visit.log_in(view="#/deprecations")
    found = [row[:6] for row in await rows(visit.page, "Deprecated requests") if row[4] == "old/1"]
    cidrs = "servicecidrs of networking.k8s.io/v1beta1"
    assert found == [[cidrs, "1.37", "networking.k8s.io/v1 ServiceCIDR", "admin", "old/1", "2"]]


async def test_health_shows_checks_and_limits(visit: Visit, api: Api) -> None:
    await visit.log_in(view="#/health")
    page = visit.page
    for name in ("readyz", "livez"):
        checks = api.get(f"/{name}?verbose").body.decode().count("[+]")
        card = page.locator("section.card", has=page.get_by_role("heading", name=f"{name} passes"))
        await card.get_by_text(f"{checks} checks pass", exact=True).wait_for()
    limits = page.locator("section.card", has=page.get_by_role("heading", name="Limits"))
    await limits.get_by_text(f" of {WATCHES_MAX:,}").wait_for()
    shown = await facts(page, "99 % of its calls")
    assert (shown["Available"], shown["Full"], shown["Failed calls"]) == ("yes", "no", "0")
    assert shown["99 % of its calls"].endswith(" ms")
    objects = int(shown["Objects"].replace(",", ""))
    for number in range(5):
        api.post(config_maps("default"), config_map(f"counted-{number}")).ok()
    # Controllers may make others.
    async with asyncio.timeout(WITHIN_S):
        await page.evaluate(GROWN, objects + 5)


# Returns when a page shows so many objects.
GROWN: Final = """(least) => new Promise((done) => {
  const look = () => {
    const label = [...document.querySelectorAll("dt")].find((each) => each.textContent === "Objects");
    if (label && Number(label.nextElementSibling.textContent.replaceAll(",", "")) >= least) done();
    else requestAnimationFrame(look);
  };
  look();
})"""


async def test_health_names_the_checks_that_fail(visit: Visit) -> None:
    async def fail(route: Any) -> None:
        await route.fulfill(status=500, body="[+]ping ok\n[-]storage failed: no quorum\nreadyz check failed")

    await visit.page.route("**/readyz?verbose", fail)
    await visit.log_in(view="#/health")
    card = visit.page.locator("section.card", has=visit.page.get_by_role("heading", name="readyz fails"))
    await card.get_by_text("storage failed: no quorum").wait_for()
    await card.get_by_text("1 checks pass").wait_for()


async def test_cel_expressions_have_a_result_and_a_cost(visit: Visit, api: Api) -> None:
    asked = {"kind": "policy", "expression": "object.data.size()", "object": {"data": {"a": "1", "b": "2"}}}
    answer = api.post("/console/cel", asked).ok()
    api.post(config_maps("default"), config_map("evaluated", a="1", b="2")).ok()
    await visit.log_in(view="#/cel?resource=configmaps&ns=default&name=evaluated")
    page = visit.page
    assert (await facts(page, "Result"))["Result"] == "true"
    expression = page.get_by_role("textbox", name="Expression")
    await expression.fill("object.data.size()")
    await page.get_by_role("button", name="Take this object").click()
    await page.locator("dl.facts dd", has_text="2").first.wait_for()
    shown = await facts(page, "Cost")
    assert (shown["Result"], shown["Type"]) == ("2", answer["type"])
    assert shown["Cost"] == f"{answer['cost']} of {answer['costLimit']:,}"
    await expression.fill("object.data +")
    await page.get_by_role("status").filter(has_text="1:14").wait_for()


async def test_definitions_show_fields_with_their_rules(visit: Visit, api: Api) -> None:
    group = new_group()
    old = version("v1beta1", schema=WIDGET, storage=False, deprecated=True, deprecationWarning="use v1")
    define(api, definition(group, version(schema=WIDGET), old, plural="dials", kind="Dial"))
    await visit.log_in(view="#/definitions?q=dials")
    page = visit.page
    assert await rows(page, "Types") == [["Dial", "dials", f"{group}/v1", "namespaced", ""]]
    await page.get_by_role("link", name="Dial", exact=True).click()
    assert await rows(page, "Versions") == [
        ["v1", "yes", "yes", "yes", ""],
        ["v1beta1", "yes", "no", "no", "use v1"],
    ]
    spec = page.locator("li", has=page.locator("summary", has_text="spec"))
    await spec.locator("summary").click()
    for text in (
        "size integer required",
        "How many there are. At least one.",
        'colour "red" | "green" default "red"',
        "self.size < 10",
        "too many",
    ):
        await spec.locator("li, .about").filter(has_text=text).first.wait_for()
