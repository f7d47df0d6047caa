"""How people log in to the page, and what it does when it may not ask any more, or cannot."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from apiserver.console.static_files import StaticFiles
from tests.support.api import Api
from tests.support.chromium import WITHIN_MS, Browser, Visit
from tests.support.eventually import until
from tests.support.objects import config_map
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
LIST: Final = "#/list/core/v1/configmaps?ns=default"
SESSION_ENDED: Final = "Your session has ended. Log in again to go on."


def code_of(api: Api) -> str:
    return str(api.post("/console/login-codes", {}).ok()["code"])


async def test_a_code_logs_in_once_and_the_cookie_after_a_reload(visit: Visit, api: Api) -> None:
    page, code = visit.page, code_of(api)
    await visit.show(f"#code={code}")
    await page.get_by_text("mutatingwebhookconfigurations").wait_for()
    assert code not in page.url
    await page.reload()
    await page.get_by_text("mutatingwebhookconfigurations").wait_for()
    assert await page.evaluate("document.cookie") == ""
    assert await page.evaluate("localStorage.length + sessionStorage.length") == 0
    await page.get_by_role("button", name="Log out").click()
    await page.get_by_role("dialog", name="Log in").wait_for()
    await page.reload()
    await page.get_by_role("dialog", name="Log in").wait_for()
    await visit.show(f"#code={code}")
    await page.get_by_role("alert").wait_for()


async def test_the_first_view_asks_for_few_files_and_for_each_once(visit: Visit, api: Api) -> None:
    """They are most of the time until something is shown."""
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    # No watch tells the page to ask again.
    await visit.page.route_web_socket("**/console/watches", lambda socket: None)
    await visit.page.goto(f"{visit.url}#code={code_of(api)}")
    await visit.page.get_by_text("mutatingwebhookconfigurations").wait_for()
    files = ("", "console.css", "first_view.js", "icon.svg")
    requests = [
        *(f"/console/{each}" for each in files),
        "/console/config",
        "/console/session",
        "/api",
        "/apis",
    ]
    counts = Counter(asked)
    assert {each: counts[each] for each in requests if each != "/console/icon.svg"} == {
        each: 1 for each in requests if each != "/console/icon.svg"
    }
    assert not [each for each in asked if each.endswith(".js") and each not in requests]
    async with visit.page.expect_request(lambda request: "/configmaps?" in request.url):
        await visit.page.evaluate("location.hash = '#/list/core/v1/configmaps'")
    later = {each.removeprefix("/console/") for each in asked if each.endswith(".js")} - {"first_view.js"}
    # What this view imports of the first one, the browser has already.
    assert "views/list.js" in later
    assert not [each for each in later if each in StaticFiles().joined]


async def test_a_user_learns_that_a_logout_has_failed(visit: Visit, api: Api) -> None:
    page = visit.page
    await visit.show(f"#code={code_of(api)}")
    await page.get_by_text("mutatingwebhookconfigurations").wait_for()

    async def refuse(route: Any) -> None:
        if route.request.method == "DELETE":
            await route.fulfill(status=503, body="{}")
        else:
            await route.continue_()

    await visit.context.route("**/console/session", refuse)
    await page.get_by_role("button", name="Log out").click()
    await page.get_by_text("You are still logged in. The server answered 503.").wait_for()
    await visit.context.unroute("**/console/session")


async def test_a_code_waits_until_it_is_known_that_there_is_no_session(visit: Visit, api: Api) -> None:
    """If the server cannot tell, the session of the cookie may be somebody's whom the link would log out."""
    page, code = visit.page, code_of(api)
    await page.route("**/console/session", lambda route: route.fulfill(status=503, json={"message": "full"}))
    await visit.show(f"#code={code}")
    await page.get_by_role("alert").get_by_text("full").wait_for()
    await page.unroute_all()
    # The page asks again by itself.
    await page.get_by_text("mutatingwebhookconfigurations").wait_for()


async def test_a_code_that_waits_is_offered_to_whoever_logs_in_meanwhile(visit: Visit, api: Api) -> None:
    page = visit.page

    async def answer(route: Any) -> None:
        if "keepSession" in (route.request.post_data or ""):
            await route.fulfill(status=503, json={"message": "full"})
        else:
            await route.continue_()

    await page.route("**/console/session", answer)
    await visit.show(f"#code={code_of(api)}")
    await page.get_by_role("alert").get_by_text("full").wait_for()
    await page.get_by_label("Or paste a bearer token").fill("admin-token")
    await page.get_by_role("button", name="Log in", exact=True).click()
    await page.get_by_role("dialog", name="Another login").wait_for()
    await page.get_by_role("button", name="Stay logged in").click()
    await page.get_by_text("mutatingwebhookconfigurations").wait_for()


async def test_a_link_takes_over_no_session(visit: Visit, api: Api) -> None:
    """Somebody else may have sent it, to see what the victim writes in the attacker's name."""
    await visit.log_in(account_token(api, "victim"), view=LIST)
    name = visit.page.locator("header .user")
    for choice, user in (("Stay logged in", "victim"), ("Use the login of the link", "admin")):
        await visit.show(f"#code={code_of(api)}")
        await visit.page.get_by_role("dialog", name="Another login").wait_for()
        assert await name.inner_text() == "system:serviceaccount:default:victim"
        await visit.page.get_by_role("button", name=choice).click()
        await name.filter(has_text=user).wait_for()


