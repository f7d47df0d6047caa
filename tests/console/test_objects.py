"""One object: edited safely, with what would be stored; who wrote it; how a change is taken back."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.support.api import APPLY, Api
from tests.support.chromium import Page, Visit
from tests.support.definitions import define, definition, new_group
from tests.support.eventually import until
from tests.support.forked_server import ForkedServer
from tests.support.objects import config_map

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"


def view(name: str, what: str = "object", **query: str) -> str:
    text = "&".join(f"{key}={value}" for key, value in query.items())
    return f"#/{what}/core/v1/configmaps/default/{name}?{text}"


async def leave_editor(page: Page) -> None:
    """Presses Escape until the editor lets the focus go: the first may close what it proposes."""
    save = page.get_by_role("button", name="Save").and_(page.locator(":focus"))
    while not await save.count():
        await page.keyboard.press("Escape")


async def edit_beside_a_rival(visit: Visit, api: Api, name: str, **data: str) -> Page:
    """Opens the editor of a new object, whose data another manager changes then."""
    api.post(CONFIG_MAPS, config_map(name, a="1")).ok()
    await visit.log_in(view=view(name, "edit"))
    await visit.page.locator(".cm-focused").wait_for()
    api.patch(f"{CONFIG_MAPS}/{name}?fieldManager=rival", {"data": data}, type="merge").ok()
    return visit.page


async def test_two_tabs_edit_one_object(visit: Visit, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("two-tabs", a="1")).ok()
    await visit.log_in(view=view("two-tabs", "edit"))
    one = visit.page
    two = await visit.new_page()
    await two.goto(f"{visit.url}{view('two-tabs', 'edit')}")
    for page, value in ((one, "2"), (two, "3")):
        await page.locator(".cm-focused").wait_for()
        await page.keyboard.press("Control+Home")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("End")
        await page.keyboard.press("ArrowLeft")
        await page.keyboard.press("Backspace")
        await page.keyboard.type(value)
        await page.keyboard.press("Control+s")
        if page is one:
            await page.get_by_text("Saved.").wait_for()
    await two.get_by_text("The manager console has changed the object meanwhile.").wait_for()
    assert api.get(f"{CONFIG_MAPS}/two-tabs").ok()["data"] == {"a": "2"}
    await two.get_by_role("button", name="Keep my text and review it").click()
    await two.locator(".line.removed", has_text='a: "2"').wait_for()
    await two.keyboard.press("Control+s")
    await two.get_by_text("Saved.").wait_for()
    assert api.get(f"{CONFIG_MAPS}/two-tabs").ok()["data"] == {"a": "3"}


async def test_after_a_conflict_one_can_begin_with_what_is_stored(visit: Visit, api: Api) -> None:
    page = await edit_beside_a_rival(visit, api, "conflict", a="2")
    await page.keyboard.press("Control+End")
    await page.keyboard.type("# a comment")
    await page.keyboard.press("Control+s")
    await page.get_by_text("The manager rival has changed the object meanwhile.").wait_for()
    await page.get_by_role("button", name="Discard my text and reload").click()
    await page.locator(".cm-line", has_text='a: "2"').wait_for()
    await page.locator(".cm-focused").wait_for()
    await page.keyboard.press("Control+s")
    await page.get_by_text("Saved.").wait_for()


async def test_unsaved_text_is_not_lost_without_a_question(visit: Visit, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("unsaved", a="1")).ok()
    await visit.log_in(view=view("unsaved", "edit"))
    page = visit.page
    await page.locator(".cm-focused").wait_for()
    await page.keyboard.type("# mine")
    await leave_editor(page)
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Keep editing").click()
    await page.locator(".cm-line", has_text="# mine").wait_for()
    await page.locator("nav").get_by_role("link", name="Pod", exact=True).click()
    await page.get_by_role("button", name="Keep editing").click()
    assert "#/edit/" in page.url
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Discard").click()
    await page.get_by_role("tab", name="YAML", selected=True).wait_for()


async def test_a_definition_that_appears_does_not_disturb_an_edit(visit: Visit, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("undisturbed", a="1")).ok()
    await visit.log_in(view=view("undisturbed", "edit"))
    page = visit.page
    await page.locator(".cm-focused").wait_for()
    await page.keyboard.type("# mine")
    api.patch(f"{CONFIG_MAPS}/undisturbed", {"data": {"a": "2"}}, type="merge").ok()
    define(api, definition(new_group(), plural="novelties", kind="Novelty"))
    await leave_editor(page)
    await page.keyboard.press(":")
    await page.keyboard.type("novelties")
    await page.get_by_role("option", name="novelties").wait_for()
    await page.keyboard.press("Escape")
    await page.locator(".cm-line", has_text="# mine").wait_for()


async def test_the_review_of_an_apply_shows_no_changes_of_others(visit: Visit, api: Api) -> None:
    page = await edit_beside_a_rival(visit, api, "shared", b="2")
    await page.get_by_role("combobox", name="Write by").select_option("apply")
    await page.get_by_role("button", name="Review").click()
    review = page.get_by_role("region", name="What would be stored")
    await review.wait_for()
    assert await review.locator(".line.added, .line.removed").filter(has_text='b: "2"').count() == 0


async def test_an_apply_names_the_manager_in_the_way(visit: Visit, api: Api) -> None:
    body = config_map("applied", a="1")
    api.send("PATCH", f"{CONFIG_MAPS}/applied?fieldManager=gitops", body, type=APPLY).ok()
    await visit.log_in(view=view("applied", "edit"))
    page = visit.page
    await page.locator(".cm-focused").wait_for()
    await page.get_by_role("combobox", name="Write by").select_option("apply")
    await page.locator(".cm-line", has_text='a: "1"').click()
    await page.keyboard.press("End")
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.type("0")
    await page.keyboard.press("Control+s")
    await page.get_by_role("alert").get_by_text("gitops").first.wait_for()
    await page.get_by_role("button", name="Take these fields over from their managers").click()
    await page.get_by_text("Saved.").wait_for()
    assert api.get(f"{CONFIG_MAPS}/applied").ok()["data"] == {"a": "10"}


async def test_what_would_be_stored_has_defaults(visit: Visit, api: Api) -> None:
    await visit.log_in(view="#/create/core/v1/services?ns=default")
    page = visit.page
    await page.locator(".cm-focused").wait_for()
    await page.keyboard.press("Control+a")
    text = "apiVersion: v1\nkind: Service\nmetadata:\n  name: made\nspec:\n  ports:\n  - port: 80\n"
    await visit.paste(text)
    await page.keyboard.press("Control+Enter")
    await page.locator(".line.added", has_text="sessionAffinity: None").wait_for()
    assert api.get("/api/v1/namespaces/default/services/made").status == 404
    await page.keyboard.press("Control+s")
    await page.get_by_role("tab", name="YAML", selected=True).wait_for()
    assert api.get("/api/v1/namespaces/default/services/made").status == 200


async def test_invalid_objects_are_refused_with_their_field(visit: Visit) -> None:
    await visit.log_in(view="#/create/core/v1/configmaps?ns=default")
    await visit.page.locator(".cm-focused").wait_for()
    await visit.page.keyboard.press("Control+Enter")
    await visit.page.get_by_role("alert").get_by_text("metadata.name").first.wait_for()


async def test_fields_are_completed_by_the_schema(visit: Visit) -> None:
    await visit.log_in(view="#/create/apps/v1/deployments?ns=default")
    page = visit.page
    await page.locator(".cm-focused").wait_for()
    await page.keyboard.press("Control+End")
    await visit.paste("spec:\n  template:\n    spec:\n      containers:\n      - imagePull")
    await page.keyboard.press("Control+Space")
    option = page.locator(".cm-tooltip-autocomplete li", has_text="imagePullPolicy")
    await option.wait_for()
    await option.click()
    await page.keyboard.type("If")
    await page.locator(".cm-tooltip-autocomplete li", has_text="IfNotPresent").wait_for()


async def test_a_change_is_taken_back_if_nobody_has_changed_it_since(visit: Visit, api: Api) -> None:
    path = f"{CONFIG_MAPS}/taken"
    api.post(CONFIG_MAPS, config_map("taken", a="1", b="1")).ok()
    first = api.patch(path, {"data": {"a": "2"}}, type="merge").ok()["metadata"]["resourceVersion"]
    api.patch(path, {"data": {"b": "2"}}, type="merge").ok()
    await visit.log_in(view=view("taken", tab="history"))
    page = visit.page
    await page.locator(".version-button", has_text=first).click()
    await page.locator(".line.added", has_text='a: "2"').wait_for()
    await page.get_by_role("button", name="Undo this change…").click()
    await page.get_by_role("region", name="What undoing would change").wait_for()
    assert api.get(path).ok()["data"] == {"a": "2", "b": "2"}
    await page.get_by_role("button", name="Undo", exact=True).click()
    await page.locator(".version-button").nth(3).wait_for()
    assert api.get(path).ok()["data"] == {"a": "1", "b": "2"}
    await page.locator(".version-button", has_text=first).click()
    await page.get_by_role("button", name="Undo this change…").click()
    await page.get_by_role("alert").get_by_text("data.a").wait_for()


async def test_undoing_takes_back_the_change_that_is_shown(visit: Visit, api: Api) -> None:
    path = f"{CONFIG_MAPS}/shown"
    api.post(CONFIG_MAPS, config_map("shown", a="1")).ok()
    versions = [
        api.patch(path, {"data": {key: "1"}}, type="merge").ok()["metadata"]["resourceVersion"]
        for key in "bc"
    ]
    await visit.log_in(view=view("shown", tab="history"))
    page = visit.page
    for version in reversed(versions):
        await page.locator(".version-button", has_text=version).click()
        await page.get_by_role("button", name="Undo this change…").click()
        await page.get_by_role("region", name="What undoing would change").wait_for()
    await page.locator(".line.removed", has_text='b: "1"').wait_for()
    await page.get_by_role("button", name="Undo", exact=True).click()
    await page.locator(".version-button").nth(3).wait_for()
    assert api.get(path).ok()["data"] == {"a": "1", "c": "1"}


async def test_blame_is_that_of_the_command_line(visit: Visit, api: Api) -> None:
    path = f"{CONFIG_MAPS}/blamed"
    api.post(CONFIG_MAPS, config_map("blamed", a="1", b="1", c="1")).ok()
    allow(api, "alice")
    with api.as_caller("alice-token") as alice:
        change = {"data": {"b": "2", "d": "new\nlines\n"}}
        until(lambda: alice.patch(path, change, type="merge"), lambda answer: answer.status == 200)
    api.patch(path, {"metadata": {"labels": {"x": "y"}}, "data": {"c": None}}, type="merge").ok()
    arguments = ("history", "blame", "configmap", "blamed", "--kubeconfig", str(api.server.kubeconfig))
    printed = await asyncio.to_thread(run, arguments)
    await visit.log_in(view=view("blamed", tab="history"))
    await visit.page.get_by_text("who wrote each line").click()
    await visit.page.get_by_role("region", name="Who wrote each line").wait_for()
    margins: Any = await visit.page.locator(".line .margin").evaluate_all(TEXTS)
    lines = await visit.page.locator(".line .code").all_inner_texts()
    # A name stands once for all lines of its author that follow one another.
    users = [next((name for name in reversed(margins[: at + 1]) if name), "") for at in range(len(lines))]
    by_line = {line.strip(): user for line, user in zip(lines, users, strict=True)}
    for line in ('b: "2"', "d: |", "lines"):
        assert by_line[line] == "alice", by_line
    for line in ('a: "1"', 'x: "y"', "name: blamed"):
        assert by_line[line] == "admin", by_line
    assert [line for line in by_line if line in printed] != []


TEXTS: Final = "(all) => all.map((each) => each.textContent)"


def allow(api: Api, user: str) -> None:
    binding = {
        "metadata": {"name": f"{user}-edits"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:aggregate-to-edit",
        },
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
    api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding).ok()


def run(arguments: tuple[str, ...]) -> str:
    command = ForkedServer(arguments)
    out, errors = command.communicate(60)
    assert command.poll() == 0, errors
    return out


async def test_owners_are_shown_beside_each_line(visit: Visit, api: Api) -> None:
    api.send("PATCH", f"{CONFIG_MAPS}/owned?fieldManager=one", config_map("owned", a="1"), type=APPLY).ok()
    api.send("PATCH", f"{CONFIG_MAPS}/owned?fieldManager=two", config_map("owned", b="1"), type=APPLY).ok()
    await visit.log_in(view=view("owned", tab="yaml"))
    for line, manager in (('a: "1"', "one"), ('b: "1"', "two")):
        row = visit.page.locator(".line", has_text=line)
        await row.locator(".margin", has_text=manager).wait_for()


async def test_owners_and_dependents_are_a_tree(visit: Visit, api: Api) -> None:
    owner = api.post(CONFIG_MAPS, config_map("tree-owner")).ok()["metadata"]
    body = config_map("tree-child")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "tree-owner", "uid": owner["uid"]}
    body["metadata"]["ownerReferences"] = [reference]
    api.post(CONFIG_MAPS, body).ok()
    await visit.log_in(view=view("tree-owner"))
    await visit.page.get_by_role("link", name="ConfigMap tree-child").click()
    await visit.page.get_by_role("link", name="ConfigMap tree-owner").wait_for()
    await visit.page.go_back()
    await visit.page.get_by_role("link", name="ConfigMap tree-child").wait_for()
    body["metadata"]["name"] = "tree-late"
    api.post(CONFIG_MAPS, body).ok()
    await visit.page.get_by_role("link", name="ConfigMap tree-late").wait_for()


async def test_the_last_state_of_a_deleted_object_stays(visit: Visit, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("leaving", a="last words")).ok()
    await visit.log_in(view=view("leaving", tab="form"))
    await visit.page.locator(".connection.live").wait_for()
    await visit.page.get_by_text("last words").wait_for()
    await visit.page.get_by_role("tab", name="YAML").click()
    await visit.page.locator(".line", has_text="last words").wait_for()
    api.delete(f"{CONFIG_MAPS}/leaving").ok()
    await visit.page.get_by_text("This object has been deleted.").wait_for()
    await visit.page.get_by_text("last words").wait_for()


async def test_any_two_versions_are_compared_and_the_link_says_which(visit: Visit, api: Api) -> None:
    path = f"{CONFIG_MAPS}/compared"
    first = api.post(CONFIG_MAPS, config_map("compared", a="1")).ok()["metadata"]["resourceVersion"]
    api.patch(path, {"data": {"b": "1"}}, type="merge").ok()
    api.patch(path, {"data": {"c": "1"}}, type="merge").ok()
    await visit.log_in(view=view("compared", tab="history"))
    page = visit.page
    await page.locator(".line.added", has_text='c: "1"').wait_for()
    assert await page.locator(".line.added").count() == 1
    await page.get_by_role("combobox", name="Compare with").select_option(first)
    await page.locator(".line.added", has_text='b: "1"').wait_for()
    assert await page.locator(".line.added").count() == 2
    assert f"from={first}" in page.url
    assert await page.get_by_role("button", name="Undo this change…").count() == 0


async def test_an_edit_of_what_a_controller_follows_is_undone(visit: Visit, api: Api) -> None:
    """Its status changes at once, which is no reason not to."""
    labels = {"app": "followed"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    collection = "/apis/apps/v1/namespaces/default/deployments"
    api.post(collection, {"metadata": {"name": "followed"}, "spec": spec}).ok()
    until(
        lambda: api.get(f"{collection}/followed").ok(),
        lambda found: found["status"].get("readyReplicas") == 1,
    )
    await visit.log_in(view="#/edit/apps/v1/deployments/default/followed")
    page = visit.page
    await page.locator(".cm-line", has_text="replicas: 1").first.click()
    await page.keyboard.press("End")
    await page.keyboard.press("Backspace")
    await page.keyboard.type("2")
    await page.keyboard.press("Control+s")
    await page.get_by_text("Saved.").wait_for()
    until(
        lambda: api.get(f"{collection}/followed").ok(),
        lambda found: found["status"].get("readyReplicas") == 2,
    )
    await page.get_by_role("button", name="Undo").press("Enter")
    # The focus is where the button was, not at the begin of the page.
    await page.get_by_role("status").filter(has_text="Undone.").and_(page.locator(":focus")).wait_for()
    assert api.get(f"{collection}/followed").ok()["spec"]["replicas"] == 1


async def test_events_of_an_object_appear_as_they_happen(visit: Visit, api: Api) -> None:
    made = api.post(CONFIG_MAPS, config_map("eventful")).ok()["metadata"]
    await visit.log_in(view=view("eventful"))
    await visit.page.get_by_text("No events.").wait_for()
    await visit.page.locator(".connection.live").wait_for()
    about = {"kind": "ConfigMap", "namespace": "default", "name": "eventful", "uid": made["uid"]}
    event = {
        "metadata": {"name": "eventful-1"},
        "involvedObject": about,
        "reason": "Noticed",
        "message": "at once",
    }
    api.post("/api/v1/namespaces/default/events", event).ok()
    await visit.page.get_by_role("region", name="Events").get_by_text("at once").wait_for()


async def test_ten_thousand_lines_of_managed_fields(visit: Visit, api: Api) -> None:
    data = {f"key-{number:05}": "v" for number in range(10_000)}
    api.send(
        "PATCH", f"{CONFIG_MAPS}/managed?fieldManager=many", config_map("managed", **data), type=APPLY
    ).ok()
    await visit.log_in(view=view("managed", tab="yaml"))
    page = visit.page
    await page.locator(".line", has_text="key-00000").locator(".margin", has_text="many").wait_for()
    await page.get_by_label("managedFields").check()
    region = page.get_by_role("region", name="YAML")
    await region.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    await (
        page.locator(".line", has_text="operation: Apply")
        .or_(page.locator(".line", has_text="uid:"))
        .first.wait_for()
    )
    assert await page.locator(".line").count() < 200