async def test_a_link_takes_over_no_session_that_began_in_another_tab(visit: Visit, api: Api) -> None:
    """The cookie is the whole browser's, whatever this page still asks for."""
    await visit.show("")
    await visit.page.get_by_role("dialog", name="Log in").wait_for()
    waiting, visit.page = visit.page, await visit.new_page()
    await visit.log_in(account_token(api, "tenant"), view=LIST)
    await waiting.evaluate("(code) => { location.hash = `code=${code}`; }", code_of(api))
    await waiting.get_by_role("dialog", name="Another login").wait_for()
    await waiting.locator("header .user").filter(has_text="tenant").wait_for()


async def test_a_wrong_token_is_refused_with_a_reason(visit: Visit) -> None:
    await visit.page.goto(visit.url)
    await visit.page.get_by_label("Or paste a bearer token").fill("guessed")
    await visit.page.get_by_role("button", name="Log in", exact=True).click()
    await visit.page.get_by_role("dialog").get_by_role("alert").wait_for()


def account_token(api: Api, name: str, bound_to: str = "") -> str:
    """A token of a service account that may see ConfigMaps in its namespace.

    bound_to: a Secret, with whose deletion the token ends; empty for none.
    """
    api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}}).ok()
    binding = {
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:aggregate-to-view",
        },
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding).ok()
    spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": bound_to}} if bound_to else {}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    token = str(api.post(path, asked).ok()["status"]["token"])
    with api.as_caller(token) as caller:
        until(lambda: caller.get(CONFIG_MAPS), lambda answer: answer.status == 200)
    return token


async def test_a_revoked_token_asks_for_a_login_and_the_view_goes_on(visit: Visit, api: Api) -> None:
    token = account_token(api, "revoked")
    api.post(CONFIG_MAPS, config_map("seen")).ok()
    await visit.log_in(token, view=LIST)
    await visit.page.get_by_text("seen").wait_for()
    await visit.page.locator(".connection.live").wait_for()
    api.delete("/api/v1/namespaces/default/serviceaccounts/revoked").ok()
    await visit.show("#/object/core/v1/configmaps/default/seen")
    await visit.page.get_by_role("dialog").get_by_text(SESSION_ENDED).wait_for()
    await visit.page.get_by_label("Or paste a bearer token").fill("admin-token")
    await visit.page.get_by_role("button", name="Log in", exact=True).click()
    await visit.page.get_by_role("dialog").wait_for(state="detached")


# What is deleted.
REVOCATIONS: Final = {
    "the service account is deleted": "/api/v1/namespaces/default/serviceaccounts/watching",
    "the token is revoked": "/api/v1/namespaces/default/secrets/bound",
}


@pytest.mark.parametrize("deleted", REVOCATIONS.values(), ids=REVOCATIONS)
async def test_the_subscription_alone_notices_that_a_token_is_revoked(
    browser: Browser, tmp_path: Path, deleted: str
) -> None:
    """Within the interval of the recheck, which is longer than this test waits unless a flag sets it."""
    with (
        ServerProcess(tmp_path / "data", "--authorization-recheck-interval=1s") as server,
        Api(server) as api,
    ):
        api.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "bound"}}).ok()
        token = account_token(api, "watching", bound_to="bound")
        api.post(CONFIG_MAPS, config_map("watched")).ok()
        async with Visit(browser, server) as visit:
            await visit.log_in(token, view=LIST)
            page = visit.page
            await page.get_by_text("watched").wait_for()
            await page.locator(".connection.live").wait_for()
            # What the page has asked for by then is answered.
            await page.wait_for_load_state("networkidle")
            sent: list[str] = []
            page.on("request", lambda request: sent.append(urlsplit(request.url).path))
            api.delete(deleted).ok()
            await page.get_by_role("dialog", name="Log in").get_by_text(SESSION_ENDED).wait_for()
            # The page asks whether the session goes on, once the server has closed the WebSocket.
            assert sent == ["/console/session"]
            await page.get_by_label("Or paste a bearer token").fill("admin-token")
            await page.get_by_role("button", name="Log in", exact=True).click()
            await page.locator("header .user", has_text="admin").wait_for()
            await page.get_by_text("watched").wait_for()
            assert visit.faults == []


async def test_what_a_user_may_not_see_is_said(visit: Visit, api: Api) -> None:
    await visit.log_in(account_token(api, "modest"), view="#/list/core/v1/secrets?ns=default")
    await visit.page.get_by_role("alert").get_by_text("cannot list resource").wait_for()
    await visit.show("#/list/core/v1/nodes")
    await visit.page.get_by_role("alert").get_by_text("Not allowed").wait_for()


async def test_the_page_goes_on_after_the_server_has_restarted(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with Visit(browser, server) as visit:
            with Api(server) as api:
                api.post(CONFIG_MAPS, config_map("before-restart")).ok()
            await visit.log_in(view=LIST)
            await visit.page.get_by_text("before-restart").wait_for()
            await visit.page.locator(".connection.live").wait_for()
            server.stop()
            await visit.page.locator(".connection.interrupted").wait_for()
            server.start()
            with Api(server) as api:
                api.post(CONFIG_MAPS, config_map("after-restart")).ok()
            await visit.page.get_by_text("after-restart").wait_for()
            await visit.page.locator(".connection.live").wait_for()


# By what is shown: the view, and the requests for it.
RECOVERING: Final = {
    "a list": (LIST, f"**{CONFIG_MAPS}?*"),
    "an object": ("#/object/core/v1/configmaps/default/recovers", f"**{CONFIG_MAPS}/recovers"),
    "the events of an object": ("#/object/core/v1/configmaps/default/recovers", "**/events?*"),
}


# What the page says meanwhile.
FAILURES: Final = {
    "is not reached": "The server cannot be reached.",
    "is busy": "busy",
    "has no new token": "The session could not be renewed yet.",
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(("view", "path"), RECOVERING.values(), ids=RECOVERING)
async def test_what_could_not_be_read_is_shown_once_the_server_answers(
    visit: Visit, api: Api, view: str, path: str, failure: str
) -> None:
    """As when it has stopped while a view was being read."""
    api.post(CONFIG_MAPS, config_map("recovers"))
    await visit.log_in()

    async def fail(route: Any) -> None:
        if failure == "is not reached":
            await route.abort()
        elif failure == "has no new token" and "/console/session" not in route.request.url:
            await route.fulfill(status=401, json={"kind": "Status", "code": 401, "message": "expired"})
        else:
            await route.fulfill(status=503, json={"kind": "Status", "code": 503, "message": "busy"})

    message = FAILURES[failure]
    for each in (path, "**/console/session"):
        await visit.page.route(each, fail)
    await visit.show(view)
    await visit.page.get_by_text(message).wait_for()
    await visit.page.unroute_all()
    await visit.page.get_by_text(message).wait_for(state="detached")
    await visit.page.get_by_text("recovers").first.wait_for()


async def test_the_console_asks_what_it_offers_until_the_server_answers(visit: Visit) -> None:
    asked = 0

    async def answer(route: Any) -> None:
        nonlocal asked
        asked += 1
        if asked < 3:
            await route.fulfill(status=503, json={})
        else:
            await route.fulfill(json={"readOnly": True, "oidc": None})

    await visit.page.route("**/console/config", answer)
    await visit.log_in()
    await visit.page.get_by_text("read-only", exact=True).wait_for()


async def test_a_session_ends_only_when_the_server_says_so(visit: Visit, api: Api) -> None:
    """It may be busy when the page asks for a new token, and the token is still valid then."""
    await visit.log_in(account_token(api, "renewing"), view=LIST)
    # A browser reports a handshake that is refused as an error.
    await visit.page.locator(".connection.live").wait_for()
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def refuse(route: Any) -> None:
        await route.fulfill(status=503, json={"message": "busy"})
        asked.put_nowait(route.request.method)

    await visit.page.route("**/console/session", refuse)
    api.delete("/api/v1/namespaces/default/serviceaccounts/renewing").ok()
    await visit.show("#/object/core/v1/configmaps/default/none")
    for _ in range(3):
        assert await asyncio.wait_for(asked.get(), WITHIN_MS / 1000) == "POST"
        assert await visit.page.get_by_role("dialog").count() == 0
    await visit.page.unroute("**/console/session")
    await visit.page.get_by_role("dialog").get_by_text(SESSION_ENDED).wait_for()


async def test_read_only_offers_no_changes(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--console-read-only") as server, Api(server) as api:
        api.post(CONFIG_MAPS, config_map("fixed")).ok()
        async with Visit(browser, server) as visit:
            await visit.log_in(view=LIST)
            await visit.page.get_by_text("fixed").wait_for()
            for view in (LIST, "#/object/core/v1/configmaps/default/fixed"):
                await visit.show(view)
                await visit.page.get_by_text("fixed").first.wait_for()
                for button in ("Create", "Edit", "Delete…"):
                    assert await visit.page.get_by_text(button, exact=True).count() == 0
            await visit.show("#/edit/core/v1/configmaps/default/fixed")
            await visit.page.get_by_text("This console is read-only.").wait_for()


async def test_a_link_holds_the_view_and_no_credential(
    browser: Browser, visit: Visit, server: ServerProcess, api: Api
) -> None:
    api.post(CONFIG_MAPS, config_map("shared-link")).ok()
    await visit.log_in(view=LIST)
    await visit.page.locator("#filter").fill("shared-")
    await visit.page.wait_for_url("**q=shared-**")
    link = visit.page.url
    assert "token" not in link
    async with Visit(browser, server) as other:
        await other.log_in(view=link.removeprefix(other.url))
        await other.page.get_by_text("shared-link").wait_for()
        assert await other.page.locator("#filter").input_value() == "shared-"
